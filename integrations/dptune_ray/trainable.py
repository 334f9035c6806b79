"""Trials that hand their losses to the vault and report what it released.

A Tune *class* trainable, because Tune's function API would let the user's code report by itself. One trial is one
step. Its process is silenced before the user's code runs; whatever that raises becomes the upper clip for everybody.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import ray
from ray import tune

import dptune
from dptune.losses.user_function import Function
from dptune.privacy.private import loss_vector
from dptune.search.run import FINAL
from dptune_ray.actors import ActorClient
from dptune_ray.answers import Answer, answered
from dptune_ray.carried import Carried
from dptune_ray.client import VaultClient
from dptune_ray.guard import called_in_worker, told_by_type
from dptune_ray.private_process import make_this_process_private
from dptune_ray.spaces import flat


class SilentTrainable(tune.Trainable):  # type: ignore[misc]
    """A trial of one step in a process that says nothing, and that keeps nothing."""

    function: ClassVar[Carried]
    metric: ClassVar[str]

    def setup(self, config: dict[str, Any]) -> None:
        """Silence the worker, then read the user's function there.

        Raises:
            InputError: that is not possible.
        """
        if self.is_actor():
            make_this_process_private()
        type(self).function.load()

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Silence the worker again, whatever the last trial did; nothing is kept from one trial to the next."""
        self.setup(new_config)
        return True

    def _open_logfiles(self, stdout_file: str | None, stderr_file: str | None) -> None:
        """Open none: ``RunConfig(log_to_file=True)`` would have Tune write to files what the silence swallows."""

    def _close_logfiles(self) -> None:
        """There are none."""

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        """There is nothing to keep: a trial that starts again gets its recorded value."""
        return {}

    def load_checkpoint(self, checkpoint: dict[str, Any] | None) -> None:
        """There is nothing to load."""


T = TypeVar("T", bound=SilentTrainable)


def made_trainable(
    kind: type[T], original: Function, *, function: Function, run: ActorClient | None = None, **members: Any
) -> type[T]:
    """Return a subclass for one user's function, under its name.

    It is no class of the user's module, where Ray would import it from: it travels by value, the function as bytes.
    Tune finds it by a name again, and of two with one name the younger would run the other's trials: so the name that
    Tune gets is also that of the ``run``.
    """
    name = getattr(original, "__name__", type(original).__name__)
    registered = name if run is None else f"{name.strip('<>')}-{run.name[-6:]}"
    about = {"__doc__": original.__doc__, "__module__": __name__, "_name": registered}
    return type(name, (kind,), {"function": Carried(function), **members, **about})


class PrivateTrainable(SilentTrainable):
    """A private trial; :meth:`VaultSearch.trainable` makes a subclass with function, vault and metric."""

    vault: ClassVar[VaultClient]

    def step(self) -> dict[str, Any]:
        """Check the budget, train, hand the losses over, report the released value.

        A trial for which the run has no release left reports NaN and was not trained.

        Raises:
            BudgetExhausted: before the function is called.
            KeyConflict: likewise; the trial has a value at other parameters.
            InputError: the function returned something that is not per-example losses.
        """
        return {self.metric: told_by_type(self._value), "done": True}

    def _value(self) -> float:
        try:
            self.vault.check(self.trial_id, flat(self.config))
            losses = losses_at(type(self).function, self.config)
            return self.vault.finish(self.trial_id, flat(self.config), losses)
        except dptune.PlanComplete:
            return math.nan

    @classmethod
    def try_out(cls, config: Mapping[str, Any]) -> str:
        """Call the function once in this process and let its exceptions through, to find bugs.

        In a trial exceptions are swallowed, because they could depend on private data. Use this on public or made-up
        data, or where you may see the private data; nothing is released, stored or spent.
        """
        return repr(dptune.PerExampleLosses(cls.function(copy.deepcopy(dict(config)))))


class FinalTrial:
    """The evaluation behind the final estimate, in a process of its own."""

    @answered
    def run(self, trainable: type[PrivateTrainable], config: Mapping[str, Any]) -> dptune.Estimate:
        """Evaluate and hand over, like a trial."""
        make_this_process_private()
        trainable.function.load()
        losses = losses_at(trainable.function, config)
        return told_by_type(lambda: trainable.vault.estimate(FINAL, flat(config), losses))


def losses_at(function: Function, config: Mapping[str, Any]) -> Any:
    """Return the losses (rows,) float64 of the user's function, or None if it raised.

    The function gets a copy of the configuration: Tune writes the original to every result.

    Raises:
        InputError: what came back is not a vector of real numbers.
    """
    return called_in_worker(function, copy.deepcopy(dict(config)), loss_vector)


def resources(request: tune.PlacementGroupFactory | None) -> dict[str, Any]:
    """Return the options of an actor that gets what Tune gives the process of a trial; one CPU without a request."""
    if request is None:
        return {"num_cpus": 1}
    wanted = {} if request.head_bundle_is_empty else request.bundles[0]  # the others are for what the trial starts
    options = {"num_cpus": wanted.pop("CPU", 0.0), "num_gpus": wanted.pop("GPU", 0.0)}
    memory = {"memory": wanted.pop("memory")} if "memory" in wanted else {}
    return {**options, **memory, "resources": wanted}


def final_estimate(trainable: type[PrivateTrainable], config: Mapping[str, Any]) -> dptune.Estimate:
    """Run :class:`FinalTrial` on the cluster, on what a trial of this configuration gets."""
    wanted = resources(trainable.default_resource_request(dict(config)))
    actor = ray.remote(FinalTrial).options(**wanted).remote()
    try:
        answer: Answer = ray.get(actor.run.remote(trainable, dict(config)))
    finally:
        ray.kill(actor)
    estimate: dptune.Estimate = answer.get()
    return estimate
