"""dptune in MLflow: a run's releases with their noise, the budget, the recommendation and the statement.

Example::

    log_run(ledger, "svm", recommended=search.recommend(), delta=1e-5)  # a second call updates the same MLflow run

Guarantee: everything written is a function of the ledger's releases and of public facts. MLflow adds the time of
    writing. dptune uses MLflow's client instead of ``mlflow.log_...``, whose runs name the user and the script. Such
    runs may also measure the machine while private rows are read.
"""

from dptune._exports import exports

__all__, __getattr__, __dir__ = exports(__name__, __file__)
