"""Losses, people and privatizers for the tests of choices."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.stats import norm

import dptune
from dptune.choice.configurations import Candidate
from dptune.choice.proposals import ChoiceOptions, Proposals, choose_among
from dptune.privacy.mechanism import NoisyMin
from dptune.privacy.table import TableQuery
from noises import NoNoise

N, PEOPLE, CANDIDATES = 60, 80, 12  # public rows, private people
Call = Callable[[dptune.LossPrivatizer], object]
PUBLIC_ROWS = np.zeros((20, 1)), np.arange(20) % 2
PAIR = dptune.Budget.approximate_dp(1.0, 1e-5)


def losses(seed: int, rows: int, candidates: int = CANDIDATES) -> np.ndarray:
    """Losses (candidates, rows): the default, 0, is bad and the others get better with their place."""
    rng = np.random.default_rng(seed)
    level = np.linspace(1.0, 0.4, candidates)[:, None]
    return np.abs(level + 0.3 * rng.standard_normal((candidates, rows)) + 0.5 * rng.standard_normal(rows))


PUBLIC, PRIVATE = losses(0, N), losses(1, PEOPLE)


class Chooses(NoNoise):
    """Noise off, and always the same index."""

    def __init__(self, index: int) -> None:
        super().__init__()
        self.index = index

    def noisy_argmin(self, statistic: np.ndarray, scale: float) -> int:
        super().noisy_argmin(statistic, scale)
        return self.index


def privatizer(
    folder: Path, *, budget: dptune.Budget | None = None, noise: Any = None, n: int = PEOPLE, **settings: Any
) -> dptune.LossPrivatizer:
    """Return a privatizer on the folder's ledger."""
    folder.mkdir(exist_ok=True)
    ledger = dptune.PrivacyLedger(folder / "ledger.db", budget or dptune.Budget.gdp(mu=2.0))
    return dptune.LossPrivatizer(ledger, n=n, noise=noise, **settings)


def chosen(choice: dptune.PublicChoice, private: np.ndarray = PRIVATE) -> dptune.Selection:
    return choice.choose({j: private[j] for j in choice.to_train})


def spend(p: dptune.LossPrivatizer, mu: float, scope: str) -> None:
    """Release a table, as a report does."""
    query = TableQuery((np.eye(3),), mu, "a table", "of a report")
    p.release_table(query, lambda: np.zeros(p.rows), scope=scope, key="table")


def half_the_scale(mechanism: type[NoisyMin]) -> type[NoisyMin]:
    """Planted: it takes the sensitivity of one mean for that of a difference of two."""
    return type("HalfTheScale", (mechanism,), {"scale": lambda self, *asked: mechanism.scale(self, *asked) / 2})


def softmax(losses: np.ndarray, mu: float, clip: tuple[float, float]) -> np.ndarray:
    """Return the probabilities (m,) of the definition: exp(-eta u_j / (2 Delta)), Delta = (high - low) / n."""
    eta = 2 * (norm.logcdf(mu / 2) - norm.logcdf(-mu / 2))
    score = -eta * np.clip(losses, *clip).mean(axis=1) * losses.shape[1] / (2 * (clip[1] - clip[0]))
    weights = np.exp(score - score.max())
    return np.asarray(weights / weights.sum())


def proposed(
    evaluated: list[Any], default: Any = None, said: Callable[[str], object] = str, searched: int = 3, **given: Any
) -> Call:
    """A choice among configurations a = 0, 1, ..., which have these public losses."""
    found = [Candidate({"a": place}, place) for place in range(len(evaluated))]
    search: Any = {name: given.pop(name) for name in ("kind", "usual") if name in given}
    search["name"] = given.pop("of", "s")
    rows = np.zeros((PEOPLE, 1)), np.zeros(PEOPLE)

    def call(p: dptune.LossPrivatizer) -> object:
        trainer: Any = SimpleNamespace(
            inputs=None, lasting=False, evidence=lambda candidates: None,
            losses=lambda candidates: [evaluated[each.parameters["a"]] for each in candidates],
        )  # fmt: skip
        proposals = Proposals(found, searched, **search, excluded="2 left. ")
        about = {"data": rows, "loss": "squared_error", "public": PUBLIC_ROWS, "default": default, **given}
        return choose_among(proposals, trainer, ChoiceOptions(ledger=p, **about), said, said)

    return call
