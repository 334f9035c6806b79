"""The collector of replies: what it charges, which reply stands after a crash, and which devices it refuses."""

from __future__ import annotations

import pytest

import dptune
from dptune.local.randomizer import LocalRandomizer
from dptune_ray.collector import Collector, ReplyRequest
from dptune_ray.log import TrialLog


def ask(trial="a", **more):
    about = {"parameters": {"x": 0.5}, "user": "me", "randomizer": LocalRandomizer(1.0, 1.0), **more}
    return ReplyRequest.of(trial, **about)


def hand_in(collector, reply, asked=None, draw="d"):
    asked = asked or ask()
    known = collector.announce(asked, draw)
    return float(collector.record(asked, draw, reply) if known is None else known)


@pytest.fixture
def log(tmp_path):
    return TrialLog(str(tmp_path / "replies.db"), "run")


def test_a_collector_that_dies_after_the_charge_lets_it_stand_and_takes_one_reply(tmp_path, log):
    ledger = dptune.local.UserLedger(tmp_path / "users.db", cap=1.0)
    assert Collector(log, ledger).charge(ask()) is None
    assert Collector(log, ledger).charge(ask()) is None  # the device died, and begins again
    assert ledger.spent("me") == 1.0
    assert hand_in(Collector(log, ledger), 0.25) == 0.25
    assert hand_in(Collector(log, ledger), 0.75, draw="e") == 0.25
    assert Collector(log, ledger).record(ask(), "d", 0.75) == 0.25  # Ray may repeat a call
    assert Collector(log, ledger).charge(ask()) == 0.25
    assert [reply.value for reply in log.since(-1)] == [0.25]
    assert ledger.spent("me") == 1.0


def test_a_trial_that_draws_again_after_its_reply_may_have_been_seen_pays_again(tmp_path, log):
    class Full(dptune.local.UserLedger):
        """Has no place for a reply."""

        def _record(self, row, value):
            seen.append(value)
            raise dptune.LedgerError("disk full")

    ledger, seen = Full(tmp_path / "users.db", cap=2.0), []
    for attempt in range(2):
        assert Collector(log, ledger).charge(ask()) is None
        for _ in range(2):  # Ray may repeat a call
            assert Collector(log, ledger).announce(ask(), f"d{attempt}") is None
        with pytest.raises(dptune.LedgerError):
            Collector(log, ledger).record(ask(), f"d{attempt}", 0.5 + attempt)
        assert ledger.spent("me") == len(set(seen)) == attempt + 1.0
    with pytest.raises(dptune.errors.CapReached):  # a third draw does not fit
        Collector(log, ledger).charge(ask())
    assert seen == [0.5, 1.5]


def test_two_devices_of_one_trial_pay_for_two_draws(tmp_path, log):
    ledger = dptune.local.UserLedger(tmp_path / "users.db", cap=2.0)
    collector = Collector(log, ledger)
    for _ in ("one", "that Tune thought lost"):
        assert collector.charge(ask()) is None
    assert ledger.spent("me") == 1.0
    assert [collector.announce(ask(), draw) for draw in ("d", "e")] == [None, None]
    assert ledger.spent("me") == 2.0
    with pytest.raises(dptune.errors.CapReached):
        collector.announce(ask(), "f")
    assert [collector.record(ask(), draw, reply) for draw, reply in (("e", 0.5), ("d", 0.25))] == [0.5, 0.5]
    assert collector.charge(ask()) == 0.5


class Lost(TrialLog):
    """A file of replies that takes none."""

    def record(self, trial, parameters, value):
        raise MemoryError


def test_a_collector_that_dies_between_ledger_and_log_finds_the_reply_again(tmp_path, log):
    ledger = dptune.local.UserLedger(tmp_path / "users.db", cap=1.0)
    dying, collector = Collector(Lost(log.path, log.run), ledger), Collector(log, ledger)
    dying.announce(ask(), "d")
    with pytest.raises(MemoryError):
        dying.record(ask(), "d", 0.25)
    assert log.since(-1) == []  # as if the file of replies were lost
    assert Collector(log, ledger).charge(ask()) == 0.25
    assert [reply.value for reply in log.since(-1)] == [0.25]  # the searcher knows it, too
    assert ledger.spent("me") == 1.0
    with pytest.raises(dptune.errors.CapReached):
        collector.charge(ask("b"))
    with pytest.raises(dptune.errors.CapReached):
        collector.announce(ask("b"), "x")
    with pytest.raises(dptune.InputError):  # not announced
        collector.record(ask("b"), "x", 0.5)
    assert len(log.since(-1)) == 1


def test_every_method_of_the_collector_refuses_another_randomiser(tmp_path, log):
    collector = Collector(log, dptune.local.UserLedger(tmp_path / "users.db", cap=9.0))
    hand_in(collector, 0.25)
    cheap = ask("b", randomizer=LocalRandomizer(0.5, 1.0))
    for method, about in (("charge", ()), ("announce", ("x",)), ("record", ("d", 0.5))):
        with pytest.raises(dptune.InputError, match="another randomiser"):
            getattr(collector, method)(cheap, *about)
    assert [reply.trial for reply in log.since(-1)] == ["a"]


def test_runs_in_one_file_are_apart_and_other_ledgers_are_refused(tmp_path):
    logs = [TrialLog(str(tmp_path / "replies.db"), run) for run in ("one", "two")]
    ledger = dptune.local.UserLedger(tmp_path / "users.db", cap=1.0)
    for log in logs:
        assert hand_in(Collector(log, None), 0.5, ask(user=None)) == 0.5
        assert hand_in(Collector(log, None), 0.75, ask(user=None), "e") == 0.5
    assert [len(log.since(-1)) for log in logs] == [1, 1]
    Collector(logs[0], ledger).begin(logs[0], repr(ledger))
    with pytest.raises(dptune.errors.BudgetMismatch, match="another ledger"):
        Collector(logs[0], ledger).begin(logs[0], repr(None))
