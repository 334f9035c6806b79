"""`dptune.select` validates its input before it reads data or spends budget."""

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import dptune
from dptune import Budget, BudgetExhausted, InputError, LossPrivatizer, PrivacyLedger
from dptune.errors import BudgetMismatch
from dptune.ledger.approximate import largest_plan
from dptune.ledger.gdp import bounded_range_from_mu
from dptune.privacy.mechanism import odds_for
from dptune.privacy.noise import SeededNoise
from dptune.search import VALUES
from noises import NoNoise

N = 40
Make = Callable[..., LossPrivatizer]


def losses(m: int = 12, best: int = 3) -> np.ndarray:
    """One candidate is better than all others for everybody: with mu = 8 it is chosen but once in 10^9."""
    found = np.full((m, N), 0.9)
    found[best] = 0.1
    return found


@pytest.fixture
def mine(privatizer: Make) -> LossPrivatizer:
    return privatizer(n=N)


@pytest.mark.parametrize(
    "given",
    [
        losses(),
        losses().tolist(),
        [dptune.privacy.PerExampleLosses(row) for row in losses()],
        [None if j == 5 else row for j, row in enumerate(losses())],
        "a generator",
    ],
    ids=["array", "lists", "wrapped", "one failed", "lazily"],
)
def test_what_it_takes(mine: LossPrivatizer, given: Any) -> None:
    given = (row for row in losses()) if isinstance(given, str) else given
    chosen = dptune.select(given, mine, mu=8.0, name="which")
    assert (chosen.index, chosen.candidates, chosen.private, chosen.estimate) == (3, 12, True, None)
    assert mine.ledger.spent() == pytest.approx(8.0)
    assert mine.points() == ()  # nothing is kept in memory


def fitted() -> tuple[list[Any], tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), rng.integers(0, 2, 200)
    X[:, 0] += 6.0 * y
    models: list[Any] = [DummyClassifier().fit(X[:100], y[:100]) for _ in range(4)]
    models.insert(2, LogisticRegression().fit(X[:100], y[:100]))
    return models, (X[100 : 100 + N], y[100 : 100 + N])


def test_fitted_estimators(mine: LossPrivatizer) -> None:
    for name, data in (("pair", DATA), ("loaded", lambda: DATA)):
        chosen = dptune.select(MODELS, mine, mu=6.0, name=name, loss="zero_one_loss", data=data)
        assert chosen.index == 2


def test_the_estimate_has_its_share_of_the_budget_and_an_interval(mine: LossPrivatizer) -> None:
    chosen = dptune.select(losses(), mine, mu=9.0, name="which", estimate_share=0.2)
    assert chosen.estimate is not None
    assert chosen.estimate.sigma == pytest.approx(1 / (N * 9.0 * 0.2**0.5), rel=1e-5)
    assert abs(chosen.estimate.value - 0.1) < 6 * chosen.estimate.sigma
    assert mine.ledger.spent() == pytest.approx(9.0)
    assert "candidate 3 of 12" in str(chosen)
    assert "interval" in str(chosen)
    with pytest.raises(dataclasses.FrozenInstanceError):
        chosen.index = 0


def test_a_name_keeps_its_meaning(mine: LossPrivatizer) -> None:
    asked: dict[str, Any] = {
        "candidates": losses(),
        "mu": 0.5,
        "name": "which",
        "default_place": 1,
        "estimate_share": 0.1,
    }
    first = dptune.select(ledger=mine, **asked)
    another = LossPrivatizer(PrivacyLedger(mine.ledger.url.database or ""), n=N, clip=(0.0, 1.0))
    for privatizer in (mine, another):
        assert dptune.select(ledger=privatizer, **{**asked, "default_place": np.int64(1)}) == first
    dptune.SearchRun(VALUES, mine, scope="search", space=None, mu=1.0, seed=0, trials=3)
    changes = [
        {"mu": 0.6},
        {"estimate_share": 0.2},
        {"candidates": losses(13)},
        {"default_place": None},
        {"default_place": 2},
        {"name": "search"},
    ]
    others = [partial(dptune.select, ledger=mine, **{**asked, **change}) for change in changes]
    for other in others:
        with pytest.raises(BudgetMismatch, match="another name"):
            other()
    assert mine.ledger.spent() == pytest.approx(0.5)


def unread() -> Any:
    raise AssertionError("the private rows were read")


MODELS, DATA = fitted()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"candidates": losses().T}, "expected 40"),
        ({"mu": 0}, "mu"),
        ({"data": (np.zeros((N, 2)), np.zeros(N))}, "loss"),
        ({"candidates": [*MODELS, LogisticRegression()], "loss": "log_loss", "data": DATA}, "fit"),
        ({"candidates": [1, 2], "loss": "zero_one", "data": unread, "default_place": 2}, "one of the 2 candidates"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_spent(
    mine: LossPrivatizer, change: dict[str, Any], said: str
) -> None:
    asked: dict[str, Any] = {"candidates": losses(), "ledger": mine, "mu": 0.5, "name": "which", **change}
    with pytest.raises(InputError, match=said):
        dptune.select(**asked)
    assert mine.ledger.spent() == 0
    assert mine.points() == ()


def test_what_cannot_be_paid_is_refused_before_the_losses_are_computed(mine: LossPrivatizer) -> None:
    def lazily() -> Iterator[np.ndarray]:
        raise AssertionError("computed")
        yield

    with pytest.raises(BudgetExhausted):
        dptune.select(lazily(), mine, mu=11.0, name="which")


def test_seeded_noise_is_said_not_to_be_private(privatizer: Make) -> None:
    chosen = dptune.select(losses(), privatizer(n=N, noise=SeededNoise(1)), mu=1.0, name="which", estimate_share=0.1)
    assert not chosen.private
    assert "NOT PRIVATE" in str(chosen)
    assert chosen.estimate is not None
    assert not chosen.estimate.private


# ---- a candidate that is kept ----------------------------------------------------------------------------------------


def test_the_default_has_ten_elevenths_of_the_odds(privatizer: Make) -> None:
    """Of candidates that are alike it is released as often as it should be; the prior is the ledger's business too."""
    count, kept = 25, 0
    mine = privatizer(n=N)
    for t in range(count):
        kept += dptune.select(np.full((7, N), 0.5), mine, mu=0.01, name=str(t), default_place=2).index == 2
    assert binomtest(kept, count, 10 / 11).pvalue > 1e-9
    assert mine.ledger.spent() == pytest.approx(0.01 * count**0.5)  # keeping it costs nothing


def test_a_default_is_left_for_what_is_far_better(mine: LossPrivatizer) -> None:
    failed = [None if j == 2 else row for j, row in enumerate(losses())]
    chosen = dptune.select(failed, mine, mu=8.0, name="which", default_place=0)
    assert (chosen.index, chosen.method, chosen.default) == (3, "exponential selection", 0)
    assert "No default" not in chosen.summary()
    assert [charge.key for charge in mine.ledger.charges("which")] == ["index"]


@pytest.mark.parametrize("default", [0, 2])
def test_a_default_is_kept_where_others_are_a_little_better(privatizer: Make, default: int) -> None:
    L = np.full((3, N), 0.5)
    L[1] -= 0.01
    for kept, index in ((None, 1), (default, default)):
        p = privatizer(n=N, noise=NoNoise())
        assert dptune.select(L, p, mu=0.1, name=str(kept), default_place=kept).index == index


def test_a_pair_is_divided_between_a_choice_and_its_estimate(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "pair.db", Budget.approximate_dp(4.0, 1e-5))
    found = dptune.select(losses(), LossPrivatizer(ledger, n=N, clip=(0.0, 1.0)), name="x", estimate_share=0.36)
    assert found.mu == pytest.approx(largest_plan(0.64, 4.0, 1e-5))
    made, told = ledger.charges("x")
    assert made.description["eta"] == pytest.approx(bounded_range_from_mu(0.8 * found.mu), rel=1e-6)
    assert told.mu == pytest.approx(0.6 * found.mu)
    fitting = PrivacyLedger(fast_path / "brier.db", Budget.gdp(1.0))
    found = dptune.select(MODELS, fitting, data=DATA, loss="brier", name="x", estimate_share=0.5, mu=1.0)
    assert found.estimate is not None
    assert found.estimate.within == (0.0, 2.0)  # the range of a Brier score of two labels


def test_the_default_has_ten_times_the_odds_of_all_others_together() -> None:
    assert odds_for(2, 5) == [1.0, 1.0, 40.0, 1.0, 1.0]


def test_models_are_told_apart_by_their_plain_parameters(mine: LossPrivatizer) -> None:
    """Whole numbers, numbers, texts, yes or no, and None."""
    X, y = np.arange(40.0)[:, None], np.arange(40) % 2

    def chosen(**settings: Any) -> Any:
        models = [DecisionTreeClassifier(random_state=0, **settings).fit(X, y), DummyClassifier().fit(X, y)]
        people = (np.zeros((mine.rows, 1)), np.zeros(mine.rows, dtype=int))
        return dptune.select(models, mine, data=people, loss="zero_one", name="trees", mu=0.1)

    usual: dict[str, Any] = {"max_depth": 2, "min_impurity_decrease": 0.0, "criterion": "gini", "max_features": None}
    first = chosen(**usual)
    assert chosen(**usual) == first
    others = {"max_depth": 3, "min_impurity_decrease": 0.1, "criterion": "entropy", "max_features": 1}
    for name, value in others.items():
        with pytest.raises(BudgetMismatch):
            chosen(**{**usual, name: value})
