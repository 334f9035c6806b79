"""Both halves run in two processes as the page says; the demonstration prints what the page says; benchmarks start."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from audit_tools import Forked, start_forked
from example_tools import run_shorter
from scipy.stats import binom, norm

from benchmarks.outsourced import __main__ as benchmark
from dptune.ledger.gdp import mu_from_epsilon

EXAMPLES = Path(__file__).parents[2] / "examples"


def start(name: str, folder: Path) -> Forked:
    return start_forked((EXAMPLES / name).read_text(), str(folder))


def test_curator_and_modeler_meet_in_a_folder(tmp_path: Path) -> None:
    curator, modeler = (start(f"outsourced_{half}.py", tmp_path) for half in ("curator", "modeler"))
    halves = modeler.wait(), curator.wait()
    assert [half.returncode for half in halves] == [0, 0], halves
    told, statement = (half.stdout for half in halves)
    assert "NOT covered: a larger change" in told
    assert "epsilon = 3 at delta = 1e-05" in statement
    assert "declared public by the user" in statement
    assert "NOT PRIVATE" not in statement
    recommended = float(re.findall(r"posterior mean ([\d.]+)", told)[0])
    best, mean = (float(x) for x in re.findall(r"(?:yield|mean) ([\d.]+)", statement.splitlines()[-1]))
    assert recommended > (best + mean) / 2


def test_the_demonstration_of_the_attack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_shorter("outsourced_attack", tmp_path, monkeypatch)
    told, errors = capsys.readouterr()
    assert not errors
    assert told.count("advantage 1.00 in 50 pairs") == 2
    ours = re.search(r"dptune: advantage (-?[\d.]+) .* to (\S+)", told)
    assert ours
    allowed, told_apart, power = re.search(
        r"allows ([\d.]+)\. .*\n.*above ([\d.]+) .* in (\d+)% of cases", told
    ).groups()
    assert float(allowed) == pytest.approx(2 * norm.cdf(mu_from_epsilon(3, 1e-5) / 2) - 1, abs=5e-4)
    assert binom.sf(50 * (1 + float(told_apart)), 100, (1 + float(allowed)) / 2) <= 0.05
    assert 50 < int(power) < 99
    assert "0.905" not in told, "what (epsilon, delta) alone allow does not bind"
    assert float(ours[1]) < 0.8  # with probability 1 - 1e-7
    assert float(ours[2]) > 0.5


def test_the_benchmark_runs_every_method() -> None:
    rows = np.random.default_rng(0).normal(size=(80, 3))
    problem = benchmark.supplied("small", rows, np.array([[-4.0, -4.0], [4.0, 4.0]]))
    for method in benchmark.METHODS:
        curve = benchmark.regrets(problem, method, seed=0)
        assert curve.shape == (benchmark.ROUNDS,)
        assert (np.diff(curve) <= 0).all()
        assert curve[-1] >= 0
