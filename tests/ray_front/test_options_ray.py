"""Each option of Ray's front ends arrives where it acts, and the defaults are those of the pages."""

import inspect
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ray import tune
from ray.tune.search import Searcher

import dptune
import dptune_ray
from by_hand import (
    LDP_SPACE,
    ONE,
    Half,
    NoNoise,
    begin,
    local,
    open_ldp,
    open_private,
    run,
    satisfaction,
    value_of,
)
from dptune.local import LDPATA, LDPTGP, LDPMoMA, LocalRandomizer, UserLedger
from dptune_ray import (
    DPFTSSearch,
    Federation,
    RayPlace,
    RayTransport,
    lines,
    places,
    repeats,
    spaces,
)
from dptune_ray import search as search_module
from dptune_ray.local import LDPSearch
from dptune_ray.search import SpaceSearch
from federation_harness import SETTINGS, open_plan, result_of, serve
from noises import NoNoise as Noiseless
from ray_harness import SPACE, open_centred, open_privatizer, open_search
from ray_people import losses

DEFAULTS: dict[Callable[..., Any], dict[str, Any]] = {
    dptune_ray.choose: {"cv": 5, "candidates": 200, "public_weight": 1.0, "even_if_hopeless": False, "dry_run": False}
    | {"averages": False},
    SpaceSearch: {"name": "tune", "metric": "loss", "unprotected": "refuse"},
    dptune_ray.PrivateSearcher: {"metric": "loss"},
    SpaceSearch.trainable: {"silent": True},
    SpaceSearch.estimate: {"early": False},
    LDPSearch: {"name": "tune", "count": 128, "patience": 1000, "metric": "reply"},
    LDPSearch.trainable: {"silent": True},
    dptune_ray.DPFTSSearch: {"metric": "value"},
    dptune_ray.Federation: {"silent": True},
    RayTransport: {"name": "federation"},
    RayTransport.serve: {"name": "federation"},
    dptune_ray.RayPlace: {"timeout": 600.0},
    dptune_ray.repeat_and_select: {"secure": True},
}


@pytest.mark.parametrize("function", DEFAULTS, ids=lambda each: each.__qualname__)
def test_options_have_the_defaults_of_the_pages(function: Callable[..., Any]) -> None:
    parameters = inspect.signature(function).parameters.values()
    found = {each.name: each.default for each in parameters if each.default not in (None, each.empty)}
    assert found == DEFAULTS[function]


# ---- processes ---------------------------------------------------------------------------------------------


@local
def test_actors_are_started_with_these_options(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = begin(open_centred(open_privatizer(fast_path)))._handle
    handle.options.pop("scheduling_strategy")
    restarts = {"max_restarts": 5, "max_task_retries": 5}
    assert handle.options == {"name": handle.name, "get_if_exists": True, "num_cpus": 0, **restarts}
    started: list[Any] = []
    monkeypatch.setattr(places, "start", lambda options, *about: started.append(options))
    assert repr(RayPlace("north", print)) == "RayPlace('north')"
    RayPlace("north", print, resources={"north": 1}, num_cpus=0.5, max_restarts=-1)
    assert started[0] == {"num_cpus": 1, **restarts}
    assert started[1] == {"num_cpus": 0.5, "max_restarts": -1, "max_task_retries": 5, "resources": {"north": 1}}


seen: dict[int, list[float]] = {}  # an agent's values


def objective(agent: int, config: Any) -> float:
    seen[agent].append(config["x"] + agent)
    return float(seen[agent][-1])


@local
@pytest.mark.parametrize(("mode", "sign"), [("min", -1), ("max", 1)])
def test_a_federation_gives_each_option_to_its_hosts(fast_path: Path, local_actors: Any, mode: str, sign: int) -> None:
    seen.update({n: [] for n in range(4)})
    about = {"hosts": 3, "mode": mode, "seed": 5, "options": {"num_cpus": 0.5}, "silent": False}
    federation = Federation(objective, SPACE, serve(fast_path), SETTINGS, **about)
    federation.advance(SETTINGS.initial)
    federation.advance(1)  # they have more
    hosts = [local_actors[host.options.pop("name")].served for host in federation.hosts]
    usual = {"num_cpus": 0.5, "max_restarts": 10, "max_task_retries": -1}
    assert [host.options for host in federation.hosts] == [usual] * 3
    assert [(host.numbers, host.seed, host.mode, host.silent) for host in hosts] == [
        (numbers, 5, mode, False) for numbers in ((0, 3), (1,), (2,))
    ]
    best = federation.best()
    assert [len(values) for values in seen.values()] == [SETTINGS.initial] * 4
    assert [*best] == [0, 1, 2, 3]
    assert [value for _, value in best.values()] == [max(values, key=lambda v: sign * v) for values in seen.values()]
    assert federation._points == SETTINGS.initial


def test_repeats_pass_every_option_on(monkeypatch: pytest.MonkeyPatch, fast_path: Path) -> None:
    asked: list[Any] = []
    noise, only = Noiseless(), [{"rate": 0.25}]
    monkeypatch.setattr(repeats, "on_this_node", lambda: "here")
    monkeypatch.setattr(repeats, "in_own_process", lambda call, **how: (asked.append(how), call())[1])
    monkeypatch.setattr(repeats, "_repeat_and_select", lambda once, ledgers, **how: (once(), ledgers, how))
    about = {"clip": (0.0, 2.0), "candidates": only, "secure": False, "noise": noise, "options": {"num_gpus": 1}}
    space = {"rate": tune.uniform(0.0, 1.0), "depth": 3}
    once, ledgers, settings = repeats.repeat_and_select(lambda c: ("model", [c["rate"]]), space, ["a", "b"], **about)
    assert once == ({"rate": 0.25, "depth": 3}, "model", [0.25])
    assert (ledgers, settings) == (["a", "b"], {"clip": (0.0, 2.0), "secure": False, "noise": noise})
    usual = {"num_cpus": 1, "scheduling_strategy": "here", "num_gpus": 1}
    assert asked == [{"silent": True, "options": usual}]


@local
def test_a_final_estimate_passes_every_option_on(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default = {"x": -0.5, "y": 1.0}
    one = begin(open_search(open_privatizer(fast_path), mu=0.5, default=default))
    trainable, asked = one.trainable(losses, silent=False), []
    monkeypatch.setattr(search_module, "in_own_process", lambda call, **how: asked.append((call.args[1], how)))
    config = {"x": 0.1, "y": 2.0, "kernel": "rbf"}
    with pytest.raises(dptune.InputError, match="is not complete"):
        one.estimate(trainable, config)
    one.estimate(trainable, config, early=True)
    options = {"num_cpus": 1}
    assert asked == [([config, {**default, "kernel": "rbf"}], {"silent": False, "options": options})]
    assert [one.trainable(**about)(losses).silent for about in ({}, {"silent": False})] == [True, False]


# ---- searchers ----------------------------------------------------------------------------------------------


@local
@pytest.mark.parametrize(("mode", "sign"), [("min", -1.0), ("max", 1.0)])
def test_an_agent_maximises_or_minimises_after_a_restart_too(fast_path: Path, mode: str, sign: float) -> None:
    transport, told = serve(fast_path), [0.5, 3.0, -2.0]
    about = {"agent": 0, "trials": fast_path / "a.db", "seed": 1}
    one = begin(DPFTSSearch(transport, SETTINGS, SPACE, **about), mode)
    configs = [one.suggest(str(number)) for number in range(3)]
    for number, (value, config) in enumerate(zip(told, configs, strict=True)):
        one.on_trial_complete(str(number), result_of(value, config))
    again = begin(DPFTSSearch(transport, SETTINGS, SPACE, **about), mode)
    for search in (one, again):
        assert search.alive()[1].agent.values == [sign * value for value in told]
        assert search.recommend() == pytest.approx(configs[1 if mode == "max" else 2])


@local
@pytest.mark.parametrize("patience", [2, 0])
def test_a_searcher_waits_for_as_many_users_as_its_patience(fast_path: Path, patience: int) -> None:
    one = begin(open_ldp(fast_path, patience=patience), "max", LDP_SPACE)
    seen, asked = [], []
    users = one.run()
    plain, users.ask = users.ask, lambda trying: seen.append([*trying]) or plain(seen[-1])
    for trial in "abcd":
        one.suggest(trial)
        asked.append(one._trying[trial])
    assert seen == [asked[max(0, k - patience) : k] for k in range(4)]


@local
def test_each_searcher_of_users_has_its_algorithm_and_candidates(fast_path: Path) -> None:
    kinds = {dptune_ray.LDPTGPSearch: LDPTGP, dptune_ray.LDPATASearch: LDPATA, dptune_ray.LDPMoMASearch: LDPMoMA}
    only = [{"x": -0.5, "n": 3}, {"x": 0.25, "n": 70}]
    for number, (kind, algorithm) in enumerate(kinds.items()):
        one = begin(open_ldp(fast_path, kind, name=f"{number}", candidates=only), "max", LDP_SPACE)
        assert type(one.run().bandit) is algorithm
        assert {one.suggest(str(trial))["n"] for trial in range(8)} <= {3, 70}


@local
def test_a_user_is_who_the_configuration_says(fast_path: Path, caplog: Any) -> None:
    ledger, space = UserLedger(fast_path / "users.db", cap=2.0), {**LDP_SPACE, "user": tune.choice(["ann", "bob"])}
    one = open_ldp(fast_path, param_space=space, settings=ONE)
    device = {"randomizer": LocalRandomizer(1.0, 1.0), "ledger": ledger, "user": lambda config: config["user"]}
    trainable = one.trainable(satisfaction, **device)
    config = begin(one, "max", space).suggest("a")
    value_of(trainable, "a", {**config, "user": "bob"})
    assert [ledger.spent(user) for user in ("ann", "bob")] == [0.0, 1.0]
    one.trainable(satisfaction, randomizer=(plain := NoNoise(1.0, 1.0)))
    assert caplog.messages[-1] == f"The run 'run' is NOT PRIVATE: {plain!r}."


class Waiting(Half):
    def set_max_concurrency(self, max_concurrent: int) -> bool:
        return max_concurrent == 7


@local
def test_a_private_searcher_asks_its_inner_searcher(fast_path: Path, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "dptune_ray")
    outer = open_private(open_privatizer(fast_path), Waiting("loss", "max"))
    assert (outer.mode, [outer.set_max_concurrency(k) for k in (7, 8)]) == ("max", [True, False])
    plain = Searcher("loss", "max")
    plain.suggest = lambda trial: {"x": 0.5, "y": 1.0}
    plain.set_search_properties = lambda *about, **more: True
    for number in range(2):  # the second one's searcher is given the first one's value
        one = begin(open_private(open_privatizer(fast_path), plain), "max")
        config = one.suggest(str(number))
        one.vault.finish(str(number), config, 4 - losses(config))
    assert caplog.messages.count("the inner searcher does not accept values of earlier trials.") == 1


@local
def test_a_search_without_a_space_of_its_own_is_restored_with_one(fast_path: Path, local_actors: Any) -> None:
    search = begin(open_search(open_privatizer(fast_path), param_space=None), "max")
    search.save(str(fast_path / "state"))
    fresh = open_search(open_privatizer(fast_path), param_space=None)
    fresh.restore(str(fast_path / "state"))
    assert fresh.mode == "max"
    assert fresh.suggest("a").keys() == {"x", "y"}


@local
def test_a_run_begins_and_ends_with_these_lines(fast_path: Path, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "dptune_ray")
    space = {**SPACE, "kernel": tune.choice(["a", "b"])}
    for name, noise, level in (("mine", None, "INFO"), ("yours", Noiseless(), "WARNING")):
        caplog.clear()
        (fast_path / name).mkdir()
        search = open_centred(open_privatizer(fast_path / name, noise=noise), name=name, param_space=space)
        begin(search, space=space)
        told = {each.getMessage().split("\n")[0]: each.levelname for each in caplog.records}
        assert [shown for line, shown in told.items() if line.startswith(f"Plan: the run '{name}' makes 12")] == [level]
        (drawn,) = [line for line in told if line.startswith("Drawn")]
        run(search, 4)
        search.recommend()
        left = f"The run '{name}' is not complete. 4 of 12 planned trials are made, and 1 of 3 generations."
        resume = f"To resume, fit a Tuner with num_samples=-1 and a searcher named '{name}'."
        assert (caplog.messages[-1].startswith(left), caplog.messages[-1].endswith(resume)) == (True, True)
        assert drawn.startswith("Drawn at random, and not searched: 'kernel'. Private searches take numbers only.")


@local
def test_a_value_without_a_release_is_allowed_on_request(fast_path: Path) -> None:
    search = begin(open_search(open_privatizer(fast_path), unprotected="allow"))
    search.suggest("a")
    for call in (search.on_trial_result, search.on_trial_complete):
        assert call("a", {"loss": 0.123}) is None
    assert search.suggest("b")


@local
def test_the_longest_message_of_an_agent_is_one_call(fast_path: Path) -> None:
    longest = replace(SETTINGS, M=8192)
    assert RayTransport.serve(open_plan(fast_path), longest, timeout=600.0).settings()["M"] == 8192


# ---- spaces and lines ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "pairs"),
    [
        (tune.qloguniform(0.5, 64.0, 0.5), {0.9: 1.0, 1.2: 1.0, 0.1: 0.5, 99.0: 64.0}),
        (tune.qlograndint(4, 250, 8), {7: 8, 11: 8, 13: 16, 249: 248, 4: 8}),
        (tune.loguniform(0.5, 64.0), {0.9: 0.9}),
    ],
)
def test_a_quantised_log_scale_gives_the_nearest_multiple(domain: Any, pairs: dict[Any, Any]) -> None:
    assert {value: spaces.rounded(domain, value) for value in pairs} == pairs


def test_lines_are_printed_once_and_where_nobody_else_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    record = logging.LogRecord("a", logging.INFO, "", 1, "text", None, None)
    for handlers, printed in (([], True), ([logging.NullHandler()], False)):
        monkeypatch.setattr(logging.getLogger(), "handlers", handlers)
        assert bool(lines.Console().filter(record)) == printed
    for name, before, after, added in (("a_package", logging.NOTSET, logging.INFO, 1), ("b", 40, 40, 0)):
        monkeypatch.setattr(lines, "__package__", name)
        logger = logging.getLogger(name)
        logger.setLevel(before)
        for _ in range(2):
            lines.show_lines()
        assert (logger.level, [type(each) for each in logger.handlers]) == (after, [lines.Console] * added)
        logger.handlers.clear()
