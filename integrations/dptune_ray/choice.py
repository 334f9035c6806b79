"""The results of a finished, ordinary Tune experiment propose, and private people choose once among the best.

Example::

    results = tune.Tuner(trainable, param_space=space, tune_config=tuning).fit()  # public rows, any searcher


    def train(config, X, y):
        return SVC(C=config["C"], probability=True, random_state=0).fit(X, y)


    choice = choose(results, train, ledger=ledger, loss="log_loss", data=(X_val, y_val), public=(X_train, y_train))
    print(choice.summary())

Guarantee: as in :class:`dptune.PublicChoice`. Ray's tasks train on public rows. Private rows are read in this process
    only, and are never in an argument, object store or file of Ray.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy.typing as npt
import ray
from ray import cloudpickle, tune

import dptune
from dptune.choice.payer import Payer
from dptune.choice.proposals import (
    Candidate,
    Choice,
    ChoiceOptions,
    Proposals,
    choose_among,
)
from dptune.choice.public_training import PublicTraining
from dptune.losses.named import NamedLoss
from dptune.losses.user_function import Data
from dptune.privacy.seal.uninitialised import write_memory_of_cmaes

_logger = logging.getLogger(__name__)
UNNAMED = re.compile(r"_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d$")  # suffix of Tune's names for experiments without a name


def choose(
    results: tune.ResultGrid,
    train: Any,
    *,
    data: Data | Callable[[], Data],
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
    Ray task. One private choice is made in this process. Public rows vote in it.

    Args:
        results: what ``Tuner.fit`` returned, of any searcher and scheduler.
        train: (config, X, y) -> model, trained on these public rows, or an estimator of scikit-learn's kind whose
            parameters were searched. The model is sent back: it must pickle.
        data: (X, y) or ``dptune.Rows`` of the private rows, or a function that loads them.
        loss: the per-example loss, a name or a ``NamedLoss``.
        ledger: a ``PrivacyLedger`` to charge, its path or URL, or a ``LossPrivatizer`` where people have weights.
        public: (X, y), the public rows that train.
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
        averages: whether averages of the best 3, 10, 30 and half are candidates, too; see
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
    ranked = [Candidate(results[i].config or {}, i) for i in _ranked(results, metric, mode)]
    experiment = Path(results.experiment_path).name
    name = None if UNNAMED.search(experiment) else experiment
    proposals = Proposals(ranked, searched=len(results), name=name)
    tasks = _Tasks(PublicTraining(train, options), (train, public), task_options or {})
    return choose_among(proposals, tasks, options, _logger.info, _logger.warning)


def _ranked(results: tune.ResultGrid, metric: str | None, mode: str | None) -> list[int]:
    """Return the indices of the results with a finite metric, the best first."""
    if not isinstance(results, tune.ResultGrid):
        raise dptune.InputError(f"results must be what Tuner.fit() returned; got {type(results).__name__}.")
    analysis = results._experiment_analysis
    metric, mode = metric or analysis.default_metric, mode or analysis.default_mode
    if metric is None or mode not in ("min", "max"):
        raise dptune.InputError('give metric= and mode="min" or "max": the experiment was run without them.')
    values = {i: float((one.metrics or {}).get(metric, math.nan)) for i, one in enumerate(results)}
    finite = [i for i, value in values.items() if math.isfinite(value) and results[i].error is None]
    if not finite:
        raise dptune.InputError(f"no result of the experiment has a finite {metric!r}. Nothing was charged.")
    return sorted(finite, key=lambda i: values[i] if mode == "min" else -values[i])


class _Tasks:
    """Trains candidates in parallel Ray tasks; a training's error is its result."""

    def __init__(self, training: PublicTraining, inputs: object, task_options: Mapping[str, Any]) -> None:
        self._training, self.inputs = training, inputs
        self._options = {"num_cpus": 1, "max_retries": 3, **task_options}

    @cached_property
    def _shared(self) -> Any:
        """Return the tasks' public inputs, put into Ray's object store when the first task needs them."""
        return ray.put(cloudpickle.dumps(self._training))

    def losses(self, candidates: Sequence[Candidate]) -> list[Any]:
        return self._each(_losses, candidates, "cross-validate on public rows")

    def models(self, candidates: Sequence[Candidate]) -> list[Any]:
        return self._each(_model, candidates, "train finalists on all public rows")

    def _each(self, function: Any, candidates: Sequence[Candidate], what: str) -> list[Any]:
        remote = ray.remote(function).options(**self._options)
        calls = [remote.remote(self._shared, dict(one.parameters)) for one in candidates]
        quarters = {len(calls) * k // 4 for k in (1, 2, 3, 4)}
        done = list[Any]()
        for count, call in enumerate(calls, 1):
            try:
                done.append(ray.get(call))
            except ray.exceptions.RayError as error:
                cause = getattr(error, "cause", None)
                done.append(cause if isinstance(cause, Exception) else error)
            if count in quarters:
                _logger.info(f"{what}: {count} of {len(calls)}")
        return done


def _losses(training: bytes, config: dict[str, Any]) -> Any:
    return cloudpickle.loads(training).losses(config)


def _model(training: bytes, config: dict[str, Any]) -> Any:
    return cloudpickle.loads(training).model(config)
