"""In the LDP searchers a trial's process is the user's device, and only the reply leaves it. The collector charges."""

import os
import pickle

import numpy as np
import pytest
from ray import tune

import dptune
from by_hand import LDP_SPACE, ONE, SECRET, NoNoise, begin, local, open_ldp, played, satisfaction, told, value_of
from dptune.local.randomizer import LocalRandomizer
from dptune_ray import LDPMoMASearch
from dptune_ray.collector import Collector, ReplyRequest
from dptune_ray.log import TrialLog
from ray_harness import folder_bytes, found, object_store_bytes, tuner


def begun(search, mode="max"):
    return begin(search, mode, LDP_SPACE)


@local
def test_a_trial_that_runs_again_pays_once_and_has_one_reply(tmp_path):
    ledger, calls = dptune.local.UserLedger(tmp_path / "users.db", cap=2.0), []
    search = open_ldp(tmp_path, settings=ONE)
    device = {"randomizer": LocalRandomizer(1.0, 1.0), "ledger": ledger, "user": "me"}
    trainable = search.trainable(lambda config: calls.append(config) or satisfaction(config), **device)
    config = begun(search).suggest("a")
    assert value_of(trainable, "a", config) == value_of(trainable, "a", config)
    assert (ledger.spent("me"), len(calls)) == (1.0, 1)
    with pytest.raises(dptune.errors.KeyConflict):
        value_of(trainable, "a", {**config, "x": 0.123})
    value_of(trainable, "b", search.suggest("b"))
    with pytest.raises(dptune.errors.CapReached):
        value_of(trainable, "c", search.suggest("c"))
    assert (ledger.spent("me"), len(calls)) == (2.0, 2)


@local
@pytest.mark.parametrize("wrong", ["value", "text", "exception object", "raises", "interrupts"])
def test_the_collector_is_sent_replies_only(tmp_path, local_actors, wrong):
    sent = []

    def spied(*call):
        sent.append(repr(call).encode() + pickle.dumps(call))
        return plain(*call)

    def private(config):
        config["leak"] = SECRET
        raised = {"raises": ValueError(f"my value is {SECRET}"), "interrupts": KeyboardInterrupt(SECRET)}
        if wrong in raised:
            raise raised[wrong]
        return {"value": SECRET, "text": f"{SECRET}!", "exception object": ValueError(SECRET)}[wrong]

    ledger = dptune.local.UserLedger(tmp_path / "users.db", cap=2.0)
    search = open_ldp(tmp_path, settings=ONE)
    device = {"randomizer": LocalRandomizer(1.0, 1.0), "ledger": ledger, "user": "me"}
    trainable = search.trainable(private, **device)
    config = begun(search).suggest("a")
    (collector,) = local_actors.values()
    plain, collector.call = collector.call, spied
    assert np.isfinite(value_of(trainable, "a", config))
    assert set(config) == {"x", "n"}
    assert len(sent) == 3
    assert found([SECRET], [("sent", b"".join(sent)), *folder_bytes(tmp_path)]) == []
    clamped = open_ldp(tmp_path, name="clamped", settings=ONE)
    trainable = clamped.trainable(private, randomizer=NoNoise(1.0, 1.0))
    assert value_of(trainable, "a", begun(clamped).suggest("a")) == (SECRET if wrong == "value" else -1.0)


@local
@pytest.mark.parametrize("mode", ["min", "max"])
def test_a_search_that_was_restarted_recommends_by_the_runs_mode(tmp_path, mode):
    search = begun(open_ldp(tmp_path), mode)
    played(search, search.trainable(satisfaction, randomizer=NoNoise(8.0, 1.2, invalid=0.0)), 12)
    best, again = search.recommend(), open_ldp(tmp_path).recommend()
    assert again == best
    (tmp_path / "other").mkdir()
    turned = begun(open_ldp(tmp_path / "other"), "max" if mode == "min" else "min")
    played(turned, turned.trainable(satisfaction, randomizer=NoNoise(8.0, 1.2, invalid=0.0)), 12)
    assert turned.recommend() != best


@local
def test_a_run_keeps_its_randomiser_and_failures_never_win(tmp_path):
    search, other, calls = open_ldp(tmp_path), open_ldp(tmp_path), []
    trainable = search.trainable(satisfaction, randomizer=NoNoise(8.0, 1.2))
    with pytest.raises(dptune.InputError, match=r"would win.*invalid=-?1\.2"):
        begun(search, "min")
    played(begun(search), trainable, 2)
    elsewhere = other.trainable(calls.append, randomizer=NoNoise(8.0, 1.2, invalid=0.5))
    with pytest.raises(dptune.InputError, match="another randomiser"):
        value_of(elsewhere, "new", begun(other).suggest("new"))
    assert calls == []


@local
@pytest.mark.parametrize(("replies", "says"), [((8.0, 1000.0), "epsilon=8.0 and B"), ((2.0, 1.2), "B . R = 1.2")])
def test_settings_for_other_replies_are_refused_before_any_user_is_asked(tmp_path, replies, says):
    right, wrong = (open_ldp(tmp_path, settings=told(*about)) for about in ((2.0, 1000.0), replies))
    randomizer = NoNoise(2.0, 1000.0)
    with pytest.raises(dptune.InputError, match=says) as refused:
        wrong.trainable(satisfaction, randomizer=randomizer)
    assert "epsilon=2.0 and an interval of half-width 1000.0" in str(refused.value)
    played(begun(right), right.trainable(satisfaction, randomizer=randomizer), 2)
    again = (lambda: open_ldp(tmp_path, settings=told(*replies)), lambda: begun(wrong), wrong.recommend)
    for use in again:  # the run has stated its randomiser
        with pytest.raises(dptune.InputError, match=says):
            use()


@local
def test_a_bug_is_tried_out_and_a_device_that_protects_nobody_is_named(tmp_path, caplog):
    search, randomizer = open_ldp(tmp_path, settings=ONE), LocalRandomizer(1.0, 1.0)
    with pytest.raises(TypeError):
        search.trainable(lambda config: None, randomizer=randomizer).try_out({})
    assert "NOT PRIVATE" not in caplog.text
    search.trainable(satisfaction, randomizer=NoNoise(1.0, 1.0))
    assert "NOT PRIVATE" in caplog.text


@pytest.mark.slow
@pytest.mark.ray
def test_on_a_cluster_users_are_capped_and_no_value_is_anywhere(cluster, fast_path, capfd):
    died = fast_path / "died"

    def talking(config):
        if not died.exists():
            died.touch()
            os._exit(1)  # charged, and no reply: the retry pays nothing
        print("value", SECRET, flush=True)
        return SECRET

    ledger = dptune.local.UserLedger(fast_path / "users.db", cap=1.0)
    space = {**LDP_SPACE, "user": tune.choice(["ann", "bob"])}
    search = open_ldp(fast_path, LDPMoMASearch, param_space=space, settings=ONE)
    device = {"randomizer": LocalRandomizer(1.0, 1.0), "ledger": ledger, "user": lambda config: config["user"]}
    run = {"failure_config": tune.FailureConfig(max_failures=1)}
    limits = {"metric": "reply", "mode": "max", "num_samples": 3, "param_space": space, "run": run}
    results = tuner(search.trainable(talking, **device), search, fast_path, **limits).fit()
    reported = sorted(r.metrics["reply"] for r in results if not r.error)
    log = TrialLog.at("replies", fast_path / "replies.db", "run")
    assert reported == sorted(reply.value for reply in log.since(-1))
    assert len(reported) == ledger.spent("ann") + ledger.spent("bob") < 3
    assert max(ledger.spent("ann"), ledger.spent("bob")) == 1.0
    assert all("CapReached" in str(r.error) for r in results if r.error)
    assert search.recommend().keys() == {"x", "n"}
    console = "".join(capfd.readouterr()).encode()
    assert found([SECRET], [*folder_bytes(fast_path, cluster), *object_store_bytes(), ("console", console)]) == []


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


def test_a_restarted_collector_keeps_the_charge_and_takes_one_reply(tmp_path, log):
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


def test_two_devices_of_one_trial_pay_for_two_draws_and_none_twice(tmp_path, log):
    ledger = dptune.local.UserLedger(tmp_path / "users.db", cap=2.0)
    collector = Collector(log, ledger)
    for _ in ("one", "that Tune thought lost"):
        assert collector.charge(ask()) is None
    assert ledger.spent("me") == 1.0
    assert [collector.announce(ask(), draw) for draw in ("d", "d", "e", "e")] == [None] * 4  # Ray may repeat a call
    assert ledger.spent("me") == 2.0
    with pytest.raises(dptune.errors.CapReached):
        collector.announce(ask(), "f")
    assert [collector.record(ask(), draw, reply) for draw, reply in (("e", 0.5), ("d", 0.25))] == [0.5, 0.5]
    assert collector.charge(ask()) == 0.5


class Lost(TrialLog):
    """A file of replies that takes none."""

    def record(self, trial, parameters, value):
        raise MemoryError


def test_a_collector_that_dies_before_the_log_restores_the_reply(tmp_path, log):
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
