"""A run of CMA-ES on centred releases: what it releases, how a restart goes on with it, what odd trials do to it."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from audit_tools import dump
from centred_runs import EVERY, GENERATIONS, POPULATION, TRIALS, N, losses, start
from run_harness import SPACE, keys, trial

from dptune import Budget, CentredCMASession, Float, InputError, Int, LossPrivatizer, PlanComplete, PrivacyLedger, Space
from dptune.algorithms.centred_plan import plan_centred_cma

# ---- a whole run ---------------------------------------------------------------------------------------


def test_a_run_makes_two_releases_a_generation_and_then_no_more(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    values = [trial(run, str(i)) for i in range(TRIALS)]
    assert run.complete
    assert keys(ledger) == EVERY
    assert ledger.spent() == pytest.approx(4.0 * math.sqrt(0.95))
    assert values[: POPULATION - 1] == [0.4] * (POPULATION - 1)  # nothing was released yet
    assert all(math.isfinite(v) for v in values)
    assert run.released("3", values[3])
    assert not run.released("3", 0.123)
    before = dump(ledger)
    with pytest.raises(PlanComplete, match="planned"):
        run.check("one more")
    assert dump(ledger) == before
    assert SPACE.contains(run.recommend())
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
        share.note["radius"] * math.exp(-(min(max(share.value[0], 0), 1) - 0.5))
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
    run = CentredCMASession(
        privatizer,
        scope="s",
        space=SPACE,
        make_plan=lambda m, s: plan_centred_cma(d=2, loss_range=1.0, mu=m, seed=s, trials=60),
        seed=0,
    )
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


# ---- restart -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [0, 2, POPULATION, POPULATION + 3, 2 * POPULATION, TRIALS - 1, TRIALS])
def test_a_restart_continues_with_the_same_state_and_the_remaining_budget(ledger: PrivacyLedger, stop: int) -> None:
    first = start(ledger)
    for i in range(stop):
        trial(first, str(i))
    spent = ledger.spent()
    again = start(ledger)
    assert again.plan == first.plan
    assert np.array_equal(again.algorithm.means, first.algorithm.means)
    if stop >= POPULATION:
        assert again.recommend() == first.recommend()
    assert again.complete == first.complete == (stop == TRIALS)
    assert again.algorithm.ask(1).tolist() == first.algorithm.ask(1).tolist()
    assert ledger.spent() == spent
    for i in range(stop, stop + TRIALS + POPULATION):
        if again.complete:
            break
        trial(again, f"again {i}")
    assert again.complete
    assert keys(ledger) == EVERY
    assert ledger.spent() <= 4.0


def test_a_copy_has_the_state_and_none_of_the_losses(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    for i in range(POPULATION + 2):
        trial(run, str(i))
    twin = pickle.loads(pickle.dumps(run))
    assert twin.recommend() == run.recommend()
    assert twin.privatizer.points() == ()
    assert twin.algorithm.missing() == POPULATION


# ---- odd trials ----------------------------------------------------------------------------------------


def test_failed_trials_and_losses_that_are_not_finite_count(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    for i in range(TRIALS):
        mine = None if i % 4 == 3 else np.full(N, [np.nan, np.inf, -np.inf][i % 3])
        assert math.isfinite(run.finish(str(i), run.ask(), mine))
    assert run.complete


def test_failed_trials_leave_what_the_others_say(fast_path: Path) -> None:
    """A fifth of the trials fails, and the upper clip is far away: the run still finds where the loss is small.

    The noise is tiny and seeded: at mu=2 a run in eight ends elsewhere.
    """
    n = 30_000
    ledger = PrivacyLedger(fast_path / "ledger.db", Budget.gdp(200.0))
    centres = np.linspace(0.6, 1.0, n)
    run = CentredCMASession(
        LossPrivatizer(ledger, n=n, clip=(0.0, 40.0), insecure_seed=0),
        scope="s",
        space=SPACE,
        make_plan=lambda m, s: plan_centred_cma(d=2, loss_range=40.0, mu=m, seed=s, trials=120),
        seed=0,
    )
    for i in range(120):
        x = run.ask()
        mine = (x["a"] - centres) ** 2 + 0.1 * (math.log10(x["b"]) - 1) ** 2
        run.finish(str(i), x, None if i % 5 == 2 else mine)
    assert run.complete
    found = run.recommend()
    assert abs(found["a"] - 0.8) < 0.2
    assert abs(math.log10(found["b"]) - 1) < 0.6


def test_a_trial_out_of_range_has_no_say(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    for i, x in enumerate(({"a": 7.0, "b": 1.0}, {"a": 0.5}, {"a": math.nan, "b": 1.0}, {"a": 0.5, "b": -1.0})):
        assert math.isfinite(run.finish(f"odd {i}", x, np.full(N, 0.5)))
        assert run.algorithm.missing() == POPULATION
    assert run.privatizer.points() == ()
    assert keys(ledger) == []


def test_points_of_ones_own_and_rounded_ones_count(ledger: PrivacyLedger) -> None:
    space = Space({"a": Float(0.0, 1.0, step=0.1), "b": Int(1, 9)})
    run = start(ledger, space=space)
    assert run.plan.settings.steps == (1 / 11, 1 / 9)
    for i in range(POPULATION):
        run.finish(str(i), {"a": 0.1 * i, "b": 1 + i}, np.full(N, 0.1 * i))
    points = ledger.find("run", "generation/1").note["points"]
    assert points == [space.encode({"a": 0.1 * i, "b": 1 + i}).tolist() for i in range(POPULATION)]
    assert space.contains(run.ask())


# ---- the estimate --------------------------------------------------------------------------------------


def test_the_estimate_is_made_once(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    for i in range(TRIALS):
        trial(run, str(i))
    best = run.recommend()
    estimate = run.estimate(best, losses(best))
    assert run.estimate(best, losses(best)) == estimate
    assert ledger.spent() == pytest.approx(4.0)


def test_the_name_of_the_final_estimate_is_refused_before_a_model_is_trained(ledger: PrivacyLedger) -> None:
    """Its point would be forgotten with the estimate's."""
    run = start(ledger)
    with pytest.raises(InputError, match="'final'"):
        run.check("final")
    x = run.ask()
    with pytest.raises(InputError, match="'final'"):
        run.finish("final", x, losses(x))
    assert run.privatizer.points() == ()
    trial(run, "final 1")
    best = SPACE.decode(np.full(2, 0.5))
    run.estimate(best, losses(best))
