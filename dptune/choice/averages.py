"""Averages as candidates: what they answer for public rows, and the model that leaves.

An average is public: public rows determine its members and their weights, and its answer is the mean of theirs
(probabilities or numbers). So it is one more candidate, and nothing in the proof of :class:`dptune.PublicChoice`
changes. Averages differ less than single configurations do: the radius is smaller, and so is the noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dptune._arrays import Array, Matrix
from dptune._checks import plain
from dptune.choice.crossval import Answers, FoldAnswers, losses_of
from dptune.errors import InputError
from dptune.losses.named import NamedLoss
from dptune.results import parameters_in_words

SIZES = (3, 10, 30)  # members of an average, in addition to half of the candidates
BASE = 10  # best configurations, and nearest ones, with which each configuration is averaged
OWN = (0.7, 0.5)  # its own weight there, where public rows say nothing and where they count in full
MEMBERS, WEIGHTS = "members", "weights"  # the parameters that list the configurations of an average, and their weights
Group: TypeAlias = dict[int, float]  # place of each member -> its weight; they sum to 1


def have_average(loss: NamedLoss) -> bool:
    """Return whether answers for a loss have an average."""
    return loss.output != "decision_function" and (loss.output != "predict" or not loss.uses_labels)


def check_averages(loss: NamedLoss, *, given: bool) -> None:
    """Refuse a loss of answers that have no average, and public losses that were ``given`` without answers."""
    if given:
        raise InputError(
            "averages=True needs what models predict for public rows: give cv= instead of public_losses=. "
            "Nothing was charged."
        )
    if not have_average(loss):
        what = "decision values of unlike scales" if loss.output == "decision_function" else "predicted labels"
        raise InputError(
            f"averages=True needs probabilities or numbers, and {loss.name} is a loss of {what}. Give log_loss or "
            "brier, or omit averages=. Nothing was charged."
        )


def groups_of(public: Matrix, weight: float = 1.0) -> list[Group]:
    """Return the averages, by losses (m, N) that are NaN for what failed.

    First those of the best on public rows, then that of each configuration with the BASE best ones: half and half.
    Configurations with the same losses count as one, the first.
    With a public ``weight`` below 1 the best ones are less likely to be good. Then a part 1 - w of what they have goes
    to the BASE configurations that are nearest in public losses, itself the first.
    """
    usable = np.flatnonzero(np.isfinite(public).all(axis=1))
    firsts = {public[j].tobytes(): j for j in usable[::-1]}
    distinct = np.array(sorted(firsts.values()), dtype=np.intp)
    order = distinct[np.argsort(public[distinct].mean(axis=1), kind="stable")].tolist()
    sizes = sorted({size for size in (*SIZES, len(order) // 2) if 2 <= size <= len(order)})
    best = [dict.fromkeys(order[:size], 1 / size) for size in sizes]
    w = min(weight, 1.0)
    own = (1 - w) * OWN[0] + w * OWN[1]
    shares = (own, (1 - own) * w, (1 - own) * (1 - w))
    nearest = [_nearest(public, j, order) if w < 1 else [] for j in order]
    return [*best, *(_joined([j], order[:BASE], near, shares=shares) for j, near in zip(order, nearest, strict=True))]


def _nearest(public: Matrix, j: int, order: list[int]) -> list[int]:
    """Return the BASE configurations with the smallest mean absolute difference to configuration j."""
    apart = np.abs(public[order] - public[j]).mean(axis=1)
    return [order[place] for place in np.argsort(apart, kind="stable")[:BASE]]


def _joined(*parts: list[int], shares: Sequence[float]) -> Group:
    """Return the average of the parts' averages with these shares, without members of weight 0."""
    group: Group = {}
    for part, share in zip(parts, shares, strict=True):
        for k in part if share else ():
            group[k] = group.get(k, 0.0) + share / len(part)
    return group


def with_averages(
    public: Matrix, answers: Sequence[Any], default: int | None, loss: NamedLoss, weight: float
) -> tuple[Matrix, list[Group]]:
    """Return the public losses (k, N) of the default, which comes first, and of the averages, and all members."""
    first: list[Group] = [] if default is None else [{default: 1.0}]
    groups = groups_of(public, weight)
    means = [losses_of(average_of([answers[j] for j in group], list(group.values())), loss) for group in groups]
    return np.vstack([*(public[j : j + 1] for group in first for j in group), *means]), first + groups


def parameters_of(group: Group, configurations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parameters of what is chosen: of one configuration its own, of an average those of all members."""
    chosen = [plain(dict(configurations[j])) for j in group]
    return chosen[0] if len(chosen) == 1 else {MEMBERS: chosen, WEIGHTS: list(group.values())}


def averages_in_words(public: Matrix, averages: Matrix) -> str:
    """Return what public rows expect of averages, compared with single configurations."""
    single, average = (float(np.nanmin(losses.mean(axis=1))) for losses in (public, averages))
    return f"Averages: the public loss of the best one is {average:.4g}, of the best single configuration {single:.4g}."


def in_words(params: Mapping[str, Any]) -> str:
    """Return what was chosen in words, by its ``parameters_of``."""
    if MEMBERS not in params:
        return parameters_in_words(params) or "the only configuration"
    members, weights = params[MEMBERS], params[WEIGHTS]
    if len(set(weights)) == 1:
        return f"the average of the {len(members)} best configurations on public rows"
    heaviest = parameters_in_words(members[int(np.argmax(weights))])
    return f"the average of ({heaviest}) and {len(members) - 1} others of less weight"


def average_of(members: Sequence[Answers], weights: Sequence[float]) -> Answers:
    """Return what the average of these models answers for public rows, fold by fold."""
    return [
        FoldAnswers(
            one[0].test, one[0].y, *_mean([each.output for each in one], [each.labels for each in one], weights)
        )
        for one in zip(*members, strict=True)
    ]


def _mean(
    outputs: Sequence[Array], labels: Sequence[list[Any] | None], weights: Sequence[float]
) -> tuple[Array, list[Any] | None]:
    """Return mean answers (r,) or (r, k) and their labels; a label that a model does not know has probability 0."""
    first = labels[0]
    alike = all(each == first and np.shape(out) == np.shape(outputs[0]) for each, out in _pairs(labels, outputs))
    if first is None or alike:
        return np.average(np.asarray(outputs), axis=0, weights=weights), first
    known = sorted({label for each in labels for label in each or ()})
    total = np.zeros((len(outputs[0]), len(known)))
    for (each, out), weight in zip(_pairs(labels, outputs), weights, strict=True):
        columns = out if np.ndim(out) == 2 else np.column_stack([1 - out, out])
        total[:, [known.index(label) for label in each or ()]] += weight * columns
    return total, known


def _pairs(labels: Sequence[list[Any] | None], outputs: Sequence[Array]) -> Iterator[tuple[list[Any] | None, Array]]:
    return zip(labels, outputs, strict=True)


def averaged(models: Sequence[Any], weights: Sequence[float], loss: NamedLoss) -> Any:
    """Return the average of trained models: scikit-learn's voting ensemble, or an ``Average`` of other models.

    Trained again, as a clone is, the ensemble trains its members. If the training of a member raised, it is returned.
    One model is its own average.
    """
    if len(models) == 1:
        return models[0]
    if failed := [model for model in models if isinstance(model, Exception)]:
        return failed[0]
    labels = [np.asarray(model.classes_).tolist() if loss.uses_labels else None for model in models]
    estimators = all(hasattr(model, "get_params") and hasattr(model, "fit") for model in models)
    if not estimators or labels.count(labels[0]) < len(labels):
        return Average(models, labels, weights)
    from sklearn.ensemble import VotingClassifier, VotingRegressor
    from sklearn.preprocessing import LabelEncoder
    from sklearn.utils import Bunch

    named = [(f"model_{place}", model) for place, model in enumerate(models)]
    some: Any = {"weights": list(weights)}
    voting = VotingClassifier(named, voting="soft", **some) if loss.uses_labels else VotingRegressor(named, **some)
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
        weights: of each; they sum to 1.
    """

    def __init__(self, models: Sequence[Any], labels: Sequence[list[Any] | None], weights: Sequence[float]) -> None:
        self.estimators_, self._labels, self.weights = list(models), list(labels), list(weights)
        if labels[0] is not None:
            self.classes_ = np.array(sorted({label for each in labels for label in each or ()}))
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(models[0], name):
                setattr(self, name, getattr(models[0], name))

    def predict_proba(self, X: Any) -> Array:
        """Return mean probabilities (n, k)."""
        answers = [np.asarray(model.predict_proba(X)) for model in self.estimators_]
        mean = _mean(answers, self._labels, self.weights)[0]
        return mean if mean.ndim == 2 else np.column_stack([1 - mean, mean])

    def predict(self, X: Any) -> Array:
        """Return mean numbers (n,), or the labels with the largest mean probability."""
        if hasattr(self, "classes_"):
            return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])
        answers = [np.asarray(model.predict(X)).reshape(-1) for model in self.estimators_]
        return np.asarray(np.average(answers, axis=0, weights=self.weights))
