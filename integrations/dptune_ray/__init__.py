"""dptune in Ray Tune: private searchers, and one that makes any searcher private; a vault holds the losses.

Example::

    search = CentredSearch(privatizer, space, name="svm", n_trials=100)
    trainable = search.trainable(losses)  # config -> one loss per example
    tuning = tune.TuneConfig(search_alg=search, num_samples=search.n_trials, metric="loss", mode="min")
    tune.Tuner(trainable, param_space=space, tune_config=tuning).fit()

Guarantee: Tune sees, stores and shows only releases, charged in the ledger before any loss is read. See docs/ray.md.
"""

from dptune._exports import exports
from dptune_ray.lines import show_lines

show_lines()
__all__, __getattr__, __dir__ = exports(__name__, __file__)
