"""What a fitted search shows of its public half, as scikit-learn's searches do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.utils.validation import check_is_fitted

import dptune


class PublicResults:
    """Attributes of a search that are functions of the training rows."""

    best_loss_: dptune.search.Estimate | None
    _shown: Mapping[str, Any]

    @property
    def best_score_(self) -> float:
        """The chosen parameters' mean public score; with ``cv=None`` minus the released loss. Higher is better."""
        if (score := self._public_attribute("best_score_")) is not None:
            return float(score)
        if self.best_loss_ is None:
            raise AttributeError("no score of the chosen parameters is known, public or released.")
        return -self.best_loss_.value

    @property
    def best_index_(self) -> int | None:
        """Place of the chosen parameters in ``cv_results_``; None if the default was chosen and is not in it."""
        self.cv_results_  # noqa: B018 - refused with the reason where there are none
        place = self._public_attribute("best_index_")
        return None if place is None else int(place)

    @property
    def cv_results_(self) -> Mapping[str, Any]:
        """Cross-validation of the public rows, as scikit-learn's searches have it."""
        results: Mapping[str, Any] | None = self._public_attribute("cv_results_")
        if results is None:
            raise AttributeError(
                "there are no cv_results_: with cv=None, and in some searches, candidates have no public scores. What "
                "was released is in released_."
            )
        return results

    @property
    def n_splits_(self) -> int:
        """Number of folds of the public rows."""
        return int(self._public_attribute("n_splits_"))

    @property
    def scorer_(self) -> Any:
        """The public search's scorer; None: minus the loss."""
        return self._public_attribute("scorer_")

    @property
    def multimetric_(self) -> bool:
        """Whether the public search has several scores."""
        return bool(self._public_attribute("multimetric_"))

    def _public_attribute(self, name: str) -> Any:
        check_is_fitted(self, "released_")
        return self._shown.get(name)
