"""dptune in MLflow: what a run has released and its noise, the budget, the recommendation and the statement.

Example::

    log_run(ledger, "svm", recommended=search.recommend(), delta=1e-5)  # again: brings the same MLflow run up to date

Guarantee: what is written is a function of what the ledger has released, and of public facts. MLflow adds the time of
writing. Its client is used, and not ``mlflow.log_...``, whose runs name the user and the script and may measure the
machine while private rows are read.
"""

from dptune._exports import exports

__all__, __getattr__, __dir__ = exports(__name__, __file__)
