"""dptune in scikit-learn: your search on public rows proposes, and private people choose.

Example::

    ledger = dptune.PrivacyLedger("ledger.db", dptune.Budget.gdp(mu=1.0), unit="one patient")
    public = RandomizedSearchCV(SVC(), {"C": loguniform(1e-3, 1e3), "gamma": loguniform(1e-5, 10)}, n_iter=60)
    search = PrivateSearch(public, ledger=ledger, loss="hinge")
    search.fit(X_train, y_train, X_val=X_val, y_val=y_val)  # X_train, y_train are public, X_val, y_val private
    search.best_params_, search.summary(), search.predict(X_new)
    print(search.statement(delta=1e-5))

Guarantee: every attribute, pickle, warning and representation of a search is a function of the training rows and of
releases paid beforehand in the ledger: mu-GDP for replacing all records of one unit among the validation rows, with a
trusted curator (this process).
"""

from dptune_sklearn.halves import StopsEarly
from dptune_sklearn.private_search import PrivateSearch

__all__ = ["PrivateSearch", "StopsEarly"]
