"""The centred race: what it asks, what it costs, what it makes of answers; it holds released values only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_tools import FreeLedger, dump
from hypothesis import given
from hypothesis import strategies as st
from noises import CannedNoise, NoNoise

from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.choice.methods import exponential, race
from dptune.choice.race import LOOKS, Race, sizes
from dptune.privacy import MeanQuery

CLIP = (0.0, 4.0)


def points(m: int) -> list[str]:
    return [f"x{j}" for j in range(m)]


def holding(
    losses: np.ndarray, ledger: Any = None, *, noise: Any = None, failed: Collection[int] = ()
) -> LossPrivatizer:
    """A privatizer that holds these losses (m, n)."""
    privatizer = LossPrivatizer(ledger or FreeLedger(), n=losses.shape[1], clip=CLIP, noise=noise)
    for j, row in enumerate(losses):
        if j in failed:
            privatizer.observe_failure(f"x{j}")
        else:
            privatizer.observe(f"x{j}", row)
    return privatizer


def people(m: int, n: int = 50, seed: int = 0) -> np.ndarray:
    """Losses that differ among people by a constant of theirs, and among candidates by the candidate."""
    rng = np.random.default_rng(seed)
    return rng.permutation(np.linspace(0.2, 1.2, m))[:, None] + rng.uniform(0, 2, n)


@given(st.integers(2, 3000))
def test_the_rounds_shrink_to_at_most_four(m: int) -> None:
    rounds = sizes(m)
    assert rounds[0] == m
    assert 2 <= rounds[-1] <= 4
    assert all(b == -(-a // 4) for a, b in itertools.pairwise(rounds))


@pytest.mark.parametrize("m", [2, 4, 5, 30, 400])
def test_the_questions_cost_what_was_promised_whatever_is_answered(m: int) -> None:
    rng, prices, racing = np.random.default_rng(m), [], Race(points(m), mu=0.7, loss_range=4.0)
    while (asked := racing.question()) is not None:
        prices.append(asked.query.mu)
        racing.learn(rng.normal(size=asked.query.dimension), 0.1)
    assert len(prices) == len(sizes(m)) * (LOOKS + 1)
    assert math.hypot(*prices) == pytest.approx(0.7, rel=1e-12)
    assert len(racing.alive) == 1


@pytest.mark.parametrize("m", [2, 3, 17, 100])
def test_without_noise_the_best_wins_whatever_people_add_of_their_own(m: int) -> None:
    losses = people(m)
    privatizer = holding(losses, noise=NoNoise())
    assert race(points(m), privatizer, 1.0, "s") == int(np.argmin(losses.mean(axis=1)))


class Canned(NoNoise):
    """Noise of the asked size, of numbers that both computations know."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._generator = np.random.default_rng(seed)

    def add_gaussian(self, statistic: np.ndarray, sigma: float) -> np.ndarray:
        return super().add_gaussian(statistic, sigma) + sigma * self._generator.normal(size=len(statistic))


def written_out(losses: np.ndarray, mu: float, seed: int) -> list[tuple[list[int], float, list[int]]]:
    """The race as its page says it, person by person: (candidates, C, survivors best first) of each round."""
    (m, n), width, generator = losses.shape, CLIP[1] - CLIP[0], np.random.default_rng(seed)
    rounds = [m]
    while rounds[-1] > 4:
        rounds.append(math.ceil(rounds[-1] / 4))
    each, alive, total, said = mu / math.sqrt(len(rounds)), [*range(m)], dict.fromkeys(range(m), 0.0), []
    for survivors in (*rounds[1:], 1):
        people = [np.array([losses[j, i] for j in alive]) for i in range(n)]
        people = [one - one.mean() for one in people]
        norms = [math.sqrt(sum(x * x for x in one)) for one in people]
        high = width * math.sqrt(len(alive)) / 2
        low = high / 100
        for _ in range(4):
            middle = math.sqrt(low * high)
            share = sum(norm <= middle for norm in norms) / n
            share += generator.normal(size=1)[0] / n / (each * math.sqrt(0.15 / 4))
            low, high = (low, middle) if share > 0.5 else (middle, high)
        sigma = 2 * high / (n * each * math.sqrt(0.85))
        kept = sum(one * min(1.0, high / norm) for one, norm in zip(people, norms, strict=True)) / n
        for j, answer in zip(alive, kept + sigma * generator.normal(size=len(alive)), strict=True):
            total[j] += answer / sigma**2
        best = sorted(alive, key=total.__getitem__)[:survivors]
        said.append((alive, high, best))
        alive = best
    return said


@pytest.mark.parametrize("mu", [0.3, 1.0, 4.0])
def test_a_race_of_three_rounds_is_the_one_written_out(mu: float) -> None:
    for seed in range(12):
        losses = people(30, n=60, seed=seed)
        losses += np.random.default_rng(seed).uniform(0, 0.8, losses.shape)
        privatizer = LossPrivatizer(FreeLedger(), n=60, clip=CLIP, dtype=np.float64, noise=Canned(seed))
        for name, row in zip(points(30), losses, strict=True):
            privatizer.observe(name, row)
        racing, asked_of = Race(points(30), mu=mu, loss_range=4.0), []
        while (asked := racing.question()) is not None:
            released = privatizer.release(asked.query, scope="s", key=asked.key)
            if isinstance(asked.query, MeanQuery):
                asked_of.append((asked.query.points, asked.query.clip.radius))
            racing.learn(released.value, released.sigma)
        expected = written_out(losses, mu, seed)
        assert [len(alive) for alive, _, _ in expected] == [30, 8, 2]
        assert [list(named) for named, _ in asked_of] == [[f"x{j}" for j in alive] for alive, _, _ in expected]
        assert [radius for _, radius in asked_of] == pytest.approx([C for _, C, _ in expected])
        assert racing.alive == (f"x{expected[-1][2][0]}",)


def test_a_failure_loses_and_does_not_widen_the_ball() -> None:
    losses = people(12)
    best = int(np.argmin(losses.mean(axis=1)))
    watching, watching_alone = NoNoise(), NoNoise()
    privatizer = holding(losses, noise=watching, failed={best})
    losses = np.delete(losses, best, axis=0)
    winner = race(points(12), privatizer, 1.0, "s")
    assert winner != best
    race(points(11), holding(losses, noise=watching_alone), 1.0, "s")
    assert watching.seen[LOOKS][1] < 2 * watching_alone.seen[LOOKS][1]  # the first round's sigma, so its radius


def test_an_interrupted_race_goes_on_in_another_process_at_no_further_cost(
    ledger: PrivacyLedger, tmp_path: Path
) -> None:
    losses = people(30)
    first = holding(losses, ledger)
    true, made = first.release, []

    def crash_at_seven(*args: Any, **options: Any) -> Any:
        if len(made) == 7:
            raise MemoryError
        made.append(true(*args, **options))
        return made[-1]

    first.release = crash_at_seven
    with pytest.raises(MemoryError):
        race(points(30), first, 1.0, "s")
    second = holding(losses, PrivacyLedger(tmp_path / "ledger.db"))
    winner = race(points(30), second, 1.0, "s")
    assert ledger.spent() == pytest.approx(1.0)
    assert [c.value for c in ledger.charges()[:7]] == [tuple(m.value.tolist()) for m in made]
    nothing = LossPrivatizer(PrivacyLedger(tmp_path / "ledger.db"), n=50, clip=CLIP)
    assert race(points(30), nothing, 1.0, "s") == winner  # from the ledger alone
    assert ledger.spent() == pytest.approx(1.0)


@pytest.mark.parametrize("method", [race, exponential])
def test_with_canned_answers_neighbours_leave_the_same_ledger(tmp_path: Path, method: Any) -> None:
    left = []
    for name, worst in (("a", 0.1), ("b", np.nan)):
        losses = people(9, n=6)
        losses[:, 2] = worst
        ledger = PrivacyLedger(tmp_path / f"{name}.db", Budget.gdp(5.0))
        left.append((method(points(9), holding(losses, ledger, noise=CannedNoise()), 1.0, "s"), dump(ledger)))
    assert left[0] == left[1]
