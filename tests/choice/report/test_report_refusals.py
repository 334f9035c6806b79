"""A repeated report is paid once. A refused report costs nothing, and its message says so."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as exact
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeRegressor

import dptune
from dptune import BudgetExhausted, InputError, LossPrivatizer, Rows
from dptune.choice.crossval import public_folds
from dptune.choice.report.public_rows import how_to_ask, public_scores
from dptune.choice.report.reporting import stored_report
from report_tools import MODEL, PRIVATE, PUBLIC, privatizer, report, silent

# ---- paid once -------------------------------------------------------------------------------------------


def test_the_same_report_again_is_free_also_from_the_ledger_alone(tmp_path: Path) -> None:
    mine = privatizer(tmp_path)
    first = report(mine)
    again = report(privatizer(tmp_path))
    alone = stored_report(dptune.PrivacyLedger(tmp_path / "ledger.db"))
    assert first.to_dict() == again.to_dict() == alone.to_dict()
    assert mine.ledger.spent() == 0.5
    assert "table of true class and score bin of a final model" in mine.ledger.statement(delta=1e-5).to_text()


def test_a_ledger_pays_where_each_person_has_one_row(tmp_path: Path) -> None:
    mine = privatizer(tmp_path)
    first = dptune.report(MODEL, mine.ledger, data=PRIVATE, public=PUBLIC, mu=0.5, bins=6)
    assert first.n == len(PRIVATE[1])
    assert report(mine).to_dict() == first.to_dict()  # the privatizer's is the same report
    with pytest.raises(InputError, match=r"Give n= where data= is a function"):
        report(mine.ledger, data=lambda: PRIVATE, name="other")
    assert mine.ledger.spent() == 0.5


def test_a_report_takes_what_is_left_by_default(tmp_path: Path) -> None:
    mine = privatizer(tmp_path, mu=1.0)
    report(mine, mu=0.6)
    assert report(mine, mu=None, name="second").mu == pytest.approx(0.8)
    with pytest.raises(BudgetExhausted):
        report(mine, name="third")


LEDGERS: list[dptune.PrivacyLedger] = []
calls: list[tuple[int, int]] = []


class Counting(LogisticRegression):
    """Keeps how many rows it was asked about, and after how many charges."""

    def predict_proba(self, X: Any) -> Any:
        calls.append((len(X), LEDGERS[-1].count() if LEDGERS else 0))
        return super().predict_proba(X)


def test_private_rows_are_read_only_after_a_successful_charge(tmp_path: Path) -> None:
    mine, model = privatizer(tmp_path, mu=0.1), Counting().fit(*PUBLIC)
    LEDGERS[:], calls[:] = [mine.ledger], []
    with pytest.raises(BudgetExhausted):
        report(mine, model)
    assert 400 not in dict(calls)
    report(mine, model, mu=0.1)
    assert [charges for rows, charges in calls if rows == 400] == [1]


# ---- public mistakes -------------------------------------------------------------------------------------


class Foreign:
    """No estimator of scikit-learn."""

    classes_, n_features_in_ = MODEL.classes_, 3

    def predict_proba(self, X: Any) -> Any:
        return MODEL.predict_proba(X)


class Booster:
    """Looks like a native booster of LightGBM: its probabilities look like the answers of a regression."""

    def current_iteration(self) -> int:
        return 3

    def predict(self, X: Any) -> Any:
        return MODEL.predict_proba(X)[:, 1]


TABLE = np.concatenate([PUBLIC[0], PRIVATE[0]]), np.concatenate([PUBLIC[1], PRIVATE[1]])
KEEPS = LogisticRegression().fit(*PUBLIC)
KEEPS.kept = PRIVATE[0]


@pytest.fixture(scope="module")
def unspent(tmp_path_factory: pytest.TempPathFactory) -> LossPrivatizer:
    return privatizer(tmp_path_factory.mktemp("unspent"))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model": LogisticRegression()}, "not fitted|fitted"),
        ({"data": (PRIVATE[0][:7], PRIVATE[1][:7])}, "400 rows"),
        ({"cv": 1}, "^cv=1 and 300 public rows: "),
        ({"scores": MODEL.decision_function(PUBLIC[0])}, "must lie in"),
        ({"model": Foreign()}, "scores="),
        ({"model": Booster()}, r"Wrap it: dptune\.losses\.models\.BoosterModel\(model, labels="),
        ({"data": (TABLE[0][300:], TABLE[1][300:]), "public": TABLE}, "^public=: an entry shares memory"),
        ({"data": lambda: (TABLE[0][300:], TABLE[1][300:]), "public": TABLE}, "^public=: an entry shares memory"),
        ({"model": KEEPS}, "^model=: kept.* shares memory"),
    ],
)
def test_a_public_mistake_costs_nothing(unspent: LossPrivatizer, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        report(**{"mine": unspent, **settings})
    assert str(refused.value).endswith("Nothing was charged.")
    assert unspent.ledger.charges() == []
    assert unspent.ledger.fact("report", "plan") is None  # mended, it may have this name


def test_labels_of_text_and_a_loader(tmp_path: Path) -> None:
    words = np.array(["well", "sick"])
    model = LogisticRegression().fit(PUBLIC[0], words[PUBLIC[1]])
    found = report(silent(tmp_path), model, lambda: Rows(PRIVATE[0], words[PRIVATE[1]]), positive="sick",
                   public=(PUBLIC[0], words[PUBLIC[1]]))  # fmt: skip
    wanted = exact.recall_score(words[PRIVATE[1]], model.predict(PRIVATE[0]), pos_label="sick")
    assert found.recall_score.value == pytest.approx(wanted)
    assert found.to_dict()["positive"] == "sick"


ORDERS = {"sorted": np.sort, "from the largest": lambda y: np.sort(y)[::-1], "shuffled": lambda y: y}
NUMBERS = np.random.default_rng(3).normal(size=200)  # public, drawn once
LABELS, RARE, THREE = (np.repeat(np.arange(len(counts)), counts) for counts in ([100, 100], [194, 6], [100, 94, 6]))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("y", [LABELS, RARE, THREE, NUMBERS], ids=["labels", "rare", "three", "numbers"])
def test_public_rows_come_in_any_order(tmp_path: Path, y: Any, order: str) -> None:
    """Cross-validated answers are those of a model that has seen the whole range of the true ones."""
    y = ORDERS[order](np.random.default_rng(0).permutation(y))
    X = np.column_stack([y + np.random.default_rng(1).normal(size=200), np.zeros(200)])
    regression = y.dtype == float
    model: Any = DecisionTreeRegressor(min_samples_leaf=10) if regression else LogisticRegression()
    public = public_scores(model.fit(X, y), how_to_ask(model), (X, y), None, 5)
    if regression:
        assert np.corrcoef(public.scores.T)[0, 1] > 0.4  # smaller in folds of neighbours
        folds = public_folds(X, y, loss="squared_error")
        assert max(abs(y[test].mean()) for _, test in folds) < 0.5
    else:
        assert list(public.codes) == list(y)
    mine = privatizer(tmp_path, n=50)
    assert report(mine, model, (X[::4] + 1, y[::4].copy()), public=(X, y), bins=None).n == 50
