"""The LDP benchmarks run without files; their replies are CTL's; the cores equal the forms they are timed beside."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
import pytest

from benchmarks.ldp import __main__ as main
from benchmarks.ldp.__main__ import EPSILONS, side_by_side, synthetic
from benchmarks.ldp.problems import (
    KERNELS,
    generated_table,
    heavy_replies,
    ldp_replies,
    rkhs,
    stocks,
    told_values,
)
from benchmarks.ldp.runs import ALGORITHMS, DEFAULT, ORDER_WISE, RESULTS, ROOT, THEOREM, checkpoints, load, play
from benchmarks.ldp.search import RUNS_PER_SEED, multiplier_tables, paired_table, plays_table


def test_replies_are_clamped_values_plus_laplace_noise() -> None:
    problem = rkhs("SE", 0)
    replies = ldp_replies(problem, 2.0)
    reply = told_values(problem, replies, 20_000, 0)
    noise = np.array([reply(t, 3) for t in range(20_000)]) - problem.f[3]
    assert noise.var() == pytest.approx(2 * replies.L**2 + 1 / 3, rel=0.05)
    table = stocks(0, generated_table())
    reply = told_values(table, ldp_replies(table, 1e9), 500, 0)
    assert max(abs(reply(t, j)) for t in range(500) for j in range(12)) <= table.B + 1 + 1e-6
    student = rkhs("SE", 0, student=True)
    plain = told_values(student, heavy_replies(student), 500, 0)
    assert np.ptp([plain(t, 0) for t in range(500)]) > 4


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
