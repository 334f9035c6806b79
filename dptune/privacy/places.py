"""Private people at several places: each place adds over its own people, and one trusted process adds the places.

A query reads private rows only through a sum over people of a bounded function, which is public. So the trusted process
charges, asks each place for its own sum, adds, draws and records. It is the release of one place with all people, at
the same price for each person. Sums are whole numbers of steps of a public grid: the split and the order do not matter.

**Trust.** The trusted process sees each place's sums without noise, and no rows. A place sees models and queries, which
are public, and nothing of another place. A person at two places counts twice: that nobody is, is assumed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol, TypeVar

import numpy as np

from dptune._arrays import Vector
from dptune._checks import at_least, text
from dptune.errors import BudgetMismatch, InputError, PlaceUnavailable
from dptune.privacy.query import Interval, Query
from dptune.privacy.seal.private import PerExampleLosses, reveal, without_frames, without_traceback
from dptune.privacy.stored_losses import Grid, People, StoredLosses, Whole
from dptune.privacy.table import TableQuery

T = TypeVar("T")
Load = Callable[[], Any]  # returns a model, which was kept in memory or in a file: one is loaded at a time
_NOTHING = "Nothing was charged for this release."
_WAITS = "The release is charged and waits: run the same call again when the place is there. It costs nothing more."


@dataclass(frozen=True)
class ModelToAsk:
    """A model whose losses are computed where the private rows are.

    Attributes:
        recipe: how to ask, for the place: the loss, or the cells of a report. Public.
        load: returns the model, trained on public rows.
    """

    recipe: Any
    load: Load


@dataclass(frozen=True, eq=False)
class PlaceQuestion:
    """A question to every place; public.

    Attributes:
        query: the sum of which function.
        recipe: how to ask; see :class:`ModelToAsk`.
        models: load the models of the query's points, in their order; None for a model whose training failed.
        clip, dtype: range of a loss, and how losses are kept; None for a table.
        grid: on which people are added.
    """

    query: Query | TableQuery
    recipe: Any
    models: tuple[Load | None, ...]
    clip: Interval | None
    dtype: Any
    grid: Grid

    @property
    def digest(self) -> str:
        """Return a fingerprint by which a place's answer is recognised."""
        facts = repr((self.query.digest(), self.clip, np.dtype(self.dtype).name, self.grid))
        return hashlib.sha256(facts.encode()).hexdigest()

    @property
    def entries(self) -> int:
        """Return the number of entries of a sum."""
        return sum(self.query.sizes) if isinstance(self.query, TableQuery) else self.query.dimension

    @without_frames
    def answer(self, people: People, losses: Iterable[Any]) -> Answer:
        """Return the sum over these people, whose losses (rows,) of each model, or codes of cells, are given.

        None stands for a model whose training failed. Nothing else reads private values at a place.
        """
        if isinstance(self.query, TableQuery):
            (codes,) = losses
            values = np.full(people.rows, np.nan) if codes is None else _values(codes)
            sums = self.query.sums(people, values, self.grid)
        else:
            held = StoredLosses(people, self.clip or Interval(0.0, 1.0), self.dtype)
            for point, each in zip(self.query.points, losses, strict=True):
                row = held.clean(np.full(people.rows, np.nan) if each is None else _values(each))
                held.add(point, row, failed=each is None)
            sums = held.sums(self.query, self.grid)
        return Answer(self.digest, people.n, tuple(sums.tolist()))


def _values(losses: Any) -> Vector:
    return reveal(losses if isinstance(losses, PerExampleLosses) else PerExampleLosses(losses))


@dataclass(frozen=True)
class Answer:
    """A place's sum over its own people, without noise: for the trusted process only.

    Attributes:
        digest: of the question.
        n: number of people, public.
        sums: whole numbers of steps of the grid.
    """

    digest: str
    n: int
    sums: tuple[int, ...]

    def __repr__(self) -> str:
        return "Answer(<private sums>)"


class AnyPlace(Protocol):
    """A place answers for its people: rows of this process, an actor, a client."""

    @property
    def name(self) -> str:
        """Return its public name."""

    def ready(self, recipe: Any, models: Sequence[Load]) -> Callable[[], int]:
        """Send models, which are only tried out on public facts; the result waits for the number of people.

        The wait raises InputError for a public mistake: a model or rows that do not fit. Without a recipe it only
        counts people.
        """

    def answer(self, asked: PlaceQuestion) -> Callable[[], Answer]:
        """Send a charged question; the result waits for the answer."""


class Places:
    """The places of private people, in a public order: ``data=`` of a choice, a ``select`` or a report.

    Args:
        places: a :class:`dptune.Place` each, or one of a front end. A recorded answer is read without asking them.

    Attributes:
        names: the places' public names.
        people: the number of people by name. Each place is asked once, when a number is first needed.

    Raises:
        InputError: the list is empty, or two places have the same name, or the same rows in the memory of this process.
    """

    def __init__(self, places: Sequence[AnyPlace]) -> None:
        methods = ("name", "ready", "answer")
        if not isinstance(places, list | tuple) or not all(hasattr(one, each) for one in places for each in methods):
            raise InputError("places must be a list of places, such as dptune.Place(name, (X, y)).")
        self.places: tuple[AnyPlace, ...] = tuple(places)
        self.names = [text("the name of a place", each.name) for each in self.places]
        if not self.names or len(set(self.names)) < len(self.names):
            raise InputError("places must be one or more, each with a name of its own: its people are counted once.")
        for one, other in combinations(self.places, 2):
            if getattr(one, "shares_rows", lambda _: False)(other):
                raise InputError(
                    f"the places {one.name!r} and {other.name!r} have the same rows, whose people would be counted "
                    "twice. Give each place its own rows. Nothing was charged."
                )
        self._people: dict[str, int] | None = None

    @property
    def people(self) -> dict[str, int]:
        if self._people is None:
            self._people = self._counts(None, ())
        return self._people

    @property
    def n(self) -> int:
        """Return the number of people at all places; public."""
        return sum(self.people.values())

    def ready(self, recipe: Any, models: Sequence[Load], n: int) -> None:
        """Make sure, before a charge, that every place is there with its people, and can ask these models.

        Raises:
            InputError: a model or the rows of a place do not fit.
            PlaceUnavailable: a place is away, or its number of people has changed.
            BudgetMismatch: the places do not have n people.
        """
        now = self._counts(recipe, models)
        self._people = self._people or now
        for name, before in self._people.items():
            if now[name] != before:
                raise PlaceUnavailable(
                    f"the place {name!r} had {before} people, and has another number now. {_NOTHING}"
                )
        if self.n != n:
            raise BudgetMismatch(
                f"the places have {self.n} people, and the ledger protects {n}. Other people need their own. {_NOTHING}"
            )

    def _counts(self, recipe: Any, models: Sequence[Load]) -> dict[str, int]:
        counts, mistake = self._each(lambda place: place.ready(recipe, models), _NOTHING)
        if mistake:
            raise InputError(mistake)
        return {name: at_least("the people of a place", n, 1) for name, n in zip(self.names, counts, strict=True)}

    def sums(self, asked: PlaceQuestion) -> Whole:
        """Return the sum over all people of a charged question.

        Raises:
            PlaceUnavailable: a place is away, late, or answers something else. The charge waits.
        """
        total = np.zeros(asked.entries, dtype=np.int64)
        answers, mistake = self._each(lambda place: place.answer(asked), _WAITS)
        if mistake:
            raise PlaceUnavailable(f"{mistake} {_WAITS}")
        for (name, n), answer in zip(self.people.items(), answers, strict=True):
            sums = _checked(asked, n, answer)
            if sums is None:
                raise PlaceUnavailable(f"the place {name!r} answered something else than was asked. {_WAITS}")
            total += sums
        return total

    def _each(self, send: Callable[[AnyPlace], Callable[[], T]], remedy: str) -> tuple[list[T], str]:
        """Send to all places, and wait for each; return the answers and a place's public mistake, or "".

        Another error of a place may quote private values: it is not shown.
        """
        answers, mistake, away = list[Any](), "", ""
        waits = [_outcome(send, place) for place in self.places]
        for place, wait in zip(self.places, waits, strict=True):
            answer = wait if isinstance(wait, BaseException) else _outcome(wait)
            if isinstance(answer, InputError):
                mistake = mistake or f"at the place {place.name!r}: {answer}"
            elif isinstance(answer, BaseException):
                away = away or f"the place {place.name!r} is away, late or failed. {remedy}"
            answers.append(answer)
        if away and not mistake:
            raise PlaceUnavailable(away)
        return answers, mistake

    def __repr__(self) -> str:
        return f"Places({', '.join(map(repr, self.names))})"


def _outcome(call: Callable[..., Any], *given: Any) -> Any:
    """Return what a place answers, or its error, which holds no frames."""
    try:
        return call(*given)
    except Exception as error:  # noqa: BLE001 - whatever a place raises
        return without_traceback(error)


def _checked(asked: PlaceQuestion, n: int, answer: Any) -> Whole | None:
    """Return a place's sums if n people can have them, else None."""
    if not isinstance(answer, Answer) or answer.digest != asked.digest or answer.n != n:
        return None
    if len(answer.sums) != asked.entries or not all(type(each) is int for each in answer.sums):
        return None
    most = n << asked.grid.bits
    least = 0 if isinstance(asked.query, TableQuery) else -most
    inside = all(least <= each <= most for each in answer.sums)  # as they are of every n people
    return np.array(answer.sums, dtype=np.int64) if inside else None


class HeldAtPlaces:
    """The points of a privatizer whose losses are at places, of n people in all: it knows only where models are."""

    def __init__(self, places: Places, n: int, clip: Interval, dtype: Any) -> None:
        self._places, self._n, self._clip, self._dtype = places, n, clip, dtype
        self._models: dict[str, ModelToAsk | None] = {}
        self._tried: set[str] = set()

    def __contains__(self, point: str) -> bool:
        return point in self._models

    def points(self) -> tuple[str, ...]:
        return tuple(self._models)

    def add(self, point: str, model: ModelToAsk | None, *, failed: bool = False) -> None:
        """Store the model of a point; None: its training failed, which is public."""
        self._models[point] = model

    def drop(self, point: str) -> None:
        self._models.pop(point)
        self._tried.discard(point)

    def ready(self, points: Sequence[str]) -> None:
        """Let every place try out the models that it has not tried yet."""
        new = [point for point in points if point not in self._tried]
        recipe, models = self._models_of(new)
        self._places.ready(recipe, [load for load in models if load is not None], self._n)
        self._tried.update(new)

    def mean(self, query: Query) -> Vector:
        """Return the mean over all people, as :meth:`StoredLosses.mean` does for those of one process."""
        grid = Grid.of(self._n, query)
        asked = PlaceQuestion(query, *self._models_of(query.points), self._clip, self._dtype, grid)
        return grid.mean(self._places.sums(asked), 1 / self._n)

    def _models_of(self, points: Sequence[str]) -> tuple[Any, tuple[Load | None, ...]]:
        """Return how models are asked, and what loads the models of points; None for one that failed."""
        models = [self._models[point] for point in points]
        recipes = {id(each.recipe): each.recipe for each in models if each is not None}
        if len(recipes) > 1:
            raise InputError("the models of one question must be asked for one loss. Nothing was charged.")
        return next(iter(recipes.values()), None), tuple(None if each is None else each.load for each in models)


def table_mean(places: Places, query: TableQuery, model: ModelToAsk) -> Vector:
    """Return a table's map of all people, as :meth:`TableQuery.mean` does for those of one process."""
    grid = Grid.of(places.n)
    asked = PlaceQuestion(query, model.recipe, (model.load,), None, np.float64, grid)
    return query.mean_of(places.sums(asked), grid, 1 / places.n)
