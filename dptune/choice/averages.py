"""Averages of the best candidates as further candidates: what they answer for public rows, and the model that leaves.

An average is public: its members are the best on public rows, and its answer is the mean of theirs (probabilities or
numbers). So it is one more candidate, and nothing in the proof of :class:`dptune.PublicChoice` changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dptune._arrays import Array, Matrix
from dptune.choice.crossval import Answers, FoldAnswers, losses_of
from dptune.errors import InputError
from dptune.losses.named import NamedLoss

SIZES = (3, 10, 30)  # members of an average, in addition to half of the candidates
MEMBERS = "members"  # the parameter that lists the configurations of an average


def check_averages(loss: NamedLoss, *, given: bool) -> None:
    """Refuse a loss of answers that have no average, and public losses that were ``given`` without answers."""
    if given:
        raise InputError(
            "averages=True needs what models predict for public rows: give cv= instead of public_losses=. "
            "Nothing was charged."
        )
    if loss.output == "decision_function" or (loss.output == "predict" and loss.uses_labels):
        what = "decision values of unlike scales" if loss.output == "decision_function" else "predicted labels"
        raise InputError(
            f"averages=True needs probabilities or numbers, and {loss.name} is a loss of {what}. Give log_loss or "
            "brier, or omit averages=. Nothing was charged."
        )


def groups_of(public: Matrix) -> list[tuple[int, ...]]:
    """Return the members of each average: the best on public rows, by losses (m, N) that are NaN for what failed."""
    usable = np.flatnonzero(np.isfinite(public).all(axis=1))
    order = usable[np.argsort(public[usable].mean(axis=1), kind="stable")]
    sizes = sorted({size for size in (*SIZES, len(order) // 2) if 2 <= size <= len(order)})
    return [tuple(int(j) for j in order[:size]) for size in sizes]


def with_averages(public: Matrix, answers: Sequence[Any], loss: NamedLoss) -> tuple[Matrix, list[tuple[int, ...]]]:
    """Return the public losses (m, N) with those of the averages below, and the members of each average."""
    groups = groups_of(public)
    means = [losses_of(average_of([answers[j] for j in group]), loss) for group in groups]
    return np.vstack([public, *means]), groups


def averages_in_words(public: Matrix, m: int) -> str:
    """Return what public rows expect of averages, which come after m single configurations."""
    single, average = (float(np.nanmin(part.mean(axis=1))) for part in (public[:m], public[m:]))
    return f"Averages: the public loss of the best one is {average:.4g}, of the best single configuration {single:.4g}."


def average_of(members: Sequence[Answers]) -> Answers:
    """Return what the average of these models answers for public rows, fold by fold."""
    return [
        FoldAnswers(one[0].test, one[0].y, *_mean([each.output for each in one], [each.labels for each in one]))
        for one in zip(*members, strict=True)
    ]


def _mean(outputs: Sequence[Array], labels: Sequence[list[Any] | None]) -> tuple[Array, list[Any] | None]:
    """Return mean answers (r,) or (r, k) and their labels; a label that a model does not know has probability 0."""
    first = labels[0]
    alike = all(each == first and np.shape(out) == np.shape(outputs[0]) for each, out in _pairs(labels, outputs))
    if first is None or alike:
        return np.mean(np.asarray(outputs), axis=0), first
    known = sorted({label for each in labels for label in each or ()})
    total = np.zeros((len(outputs[0]), len(known)))
    for each, out in _pairs(labels, outputs):
        columns = out if np.ndim(out) == 2 else np.column_stack([1 - out, out])
        total[:, [known.index(label) for label in each or ()]] += columns
    return total / len(outputs), known


def _pairs(labels: Sequence[list[Any] | None], outputs: Sequence[Array]) -> Iterator[tuple[list[Any] | None, Array]]:
    return zip(labels, outputs, strict=True)


def averaged(models: Sequence[Any], loss: NamedLoss) -> Any:
    """Return the average of trained models: scikit-learn's voting ensemble, or an ``Average`` of other models.

    Trained again, as a clone is, the ensemble trains its members. If the training of a member raised, it is returned.
    """
    if failed := [model for model in models if isinstance(model, Exception)]:
        return failed[0]
    labels = [np.asarray(model.classes_).tolist() if loss.uses_labels else None for model in models]
    estimators = all(hasattr(model, "get_params") and hasattr(model, "fit") for model in models)
    if not estimators or labels.count(labels[0]) < len(labels):
        return Average(models, labels)
    from sklearn.ensemble import VotingClassifier, VotingRegressor
    from sklearn.preprocessing import LabelEncoder
    from sklearn.utils import Bunch

    named = [(f"model_{place}", model) for place, model in enumerate(models)]
    voting = VotingClassifier(named, voting="soft") if loss.uses_labels else VotingRegressor(named)
    voting.estimators_, voting.named_estimators_ = list(models), Bunch(**dict(named))
    if loss.uses_labels:
        voting.le_ = LabelEncoder().fit(models[0].classes_)
        voting.classes_ = voting.le_.classes_
    if hasattr(models[0], "feature_names_in_"):
        voting.feature_names_in_ = models[0].feature_names_in_
    return voting


class Average:
    """The mean of what trained models answer, for models that scikit-learn's voting ensembles cannot hold.

    Args:
        models: trained.
        labels: of each in the order of its probabilities; None of a model of numbers.
    """

    def __init__(self, models: Sequence[Any], labels: Sequence[list[Any] | None]) -> None:
        self.estimators_, self._labels = list(models), list(labels)
        if labels[0] is not None:
            self.classes_ = np.array(sorted({label for each in labels for label in each or ()}))
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(models[0], name):
                setattr(self, name, getattr(models[0], name))

    def predict_proba(self, X: Any) -> Array:
        """Return mean probabilities (n, k)."""
        mean = _mean([np.asarray(model.predict_proba(X)) for model in self.estimators_], self._labels)[0]
        return mean if mean.ndim == 2 else np.column_stack([1 - mean, mean])

    def predict(self, X: Any) -> Array:
        """Return mean numbers (n,), or the labels with the largest mean probability."""
        if hasattr(self, "classes_"):
            return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])
        return np.asarray(np.mean([np.asarray(model.predict(X)).reshape(-1) for model in self.estimators_], axis=0))
