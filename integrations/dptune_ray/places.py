"""Places of private people as Ray actors near their rows: models and questions go there, sums over people come back.

Example::

    def north():  # called in the actor, on a node that can read these rows
        return dptune.Place("north", numpy_rows("/data/north.npz"))


    places = dptune.Places([RayPlace("north", north, resources={"north": 1}), RayPlace("south", south)])
    choice = choose(results, train, data=places, ledger=ledger, ...)

Guarantee: that of :mod:`dptune.privacy.places`. Private rows are never in an argument, object store or file of Ray. A
place's sums reach the driver, which is trusted with them, in the answers of its actor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import ray
from ray import cloudpickle

import dptune
from dptune._checks import positive, text
from dptune.privacy.places import Answer, Load, PlaceQuestion
from dptune.privacy.seal.silence import swallow
from dptune_ray.actors import RESTARTS, answer_of, start

# Loader of a model -> its bytes in the object store. A model is sent to a node once.
_STORED: WeakKeyDictionary[Load, Any] = WeakKeyDictionary()


class PlaceHost:
    """The actor's half: it makes the place, in silence, at its first call."""

    def __init__(self, name: str, make: Callable[[], dptune.Place]) -> None:
        swallow()
        self._place = make()
        if not isinstance(self._place, dptune.Place) or self._place.name != name:
            raise dptune.InputError(f"the function of the place {name!r} must return dptune.Place({name!r}, ...).")

    def ready(self, recipe: bytes, models: Sequence[Any]) -> int:
        return self._place.ready(cloudpickle.loads(recipe), _loaders(models))()

    def answer(self, asked: bytes, models: Sequence[Any]) -> Answer:
        return self._place.answer(replace(cloudpickle.loads(asked), models=_loaders(models)))()


def _loaders(references: Sequence[Any]) -> tuple[Any, ...]:
    """Return what loads each model when it is asked: the actor has one at a time."""
    return tuple(each and partial(lambda one: cloudpickle.loads(ray.get(one)), each) for each in references)


def _stored(load: Load) -> Any:
    if load not in _STORED:
        _STORED[load] = ray.put(cloudpickle.dumps(load()))
    return _STORED[load]


class RayPlace:
    """A place whose rows an actor reads. Ray restarts the actor up to five times; the rows are all that it holds.

    Args:
        name: public name of the place.
        make: returns ``dptune.Place(name, ...)``, and loads its rows. It is called in the actor.
        timeout: seconds to wait for an answer: longer than asking all finalists takes.
        options: of the actor, such as ``resources`` that only the place's node has, ``num_cpus`` or ``runtime_env``.
    """

    def __init__(self, name: str, make: Callable[[], dptune.Place], *, timeout: float = 600.0, **options: Any) -> None:
        self.name = text("name", name)
        self._timeout = positive("timeout", timeout)
        again = {"num_cpus": 1, "max_restarts": RESTARTS, "max_task_retries": RESTARTS}
        self._actor = start({**again, **options}, PlaceHost, name, make)

    def ready(self, recipe: Any, models: Sequence[Load]) -> Callable[[], int]:
        """Send models to try out; the result waits for the number of people."""
        return self._call("ready", recipe, models)

    def answer(self, asked: PlaceQuestion) -> Callable[[], Answer]:
        """Send a charged question; the result waits for the sums."""
        return self._call("answer", replace(asked, models=()), asked.models)

    def _call(self, method: str, sent: Any, models: Sequence[Load | None]) -> Callable[[], Any]:
        references = [load and _stored(load) for load in models]
        reference = self._actor.call.remote(method, cloudpickle.dumps(sent), references)
        return lambda: answer_of(reference, self._timeout)

    def __repr__(self) -> str:
        return f"RayPlace({self.name!r})"
