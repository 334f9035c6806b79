"""DP-GIBO as a Tune searcher. Batching and accounting are in :class:`dptune.GIBOSession`, in the vault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dptune
from dptune.run import stored_space
from dptune_ray.runs import GIBORun, mode_of
from dptune_ray.search import METRIC, VaultSearch
from dptune_ray.spaces import nested, rounded, to_space


class DPGIBOSearch(VaultSearch):
    """Differentially private, gradient-informative Bayesian optimisation for Ray Tune.

    Trials are proposed in batches around an iterate that moves by one released gradient a batch. Uniform and
    log-uniform floats and integers, quantised or not, are searched; ``choice`` and ``sample_from`` are drawn.

    Args:
        param_space: Tune search space; default that of the Tuner. :attr:`n_trials` needs it.
        privatizer: holds the losses and pays, in the vault; here it holds settings only.
        name: the run's name in the ledger. The same name continues the run.
        mu: GDP budget of the run; default what is left of the ledger's when the run begins.
        n_trials: wished number of trials; the number planned is :attr:`n_trials`.
        steps, batch: T and b, instead of ``n_trials``.
        seed: of the searcher's own randomness (not of the noise, which has none).
        metric: the name under which trials report.
        mode: "min": the function returns losses; "max": it returns scores in the clipping range. Default the Tuner's.
        settings: further keyword arguments of :func:`dptune.defaults.plan_gibo`.

    Raises:
        InputError: a setting is out of range, or the space holds what is not supported.

    Example::

        search = DPGIBOSearch(param_space, privatizer, name="svm", n_trials=100)
        trainable = search.trainable(losses)
        tuning = tune.TuneConfig(search_alg=search, num_samples=search.n_trials, metric="loss", mode="min")
        tune.Tuner(trainable, tune_config=tuning, param_space=param_space).fit()
        search.recommend()
    """

    def __init__(
        self,
        param_space: Mapping[str, Any] | None = None,
        privatizer: dptune.LossPrivatizer | None = None,
        *,
        name: str = "tune",
        mu: float | None = None,
        n_trials: int | None = None,
        steps: int | None = None,
        batch: int | None = None,
        seed: int | None = None,
        metric: str = METRIC,
        mode: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(
            privatizer,  # type: ignore[arg-type]  # the base says what is missing
            name=name,
            param_space=param_space,
            metric=metric,
            mode=mode,
            seed=seed,
        )
        self._mu = mu
        self._settings = {"trials": n_trials, "steps": steps, "batch": batch, **settings}
        self._plan(to_space(self._domains) or dptune.Space({"x": dptune.Float(0, 1)}))  # refuse early

    def _plan(self, space: dptune.Space) -> dptune.GIBOPlan:
        ledger = self._privatizer.ledger
        left = self._mu if self._mu is not None else ledger.remaining() or ledger.budget.mu
        return self._settings_on(space).plan(self._privatizer, left, 0)

    def _settings_on(self, space: dptune.Space) -> GIBORun:
        return GIBORun(self._name, space, self.mode, self._mu, self._seed, self._settings)

    def _space(self) -> dptune.Space:
        space = to_space(self._domains) or stored_space(self._privatizer.ledger, self._name)
        if space is None:
            raise dptune.InputError("the search space has no numerical parameter with more than one value to search.")
        return space

    def run_settings(self) -> GIBORun:
        """Return what the vault is to run."""
        return self._settings_on(self._space())

    @property
    def n_trials(self) -> int:
        """Number of trials of a complete run: the Tuner's ``num_samples``. (-1 is fine too: the run ends by itself.)

        Raises:
            InputError: the searcher was made without a search space, and no run has fixed one yet.
        """
        if self._privatizer.ledger.fact(self._name, "plan") is not None:
            return self._read().plan.trials
        return self._plan(self._space()).trials

    def recommend(self) -> dict[str, Any]:
        """Return the run's final iterate, never the argmin of noisy values; what is not searched is not in it."""
        found = self._read().recommend()
        return nested(
            {path: rounded(self._domains[path], v) if path in self._domains else v for path, v in found.items()}
        )

    def _read(self) -> dptune.GIBOSession:
        self._mode = mode_of(self._privatizer.ledger, self._name)
        return self.run_settings().begin(self._privatizer)
