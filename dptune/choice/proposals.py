"""Configurations that a public search proposes, put to private people once: what the front ends share.

A front end says how public rows are lost under a configuration, how a model is trained at it, and how such work is
spread. The rest is here: cross-validated losses, finalists, their training, and one private choice.

Guarantee: that of :class:`dptune.PublicChoice`. Candidates, their order, finalists and everything that is shown before
the choice are functions of public rows. Private rows are read in this process only, after the plan is fixed, and the
model that is returned was never asked about them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

import dptune
from dptune.choice.choosing import private_losses
from dptune.errors import InputError, ObjectiveRefused
from dptune.losses.models import BoosterModel
from dptune.losses.named import NamedLoss, as_loss
from dptune.losses.user_function import Data, Function, losses_function
from dptune.privacy.privatizer import Losses, LossPrivatizer
from dptune.search.agreement import check_start
from dptune.search.answer import listed
from dptune.search.request import left_in_words

T = TypeVar("T")
R = TypeVar("R")
Parameters = Mapping[str, Any]


class Each(Protocol):
    """Calls a function on every item, in whatever processes; an item whose call raised has its exception instead."""

    def __call__(self, function: Callable[[T], R], items: Sequence[T], what: str) -> list[R | Exception]:
        """Return the results in the order of the items; ``what`` names the work for a progress bar."""


@dataclass(frozen=True)
class Choice:
    """The configuration that private people chose.

    Attributes:
        params: the chosen configuration.
        selection: what was released: the choice, and the paired estimate against the default; public.
        model: trained at ``params`` on all public rows. It was never asked about a private row.
        left: what is left of the ledger's budget, in words.
    """

    params: Parameters
    selection: Any
    model: Any = field(repr=False)
    left: str = ""

    def summary(self) -> str:
        """Return the verdict, the parameters, what public rows predicted, the budget left and the next step."""
        return str(self.selection.summary(listed(self.params) or "the only configuration", self.left))

    def __str__(self) -> str:
        return self.summary()


def privatizer_of(
    privatizer: LossPrivatizer | None, ledger: dptune.PrivacyLedger | None, n: int | None, data: object
) -> LossPrivatizer:
    """Return the privatizer that a user gave, or one of the ledger with one person for each private row.

    Raises:
        InputError: both or neither were given, or the number of people is not known.
    """
    if privatizer is not None and ledger is None:
        if n is not None:
            raise InputError("n= goes with ledger=; the privatizer knows its number of people. Nothing was charged.")
        return privatizer
    if ledger is None or privatizer is not None:
        raise InputError("give ledger=, or privatizer= where people have several rows; not both. Nothing was charged.")
    if n is None and callable(data):
        raise InputError("data= is a function that loads the private rows: give n=, their number, which is public.")
    answers = getattr(data, "y", None) if not isinstance(data, tuple | list) else data[-1] if len(data) == 2 else None
    if n is None and not hasattr(answers, "__len__"):
        raise InputError("data= must be (X, y), dptune.Rows(X, y, like=...), or a function that returns them.")
    return LossPrivatizer(ledger, n=len(answers) if n is None else n)  # type: ignore[arg-type]


def distinct(configurations: Sequence[Parameters], default: Parameters | None) -> tuple[list[Parameters], int | None]:
    """Return configurations without repetitions, the default one among them, and its place."""
    found = {key(each): each for each in configurations}
    if default is None:
        return list(found.values()), None
    if not isinstance(default, Mapping):
        raise InputError(f"default must be a dict of names and values; got {type(default).__name__}.")
    found.setdefault(key(default), default)
    return list(found.values()), list(found).index(key(default))


def key(parameters: Parameters) -> str:
    """Return a text that equal configurations share."""
    return json.dumps(dict(parameters), sort_keys=True, default=repr)


def is_estimator(train: object) -> bool:
    """Whether it is an estimator of scikit-learn's kind, whose parameters are searched."""
    return all(hasattr(train, method) for method in ("fit", "get_params", "set_params"))


def trained_at(estimator: Any, parameters: Parameters, X: Any, y: Any) -> Any:
    """Return a clone of the estimator with these parameters, fitted."""
    from sklearn.base import clone

    return clone(estimator).set_params(**parameters).fit(X, y)


def as_model(model: Any, loss: str | NamedLoss, X: Any) -> Any:
    """Return the model; a native booster of LightGBM or XGBoost as a ``BoosterModel``, with its labels 0, 1, ...

    Args:
        X: public rows.
    """
    if not (hasattr(model, "inplace_predict") or hasattr(model, "current_iteration")):
        return model
    if not as_loss(loss).uses_labels:
        return BoosterModel(model)
    shape = np.shape(BoosterModel(model).predict(X[:2]))
    return BoosterModel(model, labels=list(range(2 if len(shape) == 1 else shape[1])))


def choose_among(
    candidates: Sequence[Parameters],
    *,
    public_losses: Callable[[int], npt.ArrayLike],
    train: Callable[[int], Any],
    user_function: Function,
    privatizer: LossPrivatizer,
    name: str,
    loss: str | NamedLoss,
    data: Data | Callable[[], Data],
    default: int | None,
    each: Each,
    say: Callable[[str], None],
    warn: Callable[[str], None],
    **settings: Any,
) -> Choice:
    """Cross-validate the candidates, train the finalists, and let private people choose.

    Args:
        candidates: configurations, the best by the public search first.
        public_losses: place of a candidate -> losses of the public rows (N,), each without the row's fold.
        train: place of a candidate -> model, trained on all public rows.
        user_function: what the user gave; it must not reach the private rows.
        name: of the choice in the ledger.
        data: (X, y) of the private rows, ``dptune.Rows``, or a function that loads them.
        default: place of the configuration that the verdict compares with.
        each: spreads the work.
        say, warn: show public lines.
        settings: of :class:`dptune.PublicChoice`.

    Raises:
        InputError: fewer than two candidates can be trained, or the default cannot; nothing was charged.
        BudgetExhausted: the ledger has not the price left; before a model is trained.
        BudgetMismatch: the name belongs to a choice with other public losses or settings.
    """
    if len(candidates) < 2:
        raise InputError(
            f"a choice needs two configurations or more; got {len(candidates)}. One needs no private rows. "
            "Nothing was charged."
        )
    asks: Any = losses_function(functools.partial(_as_it_is, user_function), loss, data, rows=privatizer.rows)
    try:
        asks.train(None)  # loads the private rows, and refuses a user's function that reaches them, before it is called
    except ObjectiveRefused as error:
        raise InputError(str(error)) from None
    if privatizer.ledger.count(name) == 0:
        check_start(privatizer.ledger, name, settings.get("mu"))
    found = each(public_losses, range(len(candidates)), "cross-validate on public rows")
    public = _matrix(found, default, warn)
    choice = dptune.PublicChoice(public, privatizer, name=name, default=default, loss=loss, **settings)
    say(str(choice.outlook))
    models = _trained(choice.to_train, train, each, warn)
    selection = choice.choose({place: _asked(asks, model, privatizer.rows) for place, model in models.items()})
    if selection.index not in models:  # the ledger has the answer
        models = _trained((selection.index,), train, each, warn)
    model = models[selection.index]
    if isinstance(model, Exception):
        raise model
    return Choice(dict(candidates[selection.index]), selection, model, left_in_words(privatizer.ledger))


def _trained(
    places: Sequence[int], train: Callable[[int], Any], each: Each, warn: Callable[[str], None]
) -> dict[int, Any]:
    """Return the models of the candidates at these places; of one that failed the exception."""
    trained = each(train, places, "train finalists on all public rows") if places else []
    if failed := [one for one in trained if isinstance(one, Exception)]:
        warn(f"{len(failed)} of {len(trained)} finalists could not be trained and drop out: {_told(failed[0])}")
    return dict(zip(places, trained, strict=True))


def _as_it_is(user_function: Function, model: Any) -> Any:
    """Return the model; the user's function is here for what it can reach."""
    return model


def _asked(asks: Function, model: Any, rows: int) -> Losses | None:
    """Return the private losses of a model; None where its training failed, which is public."""
    return None if isinstance(model, Exception) else private_losses(asks, model, rows)


def _matrix(found: Sequence[Any], default: int | None, warn: Callable[[str], None]) -> npt.NDArray[np.float64]:
    """Return the public losses (m, N); NaN in the rows of candidates that failed."""
    failed = {place: each for place, each in enumerate(found) if isinstance(each, Exception)}
    if default in failed:
        raise InputError(f"the default= could not be trained on public rows: {_told(failed[default])}")
    if len(found) - len(failed) < 2:
        raise InputError(
            f"{len(failed)} of {len(found)} configurations could not be trained on public rows, and a choice needs two "
            f"or more. Nothing was charged. The first failed with: {_told(next(iter(failed.values())))}"
        )
    if failed:
        warn(
            f"{len(failed)} of {len(found)} configurations could not be trained on public rows and drop out: "
            f"{_told(next(iter(failed.values())))}"
        )
    rows = {len(np.asarray(each)) for place, each in enumerate(found) if place not in failed}
    if len(rows) > 1:
        raise InputError(
            f"the configurations have public losses of {sorted(rows)} rows; all must be of the same rows. "
            "Nothing was charged."
        )
    public = np.full((len(found), rows.pop()), np.nan)
    for place, each in enumerate(found):
        if place not in failed:
            public[place] = each
    return public


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
