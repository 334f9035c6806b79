"""What the searchers share whose run, in the vault, searches a space of numerical parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import dptune
from dptune._checks import positive
from dptune.search.agreement import stored_space, usual_share
from dptune.search.run import SearchRun
from dptune_ray.runs import RunSettings, mode_of
from dptune_ray.search import METRIC, VaultSearch
from dptune_ray.spaces import nested, rounded, to_space


class SpaceSearch(VaultSearch):
    """A Tune searcher on a private run that proposes points itself; subclasses say which.

    Uniform and log-uniform floats and integers, quantised or not, are searched; ``choice`` and ``sample_from`` are
    drawn.

    Args:
        param_space: Tune search space; default that of the Tuner. :attr:`n_trials` needs it.
        privatizer: holds the losses and pays, in the vault; here it holds settings only.
        name: the run's name in the ledger. The same name continues the run.
        mu: GDP budget of the run; default what is neither spent nor planned by other runs when the run begins.
        seed: of the searcher's own randomness (not of the noise, which has none).
        metric: the name under which trials report.
        mode: "min": the function returns losses; "max": it returns scores in the clipping range. Default the Tuner's.
        settings: keyword arguments of the algorithm's planner.

    Raises:
        InputError: a setting is out of range, or the space holds what is not supported.
    """

    method: ClassVar[dptune.Method]

    def __init__(
        self,
        param_space: Mapping[str, Any] | None = None,
        privatizer: dptune.LossPrivatizer | None = None,
        *,
        name: str = "tune",
        mu: float | None = None,
        n_trials: int | None = None,
        seed: int | None = None,
        metric: str = METRIC,
        mode: str | None = None,
        **settings: Any,
    ) -> None:
        self.method.refuse_unknown(settings, front_end=type(self).__name__)
        super().__init__(
            privatizer,  # type: ignore[arg-type]  # the base says what is missing
            name=name,
            param_space=param_space,
            metric=metric,
            mode=mode,
            seed=seed,
        )
        self._mu = None if mu is None else positive("mu", mu)
        self._settings = {"trials": n_trials, **settings}
        self._plan(to_space(self._domains) or dptune.Space({"x": dptune.Float(0, 1)}))  # refuse early

    def _plan(self, space: dptune.Space) -> Any:
        share = usual_share(self._privatizer.ledger, self._mu)
        return self._settings_on(space).plan(self._privatizer, share, 0)

    def _settings_on(self, space: dptune.Space) -> RunSettings:
        return RunSettings(self.method, self._name, space, self.mode, self._mu, self._seed, self._settings)

    def _space(self) -> dptune.Space:
        space = to_space(self._domains) or stored_space(self._privatizer.ledger, self._name)
        if space is None:
            raise dptune.InputError("the search space has no numerical parameter with more than one value to search.")
        return space

    def run_settings(self) -> RunSettings:
        """Return what the vault is to run."""
        return self._settings_on(self._space())

    @property
    def n_trials(self) -> int:
        """Number of trials of a complete run: the Tuner's ``num_samples``. (-1 is fine too: the run ends by itself.)

        Raises:
            InputError: the searcher was made without a search space, and no run has fixed one yet.
        """
        if self._privatizer.ledger.fact(self._name, "plan") is not None:
            return int(self._read().plan.trials)
        return int(self._plan(self._space()).trials)

    def recommend(self) -> dict[str, Any]:
        """Return what the run ends with, never the argmin of noisy values; what is not searched is not in it."""
        found = self._read().recommend()
        return nested(
            {path: rounded(self._domains[path], v) if path in self._domains else v for path, v in found.items()}
        )

    def _read(self) -> SearchRun:
        self._mode = mode_of(self._privatizer.ledger, self._name)
        return self.run_settings().begin(self._privatizer)
