"""Losses of boosters and PyTorch modules equal those computed by hand. Without PyTorch its tests skip."""

from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.metrics import log_loss

from dptune import Rows
from dptune.losses.estimator import estimator_losses
from dptune.losses.models import BoosterModel, TorchModel

X, y = load_breast_cancer(return_X_y=True)
Z = X / X.max(axis=0)
TRAIN, VAL = slice(0, 300), slice(300, None)
BINARY = {"xgboost": "binary:logistic", "lightgbm": "binary"}


def trained(library: str, X, y, **parameters):
    """A native booster, stopped early on a part of its training rows."""
    module = import_module(library)
    fit, stop = slice(0, len(y) * 2 // 3), slice(len(y) * 2 // 3, None)
    if library == "xgboost":
        data = module.DMatrix(X[fit], y[fit]), module.DMatrix(X[stop], y[stop])
        given = {"eta": 1.0, "seed": 0, "nthread": 1, **parameters}
        return module.train(given, data[0], 60, evals=[(data[1], "stop")], early_stopping_rounds=2, verbose_eval=False)
    data = module.Dataset(X[fit], y[fit])
    given = {"learning_rate": 1.0, "verbose": -1, "num_threads": 1, **parameters}
    early = module.early_stopping(2, verbose=False)
    return module.train(given, data, 60, valid_sets=[data.create_valid(X[stop], y[stop])], callbacks=[early])


@pytest.mark.parametrize("library", BINARY)
def test_a_booster_that_was_stopped_early_answers_with_its_best_iteration(library):
    booster = trained(library, X[TRAIN], y[TRAIN], objective=BINARY[library])
    if library == "xgboost":
        assert booster.best_iteration + 1 < booster.num_boosted_rounds()
        p = booster.inplace_predict(X[VAL], iteration_range=(0, booster.best_iteration + 1))
    else:
        p = booster.predict(X[VAL], num_iteration=booster.best_iteration)
    model = BoosterModel(booster, labels=[0, 1])
    losses = estimator_losses("log_loss", model, X[VAL], y[VAL])
    assert losses == pytest.approx(-np.log(np.where(y[VAL] == 1, p, 1 - p)), rel=1e-4)
    assert (estimator_losses("zero_one", model, X[VAL], y[VAL]) == ((p > 0.5) != y[VAL])).all()


@pytest.mark.parametrize(("library", "objective"), [("xgboost", "multi:softprob"), ("lightgbm", "multiclass")])
def test_a_booster_of_several_labels_answers_by_their_names(library, objective):
    X, y = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    names = np.array(["a", "b", "c"])
    model = BoosterModel(trained(library, X[:100], y[:100], objective=objective, num_class=3), labels=names)
    losses = estimator_losses("log_loss", model, X[100:], names[y[100:]])
    assert losses.mean() == pytest.approx(log_loss(y[100:], model.predict_proba(X[100:])), rel=1e-4)
    assert set(model.predict(X[100:])) <= set(names)


@pytest.mark.parametrize(("library", "objective"), [("xgboost", "reg:squarederror"), ("lightgbm", "regression")])
def test_a_booster_of_numbers_and_lists_of_rows(library, objective):
    X, y = load_diabetes(return_X_y=True)
    model = BoosterModel(trained(library, X[:300], y[:300], objective=objective))
    losses = estimator_losses("squared_error", model, X[300:].tolist(), y[300:])
    assert losses == pytest.approx((model.predict(X[300:]) - y[300:]) ** 2)


@pytest.mark.parametrize("library", BINARY)
def test_a_missing_value_is_the_boosters_own_affair_and_a_text_its_rows(library):
    model = BoosterModel(trained(library, X[TRAIN], y[TRAIN], objective=BINARY[library]), labels=[0, 1])
    clean = estimator_losses("log_loss", model, X[VAL], y[VAL])
    odd = X[VAL].astype(object)
    odd[3, 1], odd[5, 0] = np.nan, "n/a"
    losses = estimator_losses("log_loss", model, odd, y[VAL], like=X[TRAIN])
    assert np.isfinite(losses[3])
    assert np.isnan(losses[5])
    others = np.delete(np.arange(len(clean)), [3, 5])
    assert (losses[others] == clean[others]).all()


@pytest.mark.parametrize("rows", [np.asarray, sparse.csr_array, pd.DataFrame])
def test_a_linear_booster_of_xgboost_answers_with_its_last_weights(rows):
    """It neither predicts in place nor keeps its iterations."""
    xgboost = import_module("xgboost")
    booster = trained("xgboost", Z[TRAIN], y[TRAIN], objective="binary:logistic", booster="gblinear")
    p = booster.predict(xgboost.DMatrix(Z[VAL]))
    model, data = BoosterModel(booster, labels=[0, 1]), Rows(rows(Z[VAL]), y[VAL], like=rows(Z[TRAIN]))
    losses = estimator_losses("log_loss", model, data.X, data.y, like=data.like)
    assert losses == pytest.approx(-np.log(np.where(y[VAL] == 1, p, 1 - p)), rel=1e-4, abs=1e-6)


# ---- PyTorch ---------------------------------------------------------------------------------------------


def network(torch, outputs: int):
    torch.manual_seed(0)
    layers = torch.nn.Linear(30, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.5), torch.nn.Linear(8, outputs)
    return torch.nn.Sequential(*layers)


@pytest.mark.torch
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_module_predicts_batches_in_evaluation_mode_and_is_unchanged(outputs):
    torch = pytest.importorskip("torch")
    net = network(torch, outputs).train()
    net[1].eval()
    mode = [part.training for part in net.modules()]
    seen = []
    net.register_forward_hook(lambda module, given, out: seen.append((len(out), module.training, out.requires_grad)))
    losses = estimator_losses("log_loss", TorchModel(net, labels=[0, 1], batch=100), Z[VAL], y[VAL])
    assert seen[-3:] == [(100, False, False), (100, False, False), (69, False, False)]
    assert [part.training for part in net.modules()] == mode
    net.eval()
    logits = net(torch.as_tensor(Z[VAL], dtype=torch.float32)).detach().double()
    target = torch.as_tensor(y[VAL])
    if outputs == 1:
        wanted = torch.nn.functional.binary_cross_entropy_with_logits(logits[:, 0], target.double(), reduction="none")
    else:
        wanted = torch.nn.functional.cross_entropy(logits, target, reduction="none")
    near = wanted.numpy() < 10  # beyond, 1 - p has few digits
    assert near.sum() > 100
    assert losses[near] == pytest.approx(wanted.numpy()[near], rel=1e-3, abs=1e-6)


@pytest.mark.torch
def test_a_function_of_tensors_on_a_device_of_its_own():
    torch = pytest.importorskip("torch")
    seen = []

    def half(rows):
        seen.append((rows.device.type, rows.dtype))
        return rows[:, :1] / 2

    model = TorchModel(half, device="cpu", dtype=torch.float64)
    losses = estimator_losses("squared_error", model, Z[VAL], Z[VAL][:, 0])
    assert losses == pytest.approx((Z[VAL][:, 0] / 2) ** 2)
    assert set(seen) == {("cpu", torch.float64)}
    if torch.cuda.is_available():
        net = network(torch, 2)
        here = estimator_losses("log_loss", TorchModel(net, labels=[0, 1]), Z[VAL], y[VAL])
        there = estimator_losses("log_loss", TorchModel(net.cuda(), labels=[0, 1]), Z[VAL], y[VAL])
        assert there == pytest.approx(here, rel=1e-3)


@pytest.mark.torch
def test_one_odd_row_leaves_the_others_every_bit():
    torch = pytest.importorskip("torch")
    model = TorchModel(network(torch, 2), labels=[0, 1], batch=64)
    clean = estimator_losses("log_loss", model, Z[VAL], y[VAL])
    odd = Z[VAL].copy()
    odd[7] = 1e300
    losses = estimator_losses("log_loss", model, odd, y[VAL])
    assert (np.delete(losses, 7) == np.delete(clean, 7)).all()


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")  # skorch's own, of what PyTorch deprecates
def test_skorch_networks_are_estimators():
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")
    net = skorch.NeuralNetClassifier(network(torch, 2), max_epochs=2, criterion=torch.nn.CrossEntropyLoss, verbose=0)
    net.fit(Z[TRAIN].astype(np.float32), y[TRAIN])
    rows = Rows(Z[VAL], y[VAL], like=Z[TRAIN].astype(np.float32))
    losses = estimator_losses("log_loss", net, rows.X, rows.y, like=rows.like)
    p = net.predict_proba(Z[VAL].astype(np.float32))
    assert losses == pytest.approx(-np.log(p[np.arange(len(p)), y[VAL]]), rel=1e-3, abs=1e-6)
    of_numbers = skorch.NeuralNetRegressor(network(torch, 1), max_epochs=2, verbose=0)
    of_numbers.fit(rows.like, y[TRAIN].astype(np.float32)[:, None])
    said = of_numbers.predict(rows.X.astype(np.float32))
    assert said.shape == (len(said), 1)
    assert estimator_losses("mse", of_numbers, rows.X, rows.y, like=rows.like) == pytest.approx(
        (said[:, 0] - rows.y) ** 2
    )
