"""The kinds of ledgers, how to create and charge each, and the releases that the tests of the budget pay for."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from dptune import Budget, BudgetExhausted, PlanComplete, PrivacyLedger
from dptune.ledger import PlanLedger, SubsampledGaussian
from dptune.ledger.events import GaussianRelease, SubsampledGaussianRelease
from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan

Urls = Callable[[], str]
ROUND = SubsampledGaussianRelease(0.35, 1.0, 2.0, 2.1, 4, "sums")


def gaussian(mu: float, statistic: str = "mean") -> GaussianRelease:
    return GaussianRelease(mu, sensitivity=1.0, sigma=1 / mu, dimension=1, statistic=statistic)


def pay(ledger: PrivacyLedger, key: str, mu: float = 1.0, **settings: Any) -> Any:
    settings = {"digest": "question", **settings}
    return ledger.charge(settings.pop("scope", "study"), key, gaussian(mu), **settings)


def edit(ledger: PrivacyLedger, change: str) -> None:
    """Change the file as only its owner can."""
    with sqlite3.connect(str(ledger.url.database)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        assert connection.execute(change).rowcount >= 1


@contextmanager
def listening(name: str, act: Callable[..., None]) -> Iterator[None]:
    """Let every engine call it."""
    event.listen(sa.Engine, name, act)
    yield
    event.remove(sa.Engine, name, act)


@dataclass(frozen=True)
class Kind:
    """A kind of ledger.

    Attributes:
        opener: its class.
        promise: the argument that a new one needs, with its value.
        others: values that are another promise, or none.
        charge: (ledger, t, digest=, private=, ...) -> its charge number t, from 0.
        most: charges that it takes.
        refusal: of one more.
    """

    opener: Any
    promise: Mapping[str, Any]
    others: tuple[Any, ...]
    charge: Callable[..., Any]
    most: int
    refusal: type[Exception]

    def new(self, url: object, **said: Any) -> Any:
        """Make it, or open it as what it is; also of n = 29 people."""
        ledger = self.opener(url, **{**self.promise, **said})
        ledger.bind_people(29)
        return ledger


def begin(ledger: TrainingLedger, t: int, *, digest: str = "", **settings: Any) -> Any:
    return ledger.begin(secure=True, **settings)


def begin_selection(ledger: TrainingLedger, t: int, *, digest: str = "d", **settings: Any) -> Any:
    return ledger.begin_selection(digest, secure=True, **settings)


ROUNDS, TRAININGS = SubsampledGaussian(0.35, 1.0, 3), TrainingPlan(4.0, 0.1, 10, 2)
SELECTION = SelectionPlan(Repeats.geometric(3), score_mu=0.1)
KINDS = {
    "budget": Kind(
        PrivacyLedger,
        {"budget": Budget.gdp(1.0)},
        (Budget.gdp(2.0), 1.0, (1.0, 1e-5), "1", ROUNDS),
        lambda ledger, t, **settings: pay(ledger, f"a{t}", 0.5, **settings),
        4,
        BudgetExhausted,
    ),
    "rounds": Kind(
        PlanLedger,
        {"plan": ROUNDS, "n": 29},
        (replace(ROUNDS, z=2.0), replace(ROUNDS, steps=4), Budget.gdp(1.0)),
        lambda ledger, t, **settings: ledger.charge(t, ROUND, **{"digest": "d", **settings}),
        3,
        PlanComplete,
    ),
    "trainings": Kind(
        TrainingLedger,
        {"plan": TRAININGS, "n": 29},
        (replace(TRAININGS, trainings=3), SELECTION, Budget.gdp(1.0)),
        begin,
        2,
        PlanComplete,
    ),
    "selection": Kind(
        TrainingLedger,
        {"plan": SELECTION, "n": 29},
        (replace(SELECTION, score_mu=0.2), TRAININGS, Budget.gdp(1.0)),
        begin_selection,
        1,
        PlanComplete,
    ),
}
KEYED = [name for name in KINDS if name != "trainings"]  # whose charges are found again by their key
