"""A search's name in the ledger: made of everything public by default, or the user's, with what must stay the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sklearn

from dptune import PrivacyLedger
from dptune.errors import BudgetMismatch
from dptune.losses.named import NamedLoss, as_loss
from dptune_sklearn.digest import digest
from dptune_sklearn.models import TrainingRows
from dptune_sklearn.public_search import has_run, is_search, results_of

_SEARCH = "sklearn search"  # the fact of a scope that says what a name given by the user stands for
_HOW = ("n_jobs", "pre_dispatch", "verbose", "return_train_score")  # of a public search; decide nothing
_DECIDES = ("transform_output", "enable_metadata_routing")  # of scikit-learn's configuration, what decides an answer


def name_of(estimator: Any, *public: Any) -> str:
    """Return a search's name in the ledger, where the user gives none: a digest of everything public.

    A ledger tells recorded answers again under a name, so all that an answer depends on is in it but the private rows.
    """
    search = what_is_searched(estimator)
    configured = {name: value for name, value in sklearn.get_config().items() if name in _DECIDES}
    return f"{type(estimator).__name__}-{digest(search, *public, configured)}"


def what_is_searched(estimator: Any) -> Any:
    """Return an estimator; of a public search what decides its candidates, and of a fitted one these."""
    if not is_search(estimator):
        return estimator
    settings = {name: value for name, value in estimator.get_params(deep=False).items() if name not in _HOW}
    if not has_run(estimator):
        return type(estimator), settings, None
    results = results_of(estimator)
    scores = {name: scores for name, scores in results.items() if name.startswith("mean_test_")}
    return type(estimator), settings, (results["params"], scores)


def stands_for(estimator: Any, loss: str | NamedLoss, training: TrainingRows) -> Mapping[str, str]:
    """Return digests of what may not change under a name that the user gives.

    The estimator's parameters count, and not its code: with a name the user answers for that, and for versions.
    """
    return {
        "loss": digest(as_loss(loss), versions=False, strict=False),
        "estimator": digest(what_is_searched(estimator), code=False, versions=False, strict=False),
        "training rows": digest(vars(training), code=False, versions=False, strict=False),
    }


def refuse_other(ledger: PrivacyLedger, name: str, wanted: Mapping[str, str]) -> None:
    """Refuse a name that stands for another search."""
    stored = ledger.fact(name, _SEARCH)
    begun = stored if isinstance(stored, Mapping) else wanted
    if other := [what for what, value in wanted.items() if begun.get(what) != value]:
        raise BudgetMismatch(
            f"the name {name!r} belongs to a search with other {' and '.join(other)}, whose answers are not those of "
            "this search. Give this search another name=. Nothing was charged."
        )


def keep(ledger: PrivacyLedger, name: str, wanted: Mapping[str, str]) -> None:
    """Store what the name of a search that has begun stands for."""
    if wanted and ledger.fact(name, _SEARCH) is None:
        ledger.fix(name, _SEARCH, dict(wanted))
