"""Every private run in Optuna fixes its space, loss, name and settings, and respects other runs of its ledger."""

import shutil

import numpy as np
import pytest
from optuna.distributions import CategoricalDistribution
from optuna.samplers import RandomSampler
from optuna.trial import TrialState
from sklearn.linear_model import Ridge

import dptune
from dptune_optuna import CentredSampler, DPGIBOSampler, LDPTGPSampler, PrivateObjective
from harness import (
    SPACE,
    N,
    begun,
    create,
    front,
    losses_at,
    open_ledger,
    open_privatizer,
    people,
    people_s_losses,
    point,
    stored,
)

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


# ---- the search space and the function ------------------------------------------------------------------


def suggest(name="y", low=1e-3, high=1e1, **options):
    """A function that suggests its second parameter like this."""

    def losses(trial):
        x, y = trial.suggest_float("x", -1, 1), trial.suggest_float(name, low, high, **options)
        return losses_at(people(), x, y)

    return losses


@pytest.mark.parametrize(
    ("kind", "function", "message"),
    [
        ("centred", suggest("yy", log=True), r"'y', FloatDistribution.*did not suggest it.*'x', 'yy'"),
        ("gibo", suggest(high=1.0, log=True), r"'y' as FloatDistribution.high=10.0.*as FloatDistribution.high=1.0"),
        ("centred", suggest(), "different log"),  # Optuna's own refusal
    ],
    ids=["name", "range", "log"],
)
def test_a_function_that_does_not_suggest_the_space_costs_nothing(tmp_path, kind, function, message):
    _, study, objective = begun(kind, tmp_path, function)
    with pytest.raises((dptune.InputError, ValueError), match=message):
        study.optimize(objective, n_trials=24)
    assert len(study.trials) == 1
    assert open_ledger(tmp_path).charges() == []


def test_without_a_space_a_parameter_that_comes_and_goes_is_warned_of_once(tmp_path):
    sampler = DPGIBOSampler(open_privatizer(tmp_path), n_trials=24, seed=0)
    study = create(None, sampler)

    @sampler.objective
    def losses(trial):
        if trial.number == 0:
            trial.suggest_int("only_first", 1, 3)
        if trial.number == 4:
            raise ValueError  # before it has suggested anything
        return people_s_losses(trial)

    with pytest.warns(UserWarning, match=r"trial 1 did not suggest all that .*'only_first'.*space=") as told:
        study.optimize(losses, n_trials=5)
    assert len(told) == 1
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 5


def test_without_a_space_a_changed_range_is_warned_about_once(tmp_path):
    def run(trials, **other):
        sampler = CentredSampler(open_privatizer(tmp_path), n_trials=12, seed=0)
        create(stored(tmp_path), sampler).optimize(sampler.objective(suggest(log=True, **other)), n_trials=trials)

    run(3)
    with pytest.warns(UserWarning, match=r"'y' as FloatDistribution.high=1.0,.* not as .*=10.0.*a new name") as told:
        run(3, high=1.0)
    assert len(told) == 1
    run(2)  # the one that it began with


def test_a_study_keeps_its_loss(tmp_path):
    X, answers = np.zeros((N, 1)), np.linspace(0.0, 1.0, N)
    rows = np.ones((3, 1)), np.arange(3.0)

    def fitted(trial):
        return Ridge(alpha=point(trial)[1]).fit(*rows)

    def run(function, n_trials=2, **about):
        _, study, objective = begun("values", tmp_path, function, about=about, n_trials=12, storage=stored(tmp_path))
        study.optimize(objective, n_trials=n_trials)
        return objective.run_of(study)

    data = {"data": (X, answers)}
    with pytest.raises(dptune.DptuneError, match="predict_proba"):
        run(fitted, loss="brier", **data)  # of which nothing comes: it may be corrected under the same name
    run(fitted, loss="squared_error", **data)
    spent, fits = open_ledger(tmp_path).spent(), []
    with pytest.raises(dptune.errors.BudgetMismatch, match=r"minimises squared_error.*absolute_error.*another"):
        run(lambda trial: fits.append(1) or fitted(trial), loss="absolute_error", **data)
    assert (open_ledger(tmp_path).spent(), fits) == (spent, [])
    run(people_s_losses)  # nobody knows which loss that is
    run(fitted, loss="squared_error", **data)


# ---- names ----------------------------------------------------------------------------------------------


def test_a_restart_without_storage_is_refused_before_training(tmp_path):
    trained = []

    def losses(trial):
        trial.suggest_float("x", -1, 1)
        trained.append(trial.params)
        return np.zeros(N)

    objective = PrivateObjective(losses, open_privatizer(tmp_path), n_trials=9)
    for seed in (0, 0):  # the same points again are answered from the ledger
        create(None, RandomSampler(seed=seed)).optimize(objective, n_trials=2)
    with pytest.raises(dptune.errors.KeyConflict, match=r"storage=.*new name"):
        create(None, RandomSampler(seed=1)).optimize(objective, n_trials=2)
    assert len(trained) == 4
    assert len(open_ledger(tmp_path).charges()) == 2


# ---- the ledger of a study ------------------------------------------------------------------------------


def continued(kind, storage, folder, calls=None):
    """Continue the study of one folder with the ledger of another."""
    privatizer, space = open_privatizer(folder), SPACE if kind == "space" else None

    def losses(trial):
        return (calls is None or calls.append(trial.number) is None) and people_s_losses(trial)

    sampler, objective = None, PrivateObjective(losses, privatizer, n_trials=24)
    if kind != "values":
        sampler = DPGIBOSampler(privatizer, space, n_trials=24, seed=1)
        objective = sampler.objective(losses)
    study = create(storage, sampler)
    study.optimize(objective, n_trials=3)
    return study


@pytest.mark.parametrize(("kind", "other"), [("values", "another"), ("space", "older"), ("no space", "another")])
def test_a_study_refuses_a_ledger_that_did_not_pay_for_it_before_training(tmp_path, kind, other):
    storage, calls = stored(tmp_path), []
    study = continued(kind, storage, tmp_path)
    assert study.user_attrs["dptune:ledger"]["seq"] >= 3
    (elsewhere := tmp_path / "elsewhere").mkdir()
    if other == "older":
        shutil.copy(tmp_path / "ledger.db", elsewhere)
        continued(kind, storage, tmp_path)
    says = "Restore the newest file" if other == "older" else "ledger of the study"
    with pytest.raises(dptune.LedgerError, match=says):
        continued(kind, storage, elsewhere, calls)
    assert calls == []
    continued(kind, storage, tmp_path, calls)  # with its own it goes on
    assert len(calls) == 3


def test_a_study_with_unpaid_completed_trials_is_refused_before_training(tmp_path):
    storage, calls = stored(tmp_path), []
    create(storage, RandomSampler(seed=0)).optimize(lambda trial: sum(point(trial)), n_trials=1)
    for kind in ("values", "no space"):
        with pytest.raises(dptune.LedgerError, match=r"has no run of that name.*new name.*unprotected"):
            continued(kind, storage, tmp_path, calls)
    assert calls == []
    assert open_ledger(tmp_path).count() == 0


# ---- settings -------------------------------------------------------------------------------------------


LDP = {"space": SPACE, "settings": dptune.local.LDPSettings(dptune.local.LaplaceReplies(1.0, B=0.8, R=0.2))}


def of_front(kind, **wrong):
    return lambda privatizer: front(kind, privatizer, **wrong)


def local(**wrong):
    return lambda privatizer: LDPTGPSampler(**{**LDP, **wrong})


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (of_front("gibo", mu=True), "mu must"),
        (of_front("centred", n_trials=20, population=50), "n_trials.*population"),
        (of_front("values", about={"loss": "log_loss"}), "data="),
        (lambda _: front("values", "ledger.db"), "LossPrivatizer"),
        (lambda privatizer: CentredSampler(privatizer, {"k": CategoricalDistribution(["only"])}), "than one value"),
        (local(settings=None), "LDPTGPSampler needs settings"),
        (local(space={"k": CategoricalDistribution(["a", "b"])}), "no float or int"),
        (local(patience=-1), "patience"),
    ],
)
def test_wrong_settings_are_refused_by_name(tmp_path, make, says):
    with pytest.raises(dptune.InputError, match=says):
        make(open_privatizer(tmp_path))
    assert open_ledger(tmp_path).count() == 0
