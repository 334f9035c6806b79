"""A hyperparameter search in the manner of ``RandomizedSearchCV``, on private validation rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy.typing as npt

import dptune
from dptune._checks import boolean
from dptune.accounting import BudgetStatement
from dptune.errors import InputError
from dptune.losses.named import NamedLoss, as_loss, too_wide
from dptune.privacy import AutoClip
from dptune.search.fold import FINAL, VALUE
from dptune_sklearn.models import Models, given_halves
from dptune_sklearn.naming import name_of, refuse_other, stands_for
from dptune_sklearn.spaces import Distributions, UserSpace, refuse_unknown
from dptune_sklearn.strategies import charges_of, strategy
from dptune_sklearn.wrappers import Around

REFUSED = {
    "n_iter": "write n_trials=, the number of models to train.",
    "cv": "there is no cross-validation on private rows: a person trains the models of all folds but one, so each of "
    "these depends on them, and so does everybody's loss. Give fit X_val= and y_val=.",
    "validation": "rows that were read together share their columns' types, and one private cell, a '?' among numbers, "
    "changes those of the training rows. Split the rows before they are read, and give fit X_val= and y_val=.",
    "scoring": "a score of all rows together has no bounded share for each person. Give loss=, a mean over people that "
    'is minimised: "log_loss" or "zero_one" (1 - accuracy) for classifiers, "squared_error" for regressors.',
}


class PrivateSearch(Around):
    """Searches an estimator's parameters; what it learns of the validation rows is paid for in a ledger.

    Args:
        estimator: anything with ``fit`` and what the loss asks for: ``predict_proba`` (log loss, Brier),
            ``decision_function`` (hinge) or ``predict``. Pipelines too, with names like ``step__param``.
        param_distributions: name -> list of values or frozen ``scipy.stats`` distribution, as ``RandomizedSearchCV``
            takes them; with "centred" and "selection" also a list of such spaces.
        ledger: a :class:`dptune.PrivacyLedger`, or where one is: its path or URL.
        loss: the per-example loss that is minimised: a name, e.g. "log_loss", or a ``NamedLoss`` of your own.
        clip: (low, high): the public range of one loss. "auto": that of zero-one and Brier losses is known; of others
            it is chosen privately from the losses of the estimator as it was given, for 5% of mu^2.
        budget: of the ledger, if it is given as a path and does not exist yet.
        n_trials: number of models to train, rounded down to whole rounds of the method; default its own, and of a grid
            all its points.
        method: "centred" (two releases a round; any space), "dp-gibo" (one released gradient a batch; numbers),
            "selection" (anything: all candidates in parallel, one price), a :class:`dptune.algorithms.Method`, or an
            Optuna sampler, which is told a noisy value of each trial.
        mu: GDP budget of the search; default what is neither spent nor planned by other runs when it begins.
        n_jobs: number of processes that train. Private rows stay in this one.
        random_state: a whole number; what the algorithm draws.
        settings: of the method's planner, e.g. ``{"final_share": 0.1}``; of "selection" ``estimate_share`` (default
            0.1), ``method``, and ``default``: a dict of parameters that is one of the candidates, and is kept unless
            others are better.
        name: of the search in the ledger; default made of everything public, training rows included. Under its name a
            search that was stopped goes on, and one that is complete is told again, for nothing.
        warm_start: True: with more ``n_trials`` (and ``mu``), both in all, ``fit`` goes on from the search with
            fewer. That one is found in the ledger, in another process too: the default name is made without these two.
        verbose: 1: ``fit`` prints, once, what the search spends, how large its noise is, which improvement it can show
            and what a person risks. 0: it logs that, as ``dptune_sklearn`` at level INFO.
        cv, scoring, n_iter, validation: refused by ``fit``, with the reason.

    Attributes:
        best_params_: a :class:`dptune.search.answer.Recommendation`, with what is known beside it.
        best_loss_: released :class:`dptune.search.Estimate` of the mean clipped loss at the best parameters; None if
            its share of the budget is 0.
        best_score_: minus that loss.
        best_estimator_: fitted with them on the training rows.
        released_: all that was released, as columns: ``pandas.DataFrame(search.released_)``. ``sigma`` is the standard
            deviation of the noise in each entry of ``value``; ``params`` is where a value or the estimate was asked
            for, None of other releases.
        name_: of the search in the ledger.

    Guarantee: all of them are functions of the training rows and of releases that the ledger has paid for.

    Example::

        search = PrivateSearch(Ridge(), {"alpha": loguniform(1e-3, 1e3)}, ledger=ledger, loss="mse")
        search.fit(X_train, y_train, X_val=X_val, y_val=y_val).best_params_
    """

    fitted_as = "best_estimator_"

    def __init__(
        self,
        estimator: Any,
        param_distributions: Distributions,
        *,
        ledger: dptune.PrivacyLedger | str | Path,
        loss: str | NamedLoss,
        clip: tuple[float, float] | str | AutoClip = "auto",
        budget: dptune.Budget | None = None,
        n_trials: int | None = None,
        method: Any = "centred",
        mu: float | None = None,
        n_jobs: int | None = None,
        random_state: int = 0,
        settings: Mapping[str, Any] | None = None,
        name: str | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        cv: None = None,
        scoring: None = None,
        n_iter: None = None,
        validation: None = None,
    ) -> None:  # scikit-learn wants each setting as it is given, under its name
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.ledger = ledger
        self.loss = loss
        self.clip = clip
        self.budget = budget
        self.n_trials = n_trials
        self.method = method
        self.mu = mu
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.settings = settings
        self.name = name
        self.warm_start = warm_start
        self.verbose = verbose
        self.cv = cv
        self.scoring = scoring
        self.n_iter = n_iter
        self.validation = validation

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        groups: npt.ArrayLike | None = None,
        **options: Any,
    ) -> Self:
        """Search; then fit the best parameters on the training rows.

        Args:
            X, y: public training rows (m, d) and answers (m,), read without the private ones: in one table a private
                cell can change what a column of the training rows holds.
            X_val, y_val: private rows (n, d) and answers (n,), of people who are not among the training rows.
            groups: whose a private row is (n,); default a person a row.
            options: of the estimator's ``fit``.

        Raises:
            UnsupportedMetric: the loss is not a mean over people.
            InputError: a setting is not usable, private rows are within reach of the training, or nothing could be
                trained.
            BudgetExhausted: the ledger has not that much left; before a model is trained.
            BudgetMismatch: the ledger protects other people, or the name belongs to another search.
        """
        for refused, reason in REFUSED.items():
            if getattr(self, refused) is not None:
                raise InputError(f"{refused}= is refused: {reason}")
        spend = strategy(self.method)
        refuse_unknown(self.param_distributions, self.estimator)
        training, private = given_halves(X, y, X_val, y_val, groups, options)
        models = Models(self.estimator, training, private, self.loss, self.n_jobs)
        self.name_ = self.name or name_of(self.estimator, self._public(), vars(training))
        self._means = stands_for(self.estimator, self.loss, training) if self.name else {}
        refuse_other(self._ledger(), self.name_, self._means)
        clip = AutoClip(self.name_) if isinstance(self.clip, str) and self.clip == "auto" else self.clip
        privatizer = dptune.LossPrivatizer(self._ledger(), clip=clip, **private.people)
        if (loss := as_loss(self.loss)).known_clip:
            privatizer.use_clip((0.0, loss.most))
        if privatizer.auto is None and (why := too_wide(self.loss, privatizer.loss_range)):
            warnings.warn(why, stacklevel=2)
        boolean("warm_start", self.warm_start)
        found = spend(self, privatizer, models)
        self.best_params_, self.best_estimator_, self.best_loss_ = found.best, found.model, found.loss
        self.released_ = self._released(privatizer)
        if hasattr(found.model, "feature_names_in_"):
            self.feature_names_in_ = found.model.feature_names_in_
        return self

    @property
    def best_score_(self) -> float:
        """Minus the released loss at the best parameters: higher is better, as everywhere in scikit-learn."""
        if self.best_loss_ is None:
            raise AttributeError("nothing was kept for the final estimate, so no level of loss was released.")
        return -self.best_loss_.value

    @property
    def cv_results_(self) -> NoReturn:
        """Refused: there is no released score of each candidate."""
        raise AttributeError(
            "cv_results_ is refused: candidates have no scores of their own that were paid for. What was released is "
            "in released_, and what follows from it in best_params_."
        )

    def statement(self, *, delta: float | None = None) -> BudgetStatement:
        """Return the ledger's privacy statement, to print or to publish; see :meth:`dptune.PrivacyLedger.statement`."""
        return self._ledger().statement(delta=delta)

    def _ledger(self) -> dptune.PrivacyLedger:
        """Return the ledger; made anew from its path, it is the same."""
        given = self.ledger
        return given if isinstance(given, dptune.PrivacyLedger) else dptune.PrivacyLedger(given, self.budget)

    def _released(self, privatizer: dptune.LossPrivatizer) -> dict[str, list[Any]]:
        """Return what was released under the search's name, in the ledger's order."""
        ledger, auto = privatizer.ledger, privatizer.auto
        charges = [*([] if auto is None else ledger.charges(auto.scope)), *charges_of(ledger, self.name_)]
        about = [charge.description for charge in charges]
        return {
            "release": [charge.key for charge in charges],
            "what": [each["statistic"] for each in about],
            "mu": [each["mu"] for each in about],
            "sigma": [each["sigma"] for each in about],
            "value": [charge.value for charge in charges],
            "private": [charge.private for charge in charges],
            "params": [self._asked_at(charge.key, charge.note) for charge in charges],
        }

    def _asked_at(self, key: str, note: Mapping[str, Any]) -> dict[str, Any] | None:
        """What the estimator was given where a value or the estimate was asked for; None: a release of other things."""
        if key != FINAL and not key.startswith(VALUE):
            return None
        return UserSpace(self.param_distributions).user(note["parameters"])

    def _public(self) -> dict[str, Any]:
        """The settings on which answers depend."""
        other = ["estimator", "ledger", "budget", "n_jobs", "name", "warm_start", "verbose", "n_iter"]
        other += ["n_trials", "mu"] if self.warm_start else []
        return {name: value for name, value in self.get_params(deep=False).items() if name not in other}
