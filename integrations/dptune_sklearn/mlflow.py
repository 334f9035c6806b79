"""A fitted search in MLflow; what is written, and what it is a function of: :mod:`dptune.search.mlflow`."""

from __future__ import annotations

from typing import Unpack

from sklearn.utils.validation import check_is_fitted

from dptune.search import log_to_mlflow as log_run
from dptune.search.mlflow import Where
from dptune_sklearn.private_search import PrivateSearch


def log_to_mlflow(search: PrivateSearch, **where: Unpack[Where]) -> str:
    """Write what a fitted search has released to MLflow, or bring it up to date; return the id of the MLflow run.

    The best parameters are tags. The released loss and improvement, with 95% intervals, and the budget are metrics; the
    ledger's statement and a table of all that it has released are artifacts. ``where`` as in
    :func:`dptune.search.log_to_mlflow`.

    Raises:
        NotFittedError: the search is not fitted.
        InputError: delta is missing.
    """
    check_is_fitted(search, "released_")
    return log_run(search._ledger(), search.name_, search.best_params_, search.best_loss_, **where)
