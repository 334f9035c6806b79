"""The example of Ray Tune runs as it stands, on the tests' cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import ray
from ray import tune

import dptune
from dptune.local import LocalRandomizer
from dptune_ray import LDPTGPSearch

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("ray*.py"))


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_prints_its_statement(example: Path, fast_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_ADDRESS": ray.get_runtime_context().gcs_address}
    command = [sys.executable, str(example), str(fast_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert run.returncode == 0, run.stderr
    assert "epsilon" in run.stdout
    assert "NOT PRIVATE" not in run.stdout


@pytest.mark.ray
@pytest.mark.usefixtures("cluster")
def test_the_page_s_python_of_local_privacy_runs(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(fast_path)
    names = {
        **{"dptune": dptune, "tune": tune, "LDPTGPSearch": LDPTGPSearch, "LocalRandomizer": LocalRandomizer},
        **{"users": [f"user {i}" for i in range(1000)], "satisfaction": lambda config: config["x"]},
    }
    block = (ROOT / "docs" / "ray.md").read_text().split("```python\n")[2].split("```")[0]
    exec(compile(block.replace("num_samples=1000", "num_samples=3"), "ray.md", "exec"), names)
    assert names["search"].recommend().keys() == {"x"}
    assert sum(account.replies for account in names["ledger"].accounts()) == 3
