"""Models are asked about private people in this process, or at the places that have their rows.

Example, five hospitals in one process::

    places = dptune.Places([dptune.Place(name, (X, y)) for name, (X, y) in hospitals.items()])
    choice = dptune_optuna.choose(study, train, data=places, ...)

Models travel to the rows. A place asks them with the guards of one process (:mod:`dptune.losses.estimator`) and bounds
each person's influence. It answers with a sum over its people, which only the trusted process reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial, update_wrapper
from typing import Any, NoReturn, Protocol

import numpy.typing as npt

from dptune._checks import attempt, readable, text
from dptune.choice.kept_models import KeptModels
from dptune.choice.payer import rows_of
from dptune.errors import InputError, ObjectiveRefused, PrivacyError
from dptune.losses.columns import Names
from dptune.losses.estimator import EstimatorLosses
from dptune.losses.examples import as_rows
from dptune.losses.named import NamedLoss
from dptune.losses.rows import Rows, rows_named
from dptune.losses.user_function import Data, losses_function, private_losses
from dptune.privacy.observed import Losses
from dptune.privacy.places import Answer, Load, ModelToAsk, PlaceQuestion, Places
from dptune.privacy.seal.reachable import refuse_reachable, way_to
from dptune.privacy.stored_losses import People


class Asker(Protocol):
    """Asks models about private rows."""

    def check(self, model: Any) -> None:
        """Refuse a model that cannot be asked, by public facts."""

    def losses(self, argument: Any) -> Losses | None:
        """Return the losses (rows,) of the model that the recipe's function makes of the argument."""


class Recipe(Protocol):
    """The public part of asking: which loss, or which cells.

    Attributes:
        function: makes a model of an argument, in the trusted process. It must not reach the private rows.
    """

    function: Callable[[Any], Any]

    def open(self, data: Any, rows: int, place: str) -> Asker:
        """Load the private rows of a place; what is raised depends on public facts."""


def as_it_is(inputs: object, model: Any) -> Any:
    """Return the model; inputs of its training are an argument because they are searched for private rows."""
    return model


ITSELF = partial(as_it_is, None)


def asker_of(recipe: Any, data: Any, rows: int, *, trains: bool = False) -> Asker:
    """Return what asks models about ``data=``: the rows of this process, or places.

    ``trains`` says that a training follows, before which places are asked for their people and rows.
    """
    if not isinstance(data, Places):
        opened: Asker = recipe.open(data, rows, "")
        return opened
    places = AtPlaces(recipe, data, rows)
    if trains:
        places.check()
    return places


def refuse_reaching(inputs: Mapping[str, object], data: Any) -> None:
    """Refuse inputs of a training, by their names, that reach the private rows, of which none is read.

    Raises:
        InputError: they do, and workers and tasks would get the rows; or ``data`` has another form.
    """
    if isinstance(data, Places):
        for place in data.places:
            if isinstance(place, Place):
                place.refuse_reaching(inputs)
        return
    if data is None:
        return
    try:
        rows = None if callable(data) else as_rows(data)
    except ObjectiveRefused as error:
        mistake = f"{error} Of several places give dptune.Places. Nothing was charged."
    else:
        held = (data,) if rows is None else (rows.X, rows.y)
        readable("X or y", partial(refuse_reachable, partial(dict, **inputs)), *held)
        return
    raise InputError(mistake)


class AtPlaces:
    """Lets places, of n people in all, ask models, of which this process has one at a time in memory."""

    def __init__(self, recipe: Any, places: Places, n: int) -> None:
        self._function, self._places, self._n = recipe.function, places, n
        self._recipe = replace(recipe, function=partial(as_it_is, recipe.function))
        self._kept = KeptModels()

    def check(self, *models: Any) -> None:
        self._places.ready(self._recipe, [partial(ITSELF, model) for model in models], self._n)

    def losses(self, argument: Any) -> ModelToAsk:
        place = len(self._kept)
        self._kept.put(place, self._function(argument))
        return ModelToAsk(self._recipe, partial(self._kept.get, place))


class Sent:
    """A recipe without its function, which stays in the trusted process, if it is pickled for another one."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "function": ITSELF}


_BOTH = Names("the private X", "the public X")  # data=(X, y), and public= or held_out=


def with_like(data: Any, public: Any) -> Any:
    """Return the private examples, or their loader, with public rows that define their columns."""
    if callable(data):
        return cache(update_wrapper(lambda: with_like(data(), public), data, assigned=(), updated=()))
    if isinstance(data, Rows):
        return data if data.like is not None else rows_named(data.X, data.y, public, _BOTH)
    if not isinstance(data, tuple | list) or len(data) != 2:
        return data  # which is refused where losses are
    X, y = data
    return rows_named(X, y, public, _BOTH)


@dataclass(frozen=True, eq=False)
class AskLoss(Sent):
    """A model is asked for a loss of each row.

    Attributes:
        loss: which.
        function: makes a model of an argument.
        like: public rows that say what columns hold, unless a place's own say so; None: all are numbers.
    """

    loss: str | NamedLoss | None
    function: Callable[[Any], Any] = ITSELF
    like: Any = None

    def open(self, data: Data | Callable[[], Data] | None, rows: int, place: str) -> Asker:
        data = data if self.like is None else with_like(data, self.like)
        try:
            asks: Any = losses_function(self.function, self.loss, data, rows=rows)
            if isinstance(asks, EstimatorLosses):
                asks.load()
        except ObjectiveRefused as error:
            mistake = str(error)
        else:
            return _Losses(asks, rows)
        raise InputError(mistake)


@dataclass(frozen=True)
class _Losses:
    asks: Any
    rows: int

    def check(self, model: Any) -> None:
        self.asks.try_out(model)

    def losses(self, argument: Any) -> Losses:
        return private_losses(self.asks, argument, self.rows)


class Place:
    """The private people of one place, in the process that has their rows.

    Args:
        name: public, such as the hospital's.
        data: (X, y) or ``dptune.Rows`` of its private rows, or a function that loads them.
        groups: whose each row is; default one person for each row.
        n: number of rows, where ``data`` is a function. The number of people is public.

    Raises:
        InputError: the number of people is unknown, or given twice.
    """

    def __init__(
        self,
        name: str,
        data: Data | Callable[[], Data],
        *,
        groups: npt.ArrayLike | None = None,
        n: int | None = None,
    ) -> None:
        self.name = text("name", name)
        self._data = data
        self._people = People.of(n if groups is not None or n is not None else rows_of(data), groups, None)
        self._opened: tuple[Any, Asker] | None = None

    def refuse_reaching(self, inputs: Mapping[str, object]) -> None:
        """Refuse inputs of a training, in the process of this place, that reach its rows, of which none is read."""
        try:
            refuse_reaching(inputs, self._data)
        except InputError as error:
            mistake = f"at the place {self.name!r}: {error}"
        else:
            return
        raise InputError(mistake)

    def shares_rows(self, other: object) -> bool:
        """Return whether another place has the same loader, or rows in the same memory, by one column of a frame."""
        if not isinstance(other, Place):
            return False
        return way_to(partial(as_it_is, other._held()), *self._held()) is not None

    def _held(self) -> tuple[Any, ...]:
        rows = attempt(as_rows, self._data, failed=None)
        return (self._data,) if rows is None else (attempt(lambda: rows.X.iloc[:, :1], failed=rows.X), rows.y)

    def ready(self, recipe: Recipe | None, models: Sequence[Load]) -> Callable[[], int]:
        """Return what tries models out on public facts, and returns the number of people."""
        return partial(self._ready, recipe, models)

    def answer(self, asked: PlaceQuestion) -> Callable[[], Answer]:
        """Return what computes this place's sum for a charged question."""
        return partial(self._answer, asked)

    def _ready(self, recipe: Recipe | None, models: Sequence[Load]) -> int:
        if recipe is not None:
            asker = self._asker(recipe)
            for load in models:
                asker.check(load())
        return self._people.n

    def _answer(self, asked: PlaceQuestion) -> Answer:
        asker = self._asker(asked.recipe)
        return asked.answer(self._people, (_losses_of(asker, load) for load in asked.models))

    def _asker(self, recipe: Recipe) -> Asker:
        """Return what asks about the rows, which are read once for all models of a recipe."""
        if self._opened is None or self._opened[0] is not recipe:
            self._opened = recipe, recipe.open(self._data, self._people.rows, self.name)
        return self._opened[1]

    def _refuse(self, *_: object) -> NoReturn:
        raise PrivacyError("a Place holds private rows: it is not copied or pickled. Make it where its rows are.")

    __copy__ = __deepcopy__ = __getstate__ = __reduce__ = __reduce_ex__ = _refuse

    def __repr__(self) -> str:
        return f"Place({self.name!r}, n={self._people.n})"


def _losses_of(asker: Asker, load: Load | None) -> Losses | None:
    """Return the losses of a model; None if its training failed, or if it cannot be asked after all."""
    try:
        return None if load is None else asker.losses(load())
    except InputError:
        return None
