"""A ledger lists its charges, dates, mechanisms, runs and facts as they are, of one scope or of all."""

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import dptune
from dptune import Budget, PrivacyLedger
from dptune.ledger.certificate import certificate, page
from dptune.ledger.events import FlipRelease, LaplaceRelease, SelectionRelease, TableRelease, chooses, is_laplace
from dptune.ledger.events import SubsampledGaussianRelease as Round
from dptune.ledger.gdp import bounded_range_from_mu
from dptune.ledger.registry import About, record
from ledger_tools import ROUND, edit, gaussian, pay

DAYS = {1: "2026-01-05", 2: "2026-01-02", 3: "2026-02-07", 4: "2026-02-03"}  # clocks may go back


@pytest.fixture
def dated(fast_path: Path) -> PrivacyLedger:
    """Four charges of two runs and three mechanisms, each on a day of its own."""
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(5.0))
    for key, scope, what in (("1", "b", "sums"), ("1", "a", "means"), ("2", "a", "sums"), ("2", "b", "counts")):
        ledger.charge(scope, key, gaussian(0.5, what), digest="d")
    for seq, day in DAYS.items():
        edit(ledger, f"UPDATE dptune_charges SET charged_at = '{day}T10:00:00.000000+00:00' WHERE seq = {seq}")
    return ledger


def test_dates_mechanisms_and_runs_are_those_of_the_charges(dated: PrivacyLedger) -> None:
    at = "T10:00:00.000000+00:00"
    assert dated.span() == (DAYS[2] + at, DAYS[3] + at)
    assert dated.span("b") == (DAYS[1] + at, DAYS[4] + at)
    assert dated.span("c") is None
    named = (
        ("Gaussian mechanism on the sums", 2),
        *((f"Gaussian mechanism on the {x}", 1) for x in ("means", "counts")),
    )
    assert dated.mechanisms() == named, "in the order of their first use"
    assert dated.runs() == [("b", DAYS[4]), ("a", DAYS[3])]
    assert [each.day for each in dated.asked(3)] == [DAYS[1], DAYS[2], DAYS[3]]


def test_a_plan_that_has_ended_holds_nothing_back(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(5.0))
    for run in ("b", "a"):
        ledger.fix_plan(run, lambda rest: {"mu": 2.0})
        pay(ledger, "1", 1.0, scope=run)
    assert ledger.allowance().holders == ("a", "b")
    assert ledger.allowance().unplanned == pytest.approx((25 - 2 * 4) ** 0.5)
    for _ in range(2):
        ledger.end_plan("b")
    assert ledger.allowance().holders == ("a",)
    assert (ledger.allowance().left, ledger.allowance().unplanned) == pytest.approx((23**0.5, 20**0.5))


def test_the_view_for_people_has_price_sum_and_both_times(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    ledger.record(pay(ledger, "a", 0.5, private=False), [0.25], at="2026-01-02")
    pay(ledger, "b", 0.25)
    with sqlite3.connect(fast_path / "x.db") as connection:
        connection.row_factory = sqlite3.Row
        first, second = map(dict, connection.execute("SELECT * FROM dptune_spending ORDER BY seq"))
        times = [at for (at,) in connection.execute("SELECT charged_at FROM dptune_charges ORDER BY seq")]
    words = {"scope": "study", "mechanism": "Gaussian mechanism on the mean"}
    sums = {"mu": 0.5, "mu_squared_so_far": 0.25}, {"mu": 0.25, "mu_squared_so_far": 0.3125}
    assert first == {"seq": 1, "key": "a", "private": 0, "charged_at": times[0], "released_at": "2026-01-02",
                     **words, **sums[0]}  # fmt: skip
    assert second == {"seq": 2, "key": "b", "private": 1, "charged_at": times[1], "released_at": None,
                      **words, **sums[1]}  # fmt: skip


def test_what_is_left_empty_has_its_default(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0), dataset="", unit="")
    for opened in (ledger, PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0), dataset="", unit="")):
        assert (opened.dataset, opened.unit) == ("validation data", "one person")
    assert repr(ledger) == f"PrivacyLedger('{fast_path}/x.db', mu=1.0)"
    assert repr(Budget.gdp(0.5)) == "Budget(mu=0.5)"
    pair = Budget.approximate_dp(2.0, 1e-6)
    assert repr(pair) == f"Budget(mu={pair.mu!r}, stated_epsilon=2.0, stated_delta=1e-06)"


@pytest.mark.parametrize("away", [-1e-5, 1e-5])
def test_both_prices_of_a_choice_agree_to_six_digits(fast_path: Path, away: float) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    eta = bounded_range_from_mu(0.5)
    for change, fits in ((away, False), (away / 100, True)):
        event = SelectionRelease(0.5, eta * (1 + change), 1.0, 1.0, 9, "means")
        charge: Callable[[], Any] = partial(ledger.charge, "s", str(change), event, digest="d")
        if fits:
            assert charge().mu == 0.5
        else:
            with pytest.raises(dptune.InputError, match="eta, a choice's bounded range, must lie in"):
                charge()


def test_each_event_says_what_it_is() -> None:
    table = TableRelease(1.0, row_norm=2.0, change=4.5, map_norm=1.0, sigma=4.5, shape=(3, 2), outputs="nothing")
    events: dict[str, Any] = {
        "Gaussian mechanism on the sum": gaussian(1.0, "sum"),
        "exponential mechanism (bounded range) on the means": SelectionRelease(1.0, 1.6, 1.0, 1.0, 9, "means"),
        "permute-and-flip on the means": FlipRelease(1.0, 0.8, 1.0, 1.0, 9, "means"),
        "Laplace mechanism on the mean": LaplaceRelease(1.0, 0.8, 1.0, 1.25, 1.77, "mean"),
        "Gaussian mechanism on a table of features, rows of norm at most 2, a row changing by at most 4.5; outputs: "
        "nothing": table,
        "Poisson-subsampled Gaussian mechanism (q = 0.35, z = 1) on the sums": ROUND,
    }
    assert [event.mechanism for event in events.values()] == [*events]
    assert [chooses(event.describe()) for event in events.values()] == [False, True, True, False, False, False]
    assert [is_laplace(event.describe()) for event in events.values()] == [False, False, False, True, False, False]
    assert Round(0.5, 2.0, 1.0, 2.1, 3, "x").mechanism == (
        "Poisson-subsampled Gaussian mechanism (q = 0.5, z = 2) on the x"
    )


def test_one_is_said_in_the_singular(fast_path: Path, about: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0))
    for number in range(13):
        ledger.charge("s", str(number), gaussian(0.1, f"mean {number}"), digest="d", note={"failed": number // 12})
        if number == 0:
            details = record(ledger.statement(delta=1e-5), About.read(about))["deployment"]["deployment_model"]
            assert details["release_type_details"].startswith("1 noisy answer and what was chosen from them, within a")
    stated = ledger.statement(delta=1e-5)
    assert dict(stated.rows())["Failures"] == "1 evaluation failed, for everybody"
    assert "- 1 more question: --format json lists all" in page(certificate(ledger, stated))
