"""A federation's refusals and notices are read back word by word, with its settings' defaults."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dptune
from dptune import Int, LedgerError, Space
from dptune.federated import FTSServer, FTSSettings, InProcess
from dptune.federated.agent import Domain, FTSAgent, FTSModel
from dptune.federated.domain import domain_of
from dptune.federated.messages import Message
from dptune.federated.transport import Participant
from dptune.privacy.noise import SeededNoise, SeededSample
from federated_audits import PLAN, SETTINGS, full_disk, server

GOOD = np.arange(10.0)
MODEL = FTSModel(SETTINGS)


def settings(**change: Any) -> Callable[[Any], object]:
    return lambda one: replace(SETTINGS, **change)


def submit(*message: Any) -> Callable[[FTSServer], object]:
    return lambda one: one.submit(Message(*message))


def tell(x: Any, y: Any) -> Callable[[Any], object]:
    return lambda one: FTSAgent(MODEL, 0).tell(x, y)


def made(**change: Any) -> Callable[[FTSServer], object]:
    return lambda one: FTSServer(one.ledger, replace(SETTINGS, **change))


def quiet(one: FTSServer) -> object:
    """Sums of which no noise is large enough."""
    one.plan = replace(PLAN, q=1e-200)
    return one.event(0)


def after_all_rounds(one: FTSServer) -> None:
    for t in range(PLAN.steps):
        one.release(t)
    one.submit(Message(0, 0, GOOD))


def not_recorded(one: FTSServer) -> None:
    with full_disk(), pytest.raises(LedgerError):
        one.release(0)
    one.submit(Message(0, 0, GOOD))


def join(one: FTSServer, **change: Any) -> Participant:
    return Participant(FTSAgent(FTSModel(replace(SETTINGS, **change)), 2), InProcess(one, timeout=600.0))


REFUSED: dict[str, tuple[Callable[[FTSServer], object], str]] = {
    "no agents": (settings(agents=0), "agents must be a whole number >= 1; got 0."),
    "a sine without a cosine": (settings(M=21), "M and own_features must be even, a cosine and a sine per frequency."),
    "regions of another space": (
        settings(regions=(3,)),
        "regions must hold one number of intervals for each of 2 coordinates, or nothing.",
    ),
    "more regions than agents": (settings(regions=(3, 3)), "9 regions need at least as many agents; got 7."),
    "a clip of 0": (settings(S=0.0), "S must lie in [1e-06, 1e+06]; got 0.0."),
    "a length": (settings(lengthscale=0.0), "lengthscale must lie in [1e-12, 1e+12]; got 0.0."),
    "an agent's number": (lambda one: FTSAgent(MODEL, "7"), "agents are numbered 0 to 6; got '7'."),
    "an agent's seed": (lambda one: FTSAgent(MODEL, 0, seed=-1), "seed must be a whole number >= 0; got -1."),
    "a point outside": (tell([0.5, 1.5], 1.0), "x must lie in the unit cube."),
    "a value that is NaN": (
        tell([0.5, 0.5], math.nan),
        "a value must be a finite number below 1e+100; got a float. Leave out an evaluation that failed.",
    ),
    "a value whose square overflows": (
        tell([0.5, 0.5], -1e308),
        "a value must be a finite number below 1e+100; got a float. Leave out an evaluation that failed.",
    ),
    "no ledger of a plan": (
        lambda one: FTSServer(one, SETTINGS),
        "FTSServer needs a PlanLedger: PlanLedger(url, SubsampledGaussian(q, z, T), n=N).",
    ),
    "too many agents": (made(agents=50_001), "at most 50000 agents; got 50001."),
    "many agents, of another ledger": (
        made(agents=50_000),
        "this ledger has n=7, not 50000; it is fixed when made or first charged. Open it as it was, or make a "
        "ledger of its own for other people's data. Nothing was charged to it yet: if it was made by mistake, "
        "delete it.",
    ),
    "no noise is large enough": (
        quiet,
        "S=3, q=1e-200 and z=1.5 ask for noise of size 1.06066e+200; no sum survives that.",
    ),
    "other settings": (
        made(S=4.0),
        "this ledger's plan was started with other settings; they fix the weights and so the noise, for good. "
        "Continue with them, or make a ledger of its own for other agents.",
    ),
    "rounds in order": (lambda one: one.release(3), "rounds are released in order; the next is 0, not 3."),
    "a plan that is complete": (after_all_rounds, "all 6 rounds of the plan are released; no message is taken."),
    "a round beyond it": (
        lambda one: one.release(6),
        "the last round of the plan is 5, fixed for good; round 6 is refused and nothing was read.",
    ),
    "a round that is drawn": (not_recorded, "round 0 is drawn and waits to be recorded; a late message counts as 0."),
    "a second message": (
        lambda one: [one.submit(Message(4, 0, GOOD)) for _ in "ab"],
        "agent 4 has sent its message of round 0 already.",
    ),
    "no server": (lambda one: InProcess(one.ledger, timeout=600.0), "InProcess needs an FTSServer; got PlanLedger."),
    "no transport": (
        lambda one: Participant(FTSAgent(MODEL, 2), one),
        "an agent needs a transport, e.g. InProcess(server, timeout=...); got FTSServer.",
    ),
    "an agent with other settings": (
        lambda one: join(one, S=9.0, seed=1),
        "agent 2 and the server have other settings of ['S', 'features', 'seed']; they must agree. Other "
        "'features' alone: another version of NumPy draws them; install the same.",
    ),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", REFUSED)
def test_a_federation_refuses_in_these_words(case: str, fast_path: Path) -> None:
    call, message = REFUSED[case]
    with pytest.raises(dptune.DptuneError) as told:
        call(server(fast_path, "one"))
    assert str(told.value) == message


def test_as_many_regions_as_agents_are_enough() -> None:
    assert replace(SETTINGS, agents=6, regions=(3, 2)).P == 6


def test_settings_have_the_defaults_of_their_page() -> None:
    described = FTSSettings(agents=29, d=4).describe()
    del described["features"]
    assert described == {
        **{"algorithm": "DP-FTS-DE", "agents": 29, "d": 4, "M": 50, "lengthscale": 0.25, "noise": 0.1, "regions": []},
        **{"S": 3.0, "a": 15.0, "hold": 10, "decay": 30, "joint": 1.0, "spread": 0.0, "own_features": 100},
        **{"initial": 10, "refit": 10, "candidates": 512, "seed": 0},
    }


def test_a_server_says_its_round_and_what_is_not_private(fast_path: Path) -> None:
    for name, sources in {"a": {}, "b": {"noise": SeededNoise(3)}, "c": {"samples": SeededSample(3)}}.items():
        one = server(fast_path, name, **sources)
        one.release(0)
        (charge,) = one.ledger.charges()
        assert repr(one) == f"FTSServer(agents=7, round=1 of 6{', NOT PRIVATE' if sources else ''})"
        assert (one.private, charge.private) == (not sources, not sources)
        assert "weighted sums of clipped messages" in charge.description.values()


def test_an_agent_hears_of_lost_rounds_in_these_words(fast_path: Path) -> None:
    one, heard = server(fast_path, "one"), list[str]()
    agent = Participant(FTSAgent(MODEL, 2), InProcess(one, timeout=600.0), notice=heard.append)
    for released in (1, 2, 3):
        agent.send()
        agent._sent = None
        for _ in range(released):
            one.release(one.open_round)
    agent.send()
    Participant(FTSAgent(MODEL, 2), InProcess(one, timeout=600.0), notice=heard.append)
    about = "released without it: unless another process of its own did, it counted as 0. The time-out should exceed"
    assert heard == [
        *(
            f"agent 2 sent nothing from here in {which}, {about} an agent's slowest evaluation."
            for which in ("round 2", "rounds 4 to 5")
        ),
        "agent 2 gets no more broadcasts: all 6 planned rounds are released. It continues without the federation.",
    ]


# ---- an agent's numbers ----------------------------------------------------------------------------------


def observing(observations: int, **change: Any) -> FTSAgent:
    agent = FTSAgent(FTSModel(replace(SETTINGS, own_features=20, **change)), 1, seed=7)
    for x in np.random.default_rng(3).random((observations, 2)):
        agent.tell(x, float(np.sin(5 * x[0]) * x[1]))
    return agent


def test_an_agent_fits_at_four_observations_and_after_each_refit() -> None:
    assert observing(3).hyperparameters().noise == 0.01  # the prior's
    agent = observing(4, refit=3)
    first = agent.hyperparameters()
    assert first.noise != 0.01
    for told, fitted in ((1, False), (2, False), (3, True), (4, False), (5, False), (6, True)):
        agent.tell([0.1 * told, 0.9 - 0.1 * told], 0.3 * told)
        assert (agent.hyperparameters() is not first) == fitted, told
        first = agent.hyperparameters()


def test_initial_points_of_a_finite_domain_are_the_agents_own_first() -> None:
    points = np.random.default_rng(0).random((12, 2))
    model = FTSModel(SETTINGS, Domain(points))
    mine = int((model.regions == 1).sum())
    agent = FTSAgent(model, 1, seed=2)
    for k in range(12):
        agent.tell(agent.initial_point(k), 0.0)
    assert 0 < mine < 12
    assert SETTINGS.region_of(agent.X).tolist() == [1] * mine + [0] * (12 - mine)


def test_agents_without_a_seed_choose_points_of_their_own() -> None:
    points = [FTSAgent(MODEL, 1).initial_point(0) for _ in range(2)]
    assert not np.array_equal(*points)


@pytest.mark.parametrize(("last", "cells"), [(64, 4096), (65, 16)])
def test_a_space_of_4096_points_is_searched_point_by_point(last: int, cells: int) -> None:
    domain = domain_of(Space({"a": Int(1, 64), "b": Int(1, last)}), SETTINGS)
    assert (len(domain.points), domain.whole) == (cells, last == 65)


def test_after_the_plan_an_agent_goes_on_in_rounds_of_its_own(fast_path: Path) -> None:
    one = server(fast_path, "one")
    for t in range(PLAN.steps):
        one.release(t)
    agent = Participant(FTSAgent(MODEL, 2, seed=3), InProcess(one, timeout=600.0))
    rounds: list[int] = []
    agent.agent.ask = lambda t, broadcast: rounds.append(t) or GOOD
    for asked in (SETTINGS.initial, SETTINGS.initial + 5, SETTINGS.initial + 6, SETTINGS.initial + 9):
        agent.restore((), asked=asked)
        agent.ask()
    assert rounds == [6, 6, 6, 9]
