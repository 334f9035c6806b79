"""Accuracy of private training at equal total epsilon, with four ways to choose its learning rate and clipping norm.

    python -m benchmarks.training.accuracy [--seeds 10] [--show] [--out docs]

Real noise, ledgers and plans: Opacus trains, held to its plan by dptune, whose accounting says what is paid. Data ship
with scikit-learn: digits (1797 rows, 10 classes) and breast-cancer (569 rows, 2 classes); a quarter of the rows is for
the test, the others are halved into training people and validation people, each of whom is promised the whole epsilon.
A seed is that of the split; noise, weights and repeats come from the operating system, so a second run differs. A run
that was stopped goes on, from ``<out>/results/training_accuracy.jsonl``. Prints the table of docs/training.md.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import SystemRandom
from typing import Any

import numpy as np
import torch
from opacus import PrivacyEngine
from sklearn.datasets import load_breast_cancer, load_digits

import dptune
from benchmarks.report import DOCS, machine, markdown, mean_and_error, run_missing
from dptune.ledger.subsampled import least_noise
from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan, noise_multipliers
from dptune.training.opacus import training, watched
from dptune.training.profiles import epsilon_of
from dptune.training.repeats import repeat_and_select

DELTA, T, BATCHES, EPOCHS = 1e-5, 8, 10, 10
STEPS, RATE = BATCHES * EPOCHS, 1 / BATCHES
LAW = Repeats.geometric(T)
DEFAULT = (0.1, 1.0)  # learning rate and clipping norm of Opacus's MNIST example
HIDDEN = 32
Rows = torch.utils.data.TensorDataset
Point = tuple[float, float]


@dataclass(frozen=True)
class Run:
    """One cell of the table."""

    data: str
    epsilon: float
    way: str
    seed: int


@dataclass(frozen=True)
class People:
    """Private training and validation rows, and rows for the test."""

    train: Rows
    val: Rows
    test: Rows


def load(name: str, seed: int) -> People:
    X, y = (load_digits if name == "digits" else load_breast_cancer)(return_X_y=True)
    # Scaling by private rows is not private: these means stand for public reference values of the measurements.
    X = X / 16 if name == "digits" else np.tanh((X - X.mean(axis=0)) / X.std(axis=0))
    order = np.random.default_rng([15, seed]).permutation(len(X))
    test, train, val = np.split(order, [len(X) // 4, len(X) // 4 + 3 * len(X) // 8])
    return People(*(_rows(X[part], y[part]) for part in (train, val, test)))


def _rows(X: Any, y: Any) -> Rows:
    return Rows(torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(y, dtype=torch.long))


Guard = Callable[[Any, Any], AbstractContextManager[None]]


def train(rows: Rows, point: Point, z: float, guard: Guard) -> Any:
    """A network with one hidden layer, trained by DP-SGD; ``guard`` holds it to its plan."""
    X, _ = rows.tensors
    model = torch.nn.Sequential(torch.nn.Linear(X.shape[1], HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, 10))
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=point[0]), noise_multiplier=z,
        max_grad_norm=point[1], data_loader=torch.utils.data.DataLoader(rows, batch_size=-(-len(X) // BATCHES)),
    )  # fmt: skip
    with guard(optimizer, loader):
        for inputs, labels in (batch for _ in range(EPOCHS) for batch in loader):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    return model


def misread(model: Any, rows: Rows) -> Any:
    """1 for each row (n,) that is read wrongly, else 0."""
    X, y = rows.tensors
    with torch.no_grad():
        return (model(X).argmax(1) != y).numpy().astype(float)


def anywhere() -> Point:
    random = SystemRandom()
    return 10 ** random.uniform(-2, 1), 10 ** random.uniform(-1, 1)


@cache
def noise(epsilon: float) -> dict[str, float]:
    """Noise multipliers of one training of many and of one alone, and the price of one score, that fit epsilon."""
    wanted: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "sample_rate": RATE, "steps": STEPS}
    one = noise_multipliers(**wanted, trainings=1)["composition"]
    score = 1 / least_noise(lambda s: epsilon_of([SelectionPlan(LAW, score_mu=1 / s)], DELTA), epsilon)
    return {**noise_multipliers(**wanted, trainings=T), "one": one, "score": score}


def planned(folder: Path, people: Rows, z: float, trainings: int = 1) -> tuple[float, Guard]:
    plan = TrainingPlan(z, RATE, STEPS, trainings)
    return z, partial(training, TrainingLedger(folder / "train.db", plan, n=len(people)))


def untuned(people: People, epsilon: float, folder: Path) -> Any:
    """The defaults."""
    return train(people.train, DEFAULT, *planned(folder, people.train, noise(epsilon)["one"]))


def composed(people: People, epsilon: float, folder: Path) -> Any:
    """T trainings, one of which the exponential mechanism chooses with the validation people's whole epsilon."""
    plan = planned(folder, people.train, noise(epsilon)["composition"], T)
    models = [train(people.train, anywhere(), *plan) for _ in range(T)]
    budget = dptune.Budget.approximate_dp(epsilon, DELTA)
    ledger = dptune.PrivacyLedger(folder / "val.db", budget)
    privatizer = dptune.LossPrivatizer(ledger, n=len(people.val), clip=(0.0, 1.0))
    losses = np.array([misread(model, people.val) for model in models])
    return models[dptune.select(losses, privatizer, mu=budget.mu, name="choice").index]


def selected(people: People, epsilon: float, folder: Path) -> Any:
    """Repeat and select."""
    one = TrainingPlan(noise(epsilon)["geometric"], RATE, STEPS)
    score = SelectionPlan(LAW, score_mu=noise(epsilon)["score"])
    ledgers = [
        TrainingLedger(folder / "train.db", SelectionPlan(LAW, one), n=len(people.train)),
        TrainingLedger(folder / "val.db", score, n=len(people.val), dataset="validation data"),
    ]

    def once() -> tuple[dict[str, Any], Any, Any]:
        point = anywhere()
        model = train(people.train, point, one.noise_multiplier, partial(watched, one, len(people.train)))
        return {"point": point}, model, misread(model, people.val)

    return repeat_and_select(once, ledgers, clip=(0.0, 1.0), secure=False).model


def public(people: People, epsilon: float, folder: Path) -> Any:
    """A fifth of the training rows is public: T trainings on one half of it, with as much noise for each row as the
    private training will have, are compared on the other half.
    """
    X, y = people.train.tensors
    k, z = len(X) // 10, noise(epsilon)["one"]
    rows, held_out, rest = (_rows(X[a:b], y[a:b]) for a, b in ((0, k), (k, 2 * k), (2 * k, None)))
    points = [anywhere() for _ in range(T)]
    scaled = z * k / len(rest)
    errors = [misread(train(rows, point, scaled, lambda *_: nullcontext()), held_out).mean() for point in points]
    return train(rest, points[int(np.argmin(errors))], *planned(folder, rest, z))


WAYS: dict[str, Callable[[People, float, Path], Any]] = {
    "no tuning": untuned,
    f"composition, {T}": composed,
    f"best of geometric, mean {T}": selected,
    "a fifth is public": public,
}


def measure(run: Run) -> float:
    """Test error of the chosen network."""
    people = load(run.data, run.seed)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(misread(WAYS[run.way](people, run.epsilon, Path(folder)), people.test).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--show", action="store_true", help="print the table of what is stored")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    logging.disable(logging.WARNING)  # every run makes new ledgers, and says so
    rows = [(data, epsilon) for epsilon in (1.0, 3.0, 8.0) for data in ("digits", "breast-cancer")]
    runs = [Run(*row, way, seed) for seed in range(asked.seeds) for row in rows for way in WAYS]
    done = run_missing(measure, [] if asked.show else runs, jobs=1, name="training_accuracy", out=asked.out)
    errors = {row: [_mean(done, row, way, asked.seeds) for way in WAYS] for row in rows}
    print(json.dumps(machine()))
    print(markdown(["data", "epsilon", *WAYS], [[row[0], f"{row[1]:g}", *errors[row]] for row in rows]))


def _mean(done: list[dict[str, Any]], row: tuple[str, float], way: str, seeds: int) -> str:
    mine = [each for each in done if (each["data"], each["epsilon"], each["way"]) == (*row, way)]
    return mean_and_error(each["test_loss"] for each in mine if each["seed"] < seeds)


if __name__ == "__main__":
    main()
