"""A run of CMA-ES on centred releases: what it releases, keeps and finds; crashes, meetings, and falling behind."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from centred_runs import EVERY, GENERATIONS, POPULATION, TRIALS, N, a_generation, losses, start
from run_harness import SPACE, keys, trial, trials

from dptune import CENTRED, Budget, LedgerError, LossPrivatizer, PrivacyLedger, SearchRun
from dptune.gp.grouped import GroupedRegression

# ---- a whole run ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.05, 0.0])
def test_a_run_makes_two_releases_a_generation_or_one_if_its_radius_stays(ledger: PrivacyLedger, share: float) -> None:
    run = start(ledger, share=share)
    values = trials(run, TRIALS)
    assert keys(ledger) == (EVERY if share else EVERY[1::2])
    assert ledger.spent() == pytest.approx(4.0 * math.sqrt(0.95))
    assert values[: POPULATION - 1] == [math.inf] * (POPULATION - 1)  # nothing was released yet
    assert run.privatizer.points() == ()
    assert share or run.algorithm.radius == run.plan.settings.radius


def test_each_charge_says_what_it_is(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    trials(run, POPULATION)
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
    trials(run, 2 * POPULATION)
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


def test_the_run_can_be_drawn_from_its_ledger(ledger: PrivacyLedger, tmp_path: Path) -> None:
    from dptune.figures import save_figure

    run = start(ledger)
    trials(run, 2 * POPULATION)
    text = save_figure(ledger, tmp_path / "figure.svg").read_text()
    assert len(text) > 10_000
    assert "NOT PRIVATE" not in text


@pytest.mark.parametrize(
    ("mu", "high", "count", "failing", "near"), [(2.0, 1.0, 60, 0, (0.1, 0.4)), (200.0, 40.0, 120, 5, (0.2, 0.6))]
)
def test_it_finds_where_the_loss_is_small_also_if_a_fifth_of_the_trials_fails_and_the_clip_is_far_away(
    fast_path: Path, mu: float, high: float, count: int, failing: int, near: tuple[float, float]
) -> None:
    """The noise of the second is tiny and seeded: at mu=2 a run in eight ends elsewhere."""
    n, seed = 30_000, 0 if failing else None
    ledger = PrivacyLedger(fast_path / "ledger.db", Budget.gdp(mu))
    privatizer = LossPrivatizer(ledger, n=n, clip=(0.0, high), insecure_seed=seed)
    centres = np.linspace(0.6, 1.0, n)
    run = SearchRun(CENTRED, privatizer, scope="s", space=SPACE, seed=0, trials=count)
    for i in range(run.plan.trials):
        x = run.ask()
        mine = (x["a"] - centres) ** 2 + 0.1 * (math.log10(x["b"]) - 1) ** 2
        value = run.finish(str(i), x, None if failing and i % failing == 2 else mine)
    assert run.complete
    found = run.recommend()
    assert abs(found["a"] - 0.8) < near[0]
    assert abs(math.log10(found["b"]) - 1) < near[1]
    assert failing or value < 0  # better than the centre


# ---- charges and records that failed, came late or never came ----------------------------------------


def test_a_run_whose_last_share_is_paid_and_generation_is_not_can_be_finished(
    ledger: PrivacyLedger, monkeypatch: Any
) -> None:
    """Nothing but the generation's own price is left, and nothing more is asked for before its trials are trained."""
    run, true = start(ledger, final_share=0.0), LossPrivatizer.release
    trials(run, TRIALS - 1)

    def dies(self: LossPrivatizer, query: Any, **options: Any) -> Any:
        if options["key"] == f"generation/{GENERATIONS}":
            raise KeyboardInterrupt
        return true(self, query, **options)

    with monkeypatch.context() as patch:
        patch.setattr(LossPrivatizer, "release", dies)
        with pytest.raises(KeyboardInterrupt):
            trial(run, "last")
    assert keys(ledger) == EVERY[:-1]
    again = start(ledger, final_share=0.0)
    a_generation(again, "again")
    assert again.complete
    assert keys(ledger) == EVERY


def test_a_generation_that_was_recorded_late_is_not_asked_again_at_the_same_points(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(ledger)
    record, failed = run.ledger.record, []

    def full(charge: Any, value: Any) -> Any:
        if charge.key == "generation/1" and not failed:
            failed.append(charge)
            raise LedgerError("disk full")
        return record(charge, value)

    monkeypatch.setattr(run.ledger, "record", full)
    with pytest.raises(LedgerError):
        a_generation(run, "a")
    trials(run, POPULATION - 1, "b")
    assert keys(ledger) == EVERY[:2]
    trial(run, "last")
    first, second = (c.note["points"][:POPULATION] for c in ledger.charges("run", prefix="generation/"))
    assert not [point for point in first if point in second]


# ---- two processes, or two threads, that meet within a release ---------------------------------------


def test_who_comes_second_with_a_share_keeps_its_points(ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first makes its own between the second's look at the ledger and its charge."""
    first, second = start(ledger), start(ledger)
    for run in (first, second):
        for i in range(POPULATION - 1):
            trial(run, f"{run is first} {i}")
    true, met = LossPrivatizer.release, []

    def release(self: LossPrivatizer, query: Any, **options: Any) -> Any:
        if self is second.privatizer and options["key"] == "share/1" and not met:
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


def test_a_radius_follows_the_share_of_who_came_first_with_it_alone(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first dies between its two releases; the second meets the share as a conflict and makes the generation."""
    first, second = start(ledger), start(ledger)
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


def test_progress_waits_for_a_generation_that_another_thread_is_learning_from(
    ledger: PrivacyLedger, monkeypatch: Any
) -> None:
    """Between the surrogate's new points and its new weights nobody may ask it anything."""
    run, true, threads = start(ledger), GroupedRegression._take, []
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
    trials(run, TRIALS)
    for thread in threads:
        thread.join()
    assert len(seen) == 4
    assert all(isinstance(done, int) and done > i for i, done in enumerate(seen))


# ---- behind its plan ---------------------------------------------------------------------------------


def test_workers_with_too_few_trials_each_are_told(ledger: PrivacyLedger) -> None:
    workers, told = [start(ledger) for _ in range(8)], []
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


def test_a_warning_says_why_generations_are_missing(ledger: PrivacyLedger) -> None:
    run = start(ledger)
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
