"""The LDP benchmarks run without files, and their page shows the stored runs."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
import pytest

from benchmarks.ldp import __main__ as main
from benchmarks.ldp.__main__ import EPSILONS, side_by_side, synthetic
from benchmarks.ldp.problems import KERNELS
from benchmarks.ldp.runs import ALGORITHMS, DEFAULT, ORDER_WISE, RESULTS, ROOT, THEOREM, checkpoints, load, play
from benchmarks.ldp.search import RUNS_PER_SEED, multiplier_tables, paired_table, plays_table


@pytest.mark.parametrize(("algorithm", "variant"), list(zip(ALGORITHMS, cycle((DEFAULT, ORDER_WISE, THEOREM)))))
def test_a_run_is_reproducible(algorithm: str, variant: Any) -> None:
    made = synthetic("Matern 2.5", EPSILONS[2], 0)
    curves = [play(algorithm, *made, 200, 0, variant)[0] for _ in range(2)]
    np.testing.assert_array_equal(*curves)
    assert (np.diff(curves[0]) >= 0).all()
    assert len(curves[0]) == len(checkpoints(200))


def test_the_page_shows_the_stored_runs_and_nothing_else() -> None:
    page, data = (ROOT / "docs" / "research" / "ldp.md").read_text(), load("ldp_multiplier")
    stems = sorted({path.stem.rpartition("_")[0] for path in RESULTS.glob("ldp_re*.json")})
    assert stems == ["ldp_real_10000", "ldp_regret_10000", "ldp_regret_100000", "ldp_regret_hybrid_10000"]
    blocks = [*map(side_by_side, stems), multiplier_tables(data), plays_table(data), paired_table(data)]
    blocks += [multiplier_tables(load("ldp_multiplier_hybrid")), main.mechanisms_table(load("ldp_mechanisms"))]
    printed = [line for block in blocks for line in block.splitlines() if line.startswith("| ")]
    assert len(printed) > 40
    assert len(KERNELS) * len(EPSILONS) == RUNS_PER_SEED
    assert [line for line in printed if line not in page] == []
    rows = page[page.index("*λ=matched") : page.index("**Does MoMA win")].splitlines()
    assert [line for line in rows if line.startswith("| ") and line not in printed] == []
