"""An attacker distinguishes and inverts the paper's transform. Our transform allows only what mu-GDP allows."""

import math
import re
import runpy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, norm

from dptune.ledger.gdp import mu_from_epsilon
from dptune.privacy.noise import NoiseSource, OpenDPNoise
from example_tools import run_shorter
from outsourced_tools import MemoryLedger, curator

DEMONSTRATION = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "outsourced_attack.py"))
X = np.random.default_rng(0).uniform(-17, 17, (200, 2))
OTHER = X + (np.arange(200) == 7)[:, None] * [0.6, 0.8]
MU, PAIRS, MISTAKE = 1.0, 300, 1e-7


@pytest.mark.parametrize("branch", [1, 2])
def test_the_papers_transform_reveals_its_rows(branch: int) -> None:
    """Neighbours are distinguished, and three known rows recover all others."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        Z, Z_other = (DEMONSTRATION["paper_transform"](Y, rng, branch) for Y in (X, OTHER))
        assert DEMONSTRATION["says_first"](Z, X, OTHER)
        assert not DEMONSTRATION["says_first"](Z_other, X, OTHER)
    assert np.abs(DEMONSTRATION["recovered"](Z, X, [0, 1, 2]) - X).max() < 1e-9


class AThirdOfTheNoise(OpenDPNoise):
    def add_gaussian(self, statistic: np.ndarray, sigma: float) -> np.ndarray:
        return super().add_gaussian(statistic, sigma / 3)


def releases(folder: Path, rows: np.ndarray, **source: NoiseSource) -> tuple[Callable[[], np.ndarray], float]:
    made = curator(MemoryLedger(1.0), rows, folder, row_norm=25.0, max_change=1.0, **source)
    sigma = made.event(MU).sigma
    return lambda: made._noisy(sigma), sigma


def test_the_row_recovery_fails_against_ours(tmp_path: Path) -> None:
    draw, sigma = releases(tmp_path, X)
    errors = [np.sqrt(np.mean((DEMONSTRATION["recovered"](draw(), X, [i, i + 1, i + 2]) - X) ** 2)) for i in range(9)]
    assert min(errors) > sigma / 2  # in 36,000 draws never below .94 sigma: a mean of 400 squares of noise


def right_guesses(folder: Path, **source: NoiseSource) -> int:
    """How often the best attack is right in 2 PAIRS draws: on which side of the middle does Z lie?"""
    few, other = X[:10], OTHER[:10]
    (draw, _), (draw_other, _) = releases(folder, few, **source), releases(folder, other, **source)
    direction = (other - other.mean(axis=0)) - (few - few.mean(axis=0))
    middle = float(np.sum((other - other.mean(axis=0) + few - few.mean(axis=0)) * direction)) / 2
    return sum(
        int(np.sum(draw() * direction) <= middle) + int(np.sum(draw_other() * direction) > middle) for _ in range(PAIRS)
    )


LIMIT = int(binom.isf(MISTAKE, 2 * PAIRS, norm.cdf(MU / 2)))  # right guesses that mu-GDP allows, but for bad luck


def test_the_best_attack_on_our_table_comes_near_the_promised_bound(tmp_path: Path) -> None:
    right, expected = right_guesses(tmp_path), norm.cdf(MU * math.sqrt(0.9) / 2)  # n = 10: centring takes sqrt(1 - 1/n)
    assert right <= LIMIT
    assert right >= binom.ppf(MISTAKE, 2 * PAIRS, expected), "the attack is weaker than it can be: it proves nothing"


def test_noise_that_is_too_small_is_found(tmp_path: Path) -> None:
    assert binom.cdf(LIMIT, 2 * PAIRS, norm.cdf(3 * MU * math.sqrt(0.9) / 2)) < 1e-20, "the chance that it is not found"
    assert right_guesses(tmp_path, noise=AThirdOfTheNoise()) > LIMIT


def test_the_demonstration_prints_what_the_attacks_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_shorter("outsourced_attack", tmp_path, monkeypatch)
    printed = capsys.readouterr().out
    assert printed.count("advantage 1.00 in 50 pairs") == 2
    ours = re.search(r"dptune: advantage (-?[\d.]+) .* to (\S+)\n.*allows (\d\.\d+)", printed)
    assert ours is not None
    advantage, error, allowed = map(float, ours.groups())
    assert allowed == pytest.approx(2 * norm.cdf(mu_from_epsilon(3, 1e-5) / 2) - 1, abs=5e-4)
    assert advantage < 0.8  # with probability 1 - 1e-7
    assert error > 0.5
