"""DP-GIBO as a Tune searcher. Batching and accounting are in :class:`dptune.GIBOSession`, in the vault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dptune
from dptune.defaults import OPTIONS
from dptune.options import refuse_unknown
from dptune_ray.runs import GIBORun
from dptune_ray.search import METRIC
from dptune_ray.space_search import SpaceSearch


class DPGIBOSearch(SpaceSearch):
    """Differentially private, gradient-informative Bayesian optimisation for Ray Tune.

    Trials are proposed in batches around an iterate that moves by one released gradient a batch. Uniform and
    log-uniform floats and integers, quantised or not, are searched; ``choice`` and ``sample_from`` are drawn.

    Args:
        param_space: Tune search space; default that of the Tuner. :attr:`n_trials` needs it.
        privatizer: holds the losses and pays, in the vault; here it holds settings only.
        name: the run's name in the ledger. The same name continues the run.
        mu: GDP budget of the run; default what is neither spent nor planned by other runs when the run begins.
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

    _run_type = GIBORun

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
        refuse_unknown(settings, OPTIONS, front_end=type(self).__name__)
        super().__init__(
            param_space,
            privatizer,
            name=name,
            mu=mu,
            seed=seed,
            metric=metric,
            mode=mode,
            settings={"trials": n_trials, "steps": steps, "batch": batch, **settings},
        )
