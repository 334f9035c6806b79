"""A Tune experiment saves networks, and private patients choose one of these checkpoints: nothing is trained again."""

import pickle
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from ray import tune
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import dptune
import dptune_ray
from dptune.losses.models import TorchModel

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
X, y = load_breast_cancer(return_X_y=True)  # 569 patients: 169 public, of whom 80 train, and 400 private
X, X_val, y, y_val = train_test_split(X, y, train_size=169, random_state=0)
X, X_val = X / X.max(axis=0), X_val / X.max(axis=0)
X, X_held, y, y_held = train_test_split(X, y, train_size=80, random_state=0)


def epochs(config, X, y):
    """Yield a network after each epoch: a PyTorch module, or scikit-learn's where PyTorch is absent."""
    if find_spec("torch") is None:
        net = MLPClassifier((config["width"],), learning_rate_init=config["rate"], random_state=0)
        while True:
            yield net.partial_fit(X, y, classes=[0, 1])
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(30, config["width"]), torch.nn.ReLU(), torch.nn.Linear(config["width"], 2)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=config["rate"])
    rows, labels = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(y)
    while True:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(rows), labels).backward()
        optimizer.step()
        yield TorchModel(net, labels=[0, 1])


def trainable(config, X=X, y=y, held=(X_held, y_held)):
    for epoch, net in zip(range(1, 101), epochs(config, X, y), strict=False):
        if epoch % 20 == 0:
            with tempfile.TemporaryDirectory() as saved:
                Path(saved, "net").write_bytes(pickle.dumps(net))
                tune.report({"loss": log_loss(held[1], net.predict_proba(held[0]))}, checkpoint=tune.Checkpoint(saved))


def load(checkpoint):
    with checkpoint.as_directory() as saved:
        return pickle.loads(Path(saved, "net").read_bytes())


space = {"width": tune.randint(4, 65), "rate": tune.loguniform(1e-4, 1e-1)}
usual = {"width": 32, "rate": 0.001}  # the default must have a checkpoint, too
first = tune.search.BasicVariantGenerator(points_to_evaluate=[usual])
tuning = tune.TuneConfig(metric="loss", mode="min", num_samples=20, search_alg=first, reuse_actors=True)
stored = tune.RunConfig(name="nets", storage_path=str(folder), verbose=0)
results = tune.Tuner(trainable, param_space=space, tune_config=tuning, run_config=stored).fit()

budget = dptune.Budget.approximate_dp(epsilon=4, delta=1e-5)
ledger = dptune.PrivacyLedger(folder / "checkpoints_ray.db", budget, unit="one patient")
people = {"data": (X_val, y_val), "public": (X_held, y_held)}
asked = {"loss": "log_loss", "ledger": ledger, "default": usual, "report_share": 0.36}
choice = dptune_ray.choose(results, load=load, **people, **asked)
scores = choice.model.predict_proba(X_held)  # held-out rows are calibration data of the network as it is
report = dptune.report(choice.model, ledger, **people, scores=scores)
print(choice.summary(), report.to_markdown(), ledger.statement(), sep="\n\n")
