"""The process of a trial: it is silenced, then loads the user's function, calls it, and passes its result on.

The trainables are Tune *class* trainables, because Tune's function API would let the user's code report by itself. They
have one step, and one for each report of a public quantity (:mod:`dptune_ray.reports`). Ray loads a class or an
argument before any code of ours runs. Loading a function imports its module, whose prints would be in the session's
logs. So functions travel as bytes.
"""

from __future__ import annotations

import copy
import dis
import math
import signal
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

import ray
from ray import cloudpickle, tune

import dptune
from dptune.losses.user_function import Function, call_guarded
from dptune.privacy.seal.private import loss_vector
from dptune.privacy.seal.silence import swallow
from dptune_ray.actors import ActorClient, answer_of, start
from dptune_ray.reports import PUBLIC, SIGMA, public_reports
from dptune_ray.spaces import flat
from dptune_ray.vault import Vault
from dptune_ray.vault_client import VaultClient

T = TypeVar("T")


def prepare_this_process(*, silent: bool) -> None:
    """Make SIGTERM end this worker process, and discard standard output and error if it must be silent.

    On SIGTERM Ray would raise ``SystemExit`` inside the user's function, like a failure of the function. The trial
    would then be charged, with the upper clip as everybody's loss.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if silent:
        swallow()


class PickledFunction:
    """A user's function for another process: pickled as bytes, loaded by :meth:`load`."""

    def __init__(self, function: Callable[..., Any] | None, pickled: bytes = b"") -> None:
        self._function, self._bytes = function, pickled

    def load(self) -> Callable[..., Any]:
        """Return the function; if this process cannot load it, report the missing module or the error's type."""
        if self._function is not None:
            return self._function
        try:
            self._function = cloudpickle.loads(self._bytes)
            return self.load()
        except ModuleNotFoundError as error:
            failure = f"there is no module {error.name!r}"
        except BaseException as error:  # noqa: BLE001 - a module's top level is the user's code
            failure = type(error).__name__
        raise dptune.InputError(
            f"the function could not be read where the trial runs ({failure}); are its modules installed there?"
        )

    def __call__(self, *args: Any) -> Any:
        return self.load()(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        return PickledFunction, (None, self._bytes if self._function is None else cloudpickle.dumps(self._function))


def called_in_worker(function: Function, argument: Any, take: Callable[[Any], T]) -> T | None:
    """Return ``take`` of the user's result, or None if the function raised."""
    # A KeyboardInterrupt in a worker is the function's own, as there is no console. Showing it would reveal one bit of
    # private data without noise.
    outcome = call_guarded(function, argument, take)
    return None if isinstance(outcome.error, KeyboardInterrupt) else outcome.or_raise()


def losses_at(function: Function, config: Mapping[str, Any]) -> Any:
    """Return the losses (rows,) float64 at a copy of the configuration, which Tune writes to every result."""
    return called_in_worker(function, copy.deepcopy(dict(config)), loss_vector)


class Call:
    """An actor that makes one call."""

    def run(self, call: Callable[[], Any], *, silent: bool) -> Any:
        prepare_this_process(silent=silent)
        return call()


def in_own_process(call: Callable[[], T], *, silent: bool, options: dict[str, Any]) -> T:
    """Return the result of ``call`` in a new process, with Ray's ``options``, which ends afterwards."""
    actor = start(options, Call)
    try:
        result: T = answer_of(actor.call.remote("run", call, silent=silent))
    finally:
        ray.kill(actor)
    return result


class WorkerTrial(tune.Trainable):  # type: ignore[misc]  # Tune has no types
    """A trial without a stored state; :func:`made_trainable` makes a subclass for a user's function."""

    function: ClassVar[PickledFunction]
    metric: ClassVar[str]
    silent: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        if "setup" in vars(cls):
            raise dptune.InputError(
                "tune.with_parameters(...) around a private trainable would put its objects into Ray's object store, "
                "and a trainable of dptune has no setup of yours. Load the objects inside the function, or close over "
                "them."
            )

    def setup(self, config: dict[str, Any]) -> None:
        if self.is_actor():
            prepare_this_process(silent=self.silent)
        type(self).function.load()

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.cleanup()
        return True

    def _open_logfiles(self, stdout_file: str | None, stderr_file: str | None) -> None:
        """Open no log files: with ``RunConfig(log_to_file=True)`` Tune would write the discarded output to files."""
        if not self.silent:
            super()._open_logfiles(stdout_file, stderr_file)

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        """Store nothing: a restarted trial gets its recorded value."""
        return {}

    def load_checkpoint(self, checkpoint: dict[str, Any] | None) -> None:
        """Load nothing, as checkpoints are empty."""


K = TypeVar("K", bound=WorkerTrial)


def made_trainable(
    kind: type[K], original: Function, function: Function, run: ActorClient, *, silent: bool, **members: Any
) -> type[K]:
    """Return a subclass for one user's function, under its name.

    It is not a class of the user's module, from which Ray would import it: it travels by value, the function as bytes.
    Tune finds a trainable by its name, and a newer one of the same name would run the older one's trials. So the name
    for Tune includes the ``run``.
    """
    code = getattr(original, "__code__", None)
    if code is not None and members.get("public") is None and "report_public" in code.co_names:
        raise dptune.InputError(
            "the function calls report_public(...), which makes a quantity public. Say in words what it is, for the "
            'ledger\'s statement: search.trainable(public="log loss on 300 public rows").'
        )
    if code is not None and _reports_itself(original, code):
        raise dptune.InputError(
            "the function calls tune.report(...), which does nothing in a private trial: dptune reports the released "
            "value. Remove the call and return the losses. For a scheduler, report a quantity of public rows: "
            "call report_public(value, step) in the function. Make the trainable with "
            'search.trainable(public="log loss on 300 public rows"), the scheduler with metric="public", mode="min".'
        )
    name = getattr(original, "__name__", type(original).__name__)
    attributes = {"__doc__": original.__doc__, "__module__": __name__, "_name": f"{name.strip('<>')}-{run.name[-6:]}"}
    return type(name, (kind,), {"function": PickledFunction(function), "silent": silent, **members, **attributes})


def _reports_itself(function: Function, code: Any) -> bool:
    """Return whether the function itself uses ``tune.report``, as an attribute or imported by name."""
    imported = function.__globals__.get("report") is tune.report and "report" in code.co_names
    names = [instruction.argval for instruction in dis.get_instructions(code)]
    return imported or ("tune", "report") in pairwise(names)


class PrivateTrainable(WorkerTrial):
    """A private trial that a vault charges; ``search.trainable(...)`` makes a subclass."""

    vault: ClassVar[VaultClient]
    public: ClassVar[str | None] = None  # the function's reports, in the user's words
    _running: Generator[dict[str, Any], None, None] | None = None

    def step(self) -> dict[str, Any]:
        """Return public reports, if any, then the released value, after the budget's check, training and upload.

        A trial reports NaN, without a charge, if the run has no release left for it. It also does if its function
        failed before any trial of the run succeeded. A release of its own comes with `sigma`, the standard deviation of
        its noise.
        """
        if self._running is None:  # schedulers want their metric in every result
            self._shown = {self.metric: math.nan, **({} if self.public is None else {PUBLIC: math.nan})}
            self._running = self._results()
        self._shown |= next(self._running)
        return dict(self._shown)

    def _results(self) -> Generator[dict[str, Any], None, None]:
        parameters = flat(self.config)
        value = math.nan
        noise = dict[str, float]()
        function = type(self).function.load()
        call = partial(losses_at, function, self.config)
        try:
            released = self.vault.call(Vault.check, self.trial_id, parameters)
            if released is None:
                losses = call() if self.public is None else (yield from public_reports(call))
                released = self.vault.finish(self.trial_id, parameters, losses)
            value = float(released)
            if (sigma := self.vault.call(Vault.sigma, self.trial_id)) is not None:
                noise[SIGMA] = sigma
        except dptune.errors.AllTrialsFailed:
            raise
        except (dptune.PlanComplete, dptune.errors.TrialFailed):
            pass
        except dptune.InputError as error:  # refused by public facts
            self.vault.call(Vault.refused, str(error))
            raise
        unpaid = {PUBLIC: math.nan} if self.public is not None and math.isnan(value) else {}
        # NaN with a report: no scheduler has stopped the trial
        yield {**noise, self.metric: value, "done": True, **unpaid}

    def cleanup(self) -> None:
        """End the user's function where it waits: Tune has stopped the trial, whose state is dropped."""
        if self._running is not None:
            self._running.close()
            self._running = None

    @classmethod
    def try_out(cls, config: Mapping[str, Any]) -> str:
        """Call the function once in this process and let its exceptions through, to find bugs.

        In a trial exceptions are swallowed, because they could depend on private data. Use this on public or made-up
        data, or where you may see the private data; nothing is released, stored or spent.
        """
        return repr(dptune.privacy.PerExampleLosses(cls.function(copy.deepcopy(dict(config)))))


def estimated(trainable: type[PrivateTrainable], configs: Sequence[Mapping[str, Any]]) -> dptune.results.Estimate:
    """Evaluate a configuration and, if given, the default; return the final estimate."""
    return trainable.vault.estimate(flat(configs[0]), *_losses_of(trainable, configs))


def _losses_of(trainable: type[PrivateTrainable], configs: Sequence[Mapping[str, Any]]) -> list[Any]:
    function = trainable.function.load()
    return [losses_at(function, config) for config in configs]


def resources(request: tune.PlacementGroupFactory | None) -> dict[str, Any]:
    """Return actor options with the resources of a trial's process; one CPU without a request."""
    if request is None:
        return {"num_cpus": 1}
    wanted = {} if request.head_bundle_is_empty else request.bundles[0]  # other bundles: the trial's processes
    options = {"num_cpus": wanted.pop("CPU", 0.0), "num_gpus": wanted.pop("GPU", 0.0)}
    memory = {"memory": wanted.pop("memory")} if "memory" in wanted else {}
    return {**options, **memory, "resources": wanted}
