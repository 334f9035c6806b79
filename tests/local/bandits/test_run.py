"""A run of the LDP samplers is a function of its numbered replies, in whatever order they arrive."""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dptune
from dptune.local import LDPATA, LDPTGP, InsecureRandomizer, LaplaceReplies, LDPMoMA, LDPSettings
from dptune.local.bandits.bandit import LocalBandit
from dptune.local.bandits.curator import design
from dptune.local.bandits.run import LDPRun
from dptune.search.gp.kernels import RBF
from refusals import refused

ALL = pytest.mark.parametrize("algorithm", [LDPTGP, LDPATA, LDPMoMA])
SPACE = dptune.Space({"x": dptune.Float(-1, 1), "n": dptune.Int(1, 100, log=True)})
Told = list[tuple[int, dict[str, Any], float]]


def make(algorithm: type[LocalBandit] = LDPTGP, space: dptune.Space = SPACE, **more: Any) -> LDPRun:
    told = LDPSettings(LaplaceReplies(4.0, B=1.0, R=0.2), horizon=500, plays=3, exploration=0.2)
    return LDPRun(algorithm, space, told, **{"maximize": True, "count": 24, **more})


def value(parameters: Any) -> float:
    return 1 - (parameters["x"] - 0.4) ** 2 - 0.1 * math.log(parameters["n"] / 10) ** 2


def run(session: LDPRun, rounds: int, start: int = 0) -> Told:
    user, told = InsecureRandomizer(4.0, 1.2, insecure_seed=start), []
    for number in range(start, start + rounds):
        parameters = session.ask()
        told.append((number, parameters, user.randomize(value(parameters))))
        assert session.tell(*told[-1])
    return told


def state(session: LDPRun) -> Any:
    bandit = session.bandit
    return session.ask(), session.recommend(), bandit.mean().tolist(), bandit.deviation().tolist(), bandit.t


@ALL
def test_a_run_is_bitwise_equal_for_any_order_of_its_replies(algorithm: type[LocalBandit]) -> None:
    expected = make(algorithm)
    told = run(expected, 60)
    rng = np.random.default_rng(0)
    late = np.arange(60) + rng.exponential(20, 60) * (rng.random(60) < 0.3)
    for order in (np.arange(60), np.argsort(late), np.arange(60)[::-1], rng.permutation(60)):
        session = make(algorithm)
        for i in order:
            session.tell(*told[i])
            if i % 7 == 0:
                session.ask()
        assert state(session) == state(expected)
    assert run(session, 20, start=60) == run(expected, 20, start=60)


class Counted(LDPTGP):
    """Remembers the numbers of the replies that it was told, replayed or not."""

    rounds: ClassVar[list[int | None]] = []

    def tell(self, point: int, reply: float, *, number: int | None = None) -> None:
        self.rounds.append(number)
        super().tell(point, reply, number=number)


def test_a_reply_late_by_a_few_costs_a_few_rounds_and_checkpoints_are_few() -> None:
    told = run(make(), 400)
    session, lost = make(Counted), {390: 48, 300: 300, 200: 400}  # number -> most rounds it may cost
    for number, parameters, reply in told:
        if number not in lost:
            session.tell(number, parameters, reply)
    session.ask()
    assert len(session._checkpoints) <= 3 * math.log2(400 / 16)
    for number, most in lost.items():
        Counted.rounds.clear()
        session.tell(*told[number])
        session.ask()
        assert 400 - number - 2 <= len(Counted.rounds) <= most


@contextmanager
def interrupted(after: int) -> Iterator[list[int]]:
    """Press Ctrl-C once, where a function of the package was entered or left so many times; count them."""
    events = [0]

    def look(frame: FrameType, event: str, _: object) -> None:
        if event in ("call", "return") and "bandits" in Path(frame.f_code.co_filename).parent.name:
            events[0] += 1
            if events[0] == after:
                raise KeyboardInterrupt

    sys.setprofile(look)
    try:
        yield events
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("late", [[], [27, 20, 3]])
def test_an_interrupt_at_any_place_counts_every_reply_once(late: list[int]) -> None:
    told = run(make(), 30)
    order = [i for i in range(30) if i not in late] + late

    def interrupt(after: int) -> tuple[Any, int, int]:
        session, pressed = make(), 0
        with interrupted(after) as events:
            for i in order:
                try:
                    session.tell(*told[i])
                    session.ask()
                except KeyboardInterrupt:
                    pressed += 1
                    session.tell(*told[i])  # a front end tells again what it may not have told
        return state(session), pressed, events[0]

    wanted, _, places = interrupt(after=-1)
    for after in np.random.default_rng(0).integers(1, places, 8):
        assert interrupt(after)[:2] == (wanted, 1)


def test_known_numbers_and_what_is_no_reply_are_ignored() -> None:
    session = make()
    here = session.ask()
    assert session.tell(0, here, 1.0)
    before = state(session)
    assert not session.tell(0, here, 2.0)
    for reply in (math.nan, -math.inf, 1e100, None, "0.5"):
        assert not session.tell(1, here, reply)
    refused(dptune.InputError, "number", *(partial(session.tell, number, here, 0.5) for number in (-1, 1.5, None)))
    for parameters in ({"x": 0.0}, {"x": 2.0, "n": 3}, {"x": "a", "n": 3}):
        assert not session.tell(1, parameters, 0.5)
    assert state(session) == before
    assert session.tell(1, {"unknown": "a", **here}, 0.5)


def test_given_candidates_are_rounded_and_count_for_replies_nearby() -> None:
    space = dptune.Space({"x": dptune.Float(0, 1), "s": dptune.Float(0, 1, step=0.25), "n": dptune.Int(1, 9, step=2)})
    session = make(space=space, candidates=[{"x": 0, "s": 0.3, "n": 4.2}, {"x": 0.1, "s": 1.0, "n": 9}])
    assert [repr(list(c.values())) for c in session.candidates] == ["[3, 0.25, 0.0]", "[9, 1.0, 0.1]"]
    numpys = [{"x": np.int64(0), "s": np.float32(0.3), "n": np.float16(4.2)}, {"x": 0.1, "s": 1.0, "n": np.int8(9)}]
    assert repr(make(space=space, candidates=numpys).candidates) == repr(session.candidates)
    session = make(space=dptune.Space({"x": dptune.Float(0, 1)}), candidates=[{"x": 0.0}, {"x": 0.5}])
    session.tell(0, {"x": 0.52}, 1.0)
    session.tell(1, {"x": 0.25}, 1.0)
    assert session.bandit.counts.tolist() == [0, 1]


def test_minimising_mirrors_maximising_and_replies_are_centred() -> None:
    up, down, moved, both = make(), make(maximize=False), make(centre=2.5), make(maximize=False, centre=2.5)
    for number, parameters, reply in run(up, 60):
        assert down.ask() == parameters
        down.tell(number, parameters, -reply)
        moved.tell(number, parameters, reply + 2.5)
        both.tell(number, parameters, 2.5 - reply)
    assert down.recommend() == up.recommend()
    for each in (moved, both):
        np.testing.assert_allclose(each.bandit.mean(), up.bandit.mean(), atol=1e-12)


def test_a_small_space_is_enumerated_and_a_large_one_is_sampled() -> None:
    """The sampled points are distinct and rounded to the space."""
    small = dptune.Space({"a": dptune.Int(1, 5), "b": dptune.Float(0, 1, step=0.25)})
    assert sorted(design(small, 25)) == [(a, b / 4) for a in range(1, 6) for b in range(5)]
    assert len(design(small, 24)) <= 24
    points = design(SPACE, 50, seed=3)
    assert len(set(points)) == len(points) > 40
    assert points != design(SPACE, 50, seed=4)
    assert all(isinstance(n, int) and 1 <= n <= 100 for n, _ in points)


def test_a_bad_option_of_a_run_is_refused_by_name() -> None:
    bad = {"centre": math.nan, "count": 0, "algorithm": "tgp", "maximize": "no", "candidates": [{"x": 5.0, "n": 1}]}
    for name, value in bad.items():
        refused(dptune.InputError, name, partial(make, **{name: value}))


# ---- users asked at the same time --------------------------------------------------------------------------


def bandit_of(algorithm: type[LocalBandit], rounds: int) -> LocalBandit:
    told = LDPSettings(LaplaceReplies(2.0, B=1.0, R=0.2), RBF(0.2), redraw=math.inf, plays=1, q=1e9)
    bandit = algorithm(np.linspace(0, 1, 20)[:, None], told)
    for j in np.random.default_rng(0).permutation(rounds) % 20:
        bandit.tell(int(j), 0.1)
    return bandit


@ALL
@given(pending=st.lists(st.integers(0, 19), min_size=1, max_size=60))
@settings(max_examples=10)
def test_pending_plays_shrink_the_deviation_as_plays_do(algorithm: type[LocalBandit], pending: list[int]) -> None:
    bandit = bandit_of(algorithm, 1 if algorithm is not LDPTGP else 200)
    expected, mean = bandit.copy(), bandit.mean()
    variance = bandit.variance_after(np.bincount(pending, minlength=20))
    for j in pending:
        expected.tell(j, 0.0)
    np.testing.assert_allclose(np.sqrt(np.maximum(variance, 0)), expected.deviation(), atol=1e-7)
    np.testing.assert_array_equal(bandit.mean(), mean)  # asking has changed nothing
    assert bandit.ask() == bandit.ask(())


@ALL
def test_users_asked_at_once_try_different_candidates(algorithm: type[LocalBandit]) -> None:
    session = make(algorithm)
    for begun in (0, 40):
        run(session, begun)
        pending: list[dict[str, Any]] = []
        for _ in range(40):
            pending.append(session.ask(pending))
        if algorithm is LDPMoMA and begun == 0:
            assert all(pending[i] == pending[i + 1] == pending[i + 2] for i in range(0, 12, 3)), "k users at a point"
            assert pending[0] != pending[3]
        assert len({tuple(p.values()) for p in pending}) > 3
        assert session.ask() == pending[0]
