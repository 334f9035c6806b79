"""DP-FTS-DE's settings and agents equal word-for-word references: weights, exact sensitivity and choices."""

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dptune import Float, InputError, Int, Space
from dptune.federated.agent import Domain, FTSAgent, FTSModel, cube
from dptune.federated.domain import domain_of
from dptune.federated.settings import FTSSettings
from dptune.search.gp.features import FourierFeatures

SETTINGS = FTSSettings(
    agents=29, d=2, M=20, own_features=20, noise=0.01, regions=(2, 2), spread=1.0, candidates=64, initial=4
)
settings_strategy = st.builds(
    FTSSettings,
    agents=st.integers(6, 40),
    d=st.just(2),
    regions=st.sampled_from([(), (2, 1), (2, 2), (3, 2)]),
    S=st.floats(0.1, 50),
    a=st.floats(0, 30),
    hold=st.integers(0, 5),
    decay=st.integers(0, 8),
)


# ---- weights and sensitivity ---------------------------------------------------------------------------


@given(settings_strategy, st.integers(0, 20))
def test_weights_are_the_softmax_of_the_paper(s: FTSSettings, t: int) -> None:
    strength = s.a if t < s.hold else s.a * max(0.0, 1 - (t - s.hold + 1) / s.decay) if s.decay else 0.0
    for i in range(s.P):
        exponentials = [math.exp(strength * (n % s.P == i)) for n in range(s.agents)]
        expected = [e / math.fsum(exponentials) for e in exponentials]
        assert np.allclose(s.weights(t)[:, i], expected, rtol=1e-9)


@given(settings_strategy, st.integers(0, 20), st.floats(0.01, 1.0))
def test_the_sensitivity_is_the_worst_agents_and_never_above_the_papers(s: FTSSettings, t: int, q: float) -> None:
    weights, clip = s.weights(t), s.S / math.sqrt(s.P)
    worst = max(math.sqrt(math.fsum(phi**2 for phi in row)) for row in weights.tolist())
    assert s.sensitivity(t, q) == pytest.approx(worst * clip / q, rel=1e-12)
    assert s.sensitivity(t, q) <= weights.max() * s.S / q * (1 + 1e-12)


def test_regions_tile_the_cube() -> None:
    X = np.random.default_rng(0).random((500, 2))
    s = replace(SETTINGS, regions=(3, 2))
    i = s.region_of(X)
    low, high = s.box(i)
    assert ((low <= X) & (high >= X)).all()
    assert set(i) == set(range(6))
    assert s.region_of(np.array([[1.0, 1.0], [0.0, 0.0], [2.0, -1.0]])).tolist() == [5, 0, 4]
    assert [s.assigned(n) for n in range(7)] == [0, 1, 2, 3, 4, 5, 0]


def test_settings_describe_themselves_as_json_with_a_portable_digest() -> None:
    """The digest of the features is the same on every machine."""
    s = FTSSettings(agents=np.int32(29), d=np.int64(4), S=np.float32(2.5), regions=np.array([2, 1, 1, 1]))
    assert s == FTSSettings(agents=29, d=4, S=2.5, regions=(2, 1, 1, 1))
    assert json.loads(json.dumps(s.describe())) == s.describe()
    drawn = SETTINGS.features()
    nudged, others = (
        FourierFeatures(w, drawn.lengthscale) for w in (drawn.frequencies * (1 + 1e-15), drawn.frequencies[::-1])
    )
    assert SETTINGS.describe()["features"] == nudged.digest() == "dfd3c6deb318bded"
    assert others.digest() != nudged.digest()  # as another version of NumPy may draw


WRONG = {
    "agents": (0,),
    "M": (21,),
    "own_features": (3,),
    "regions": ((2,), (0, 2), (6, 6)),
    "S": (0.0, 1e-7, 1e7),
    "numbered 0 to 28": ("0", -1, 29),
    "x": ([0.5], [0.5, 1.5], [0.5, math.inf]),
    "a value": (math.nan,),
}


def test_settings_numbers_of_agents_and_observations_are_checked_by_name() -> None:
    agent = agent_with(0)
    calls: dict[str, Callable[[Any], object]] = {
        "numbered 0 to 28": lambda number: FTSAgent(FTSModel(SETTINGS), number),
        "x": lambda x: agent.tell(x, 1.0),
        "a value": lambda y: agent.tell([0.5, 0.5], y),
    }
    for name, values in WRONG.items():
        for wrong in values:
            with pytest.raises(InputError, match=name):
                calls.get(name, lambda wrong, name=name: replace(SETTINGS, **{name: wrong}))(wrong)
    assert len(agent) == 0


def test_each_setting_is_used_up_to_its_limits_and_refused_beyond() -> None:
    limits = {"lengthscale": (1e-12, 1e12), "noise": (1e-12, 1e12), "S": (1e-6, 1e6)}
    limits |= dict.fromkeys(("a", "joint", "spread"), (0, 1e12))
    for name, (low, high) in limits.items():
        for limit in (low, high):
            assert getattr(replace(SETTINGS, **{name: limit}), name) == limit
        for beyond in (low - 1e-13, 1.001 * high):
            with pytest.raises(InputError) as refused:
                replace(SETTINGS, **{name: beyond})
            assert str(refused.value) == f"{name} must lie in [{low:.3g}, {high:.3g}]; got {beyond!r}."
    for name, least in {
        "d": 1,
        "M": 1,
        "decay": 0,
        "own_features": 1,
        "initial": 1,
        "refit": 1,
        "candidates": 1,
    }.items():
        with pytest.raises(InputError) as refused:
            replace(SETTINGS, **{name: least - 1})
        assert str(refused.value) == f"{name} must be a whole number >= {least}; got {least - 1}."


# ---- agents ----------------------------------------------------------------------------------------------


def value(x: np.ndarray) -> float:
    return float(np.sin(5 * x[0]) * x[1])


def agent_with(observations: int, s: FTSSettings = SETTINGS, agent: int = 1, seed: int = 7, **more: object) -> FTSAgent:
    one = FTSAgent(FTSModel(s, **more), agent, seed=seed)
    for x in np.random.default_rng(3).random((observations, s.d)):
        one.tell(x, value(x))
    return one


def test_initial_points_lie_in_the_agents_region() -> None:
    for n in range(8):
        agent = FTSAgent(FTSModel(SETTINGS), n, seed=0)
        points = np.array([agent.initial_point(k) for k in range(20)])
        assert set(SETTINGS.region_of(points)) == {n % 4}
        assert len(np.unique(points, axis=0)) == 20


def test_an_agent_rebuilt_from_its_observations_repeats_itself() -> None:
    a, b = agent_with(9), agent_with(9)
    broadcast = np.random.default_rng(0).standard_normal((4, 20))
    assert np.array_equal(a.message(5), b.message(5))
    for t in (0, 1, 5):
        assert np.array_equal(a.ask(t, broadcast), b.ask(t, broadcast))
    assert not np.array_equal(a.message(5), a.message(6))
    assert not np.array_equal(a.message(5), agent_with(9, agent=2).message(5))


def test_messages_are_samples_of_the_posterior_written_out() -> None:
    agent = agent_with(9)
    Phi = agent.model.features(agent.X)
    standardised = (np.array(agent.values) - np.mean(agent.values)) / np.std(agent.values)
    Sigma = Phi.T @ Phi + SETTINGS.noise * np.eye(20)
    nu = np.linalg.solve(Sigma, Phi.T @ standardised)
    messages = np.array([agent.message(t) for t in range(1000)])
    assert np.allclose(messages.mean(axis=0), nu, atol=0.08)
    assert np.allclose(np.cov(messages.T), SETTINGS.noise * np.linalg.inv(Sigma), atol=0.12)
    assert np.allclose(agent_with(9, replace(SETTINGS, spread=0.0)).message(0), nu)


@pytest.mark.parametrize("lengthscale", [0.25, 2.0])
def test_following_the_broadcast_finds_its_largest_value_in_every_region(lengthscale: float) -> None:
    many = replace(SETTINGS, candidates=256, lengthscale=lengthscale)
    agent, grid = agent_with(9, many), np.stack(np.meshgrid(*[np.linspace(0, 1, 201)] * 2), axis=-1).reshape(-1, 2)
    Phi, region = agent.model.features(grid), SETTINGS.region_of(grid)
    for seed in range(2):
        broadcast = np.random.default_rng(seed).standard_normal((4, 20))
        x = agent.joint_point(broadcast, 0)
        at_x = float(agent.model.features(x[None])[0] @ broadcast[SETTINGS.region_of(x[None])[0]])
        best = np.einsum("mk,mk->m", Phi, broadcast[region]).max()
        assert at_x >= best - 0.02 * abs(best)


def test_the_first_round_follows_the_broadcast_and_ts_never_does() -> None:
    broadcast = np.random.default_rng(1).standard_normal((4, 20))
    agent = agent_with(9)
    assert np.array_equal(agent.ask(0, broadcast), agent.joint_point(broadcast, 0))
    assert np.array_equal(agent.ask(0, None), agent.own_point(0))
    alone = agent_with(9, replace(SETTINGS, joint=0.0))
    assert all(np.array_equal(alone.ask(t, broadcast), alone.own_point(t)) for t in range(5))
    assert SETTINGS.joint_chance(3) == 0.25


def test_a_finite_and_a_rounded_domain_are_evaluated_without_repeats() -> None:
    points = np.random.default_rng(0).random((10, 2))
    tenths = cube(SETTINGS, lambda x: np.round(x, 1))
    for domain, different, rounds in ((Domain(points), 10, 12), (tenths, 20, 20)):
        agent = FTSAgent(FTSModel(SETTINGS, domain), 0, seed=1)
        for t in range(rounds):
            x = agent.initial_point(t) if t < 4 else agent.ask(t, np.ones((4, 20)))
            agent.tell(x, value(x))
        assert len({tuple(x) for x in agent.X[:different]}) == different
        assert np.array_equal(agent.X, [domain.snap(x) for x in agent.X])


def test_the_domain_is_a_small_spaces_grid_or_else_a_rounded_cube() -> None:
    steps = Space({"a": Float(0.0, 1.0, step=0.3), "n": Int(1, 5, step=2)})
    grid = [(round(p["a"], 6), p["n"]) for p in map(steps.decode, domain_of(steps, SETTINGS).points)]
    assert grid == list(itertools.product((0.0, 0.3, 0.6, 0.9), (1, 3, 5)))
    x = np.array([0.23, 0.51])
    for second, rounded in ((Float(0.0, 1.0), 0.51), (Int(0, 4), 0.5)):
        domain = domain_of(Space({"a": Float(0.0, 1.0), "b": second}), SETTINGS)
        assert domain.snap(x) == pytest.approx([0.23, rounded])
        assert domain.points.shape == (64, 2)
    large = domain_of(Space({"a": Int(0, 99), "b": Int(0, 99)}), SETTINGS)
    assert large.snap(x) == pytest.approx([0.235, 0.515])


def test_a_seed_may_have_the_bits_that_a_federation_draws() -> None:
    assert FTSAgent(FTSModel(SETTINGS), 0, seed=2**63 - 1).initial_point(0).shape == (SETTINGS.d,)


def test_constant_values_are_harmless() -> None:
    agent = agent_with(0)
    for _ in range(3):
        agent.tell([0.5, 0.5], 2.0)
    assert np.isfinite(agent.message(0)).all()
    assert np.isfinite(agent.ask(3, None)).all()
