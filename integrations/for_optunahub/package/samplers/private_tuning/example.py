"""Tune a ridge regression whose 200 validation rows are private.

Needs ``pip install "dptune[optuna,cmaes]" optunahub``.
"""

import numpy as np
import optuna
import optunahub

import dptune

module = optunahub.load_module("samplers/private_tuning")
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 5))
y = X @ rng.normal(size=5) + rng.normal(size=300)

ledger = dptune.PrivacyLedger("ledger.db", dptune.Budget.gdp(mu=1.0))
privatizer = dptune.LossPrivatizer(ledger, n=200, clip=(0.0, 10.0))
space = {"alpha": optuna.distributions.FloatDistribution(1e-3, 1e3, log=True)}
sampler = module.CentredSampler(privatizer, space, n_trials=20)


@sampler.objective
def ridge(trial: optuna.Trial) -> np.ndarray:
    alpha = trial.suggest_float("alpha", 1e-3, 1e3, log=True)
    coef = np.linalg.solve(X[:100].T @ X[:100] + alpha * np.eye(5), X[:100].T @ y[:100])
    return (X[100:] @ coef - y[100:]) ** 2  # one loss a person


study = optuna.create_study(sampler=sampler)
study.optimize(ridge, n_trials=sampler.n_trials)
print(sampler.recommend(study))
print(ledger.statement(delta=1e-5))
