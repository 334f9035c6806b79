"""Stop bad trials early by a public quantity, with any Optuna pruner; only what trains to its end is paid for."""

import sys

import optuna
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import dptune
from dptune_optuna import CentredSampler

folder, name = sys.argv[1] if len(sys.argv) > 1 else ".", sys.argv[2] if len(sys.argv) > 2 else "median"
X, y = load_digits(return_X_y=True)
X_public, X_val, y_public, y_val = train_test_split(X / 16, y, train_size=600, random_state=0)
X_train, X_stop, y_train, y_stop = train_test_split(X_public, y_public, test_size=200, random_state=0)

ledger = dptune.PrivacyLedger(f"{folder}/pruning.db", dptune.Budget.gdp(mu=1.0), unit="one image")
privatizer = dptune.LossPrivatizer(ledger, n=len(y_val), clip=(0.0, 3.0))
sampler = CentredSampler(privatizer=privatizer, n_trials=16)
pruners = {"median": optuna.pruners.MedianPruner(n_startup_trials=4), "hyperband": optuna.pruners.HyperbandPruner()}


@sampler.objective(loss="log_loss", data=(X_val, y_val), public="log loss on 200 public images")
def model(trial):
    rate = trial.suggest_float("rate", 1e-4, 1e-1, log=True)
    net = MLPClassifier(trial.suggest_int("width", 4, 64), learning_rate_init=rate, random_state=0)
    for epoch in range(1, 21):
        net.partial_fit(X_train, y_train, classes=range(10))
        trial.report_public(log_loss(y_stop, net.predict_proba(X_stop)), epoch)
        if trial.should_prune():
            raise optuna.TrialPruned
    return net


study = optuna.create_study(study_name=name, sampler=sampler, pruner=pruners[name])
study.optimize(model)  # stops when the plan is complete; pruned trials are among its 16
print("Best parameters:", sampler.recommend(study), "-", study.trials[-1].number + 1, "trials")
print(ledger.statement(delta=1e-5))
