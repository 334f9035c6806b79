"""Refusals of privatizers, queries, mechanisms, tables and places, word by word."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dptune
from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.errors import DptuneError, InputError
from dptune.privacy.mechanism import LaplaceMechanism, NoisyMin, PermuteAndFlip
from dptune.privacy.noise import OpenDPNoise, SeededNoise, laplace_scale, noise_scale
from dptune.privacy.places import HeldAtPlaces, ModelToAsk, PlaceQuestion, Places
from dptune.privacy.query import Ball, Box, Interval, MeanQuery
from dptune.privacy.seal.private import PerExampleLosses
from dptune.privacy.stored_losses import Grid
from dptune.privacy.table import TableQuery

Call = Callable[[PrivacyLedger], object]
ROWS = np.arange(12.0).reshape(6, 2), np.arange(6)


class Place:
    """A place of so many people, as it says; it raises an error that it is given."""

    def __init__(self, name: str, n: Any = 3, answer: Any = None) -> None:
        self.name, self.n, self.said = name, n, answer

    def ready(self, recipe: Any, models: Sequence[Any]) -> Any:
        return lambda: _or_raise(self.n)

    def add_gaussian(self, statistic: Any, sigma: float) -> Any:
        """It can draw one of four kinds of noise."""

    def answer(self, asked: PlaceQuestion) -> Any:
        return lambda: _or_raise(self.said)


def _or_raise(value: Any) -> Any:
    if isinstance(value, Exception):
        raise value
    return value


def people(**given: Any) -> Call:
    return lambda ledger: LossPrivatizer(given.pop("ledger", ledger), **{"n": 6, "clip": (0.0, 1.0), **given})


def with_people(act: Callable[[Any], object], **given: Any) -> Call:
    return lambda ledger: act(people(**given)(ledger))


def mean(points: Any = ("a", "b"), weights: Any = ((1.0, 0.0), (0.0, 1.0)), clip: Any = None, **more: Any) -> Call:
    return lambda _: MeanQuery(points, weights, clip or Ball(1.0), 1.0, **more)


def release(making: Any, means: int = 2, mu: float = 1.0) -> Call:
    """Release the index of some means."""

    def call(ledger: PrivacyLedger) -> object:
        mine = LossPrivatizer(ledger, n=6, clip=(0.0, 1.0))
        query = mine.means_query("abc"[:means], mu)
        for point in query.points:
            mine.observe(point, np.zeros(6))
        return mine.release(query, scope="s", key="k", mechanism=making)

    return call


def count(*places: Any) -> Call:
    return lambda _: Places(places).n


def total(*places: Place) -> Call:
    """Add the people of one cell over places."""
    asked = PlaceQuestion(TABLE, None, (), None, np.float64, Grid.of(6))

    def call(_: PrivacyLedger) -> object:
        made = Places(places)
        made.ready(None, (), 6)
        return made.sums(asked)

    return call


def at_places(*recipes: Any) -> object:
    """Ask for a mean over models of these recipes."""
    held = HeldAtPlaces(Places([Place("a")]), 3, Interval(0.0, 1.0), np.float32)
    for name, recipe in zip("ab", recipes, strict=True):
        held.add(name, ModelToAsk(recipe, str))
    return held.mean(BALL)


TABLE = TableQuery((np.eye(2),), 1.0, "a table", "test")
BALL = MeanQuery(("a", "b"), np.eye(2), Ball(1.0), 1.0)


REFUSED: list[tuple[Call, str]] = [
    (people(ledger="l.db"), 'the first argument must be a PrivacyLedger, e.g. PrivacyLedger("ledger.db", budget).'),
    (people(dtype=np.float16), "dtype must be numpy.float32 or numpy.float64."),
    (people(places=Places([Place("a")])),
     "dptune.Places know their people: give no n=, groups= or weights. Nothing was charged."),
    (people(n=None), "give either n= (a person an example) or groups= (one identifier per example)."),
    (people(n=None, groups=[1, 1, 2], person_weights=[1.0, 2.0]),
     "person_weights cannot go with groups: a weight would follow a person's place in a list."),
    (people(clip=(0.0,)), "clip must be a pair of numbers (low, high), finite, the public range of one loss."),
    (people(noise=3), "noise must draw noise, such as SeededNoise(0) for tests; got int."),
    (people(noise=Place("a")), "noise must draw noise, such as SeededNoise(0) for tests; got Place."),
    (with_people(lambda p: p.interval, clip=None),
     "clip=(low, high) is missing, the public range of one person's loss. Find it with dptune.clip_from(losses), "
     "from the default's losses on public or made-up rows. A bounded loss (zero_one, brier) and public_losses= "
     "need no clip. Nothing was charged."),
    (with_people(lambda p: p.observe("x", np.zeros(5))),
     "expected 6 per-example losses, one per example, also for examples that fail: n= or groups= says how many. A "
     "table of losses has one row for each candidate."),
    (with_people(lambda p: p.observe("x", np.zeros(6)), n=None, places=Places([Place("a", 6)])),
     "this privatizer's people are at places, which compute losses: give their models."),
    (with_people(lambda p: p.observe("x", ModelToAsk(None, str))),
     "a model to ask needs a LossPrivatizer(ledger, places=...), whose places have rows."),
    (with_people(lambda p: p.release(p.means_query("vwxyz", 0.1), scope="s", key="k")),
     "this process holds no losses for ['v', 'w', 'x']; losses live in the memory of the process that observed "
     "them. Evaluate the points again."),
    (lambda _: np.asarray(PerExampleLosses([0.5])),
     "PerExampleLosses hold private values and can only be given to LossPrivatizer.observe(); they are not copied,"
     " pickled, converted, compared, iterated or formatted."),
    (mean(points="ab"), "points must be a list or tuple of names, as given to observe; got 'ab'."),
    (mean(points=("a", "a")), "points must be named once each."),
    (mean(weights=((1.0, np.inf),)), "weights must be finite."),
    (mean(centred_on=3), "centred_on must be 0 to 2, a number of points; got 3."),
    (mean(clip=0.5), "clip must be an Interval, a Ball or a Box; got float."),
    (mean(clip=Interval(0.0, 1.0)),
     "an Interval clips a scalar; use a Ball, or a Box of as many dimensions, for a vector."),
    (mean(clip=Box(0.0, 1.0, 3)),
     "an Interval clips a scalar; use a Ball, or a Box of as many dimensions, for a vector."),
    (mean(saturate_above=np.inf), "saturate_above must be finite, or None; got inf."),
    (lambda _: TableQuery((np.ones((1, 1)),), 1.0, "a table", "test"),
     "a block of a table must be a finite matrix with two cells at least."),
    (lambda _: TableQuery((np.eye(2),) * 54, 1.0, "a table", "test"),
     "a table has too many cells: give fewer classes, groups or bins."),
    (release(LaplaceMechanism), "LaplaceMechanism releases one number; the query has 2."),
    (release(lambda noise: NoisyMin(noise, [1.0, 0.0])),
     "prior must be positive and finite numbers; got a list of length 2. Nothing was charged."),
    (release(lambda noise: PermuteAndFlip(noise, [1.0, 2.0, 3.0])),
     "prior must have one number for each of 2 candidates; got 3."),
    (release(NoisyMin, mu=1e-10), "mu=1e-10 is too small for a choice among 2; give 1.29e-09."),
    (lambda _: PermuteAndFlip(OpenDPNoise()).scale(BALL, 1.0),
     "PermuteAndFlip chooses among means that are clipped one by one: privatizer.means_query."),
    (lambda _: noise_scale(sensitivity=1.0, mu=1e-9, dimension=9),
     "mu=1e-09 per release is too small for 9 coordinates; plan fewer releases."),
    (lambda _: laplace_scale(sensitivity=1.0, epsilon=9e-10), "epsilon=9e-10 is too small for a release."),
    (lambda _: OpenDPNoise().add_laplace(np.nan, 1.0),
     "a statistic must be finite before noise is added; this is a bug in dptune."),
    (lambda _: SeededNoise(-1), "seed must be a whole number >= 0; got -1."),
    (count(Place("a"), "b"), "places must be a list of places, such as dptune.Place(name, (X, y))."),
    (count(), "places must be one or more, each with a name of its own: its people are counted once."),
    (count(Place("")), "the name of a place must be a text that is not empty; got ''."),
    (count(dptune.Place("a", ROWS), Place("c"), dptune.Place("b", (ROWS[0][2:], ROWS[1][2:]))),
     "the places 'a' and 'b' have the same rows, whose people would be counted twice. Give each place its own "
     "rows. Nothing was charged."),
    (count(Place("a", 0)), "the people of a place must be a whole number >= 1; got 0."),
    (count(Place("a", OSError()), Place("b", InputError("no b.")), Place("c", InputError("no c."))),
     "at the place 'b': no b."),
    (count(Place("a"), Place("b", OSError()), Place("c", OSError())),
     "the place 'b' is away, late or failed. Nothing was charged for this release."),
    (total(Place("a", 3), Place("b", 4)),
     "the places have 7 people, and the ledger protects 6. Other people need their own. Nothing was charged for "
     "this release."),
    (total(Place("a"), Place("b", 3, OSError("4711"))),
     "the place 'b' is away, late or failed. The release is charged and waits: run the same call again when the "
     "place is there. It costs nothing more."),
    (total(Place("a"), Place("b", 3, InputError("no b."))),
     "at the place 'b': no b. The release is charged and waits: run the same call again when the place is there. "
     "It costs nothing more."),
    (lambda _: at_places("one", "two"),
     "the models of one question must be asked for one loss. Nothing was charged."),
    (total(Place("a", 6, (1, 2))),
     "the place 'a' answered something else than was asked. The release is charged and waits: run the same call "
     "again when the place is there. It costs nothing more."),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=map(str, range(len(REFUSED))))
def test_a_release_is_refused_in_these_words(call: Call, message: str, fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "ledger.db", Budget.gdp(1.0))
    with pytest.raises(DptuneError) as told:
        call(ledger)
    assert str(told.value) == message
    assert ledger.count() == 0
