"""No public rows but those of the training: draw 60 candidates, choose one by private people, for one price.

Run: python examples/select_models.py [folder]
"""

import sys
from pathlib import Path

from scipy.stats import loguniform
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterSampler, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dptune

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
X, y = load_breast_cancer(return_X_y=True)
X_train, X_val, y_train, y_val = train_test_split(
    X, y, train_size=100, random_state=0
)  # the patients of *_val are private


def fitted(C=1.0):
    """Return the model that is trained with this C."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=C, max_iter=1000)).fit(X_train, y_train)


drawn = [{"C": 1.0}, *ParameterSampler({"C": loguniform(1e-4, 1e4)}, n_iter=59, random_state=0)]
chosen = dptune.select(
    [fitted(**parameters) for parameters in drawn], folder / "select_models.db",
    budget=dptune.Budget.approximate_dp(epsilon=2.0, delta=1e-5), data=(X_val, y_val), loss="zero_one_loss",
    default_place=0, estimate_share=0.2,
)  # fmt: skip
print(drawn[chosen.index])
print(chosen.summary())
print(dptune.PrivacyLedger(folder / "select_models.db").statement(delta=1e-5))
