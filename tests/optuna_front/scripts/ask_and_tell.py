"""No objective: the script asks the study for parameters and tells it the value."""

import optuna
from people import people  # +
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import dptune  # +
import dptune_optuna  # +

X, y = load_breast_cancer(return_X_y=True)
X, y = X[:200] / X[:200].std(axis=0), y[:200]
X_train, X_valid, y_train, y_valid = train_test_split(X, y, test_size=0.25, random_state=0)

study = optuna.create_study(direction="maximize")
for _ in range(12):
    trial = study.ask()
    C = trial.suggest_float("C", 1e-4, 1e2, log=True)
    solver = trial.suggest_categorical("solver", ["lbfgs", "liblinear"])
    model = LogisticRegression(C=C, solver=solver).fit(X_train, y_train)
    study.tell(trial, model.score(X_valid, y_valid))
print(study.best_params)
ledger = dptune.PrivacyLedger("ledger.db", dptune.Budget.gdp(mu=1.0))  # +
model = LogisticRegression()  # +
print(dptune_optuna.choose(study, model, ledger=ledger, loss="log_loss", data=people, public=(X, y)))  # +
