"""The results of a finished, ordinary Tune experiment propose, and private people choose once among the best.

Example::

    results = tune.Tuner(trainable, param_space=space, tune_config=tuning).fit()  # public rows, any searcher


    def train(config, X, y):
        return SVC(C=config["C"], probability=True, random_state=0).fit(X, y)


    choice = choose(results, train, ledger=ledger, loss="log_loss", data=(X_val, y_val), public=(X_train, y_train))
    print(choice.summary())

Where the trials have saved their models, ``load=`` takes these, and nothing is trained::

    choice = choose(results, load=load, ledger=ledger, loss="log_loss", data=(X_val, y_val), public=(X_held, y_held))

Guarantee: as in :class:`dptune.PublicChoice`. Ray's tasks train on public rows, and load checkpoints. Private rows are
    read in this process only, and are never in an argument, object store or file of Ray.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import ray
from ray import cloudpickle, tune
from ray.tune.result import AUTO_RESULT_KEYS

import dptune
from dptune._checks import attempt, real, users_function
from dptune.choice.configurations import Candidate
from dptune.choice.payer import Payer
from dptune.choice.proposals import (
    Choice,
    ChoiceOptions,
    Proposals,
    choose_among,
    not_candidates,
)
from dptune.choice.public_training import HeldOut, PublicTraining, required
from dptune.losses.named import NamedLoss
from dptune.losses.user_function import Data
from dptune.privacy.seal.uninitialised import write_memory_of_cmaes

_logger = logging.getLogger(__name__)
UNNAMED = re.compile(r"_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d$")  # suffix of Tune's names for experiments without a name


def choose(
    results: tune.ResultGrid,
    train: Any = None,
    *,
    load: Callable[..., Any] | None = None,
    data: Data | Callable[[], Data] | dptune.Places,
    loss: str | NamedLoss,
    ledger: Payer,
    public: tuple[Any, Any] | None = None,
    default: Mapping[str, Any] | None = None,
    groups: npt.ArrayLike | None = None,
    n: int | None = None,
    budget: dptune.Budget | None = None,
    name: str | None = None,
    cv: Any = 5,
    public_losses: npt.ArrayLike | None = None,
    candidates: int = 200,
    mu: float | None = None,
    public_weight: float = 1.0,
    estimate_share: float | None = None,
    finalists: int | None = None,
    report_share: float | None = None,
    even_if_hopeless: bool = False,
    dry_run: bool = False,
    averages: bool = False,
    metric: str | None = None,
    mode: str | None = None,
    task_options: Mapping[str, Any] | None = None,
) -> Choice:
    """Let private people choose among the best configurations of an experiment that has seen public rows only.

    The best results are cross-validated on the public rows, and the finalists are trained on all of them, each in a
    Ray task. Or each trial's checkpoint is loaded, and nothing is trained. One private choice is made in this process.
    Public rows vote in it.

    Args:
        results: what ``Tuner.fit`` returned, of any searcher and scheduler.
        train: (config, X, y) -> model, trained on these public rows, or an estimator of scikit-learn's kind whose
            parameters were searched. The model is sent back: it must pickle.
        load: instead of ``train``: checkpoint -> model, or (checkpoint, config) -> model. A trial's checkpoint is the
            best by ``metric`` of those that Tune has kept, or the last one if none has a metric. Trials without a
            checkpoint are not candidates.
        data: (X, y) or ``dptune.Rows`` of the private rows, a function that loads them, or :class:`dptune.Places`.
        loss: the per-example loss, a name or a ``NamedLoss``.
        ledger: a ``PrivacyLedger`` to charge, its path or URL, or a ``LossPrivatizer`` where people have weights.
        public: (X, y), the public rows that train; with ``load`` public rows on which no trial was trained.
        default: your configuration of today: a candidate, and what the verdict compares with.
        groups: whose each private row is; default one person for each row.
        n: number of private rows, where ``data`` is a function.
        budget: of a ledger that does not exist yet.
        name: of the choice in the ledger; default ``"<experiment> (choice)"``, or a digest of what is proposed.
        cv: folds of the public rows: a number, or a scikit-learn splitter.
        public_losses: instead of ``cv``: losses of N public rows, one row for each configuration that was searched.
        candidates: how many configurations are cross-validated at most.
        mu, public_weight, estimate_share, finalists, report_share, even_if_hopeless: see :class:`dptune.PublicChoice`.
        dry_run: only make the plan, and return a ``Choice`` that prints it. No private row is read (``data`` may be
            None, with ``n``); nothing is stored or charged.
        averages: whether the candidates are averages of what configurations predict; see
            :class:`dptune.choice.proposals.ChoiceOptions`.
        metric, mode: by which results are ranked; default the experiment's.
        task_options: Ray's options of a task, such as ``num_gpus``.

    Returns:
        A :class:`dptune.choice.proposals.Choice`: ``params``, ``selection`` and ``model``.

    Raises:
        InputError, UnsupportedMetric, BudgetExhausted, BudgetMismatch: as in
            :func:`dptune.choice.proposals.choose_among`.
    """
    options = ChoiceOptions(
        data=data, loss=loss, ledger=ledger, public=public, default=default, groups=groups, n=n,
        budget=budget, name=name, cv=cv, public_losses=public_losses, candidates=candidates, mu=mu,
        public_weight=public_weight, estimate_share=estimate_share, finalists=finalists,
        report_share=report_share, even_if_hopeless=even_if_hopeless, dry_run=dry_run,
        averages=averages,
    )  # fmt: skip
    write_memory_of_cmaes()  # here, where private rows are read, not in the tasks: a later search may be pickled
    experiment = Path(results.experiment_path).name if isinstance(results, tune.ResultGrid) else ""
    name = None if UNNAMED.search(experiment) else experiment
    if (train is None) == (load is None):
        raise dptune.InputError(
            "choose(results, train, ...) needs either train, a function (config, X, y) -> model or an estimator "
            "such as SVC(), or load=, a function checkpoint -> model. Nothing was charged."
        )
    found = _ranked(results, metric, mode, saved=load is not None)
    if load is None and (having := sum(one.checkpoint is not None for one in found)):
        _logger.info(f"{having} of {len(found)} trials have a checkpoint: with load= in place of train nothing trains.")
    kept = [one for one in found if load is None or one.checkpoint is not None]
    if not kept:
        raise dptune.InputError(
            "no trial has a checkpoint: report it by tune.report(metrics, checkpoint=...), or give train. "
            "Nothing was charged."
        )
    crashed = sum(one.error is not None for one in results)
    counted = {
        "ended with an error": crashed,
        "have no finite metric": len(results) - crashed - len(found),
        "have no checkpoint": len(found) - len(kept),
    }
    proposals = Proposals(
        [Candidate(results[one.place].config or {}, one.place) for one in kept],
        searched=len(results),
        name=name,
        excluded=not_candidates(len(results), counted),
    )
    if load is None:
        tasks = _Tasks(PublicTraining(train, options), (train, public), task_options or {})
    else:
        checkpoints = {one.place: one.checkpoint for one in kept}
        tasks = _Tasks(HeldOut(_loader(load), options), (load, public), task_options or {}, checkpoints)
    return choose_among(proposals, tasks, options, _logger.info, _logger.warning)


class _Ranked(NamedTuple):
    """A result that is a candidate: its place, its value, smaller is better, and its checkpoint."""

    place: int
    value: float
    checkpoint: tune.Checkpoint | None


def _ranked(results: tune.ResultGrid, metric: str | None, mode: str | None, *, saved: bool) -> list[_Ranked]:
    """Return the results with a finite metric, the best first; if they are ``saved``, by their best checkpoints."""
    if not isinstance(results, tune.ResultGrid):
        raise dptune.InputError(f"results must be what Tuner.fit() returned; got {type(results).__name__}.")
    analysis = results._experiment_analysis
    metric, mode = metric or analysis.default_metric, mode or analysis.default_mode
    if metric is None or mode not in ("min", "max"):
        raise dptune.InputError(f'give metric= and mode="min" or "max"; there are {metric!r} and {mode!r}.')
    sign = 1.0 if mode == "min" else -1.0
    found = list[_Ranked]()
    for place, one in enumerate(results):
        last = (one.checkpoint, one.metrics)
        states = [_Ranked(place, sign * _number(of, metric), at) for at, of in (last, *(one.best_checkpoints or ()))]
        finite = [each for each in states[1:] if saved and math.isfinite(each.value)] or states[:1]
        found.append(min(finite, key=lambda each: each.value))
    found = [one for one in found if math.isfinite(one.value) and results[one.place].error is None]
    if not found:
        names = dict.fromkeys(name for one in results for name in _names(one.metrics or {}))
        known = ", ".join(map(repr, [*names][:10])) or "nothing"
        raise dptune.InputError(
            f"no result of the experiment has a finite {metric!r}. Finite is {known}. Nothing was charged."
        )
    ids = [str((one.metrics or {}).get("trial_id", "")) for one in results]
    # a restored experiment lists its trials in another order
    return sorted(found, key=lambda one: (one.value, ids[one.place]))


def _number(metrics: Mapping[str, Any] | None, metric: str) -> float:
    """Return a metric of a result, or NaN. The name ``eval/loss`` means ``loss`` in the dictionary ``eval``."""
    found = metrics or {}
    if metric in found:
        return attempt(float, found[metric], failed=math.nan)
    outer, _, inner = metric.partition("/")
    return _number(found[outer], inner) if isinstance(found.get(outer), Mapping) else math.nan


def _names(metrics: Mapping[str, Any]) -> Iterator[str]:
    """Yield Tune's names of the finite numbers that a trial reported."""
    for name, value in metrics.items():
        if isinstance(value, Mapping) and name != "config":
            yield from (f"{name}/{inner}" for inner in _names(value))
        elif real(value) is not None and name not in AUTO_RESULT_KEYS:
            yield name


def _loader(load: Callable[..., Any]) -> Callable[[tuple[Any, Any]], Any]:
    """Return the user's function as one of a pair of checkpoint and configuration."""
    users_function("load", load, " of a checkpoint")
    if (wanted := required(load)) not in (1, 2):
        raise dptune.InputError(f"load must take (checkpoint) or (checkpoint, config); it takes {wanted} arguments.")
    return lambda at: load(*at[:wanted])


class _Tasks:
    """Trains candidates in parallel Ray tasks, or loads their checkpoints; a task's error is its result."""

    def __init__(
        self,
        training: PublicTraining | HeldOut,
        inputs: object,
        task_options: Mapping[str, Any],
        checkpoints: Mapping[int, Any] | None = None,
    ) -> None:
        self._training, self.inputs, self._checkpoints = training, inputs, checkpoints
        self._options = {"num_cpus": 1, "max_retries": 3, **task_options}

    @property
    def lasting(self) -> bool:
        return self._checkpoints is not None

    def evidence(self, candidates: Sequence[Candidate]) -> tuple[object, list[object]] | None:
        if isinstance(self._training, HeldOut):  # a checkpoint's content is not read for it
            return None
        return self._training.evidence, [one.parameters for one in candidates]

    @cached_property
    def _shared(self) -> Any:
        """Return the tasks' public inputs, put into Ray's object store when the first task needs them."""
        return ray.put(cloudpickle.dumps(self._training))

    def losses(self, candidates: Sequence[Candidate]) -> Iterator[Any]:
        how = "cross-validate on" if self._checkpoints is None else "ask checkpoints about"
        return self._each(_losses, candidates, f"{how} public rows", 8 * self._at_once())

    def models(self, candidates: Sequence[Candidate]) -> Iterator[Any]:
        """Yield the models: as many are in the object store at a time as the cluster trains, and of checkpoints one.

        No task runs while a model is asked about private rows, in silence: what tasks print is public and shown.
        """
        if self._checkpoints is not None:
            return self._each(_model, candidates, "load finalists", 1, own=len(candidates) == 1)
        return self._each(_model, candidates, "train finalists on all public rows", self._at_once())

    def _at_once(self) -> int:
        """Return how many tasks the cluster runs at once."""
        has, asked = ray.cluster_resources(), {**(self._options.get("resources") or {})}
        asked |= {"CPU": self._options["num_cpus"], "GPU": self._options.get("num_gpus")}
        return max(1, int(min((has.get(name, 0.0) / each for name, each in asked.items() if each), default=1)))

    def _each(
        self, function: Any, candidates: Sequence[Candidate], what: str, at_once: int, *, own: bool = True
    ) -> Iterator[Any]:
        """Yield the tasks' results in order; when one is asked for, all tasks of its batch have ended.

        Args:
            own: whether a model owns its arrays. Those of a finalist that is only asked, as a copy, stay in the store.
        """
        remote = ray.remote(function).options(**self._options)
        m = len(candidates)
        quarters = {m * k // 4 for k in (1, 2, 3, 4)}
        for first in range(0, m, at_once):
            calls = [remote.remote(self._shared, self._at(one)) for one in candidates[first : first + at_once]]
            end = first + len(calls)
            for mark in sorted({end, *quarters}):
                if first < mark <= end:
                    ray.wait(calls, num_returns=mark - first, fetch_local=False)
                    if mark in quarters:
                        _logger.info(f"{what}: {mark} of {m}")
            while calls:
                yield _result(calls.pop(0), own)  # no name here, so that a model goes when its reader drops it

    def _at(self, one: Candidate) -> Any:
        """Return a task's second argument: the configuration, or its checkpoint and the configuration."""
        if self._checkpoints is None:
            return dict(one.parameters)
        if one.row is None:
            raise dptune.InputError("no trial with a checkpoint has the configuration default=. Nothing was charged.")
        return self._checkpoints[one.row], dict(one.parameters)


def _result(call: Any, own: bool) -> Any:
    try:
        result = ray.get(call)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None)
        return cause if isinstance(cause, Exception) else error
    return result.model(own) if isinstance(result, _Packed) else result


def _losses(training: bytes, at: Any) -> Any:
    return cloudpickle.loads(training).losses(at)


def _model(training: bytes, at: Any) -> Any:
    return _Packed(cloudpickle.loads(training).model(at))


class _Packed:
    """A model without its arrays, and these: in Ray's object store they are read-only, and a model may train on."""

    def __init__(self, model: Any) -> None:
        self.arrays: list[npt.NDArray[np.uint8]] = []
        self.rest = cloudpickle.dumps(model, protocol=5, buffer_callback=self._add)

    def _add(self, array: Any) -> None:
        self.arrays.append(np.frombuffer(array.raw(), dtype=np.uint8))

    def model(self, own: bool) -> Any:
        return cloudpickle.loads(self.rest, buffers=[bytearray(each) if own else each for each in self.arrays])
