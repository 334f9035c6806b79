"""Two kinds of models from scikit-learn, scored by cross-validation."""

import optuna
from people import X_private, y_private  # +
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

import dptune  # +
import dptune_optuna  # +

X, y = load_breast_cancer(return_X_y=True)
X, y = X[:200], y[:200]


def objective(trial):
    if trial.suggest_categorical("model", ["svc", "forest"]) == "svc":
        model = SVC(C=trial.suggest_float("C", 1e-2, 1e4, log=True), gamma="scale")
    else:
        depth = trial.suggest_int("depth", 2, 32, log=True)
        model = RandomForestClassifier(max_depth=depth, n_estimators=10, random_state=0)
    dptune_optuna.candidate(trial, model, rows=(X, y))  # +
    return cross_val_score(model, X, y, cv=3).mean()


if __name__ == "__main__":
    study = optuna.create_study(direction="maximize")
    study.optimize(objective, n_trials=12)
    print(study.best_trial)
    ledger = dptune.PrivacyLedger("ledger.db", dptune.Budget.approximate_dp(1.0, 1e-5))  # +
    print(dptune_optuna.choose(study, objective, ledger=ledger, loss="zero_one", data=(X_private, y_private)))  # +
