"""The MLflow run of one run of a ledger."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypedDict, Unpack

from dptune import PrivacyLedger
from dptune.choice.result import PairedEstimate
from dptune.errors import InputError, MissingExtra
from dptune.ledger import Charge
from dptune.results import Estimate, parameters_in_words
from dptune.search.answer import Recommendation

RUN = "dptune.run"  # tag: a digest of the ledger's identity and the run's name
PARENT, NOTE = "mlflow.parentRunId", "mlflow.note.content"  # MLflow's own tags: nesting, and the text of a run's page


class Where(TypedDict, total=False):
    """The destination of a run; see :func:`log_run`."""

    delta: float | None
    tracking_uri: str | None
    experiment: str | None


def log_run(
    ledger: PrivacyLedger,
    name: str,
    *,
    recommended: Mapping[str, Any] | None = None,
    estimate: Estimate | None = None,
    **where: Unpack[Where],
) -> str:
    """Write a run to MLflow, or bring what was written up to date; return the id of the MLflow run.

    Args:
        name: of the run in the ledger.
        recommended: what the run recommends, as ``recommend()`` returns it, or ``best_params_``.
        estimate: the released loss there, or of a choice the released improvement, ``selection.improvement``.
        where: ``delta`` at which the statement gives epsilon; default that of the budget, if it was stated as (epsilon,
            delta). ``tracking_uri`` of MLflow's server or database; default MLflow's own. ``experiment``, its name;
            default that of the run.

    Raises:
        MissingExtra: MLflow is not installed.
        InputError: the ledger has released nothing under this name, or delta is missing.
    """
    if ledger.count(name) == 0:
        there = ", ".join(repr(run) for run, _ in ledger.runs()) or "none"
        raise InputError(
            f"the ledger has released nothing for a run named {name!r}; it has {there}. Nothing was written to MLflow."
        )
    run = MLflowRun(ledger, name, **where)
    run.answer(recommended, estimate)
    return run.id


class MLflowRun:
    """The MLflow run of one run of a ledger: a new one, or an existing one with its tag."""

    def __init__(
        self,
        ledger: PrivacyLedger,
        name: str,
        *,
        delta: float | None = None,
        tracking_uri: str | None = None,
        experiment: str | None = None,
    ) -> None:  # explicit names: a misspelt destination must raise
        self._ledger, self._delta = ledger, delta
        ledger.statement(delta=delta)  # refuses a missing delta
        self._client = _client(tracking_uri)
        self._experiment = self._experiment_named(experiment or name)
        mark = hashlib.sha256(f"{ledger.identity} {name}".encode()).hexdigest()[:32]
        runs = self._client.search_runs([self._experiment], f"tags.`{RUN}` = '{mark}'")
        self.id: str = runs[0].info.run_id if runs else self._begin(name, {RUN: mark})

    def _experiment_named(self, name: str) -> str:
        from mlflow.exceptions import MlflowException

        with suppress(MlflowException):  # the experiment exists
            self._client.create_experiment(name)
        return str(self._client.get_experiment_by_name(name).experiment_id)

    def _begin(self, name: str, tags: Mapping[str, str]) -> str:
        return str(self._client.create_run(self._experiment, run_name=name, tags=tags).info.run_id)

    def trial(self, number: int, status: str, parameters: Mapping[str, Any], numbers: Mapping[str, float]) -> None:
        """Write a trial as a nested run, and its numbers and the budget as a step of this run's curves."""
        child = self._begin(f"trial {number}", {PARENT: self.id})
        self._write(child, numbers, parameters=parameters)
        self._client.set_terminated(child, status)
        self._write(self.id, {**numbers, **self._budget()}, step=number)

    def tag(self, **facts: object) -> None:
        self._write(self.id, {}, tags=facts)

    def recommend(self, recommended: Mapping[str, Any]) -> None:
        self._write(self.id, {}, tags={f"recommended.{name}": value for name, value in recommended.items()})

    def answer(self, recommended: Mapping[str, Any] | None, estimate: Estimate | None) -> None:
        """End the run with all present facts; statement and table cover the whole ledger."""
        charges = self._ledger.charges()
        numbers = self._budget()
        metrics = []
        if recommended is not None:
            self.recommend(recommended)
            metrics.append(f"**Recommended** {parameters_in_words(recommended, '`')}")
        if isinstance(recommended, Recommendation):
            metrics.append(recommended.summary().replace("\n", "\n\n"))
            numbers.update(_interval("improvement", recommended.improvement))
        if isinstance(estimate, PairedEstimate):
            numbers.update(_interval("improvement", estimate))
            metrics.append(f"**Released improvement** {estimate}")
        elif estimate is not None:
            numbers.update({**_interval("loss", estimate), **_interval("improvement", estimate.improvement)})
            metrics.append(f"**Released mean loss** {estimate}")
        logged = self._client.get_run(self.id).data.metrics
        news = {name: value for name, value in numbers.items() if logged.get(name) != value}
        trials = [at.step + 1 for at in self._client.get_metric_history(self.id, "mu_spent")]
        self._write(self.id, news, step=max(trials, default=0), tags={NOTE: "\n\n".join(metrics)})
        self.tag(private=all(charge.private for charge in charges))
        self._client.log_text(self.id, self._ledger.statement(delta=self._delta).to_text(), "statement.txt")
        self._client.log_text(self.id, _table(charges), "released.csv")
        self._client.set_terminated(self.id)

    def _budget(self) -> dict[str, float]:
        return {"mu_spent": self._ledger.spent(), "mu_left": self._ledger.remaining()}

    def _write(
        self,
        run: str,
        numbers: Mapping[str, float],
        *,
        step: int = 0,
        parameters: Mapping[str, object] | None = None,
        tags: Mapping[str, object] | None = None,
    ) -> None:
        from mlflow.entities import Metric, Param, RunTag

        now = int(time.time() * 1000)
        self._client.log_batch(
            run,
            [Metric(name, value, now, step) for name, value in numbers.items() if math.isfinite(value)],
            [Param(_REFUSED.sub("_", name), str(value)) for name, value in (parameters or {}).items()],
            [RunTag(name, str(value)) for name, value in (tags or {}).items()],
        )


_REFUSED = re.compile(r"[^\w\-. /]")  # characters that MLflow refuses in names


def _client(tracking_uri: str | None) -> Any:
    try:
        from mlflow import MlflowClient
    except ImportError:
        raise MissingExtra('MLflow is not installed: pip install "dptune[mlflow]".') from None
    return MlflowClient(tracking_uri)


def _interval(name: str, estimate: Estimate | None) -> dict[str, float]:
    if estimate is None:
        return {}
    low, high = estimate.interval()
    return {name: estimate.value, f"{name}_sigma": estimate.sigma, f"{name}_low": low, f"{name}_high": high}


def _table(charges: Sequence[Charge]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["run", "release", "what", "mu", "sigma", "value", "private"])
    for charge in charges:
        said = charge.description
        value = " ".join(map(repr, charge.value or ()))
        what = said.get("statistic", "")
        mu = said.get("mu", charge.mu)
        sigma = said.get("sigma", "")
        table.writerow([charge.scope, charge.key, what, mu, sigma, value, charge.private])
    return text.getvalue()
