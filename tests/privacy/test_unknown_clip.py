"""The range of a loss is given, known or found on public rows. A missing range is refused before training."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

import dptune
from dptune import InputError, LossPrivatizer
from dptune.search import VALUES
from dptune_optuna import CentredSampler, PrivateObjective
from refusals import refused

N = 30
DATA = (np.zeros((N, 1)), np.arange(N) % 2)
Make = Callable[..., LossPrivatizer]


@pytest.fixture
def unknown(privatizer: Make) -> LossPrivatizer:
    return privatizer(n=N, clip=None)


def untrained(*_: object) -> Any:
    raise AssertionError("a model was trained")


@pytest.mark.parametrize(
    "use",
    [
        lambda p: p.observe("a", [0.0] * N),
        lambda p: p.mean_query("a", 0.1),
        lambda p: dptune.select([[0.0] * N] * 2, p),
        lambda p: dptune.select([], p, loss="log_loss", data=untrained),
        lambda p: dptune.SearchRun(VALUES, p, scope="run", space=None, trials=3),
        lambda p: PrivateObjective(untrained, p, n_trials=3),
        lambda p: CentredSampler(p, n_trials=12).objective(loss="log_loss", data=lambda: untrained())(untrained),
    ],
    ids=["observe", "mean_query", "select losses", "select models", "run", "PrivateObjective", "sampler"],
)
def test_an_unknown_clip_is_refused_with_the_way_to_find_it(unknown: LossPrivatizer, use: Any) -> None:
    refused(InputError, "clip_from.*Nothing was charged", lambda: use(unknown))
    assert unknown.ledger.count() == 0


@pytest.mark.parametrize(("loss", "most"), [("zero_one", 1.0), ("brier", 2.0)])
def test_a_bounded_loss_needs_no_clip_and_a_given_clip_stays(privatizer: Make, loss: str, most: float) -> None:
    for given, high in ((None, most), ((0.0, 0.5), 0.5)):
        people = privatizer(n=N, clip=given)
        PrivateObjective(untrained, people, n_trials=3, loss=loss, data=lambda: DATA)
        assert (people.interval.low, people.interval.high) == (0.0, high)


RNG = np.random.default_rng(0)
PUBLIC, LOSSES = RNG.uniform(size=(3, 40)), RNG.uniform(size=(3, N))
FITTED = [DummyClassifier(strategy="constant", constant=label).fit(*DATA) for label in (0, 1)]


def chosen(scale: float) -> Any:
    return lambda p: dptune.PublicChoice(scale * PUBLIC, p, name=f"x{scale}", mu=0.1)


DOORS = {
    "own losses": lambda p: dptune.select(LOSSES, p, mu=0.1),
    "models": lambda p: dptune.select(FITTED, p, loss="log_loss", data=DATA, mu=0.1),
    "objective": lambda p: PrivateObjective(untrained, p, n_trials=3),
    "public losses": chosen(10.0),
    "brier": lambda p: dptune.select(FITTED, p, loss="brier", data=DATA, mu=0.1),
    "sampler": lambda p: CentredSampler(p, n_trials=12).objective(loss="log_loss", data=lambda: DATA)(untrained),
}


@pytest.mark.parametrize("first", [chosen(1.0), lambda p: p.use_clip((0.0, 1.0))], ids=["public losses", "zero_one"])
@pytest.mark.parametrize("door", DOORS)
def test_no_loss_is_cut_at_the_range_of_another_one(privatizer: Make, first: Any, door: str) -> None:
    people = privatizer(n=N, clip=None)
    first(people)
    refused(InputError, "make another LossPrivatizer for it. Nothing was charged", lambda: DOORS[door](people))
    assert people.ledger.count() == 0
    given = privatizer(n=N, clip=(0.0, 1.0))
    first(given)
    DOORS[door](given)  # a range that was given is that of every loss
    assert (given.interval.low, given.interval.high) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("losses", "clip"),
    [
        ([0.5, 2.0], (0.0, 4.0)),
        ([[-1.0, 2.0], [0.0, np.nan]], (-2.0, 4.0)),
        ([np.inf, 3.0], (0.0, 6.0)),
        ([0.0], (0.0, 1.0)),
    ],
)
def test_losses_of_public_rows_give_twice_their_range(losses: Any, clip: tuple[float, float]) -> None:
    assert dptune.clip_from(losses) == clip


@pytest.mark.parametrize("losses", [[], [np.nan], "a", None, [["b"]]])
def test_losses_without_a_finite_number_give_no_clip(losses: Any) -> None:
    refused(InputError, "finite numbers; got", lambda: dptune.clip_from(losses))
