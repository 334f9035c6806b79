"""A hyperparameter search in the manner of ``RandomizedSearchCV``, on private validation rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, Self
from weakref import WeakKeyDictionary, ref

import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

import dptune
from dptune._checks import boolean, nothing_charged, shown
from dptune.choice import Report
from dptune.errors import InputError
from dptune.ledger import BudgetStatement
from dptune.losses.named import NamedLoss, as_loss
from dptune.privacy import AutoClip
from dptune.search.asked_loss import AskedLoss
from dptune.search.replay import FINAL, VALUE
from dptune_sklearn.decide import decide
from dptune_sklearn.models import Models, given_halves, refuse_shared
from dptune_sklearn.naming import name_of, refuse_other, stands_for
from dptune_sklearn.public_search import is_search, seeded
from dptune_sklearn.spaces import Distributions, UserSpace, refuse_unknown
from dptune_sklearn.strategies import Strategy, charges_of, strategy
from dptune_sklearn.wrappers import WrappedEstimator, if_it_has

NOT_PRIVATE_SCORING = (
    "scoring= is refused with cv=None: a score of all rows together has no bounded share for each person. Give loss=, "
    'a mean over people that is minimised: "log_loss" or "zero_one" (1 - accuracy) for classifiers, "squared_error" '
    "for regressors."
)
_SHOWN = ("best_index_", "multimetric_", "n_splits_", "scorer_")  # of the public search, as scikit-learn's have them
_PRIVATE_ROWS: WeakKeyDictionary[PrivateSearch, Callable[[], Any]] = WeakKeyDictionary()  # no part of a search


def _remember(search: PrivateSearch, rows: Any) -> None:
    """Keep a weak reference to private rows, to warn where they are scored."""
    try:
        _PRIVATE_ROWS[search] = ref(rows)
    except TypeError:  # a list has none
        _PRIVATE_ROWS.pop(search, None)


class Refused(InputError, ValueError):
    """An ``InputError`` that is a ``ValueError``, too, as scikit-learn's estimators raise it."""


class PrivateSearch(WrappedEstimator):
    """Public rows propose, private people decide: a search whose answer private people choose, once, for a price.

    ``fit(X, y, X_val=, y_val=)`` cross-validates candidates on the public rows ``X, y``, trains the finalists on
    them. Then the private people ``X_val, y_val`` choose the best one, and release how much better it is than what you
    have. Either an own search runs on the public rows, unchanged, or candidates are drawn from ``param_distributions``.

    Args:
        estimator: a search, such as ``GridSearchCV``, ``RandomizedSearchCV``, ``HalvingRandomSearchCV`` or
            ``OptunaSearchCV``, not fitted or fitted on public rows only. Or an estimator with ``fit`` and what the loss
            asks for: ``predict_proba`` (log loss, Brier), ``decision_function`` (hinge) or ``predict``. Pipelines too,
            with names such as ``step__param``.
        param_distributions: of an estimator: name -> list of values or frozen ``scipy.stats`` distribution, as
            ``RandomizedSearchCV`` takes them, or a list of such spaces.
        ledger: a :class:`dptune.PrivacyLedger`, or where one is: its path or URL.
        loss: the per-example loss that private people minimise: a name, e.g. "log_loss", or a ``NamedLoss``.
        clip: (low, high): the public range of one loss. "auto": read off the public rows, at no cost. With ``cv=None``
            that of zero-one and Brier losses is known, and others are chosen privately for 5% of mu^2.
        cv: folds of the public rows, as ``RandomizedSearchCV`` takes them; a search that is wrapped has its own. None:
            public rows only train, and private people are asked throughout, as ``method`` says.
        scoring: of the public rows, for ``cv_results_``; default minus the loss. A search that is wrapped has its own.
        default: parameters that you use today, also outside the space; default those of the estimator as it is given.
            They are a candidate, and what the answer is compared with.
        refit: whether the chosen model is trained and kept. A search that is wrapped has its own.
        budget: of the ledger, if it is given as a path and does not exist yet.
        n_trials: number of candidates; default 100, and of a grid all its points. They are drawn at random from
            ``param_distributions``: for a search that learns from its trials wrap one, such as ``OptunaSearchCV``. With
            ``cv=None`` rounded down to whole rounds of the method.
        method: with ``cv=None``: "centred" (the default: two releases a round; any space), "dp-gibo" (one released
            gradient a batch; numbers), "selection" (one choice, without public evidence). Or a
            :class:`dptune.search.Method`, or an Optuna sampler. The sampler receives a noisy value of each trial.
        mu: GDP budget of the search; default what is neither spent nor planned by other runs when it begins.
        report_share: with ``cv=``, instead of ``mu``: the share of mu^2 that the search leaves for :meth:`report`.
        n_jobs: number of processes that train. Private rows stay in this one.
        random_state: a whole number. It seeds the draws, and whatever else has no seed, so that a rerun is the same.
        settings: with ``cv=`` ``public_weight``, ``estimate_share`` and ``finalists`` of :class:`dptune.PublicChoice`;
            else of the method's planner, e.g. ``{"final_share": 0.1}``, and of "selection" ``estimate_share`` and
            ``method``.
        name: of the search in the ledger; default a digest of everything public, training rows included. Under its
            name a search that is complete is returned again, at no cost.
        warm_start: with ``cv=None``, True: with more ``n_trials`` (and ``mu``), both in all, ``fit`` extends the search
            with fewer. That one is found in the ledger, in another process too.
        verbose: 1: ``fit`` prints, once, what the search spends, what it can show and what a person risks. 0: it logs
            that, as ``dptune_sklearn`` at level INFO.

    Attributes:
        best_params_: the chosen parameters; ``best_params_.summary()`` says how they compare with the default.
        best_estimator_: fitted with them on the training rows. It was never asked about a private row.
        cv_results_, n_splits_, scorer_: of the public search.
        best_index_: place of the chosen parameters in ``cv_results_``; None if the default was chosen and is not in it.
        best_score_: their mean public score. With ``cv=None`` minus ``best_loss_``.
        selection_: the :class:`dptune.choice.choosing.Selection`, with ``improvement``; only with ``cv=``.
        search_: the public search that was wrapped, fitted.
        best_loss_: with ``cv=None`` the released :class:`dptune.results.Estimate` of the mean clipped loss; else None.
        released_: all that was released, as columns: ``pandas.DataFrame(search.released_)``. ``sigma`` is the standard
            deviation of the noise in each entry of ``value``. ``params`` is where a value or the estimate was asked
            for; None for other releases.
        name_: of the search in the ledger.

    Guarantee: all of them are functions of the training rows and of releases that the ledger has paid for. They are
    mu-GDP or (epsilon, delta)-DP, as the ledger states it. That is for replacing all validation rows of one unit, with
    n public and a trusted curator (this process).

    Example::

        search = PrivateSearch(RandomizedSearchCV(Ridge(), {"alpha": loguniform(1e-3, 1e3)}), ledger=ledger, loss="mse")
        search.fit(X_train, y_train, X_val=X_val, y_val=y_val).best_params_
    """

    fitted_as = "best_estimator_"

    def __init__(
        self,
        estimator: Any,
        param_distributions: Distributions | None = None,
        *,
        ledger: dptune.PrivacyLedger | str | Path,
        loss: str | NamedLoss,
        clip: tuple[float, float] | str | AutoClip = "auto",
        cv: Any = 5,
        scoring: Any = None,
        default: Mapping[str, Any] | None = None,
        refit: bool = True,
        budget: dptune.Budget | None = None,
        n_trials: int | None = None,
        method: Any = None,
        mu: float | None = None,
        report_share: float | None = None,
        n_jobs: int | None = None,
        random_state: int = 0,
        settings: Mapping[str, Any] | None = None,
        name: str | None = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:  # scikit-learn wants each setting as it is given, under its name
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.ledger = ledger
        self.loss = loss
        self.clip = clip
        self.cv = cv
        self.scoring = scoring
        self.default = default
        self.refit = refit
        self.budget = budget
        self.n_trials = n_trials
        self.method = method
        self.mu = mu
        self.report_share = report_share
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.settings = settings
        self.name = name
        self.warm_start = warm_start
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        groups: npt.ArrayLike | None = None,
        train_groups: npt.ArrayLike | None = None,
        **options: Any,
    ) -> Self:
        """Search; then fit the best parameters on the training rows.

        Args:
            X, y: public training rows (m, d) and answers (m,), read without the private ones. In one table a private
                cell can change what a column of the training rows holds.
            X_val, y_val: private rows (n, d) and answers (n,), of people who are not among the training rows.
            groups: whose a private row is (n,); default a person a row.
            train_groups: whose a training row is (m,), for folds that keep groups together.
            options: of the estimator's ``fit``.

        Raises:
            UnsupportedMetric: the loss is not a mean over people.
            InputError: a setting is not usable, private rows are within reach of the training, or nothing could be
                trained.
            BudgetExhausted: the ledger has not that much left; before a model is trained.
            BudgetMismatch: the ledger protects other people, or the name belongs to another search.
        """
        try:
            return self._fit(X, y, X_val, y_val, groups, train_groups, options)
        except InputError as error:
            if type(error) is not InputError:
                raise
            raise Refused(str(error)).with_traceback(error.__traceback__) from None

    def _fit(self, X: Any, y: Any, X_val: Any, y_val: Any, groups: Any, train_groups: Any, options: Any) -> Self:
        spend = self._strategy()
        _remember(self, X_val)
        training, private = given_halves(X, y, X_val, y_val, groups, train_groups, options)
        estimator = self.estimator.estimator if self.wraps_search else self.estimator
        if self.cv is not None:
            estimator = seeded(estimator, self.random_state)
        models = Models(estimator, training, private, self.loss, self.n_jobs, search=self.estimator)
        self.name_ = self.name or name_of(self.estimator, self._public(), vars(training))
        self._means = stands_for(self.estimator, self.loss, training) if self.name else {}
        ledger = self._ledger()
        refuse_other(ledger, self.name_, self._means)
        clip = self.clip
        if isinstance(clip, str) and clip == "auto":  # of what it is chosen from: a corrected space finds it again
            clip = AutoClip(self.name or name_of(self.estimator, as_loss(self.loss), self.default, vars(training)))
        privatizer = dptune.LossPrivatizer(ledger, clip=clip, **private.people)
        AskedLoss.agreed(self.loss, privatizer, partial(warnings.warn, stacklevel=4))
        boolean("warm_start", self.warm_start)
        result = spend(self, privatizer, models)
        self.best_params_, self.best_loss_ = result.best, result.loss
        self._public_results = dict(result.public or {})
        for name in _SHOWN:
            self.__dict__.pop(name, None)  # of an earlier fit
        self.__dict__.update({name: self._public_results[name] for name in _SHOWN if name in self._public_results})
        if result.model is not None:
            self.best_estimator_ = result.model
        self.released_ = self._released(privatizer)
        if hasattr(result.model, "feature_names_in_"):
            self.feature_names_in_ = result.model.feature_names_in_
        return self

    @property
    def cv_results_(self) -> Mapping[str, Any]:
        """Cross-validation of the public rows, as scikit-learn's searches have it."""
        check_is_fitted(self, "released_")
        if "cv_results_" not in self._public_results:
            raise AttributeError(
                "there are no cv_results_: with cv=None, and in some searches, candidates have no public scores. What "
                "was released is in released_."
            )
        results: Mapping[str, Any] = self._public_results["cv_results_"]
        return results

    @property
    def best_score_(self) -> float:
        """The chosen parameters' mean public score; with ``cv=None`` minus the released loss. Higher is better."""
        check_is_fitted(self, "released_")
        if (score := self._public_results.get("best_score_")) is not None:
            return float(score)
        if self.best_loss_ is None:
            raise AttributeError("no score of the chosen parameters is known, public or released.")
        return -self.best_loss_.value

    @property
    def space(self) -> Distributions:
        """``param_distributions``, empty where there are none."""
        return {} if self.param_distributions is None else self.param_distributions

    @property
    def wraps_search(self) -> bool:
        """Whether ``estimator`` is a search of public rows."""
        return is_search(self.estimator)

    @if_it_has
    def score(self, X: Any, y: Any = None) -> float:
        """The fitted estimator's own score, without noise: of rows that are not private. Warns of those of ``fit``."""
        private_rows = _PRIVATE_ROWS.get(self)
        if private_rows is not None and private_rows() is X:
            warnings.warn(
                "NOT PRIVATE: score(X_val, y_val) is exact, and the ledger does not count it. Publish best_loss_, "
                "selection_ or the statement instead, and score rows that nobody protects.",
                stacklevel=2,
            )
        return float(super().score(X, y))

    def summary(self) -> str:
        """Return what came out: the verdict, what public rows predicted, and the next step."""
        check_is_fitted(self, "released_")
        return str(self.best_params_.summary())

    def report(
        self,
        X: Any,
        y: Any,
        *,
        X_val: Any,
        y_val: Any,
        groups: npt.ArrayLike | None = None,
        model: Any = None,
        **settings: Any,
    ) -> Report:
        """Release a report of ``best_estimator_``, or another model, that may be published; see :func:`dptune.report`.

        Args:
            X, y, X_val, y_val, groups: as for :meth:`fit`.
            model: fitted on public rows; default ``best_estimator_``. After the verdict "keep the default" give the
                default, ``model=usual.fit(X, y)``.
            settings: of :func:`dptune.report`. ``name`` is the search's name and "report" by default. ``mu`` is all
                that is left by default: give the search a ``report_share``, or a ``mu`` that leaves some.

        Raises:
            BudgetExhausted: the ledger has not that much left; before private rows are read.
            InputError: a setting is not usable. Nothing was charged.
        """
        check_is_fitted(self, "best_estimator_")
        with nothing_charged():
            training, private = given_halves(X, y, X_val, y_val, groups, None, {})
            reported = self.best_estimator_ if model is None else model
            refuse_shared(training, private, model=reported)
            privatizer = dptune.LossPrivatizer(self._ledger(), clip=(0.0, 1.0), **private.people)
        settings = {"name": f"{self.name_} report", **settings}
        return dptune.report(reported, privatizer, data=private.rows, public=(X, y), **settings)

    def _strategy(self) -> Strategy:
        """Return how the budget is spent; refuse settings that do not go together."""
        if self.wraps_search:
            for setting in ("param_distributions", "cv", "scoring", "n_trials", "method", "refit"):
                value = getattr(self, setting)
                usual = signature(PrivateSearch).parameters[setting].default
                if value is not usual and value != usual:
                    raise InputError(
                        f"{setting}= is refused with a {type(self.estimator).__name__}, which has its own: give it "
                        "to that search. Nothing was charged."
                    )
            return decide
        if isinstance(self.estimator, PrivateSearch):
            raise InputError("a PrivateSearch cannot be searched by another: give it an estimator or a public search.")
        refuse_unknown(self.space, self.estimator)
        if self.cv is None:
            if self.scoring is not None:
                raise InputError(NOT_PRIVATE_SCORING)
            if self.report_share is not None:
                raise InputError("report_share= goes with cv=; with cv=None give mu=. Nothing was charged.")
            return strategy("centred" if self.method is None else self.method)
        if self.method is not None:
            strategy(self.method)
            raise InputError(
                f"method={shown(self.method)} asks private people throughout, and cv={shown(self.cv)} lets public rows "
                "propose. Leave method= out, or give cv=None. Nothing was charged."
            )
        return decide

    def statement(self, *, delta: float | None = None) -> BudgetStatement:
        """Return the ledger's privacy statement, to print or to publish; see :meth:`dptune.PrivacyLedger.statement`."""
        return self._ledger().statement(delta=delta)

    def _ledger(self) -> dptune.PrivacyLedger:
        """Return the ledger; made anew from its path, it is the same."""
        ledger = self.ledger
        return ledger if isinstance(ledger, dptune.PrivacyLedger) else dptune.PrivacyLedger(ledger, self.budget)

    def _released(self, privatizer: dptune.LossPrivatizer) -> dict[str, list[Any]]:
        """Return what was released under the search's name, in the ledger's order."""
        ledger, auto = privatizer.ledger, privatizer.auto
        charges = [*([] if auto is None else ledger.charges(auto.scope)), *charges_of(ledger, self.name_)]
        descriptions = [charge.description for charge in charges]
        return {
            "release": [charge.key for charge in charges],
            "what": [each["statistic"] for each in descriptions],
            "mu": [each["mu"] for each in descriptions],
            "sigma": [each["sigma"] for each in descriptions],
            "value": [charge.value for charge in charges],
            "private": [charge.private for charge in charges],
            "params": [
                UserSpace(self.space).user(charge.note["parameters"])
                if charge.key == FINAL or charge.key.startswith(VALUE)
                else None
                for charge in charges
            ],
        }

    def _public(self) -> dict[str, Any]:
        """The settings on which answers depend."""
        other = ["estimator", "ledger", "budget", "refit", "n_jobs", "name", "warm_start", "verbose"]
        other += ["n_trials", "mu"] if self.warm_start else []
        return {name: value for name, value in self.get_params(deep=False).items() if name not in other}
