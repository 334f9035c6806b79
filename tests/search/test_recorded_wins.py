"""Two writers share one charge, and one of them stops between its draw and its record.

It returns, stores and learns what the other writer recorded. Its own draw is never shown.
"""

import dataclasses

import numpy as np
import pytest

from dptune import Budget, LedgerError, LossPrivatizer, PrivacyLedger
from dptune.ledger.durable import DurableLedger
from dptune.privacy.noise import OpenDPNoise
from federated_audits import SETTINGS, send, server
from runs import CENTRED_RUN, GIBO_RUN, WatchedLedger, at, trial


class Watched(OpenDPNoise):
    """A source of noise that remembers what it drew."""

    def __init__(self):
        self.drawn = []

    def add_gaussian(self, statistic, sigma):
        self.drawn.append(super().add_gaussian(statistic, sigma))
        return self.drawn[-1]


def audit_privatizer(folder):
    """``release``: the value, the charge and a second call."""
    watched = Watched()
    mine, other = _privatizer(folder, watched), _privatizer(folder, Watched())
    seen = []
    at(mine.ledger, "drawn", "k", lambda: seen.append(_release(other)))
    released, again = _release(mine), _release(mine)
    assert released.charge.value == tuple(released.value) == tuple(seen[0].value), "a draw of its own was returned"
    assert tuple(again.value) == mine.ledger.find("s", "k").value == tuple(seen[0].value)
    assert len(watched.drawn) == 1
    assert not mine.drew(released.charge)


def audit_late_record(folder):
    """``recorded``: a draw that could not be recorded is thrown away when another's was."""
    mine, other = (_privatizer(folder) for _ in range(2))
    at(mine.ledger, "drawn", "k", LedgerError("disk full"))
    with pytest.raises(LedgerError):
        _release(mine)
    orphan = mine.ledger.find("s", "k")
    assert mine.drew(orphan)
    theirs = tuple(_release(other).value)
    assert mine.recorded(orphan).value == theirs, "a draw of its own was returned"
    assert tuple(_release(mine).value) == theirs
    assert not mine.drew(orphan)


def _privatizer(folder, noise=None):
    privatizer = LossPrivatizer(WatchedLedger(folder / "p.db", Budget.gdp(1.0)), n=4, clip=(0.0, 1.0), noise=noise)
    privatizer.observe("x", [0.1, 0.2, 0.3, 0.4])
    return privatizer


def _release(privatizer):
    return privatizer.release(privatizer.mean_query("x", 0.5), scope="s", key="k")


def audit_run(folder, kind, key, count):
    """A run: what ``finish`` returns, what the algorithm learns, and the state of a run that begins later."""
    ledger = PrivacyLedger(folder / "run.db", Budget.gdp(4.0))
    watched, learned = Watched(), {}
    mine = kind.start(ledger, noise=watched)
    learn = mine.algorithm.learn

    def remember(key, note, answer, sigma, *, own):
        learned[key] = tuple(answer)
        learn(key, note, answer, sigma, own=own)

    def theirs():
        assert watched.drawn, "nobody was stopped between draw and record"
        charge = ledger.find("run", key)
        ledger.record(charge, np.linspace(0.4, 0.6, charge.description["dimension"]))

    mine.algorithm.learn = remember
    at(mine.ledger, "drawn", key, theirs)
    returned = [trial(mine, str(i)) for i in range(count)]
    paid = ledger.find("run", key)
    if key.startswith("value/"):
        assert returned[-1] == paid.value[0] == 0.4, "a draw of its own was returned"
        assert mine.released(str(count - 1), returned[-1])
    else:
        assert learned[key] == paid.value, "a draw of its own was learned"
    late = kind.start(ledger, noise=Watched())
    assert late.progress()["mu_spent"] == mine.progress()["mu_spent"]
    assert np.array_equal(late.algorithm.recommend(), mine.algorithm.recommend())


def audit_server(folder):
    """A federated server: what it returns and broadcasts."""
    mine, other = server(folder, "both"), server(folder, "both")
    messages = np.random.default_rng(0).normal(size=(SETTINGS.agents, SETTINGS.M))
    send(mine, 0, messages)
    send(other, 0, messages)
    seen, record = [], mine.ledger.record

    def held_up(charge, value):
        seen.append(other.release(0))
        return record(charge, value)

    mine.ledger.record = held_up
    released = mine.release(0)
    assert np.array_equal(released, seen[0]), "a draw of its own was returned"
    assert np.array_equal(mine.broadcast(0), seen[0])
    assert mine.ledger.charges()[0].value == tuple(seen[0].ravel())
    assert np.array_equal(server(folder, "both").release(0), seen[0])


AUDITS = {
    "privatizer": audit_privatizer,
    "recorded late": audit_late_record,
    "value": lambda folder: audit_run(folder, GIBO_RUN, "value/1", 2),
    "generation": lambda folder: audit_run(folder, CENTRED_RUN, "generation/1", 5),
    "server": audit_server,
}


@pytest.mark.parametrize("case", AUDITS)
def test_who_records_second_goes_on_with_what_was_recorded_first(fast_path, case):
    AUDITS[case](fast_path)


@pytest.mark.parametrize("case", AUDITS)
def test_a_writer_that_goes_on_with_its_own_draw_is_found(fast_path, monkeypatch, case):
    true = DurableLedger.record

    def own(self, charge, value):
        true(self, charge, value)
        return dataclasses.replace(charge, value=tuple(value))

    monkeypatch.setattr(DurableLedger, "record", own)
    with pytest.raises(AssertionError):
        AUDITS[case](fast_path)
