"""Stop bad trials early by a public quantity, with Tune's ASHA; only what trains to its end is paid for."""

import sys
from pathlib import Path

from ray import tune
from ray.tune.schedulers import ASHAScheduler
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import dptune
from dptune_ray import CentredSearch, report_public

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
X, y = load_digits(return_X_y=True)
X_train, X_rest, y_train, y_rest = train_test_split(X / 16, y, train_size=400, random_state=0)
X_stop, X_val, y_stop, y_val = train_test_split(X_rest, y_rest, train_size=200, random_state=0)
ledger = dptune.PrivacyLedger(folder / "ray_pruning.db", dptune.Budget.gdp(mu=1.0), unit="one image")
privatizer = dptune.LossPrivatizer(ledger, n=len(y_val), clip=(0.0, 3.0))
space = {"rate": tune.loguniform(1e-4, 1e-1), "width": tune.randint(4, 64)}
search = CentredSearch(privatizer, space, name="mlp", n_trials=8)


@search.trainable(loss="log_loss", data=(X_val, y_val), public="log loss on 200 public images")
def mlp(config):
    net = MLPClassifier(config["width"], learning_rate_init=config["rate"], random_state=0)
    for epoch in range(1, 9):
        net.partial_fit(X_train, y_train, classes=range(10))
        report_public(log_loss(y_stop, net.predict_proba(X_stop)), epoch)
    return net


asha = ASHAScheduler(metric="public", mode="min", max_t=100, grace_period=3, reduction_factor=3)  # 100: never reached
tuning = tune.TuneConfig(search_alg=search, scheduler=asha, num_samples=-1, reuse_actors=True)
tune.Tuner(mlp, tune_config=tuning, param_space=space, run_config=tune.RunConfig(storage_path=str(folder))).fit()
print("Best parameters:", search.recommend())
print(ledger.statement(delta=1e-5))
