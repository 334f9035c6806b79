"""What the searchers share whose run, in the vault, searches a space of numerical parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import dptune
from dptune.run import stored_space, usual_share
from dptune.scalars import positive
from dptune.search_run import SearchRun
from dptune_ray.runs import SpaceRun, mode_of
from dptune_ray.search import VaultSearch
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

    _run_type: ClassVar[type[SpaceRun]]

    def __init__(
        self,
        param_space: Mapping[str, Any] | None,
        privatizer: dptune.LossPrivatizer | None,
        *,
        name: str,
        mu: float | None,
        seed: int | None,
        metric: str,
        mode: str | None,
        settings: Mapping[str, Any],
    ) -> None:
        super().__init__(
            privatizer,  # type: ignore[arg-type]  # the base says what is missing
            name=name,
            param_space=param_space,
            metric=metric,
            mode=mode,
            seed=seed,
        )
        self._mu = None if mu is None else positive("mu", mu)
        self._settings = dict(settings)
        self._plan(to_space(self._domains) or dptune.Space({"x": dptune.Float(0, 1)}))  # refuse early

    def _plan(self, space: dptune.Space) -> Any:
        share = usual_share(self._privatizer.ledger, self._mu)
        return self._settings_on(space).plan(self._privatizer, share, 0)

    def _settings_on(self, space: dptune.Space) -> SpaceRun:
        return self._run_type(self._name, space, self.mode, self._mu, self._seed, self._settings)

    def _space(self) -> dptune.Space:
        space = to_space(self._domains) or stored_space(self._privatizer.ledger, self._name)
        if space is None:
            raise dptune.InputError("the search space has no numerical parameter with more than one value to search.")
        return space

    def run_settings(self) -> SpaceRun:
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

    def _read(self) -> SearchRun[Any, Any]:
        self._mode = mode_of(self._privatizer.ledger, self._name)
        run: SearchRun[Any, Any] = self.run_settings().begin(self._privatizer)
        return run
