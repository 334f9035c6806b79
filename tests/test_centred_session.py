"""A run of CMA-ES on centred releases: charges, restarts, several sessions, odd trials, non-interference."""

from __future__ import annotations

import json
import math
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from audit_tools import CannedNoise, dump

from dptune import (
    Budget,
    BudgetExhausted,
    BudgetMismatch,
    CentredCMASession,
    Float,
    InputError,
    Int,
    LedgerError,
    LossPrivatizer,
    PlanComplete,
    PrivacyLedger,
    Space,
)
from dptune.centred_plan import cell_widths, plan_centred_cma
from dptune.gp.grouped import GroupedRegression

N, POPULATION, GENERATIONS = 50, 5, 4
TRIALS = POPULATION * GENERATIONS
SPACE = Space({"a": Float(0.0, 1.0), "b": Float(1e-2, 1e2, log=True)})


@pytest.fixture
def ledger(fast_path: Path) -> PrivacyLedger:
    return PrivacyLedger(fast_path / "ledger.db", Budget.gdp(4.0))


def session(ledger: PrivacyLedger, *, scope: str = "run", mu: float | None = None, **change: Any) -> CentredCMASession:
    """Return a session with a privatizer of its own, as another process would have."""
    seed, space = change.pop("seed", None), change.pop("space", SPACE)
    privatizer = LossPrivatizer(PrivacyLedger(ledger._url.database), n=N, clip=(0.0, 1.0))
    options = {"trials": TRIALS, "population": POPULATION, "steps": cell_widths(space), **change}
    return CentredCMASession(
        privatizer,
        scope=scope,
        space=space,
        make_plan=lambda m, s: plan_centred_cma(d=len(space), loss_range=1.0, mu=m, seed=s, **options),
        mu=mu,
        seed=seed,
    )


def losses(x: dict[str, Any]) -> np.ndarray:
    return np.asarray((x["a"] - np.linspace(0.2, 0.6, N)) ** 2 + 0.02 * math.log10(x["b"]) ** 2)


def trial(run: CentredCMASession, name: str) -> float:
    run.check(name)
    x = run.ask()
    return run.finish(name, x, losses(x))


def trials(run: CentredCMASession, name: str) -> None:
    for i in range(POPULATION):
        trial(run, f"{name} {i}")


def keys(ledger: PrivacyLedger, prefix: str = "", scope: str = "run") -> list[str]:
    return [c.key for c in ledger.charges(scope, prefix=prefix)]


EVERY = [f"{kind}/{g}" for g in range(1, GENERATIONS + 1) for kind in ("share", "generation")]


# ---- a whole run ---------------------------------------------------------------------------------------


def test_a_run_makes_two_releases_a_generation_and_then_no_more(ledger: PrivacyLedger) -> None:
    run = session(ledger)
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
    run = session(ledger)
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
    run = session(ledger)
    for i in range(2 * POPULATION):
        trial(run, str(i))
    charges = ledger.charges("run", prefix="generation/")
    assert len(charges) == 2
    told = zip(charges, run.algorithm.generations, session(ledger).algorithm.generations, strict=True)
    for charge, own, folded in told:
        sigma = 2 * charge.note["radius"] / (N * run.plan.settings.mean_mu)
        assert own.sigma == folded.sigma == charge.description["sigma"] == pytest.approx(sigma, rel=1e-5)


def test_references_are_asked_again_and_other_losses_are_forgotten(ledger: PrivacyLedger) -> None:
    run = session(ledger)
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


# ---- restart -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [0, 2, POPULATION, POPULATION + 3, 2 * POPULATION, TRIALS - 1, TRIALS])
def test_a_restart_continues_with_the_same_state_and_the_remaining_budget(ledger: PrivacyLedger, stop: int) -> None:
    first = session(ledger)
    for i in range(stop):
        trial(first, str(i))
    spent = ledger.spent()
    again = session(ledger)
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


def test_a_generation_whose_answer_was_lost_is_used_up(ledger: PrivacyLedger, monkeypatch: Any) -> None:
    run = session(ledger)
    for i in range(POPULATION):
        trial(run, str(i))

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LossPrivatizer, "_draw", dies)
        with pytest.raises(KeyboardInterrupt):
            trials(run, "lost")
    again = session(ledger)
    for i in range(2 * TRIALS):
        if again.complete:
            break
        trial(again, f"again {i}")
    assert again.complete
    assert sorted(keys(ledger)) == sorted(EVERY)
    assert ledger.spent() <= 4.0


def test_a_run_whose_last_share_is_paid_and_generation_is_not_can_be_finished(
    ledger: PrivacyLedger, monkeypatch: Any
) -> None:
    """Nothing but the generation's own price is left, and nothing more is asked for before its trials are trained."""
    run, true = session(ledger, final_share=0.0), LossPrivatizer.release
    for i in range(TRIALS - 1):
        trial(run, str(i))

    def dies(self: LossPrivatizer, query: Any, **options: Any) -> Any:
        if options["key"] == f"generation/{GENERATIONS}":
            raise KeyboardInterrupt
        return true(self, query, **options)

    with monkeypatch.context() as patch:
        patch.setattr(LossPrivatizer, "release", dies)
        with pytest.raises(KeyboardInterrupt):
            trial(run, "last")
    assert keys(ledger) == EVERY[:-1]
    again = session(ledger, final_share=0.0)
    trials(again, "again")
    assert again.complete
    assert keys(ledger) == EVERY


def test_workers_with_too_few_trials_each_are_told(ledger: PrivacyLedger) -> None:
    workers, told = [session(ledger) for _ in range(8)], []
    for i in range(TRIALS + 2 * POPULATION):
        trial(workers[i % 8], str(i))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            workers[0].warn_if_behind(i + 1)
        told += [(i + 1, str(warning.message)) for warning in caught]
    ((when, message),) = told  # once, with the last planned trial
    assert when == TRIALS
    assert "0 of 4 generations" in message
    assert "n_jobs" in message
    assert "were not" not in message
    with pytest.warns(UserWarning, match=r"centre of the search space.*0 of 4 generations.*n_jobs"):
        assert workers[1].recommend() == SPACE.decode(np.full(2, 0.5))
    assert ledger.spent() == 0.0
    for i in range(TRIALS):
        if not workers[1].complete:
            trial(workers[1], f"enough {i}")
    assert not workers[2].complete
    workers[2].warn_if_behind(10**6)  # it looks at the ledger first, and says nothing
    assert workers[2].complete
    workers[2].recommend()


def test_two_sessions_interleaved_agree_and_share_one_budget(ledger: PrivacyLedger) -> None:
    a, b = session(ledger), session(ledger)
    for i in range(4 * TRIALS):
        if a.complete or b.complete:
            break
        trial((a, b)[i % 2], str(i))
    a.recommend(), b.recommend()  # both look
    assert a.complete
    assert b.complete
    assert np.array_equal(a.algorithm.means, b.algorithm.means)
    assert sorted(keys(ledger)) == sorted(EVERY)
    assert ledger.spent() <= 4.0


def test_an_answer_that_arrives_late_is_folded_in_its_place(ledger: PrivacyLedger, monkeypatch: Any) -> None:
    a, b = session(ledger), session(ledger)
    true, waiting = PrivacyLedger.record, []

    def later(self: PrivacyLedger, charge: Any, value: Any) -> Any:
        if charge.key == "generation/1":
            waiting.append((charge, value))
            raise KeyboardInterrupt
        return true(self, charge, value)

    monkeypatch.setattr(PrivacyLedger, "record", later)
    with pytest.raises(KeyboardInterrupt):
        trials(a, "a")
    for i in range(POPULATION):
        trial(b, f"b{i}")
    assert keys(ledger, "generation/") == ["generation/1", "generation/2"]
    assert len(b.algorithm.generations) == 1
    true(ledger, *waiting[0])
    b.recommend()
    assert [g.radius for g in b.algorithm.generations] == [
        c.note["radius"] for c in ledger.charges("run", prefix="generation/")
    ]
    assert np.array_equal(session(ledger).algorithm.means, b.algorithm.means)


@pytest.mark.parametrize("key", ["share/1", "generation/1"])
def test_who_comes_second_with_a_release_keeps_its_points(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """The first makes its own between the second's look at the ledger and its charge."""
    first, second = session(ledger), session(ledger)
    for run in (first, second):
        for i in range(POPULATION - 1):
            trial(run, f"{run is first} {i}")
    true, met = LossPrivatizer.release, []

    def release(self: LossPrivatizer, query: Any, **options: Any) -> Any:
        if self is second.privatizer and options["key"] == key and not met:
            met.append(trial(first, "first"))
        return true(self, query, **options)

    monkeypatch.setattr(LossPrivatizer, "release", release)
    trial(second, "second")
    assert met
    assert keys(ledger) == EVERY[:2]
    assert np.array_equal(second.algorithm.means, first.algorithm.means)
    assert second.algorithm.missing() == 0  # its points wait for the next generation
    trial(second, "next")
    assert keys(ledger) == EVERY[:4]


def test_a_generation_that_was_recorded_late_is_not_asked_again_at_the_same_points(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = session(ledger)
    record, failed = run.ledger.record, []

    def full(charge: Any, value: Any) -> Any:
        if charge.key == "generation/1" and not failed:
            failed.append(charge)
            raise LedgerError("disk full")
        return record(charge, value)

    monkeypatch.setattr(run.ledger, "record", full)
    with pytest.raises(LedgerError):
        trials(run, "a")
    for i in range(POPULATION - 1):
        trial(run, f"b{i}")
    assert keys(ledger) == EVERY[:2]
    trial(run, "last")
    first, second = (c.note["points"][:POPULATION] for c in ledger.charges("run", prefix="generation/"))
    assert not [point for point in first if point in second]


def test_a_generation_that_another_process_charged_leaves_ones_own_points_waiting(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process's charge fails, and another makes the generation meanwhile."""
    run, other = session(ledger), session(ledger)
    charge, failed = run.ledger.charge, []

    def full(scope: str, key: str, *args: Any, **options: Any) -> Any:
        if key == "generation/1" and not failed:
            failed.append(key)
            raise LedgerError("disk full")
        return charge(scope, key, *args, **options)

    monkeypatch.setattr(run.ledger, "charge", full)
    with pytest.raises(LedgerError):
        trials(run, "a")
    trials(other, "b")
    run.recommend()
    assert (run.algorithm.t, run.algorithm.missing()) == (1, 0)


def test_a_warning_says_why_generations_are_missing(ledger: PrivacyLedger) -> None:
    run = session(ledger)
    for i in range(TRIALS):
        run.finish(f"outside {i}", {"a": 7.0, "b": 1.0}, np.zeros(N))
    with pytest.warns(
        UserWarning, match=f"0 of 4.*in the search space, and {TRIALS} of this process's trials were not"
    ):
        run.warn_if_behind(TRIALS)
    other = run.privatizer
    other.observe("x", np.zeros(N))
    other.release(other.mean_query("x", ledger.remaining() * 0.999), scope="another study", key="1")
    for i in range(POPULATION):
        x = run.ask()
        run.finish(f"late {i}", x, losses(x))
    with pytest.warns(UserWarning, match="0 of 4.*Other runs have spent the budget"):
        run.recommend()


def test_a_radius_follows_the_share_of_who_came_first_with_it_alone(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first dies between its two releases; the second meets the share as a conflict and makes the generation."""
    first, second = session(ledger), session(ledger)
    for i in range(POPULATION - 1):
        trial(first, f"a{i}"), trial(second, f"b{i}")
    true = LossPrivatizer.release

    def release(self: LossPrivatizer, query: Any, **options: Any) -> Any:
        if self is first.privatizer and options["key"] == "generation/1":
            raise KeyboardInterrupt
        if self is second.privatizer and options["key"] == "share/1":
            with pytest.raises(KeyboardInterrupt):
                trial(first, "first")
        return true(self, query, **options)

    monkeypatch.setattr(LossPrivatizer, "release", release)
    trial(second, "second")
    share, generation = ledger.charges("run")
    assert (share.key, generation.key) == ("share/1", "generation/1")
    assert generation.note["radius"] != share.note["radius"]
    assert second.algorithm.generations[0].radius == generation.note["radius"]


def test_threads_share_a_session(ledger: PrivacyLedger) -> None:
    run = session(ledger)

    def work(i: int) -> float | None:
        try:
            return trial(run, str(i))
        except PlanComplete:
            return None

    with ThreadPoolExecutor(4) as pool:
        done = [v for v in pool.map(work, range(TRIALS + 8)) if v is not None]
    assert run.complete
    assert len(done) >= TRIALS
    assert keys(ledger) == EVERY
    assert ledger.spent() <= 4.0


def test_progress_waits_for_a_generation_that_another_thread_is_learning_from(
    ledger: PrivacyLedger, monkeypatch: Any
) -> None:
    """Between the surrogate's new points and its new weights nobody may ask it anything."""
    run, true, threads = session(ledger), GroupedRegression._take, []
    seen: list[object] = []

    def show() -> None:
        try:
            seen.append(run.progress()["generations_done"])
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
            seen.append(error)

    def take(self: GroupedRegression, groups: Any) -> None:
        true(self, groups)
        threads.append(Thread(target=show))
        threads[-1].start()
        threads[-1].join(0.2)

    monkeypatch.setattr(GroupedRegression, "_take", take)
    for i in range(TRIALS):
        trial(run, str(i))
    for thread in threads:
        thread.join()
    assert seen == [1, 2, 3, 4]


def test_a_check_that_meets_the_last_generation_says_that_the_run_is_complete(
    ledger: PrivacyLedger, monkeypatch: Any
) -> None:
    """Another process makes it between this one's look at the ledger and its look at the budget."""
    a, b = session(ledger, final_share=0.0), session(ledger, final_share=0.0)
    for i in range(TRIALS - 1):
        trial(a, str(i))
    x, true, met = a.ask(), PrivacyLedger.check, []

    def check(self: PrivacyLedger, mu: float, **options: Any) -> None:
        if not met:
            met.append(a.finish("last", x, losses(x)))
        true(self, mu, **options)

    monkeypatch.setattr(PrivacyLedger, "check", check)
    with pytest.raises(PlanComplete):
        b.check("next")


# ---- odd trials ----------------------------------------------------------------------------------------


def test_lost_trials_delay_and_do_not_block(ledger: PrivacyLedger) -> None:
    run, finished = session(ledger), 0
    for i in range(3 * TRIALS):
        if run.complete:
            break
        x = run.ask()
        if i % 3:  # every third trial never comes back
            run.finish(str(i), x, losses(x))
            finished += 1
    assert run.complete
    assert finished == TRIALS


def test_failed_trials_and_losses_that_are_not_finite_count(ledger: PrivacyLedger) -> None:
    run = session(ledger)
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
    run = session(ledger)
    for i, x in enumerate(({"a": 7.0, "b": 1.0}, {"a": 0.5}, {"a": math.nan, "b": 1.0}, {"a": 0.5, "b": -1.0})):
        assert math.isfinite(run.finish(f"odd {i}", x, np.full(N, 0.5)))
        assert run.algorithm.missing() == POPULATION
    assert run.privatizer.points() == ()
    assert keys(ledger) == []


def test_points_of_ones_own_and_rounded_ones_count(ledger: PrivacyLedger) -> None:
    space = Space({"a": Float(0.0, 1.0, step=0.1), "b": Int(1, 9)})
    run = session(ledger, space=space)
    assert run.plan.settings.steps == (1 / 11, 1 / 9)
    for i in range(POPULATION):
        run.finish(str(i), {"a": 0.1 * i, "b": 1 + i}, np.full(N, 0.1 * i))
    points = ledger.find("run", "generation/1").note["points"]
    assert points == [space.encode({"a": 0.1 * i, "b": 1 + i}).tolist() for i in range(POPULATION)]
    assert space.contains(run.ask())


@pytest.mark.parametrize("wrong", [np.zeros(N - 1), np.zeros((N, 1)), 0.5, ["a"] * (N + 1)])
def test_losses_of_a_wrong_shape_are_refused_and_cost_nothing(ledger: PrivacyLedger, wrong: Any) -> None:
    run = session(ledger)
    with pytest.raises(InputError):
        run.finish("0", run.ask(), wrong)
    assert ledger.spent() == 0.0


# ---- plans and budgets ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [{"trials": 30}, {"radius": 0.6}, {"share": 0.2}, {"seed": 8}, {"mu": 2.0}, {"references": 1}],
    ids=lambda change: next(iter(change)),
)
def test_another_plan_for_the_same_run_is_refused(ledger: PrivacyLedger, change: dict[str, Any]) -> None:
    session(ledger, seed=7, mu=3.0)
    before = dump(ledger)
    with pytest.raises(BudgetMismatch, match="planned"):
        session(ledger, **{"seed": 7, "mu": 3.0, **change})
    assert dump(ledger) == before


def test_a_run_without_shares_keeps_its_radius(ledger: PrivacyLedger) -> None:
    run = session(ledger, share=0.0)
    for i in range(TRIALS):
        trial(run, str(i))
    assert keys(ledger) == [f"generation/{g}" for g in range(1, GENERATIONS + 1)]
    assert run.algorithm.radius == run.plan.settings.radius
    assert ledger.spent() == pytest.approx(4.0 * math.sqrt(0.95))


def test_a_budget_spent_by_another_study_ends_the_run_before_a_model_is_trained(ledger: PrivacyLedger) -> None:
    run = session(ledger)
    for i in range(POPULATION):
        trial(run, str(i))
    other = run.privatizer
    other.observe("x", np.zeros(N))
    other.release(other.mean_query("x", ledger.remaining() * 0.999), scope="another study", key="1")
    with pytest.raises(BudgetExhausted):
        run.check("next")
    for i in range(POPULATION):  # these were being trained
        x = run.ask()
        run.finish(f"late {i}", x, losses(x))
    with pytest.raises(BudgetExhausted):
        run.check("next")
    assert ledger.spent() <= 4.0
    assert SPACE.contains(run.recommend())


def test_the_estimate_is_made_once(ledger: PrivacyLedger) -> None:
    run = session(ledger)
    for i in range(TRIALS):
        trial(run, str(i))
    best = run.recommend()
    estimate = run.estimate(best, losses(best))
    assert run.estimate(best, losses(best)) == estimate
    assert ledger.spent() == pytest.approx(4.0)


def test_the_name_of_the_final_estimate_is_refused_before_a_model_is_trained(ledger: PrivacyLedger) -> None:
    """Its point would be forgotten with the estimate's."""
    run = session(ledger)
    with pytest.raises(InputError, match="'final'"):
        run.check("final")
    x = run.ask()
    with pytest.raises(InputError, match="'final'"):
        run.finish("final", x, losses(x))
    assert run.privatizer.points() == ()
    trial(run, "final 1")
    best = SPACE.decode(np.full(2, 0.5))
    run.estimate(best, losses(best))


# ---- non-interference ----------------------------------------------------------------------------------


def test_what_a_run_shows_and_stores_does_not_depend_on_private_data(fast_path: Path) -> None:
    """All releases canned: neighbours, one of them with NaN, inf and failures of type, leave equal transcripts."""
    transcripts = []
    for name, person in (("a", 0.3), ("b", np.nan), ("c", np.inf), ("d", -1e308)):
        (fast_path / name).mkdir()
        ledger = PrivacyLedger(fast_path / name / "ledger.db", Budget.gdp(4.0))
        run = session(ledger, seed=3)
        run.privatizer._noise = CannedNoise(5)
        shown: list[Any] = []
        for i in range(TRIALS):
            x = run.ask()
            mine = losses(x)
            mine[4] = person
            shown.append((x, run.finish(str(i), x, mine), run.progress()))
        shown.append((run.recommend(), run.estimate(run.recommend(), mine), repr(run.privatizer)))
        transcripts.append((shown, dump(ledger)))
    assert transcripts[0] == transcripts[1] == transcripts[2] == transcripts[3]


def test_progress_is_plain_public_data(ledger: PrivacyLedger) -> None:
    run = session(ledger)
    for i in range(POPULATION):
        trial(run, str(i))
    progress = json.loads(json.dumps(run.progress()))
    assert (progress["generations_done"], progress["generations"], progress["private"]) == (1, GENERATIONS, True)
    assert progress["mu_spent"] == ledger.spent()


def test_the_run_can_be_drawn_from_its_ledger(ledger: PrivacyLedger, tmp_path: Path) -> None:
    from dptune.figures import save_figure

    run = session(ledger)
    for i in range(2 * POPULATION):
        trial(run, str(i))
    text = save_figure(ledger, tmp_path / "figure.svg").read_text()
    assert len(text) > 10_000
    assert "NOT PRIVATE" not in text


def test_a_copy_has_the_state_and_none_of_the_losses(ledger: PrivacyLedger) -> None:
    run = session(ledger)
    for i in range(POPULATION + 2):
        trial(run, str(i))
    twin = pickle.loads(pickle.dumps(run))
    assert twin.recommend() == run.recommend()
    assert twin.privatizer.points() == ()
    assert twin.algorithm.missing() == POPULATION
