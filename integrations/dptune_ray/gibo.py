"""DP-GIBO as a Tune searcher. Batching and accounting are in :class:`dptune.SearchRun`, in the vault."""

from __future__ import annotations

import dptune
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
        seed: of the searcher's own randomness (not of the noise, which has none).
        metric: the name under which trials report.
        mode: "min": the function returns losses; "max": it returns scores in the clipping range. Default the Tuner's.
        settings: further keyword arguments of :func:`dptune.algorithms.gibo_plan.plan_gibo`.

    Raises:
        InputError: a setting is out of range, or the space holds what is not supported.

    Example::

        search = DPGIBOSearch(param_space, privatizer, name="svm", n_trials=100)
        trainable = search.trainable(losses)
        tuning = tune.TuneConfig(search_alg=search, num_samples=search.n_trials, metric="loss", mode="min")
        tune.Tuner(trainable, tune_config=tuning, param_space=param_space).fit()
        search.recommend()
    """

    method = dptune.GIBO
