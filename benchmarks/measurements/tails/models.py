"""Models of the families of losses, and each person's loss under them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.data import Array

Parameters = Mapping[str, Any]
Model = Callable[[Parameters, Array, Array], Callable[[Array, Array], Array]]  # p, X, y -> (X, y -> losses)


def log_loss(make: Callable[[Parameters], Any], least: float = 1e-12) -> Model:
    """A classifier's log losses, with probabilities of ``least`` or more; a class that it has not seen has 0."""

    def train(p: Parameters, X: Array, y: Array) -> Callable[[Array, Array], Array]:
        model = make(p).fit(X, y)

        def losses(Z: Array, answers: Array) -> Array:
            P = np.zeros((len(Z), max(int(answers.max()), int(model.classes_.max())) + 1))
            P[:, model.classes_] = np.nan_to_num(model.predict_proba(Z))
            Q = _tempered(P, p.get("temperature", 1.0), least)
            return np.asarray(-np.log(np.maximum(Q, least))[np.arange(len(Z)), answers])

        return losses

    return train


def _tempered(P: Array, temperature: float, least: float) -> Array:
    logits = np.log(np.maximum(P, least)) / temperature
    Q = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(Q / Q.sum(axis=1, keepdims=True))


def regression(make: Callable[[Parameters], Any], loss: Callable[[Array], Array]) -> Model:
    """A regressor's losses of what it misses the answers by."""

    def train(p: Parameters, X: Array, y: Array) -> Callable[[Array, Array], Array]:
        model = make(p).fit(X, y)
        return lambda Z, answers: loss(answers - model.predict(Z))

    return train


def tree(p: Parameters) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(min_samples_leaf=p["leaf"], ccp_alpha=p["ccp"], random_state=0)


def forest(p: Parameters) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(15, min_samples_leaf=p["leaf"], max_features=p["features"], random_state=0, n_jobs=1)


def boosting(p: Parameters) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=40, learning_rate=p["rate"], min_samples_leaf=p["leaf"], early_stopping=False, random_state=0
    )


def boosted_regression(loss: str, **settings: Any) -> Callable[[Parameters], Any]:
    def make(p: Parameters) -> Any:
        from sklearn.ensemble import HistGradientBoostingRegressor

        return HistGradientBoostingRegressor(
            loss=loss, max_iter=40, learning_rate=p["rate"], min_samples_leaf=p["leaf"], early_stopping=False,
            random_state=0, **settings,
        )  # fmt: skip

    return make


def neighbours(p: Parameters) -> Any:
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(p["k"], p=p["p"], algorithm="brute", n_jobs=1)


def naive_bayes(p: Parameters) -> Any:
    from sklearn.naive_bayes import GaussianNB

    return GaussianNB(var_smoothing=p["smoothing"])


def logistic(p: Parameters) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=p["C"], max_iter=200, tol=p.get("tol", 1e-4)))


def hinge(p: Parameters, X: Array, y: Array) -> Callable[[Array, Array], Array]:
    """A support vector machine's hinge losses: with a large gamma a third of the people have the same."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    model = make_pipeline(StandardScaler(), SVC(C=p["C"], gamma=p["gamma"])).fit(X, y)
    return lambda Z, answers: np.asarray(np.maximum(0.0, 1 - (2 * answers - 1) * model.decision_function(Z)))


def network(p: Parameters) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier((32,), alpha=p["alpha"], learning_rate_init=p["rate"], max_iter=40, random_state=0)


def pinball(missed: Array, quantile: float = 0.9) -> Array:
    return np.asarray(np.maximum(quantile * missed, (quantile - 1) * missed))
