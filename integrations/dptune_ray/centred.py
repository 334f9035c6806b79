"""CMA-ES on centred releases as a Tune searcher. Everything it decides is in :class:`dptune.SearchRun`."""

from __future__ import annotations

import dptune
from dptune_ray.space_search import SpaceSearch


class CentredCMASearch(SpaceSearch):
    """Differentially private CMA-ES on centred joint releases, for Ray Tune. Needs ``dptune[ray,cmaes]``.

    Trials are proposed in generations, and a generation is two releases, so no trial has a release of its own. Uniform
    and log-uniform floats and integers, quantised or not, are searched; ``choice`` and ``sample_from`` are drawn.

    **What a trial reports.** Tune wants a value when the trial ends, mostly before its generation is released. So it is
    a careful estimate, from everything released by then, of the mean loss at the trial's point *less that at the centre
    of the search space* (:meth:`dptune.CentredCMA.value`): a function of released values, which says nothing about
    the trial's own losses until their generation is out. With ``mode="max"`` it is that of the mean score, so larger is
    better then. It is kept in the ledger, and a trial that runs again reports it again. The answer is
    :meth:`recommend`; :meth:`estimate` releases its level of loss.

    Args:
        param_space: Tune search space; default that of the Tuner. :attr:`n_trials` needs it.
        privatizer: holds the losses and pays, in the vault; here it holds settings only.
        name: the run's name in the ledger. The same name continues the run.
        mu: GDP budget of the run; default what is neither spent nor planned by other runs when the run begins.
        n_trials: wished number of trials; the number planned, whole generations, is :attr:`n_trials`.
        seed: of the searcher's own randomness (not of the noise, which has none).
        metric: the name under which trials report.
        mode: "min": the function returns losses; "max": it returns scores in the clipping range. Default the Tuner's.
        settings: further keyword arguments of :func:`dptune.algorithms.centred_plan.plan_centred_cma`.

    Raises:
        InputError: a setting is out of range, or the space holds what is not supported.
        MissingExtra: cmaes is not installed; when the run begins.
    """

    method = dptune.CENTRED_CMA
