"""XGBoost's scikit-learn interface, with trials that Optuna prunes."""

import optuna
import xgboost
from optuna_integration.xgboost import XGBoostPruningCallback
from people import X_private, y_private  # +
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import dptune  # +
import dptune_optuna  # +

X, y = load_breast_cancer(return_X_y=True)
X_train, X_valid, y_train, y_valid = train_test_split(X[:200], y[:200], test_size=0.25, random_state=0)


def objective(trial):
    params = {
        "learning_rate": trial.suggest_float("learning_rate", 1e-3, 0.3, log=True),
        "max_depth": trial.suggest_int("max_depth", 1, 8),
        "reg_lambda": trial.suggest_float("reg_lambda", 1e-6, 10.0, log=True),
    }
    pruning = XGBoostPruningCallback(trial, "validation_0-logloss")
    model = xgboost.XGBClassifier(**params, n_estimators=30, eval_metric="logloss", callbacks=[pruning])
    model.fit(X_train, y_train, eval_set=[(X_valid, y_valid)], verbose=False)
    dptune_optuna.candidate(trial, model, held_out=(X_valid, y_valid))  # +
    return model.evals_result()["validation_0"]["logloss"][-1]


if __name__ == "__main__":
    study = optuna.create_study(pruner=optuna.pruners.MedianPruner(n_startup_trials=4))
    study.optimize(objective, n_trials=12)
    print(study.best_value)
    ledger = dptune.PrivacyLedger("ledger.db", dptune.Budget.gdp(mu=1.0))  # +
    print(dptune_optuna.choose(study, objective, ledger=ledger, loss="log_loss", data=(X_private, y_private)))  # +
