"""Stop bad trials early by noisy answers about private people; each answer is paid by the run's plan."""

import sys
from pathlib import Path

from ray import tune
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import dptune
from dptune_ray import CentredSearch, report_private

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
X, y = load_digits(return_X_y=True)
X_train, X_val, y_train, y_val = train_test_split(X / 16, y, train_size=400, random_state=0)
ledger = dptune.PrivacyLedger(folder / "ray_private_rungs.db", dptune.Budget.gdp(mu=1.0), unit="one image")
privatizer = dptune.LossPrivatizer(ledger, n=len(y_val), clip=(0.0, 3.0))
space = {"rate": tune.loguniform(1e-4, 1e-1), "width": tune.randint(4, 64)}
search = CentredSearch(privatizer, space, name="mlp", n_trials=8, rung_share=0.2, rungs=2)


@search.trainable(loss="log_loss", data=(X_val, y_val))
def mlp(config):
    net = MLPClassifier(config["width"], learning_rate_init=config["rate"], random_state=0)
    for epoch in range(1, 10):
        net.partial_fit(X_train, y_train, classes=range(10))
        if epoch in (1, 3):
            report_private(net, epoch)  # one release; ends the function if the answer is to stop
    return net


tuning = tune.TuneConfig(search_alg=search, num_samples=-1, reuse_actors=True)
tune.Tuner(mlp, tune_config=tuning, param_space=space, run_config=tune.RunConfig(storage_path=str(folder))).fit()
print("Decisions paid:", len(ledger.charges("mlp", prefix="rung/")), "- best parameters:", search.recommend())
print(ledger.statement(delta=1e-5))
