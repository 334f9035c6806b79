"""dptune in Optuna: private samplers, and objectives that make any sampler private.

Example::

    ledger = dptune.PrivacyLedger("ledger.db", dptune.Budget.gdp(mu=1.0), unit="one patient")
    privatizer = dptune.LossPrivatizer(ledger, n=len(y_val), clip=(0.0, 3.0))
    sampler = CentredSampler(privatizer, {"C": FloatDistribution(1e-3, 1e3, log=True)}, n_trials=100)

    @sampler.objective(loss="log_loss", data=(X_val, y_val))  # private; X_train, y_train are public
    def model(trial):
        return LogisticRegression(C=trial.suggest_float("C", 1e-3, 1e3, log=True)).fit(X_train, y_train)

    study = optuna.create_study(storage="sqlite:///study.db", study_name="svm", sampler=sampler)
    study.optimize(model, n_trials=sampler.n_trials)
    sampler.recommend(study)

Guarantee of the central samplers and of ``PrivateObjective``: everything that Optuna gets is a function of releases of
the Gaussian and exponential mechanisms, charged before in the ledger. That is mu-GDP for replacing all records of one
unit, with a trusted curator (this process). :func:`choose` has the guarantee of :class:`dptune.PublicChoice`.
``LocalObjective`` and the LDP samplers need no curator: see :mod:`dptune_optuna.local`.
"""

from dptune._exports import exports

__all__, __getattr__, __dir__ = exports(__name__, __file__)
