"""Any Tune searcher on released values: what it does with them is post-processing."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ray.tune.search import Searcher

import dptune
from dptune.search.run import VALUE
from dptune.search.values import VALUES, plan_values
from dptune_ray.runs import RunSettings, mode_of, reflected
from dptune_ray.search import METRIC, VaultSearch
from dptune_ray.spaces import nested, resolve

_logger = logging.getLogger(__name__)


class PrivateSearch(VaultSearch):
    """Makes any Tune searcher private: it sees noisy clipped means, one a trial.

    Args:
        searcher: e.g. ``OptunaSearch()`` or :class:`RandomSearch`. With none in mind use ``CentredCMASearch`` instead.
        privatizer: holds the losses and pays, in the vault; here it holds settings only.
        n_trials: number of trials the budget is divided among; the Tuner's ``num_samples``.
        name: the run's name in the ledger. The same name continues the run.
        mu: GDP budget of the run; default what is neither spent nor planned by other runs when the run begins.
        final_share: share of mu^2 kept for :meth:`estimate`.
        metric: the name under which trials report.
        mode: "min": the function returns losses; "max": it returns scores in the clipping range. Default the Tuner's.
        seed: of what the searcher leaves open and is drawn here.

    Raises:
        InputError: no searcher, or a setting is out of range.

    Example::

        search = PrivateSearch(OptunaSearch(), privatizer, n_trials=50, name="boosting")
    """

    def __init__(
        self,
        searcher: Searcher | None = None,
        privatizer: dptune.LossPrivatizer | None = None,
        *,
        n_trials: int,
        name: str = "tune",
        mu: float | None = None,
        final_share: float = 0.05,
        metric: str = METRIC,
        mode: str | None = None,
        seed: int | None = None,
    ) -> None:
        if searcher is None:
            raise dptune.InputError(
                "PrivateSearch makes a searcher of yours private; give it one, e.g. OptunaSearch() or RandomSearch(). "
                "With none in mind start with CentredCMASearch(privatizer=..., n_trials=...)."
            )
        if not isinstance(searcher, Searcher):
            raise dptune.InputError(f"searcher must be a ray.tune Searcher; got {type(searcher).__name__}.")
        super().__init__(
            privatizer,  # type: ignore[arg-type]  # the base says what is missing
            name=name,
            param_space=None,
            metric=metric,
            mode=mode,
            seed=seed,
        )
        plan = plan_values(
            mu=1.0 if mu is None else mu, seed=0, trials=n_trials, final_share=final_share
        )  # refuse early
        self.searcher = searcher
        if self.searcher.metric not in (None, metric):
            raise dptune.InputError(f"the inner searcher looks at {self.searcher.metric!r}; trials report {metric!r}.")
        self._trials, self._mu = plan.trials, None if mu is None else plan.mu
        self._final_share = plan.final_share
        self._open: set[str] = set()  # trials the inner searcher waits for
        self._told: set[str] = set()  # trials whose value it knows
        self._caught_up = False

    def run_settings(self) -> RunSettings:
        """Return what the vault is to run."""
        settings = {"trials": self._trials, "final_share": self._final_share}
        return RunSettings(VALUES, self._name, None, self.mode, self._mu, 0, settings)

    @property
    def n_trials(self) -> int:
        """Number of trials of a complete run."""
        return self._trials

    # ---- Tune's interface --------------------------------------------------------------------------

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Begin the run, and hand metric, mode and search space on."""
        if not super().set_search_properties(metric, mode, config, **spec):
            return False
        taken = self.searcher.set_search_properties(self.metric, self.mode, config, **spec)
        if self.searcher.mode not in (None, self.mode):
            raise dptune.InputError(f"the inner searcher has mode={self.searcher.mode!r}, the Tuner {self.mode!r}.")
        return bool(taken) or not self._domains

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Hand it on: some searchers wait for batches of their own."""
        return bool(self.searcher.set_max_concurrency(max_concurrent))

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the inner searcher's configuration, completed, or that the run is over."""
        if self.vault.ask(trial_id) is None:
            return str(Searcher.FINISHED)
        self._catch_up()
        suggested = self.searcher.suggest(trial_id)
        if suggested is None or suggested == Searcher.FINISHED:
            self.vault.withdraw(trial_id)  # a searcher that waits is asked again under other identifiers
            return suggested if suggested is None else str(suggested)
        self._open.add(trial_id)
        return self._completed(trial_id, suggested)

    def _completed(self, trial_id: str, suggested: Mapping[str, Any]) -> dict[str, Any]:
        """Draw what the inner searcher left out: the trainable would get a domain for a value."""
        from ray.tune.utils import flatten_dict, merge_dicts

        left = {path: d for path, d in self._domains.items() if path not in flatten_dict(dict(suggested))}
        constants = merge_dicts(dict(self._param_space), dict(suggested))
        drawn = resolve(left, {}, constants, self._generator(trial_id))
        completed: dict[str, Any] = merge_dicts(dict(suggested), drawn)
        return completed

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Hand it on, if the inner searcher waits for the trial."""
        if trial_id in self._open and _finite(result, self.metric):
            _guarded(partial(self.searcher.on_trial_result, trial_id, result))

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Hand it on once, if the inner searcher waits for the trial; a trial without a value is a failed one."""
        if trial_id not in self._open:
            return
        self._open.discard(trial_id)
        if _finite(result, self.metric):
            self._told.add(trial_id)
            _guarded(partial(self.searcher.on_trial_complete, trial_id, result=result, error=error))
        else:
            _guarded(partial(self.searcher.on_trial_complete, trial_id, result=None, error=True))

    def _catch_up(self) -> None:
        """Tell the inner searcher the released values that a stale restore, or a fresh start, has lost."""
        if self._caught_up:
            return
        self._caught_up = True
        for trial, parameters, value in self._released():
            if trial not in self._open | self._told and set(self._domains) <= set(parameters):
                self._told.add(trial)
                point = {path: parameters[path] for path in self._domains}
                _guarded(partial(self.searcher.add_evaluated_point, point, value))

    def _released(self) -> list[tuple[str, Mapping[str, Any], float]]:
        """Trial, parameters by path and released value, outward, as the ledger has them."""
        ledger, interval = self._privatizer.ledger, self._privatizer.interval
        mode = mode_of(ledger, self._name)
        return [
            (
                charge.key.removeprefix(VALUE),
                charge.note["parameters"],
                charge.value[0] if mode == "min" else float(reflected(interval, charge.value[0])),
            )
            for charge in ledger.charges(self._name, prefix=VALUE)
            if charge.value is not None
        ]

    # ---- saving: Tune saves the inner searcher by itself ---------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """Return which trials the inner searcher waits for and knows, and the search space."""
        return {
            "name": self._name,
            "mode": self.mode,
            "open": sorted(self._open),
            "told": sorted(self._told),
            "domains": self._domains,
            "param_space": self._param_space,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take what :meth:`get_state` returned, and go on."""
        self._open, self._told, self._caught_up = set(state["open"]), set(state["told"]), False
        self._go_on(state["name"], state["mode"], state["domains"], state["param_space"])

    # ---- the user's interface --------------------------------------------------------------------------

    def recommend(self) -> dict[str, Any]:
        """Return the parameters with the best released value; that value itself is optimistic.

        Raises:
            InputError: no value was released yet.
        """
        released = self._released()
        if not released:
            raise dptune.InputError("the run has no released value yet; there is nothing to recommend.")
        sign = 1.0 if mode_of(self._privatizer.ledger, self._name) == "min" else -1.0
        return nested(min(released, key=lambda entry: sign * entry[2])[1])


def _finite(result: Mapping[str, Any] | None, metric: str) -> bool:
    return result is not None and math.isfinite(result.get(metric, math.nan))


def _guarded(call: Callable[[], object]) -> None:
    """An exception in Tune's callbacks would mark a good trial failed. The searcher has seen released values only."""
    try:
        call()
    except NotImplementedError:
        _logger.info("the inner searcher cannot be told values of earlier trials.")
    except Exception as error:  # noqa: BLE001 - whatever another library raises
        _logger.warning(f"the inner searcher refused a released value: {error!r}")
