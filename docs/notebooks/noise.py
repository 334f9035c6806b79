# %% [markdown]
# # What the noise does
#
# A search compares mean losses. Here is one hyperparameter, the exact mean loss of each setting on made-up
# people, and what is released about it at three budgets. The rows are made up, so we may look at both; with
# private rows only the released numbers exist. This page was executed when the site was built, with fresh noise.

# %%
import logging
import tempfile

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.svm import SVC

import dptune

logging.getLogger("dptune").setLevel("ERROR")  # no line for each new ledger
X, y = make_moons(600, noise=0.35, random_state=0)
X_train, y_train, X_val, y_val = X[:200], y[:200], X[200:], y[200:]
gammas = np.logspace(-2, 3, 16)
models = [SVC(gamma=gamma).fit(X_train, y_train) for gamma in gammas]
sign = np.where(y_val == 1, 1, -1)
losses = [np.maximum(0, 1 - sign * model.decision_function(X_val)) for model in models]  # one number a person

# %% [markdown]
# Each release of a mean costs a part of the budget: here each of the 16 values gets μ/√16, so that all together
# are μ-GDP for one of the 400 people.

# %%
folder = tempfile.mkdtemp()
figure, axes = plt.subplots(1, 3, figsize=(10, 3), sharey=True, layout="constrained")
for axis, mu in zip(axes, (0.5, 1.0, 4.0), strict=True):
    ledger = dptune.PrivacyLedger(f"{folder}/{mu}.db", dptune.Budget.gdp(mu))
    privatizer = dptune.LossPrivatizer(ledger, n=400, clip=(0.0, 3.0))
    released = []
    for number, vector in enumerate(losses):
        privatizer.observe(str(number), vector)
        query = privatizer.mean_query(str(number), mu=mu / 4)
        released.append(float(privatizer.release(query, scope="values", key=f"value/{number}").value[0]))
    axis.semilogx(gammas, [np.minimum(each, 3).mean() for each in losses], "k-", label="exact (never shown)")
    axis.semilogx(gammas, released, "o", mfc="none", label="released")
    axis.set(title=f"μ = {mu:g}", xlabel="gamma")
axes[0].set_ylabel("mean hinge loss")
axes[0].legend()
plt.show()

# %% [markdown]
# At μ = 0.5 the smallest released value is small mostly by luck. That is why dptune recommends by a model of
# *all* released values, spends its budget on differences instead of levels where it can ([CMA-ES on centred
# releases](../centred.md)), and pays once where all candidates are known
# ([private selection](../centred.md#one-of-many-models-paid-once)).
#
# The ledger has counted every release:

# %%
print(ledger.statement(delta=1e-5))
