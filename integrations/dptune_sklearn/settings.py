"""What a strategy of ``PrivateSearch`` reads of the search, and the two attributes that it sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from dptune_sklearn.spaces import Distributions


class SearchSettings(Protocol):
    """Arguments, names and results of a :class:`dptune_sklearn.PrivateSearch`, where they are described."""

    estimator: Any
    loss: Any
    default: Any
    n_trials: Any
    mu: Any
    settings: Any
    report_share: Any
    cv: Any
    scoring: Any
    refit: bool
    warm_start: Any
    random_state: Any
    n_jobs: Any
    verbose: Any
    name_: str
    _means: Mapping[str, Any]
    selection_: Any  # set by a choice
    search_: Any  # set by a public search

    @property
    def space(self) -> Distributions: ...

    @property
    def wraps_search(self) -> bool: ...
