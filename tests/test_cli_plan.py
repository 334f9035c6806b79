"""``dptune plan``: what noise to expect, from public numbers alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

DPTUNE = Path(sys.executable).parent / "dptune"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([DPTUNE, "plan", *words], capture_output=True, text=True, check=False)


def test_plan_prints_a_table_and_says_what_is_too_noisy() -> None:
    done = run("--n", "300", "--clip", "0", "3", "--mu", "0.5", "--trials", "100")
    assert done.returncode == 0, done.stderr
    assert "too noisy" in done.stdout
    assert "values: trials must differ by 19% of the clip's width" in done.stdout
    rows = json.loads(run("--n", "300", "--clip", "0", "3", "--mu", "0.5", "--format", "json").stdout)
    assert {row["method"] for row in rows} == {"values", "CMA-ES on centred releases"}
    assert {row["mu"] for row in rows} == {0.25, 0.5, 1.0}


def test_a_wrong_number_is_one_line_that_names_it() -> None:
    for words, name in ((("--n", "0", "--clip", "0", "3"), "n must"), (("--n", "9", "--clip", "3", "0"), "clip must")):
        done = run(*words)
        assert done.returncode != 0
        assert name in done.stderr
        assert "Traceback" not in done.stderr
