"""The benchmark of spaces: every task takes its default and random points, its mechanisms are the package's."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import spaces
from benchmarks.curator import Curator
from benchmarks.space_tasks import KINDS, space_task
from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.privacy.noise import OpenDPNoise
from dptune.privacy.noisy_min import noisy_min


@pytest.mark.parametrize("name", KINDS)
def test_every_task_takes_its_default_and_random_configurations(name: str) -> None:
    task = space_task(name, 50, 0)
    assert task.space.contains(task.default)
    for parameters in spaces.candidates(task, 4, 1):
        losses = task.losses(parameters)
        assert losses.shape == (50,)
        assert np.isfinite(losses).all()
        assert task.clip[0] <= task.test_loss(parameters) <= task.clip[1]


def test_the_simulated_choice_is_the_exponential_mechanism_of_the_package(tmp_path: Path) -> None:
    n, names = 70, ("a", "b", "c")
    privatizer = LossPrivatizer(PrivacyLedger(str(tmp_path / "x.db"), Budget.gdp(mu=1.0)), n=n, clip=(0.0, 3.0))
    curators = [Curator(n, (0.0, 3.0), seed=seed, private=True) for seed in range(400)]
    for j, name in enumerate(names):
        for either in (privatizer, *curators):
            either.observe(name, np.full(n, 1.0 + 0.02 * j))
    query = privatizer.means_query(names, 0.5)
    assert query == curators[0].means_query(names, 0.5)
    scale = noisy_min(OpenDPNoise()).scale(query, privatizer.sensitivity(query))
    law = np.exp(-np.array([1.0, 1.02, 1.04]) / scale)
    chosen = np.bincount([int(curator.choose(query)[0]) for curator in curators], minlength=3)
    assert np.abs(chosen / 400 - law / law.sum()).max() < 0.12


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """One task, whose loss is that of the smoothing of a classifier that costs nothing."""
    task = space_task("pipeline-digits", 50, 0)
    losses = {"none": 0.5, "standard": 1.0, "minmax": 1.5}
    quick = SimpleNamespace(
        n=50, clip=(0.0, 3.0), name="toy", space=task.space, default=task.default,
        losses=lambda p: np.full(50, losses[p["scaler"]]), test_loss=lambda p: losses[p["scaler"]],
    )  # fmt: skip
    monkeypatch.setattr(spaces, "space_task", lambda name, n, seed: quick)


@pytest.mark.usefixtures("toy")
def test_it_goes_on_where_it_was_stopped_and_prints_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for seeds, lines in ((1, 1), (2, 2), (2, 2)):
        arguments = ["--seeds", str(seeds), "--people", "50", "--trials", "16", "--tasks", "mlp-digits"]
        monkeypatch.setattr("sys.argv", ["spaces", *arguments, "--out", str(tmp_path)])
        spaces.main()
        kept = (tmp_path / "results" / "spaces.jsonl").read_text().splitlines()
        assert len(kept) == lines
    found = json.loads(kept[0])["test_loss"]
    monkeypatch.setattr(spaces, "METHODS", {"random": lambda *about: {"scaler": "minmax"}})
    monkeypatch.setattr("sys.argv", ["spaces", "--again", "random", "--show", "--out", str(tmp_path)])
    spaces.main()
    again = json.loads((tmp_path / "results" / "spaces.jsonl").read_text().splitlines()[0])["test_loss"]
    assert {name for name in found if found[name] != again[name]} <= {"random 0.5", "random 1"}
    assert again["random 1"] == 1.5
    assert found["default"] == 1.0
    assert found["TPE none"] == found["random none"] == 0.5
    shown = capsys.readouterr().out
    assert shown.count("| mlp-digits |") == 4 * 4  # four times two budgets, the ratios and the shares
    assert "| mlp-digits | 50% |" in shown
    assert shown.count("| all | ") == 4
