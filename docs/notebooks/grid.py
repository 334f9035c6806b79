# %% [markdown]
# # A grid for one price
#
# A grid of thirty models asks the private rows thirty times, if each score is released. If only *the best* is
# wanted, one noisy choice among all of them is enough, and its price does not grow with their number. This page
# was executed when the site was built, with fresh noise.

# %%
import logging
import tempfile

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import ParameterGrid, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from dptune import Budget, PrivacyLedger, select

logging.getLogger("dptune").setLevel("ERROR")  # no line for the new ledger
X, y = load_breast_cancer(return_X_y=True)
X_train, X_val, y_train, y_val = train_test_split(X, y, train_size=169, random_state=0)  # 400 private patients
ledger = PrivacyLedger(f"{tempfile.mkdtemp()}/ledger.db", Budget.gdp(mu=1.0), dataset="tumours", unit="one patient")

# %%
grid = {"svc__C": [0.01, 0.1, 1.0, 10.0, 100.0], "svc__gamma": [1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0]}
svm = make_pipeline(StandardScaler(), SVC())
candidates = list(ParameterGrid(grid))
models = [clone(svm).set_params(**parameters).fit(X_train, y_train) for parameters in candidates]
chosen = select(models, ledger, name="grid", loss="zero_one", data=(X_val, y_val), mu=0.5, estimate_share=0.1)
best = candidates[chosen.index]
print(best)
print("share of patients that are labelled wrongly:", chosen.estimate)

# %% [markdown]
# Half of the budget is spent, whatever the size of the grid, and the rest can pay for something else about the
# same patients.

# %%
print(f"spent mu = {ledger.spent():.3f} of {ledger.budget.mu:g}")

# %% [markdown]
# How good is the choice? The breast cancer data are in fact public, so here, and only here, we may look.

# %%
exact = {}
for C in grid["svc__C"]:
    for gamma in grid["svc__gamma"]:
        model = make_pipeline(StandardScaler(), SVC(C=C, gamma=gamma)).fit(X_train, y_train)
        exact[C, gamma] = float(np.mean(model.predict(X_val) != y_val))
found = exact[best["svc__C"], best["svc__gamma"]]
print(f"chosen {found:.3f}, best of the grid {min(exact.values()):.3f}, worst {max(exact.values()):.3f}")

# %%
print(ledger.statement(delta=1e-5))
