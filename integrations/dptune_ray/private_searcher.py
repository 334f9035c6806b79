"""Any Tune searcher on released values: its computations are post-processing."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

from ray.tune.search import Searcher
from ray.tune.utils import merge_dicts

import dptune
from dptune.search import VALUES
from dptune.search.replay import VALUE
from dptune_ray.search import METRIC, SpaceSearch
from dptune_ray.spaces import paths, resolve
from dptune_ray.vault import Vault

_logger = logging.getLogger(__name__)


class PrivateSearcher(SpaceSearch):
    """Makes any Tune searcher private: it sees noisy clipped means, one a trial.

    Args:
        searcher: e.g. ``OptunaSearch()``, which has the search space. With none in mind use :class:`CentredSearch`.
        n_trials: number of trials the budget is divided among; the Tuner's ``num_samples``.
        settings: ``final_share``, the share of mu^2 kept for :meth:`estimate` (default 0.05), and ``seed``, of what the
            searcher leaves open and is drawn here. Also those of :class:`SpaceSearch`: ``name``, ``mu``, ``default``
            and ``unprotected``.

    Raises:
        InputError: no searcher, or a setting is out of range.

    Example::

        search = PrivateSearcher(OptunaSearch(), privatizer, n_trials=50, name="boosting")
    """

    _method = VALUES

    def __init__(
        self,
        searcher: Searcher,
        privatizer: dptune.LossPrivatizer,
        *,
        n_trials: int,
        metric: str = METRIC,
        mode: str | None = None,
        **settings: Any,
    ) -> None:
        if not isinstance(searcher, Searcher):
            raise dptune.InputError(
                f"searcher must be a ray.tune Searcher, such as OptunaSearch(); got {type(searcher).__name__}. With "
                "none in mind use CentredSearch(privatizer, n_trials=...)."
            )
        inapplicable = [name for name in ("param_space", "method") if name in settings]
        VALUES.refuse_unknown(inapplicable, front_end=type(self).__name__)  # they need a space of the searcher's own
        super().__init__(privatizer, n_trials=n_trials, metric=metric, mode=mode or searcher.mode, **settings)
        if searcher.metric not in (None, metric):
            raise dptune.InputError(f"the inner searcher looks at {searcher.metric!r}; trials report {metric!r}.")
        self.searcher = searcher
        self._open: set[str] = set()  # trials for which the inner searcher waits
        self._known: set[str] = set()  # trials whose value the inner searcher knows
        self._agreed = self._caught_up = False

    def _space(self) -> None:
        """Return None, as the inner searcher proposes."""

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        super().set_search_properties(metric, mode, config, **spec)
        if not self._agreed:  # once: in a second fit it already has its search space
            taken = self.searcher.set_search_properties(self.metric, self.mode, config, **spec)
            if not taken and self._domains:
                raise dptune.InputError(
                    "the inner searcher and the Tuner both have a search space: give it to one of them."
                )
            self._agreed = True
        if self.searcher.mode not in (None, self.mode):
            raise dptune.InputError(f"the inner searcher has mode={self.searcher.mode!r}, the Tuner {self.mode!r}.")
        return True

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        return bool(self.searcher.set_max_concurrency(max_concurrent))

    def _config(self, trial: str, proposed: Mapping[str, Any]) -> dict[str, Any] | str | None:
        self._catch_up()
        suggested = self.searcher.suggest(trial)
        if suggested is None or suggested == Searcher.FINISHED:
            self.vault.call(Vault.withdraw, trial)  # Tune calls a waiting searcher again with other identifiers
            return suggested if suggested is None else str(suggested)
        self._open.add(trial)
        suggested_paths = set(paths(suggested))
        left = {path: domain for path, domain in self._domains.items() if path not in suggested_paths}
        drawn = resolve(left, {}, merge_dicts(dict(self._param_space), suggested), self._generator(trial))
        completed: dict[str, Any] = merge_dicts(dict(suggested), drawn)
        return completed

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        super().on_trial_result(trial_id, result)
        if trial_id in self._open and self._is_finite(result):
            _guarded(self.searcher.on_trial_result, trial_id, result)

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Hand it on once, likewise; a trial without a value is a failed one."""
        super().on_trial_complete(trial_id, result, error)
        if trial_id not in self._open:
            return
        self._open.discard(trial_id)
        if self._is_finite(result):
            self._known.add(trial_id)
            _guarded(self.searcher.on_trial_complete, trial_id, result=result, error=error)
        else:
            _guarded(self.searcher.on_trial_complete, trial_id, result=None, error=True)

    def _is_finite(self, result: Mapping[str, Any] | None) -> bool:
        return result is not None and math.isfinite(result.get(self.metric, math.nan))

    def _catch_up(self) -> None:
        """Give the inner searcher the released values that a stale restore, or a restart, has lost."""
        if self._caught_up:
            return
        self._caught_up = True
        level = self.vault_run().level  # converts to Tune's value
        for charge in self._request.ledger.charges(self._name, prefix=VALUE):
            trial = charge.key.removeprefix(VALUE)
            parameters = charge.note["parameters"]
            if charge.value and trial not in self._open | self._known and set(self._domains) <= set(parameters):
                self._known.add(trial)
                point = {path: parameters[path] for path in self._domains}
                _guarded(self.searcher.add_evaluated_point, point, level(charge.value[0]))

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "open": sorted(self._open), "known": sorted(self._known)}

    def set_state(self, state: dict[str, Any]) -> None:
        self._open = set(state["open"])
        self._known = set(state["known"])
        self._caught_up = False
        super().set_state(state)


def _guarded(call: Callable[..., object], *args: Any, **further: Any) -> None:
    """Call the inner searcher and log its exception, which would mark a good trial failed; it saw only releases."""
    try:
        call(*args, **further)
    except NotImplementedError:
        _logger.info("the inner searcher does not accept values of earlier trials.")
    except Exception as error:  # noqa: BLE001 - whatever another library raises
        _logger.warning(f"the inner searcher refused a released value: {error!r}")
