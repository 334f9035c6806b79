"""The answers that a curator gives a modeler, which are public, and refusals."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import pytest
from outsourced_tools import TABLE, curator, measure

from dptune import InputError, LossPrivatizer, PrivacyLedger
from dptune.outsourced.curator import OutsourcedCurator
from dptune.outsourced.formats import Exchange
from dptune.outsourced.outputs import PublicOutputs

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


def test_public_outputs_are_checked() -> None:
    for wrong, words in (({"because": " "}, "in words"), ({"measure": 1.0}, "function"), ({"maximise": "no"}, "True")):
        with pytest.raises(InputError, match=words):
            PublicOutputs(**{"measure": measure, "because": "known", **wrong})
    with pytest.raises(InputError, match="finite number"):
        PublicOutputs(lambda row: math.nan, because="known").answer(0)


def test_an_answer_that_noise_would_have_to_protect_is_refused(ledger: PrivacyLedger, tmp_path: Path) -> None:
    """When a unit's row changes the losses of everybody at it change: no release of one person's share covers that."""
    with pytest.raises(InputError, match="not protected"):
        curator(ledger, TABLE, tmp_path, outputs=LossPrivatizer(ledger, n=7, clip=(0.0, 1.0)))


# ---- the shared folder ---------------------------------------------------------------------------------


def test_a_query_for_no_row_is_refused(ledger: PrivacyLedger, tmp_path: Path) -> None:
    exchange, made = Exchange(tmp_path / "shared", timeout=0.1), curator(ledger, TABLE, tmp_path)
    for query in (b'{"row": 7}', b'{"row": -1}', b'{"row": 1.5}', b'{"row": "1"}', b"{}", b"[1]", b"no"):
        (tmp_path / "shared" / "query-000001.json").write_bytes(query)
        with pytest.raises(InputError, match="query-000001"):
            made.serve(exchange, rounds=1)


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
