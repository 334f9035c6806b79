"""The example of Ray Tune runs as it stands, on the tests' cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import ray

EXAMPLES = sorted((Path(__file__).parent.parent.parent / "examples").glob("ray*.py"))


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
