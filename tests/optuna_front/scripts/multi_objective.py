"""Two objectives: a tree that errs seldom, and is small."""

import optuna
from people import X_private, y_private  # +
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

import dptune  # +
import dptune_optuna  # +

X, y = load_breast_cancer(return_X_y=True)
X_train, X_valid, y_train, y_valid = train_test_split(X[:200], y[:200], test_size=0.25, random_state=0)


def objective(trial):
    model = DecisionTreeClassifier(
        max_leaf_nodes=trial.suggest_int("max_leaf_nodes", 2, 64, log=True),
        min_samples_leaf=trial.suggest_int("min_samples_leaf", 1, 20),
        random_state=0,
    ).fit(X_train, y_train)
    dptune_optuna.candidate(trial, model, held_out=(X_valid, y_valid))  # +
    return model.score(X_valid, y_valid), model.get_n_leaves()


if __name__ == "__main__":
    study = optuna.create_study(directions=["maximize", "minimize"])
    study.optimize(objective, n_trials=12)
    print([trial.values for trial in study.best_trials])
    ledger = dptune.PrivacyLedger("ledger.db", dptune.Budget.gdp(mu=1.0))  # +
    print(dptune_optuna.choose(study, objective, ledger=ledger, loss="zero_one", data=(X_private, y_private)))  # +
