"""The points of a query are public: one person's losses differ between neighbours, but no point does.

Noise covers one person's share of a mean. It does not cover a point that depends on a private record, such as a trained
model: then all losses at that point change. The audit sees every loss vector that reaches a privatizer, under answers
that do not depend on any record.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeRegressor

import dptune
from audit_tools import planted
from dptune.privacy.noise import OpenDPNoise
from dptune.privacy.seal.private import reveal
from dptune_optuna import PrivateObjective
from dptune_sklearn import PrivateSearch
from noises import CannedNoise

N, PERSON = 40, 7
Array = np.ndarray
Flow = Callable[[Path, Array, Array], None]


def rows(seed: int, n: int = N) -> tuple[Array, Array]:
    X = np.random.default_rng(seed).normal(size=(n, 2))
    return X, X[:, 0] ** 2 + X[:, 1]


PUBLIC = rows(1)


def privatizer(folder: Path) -> dptune.LossPrivatizer:
    folder.mkdir()
    ledger = dptune.PrivacyLedger(folder / "l.db", dptune.Budget.gdp(mu=1.0))
    return dptune.LossPrivatizer(ledger, n=N, clip=(0.0, 9.0))


def tree(depth: int) -> DecisionTreeRegressor:
    return DecisionTreeRegressor(max_depth=depth, random_state=0)


def optuna_study(folder: Path, X: Array, y: Array) -> None:
    def model(trial: optuna.Trial) -> DecisionTreeRegressor:
        return tree(trial.suggest_int("depth", 1, 5)).fit(*PUBLIC)

    about: dict[str, Any] = {"loss": "squared_error", "data": dptune.Rows(X, y, PUBLIC[0])}
    objective = PrivateObjective(model, privatizer(folder), n_trials=4, **about)
    optuna.create_study(study_name="s", sampler=optuna.samplers.RandomSampler(seed=0)).optimize(objective, n_trials=4)


def sklearn_search(folder: Path, X: Array, y: Array) -> None:
    public = GridSearchCV(tree(1), {"max_depth": [1, 2, 3, 4, 5]})
    ledger = privatizer(folder).ledger
    PrivateSearch(public, ledger=ledger, loss="squared_error", clip=(0.0, 9.0)).fit(*PUBLIC, X_val=X, y_val=y)


def trained_on_private_rows(folder: Path, X: Array, y: Array) -> None:
    """A planted mistake: the evaluated point is made of the people who are asked about it."""
    losses = [(tree(depth).fit(X, y).predict(X[:, ::-1]) - y) ** 2 for depth in (1, 2, 3)]
    dptune.select(losses, privatizer(folder), name="s")


def witnessed(flow: Flow, folder: Path, X: Array, y: Array) -> list[tuple[str, Array]]:
    """Every point that a privatizer learns of, with everybody's losses there; answers are the same for all people."""
    canned, seen = CannedNoise(), list[tuple[str, Array]]()

    def observe(true: Any) -> Any:
        def called(self: Any, point: str, losses: Any) -> None:
            seen.append((point.rsplit(",", 1)[-1], reveal(self.checked(losses)).copy()))  # a trial's name may be random
            true(self, point, losses)

        return called

    with pytest.MonkeyPatch.context() as patch:
        planted(dptune.LossPrivatizer, "observe", observe)(patch)
        planted(OpenDPNoise, "add_gaussian", lambda _: lambda self, *asked: canned.add_gaussian(*asked))(patch)
        planted(OpenDPNoise, "noisy_argmin", lambda _: lambda self, *asked: canned.noisy_argmin(*asked))(patch)
        flow(folder, X, y)
    return seen


def audit(flow: Flow, folder: Path) -> None:
    """Raise AssertionError if more than one person's losses differ between neighbours at a point, or points differ."""
    told = []
    for world, change in enumerate((0.0, 5.0)):
        X, y = rows(0)
        X[PERSON] += change
        y[PERSON] -= change
        told.append(witnessed(flow, folder / str(world), X, y))
    assert told[0], "the flow asked for nothing"
    assert [point for point, _ in told[0]] == [point for point, _ in told[1]], "points depend on a record"
    for (point, mine), (_, other) in zip(*told, strict=True):
        moved = np.flatnonzero(mine != other)
        assert set(moved) <= {PERSON}, f"{len(moved)} people's losses moved at {point!r}"


@pytest.mark.parametrize("flow", [optuna_study, sklearn_search])
def test_between_neighbours_one_persons_losses_differ_at_every_point(flow: Flow, fast_path: Path) -> None:
    audit(flow, fast_path)


def test_a_point_that_is_made_of_a_private_record_is_found(fast_path: Path) -> None:
    with pytest.raises(AssertionError, match="people's losses moved"):
        audit(trained_on_private_rows, fast_path)
