"""A ledger lists its charges, dates, mechanisms, runs and facts as they are, of one scope or of all."""

from pathlib import Path

from dptune import Budget, PrivacyLedger
from dptune.ledger import PlanLedger, SubsampledGaussian
from dptune.ledger.certificate import certificate, page
from dptune.ledger.registry import About, record
from ledger_tools import gaussian


def test_what_is_left_empty_has_its_default(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0), dataset="", unit="")
    for opened in (ledger, PrivacyLedger(fast_path / "x.db", Budget.gdp(1.0), dataset="", unit="")):
        assert (opened.dataset, opened.unit) == ("validation data", "one person")
    assert repr(ledger) == f"PrivacyLedger('sqlite:///{fast_path}/x.db', mu=1.0)"
    assert repr(Budget.gdp(0.5)) == "Budget(mu=0.5)"
    pair = Budget.approximate_dp(2.0, 1e-6)
    assert repr(pair) == f"Budget(mu={pair.mu!r}, stated_epsilon=2.0, stated_delta=1e-06)"


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
    rounds = dict(PlanLedger(fast_path / "p.db", SubsampledGaussian(0.5, 2.0, 1), n=9).statement(delta=0.01).rows())
    assert (rounds["Plan"], rounds["Made so far"]) == ("q = 0.5, z = 2, 1 release, fixed in advance", "0 of 1 release")
