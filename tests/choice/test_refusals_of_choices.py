"""A choice refuses in whole sentences, which name the right argument, number and remedy."""

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import dptune
from choice_tools import PEOPLE, PRIVATE, PUBLIC, PUBLIC_ROWS, Call, chosen, proposed
from dptune.choice.averages import check_averages
from dptune.choice.configurations import as_parameters
from dptune.choice.crossval import cross_validated_answers, kept_folds, of_rows, refuse_unseeded
from dptune.choice.payer import ledger_of, privatizer_of, rows_of
from dptune.choice.public_training import HeldOut, PublicTraining
from dptune.choice.recorded import recorded_choices
from dptune.choice.workers import NoCheckpoint, TrainingFailed, workers_of
from dptune.losses.named import as_loss

FOLD = [(np.arange(9), np.arange(9, 20))]
LOG_LOSS = as_loss("log_loss")


def prepared(p: dptune.LossPrivatizer, **given: Any) -> dptune.PublicChoice:
    return dptune.PublicChoice(PUBLIC, p, **{"name": "x", "default_place": 0, **given})


def fails(p: dptune.LossPrivatizer, *places: int, drop: int = 0) -> object:
    """A choice whose candidates at these places could not be trained; the last ones are not mentioned."""
    choice = prepared(p)
    asked = choice.to_train[: len(choice.to_train) - drop]
    return choice.choose({j: None if j in places else PRIVATE[j] for j in asked})


def select(candidates: Any = PRIVATE, **given: Any) -> Call:
    return lambda p: dptune.select(candidates, p.ledger, **{"clip": (0.0, 3.0), **given})


CHARGED = "Nothing was charged."
FLAT, ERROR = np.ones(20), ValueError("no")
TWO_NEEDED = "a choice needs two configurations or more"
NEEDS_ROWS = (
    "the number of private rows is unknown. Give n= where data= is a function that loads them, or data=(X, y), "
)
NEEDS_ROWS += f"dptune.Rows(X, y, like=...) or dptune.Places. {CHARGED}"
HELD = "losses have shape (9, 4), (candidates, rows): 4 people would choose among 9. If people are in rows, give "
HELD += f"losses.T, and of private rows X give data=(X, y). Else give n=4. {CHARGED}"
PLACES = dptune.Places([dptune.Place("a", PUBLIC_ROWS)])
TRAIN = "train must be a function (configuration, X, y) -> fitted model, or an estimator such as SVC(); got None"
options: Any = SimpleNamespace(loss="log_loss", public=None, averages=False, public_losses=None, cv=5)

CASES: dict[str, tuple[Call, str]] = {
    "averages of given losses": (
        lambda p: check_averages(LOG_LOSS, given=True),
        f"averages=True needs what models predict for public rows: give cv= instead of public_losses=. {CHARGED}",
    ),
    "averages of margins": (
        lambda p: check_averages(as_loss("hinge"), given=False),
        "averages=True needs probabilities or numbers, and hinge_loss is a loss of decision values of unlike scales. "
        f"Give log_loss or brier, or omit averages=. {CHARGED}",
    ),
    "a function of places": (
        select(len, n=PEOPLE),
        "candidates may be a function only with public_losses=, which says how many there are.",
    ),
    "a loss and own losses": (
        select(loss="log_loss"),
        "loss='log_loss' is asked of models about data=(X, y), which is missing. With losses of your own omit loss=, "
        f"and give clip= if they have a range. {CHARGED}",
    ),
    "a loss, own losses and public ones": (
        select(loss="log_loss", public_losses=PUBLIC, n=PEOPLE, clip=None),
        "loss='log_loss' is asked of models about data=(X, y), which is missing. With losses of your own omit loss=, "
        f"and give clip= if they have a range. {CHARGED}",
    ),
    "losses by name": (
        select(dict(enumerate(PRIVATE))),
        f"candidates must have places; got a dict of length {len(PRIVATE)}. Give list(candidates.values()): the answer "
        f"is a place in it. {CHARGED}",
    ),
    "losses in a data frame": (
        select(pd.DataFrame(PRIVATE)),
        f"candidates must have places; got a DataFrame of shape {PRIVATE.shape}. Give an array with a row for each "
        f"candidate: candidates.to_numpy(), or its .T if these are columns. {CHARGED}",
    ),
    "a loss of each person": (select(np.ones(5), n=5), "losses must be (candidates, examples); got shape (5,)."),
    "one model": (
        select([PRIVATE[0], None, None], n=PEOPLE),
        "1 of 3 candidates could be evaluated; a choice needs at least two. To describe one model use dptune.report. "
        + CHARGED,
    ),
    "a default that failed": (
        select([PRIVATE[0], PRIVATE[1], None], n=PEOPLE, default_place=2),
        "candidate 2, the default_place=, could not be evaluated, so it cannot be kept.",
    ),
    "options of public rows": (
        select(finalists=3, public_weight=0.5, report_share=0.1, even_if_hopeless=True),
        "without public_losses= omit report_share= and finalists= and public_weight= and even_if_hopeless=: mu= says "
        f"what the choice costs. {CHARGED}",
    ),
    "folds that were read": (
        lambda p: kept_folds(iter([])),
        f"cv= is a generator that has yielded its folds already: give list(...) of it. {CHARGED}",
    ),
    "a training without a seed": (
        lambda p: refuse_unseeded(FLAT, 2 * FLAT),
        "a configuration that was cross-validated twice has different public losses: its training has no seed. After a "
        "crash no rerun could find the choice and its answer. Set the seed of the model and of the rows that it draws "
        f"(random_state=, torch.manual_seed), or give public_losses=. {CHARGED}",
    ),
    "no loss is finite": (
        lambda p: of_rows(2, [(np.arange(2), np.array([np.nan, np.inf]))], LOG_LOSS),
        "no public row has a finite log_loss: check the labels and predictions of the models.",
    ),
    "a model without probabilities": (
        lambda p: cross_validated_answers(SVC().fit, *PUBLIC_ROWS, FOLD, LOG_LOSS, {}),
        "log_loss needs predict_proba, which this SVC does not have. Give CalibratedClassifierCV(model), which has "
        f'probabilities, or loss="zero_one"; of two labels "hinge". {CHARGED}',
    ),
    "a model that is a number": (
        lambda p: cross_validated_answers(lambda X, y: 0.5, *PUBLIC_ROWS, FOLD, LOG_LOSS, {}),
        f"the training must return the fitted model; got a float. {CHARGED}",
    ),
    "a model that is not fitted": (
        lambda p: cross_validated_answers(
            lambda X, y: LogisticRegression(), *PUBLIC_ROWS, FOLD, LOG_LOSS, {}
        ),
        f"the training returned a LogisticRegression that is not fitted: return model.fit(X, y). {CHARGED}",
    ),
    "a ledger in place of people": (
        lambda p: prepared(p.ledger),
        "a LossPrivatizer must come after the losses; got PrivacyLedger.",
    ),
    "one person": (
        lambda p: prepared(dptune.LossPrivatizer(p.ledger, n=1)),
        f"a choice needs two private people or more; got 1. {CHARGED}",
    ),
    "a price and a rest": (
        lambda p: prepared(p, mu=0.5, report_share=0.1),
        f"mu= says already how much the choice leaves: give mu= or report_share=. {CHARGED}",
    ),
    "one finalist": (lambda p: prepared(p, finalists=1), "finalists must be a whole number >= 2; got 1."),
    "a verdict that cannot come": (
        lambda p: prepared(p, mu=0.01, estimate_share=0.5),
        "The estimate shows an improvement over the default of 3.66 in 95% of runs, and the largest that can be is "
        "0.288, so expect no verdict. What helps: about 1020 people or a larger budget. Or give estimate_share=0 "
        f"to choose without a verdict, or even_if_hopeless=True. {CHARGED}",
    ),
    "a budget that was raised": (
        lambda p: (choice := prepared(p), p.ledger.raise_budget(dptune.Budget.gdp(3.0)), chosen(choice)),
        "the ledger's budget has changed since this choice was planned: another run was charged, or the budget was "
        f"raised. Plan it again, or give this choice another name= if it was charged. {CHARGED}",
    ),
    "a name that was planned and not charged": (
        lambda p: (prepared(p, mu=0.5)._bind(), prepared(p, mu=0.25)),
        "the name 'x' belongs to another choice: it differs in mu (0.5, now 0.25). Give this choice another name= (it "
        f"is then a new choice, and is charged again), or what it had. {CHARGED}",
    ),
    "an answer that is not recorded": (
        lambda p: prepared(p)._selection(),
        "the choice 'x' was charged, and its answer is not recorded: call choose again.",
    ),
    "the default was not trained": (
        lambda p: fails(p, 0),
        "candidate 0, the default, could not be trained, so nothing can be compared with it. Correct it, or omit "
        f"default_place=. {CHARGED}",
    ),
    "losses that are missing": (
        lambda p: fails(p, drop=3),
        "losses of the candidates [3, 2, 0] are missing; give None for one that failed.",
    ),
    "one finalist is left": (
        lambda p: fails(p, *range(1, 12)),
        "1 of 11 finalists could be trained; two are needed.",
    ),
    "losses without a range": (
        lambda p: dptune.PublicChoice(np.where(np.arange(20) == 3, np.nan, np.ones((3, 20))), p, name="x"),
        "every candidate has a public loss that is not finite. Give clip=(low, high).",
    ),
    "people given twice": (
        lambda p: privatizer_of(p, None, n=3, clip=(0, 1)),
        f"n= and clip= cannot be given with a LossPrivatizer, which has its own. {CHARGED}",
    ),
    "other places": (
        lambda p: privatizer_of(p, PLACES),
        f"data= must be the dptune.Places of this LossPrivatizer. {CHARGED}",
    ),
    "a budget for a ledger": (
        lambda p: ledger_of(p.ledger, dptune.Budget.gdp(1.0)),
        f"budget= is for the path of a new ledger; this ledger has its own. {CHARGED}",
    ),
    "people in rows": (lambda p: rows_of(np.ones((9, 4))), HELD),
    "an unknown number of rows": (lambda p: rows_of(len), NEEDS_ROWS),
    "a place that is pickled": (
        lambda p: pickle.dumps(PLACES.places[0]),
        "a Place holds private rows: it is not copied or pickled. Make it where its rows are.",
    ),
    "a default without names": (
        lambda p: as_parameters([1.0]),
        "default must be a dict of names and values; got list.",
    ),
    "one configuration": (
        proposed([FLAT]), f"{TWO_NEEDED}; got 1. 2 left. One needs no private rows. {CHARGED}",
    ),
    "one candidate": (proposed([FLAT] * 3, candidates=1), "candidates must be a whole number >= 2; got 1."),
    "losses of what was searched": (
        proposed([FLAT] * 3, public_losses=np.ones((4, 20))),
        "public_losses= must be (3, N), one row for each configuration that was searched, the default= among them; got "
        f"a ndarray of shape (4, 20). {CHARGED}",
    ),
    "a default that was not searched": (
        proposed([FLAT] * 3, {"a": 7}, public_losses=np.ones((3, 20))),
        "public_losses= must be (3, N), one row for each configuration that was searched, the default= among them; got "
        f"a ndarray of shape (3, 20). {CHARGED}",
    ),
    "a default that fails": (
        proposed([FLAT, FLAT, ERROR], {"a": 2}),
        f"the default= failed on public rows. {CHARGED} ValueError: no",
    ),
    "a default without a checkpoint": (
        proposed([FLAT, NoCheckpoint("none"), FLAT], {"a": 1}),
        f"no trial with a checkpoint has the default=. {CHARGED} none",
    ),
    "one that does not fail": (
        proposed([FLAT, ERROR, TrainingFailed("KeyError: b")]),
        f"{TWO_NEEDED}. {CHARGED} 2 of 3 configurations failed on public rows and drop out: ValueError: no",
    ),
    "other public rows": (
        proposed([FLAT[:15], FLAT, FLAT]),
        f"the configurations have public losses of [15, 20] rows; all must be of the same rows. {CHARGED}",
    ),
    "a training without rows": (
        lambda p: PublicTraining(len, options),
        f"train needs public=(X, y), the public rows. {CHARGED}",
    ),
    "checkpoints without rows": (
        lambda p: HeldOut(len, options),
        f"load needs public=(X, y), public rows on which no trial was trained. {CHARGED}",
    ),
    "no workers": (
        lambda p: workers_of(0),
        f"n_jobs must be a number of workers, -1 for all cores, or None; got 0. {CHARGED}",
    ),
    "a ledger without a choice": (
        lambda p: recorded_choices(p.ledger),
        "the ledger of 'mine' has no choice. Ledgers that dptune.select or a front end's choose has charged can be "
        "compared.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_refusal_of_a_choice_is_read_word_by_word(case: str, fast_path: Path) -> None:
    call, message = CASES[case]
    ledger = dptune.PrivacyLedger(fast_path / "ledger.db", dptune.Budget.gdp(2.0), dataset="mine")
    p = dptune.LossPrivatizer(ledger, n=PEOPLE)
    with pytest.raises(dptune.DptuneError) as told:
        call(p)
    assert str(told.value) == message
    assert ledger.spent() == 0
