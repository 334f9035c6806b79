"""The figures on the pages equal those of the stored runs."""

import json
import math
from typing import Any

import numpy as np
import pytest

from benchmarks.ldp import __main__ as ldp
from benchmarks.ldp.problems import KERNELS
from benchmarks.ldp.runs import RESULTS, load
from benchmarks.ldp.search import RUNS_PER_SEED, multiplier_tables, paired_table, plays_table
from benchmarks.measurements.tails import report as tails
from benchmarks.optuna import pruning
from benchmarks.public import expected, report, searches
from benchmarks.public.measure import PEOPLE, read
from benchmarks.report import DOCS


def stored(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DOCS / "results" / f"{name}.jsonl").read_text().splitlines()]


def missing(page: str, *texts: str) -> list[str]:
    """The lines of these texts that a page lacks."""
    shown = " ".join((DOCS / page).read_text(encoding="utf-8").split())
    return [line for text in texts for line in text.splitlines() if " ".join(line.split()) not in shown]


def test_the_page_of_the_frontier_and_the_readme() -> None:
    names = ("public.jsonl", "frontier.jsonl", searches.KEPT)
    found = report.Results(*(read(DOCS / "results" / name) for name in names))
    tables = report.same(found, PEOPLE[:1]), report.shifted(found, PEOPLE[:1]), report.verdicts(found)
    assert missing("frontier.md", *tables) == []
    results = read(DOCS / "results" / expected.KEPT)
    assert missing("frontier.md", *expected.tables_of(results).values()) == []
    assert missing("../README.md", expected.readme(results)) == []


@pytest.mark.parametrize(("name", "table"), [("tails", tails.comparison)])
def test_the_page_of_measurements(name: str, table: Any) -> None:
    assert missing("research/measurements.md", table(stored(name))) == []


def test_the_page_of_pruning_has_the_table_and_its_savings_and_ratios() -> None:
    page, measured = (DOCS / "research/optuna.md").read_text(encoding="utf-8"), stored("pruning")
    assert pruning.table(measured) in page
    seen = " ".join(page.partition("**What was seen.**")[2].partition("With so few seeds")[0].split())
    for task in pruning.TASKS:
        runs = {(one["search"], one["seed"]): one for one in measured if one["task"] == task}
        search = "private, MedianPruner on 100 public images"
        pairs = [(runs["private, no pruning", seed], one) for (name, seed), one in runs.items() if name == search]
        ratios = [one["path"][-1][1] / usual["path"][-1][1] for usual, one in pairs]
        error = float(np.std(ratios, ddof=1)) / math.sqrt(len(ratios))
        assert f"{1 - np.mean([one['epochs'] / usual['epochs'] for usual, one in pairs]):.0%}" in seen
        assert f"{np.mean(ratios):.2f} ± {error:.2f}".replace("0.", ".") in seen


def test_the_page_of_local_privacy_shows_the_stored_runs_and_nothing_else() -> None:
    page, data = (DOCS / "research/ldp.md").read_text(), load("ldp_multiplier")
    stems = sorted({path.stem.rpartition("_")[0] for path in RESULTS.glob("ldp_re*.json")})
    assert stems == ["ldp_real_10000", "ldp_regret_10000", "ldp_regret_100000", "ldp_regret_hybrid_10000"]
    blocks = [*map(ldp.side_by_side, stems), multiplier_tables(data), plays_table(data), paired_table(data)]
    blocks += [multiplier_tables(load("ldp_multiplier_hybrid")), ldp.mechanisms_table(load("ldp_mechanisms"))]
    printed = [line for block in blocks for line in block.splitlines() if line.startswith("| ")]
    assert len(printed) > 40
    assert len(KERNELS) * len(ldp.EPSILONS) == RUNS_PER_SEED
    assert [line for line in printed if line not in page] == []
    rows = page[page.index("*λ=matched") : page.index("**Does MoMA win")].splitlines()
    assert [line for line in rows if line.startswith("| ") and line not in printed] == []
