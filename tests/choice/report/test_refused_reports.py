"""A refused report says in full what is wrong with which argument, and which settings differ under a name."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import SVC

from dptune import InputError, LossPrivatizer, Place, Places
from dptune.choice.report.plan import groups_of
from dptune.choice.report.reporting import stored_report
from dptune.errors import BudgetExhausted, BudgetMismatch
from report_tools import MODEL, PUBLIC, privatizer, report

NUMBERS = PUBLIC[0], PUBLIC[0].sum(axis=1)
RIDGE = Ridge().fit(*NUMBERS)
INSTEAD = (
    "Give held_out=(X, y) in place of public=: public rows that did not train the model; its own scores are used. Or "
    "give scores=, what models that were trained in the same way without a public row answer for it."
)


class Odd:
    """A model with these attributes, which scikit-learn cannot train."""

    n_features_in_ = 3

    def __init__(self, **has: Any) -> None:
        vars(self).update({"classes_": np.array([0, 1]), **has})


class Needy(LogisticRegression):
    def fit(self, X: Any, y: Any, extra: Any = None) -> Any:
        if extra is None:
            raise ValueError("extra is missing.")
        return super().fit(X, y)


def of(predict_proba: Any) -> dict[str, Any]:
    return {"model": Odd(predict_proba=predict_proba)}


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "no public rows": (
        {"public": None},
        "give public=(X_train, y_train), the rows that trained the model, or held_out=(X, y), public rows that did "
        "not: one of them.",
    ),
    "held-out rows and scores": (
        {"held_out": PUBLIC, "scores": np.ones(300)},
        "held_out= rows have the model's own scores: omit scores=.",
    ),
    "19 rows": ({"held_out": (PUBLIC[0][:19], PUBLIC[1][:19])}, "held_out= needs 20 rows at least; got 19."),
    "one label": ({"model": Odd(classes_=[3])}, "this model knows one label only, [3]: there is nothing to report."),
    "no method": ({"model": Odd()}, "this Odd has neither predict_proba nor predict."),
    "positive of a regression": (
        {"model": RIDGE, "positive": 1},
        "positive= goes with a classifier of two labels; this model has no classes_.",
    ),
    "threshold of a regression": (
        {"model": RIDGE, "public": NUMBERS, "threshold": 0.0},
        "threshold= goes with scores of a classifier of two labels.",
    ),
    "a threshold below 0": (
        {"threshold": -0.1},
        "threshold= is a probability here: it must lie in [0, 1); got -0.1.",
    ),
    "a model that fails": (
        of(lambda X: 1 / 0),
        "the model does not answer rows of public= (ZeroDivisionError: division by zero).",
    ),
    "answers that are no numbers": (
        of(lambda X: np.full((len(X), 2), np.nan)),
        "the model on public=: scores must be finite numbers.",
    ),
    "predictions that are no numbers": (
        {"model": Odd(classes_=None, predict=lambda X: X[:, 0] * np.nan), "held_out": NUMBERS},
        "the model on held_out=: answers and predictions must be finite numbers.",
    ),
    "scores that are no numbers": ({"scores": np.full((300, 2), np.inf)}, "scores=: scores must be finite numbers."),
    "probabilities beyond 1": (
        of(lambda X: np.tile([-0.25, 1.5], (len(X), 1))),
        "the model on public=: probabilities must lie in [0, 1]; got 1.5 to 1.5. The model is asked for predict_proba. "
        "A model without it is asked for decision_function, whose values may be any numbers.",
    ),
    "rows of one label": (
        {"held_out": (PUBLIC[0][:30], np.ones(30, int))},
        "held_out= has one label only, so nothing can be compared.",
    ),
    "equal answers": (
        {"model": RIDGE, "held_out": (PUBLIC[0], np.ones(300))},
        "the public rows have equal answers, or residuals of 0 only.",
    ),
    "no estimator": (of(MODEL.predict_proba), f"scikit-learn cannot train this Odd again. {INSTEAD}"),
    "a fit that fails": (
        {"model": Needy().fit(*PUBLIC, extra=1)},
        f"Needy cannot be trained again on public=: extra is missing. {INSTEAD}",
    ),
    "a frozen model": (
        {"model": FrozenEstimator(MODEL)},
        f"this FrozenEstimator is or holds a FrozenEstimator: fit() trains nothing. {INSTEAD}",
    ),
}


@pytest.fixture(scope="module")
def unpaid(tmp_path_factory: pytest.TempPathFactory) -> LossPrivatizer:
    return privatizer(tmp_path_factory.mktemp("unpaid"))


@pytest.mark.parametrize("case", CASES)
def test_a_refused_report_says_in_full_what_is_wrong(unpaid: LossPrivatizer, case: str) -> None:
    settings, message = CASES[case]
    with pytest.raises(InputError) as refused:
        report(unpaid, **settings)
    assert str(refused.value) == f"{message} Nothing was charged."
    assert (unpaid.ledger.charges(), unpaid.ledger.fact("report", "plan")) == ([], None)


def test_another_model_is_refused_by_its_distance_and_that_of_refits(unpaid: LossPrivatizer) -> None:
    other = LogisticRegression(C=1e-3).fit(*PUBLIC)
    far = np.sqrt(np.mean((other.predict_proba(PUBLIC[0]) - MODEL.predict_proba(PUBLIC[0]))[:, 1] ** 2))
    with pytest.raises(InputError) as refused:
        report(unpaid, other.set_params(C=1.0))
    usual = r"\S*e-1\d|0"
    words = "Other rows, settings or weights, partial_fit, a warm start, early stopping or a checkpoint do that."
    words += ' If fit() had options, give them here, too: fit_params={"sample_weight": w}.'
    assert re.fullmatch(
        rf"fit\(\) on public= does not make this LogisticRegression: its predict_proba differs by {far:.2g} \(root "
        rf"mean square\), that of two refits by ({usual}) at most\. {re.escape(f'{words} {INSTEAD}')} "
        r"Nothing was charged\.",
        str(refused.value),
    )


def test_a_column_of_2_to_12_values_makes_groups_in_their_order() -> None:
    for count in (1, 2, 12, 13):
        X = (np.arange(300)[::-1] % count)[:, None]
        if 2 <= count <= 12:
            assert getattr(groups_of(X, 0), "levels", None) == tuple(range(count))
            continue
        with pytest.raises(InputError, match=f"2 to 12 different values .*; it has {count}\\. Nothing"):
            groups_of(X, 0)
        places = Places([Place(f"place {k}", (X[k : k + 1].copy(), np.zeros(1))) for k in range(count)])
        with pytest.raises(InputError, match=rf"^by= reports on 2 to 12 places; there are {count}\. Nothing was"):
            groups_of(X, places)
    assert getattr(groups_of([["b"], ["a"]] * 9, 0), "levels", None) == ("a", "b")
    with pytest.raises(InputError, match=r"^the column by= must hold text or numbers among the public rows\. "):
        groups_of(np.array([[b"a"], [b"b"]], dtype=object), 0)
    for twins in (["1.1", "1.10"], ["7", "007"], [1, "1"], [0.1, 0.1 + 1e-12]):
        with pytest.raises(InputError, match=r"^the column by= holds different values that are one number, "):
            groups_of([[each] for each in twins], 0)


def test_a_name_that_is_taken_names_each_setting_that_differs(tmp_path: Path) -> None:
    rows = PUBLIC[0].copy(), PUBLIC[1]
    rows[0][:, 0] = rows[0][:, 0].round().clip(-1, 2)
    mine = privatizer(tmp_path)
    mine.ledger.fix_plan("a choice", lambda rest: {"mu": 1.0})
    model, other = (LogisticRegression(C=C).fit(*rows) for C in (1.0, 0.01))
    usual = {"model": model, "held_out": rows, "bins": None}
    found = report(mine, **usual)
    assert report(mine, **{**usual, "mu": None}).to_dict() == found.to_dict()
    seen = "the model or its public rows"
    differing: dict[str, dict[str, Any]] = {
        "mu": {"mu": 0.4},
        f"positive, {seen}": {"positive": 0},
        "by, mu": {"by": 0, "mu": 0.6},
        "bins": {"bins": found.plan.bins[0].count + 1},
        "threshold, mu": {"threshold": 0.3, "mu": 0.4},
        seen: {"model": other},
        f"model, output, threshold, {seen}": {"model": SVC().fit(*rows)},
        "its kind": {"name": "a choice"},
    }
    for names, change in differing.items():
        with pytest.raises(BudgetMismatch) as refused:
            report(mine, **{**usual, **change})
        assert str(refused.value) == (
            f"the name {change.get('name', 'report')!r} belongs to something else in this ledger: it differs in "
            f"{names}. Give this report another name= (it is then a new report, and is charged). Nothing was charged."
        )
    assert mine.ledger.spent() == 0.5


def test_a_report_that_is_missing_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    mine = privatizer(tmp_path)
    several = "the ledger has several reports. Give the name of one of them: ['a', 'b']."
    said = {
        None: ("the ledger has no report: release one with dptune.report, or report() of a search.", several),
        "x": ("the ledger has no report named 'x'; it has none.",
              "the ledger has no report named 'x'; it has ['a', 'b']."),
    }  # fmt: skip
    for made in (0, 1):
        for name, words in said.items():
            with pytest.raises(InputError) as refused:
                stored_report(mine.ledger, name)
            assert str(refused.value) == words[made]
        for name in ("b", "a"):
            report(mine, name=name)
    found = [stored_report(mine.ledger, name) for name in ("a", "b")]
    assert [each.name for each in found] == ["a", "b"]
    with pytest.raises(InputError, match=r"a\.xyz must end in one of .*, pdf, .*, png, .*\.$"):
        found[0].plot(tmp_path / "a.xyz")
    with pytest.raises(InputError, match=r"^cannot write .*none/a\.png: No such file or directory\.$"):
        found[0].plot(tmp_path / "none" / "a.png")
    with pytest.raises(BudgetExhausted) as exhausted:
        report(mine, name="c", mu=3.0)
    assert exhausted.value.__notes__ == [
        "A search takes what the ledger has left. To leave a part for a report, give the choice report_share=, such as "
        "0.36, or another search mu=. After the search, raise the budget on the record (docs/resume.md)."
    ]


def test_a_report_whose_answer_was_lost_is_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another release of that name is not listed, and the lost report is answered by the same call."""
    mine = privatizer(tmp_path)
    lost = "the report 'report' was charged, and its answer is not recorded. Make the same call again"
    with monkeypatch.context() as patch:
        patch.setattr(type(mine.ledger), "record", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            report(mine)
    mine.observe("x", np.full(mine.n, 0.5))
    mine.release(mine.mean_query("x", mu=0.01), scope="other", key="report")
    for name in (None, "report"):
        with pytest.raises(InputError, match=f"^{lost}"):
            stored_report(mine.ledger, name)
    with pytest.raises(InputError, match=r"no report named 'other'; it has \['report'\]\.$"):
        stored_report(mine.ledger, "other")
    spent = mine.ledger.spent()
    report(mine)
    assert (stored_report(mine.ledger).name, mine.ledger.spent()) == ("report", spent)
