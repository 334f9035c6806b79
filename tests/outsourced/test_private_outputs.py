"""The answers that a curator gives a modeler: public ones, private ones that are paid for, and refusals."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outsourced_tools import TABLE, curator, measure

from dptune import Budget, BudgetExhausted, InputError, LossPrivatizer, PlanComplete, PrivacyLedger
from dptune.errors import KeyConflict
from dptune.outsourced.curator import OutsourcedCurator
from dptune.outsourced.formats import Exchange
from dptune.outsourced.outputs import PrivateOutputs, PublicOutputs

# ---- outputs -------------------------------------------------------------------------------------------


def in_background(made: OutsourcedCurator, exchange: Exchange, rounds: int) -> threading.Thread:
    thread = threading.Thread(target=made.serve, args=(exchange,), kwargs={"rounds": rounds}, daemon=True)
    thread.start()
    return thread


def test_public_outputs_are_served_and_a_curator_that_starts_again_goes_on(
    ledger: PrivacyLedger, tmp_path: Path
) -> None:
    exchange = Exchange(tmp_path / "shared", timeout=600)
    made = curator(ledger, TABLE, tmp_path)
    made.export(exchange, mu=0.5)
    thread = in_background(made, exchange, 2)
    assert [exchange.evaluate(row) for row in (3, 5)] == [measure(3), measure(5)]
    thread.join()
    thread = in_background(curator(ledger, TABLE, tmp_path), exchange, 3)
    assert exchange.evaluate(3) == measure(3)
    thread.join()
    assert exchange.history() == [(3, measure(3)), (5, measure(5)), (3, measure(3))]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"because": " "}, "in words"), ({"measure": 1.0}, "function"), ({"maximise": "no"}, "True or False")],
)
def test_public_outputs_are_checked(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        PublicOutputs(**{"measure": measure, "because": "known", **wrong})


@pytest.mark.parametrize("wrong", [{"measure": None}, {"privatizer": None}, {"rounds": 0}, {"mu": 0.0}])
def test_private_outputs_are_checked_by_name(ledger: PrivacyLedger, wrong: dict[str, Any]) -> None:
    right = {"measure": losses_at, "privatizer": LossPrivatizer(ledger, n=7, clip=(0.0, 1.0)), "rounds": 4, "mu": 1.0}
    with pytest.raises(InputError, match=next(iter(wrong))):
        PrivateOutputs(**{**right, **wrong})


def test_public_outputs_are_numbers() -> None:
    with pytest.raises(InputError, match="finite number"):
        PublicOutputs(lambda row: math.nan, because="known").answer("s", 1, 0)


def losses_at(row: int) -> np.ndarray:
    return np.full(7, row / 10)


def private_outputs(ledger: PrivacyLedger, mu: float = 1.0, measure=losses_at) -> PrivateOutputs:
    return PrivateOutputs(measure, LossPrivatizer(ledger, n=7, clip=(0.0, 1.0)), rounds=4, mu=mu)


def test_nothing_is_measured_that_cannot_be_paid(tmp_path: Path) -> None:
    ledger, measured = PrivacyLedger(tmp_path / "small.db", Budget.gdp(mu=0.1)), list[int]()

    def measure_it(row: int) -> np.ndarray:
        measured.append(row)
        return losses_at(row)

    outputs = private_outputs(ledger, measure=measure_it)
    with pytest.raises(BudgetExhausted):
        outputs.answer("s", 1, 0)
    assert (measured, outputs.privatizer.points()) == ([], ())


def test_private_outputs_are_paid_in_the_same_ledger_and_answered_from_it_after_a_crash(
    ledger: PrivacyLedger, tmp_path: Path
) -> None:
    outputs = private_outputs(ledger)
    curator(ledger, TABLE, tmp_path, outputs=outputs).export(tmp_path / "shared", mu=2.0)
    about = Exchange(tmp_path / "shared").table().about
    assert not about.maximise
    assert about.rounds == 4
    assert about.output_sigma == pytest.approx(1 / 7 / (1 / 2), rel=1e-5)
    y = outputs.answer("outsourced", 1, 3)
    assert private_outputs(ledger).answer("outsourced", 1, 3) == y
    with pytest.raises(KeyConflict):
        outputs.answer("outsourced", 1, 4)
    for t in (2, 3, 4):
        outputs.answer("outsourced", t, 3)
    with pytest.raises(PlanComplete):
        outputs.answer("outsourced", 5, 3)
    assert ledger.spent() == pytest.approx(math.sqrt(2.0**2 + 1.0**2))
    assert "4 releases of mu = 0.5 charged to this ledger" in ledger.statement(delta=1e-5).to_text()


def test_what_private_outputs_raise_is_not_shown(ledger: PrivacyLedger) -> None:
    def failing(row: int) -> np.ndarray:
        raise ValueError("ann has the disease")

    big = PrivateOutputs(failing, LossPrivatizer(ledger, n=7, clip=(0.0, 1.0)), rounds=1, mu=9.0)
    assert abs(big.answer("outsourced", 1, 0) - 1.0) < 1  # the upper clip, and noise


def test_outputs_that_would_not_fit_beside_the_table_are_refused_before_it_is_paid(
    ledger: PrivacyLedger, tmp_path: Path
) -> None:
    made = curator(ledger, TABLE, tmp_path, outputs=private_outputs(ledger, mu=9.0))
    with pytest.raises(BudgetExhausted):
        made.export(tmp_path / "shared", mu=5.0)
    assert ledger.spent() == 0


def test_outputs_paid_elsewhere_are_refused(ledger: PrivacyLedger, tmp_path: Path) -> None:
    elsewhere = PrivacyLedger(tmp_path / "other.db", Budget.gdp(1.0))
    with pytest.raises(InputError, match="same"):
        curator(ledger, TABLE, tmp_path, outputs=private_outputs(elsewhere))


# ---- the shared folder ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query", [b'{"row": 7}', b'{"row": -1}', b'{"row": 1.5}', b'{"row": "1"}', b"{}", b"[1]", b"no"]
)
def test_a_query_for_no_row_is_refused(query: bytes, ledger: PrivacyLedger, tmp_path: Path) -> None:
    exchange = Exchange(tmp_path / "shared", timeout=0.1)
    (tmp_path / "shared" / "query-000001.json").write_bytes(query)
    with pytest.raises(InputError, match="query-000001"):
        curator(ledger, TABLE, tmp_path).serve(exchange, rounds=1)


def test_who_waits_in_vain_is_told_for_whom(tmp_path: Path) -> None:
    exchange = Exchange(tmp_path / "shared", timeout=0.05)
    with pytest.raises(InputError, match="is the curator running"):
        exchange.table()
    with pytest.raises(InputError, match="is the modeler running"):
        exchange.query(1, 5)


def test_trials_at_the_same_time_get_numbers_of_their_own_and_the_first_answer_stands(tmp_path: Path) -> None:
    exchange = Exchange(tmp_path / "shared")
    threads = [threading.Thread(target=exchange.ask, args=(1,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(p.name for p in exchange.folder.iterdir()) == [f"query-{t:06d}.json" for t in range(1, 9)]
    exchange.answer(1, 1, 0.5)
    exchange.answer(1, 1, 0.7)
    assert exchange.answered(1) == (1, 0.5)
