"""Who is public and who is private: validation rows, held-out people, groups, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import loguniform
from sklearn.linear_model import LogisticRegression, Ridge

import dptune
from dptune_sklearn.halves import split_halves
from sklearn_tools import PRIVATE, PUBLIC, VAL, rows, search_in


class Seen(LogisticRegression):
    """Remembers what it was fitted on."""

    def fit(self, X, y, sample_weight=None, note=None):
        self.seen_, self.weights_ = np.asarray(X), sample_weight
        return super().fit(X, y, sample_weight)


def test_a_share_of_the_people_is_held_out_and_never_trains(fast_path):
    X, y = rows(100)
    weights = np.arange(100.0) + 1
    search = search_in(fast_path, estimator=Seen(), validation=0.3).fit(X, y, sample_weight=weights, note="a")
    assert len(search.best_estimator_.seen_) == 70
    assert search.ledger.n == 30
    assert all((row == X).all(axis=1).any() for row in search.best_estimator_.seen_)
    assert (X[search.best_estimator_.weights_.astype(int) - 1] == search.best_estimator_.seen_).all()


def test_whole_groups_are_held_out_and_counted_as_people(fast_path):
    X, y = rows(100)
    patients = np.array([f"patient {i // 5}" for i in range(100)], dtype=object)
    search = search_in(fast_path, estimator=Seen(), validation=0.3).fit(X, y, groups=patients)
    trained = {i // 5 for i in range(100) if (search.best_estimator_.seen_ == X[i]).all(axis=1).any()}
    assert search.ledger.n == 6
    assert len(trained) == 14
    assert len(search.best_estimator_.seen_) == 70


def test_groups_of_validation_rows_are_people(fast_path):
    search = search_in(fast_path).fit(*PUBLIC, **VAL, groups=np.arange(60) // 3)
    assert search.ledger.n == 20


def test_who_is_held_out_depends_on_no_answer():
    X, y = rows(50)
    one, other = (split_halves(X, each, None, {}, held_out=0.4, seed=3) for each in (y, 1 - y))
    assert (one[0].X == other[0].X).all()
    assert (one[1].rows.X == other[1].rows.X).all()


@pytest.mark.parametrize(
    ("settings", "fit", "message"),
    [
        ({}, {}, "give fit X_val= and y_val=.* or PrivateSearch validation="),
        ({"validation": 0.3}, VAL, "not both"),
        ({"validation": 1.5}, {}, "validation"),
        ({}, {"X_val": PRIVATE[0], "y_val": PRIVATE[1][:9]}, "as many rows"),
        ({}, {**VAL, "groups": [1, 2]}, "as many rows"),
        ({}, {"X_val": PRIVATE[0]}, "y_val is None"),
        ({"cv": 5}, VAL, "cv= is refused: .* trains the models of all folds but one"),
        ({"n_iter": 9}, VAL, "n_iter= is refused: write n_trials="),
        ({"loss": None}, VAL, "needs loss=, what is minimised"),
        ({"scoring": "roc_auc"}, VAL, "scoring= is refused: .* Give loss="),
        ({"method": "grid"}, VAL, "'selection', a dptune.algorithms.Method or an Optuna sampler"),
        ({"loss": "logloss"}, VAL, "not the name of a loss"),
        ({"settings": {"poplation": 4}}, VAL, "no option 'poplation'"),
    ],
)
def test_mistakes_are_refused_with_a_remedy_before_anything_is_trained(fast_path, settings, fit, message):
    class Never(LogisticRegression):
        def fit(self, X, y):
            raise KeyboardInterrupt

    with pytest.raises(dptune.InputError, match=message):
        search_in(fast_path, estimator=Never(), **settings).fit(*PUBLIC, **fit)


@pytest.mark.parametrize(
    ("loss", "instead"), [("roc_auc", "log_loss or brier"), ("f1", "log_loss or accuracy"), ("r2", "squared_error")]
)
def test_metrics_that_are_no_mean_over_people_are_refused_with_another(fast_path, loss, instead):
    with pytest.raises(dptune.errors.UnsupportedMetric, match=instead):
        search_in(fast_path, loss=loss).fit(*PUBLIC, **VAL)


def test_private_rows_within_reach_of_training_are_refused(fast_path):
    X_val, y_val = PRIVATE

    class Peeks(LogisticRegression):
        def fit(self, X, y, eval_set=None):
            return super().fit(X, y)

    with pytest.raises(dptune.InputError, match="can reach the private data= through"):
        search_in(fast_path, estimator=Peeks()).fit(*PUBLIC, **VAL, eval_set=[(X_val, y_val)])
    with pytest.raises(dptune.InputError, match=r"can reach the private data= through fit's [Xy]:"):
        search_in(fast_path).fit(X_val, y_val, **VAL)


def test_other_people_need_another_ledger(fast_path):
    search = search_in(fast_path).fit(*PUBLIC, **VAL)
    with pytest.raises(dptune.errors.BudgetMismatch, match="60"):
        search.fit(*PUBLIC, X_val=PRIVATE[0][:50], y_val=PRIVATE[1][:50])


def test_answers_in_a_column_are_a_vector(fast_path):
    X, y = rows(40)[0], rows(40)[0][:, 0]
    private = rows(60, seed=3)[0]
    search = search_in(
        fast_path, estimator=Ridge(), param_distributions={"alpha": loguniform(0.1, 10)}, loss="mse", clip=(0, 4)
    )
    with pytest.warns(UserWarning, match="column-vector"):
        search.fit(X, y, X_val=private, y_val=private[:, :1])
    assert search.predict(private).shape == (60,)
