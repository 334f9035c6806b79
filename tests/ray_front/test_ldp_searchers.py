"""The LDP searchers: a trial's process is the user's device, the collector charges, and nobody else sees a value."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution, IntDistribution
from ray import cloudpickle, tune

import dptune
from dptune.local.randomizer import LocalRandomizer
from dptune_optuna import LocalObjective
from dptune_ray import LDPMoMASearch, LDPTGPSearch
from dptune_ray.actors import ActorClient
from ldp_harness import (
    KINDS,
    ONE,
    SECRET,
    SETTINGS,
    SPACE,
    NoNoise,
    begin,
    local,
    open_search,
    reply_of,
    run,
    satisfaction,
    told,
)
from ray_harness import folder_bytes, found, object_store_bytes, tuner


@local
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["min", "max"])
def test_optuna_and_ray_ask_for_the_same_points_with_the_noise_off(tmp_path: Path, kind: Any, mode: str) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    randomizer = NoNoise(8.0, 1.2, invalid=1.2 if mode == "min" else None)
    distributions = {"x": FloatDistribution(-1.0, 1.0), "n": IntDistribution(1, 100, log=True)}
    sampler = KINDS[kind](distributions, SETTINGS, count=24, seed=1)
    study = optuna.create_study(sampler=sampler, direction=f"{mode}imize")

    def objective(trial: optuna.Trial) -> float:
        return satisfaction({"x": trial.suggest_float("x", -1, 1), "n": trial.suggest_int("n", 1, 100, log=True)})

    study.optimize(LocalObjective(objective, randomizer), n_trials=30)
    search = open_search(tmp_path, kind)
    trainable = search.trainable(satisfaction, randomizer=randomizer)
    assert run(begin(search, mode), trainable, range(30)) == [t.params for t in study.trials]
    assert search.recommend() == sampler.recommend(study)


@local
def test_a_trial_that_runs_again_pays_once_and_has_one_reply(tmp_path: Path) -> None:
    ledger, calls = dptune.local.UserLedger(tmp_path / "users.db", cap=2.0), []

    def counted(config: dict[str, Any]) -> float:
        calls.append(config)
        return satisfaction(config)

    search = open_search(tmp_path, settings=ONE)
    trainable = search.trainable(counted, randomizer=LocalRandomizer(1.0, 1.0), ledger=ledger, user="me")
    begin(search)
    config = search.suggest("a")
    first = reply_of(trainable, "a", config)
    assert reply_of(trainable, "a", config) == first
    assert (ledger.spent("me"), len(calls)) == (1.0, 1)
    with pytest.raises(dptune.errors.KeyConflict):
        reply_of(trainable, "a", {**config, "x": 0.123})
    reply_of(trainable, "b", search.suggest("b"))
    with pytest.raises(dptune.errors.CapReached):
        reply_of(trainable, "c", search.suggest("c"))
    assert (ledger.spent("me"), len(calls)) == (2.0, 2)
    assert len(search._log.since(-1)) == 2


@local
@pytest.mark.parametrize("call", ["never", "twice", "none", "error"])
def test_what_tune_says_of_completion_is_not_needed(tmp_path: Path, call: str) -> None:
    said, unsaid = open_search(tmp_path), open_search(tmp_path, name="other")
    for search in (said, unsaid):
        trainable = search.trainable(satisfaction, randomizer=NoNoise(8.0, 1.2))
        begin(search)
        for trial in ("a", "b", "c", "d"):
            reply = reply_of(trainable, trial, search.suggest(trial))
            if search is said and call == "twice":
                search.on_trial_complete(trial, {"reply": reply})
                search.on_trial_complete(trial_id=trial, result={"reply": reply}, error=False)
            elif search is said and call != "never":
                search.on_trial_complete(trial, None, call == "error")
    assert said.suggest("e") == unsaid.suggest("e")
    assert len(said._log.since(-1)) == 4


@local
def test_a_stale_copy_and_a_fresh_searcher_know_all_replies(tmp_path: Path) -> None:
    search = open_search(tmp_path)
    trainable = search.trainable(satisfaction, randomizer=NoNoise(8.0, 1.2))
    begin(search)
    stale = cloudpickle.dumps(search)
    search.save(str(tmp_path / "state"))
    run(search, trainable, range(9))
    fresh = open_search(tmp_path, param_space=None)
    fresh.restore(str(tmp_path / "state"))
    restarted = begin(open_search(tmp_path))
    asked = search.suggest("next")
    for other in (pickle.loads(stale), fresh, restarted):
        if other is fresh:
            assert other.mode == "max"
        assert other.recommend() == search.recommend()
        assert other.suggest("next") == asked


@local
def test_users_who_are_asked_at_the_same_time_try_different_points_until_they_are_lost(tmp_path: Path) -> None:
    search = open_search(tmp_path, patience=2)
    trainable = search.trainable(satisfaction, randomizer=NoNoise(8.0, 1.2))
    begin(search)
    run(search, trainable, range(3))
    together = [search.suggest(trial) for trial in ("a", "b", "c")]
    assert together[0] != together[1]
    assert list(search._trying) == ["a", "b", "c"]
    search.suggest("d")
    assert list(search._trying) == ["b", "c", "d"]  # the first of them has not replied for too long
    search.on_trial_complete("c", None, True)
    assert list(search._trying) == ["b", "d"]


@local
def test_a_reported_value_that_is_not_the_trials_reply_ends_the_experiment(tmp_path: Path) -> None:
    search = open_search(tmp_path)
    trainable = search.trainable(satisfaction, randomizer=NoNoise(8.0, 1.2))
    begin(search)
    reply = reply_of(trainable, "a", search.suggest("a"))
    search.on_trial_result("a", {"reply": reply})
    for trial, value in (("a", reply + 0.1), ("unknown", reply)):
        with pytest.raises(dptune.PrivacyError, match="no release paid for"):
            search.on_trial_result(trial, {"reply": value})
    with pytest.raises(dptune.PrivacyError):
        search.suggest("b")


@local
@pytest.mark.parametrize("wrong", ["value", "nothing", "text", "exception object", "raises", "exits", "interrupts"])
def test_the_collector_is_sent_replies_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    sent: list[bytes] = []
    plain = ActorClient.call

    def spied(self: ActorClient, method: str, *args: Any) -> Any:
        sent.append(repr(args).encode() + pickle.dumps(args))
        return plain(self, method, *args)

    def private(config: dict[str, Any]) -> Any:
        config["leak"] = SECRET
        if wrong == "raises":
            raise ValueError(f"my value is {SECRET}")
        if wrong == "exits":
            raise SystemExit(str(SECRET))
        if wrong == "interrupts":
            raise KeyboardInterrupt(SECRET)
        known = {"value": SECRET, "nothing": None, "text": f"{SECRET}!", "exception object": ValueError(SECRET)}
        return known[wrong]

    monkeypatch.setattr(ActorClient, "call", spied)
    ledger = dptune.local.UserLedger(tmp_path / "users.db", cap=2.0)
    search = open_search(tmp_path, settings=ONE)
    trainable = search.trainable(private, randomizer=LocalRandomizer(1.0, 1.0), ledger=ledger, user="me")
    begin(search)
    config = search.suggest("a")
    assert np.isfinite(reply_of(trainable, "a", config))
    assert set(config) == {"x", "n"}
    assert len(sent) == 4
    assert found([SECRET], [("sent", b"".join(sent)), *folder_bytes(tmp_path)]) == []
    clamped = open_search(tmp_path, name="clamped", settings=ONE)
    trainable = clamped.trainable(private, randomizer=NoNoise(1.0, 1.0))
    begin(clamped)
    assert reply_of(trainable, "a", clamped.suggest("a")) == (SECRET if wrong == "value" else -1.0)


@local
def test_a_run_keeps_its_mode_and_its_randomiser_and_failures_never_win(tmp_path: Path) -> None:
    search, other = open_search(tmp_path), open_search(tmp_path)
    trainable = search.trainable(satisfaction, randomizer=NoNoise(8.0, 1.2))
    with pytest.raises(dptune.InputError, match=r"would win.*invalid=-?1\.2"):
        search.set_search_properties("reply", "min", SPACE)
    begin(search)
    run(search, trainable, range(2))
    with pytest.raises(dptune.InputError, match="the other mode"):
        other.set_search_properties("reply", "min", SPACE)
    calls: list[Any] = []
    other = open_search(tmp_path)
    elsewhere = other.trainable(calls.append, randomizer=NoNoise(8.0, 1.2, invalid=0.5))
    begin(other)
    with pytest.raises(dptune.InputError, match="another randomiser"):
        reply_of(elsewhere, "new", search.suggest("new"))
    assert calls == []


@local
def test_the_middle_of_the_interval_is_the_randomisers(tmp_path: Path) -> None:
    wide = told(8.0, 1.5)
    given, found_out = (
        open_search(tmp_path, name=name, centre=centre, settings=wide) for name, centre in (("one", 0.5), ("two", None))
    )
    asked = []
    for search in (given, found_out):
        trainable = search.trainable(satisfaction, randomizer=NoNoise(8.0, (-1.0, 2.0)))
        run(begin(search), trainable, range(6))
        asked.append(search.suggest("next"))
    assert asked[0] == asked[1]
    assert open_search(tmp_path, name="two", mode="max", settings=wide).recommend() == found_out.recommend()
    wrong = open_search(tmp_path, name="three", centre=0.4, settings=wide)
    wrong.trainable(satisfaction, randomizer=NoNoise(8.0, (-1.0, 2.0)))
    with pytest.raises(dptune.InputError, match="Leave centre= out"):
        begin(wrong)


@local
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("replies", "says"), [((8.0, 1000.0), "epsilon=8.0 and B"), ((2.0, 1.2), "B . R = 1.2")])
def test_settings_for_other_replies_are_refused_before_any_user_is_asked(
    tmp_path: Path, kind: Any, replies: tuple[float, float], says: str
) -> None:
    right = open_search(tmp_path, kind, settings=told(2.0, 1000.0))
    wrong = open_search(tmp_path, kind, settings=told(*replies))
    randomizer = NoNoise(2.0, 1000.0)
    with pytest.raises(dptune.InputError, match=says) as refused:
        wrong.trainable(satisfaction, randomizer=randomizer)
    assert "epsilon=2.0 and an interval of half-width 1000.0" in str(refused.value)
    run(begin(right), right.trainable(satisfaction, randomizer=randomizer), range(2))
    with pytest.raises(dptune.InputError, match=says):  # the run has stated its randomiser
        open_search(tmp_path, kind, settings=told(*replies))
    for use in (lambda: begin(wrong), wrong.recommend):
        with pytest.raises(dptune.InputError, match=says):
            use()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"patience": -1}, "patience"),
        ({"centre": np.inf}, "centre"),
        ({"param_space": None, "candidates": [{"x": 0.1, "n": 3}]}, "give param_space"),
        ({"candidates": [{"x": 7.0, "n": 3}]}, "inside the space"),
        ({"param_space": {"x": tune.randn()}}, "randn"),
        ({"patience": "1"}, "patience"),
        ({"centre": "0"}, "centre"),
        ({"count": "9"}, "count"),
        ({"replies": None}, "environment variable"),
    ],
)
def test_settings_are_refused_at_once(tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(dptune.InputError, match=message):
        open_search(tmp_path, **wrong)
    with pytest.raises(dptune.InputError, match="needs settings"):
        LDPTGPSearch(SPACE, replies=tmp_path / "replies.db")


def test_a_trainable_needs_a_device(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    search, randomizer = open_search(tmp_path, settings=ONE), LocalRandomizer(1.0, 1.0)
    for wrong in ({"randomizer": None}, {"randomizer": randomizer, "user": "me"}):
        with pytest.raises(dptune.InputError):
            search.trainable(satisfaction, **wrong)
    with pytest.raises(dptune.InputError, match="must be a function"):
        search.trainable(3, randomizer=randomizer)
    with pytest.raises(TypeError):
        search.trainable(lambda config: None, randomizer=randomizer).try_out({})
    with pytest.raises(dptune.InputError, match="no reply yet"):
        search.recommend()
    assert "NOT PRIVATE" not in caplog.text
    search.trainable(satisfaction, randomizer=NoNoise(1.0, 1.0))
    assert "NOT PRIVATE" in caplog.text


@pytest.mark.slow
@pytest.mark.ray
def test_on_a_cluster_users_are_capped_and_no_value_is_anywhere(cluster: Path, fast_path: Path, capfd: Any) -> None:
    died = fast_path / "died"

    def talking(config: dict[str, Any]) -> float:
        if not died.exists():
            died.touch()
            os._exit(1)  # charged, and no reply: the retry pays nothing
        print("value", SECRET, flush=True)
        return SECRET

    ledger = dptune.local.UserLedger(fast_path / "users.db", cap=1.0)
    space = {**SPACE, "user": tune.choice(["ann", "bob"])}
    search = open_search(fast_path, LDPMoMASearch, param_space=space, settings=ONE)
    device = {"randomizer": LocalRandomizer(1.0, 1.0), "ledger": ledger, "user": lambda config: config["user"]}
    run = {"failure_config": tune.FailureConfig(max_failures=1)}
    limits = {"metric": "reply", "mode": "max", "num_samples": 4, "param_space": space, "run": run}
    results = tuner(search.trainable(talking, **device), search, fast_path, **limits).fit()
    replies = search._log.since(-1)
    reported = sorted(r.metrics["reply"] for r in results if not r.error)
    assert reported == sorted(reply.value for reply in replies)
    assert len(reported) == ledger.spent("ann") + ledger.spent("bob") < 4
    assert max(ledger.spent("ann"), ledger.spent("bob")) == 1.0
    assert all("CapReached" in str(r.error) for r in results if r.error)
    assert search.recommend().keys() == {"x", "n"}
    files = [
        *folder_bytes(fast_path, cluster),
        *object_store_bytes(),
        ("console", "".join(capfd.readouterr()).encode()),
    ]
    assert found([SECRET], files) == []
