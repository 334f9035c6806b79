"""The federation on Ray has one searcher per agent and survives the loss of servers and hosts in mid-round.

Where a test waits for rounds, the server's time-out is ten minutes: a round with a missing message would block the test
beyond its own limit.
"""

import pickle
import threading
from typing import Any

import numpy as np
import optuna
import pytest
import ray
from optuna.distributions import FloatDistribution
from ray import cloudpickle

import dptune
from by_hand import local
from dptune.federated import FTSServer, InProcess
from dptune.federated.messages import Message
from dptune.privacy.noise import SeededNoise, SeededSample
from dptune_optuna import DPFTSSampler
from dptune_ray import Federation, RayTransport
from dptune_ray.actors import Actor, in_parts
from dptune_ray.federated import AgentSpace, Host
from dptune_ray.log import TrialLog
from dptune_ray.transport import Server
from dptune_ray.worker import PickledFunction
from federation_harness import LONG, ROUNDS, SETTINGS, open_plan, open_searches, result_of, serve, value
from ray_harness import SPACE, found, wait_until

pytestmark = local


class Seeded(Server):
    """Its noise and samples are those of any other such one."""

    def __init__(self, ledger, *about):
        super().__init__(ledger, *about)
        self.server = FTSServer(ledger, SETTINGS, noise=SeededNoise(5), samples=SeededSample(5))


def new_life(local_actors, folder, kind=Server):
    """Put a new life of the server in the place of the one that runs; return it."""
    (name,) = local_actors
    local_actors[name] = Actor(*in_parts(kind, open_plan(folder), SETTINGS, LONG))
    return local_actors[name].served.server


def step(searches, trials):
    configs: list[list[dict[str, Any]]] = [[] for _ in searches]
    for k in trials:
        for n, search in enumerate(searches):
            config = search.suggest(f"a{n}t{k}")
            configs[n].append(config)
            search.on_trial_complete(f"a{n}t{k}", result_of(value(n, config), config))
    return configs


def a_message(n, size=1.0):
    return Message(n, 0, np.full(SETTINGS.M, size))


def observed(folder, agent):
    """What an agent's file has."""
    return [one.value for one in TrialLog.at("trials", folder / f"agent{agent}.db", f"agent {agent}").since(-1)]


def suggested(trial):
    return {"x": trial.suggest_float("x", -1, 1), "y": trial.suggest_float("y", 1e-3, 1e1, log=True)}


def test_optuna_and_ray_visit_the_same_points_with_the_same_noise(fast_path, local_actors):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions = {"x": FloatDistribution(-1.0, 1.0), "y": FloatDistribution(1e-3, 1e1, log=True)}
    folders = [fast_path / "optuna", fast_path / "ray"]
    for folder in folders:
        folder.mkdir()
    transport = Seeded(open_plan(folders[0]), SETTINGS, LONG)
    studies = [
        optuna.create_study(sampler=DPFTSSampler(transport, SETTINGS, distributions, agent=n, seed=1))
        for n in range(SETTINGS.agents)
    ]
    points = range(SETTINGS.initial + ROUNDS + 2)
    for _ in points:
        for n, study in enumerate(studies):
            study.optimize(lambda t, n=n: value(n, suggested(t)), 1)
    transport = serve(folders[1])
    new_life(local_actors, folders[1], Seeded)
    searches = open_searches(folders[1], transport)
    configs = step(searches, points)
    for study, visited, search in zip(studies, configs, searches, strict=True):
        assert [t.params for t in study.trials] == visited
        assert search.recommend() == study.best_params


def test_completion_may_come_twice_or_without_a_result(fast_path):
    transport = serve(fast_path)
    searches = open_searches(fast_path, transport)
    for k in range(SETTINGS.initial + 2):
        for n, search in enumerate(searches):
            trial, config = f"a{n}t{k}", search.suggest(f"a{n}t{k}")
            result = result_of(value(n, config), config)
            for told in {0: [result["value"], -7.0], 1: [float("nan")]}.get(n, [result["value"]]):
                search.on_trial_complete(trial_id=trial, result={**result, "value": told}, error=False)
    assert transport.open_round() == len(open_plan(fast_path).charges()) == 2
    for n, known in ((0, SETTINGS.initial + 2), (1, 0)):
        assert len(searches[n].alive()[1].agent) == len(observed(fast_path, n)) == known
    assert all(value >= 0 for value in observed(fast_path, 0))


def test_agents_whose_drivers_died_go_on_from_their_files(fast_path, local_actors):
    step(open_searches(fast_path, serve(fast_path)), range(SETTINGS.initial + 1))
    local_actors.clear()  # the server's driver died, too
    transport = serve(fast_path)
    assert transport.open_round() == 1
    before = open_plan(fast_path).charges()
    searches = open_searches(fast_path, transport)
    stale = pickle.loads(cloudpickle.dumps(searches[2]))
    assert len(stale.alive()[1].agent) == SETTINGS.initial + 1
    for search in searches:
        search.alive()[1].send()  # one thread drives them all: none may wait for another
    step(searches, range(10, 12))
    assert transport.open_round() == 3
    assert open_plan(fast_path).charges()[:1] == before


class Unreachable(InProcess):
    """A server to which no message comes."""

    def submit(self, message):
        raise ConnectionError


def test_an_exception_in_completion_does_not_fail_a_good_trial(fast_path, caplog):
    search = open_searches(fast_path, Unreachable(FTSServer(open_plan(fast_path), SETTINGS), timeout=LONG))[0]
    for trial in range(SETTINGS.initial):
        search.on_trial_complete(f"{trial}", result_of(0.5, search.suggest(f"{trial}")))
    assert observed(fast_path, 0) == [0.5] * SETTINGS.initial
    assert caplog.text.count("could not send its message: ConnectionError") == 1


# ---- the transport: nothing is lost with a server --------------------------------------------------------


def test_a_server_that_was_restarted_in_mid_round_gets_the_messages_again(fast_path, local_actors):
    transport, other = serve(fast_path), RayTransport()
    for n in range(3):
        transport.submit(a_message(n))
    with pytest.raises(dptune.errors.AlreadySent):
        transport.submit(a_message(0))
    with pytest.raises(dptune.errors.MessageRefused):
        other.submit(a_message(SETTINGS.agents))  # not kept, or it would be sent again
    other.submit(a_message(3))
    server = new_life(local_actors, fast_path)
    assert server.sent == frozenset()
    waiting = threading.Thread(target=other.fetch, args=(0,), daemon=True)
    waiting.start()  # it sends its own message again
    wait_until(lambda: server.sent == {3})
    first = transport.fetch(0)
    assert np.array_equal(other.fetch(0), first)
    assert len(open_plan(fast_path).charges()) == 1
    waiting.join()  # else it would look for the server when that has ended
    new_life(local_actors, fast_path)
    assert np.array_equal(RayTransport().fetch(0), first)


def test_a_transport_is_pickled_without_messages(fast_path):
    transport = serve(fast_path)
    transport.submit(a_message(0, size=0.123456789))
    written = cloudpickle.dumps(transport)
    assert found([0.123456789], [("pickle", written)]) == []
    assert pickle.loads(written).settings() == SETTINGS.describe()


# ---- agents on hosts -----------------------------------------------------------------------------------


def a_host(transport, agents=(0, 1, 2, 3), objective=value):
    space = AgentSpace.of(SPACE, SETTINGS)
    return Host(PickledFunction(objective), space, transport, agents, seed=1, mode="min", silent=False)


@pytest.mark.parametrize("at", [1, SETTINGS.initial + 2])
def test_a_host_that_was_lost_repeats_its_agents_and_goes_on(fast_path, local_actors, at):
    points, histories = SETTINGS.initial + ROUNDS + 2, []
    for lost in (False, True):
        local_actors.clear()
        folder = fast_path / f"{lost}"
        folder.mkdir()
        transport = serve(folder)
        new_life(local_actors, folder, Seeded)
        host = a_host(transport)
        assert host.advance(at) == at
        if lost:
            host = a_host(RayTransport())
        assert host.advance(points) == points
        histories.append([(one.agent.X, one.agent.y) for one in host.agents])
        assert len(open_plan(folder).charges()) == ROUNDS
        assert host.best(points).keys() == {0, 1, 2, 3}
    for before, after in zip(*histories, strict=True):
        np.testing.assert_array_equal(before[0], after[0])
        np.testing.assert_array_equal(before[1], after[1])


def test_evaluations_that_fail_send_messages_all_the_same(fast_path):
    def sometimes(agent, config):
        if agent == 1:
            raise (SystemExit if config["x"] > 0 else KeyboardInterrupt)("private")
        return {0: 0.5, 2: float("inf"), 3: "text"}[agent]

    transport = serve(fast_path)
    host = a_host(transport, objective=sometimes)
    host.advance(SETTINGS.initial + 2)
    assert transport.open_round() == 2
    assert [len(one.agent) for one in host.agents] == [SETTINGS.initial + 2, 0, 0, 0]
    best = host.best(SETTINGS.initial + 2)
    assert best == {0: (best[0][0], 0.5)}


def test_a_host_that_always_dies_is_given_up(fast_path, local_actors):
    def dies(*call):
        raise ray.exceptions.ActorDiedError

    federation = Federation(value, SPACE, serve(fast_path), SETTINGS, hosts=1, mode="min", seed=1, silent=False)
    (host,) = federation.hosts
    assert 0 < host.options["max_restarts"] < 100
    host.call.remote = dies
    for method in (lambda: federation.advance(3), federation.best):
        with pytest.raises(dptune.DptuneError, match="died more often"):
            method()
