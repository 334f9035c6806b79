"""A trial whose value is one user's locally private reply; its process is the user's device."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import dptune
from dptune.local.randomizer import Randomizer
from dptune_ray.carried import Carried
from dptune_ray.desk import Ask, DeskClient, Promise
from dptune_ray.guard import called_in_worker, told_by_type
from dptune_ray.spaces import flat
from dptune_ray.trainable import SilentTrainable

User = str | Callable[[Mapping[str, Any]], str]


class LocalTrainable(SilentTrainable):
    """One user's reply; :meth:`LDPSearch.trainable` makes a subclass with the attributes."""

    desk: ClassVar[DeskClient]
    randomizer: ClassVar[Randomizer]
    user: ClassVar[str | Carried | None]

    def step(self) -> dict[str, Any]:
        """Charge the user, measure, randomise here, and report the reply. A repetition gets the recorded reply.

        Raises:
            CapReached: before the function is called.
        """
        ask = self._ask()
        return {self.metric: told_by_type(lambda: self._reply(ask)), "done": True}

    def _reply(self, ask: Ask) -> float:
        reply = self.desk.charge(ask)
        if reply is not None:
            return reply
        function = type(self).function
        value = called_in_worker(lambda config: float(function(config)), copy.deepcopy(dict(self.config)), float)
        return self.desk.record(ask, type(self).randomizer.randomize(value))

    def _ask(self) -> Ask:
        user, randomizer = type(self).user, type(self).randomizer
        who = user(copy.deepcopy(dict(self.config))) if callable(user) else user
        promise = Promise(randomizer.epsilon, randomizer.private, randomizer.describe())
        return Ask(self.trial_id, flat(self.config), who, promise)

    @classmethod
    def try_out(cls, config: Mapping[str, Any]) -> None:
        """Call the function once in this process and let its exceptions through, to find bugs.

        Use this on made-up data: in a trial exceptions are swallowed, because they could depend on private data.

        Raises:
            TypeError: the function returned no number.
        """
        float(cls.function(copy.deepcopy(dict(config))))


def check_device(randomizer: object, ledger: object, user: object) -> None:
    """Refuse what cannot be a user's device.

    Raises:
        InputError: there is no randomiser, or only one of ledger and user.
    """
    if not (hasattr(randomizer, "randomize") and hasattr(randomizer, "describe")):
        raise dptune.InputError("give randomizer=LocalRandomizer(...), which makes the value private on the device.")
    if (ledger is None) != (user is None):
        raise dptune.InputError("give ledger= and user= together: a ledger charges a user.")


def check_failure(settings: Mapping[str, object], mode: str) -> None:
    """Refuse a randomiser by which a setting that fails would win.

    Raises:
        InputError: its stand-in for a failure is the best value there is.
    """
    best, worst = ("high", "low") if mode == "max" else ("low", "high")
    if settings.get("invalid") is not None and settings.get("invalid") == settings.get(best):
        raise dptune.InputError(
            f'with mode="{mode}" a setting that fails would win: it counts as invalid={settings["invalid"]!r}, the '
            f"best in the interval. Give the randomiser invalid={settings.get(worst)!r}, the worst."
        )
