"""A run of the centred search: what it releases, keeps and finds; a generation's two questions; falling behind."""

from __future__ import annotations

import math
import re
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from runs import CENTRED_RUN, SPACE, keys, losses_of, spend_elsewhere, trial, trials, when_released

from dptune import CENTRED, Budget, LossPrivatizer, PrivacyLedger, SearchRun
from dptune.figures import save_figure
from dptune.privacy.noise import SeededNoise
from dptune.search.gp.grouped import GroupedRegression

start, N, POPULATION, GENERATIONS, TRIALS = CENTRED_RUN.start, 50, 5, 4, 20
EVERY = [f"{kind}/{g}" for g in range(1, GENERATIONS + 1) for kind in ("share", "generation")]

# ---- a whole run ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.05, 0.0])
def test_a_run_makes_two_releases_a_generation_or_one_if_its_radius_stays(ledger: PrivacyLedger, share: float) -> None:
    run = start(ledger, tuning={"radius_share": share})
    values = trials(run, TRIALS)
    assert keys(ledger) == (EVERY if share else EVERY[1::2])
    assert ledger.spent() == pytest.approx(4.0 * math.sqrt(0.95))
    assert values[: POPULATION - 1] == [math.inf] * (POPULATION - 1)  # nothing was released yet
    assert run.privatizer.points() == ()
    assert share or run.algorithm.radius == run.plan.settings.radius


def test_each_charge_says_what_it_is_and_the_surrogate_is_told_the_noise_that_was_drawn(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    trials(run, 2 * POPULATION)
    share, generation, *_ = ledger.charges("run")
    assert "share of people" in share.description["statistic"]
    assert generation.description["dimension"] == POPULATION
    assert np.shape(generation.note["points"]) == (POPULATION, 2)
    assert sum(generation.value) != 0.0
    charges = ledger.charges("run", prefix="generation/")
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
    trials(start(ledger), 2 * POPULATION)
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
    privatizer = LossPrivatizer(ledger, n=n, clip=(0.0, high), noise=None if seed is None else SeededNoise(seed))
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
    assert failing or value < high  # better than the centre, whose loss counts as the clip's end


# ---- between a generation's two questions --------------------------------------------------------------


def test_a_run_whose_last_share_is_paid_and_generation_is_not_can_be_finished(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the generation's own price is left, and nothing more is asked for before its trials are trained."""
    run = start(ledger, final_share=0.0)
    trials(run, TRIALS - 1)

    def dies(privatizer: LossPrivatizer, key: str) -> None:
        if key == f"generation/{GENERATIONS}":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        when_released(patch, dies)
        with pytest.raises(KeyboardInterrupt):
            trial(run, "last")
    assert keys(ledger) == EVERY[:-1]
    again = start(ledger, final_share=0.0)
    trials(again, POPULATION, "again ")
    assert again.complete
    assert keys(ledger) == EVERY


def test_a_radius_follows_the_share_of_who_came_first_with_it_alone(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first dies between its two releases; the second meets the share as a conflict and makes the generation."""
    first, second = start(ledger), start(ledger)
    trials(first, POPULATION - 1, "a"), trials(second, POPULATION - 1, "b")

    def meets(privatizer: LossPrivatizer, key: str) -> None:
        if privatizer is first.privatizer and key == "generation/1":
            raise KeyboardInterrupt
        if privatizer is second.privatizer and key == "share/1":
            with pytest.raises(KeyboardInterrupt):
                trial(first, "first")

    when_released(monkeypatch, meets)
    trial(second, "second")
    share, generation = ledger.charges("run")
    assert (share.key, generation.key) == ("share/1", "generation/1")
    assert generation.note["radius"] != share.note["radius"]
    assert second.algorithm.generations[0].radius == generation.note["radius"]


def test_progress_waits_for_a_generation_that_another_thread_is_learning_from(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the surrogate's new points and its new weights nobody may ask it anything."""
    run, true, threads = start(ledger), GroupedRegression.fit, []
    seen: list[object] = []

    def fit(self: GroupedRegression, groups: Any) -> None:
        threads.append(Thread(target=lambda: seen.append(run.progress()["generations_done"])))
        threads[-1].start()
        threads[-1].join(0.1)
        assert len(seen) < len(threads), "it did not wait"
        true(self, groups)

    monkeypatch.setattr(GroupedRegression, "fit", fit)
    for g in range(GENERATIONS):
        trials(run, POPULATION, f"{g} ")
        threads[g].join()
    assert len(seen) == GENERATIONS
    assert all(isinstance(done, int) and done > i for i, done in enumerate(seen))


# ---- behind its plan ---------------------------------------------------------------------------------


def test_workers_with_too_few_trials_each_say_what_is_missing(ledger: PrivacyLedger) -> None:
    workers = [start(ledger) for _ in range(8)]
    for i in range(TRIALS + 2 * POPULATION):
        trial(workers[i % 8], str(i))
    message = workers[0].still_missing()
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
    assert workers[2].still_missing() == ""  # it looks at the ledger first
    assert workers[2].complete
    workers[2].recommend()


def test_what_is_missing_is_said_with_the_reason(ledger: PrivacyLedger) -> None:
    run = start(ledger)
    for i in range(TRIALS):
        run.finish(f"outside {i}", {"a": 7.0, "b": 1.0}, np.zeros(N))
    said = run.still_missing()
    assert re.search(f"0 of 4.*in the search space, and {TRIALS} of this process's trials were not", said)
    spend_elsewhere(run, ledger.remaining() * 0.999)
    for i in range(POPULATION):
        x = run.ask()
        run.finish(f"late {i}", x, losses_of(x, N))
    with pytest.warns(UserWarning, match="0 of 4.*Other runs have spent the budget"):
        run.recommend()
