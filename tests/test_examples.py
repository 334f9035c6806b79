"""The examples, and pages whose tests stand beside them, run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import optuna
import pytest
from example_tools import run_shorter
from optuna.distributions import FloatDistribution
from registry_schema import complaints

import dptune
from dptune.ledger import About, record
from dptune_optuna import DPFTSSampler, LDPTGPSampler, LocalObjective

ROOT = Path(__file__).parent.parent
OWN = ROOT / "examples" / "own_algorithm.py"
LONG = (
    OWN,
    *(
        ROOT / "examples" / f"{name}.py"
        for name in ("opacus_mlp", "outsourced_attack", "public_first_optuna", "sklearn_pipeline")
    ),
)
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# tests/ray_front/test_example.py, tests/outsourced, tests/training, and two below
ELSEWHERE = ("ray", "outsourced", "opacus", "federated", "ldp_users")
FEDERATED = ROOT / "examples" / "federated_landmine.py"
HERE = [path for path in EXAMPLES if not path.stem.startswith(ELSEWHERE)]
TORCH = [path for path in HERE if path.stem.startswith(("torch", "skorch"))]  # `make test-torch` runs them
SHORT = [path for path in HERE if path not in TORCH]
SECOND = (  # whole runs only
    *("gibo_optuna", "ldp_optuna", "lightgbm_native", "pruning_optuna", "sklearn_pipeline", "svm_optuna"),
    "xgboost_tabular",
)
AS_THEY_STAND = [
    *(pytest.param(path, marks=pytest.mark.torch) for path in TORCH),
    *(pytest.param(path, marks=pytest.mark.slow) for path in [*SHORT, FEDERATED]),
]


@pytest.mark.parametrize("example", [path for path in SHORT if path.stem not in SECOND], ids=lambda path: path.stem)
@pytest.mark.filterwarnings("default")  # with few trials: that they are few
def test_a_short_run_of_an_example_prints_its_statement(example, tmp_path, monkeypatch, capsys):
    skip_without_its_library(example)
    run_shorter(example.stem, tmp_path, monkeypatch)
    printed = capsys.readouterr().out
    assert "epsilon" in printed
    assert "NOT PRIVATE" not in printed
    if example.stem == "public_first_optuna":  # the one of `make demo`
        statement = dptune.PrivacyLedger(tmp_path / "public_first.db").statement(delta=1e-5)
        assert complaints(record(statement, About.read(ROOT / "examples/about.toml"))) == []


@pytest.mark.parametrize("example", AS_THEY_STAND, ids=lambda path: path.stem)
def test_an_example_runs_as_it_stands(example, tmp_path):
    skip_without_its_library(example)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "DPTUNE_DATA": str(tmp_path)}
    command = [sys.executable, str(example), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment)
    assert run.returncode == 0, run.stderr
    assert "sent nothing" not in run.stderr
    assert "epsilon" in run.stdout
    assert "NOT PRIVATE" not in run.stdout


def skip_without_its_library(example):
    for library in ("torch", "skorch"):
        if example.stem.startswith(library):
            pytest.importorskip(library)


def test_the_federated_example_runs_without_the_landmine_data(tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.setenv("DPTUNE_DATA", str(tmp_path))
    run_shorter("federated_landmine", tmp_path, monkeypatch)
    printed, errors = capsys.readouterr()
    assert "3 of 3 releases" in printed
    assert "NOT PRIVATE" not in printed
    assert "at delta = 0.001" in printed
    assert "sent nothing" not in errors + caplog.text


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(example):
    most = 120 if example.stem == "opacus_public_odds" else 60 if example in LONG else 40  # it trains three ways
    assert len(example.read_text().splitlines()) <= most


def test_every_example_has_files_of_its_own() -> None:
    """Run one after another in one folder, no example finds another one's ledger or study."""
    named = [name for path in EXAMPLES for name in set(re.findall(r"[\w]+\.db", path.read_text()))]
    assert len(named) > 8
    assert sorted(named) == sorted(set(named))


def test_no_phone_of_the_example_replies_past_its_cap(tmp_path, monkeypatch, capsys):
    reads = Counter()

    class Tastes(np.ndarray):
        def __getitem__(self, index):
            reads.update([index] if isinstance(index, int) else [])
            return super().__getitem__(index)

    drawn = np.random.default_rng(0).normal
    people = SimpleNamespace(normal=lambda *args: drawn(*args).view(Tastes))
    monkeypatch.setattr(np.random, "default_rng", lambda seed: people)
    made = run_shorter("ldp_users", tmp_path, monkeypatch)
    counts = Counter(reads.values())
    assert counts == {1: made["phones"], 2: 1}  # one phone has a ledger, with a cap of two
    printed = capsys.readouterr().out
    assert "refused" in printed
    assert "epsilon" in printed
    assert "NOT PRIVATE" not in printed


def test_the_python_of_the_page_on_local_privacy_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = {"x": FloatDistribution(0, 1)}
    names = {
        **{name: getattr(dptune.local, name) for name in ("LDPTGP", "LDPSettings", "HybridReplies")},
        **{"dptune": dptune, "optuna": optuna, "RBF": dptune.search.gp.RBF, "LDPTGPSampler": LDPTGPSampler},
        **{"LocalObjective": LocalObjective, "space": space, "url": f"sqlite:///{tmp_path}/s.db"},
        **{"measure": lambda setting: setting, "setting": 0.3, "candidates": [[0.0], [0.5], [1.0]]},
        "satisfaction": lambda trial: trial.suggest_float("x", 0, 1),
        "reply_of_the_device": lambda parameters: names["randomizer"].randomize(parameters["x"]),
    }
    for block in (ROOT / "docs" / "ldp.md").read_text().split("```python\n")[1:3]:
        exec(compile(block.split("```")[0], "ldp.md", "exec"), names)
    assert [trial.state.name for trial in names["study"].trials] == ["COMPLETE"] * 2
    assert names["ledger"].remaining("me") == 0


def test_the_first_screen_of_the_federated_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    space = {"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)}
    names = {"dptune": dptune, "optuna": optuna, "DPFTSSampler": DPFTSSampler, "space": space}
    block = (ROOT / "docs" / "federated.md").read_text().split("```python\n")[1].split("```")[0]
    exec(compile(block, "federated.md", "exec"), names)
    names["study"].optimize(lambda trial: trial.suggest_float("x", 0, 1) - trial.suggest_float("y", 0, 1), n_trials=3)
    assert "zero out one agent" in capsys.readouterr().out
