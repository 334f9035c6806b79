"""A run of CMA-ES on centred releases: what it releases, keeps and finds."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from centred_runs import EVERY, GENERATIONS, POPULATION, TRIALS, N, start
from run_harness import SPACE, keys, trial

from dptune import CENTRED, Budget, LossPrivatizer, PrivacyLedger, SearchRun

# ---- a whole run ---------------------------------------------------------------------------------------


def test_a_run_makes_two_releases_a_generation(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    values = [trial(run, str(i)) for i in range(TRIALS)]
    assert keys(ledger) == EVERY
    assert ledger.spent() == pytest.approx(4.0 * math.sqrt(0.95))
    assert values[: POPULATION - 1] == [math.inf] * (POPULATION - 1)  # nothing was released yet
    assert run.privatizer.points() == ()


def test_each_charge_says_what_it_is(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    for i in range(POPULATION):
        trial(run, str(i))
    share, generation = ledger.charges("run")
    assert "share of people" in share.description["statistic"]
    assert generation.description["dimension"] == POPULATION
    assert np.shape(generation.note["points"]) == (POPULATION, 2)
    assert generation.note["radius"] == pytest.approx(
        share.note["radius"] * math.exp(-(min(max(share.value[0], 0), 1) - run.plan.settings.quantile))
    )
    assert generation.description["sensitivity"] == pytest.approx(2 * generation.note["radius"] / N)
    assert sum(generation.value) != 0.0


def test_the_surrogate_is_told_the_noise_that_was_drawn(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    for i in range(2 * POPULATION):
        trial(run, str(i))
    charges = ledger.charges("run", prefix="generation/")
    assert len(charges) == 2
    told = zip(charges, run.algorithm.generations, start(ledger).algorithm.generations, strict=True)
    for charge, own, folded in told:
        sigma = 2 * charge.note["radius"] / (N * run.plan.settings.mean_mu)
        assert own.sigma == folded.sigma == charge.description["sigma"] == pytest.approx(sigma, rel=1e-5)


def test_references_are_asked_again_and_other_losses_are_forgotten(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    for i in range(TRIALS):
        trial(run, str(i))
        assert len(run.privatizer.points()) <= POPULATION + 2
    sizes = [len(c.value) for c in ledger.charges("run", prefix="generation/")]
    assert sizes == [POPULATION, *[POPULATION + 2] * (GENERATIONS - 1)]


def test_it_learns_when_people_are_many(fast_path: Path) -> None:
    n = 30_000
    ledger = PrivacyLedger(fast_path / "ledger.db", Budget.gdp(2.0))
    privatizer = LossPrivatizer(ledger, n=n, clip=(0.0, 1.0))
    centres = np.linspace(0.6, 1.0, n)
    run = SearchRun(CENTRED, privatizer, scope="s", space=SPACE, seed=0, trials=60)
    i = 0
    while not run.complete:
        x = run.ask()
        value = run.finish(str(i), x, (x["a"] - centres) ** 2 + 0.1 * (math.log10(x["b"]) - 1) ** 2)
        i += 1
    found = run.recommend()
    assert abs(found["a"] - 0.8) < 0.1
    assert abs(math.log10(found["b"]) - 1) < 0.4
    assert value < 0  # better than the centre


def test_a_run_without_shares_keeps_its_radius(ledger: PrivacyLedger) -> None:
    run = start(ledger, share=0.0)
    for i in range(TRIALS):
        trial(run, str(i))
    assert keys(ledger) == [f"generation/{g}" for g in range(1, GENERATIONS + 1)]
    assert run.algorithm.radius == run.plan.settings.radius
    assert ledger.spent() == pytest.approx(4.0 * math.sqrt(0.95))


def test_the_run_can_be_drawn_from_its_ledger(ledger: PrivacyLedger, tmp_path: Path) -> None:
    from dptune.figures import save_figure

    run = start(ledger)
    for i in range(2 * POPULATION):
        trial(run, str(i))
    text = save_figure(ledger, tmp_path / "figure.svg").read_text()
    assert len(text) > 10_000
    assert "NOT PRIVATE" not in text


# ---- odd trials ----------------------------------------------------------------------------------------


def test_failed_trials_leave_what_the_others_say(fast_path: Path) -> None:
    """A fifth of the trials fails, and the upper clip is far away: the run still finds where the loss is small.

    The noise is tiny and seeded: at mu=2 a run in eight ends elsewhere.
    """
    n = 30_000
    ledger = PrivacyLedger(fast_path / "ledger.db", Budget.gdp(200.0))
    centres = np.linspace(0.6, 1.0, n)
    privatizer = LossPrivatizer(ledger, n=n, clip=(0.0, 40.0), insecure_seed=0)
    run = SearchRun(CENTRED, privatizer, scope="s", space=SPACE, seed=0, trials=120)
    for i in range(120):
        x = run.ask()
        mine = (x["a"] - centres) ** 2 + 0.1 * (math.log10(x["b"]) - 1) ** 2
        run.finish(str(i), x, None if i % 5 == 2 else mine)
    assert run.complete
    found = run.recommend()
    assert abs(found["a"] - 0.8) < 0.2
    assert abs(math.log10(found["b"]) - 1) < 0.6
