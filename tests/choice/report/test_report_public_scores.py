"""Public scores are of the kind of the private ones: of refits that are the model, or its own of held-out rows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from dptune import InputError
from dptune.choice.averages import averaged
from dptune.choice.report.public_rows import how_to_ask, public_scores
from dptune.losses.named import as_loss
from report_tools import PRIVATE, PUBLIC, people, privatizer, report

HELD_OUT = people(200, seed=2)
X, Y = PUBLIC
NUMBERS = X.sum(axis=1) + np.random.default_rng(0).normal(size=len(X))
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def _same_seeds() -> None:
    """Models without a seed draw from NumPy's global generator, which is seeded: nothing here is left to chance."""
    np.random.seed(0)


class Rule(ClassifierMixin, BaseEstimator):
    """A rule that nobody trains."""

    def fit(self, X: Any, y: Any) -> Any:
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        return self

    def predict_proba(self, X: Any) -> Any:
        p = expit(np.asarray(X)[:, 1] - np.asarray(X)[:, 0])
        return np.column_stack([1 - p, p])


def by_epochs(epochs: int) -> Any:
    model = MLPClassifier((20,))
    for _ in range(epochs):
        model.partial_fit(X, Y, classes=[0, 1])
    return model


def truncated() -> Any:
    model = RandomForestClassifier(40, max_depth=3, random_state=0).fit(X, Y)
    model.estimators_ = model.estimators_[:1]
    return model


ANOTHER: dict[str, Callable[[], Any]] = {
    "partial_fit, 5 epochs": lambda: by_epochs(5),
    "partial_fit, 30 epochs": lambda: by_epochs(30),
    "partial_fit of a linear model": lambda: LogisticSGD().partial_fit(X, Y, classes=[0, 1]),
    "settings after fit": lambda: LogisticRegression(C=0.02).fit(X, Y).set_params(C=1.0),
    "settings after fit, in a pipeline": lambda: (
        make_pipeline(StandardScaler(), LogisticRegression(C=1e-3)).fit(X, Y).set_params(logisticregression__C=1.0)
    ),
    "weights": lambda: LogisticRegression().fit(X, Y, sample_weight=1.0 + 4 * Y),
    "other rows": lambda: LogisticRegression().fit(*people(40, seed=5)),
    "a warm start": lambda: warm_started(),
    "a stopped ensemble": truncated,
    "frozen": lambda: FrozenEstimator(LogisticRegression().fit(X, Y)),
    "a frozen part": lambda: CalibratedClassifierCV(FrozenEstimator(LogisticRegression().fit(X, Y))).fit(X, Y),
    "a rule": lambda: Rule().fit(X, Y),
}


class LogisticSGD(SGDClassifier):
    def __init__(self) -> None:
        super().__init__(loss="log_loss", alpha=0.01, random_state=0)


def warm_started() -> Any:
    model = LogisticRegression(max_iter=1, warm_start=True)
    for _ in range(40):
        model.fit(X, Y)
    return model


@pytest.mark.parametrize("kind", ANOTHER)
def test_a_model_that_fit_does_not_make_needs_held_out_rows(tmp_path: Path, kind: str) -> None:
    model, mine = ANOTHER[kind](), privatizer(tmp_path)
    with pytest.raises(InputError, match=r"Give held_out=\(X, y\).*Or give scores=.*Nothing was charged\.$"):
        report(mine, model)
    assert mine.ledger.charges() == []
    assert mine.ledger.fact("report", "plan") is None
    found = report(mine, model, held_out=HELD_OUT)
    assert not any("cross-validated" in note for note in found.notes())
    bins, own = found.plan.bins[0], model.predict_proba(HELD_OUT[0])[:, 1]
    counts = [np.bincount(bins.of(own[HELD_OUT[1] == label]), minlength=bins.count) for label in (0, 1)]
    assert np.array_equal(bins.table, counts)


ORDINARY: dict[str, Any] = {
    "linear": LogisticRegression(),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression(C=0.02)),
    "forest without a seed": RandomForestClassifier(10),
    "forest with a generator": RandomForestClassifier(10, random_state=np.random.RandomState(0)),
    "network without a seed": MLPClassifier((10,), max_iter=60),
    "early stopping of fit": MLPClassifier((10,), early_stopping=True),
    "descent without a seed": SGDClassifier(loss="log_loss"),
    "boosting": HistGradientBoostingClassifier(max_iter=5),
    "margins": SVC(),
    "neighbours": KNeighborsClassifier(),
    "constant": DummyClassifier(),
    "search": GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
    "calibrated": CalibratedClassifierCV(SVC(), cv=2),
    "numbers": Ridge(),
    "numbers without a seed": RandomForestRegressor(10),
}


@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_models_are_what_fit_makes(kind: str) -> None:
    """Also a model that was trained on the rows in another order."""
    model = ORDINARY[kind]
    y = NUMBERS if kind.startswith("numbers") else Y
    for order in (np.arange(len(y)), np.random.default_rng(1).permutation(len(y))):
        model.fit(X[order], y[order])
        found = public_scores(model, how_to_ask(model), (X, y), None, 2)
        assert len(found.scores) == len(y)


def test_an_average_of_a_choice_is_what_fit_makes() -> None:
    models = [LogisticRegression(C=C).fit(X, Y) for C in (0.1, 1.0, 10.0)]
    model = averaged(models, [0.5, 0.3, 0.2], as_loss("log_loss"))
    assert len(public_scores(model, how_to_ask(model), PUBLIC, None, 5).scores) == len(Y)


@pytest.mark.parametrize(
    "settings",
    [{"held_out": HELD_OUT, "public": PUBLIC}, {"public": None}, {"held_out": HELD_OUT, "scores": np.zeros(200)},
     {"held_out": (HELD_OUT[0][:5], HELD_OUT[1][:5])}, {"held_out": PRIVATE}, {"held_out": HELD_OUT[0]}],
    ids=["both", "neither", "scores", "few", "private", "no pair"],
)  # fmt: skip
def test_held_out_rows_that_are_refused_cost_nothing(tmp_path: Path, settings: dict[str, Any]) -> None:
    mine = privatizer(tmp_path)
    with pytest.raises(InputError, match=r"held_out.*Nothing was charged\.$"):
        report(mine, **settings)
    assert mine.ledger.charges() == []


@pytest.mark.parametrize("C", [0.001, 0.005, 0.02, 1.0])
def test_refits_of_fewer_rows_are_extrapolated_to_all_rows(C: float) -> None:
    """Spread and mean of the logits are those of the model on new rows; those of the refits alone are too small."""
    model = LogisticRegression(C=C).fit(X, Y)
    found = public_scores(model, how_to_ask(model), PUBLIC, None, 5).scores
    new = model.predict_proba(people(20_000, seed=9)[0])[:, 1]
    assert np.std(logit(found)) == pytest.approx(np.std(logit(new)), rel=0.1)
    assert np.mean(logit(found)) == pytest.approx(np.mean(logit(new)), abs=0.15 * np.std(logit(new)))
