"""The simulation of rules that stop trials: it asks as the package does, and its tables have every rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from noises import NoNoise

from benchmarks.curator import Curator
from benchmarks.what_did_not_work import rung_rules
from benchmarks.what_did_not_work.rung_rules import RULES, STEPS, Curves, Rule, simulate, trained
from dptune import CENTRED, Budget, Float, LossPrivatizer, PrivacyLedger, SearchRun, Space
from dptune.search import rungs

N = 40
SPACE = Space({"x": Float(0.0, 1.0)})


@pytest.fixture
def curves(monkeypatch: pytest.MonkeyPatch) -> Curves:
    """Losses that fall with the steps, of people who like x = .3."""
    monkeypatch.setattr(rung_rules, "SIZES", (0, N, 0))
    for name in ("EARLIER", "LAST"):  # a simulation sets them
        monkeypatch.setattr(rungs, name, getattr(rungs, name))
    found = Curves.__new__(Curves)
    found.space, found.points = SPACE, np.linspace(0, 1, 80)[:, None]
    levels = np.random.default_rng(0).uniform(0.0, 0.2, N) + 2 * (found.points - 0.3) ** 2  # (80, N)
    found.losses = levels[:, None, :] + 0.3 / np.array(STEPS)[:, None]
    found.outside = found.losses[:, -1].mean(axis=1)
    return found


def test_a_rule_saves_epochs_and_finds_the_minimum(curves: Curves) -> None:
    never, stopped = (simulate(curves, RULES[rule], 0) for rule in ("none", "3, 9"))
    assert never["epochs"] == 27 * 40, "42 are ten generations of four, and two trials"
    assert 27 * 16 < stopped["epochs"] < 0.6 * never["epochs"]
    assert max(never["loss"], stopped["loss"]) < curves.outside.min() + 0.1


@pytest.mark.parametrize("rule", [Rule(), Rule(kept=0.25), Rule(kept=rung_rules.TRUE_END)], ids=str)
def test_decisions_without_noise_are_those_of_the_real_privatizer(curves: Curves, tmp_path: Path, rule: Rule) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.db", Budget.gdp(1.0))
    real = LossPrivatizer(ledger, n=N, clip=(0.0, 3.0), dtype=np.float64, noise=NoNoise())
    charges = []
    for privatizer in (Curator(N, (0.0, 3.0), seed=0, private=False), real):
        settings: dict[str, Any] = {"trials": 8, "population": 4, "rung_share": 0.2, "rungs": 2}
        run = SearchRun(CENTRED, privatizer, scope="run", space=SPACE, seed=1, **settings)
        rows: dict[str, int] = {}
        for trial in map(str, range(12)):
            rows[trial] = curves.nearest(run.ask())
            trained(run, trial, curves, rows, rule)
        charges.append(list(privatizer.ledger.news("run", after=0).charges))
    assert [c.key for c in charges[0]] == [c.key for c in charges[1]]
    for one, other in zip(*charges, strict=True):
        assert one.value == pytest.approx(other.value, abs=1e-6)
