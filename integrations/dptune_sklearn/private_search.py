"""A hyperparameter search whose answer private people choose."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, Self
from weakref import WeakKeyDictionary, ref

import numpy.typing as npt
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GroupKFold
from sklearn.utils.validation import check_is_fitted

import dptune
from dptune._checks import at_least, nothing_charged, shown
from dptune.choice import Report
from dptune.choice.configurations import as_parameters, key_of
from dptune.choice.crossval import public_folds
from dptune.choice.outlook import Outlook, future_people
from dptune.choice.payer import Meaning, check_affordable, ledger_of
from dptune.choice.places import AskLoss
from dptune.choice.proposals import Choice, ChoiceOptions, choose_among
from dptune.errors import InputError
from dptune.losses.named import NamedLoss, as_loss
from dptune_sklearn import public_search
from dptune_sklearn.halves import (
    LARGEST_SEED,
    TrainingRows,
    WrappedEstimator,
    given_halves,
    if_it_has,
    public_half,
    refuse_shared,
)

_logger = logging.getLogger("dptune_sklearn")
_SETTINGS = frozenset(signature(dptune.report).parameters)  # all else that a report is given are options of fit
_SHOWN = ("multimetric_", "n_splits_", "scorer_")  # attributes of the public search, like scikit-learn's
_PRIVATE_ROWS: WeakKeyDictionary[PrivateSearch, Callable[[], Any]] = WeakKeyDictionary()  # not part of a search


def _remember(search: PrivateSearch, rows: Any) -> None:
    """Keep a weak reference to private rows, to warn if they are scored."""
    try:
        _PRIVATE_ROWS[search] = ref(rows)
    except TypeError:  # a list has no weak references
        _PRIVATE_ROWS.pop(search, None)


class Refused(InputError, ValueError):
    """An ``InputError`` that is also a ``ValueError``, like errors of scikit-learn's estimators."""


@contextmanager
def _as_value_errors() -> Iterator[None]:
    try:
        yield
    except InputError as error:
        if type(error) is not InputError:
            raise
        raise Refused(str(error)).with_traceback(error.__traceback__) from None


_HERE = {  # what errors of dptune.report name, and what it is in a search's report
    "held_out=(X, y) in place of public=": "held_out=(X, y), too",
    'fit_params={"sample_weight": w}': "sample_weight=w",
    "public=": "(X, y)",
}


@contextmanager
def _as_named_here() -> Iterator[None]:
    """Replace in errors of :func:`dptune.report` the arguments that a search's report does not have."""
    try:
        yield
    except InputError as error:
        said = str(error)
        for theirs, ours in _HERE.items():
            said = said.replace(theirs, ours)
        error.args = (said,)
        raise


class PrivateSearch(WrappedEstimator):
    """Public rows propose, private people decide: a search whose answer private people choose, once, for a price.

    ``fit(X, y, X_val=, y_val=)`` runs your search on the public rows ``X, y``, unchanged. Its best candidates are
    cross-validated once more, and the finalists are trained on all public rows. Then the private people
    ``X_val, y_val`` choose one of them, and release how much better it is than what you have.

    Args:
        estimator: the search: ``GridSearchCV``, ``RandomizedSearchCV``, a halving search, ``OptunaSearchCV`` or
            ``BayesSearchCV``, not fitted, or fitted on public rows only. It has the estimator, space, folds, scoring
            and ``refit``. The estimator needs what the loss asks for: ``predict_proba`` (log loss, Brier),
            ``decision_function`` (hinge) or ``predict``.
        ledger: a :class:`dptune.PrivacyLedger`, or where one is: its path or URL.
        loss: the per-example loss that private people minimise: a name, e.g. "log_loss", or a ``NamedLoss``.
        clip: (low, high), the public range of one loss; default read off the public rows, at no cost.
        default: parameters that you use today, also outside the space; default those of the search's estimator. They
            are a candidate, and what the answer is compared with.
        budget: of the ledger, if it is given as a path and does not exist yet.
        mu: GDP price of the choice; default what is neither spent nor planned by other runs.
        report_share: instead of ``mu``: the share of mu^2 that the choice leaves for :meth:`report`.
        public_weight, estimate_share, even_if_hopeless: see :class:`dptune.PublicChoice`.
        averages: whether the candidates are averages: of the best 3, 10, 30 and half, and of each one with the best 10.
            Then ``best_estimator_`` is a voting ensemble, and ``best_params_["members"]`` lists its members.
        n_jobs: number of processes that train candidates; default that of the search. Private rows stay in this one.
        random_state: a whole number. It seeds whatever has no seed, so that a rerun proposes the same candidates.
        name: of the choice in the ledger. Default the class of the search and a digest of the candidates and their
            public losses. A choice that is complete is returned again under its name, at no cost.
        verbose: 1: ``fit`` prints, once, what the choice spends, what it can show and what a person risks. 0: it logs
            that, as ``dptune_sklearn`` at level INFO.

    Attributes:
        best_params_: the chosen parameters.
        best_estimator_: trained with them on the training rows. It was never asked about a private row.
        selection_: the :class:`dptune.choice.result.Selection`, with ``improvement`` and ``verdict``.
        search_: the public search, fitted.
        cv_results_, n_splits_, scorer_: of the public search.
        best_index_: place of the chosen parameters in ``cv_results_``; None if the default was chosen and is not in it.
        best_score_: their mean public score; NaN if there is none.
        released_: all that was released, as columns: ``pandas.DataFrame(search.released_)``. ``sigma`` is the standard
            deviation of the noise in each entry of ``value``.
        name_: of the choice in the ledger.

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
        *,
        ledger: dptune.PrivacyLedger | str | Path,
        loss: str | NamedLoss,
        clip: tuple[float, float] | None = None,
        default: Mapping[str, Any] | None = None,
        budget: dptune.Budget | None = None,
        mu: float | None = None,
        report_share: float | None = None,
        public_weight: float = 1.0,
        estimate_share: float | None = None,
        even_if_hopeless: bool = False,
        averages: bool = False,
        n_jobs: int | None = None,
        random_state: int = 0,
        name: str | None = None,
        verbose: int = 0,
    ) -> None:  # scikit-learn needs each setting unchanged, under its name
        self.estimator = estimator
        self.ledger = ledger
        self.loss = loss
        self.clip = clip
        self.default = default
        self.budget = budget
        self.mu = mu
        self.report_share = report_share
        self.public_weight = public_weight
        self.estimate_share = estimate_share
        self.even_if_hopeless = even_if_hopeless
        self.averages = averages
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.name = name
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
        data: dptune.Places | None = None,
        **options: Any,
    ) -> Self:
        """Search on the public rows; then let the private people choose.

        Args:
            X, y: public training rows (m, d) and answers (m,), read without the private ones. In one table a private
                cell can change what a column of the training rows holds.
            X_val, y_val: private rows (n, d) and answers (n,), of people who are not among the training rows.
            groups: whose a private row is (n,); default a person a row.
            train_groups: whose a training row is (m,), for folds that keep groups together.
            data: instead of ``X_val``, ``y_val`` and ``groups``: the places of the private people.
            options: of the estimator's ``fit``.

        Raises:
            UnsupportedMetric: the loss is not a mean over people.
            InputError: a setting is not usable, private rows are within reach of the training, or nothing could be
                trained.
            BudgetExhausted: the ledger has not that much left; before private rows are read.
            BudgetMismatch: the ledger protects other people, or the name belongs to another choice.
        """
        with _as_value_errors():
            public_search.refuse_no_search(self.estimator)
            _remember(self, X_val)
            training, private = given_halves(X, y, X_val, y_val, groups, train_groups, options, data)
            refuse_shared(training, private, **{"the search": self.estimator})
            ledger = self._ledger()
            people = dptune.LossPrivatizer(ledger, clip=self.clip, **private.people)
            return self._found(self._choose(training, people, private.rows), ledger)

    def plan(self, X: Any, y: Any, *, n: int, train_groups: npt.ArrayLike | None = None, **options: Any) -> Outlook:
        """Return what a choice by n private people would cost and can show, to print: a dry run of :meth:`fit`.

        The search runs on the public rows. No private row is read, and nothing is stored in the ledger or charged.

        Args:
            X, y, train_groups, options: as for :meth:`fit`.
            n: number of private people.
        """
        with _as_value_errors():
            public_search.refuse_no_search(self.estimator)
            people = future_people(self._place(), None, n=at_least("n", n, 1), budget=self.budget, clip=self.clip)
            planned: Any = self._choose(public_half(X, y, train_groups, options), people, None)
        outlook: Outlook = planned.outlook
        return outlook

    def _choose(self, training: TrainingRows, people: Any, rows: Any) -> Choice:
        """Search on the public rows, and let people choose; without private rows only plan the choice."""
        default = None if self.default is None else as_parameters(self.default)
        seed, loss = at_least("random_state", self.random_state, 0, LARGEST_SEED), as_loss(self.loss)
        if type(self.verbose) is not bool:
            at_least("verbose", self.verbose, 0)
        about = Meaning({}, public_search.settings_of(self.estimator))
        check_affordable(people.ledger, self.name, self.mu, about)
        if isinstance(rows, dptune.Rows) and hasattr(training.X, "iloc"):
            with nothing_charged():
                AskLoss(loss).open(rows, people.rows, "")  # refuses a column of a data frame before the search runs
        models = public_search.PublicModels.of(self.estimator, training, loss, self.averages, self.n_jobs, seed)
        self.search_ = public_search.run(self.estimator, training, seed)
        proposals = public_search.proposals_of(self.search_, self.estimator.estimator, default)
        asked = ChoiceOptions(
            data=rows, public=(training.X, training.y), loss=self.loss, ledger=people, name=self.name, mu=self.mu,
            public_weight=self.public_weight,
            default=None if default is None else proposals.usual, estimate_share=self.estimate_share,
            report_share=self.report_share, even_if_hopeless=self.even_if_hopeless, dry_run=rows is None,
            averages=self.averages,
        )  # fmt: skip
        warn = partial(warnings.warn, category=FitFailedWarning, stacklevel=5)
        say = (lambda said: None) if rows is None else self._say
        return choose_among(proposals, models, asked, say, warn)

    def _say(self, announcement: str) -> None:
        """Print if verbose, else log, the cost of the choice and what it can show, before anything is charged."""
        if self.verbose:
            print(announcement)  # noqa: T201 - as scikit-learn's searches do
        else:
            _logger.info(announcement)

    def _found(self, choice: Choice, ledger: dptune.PrivacyLedger) -> Self:
        """Store the results like scikit-learn's searches."""
        self.name_, self.selection_, self.best_params_ = choice.name, choice.selection, dict(choice.params)
        self._summary = choice.summary()
        self._found_in = self.ledger, ledger.url.database if ledger.url.drivername.startswith("sqlite") else None
        self.cv_results_ = public_search.results_of(self.search_)
        places = {key_of(each): i for i, each in enumerate(self.cv_results_["params"])}
        self.best_index_ = places.get(key_of(self.best_params_))
        scores = public_search.scores_of(self.search_)
        self.best_score_ = float("nan") if self.best_index_ is None else float(scores[self.best_index_])
        for name in (*_SHOWN, "best_estimator_", "feature_names_in_"):
            self.__dict__.pop(name, None)  # left by an earlier fit
        self.__dict__.update({name: vars(self.search_)[name] for name in _SHOWN if name in vars(self.search_)})
        if getattr(self.estimator, "refit", True):
            self.best_estimator_ = choice.model
            if hasattr(choice.model, "feature_names_in_"):
                self.feature_names_in_ = choice.model.feature_names_in_
        charges = ledger.charges(self.name_)
        self.released_ = {
            "release": [charge.key for charge in charges],
            "what": [charge.description["statistic"] for charge in charges],
            "mu": [charge.description["mu"] for charge in charges],
            "sigma": [charge.description["sigma"] for charge in charges],
            "value": [charge.value for charge in charges],
            "private": [charge.private for charge in charges],
        }
        return self

    @if_it_has
    def score(self, X: Any, y: Any = None) -> float:
        """The fitted estimator's own score, without noise: of rows that are not private. Warns of those of ``fit``."""
        private_rows = _PRIVATE_ROWS.get(self)
        if private_rows is not None and private_rows() is X:
            warnings.warn(
                "NOT PRIVATE: score(X_val, y_val) is exact, and the ledger does not count it. Publish selection_ or "
                "the statement instead, and score rows that nobody protects.",
                stacklevel=2,
            )
        return float(super().score(X, y))

    def summary(self) -> str:
        """Return what came out: the verdict, what public rows predicted, and the next step."""
        check_is_fitted(self, "released_")
        return self._summary

    def report(
        self,
        X: Any,
        y: Any,
        *,
        X_val: Any = None,
        y_val: Any = None,
        groups: npt.ArrayLike | None = None,
        train_groups: npt.ArrayLike | None = None,
        data: dptune.Places | None = None,
        model: Any = None,
        **settings: Any,
    ) -> Report:
        """Release a report of ``best_estimator_``, or another model, that may be published; see :func:`dptune.report`.

        Args:
            X, y, X_val, y_val, groups, data: as for :meth:`fit`. With ``held_out=`` in the settings, public rows that
                did not train the model take the place of X and y.
            train_groups: whose a training row is (m,): its folds keep groups together, by ``GroupKFold(5)`` or ``cv=``.
            model: fitted on public rows; default ``best_estimator_``. After the verdict "keep the default" give the
                default, ``model=usual.fit(X, y)``.
            settings: of :func:`dptune.report`, and options of the estimator's ``fit``, with which the model was
                trained, such as ``sample_weight``. ``name`` is the search's name and "report" by default. ``mu`` is
                all that is left by default: give the search a ``report_share``, or a ``mu`` that leaves some.

        Raises:
            BudgetExhausted: the ledger has not that much left; before private rows are read.
            InputError: a setting is not usable. Nothing was charged.
        """
        check_is_fitted(self, "name_")
        if model is None and not hasattr(self, "best_estimator_"):
            raise InputError(
                "the search has refit=False, so it has no best_estimator_: give model=, an estimator with best_params_ "
                "that was trained on X and y. Nothing was charged."
            )
        options = settings.pop("fit_params", None)
        options = {} if options is None else options
        if not isinstance(options, Mapping):
            raise InputError(
                f"fit_params= must be a dict of options of fit; got {shown(options)}. Nothing was charged."
            )
        options = {**options} | {option: settings.pop(option) for option in [*settings] if option not in _SETTINGS}
        with nothing_charged(), _as_named_here():
            training, private = given_halves(X, y, X_val, y_val, groups, None, options, data)
            reported = self.best_estimator_ if model is None else model
            refuse_shared(training, private, model=reported)
            privatizer = dptune.LossPrivatizer(self._ledger_of_fit(), clip=(0.0, 1.0), **private.people)
            cv = settings.get("cv", None if train_groups is None else GroupKFold(5))
            if train_groups is not None or hasattr(cv, "split"):
                how: Any = {"groups": train_groups, "remedy": public_search.TRAIN_GROUPS}
                settings["cv"] = public_folds(X, y, cv=cv, loss=self.loss, **how)
        settings = {"name": f"{self.name_} report", "fit_params": options or None, **settings}
        public = None if "held_out" in settings else (X, y)
        with _as_named_here():
            return dptune.report(reported, privatizer, data=private.rows, public=public, **settings)

    def statement(self, *, delta: float | None = None) -> dptune.Statement:
        """Return the ledger's privacy statement, to print or to publish; see :meth:`dptune.PrivacyLedger.statement`."""
        return self._ledger_of_fit().statement(delta=delta)

    def _place(self) -> dptune.PrivacyLedger | str | Path:
        """Return the ledger as it was given, or the file where the last fit has found it, if it is still there."""
        if not isinstance(self.ledger, dptune.PrivacyLedger | str | Path):
            raise InputError(
                f"ledger must be a PrivacyLedger, or its path or URL; got {type(self.ledger).__name__}. The people are "
                "those of X_val= and groups=. Nothing was charged."
            )
        file = self._file() if isinstance(self.ledger, str | Path) else None
        return self.ledger if file is None or not Path(file).exists() else file

    def _file(self) -> str | None:
        """Return the file in which the last fit has found this ledger; None before it, and of one on a server."""
        given, file = self.__dict__.get("_found_in", (None, None))
        return file if given == self.ledger else None

    def _ledger(self) -> dptune.PrivacyLedger:
        """Return the ledger, reopened from its path."""
        return ledger_of(self._place(), self.budget)

    def _ledger_of_fit(self) -> dptune.PrivacyLedger:
        """Return the ledger of a fitted search, in whose place none is made; else the ledger."""
        return self._ledger() if self._file() is None else ledger_of(self._place())
