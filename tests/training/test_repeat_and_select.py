"""Repeat and select: what is shown, what never is, and audits that find planted bugs."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import signal
import sqlite3
import sys
import threading
import warnings
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from audit_tools import run_forked
from unwritten import selections

from dptune import InputError, PlanComplete
from dptune.errors import KeyConflict
from dptune.ledger import entries
from dptune.privacy.noise import OpenDPNoise
from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan
from dptune.training import repeats as implementation
from dptune.training.repeats import Selected, repeat_and_select
from dptune_optuna import repeat_and_select as in_optuna

N, LAW, ONE = 40, Repeats.geometric(5), TrainingPlan(2.0, 0.1, 20)
CLIP = (0.0, 1.0)


def ledgers(folder: Path, law: Repeats = LAW) -> list[TrainingLedger]:
    train = TrainingLedger(folder / "train.db", SelectionPlan(law, ONE), n=90)
    return [train, TrainingLedger(folder / "val.db", SelectionPlan(law, score_mu=0.5), n=N, dataset="scorers")]


def always(monkeypatch: pytest.MonkeyPatch, repeats: int) -> None:
    monkeypatch.setattr(Repeats, "draw", lambda self: repeats)


def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenDPNoise, "add_gaussian", lambda self, statistic, sigma: statistic)


def countdown(start: int = 9) -> Callable[[], tuple[dict[str, Any], str, np.ndarray]]:
    left = iter(range(start, 0, -1))

    def once() -> tuple[dict[str, Any], str, np.ndarray]:
        i = next(left)
        return {"i": i}, f"model {i}", np.full(N, i / 10)

    return once


def test_the_best_repeat_is_returned_and_kept(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, 4)
    without_noise(monkeypatch)
    best = repeat_and_select(countdown(), ledgers(fast_path), clip=CLIP)
    assert best == Selected({"i": 6}, pytest.approx(0.6), "model 6", True)
    again = repeat_and_select(countdown(3), ledgers(fast_path), clip=CLIP)
    assert (again.parameters, again.score, again.model) == ({"i": 6}, best.score, None)
    for ledger in ledgers(fast_path):
        assert [charge.value for charge in ledger.charges()] == [(best.score,)]
    with pytest.raises(KeyConflict):
        repeat_and_select(countdown(), ledgers(fast_path), clip=(0.0, 2.0))


def test_charges_come_before_anything_is_trained_and_an_unfinished_selection_is_spent(fast_path: Path) -> None:
    def once() -> Any:
        assert [ledger.count() for ledger in ledgers(fast_path)] == [1, 1]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repeat_and_select(once, ledgers(fast_path), clip=CLIP)
    audit_nothing_is_drawn_again(fast_path)
    assert [ledger.count() for ledger in ledgers(fast_path)] == [1, 1]


KILLED = """
import os, signal, sys
from dptune.training import TrainingLedger
from dptune.training.repeats import repeat_and_select
opened = [TrainingLedger(path) for path in sys.argv[1:]]
repeat_and_select(lambda: os.kill(os.getpid(), signal.SIGKILL), opened, clip=(0.0, 1.0))
"""


def audit_nothing_is_drawn_again(folder: Path) -> None:
    """A crash may depend on the data, so that a second draw would be one on the condition that nothing crashed."""
    trained = []

    def once() -> Any:
        trained.append(1)

    with contextlib.suppress(PlanComplete):
        repeat_and_select(once, list(reversed(ledgers(folder))), clip=CLIP)
    assert trained == []


def test_a_killed_selection_is_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledgers(tmp_path)
    killed = run_forked(KILLED, str(tmp_path / "train.db"), str(tmp_path / "val.db"))
    assert killed.returncode == -signal.SIGKILL
    audit_nothing_is_drawn_again(tmp_path)
    with pytest.raises(PlanComplete, match="new ledgers"):
        repeat_and_select(countdown(), ledgers(tmp_path), clip=CLIP)
    monkeypatch.setattr(TrainingLedger, "fix", lambda self, scope, name, value: value)  # a planted bug: it forgets
    with pytest.raises(AssertionError):
        audit_nothing_is_drawn_again(tmp_path)


def test_a_crash_between_charge_and_draw_costs_nothing_more(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train, _ = ledgers(fast_path)
    with monkeypatch.context() as broken:
        broken.delattr(TrainingLedger.__mro__[2], "fix")
        with pytest.raises(AttributeError):
            repeat_and_select(countdown(), ledgers(fast_path), clip=CLIP)
    assert train.count() == 1
    assert repeat_and_select(countdown(200), ledgers(fast_path), clip=CLIP).parameters is not None


def test_people_who_scored_once_do_not_score_for_another_selection(fast_path: Path) -> None:
    _, val = ledgers(fast_path)
    repeat_and_select(countdown(200), ledgers(fast_path), clip=CLIP)
    other = TrainingLedger(fast_path / "others.db", SelectionPlan(LAW, ONE), n=90)
    with pytest.raises(KeyConflict):
        repeat_and_select(countdown(), [other, val], clip=CLIP)
    assert (other.count(), val.count()) == (0, 1), "what is refused costs nobody"


def fails() -> Any:
    raise RuntimeError("row 7 has 'Smith'")


@pytest.mark.parametrize("once", [fails, lambda: ({"i": 1}, "model", np.zeros(N - 1))], ids=["fails", "short"])
def test_failures_and_repeats_of_a_wrong_shape_are_sealed_and_never_chosen(
    once: Any, fast_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    always(monkeypatch, 3)
    best = repeat_and_select(once, ledgers(fast_path), clip=CLIP)
    assert (best.parameters, best.model) == (None, None)
    assert math.isnan(best.score)
    assert math.isnan(repeat_and_select(countdown(), ledgers(fast_path), clip=CLIP).score)


def test_ledgers_that_do_not_fit_together_are_refused(fast_path: Path) -> None:
    train, val = ledgers(fast_path)
    other = TrainingLedger(fast_path / "o.db", SelectionPlan(Repeats.poisson(5), score_mu=0.5), n=N)
    composed = TrainingLedger(fast_path / "c.db", ONE, n=N)
    for wrong in ([train], [val, other], [train, other], [train, val, composed], []):
        with pytest.raises(InputError, match="same repeats"):
            repeat_and_select(countdown(), wrong, clip=CLIP)
    assert (train.count(), val.count()) == (0, 0)


def test_a_second_process_does_not_draw_beside_the_first(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, 1)

    def once() -> tuple[dict[str, Any], str, np.ndarray]:
        audit_nothing_is_drawn_again(fast_path)
        return {"i": 0}, "mine", np.zeros(N)

    assert repeat_and_select(once, ledgers(fast_path), clip=CLIP).model == "mine"


def test_a_selection_waits_for_that_of_another_thread(fast_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    one = [TrainingLedger(fast_path / f"{i}.db", SelectionPlan(Repeats.poisson(9), score_mu=0.5), n=N) for i in (0, 1)]
    capfd.readouterr()
    began = threading.Event()

    def once() -> tuple[dict[str, Any], str, np.ndarray]:
        began.wait(0.02)  # while the other selection begins, or ends
        print("training")
        return {}, "model", np.zeros(N)

    threads = [threading.Thread(target=repeat_and_select, args=(once, [each]), kwargs={"clip": CLIP}) for each in one]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    print("afterwards")
    assert capfd.readouterr() == ("afterwards\n", "")
    assert [ledger.count() for ledger in one] == [1, 1]


def test_nothing_that_is_kept_tells_how_long_it_took(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the ledgers nor the study's trial bears a time of the end."""
    always(monkeypatch, 1)
    study, both = optuna.create_study(), ledgers(fast_path)

    def objective(trial: Any) -> tuple[str, np.ndarray]:
        clock.append("2099-01-01T00:00:00+00:00")  # the time goes on while it trains
        trained.append(datetime.now())
        return "model", np.zeros(N)

    clock, trained = ["2026-01-01T00:00:00+00:00"], []
    monkeypatch.setattr(entries, "now", lambda *_: clock[-1])
    in_optuna(study, objective, both, clip=CLIP)
    assert study.trials[0].datetime_start == study.trials[0].datetime_complete < trained[0]
    for name in ("train", "val"):
        with contextlib.closing(sqlite3.connect(fast_path / f"{name}.db")) as ledger:
            times = ledger.execute("SELECT charged_at, released_at FROM dptune_spending").fetchall()
        assert times == [(clock[0], clock[0])]


class Heard:
    """Noise that is none, and keeps what it was given."""

    def add_gaussian(self, statistic: np.ndarray, sigma: float) -> np.ndarray:
        self.statistic, self.sigma = float(statistic[0]), sigma
        return statistic


@pytest.mark.parametrize("low", [-1.0, 1e9, 1e15])
def test_removing_a_person_moves_a_score_by_what_its_noise_covers_wherever_the_clip_lies(
    low: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, n, heard = np.random.default_rng(7), 1000, Heard()
    always(monkeypatch, 1)
    monkeypatch.setattr(implementation, "noise_source", lambda *asked: heard)

    def score(losses: np.ndarray) -> float:
        return selections(lambda: ({}, "", losses), 1, law=LAW, n=n, score_mu=1.0, clip=(low, low + 1))[0].score

    for i in range(10):
        losses = low + rng.choice([0.0, 1.0, rng.uniform()], n)
        assert score(losses) == pytest.approx(np.mean(losses - low) + low, rel=1e-15, abs=1e-12)
        before = heard.statistic
        losses[i] = rng.choice([low, low + 1, np.inf, -np.inf, np.nan])
        score(losses)
        assert abs(heard.statistic - before) <= 2 * heard.sigma, "replacing is two removals"
        with_them, losses[i] = heard.statistic, low + 0.5  # the middle: what a removed person counts as
        score(losses)
        assert abs(heard.statistic - with_them) <= heard.sigma
    losses[:] = low + 0.5
    score(losses)
    without, losses[0] = heard.statistic, np.nan
    score(losses)
    assert abs(heard.statistic - without) / heard.sigma == pytest.approx(1, abs=1e-5), "no more noise than it takes"


# ---- audits, and bugs that they must find -----------------------------------------------------------------


def transcript(folder: Path, repeats: int, monkeypatch: pytest.MonkeyPatch, caplog: Any, capfd: Any) -> list[object]:
    """Everything that may be seen of a selection whose repeats are all alike, but for times and random names."""
    folder.mkdir()
    always(monkeypatch, repeats)
    optuna.logging.enable_propagation()
    study = optuna.create_study(study_name="s")
    caplog.clear()
    capfd.readouterr()
    both = ledgers(folder)

    def objective(trial: Any) -> tuple[str, np.ndarray]:
        trial.suggest_categorical("kind", ["a"])
        print("training")  # and whatever else tells of a repeat
        print("training", file=sys.__stderr__)
        os.write(1, b"training")
        logging.getLogger("user").log(logging.CRITICAL + 10, "training")
        warnings.warn("training", stacklevel=1)
        return "model", np.full(N, 0.5)

    with caplog.at_level(logging.DEBUG):
        in_optuna(study, objective, both, clip=CLIP)
    seen = [record.getMessage().replace(str(folder), "") for record in caplog.records]
    charges = [(charge.key, len(charge.value or ()), charge.description) for each in both for charge in each.charges()]
    stored = [each.fact("trainings", name) for each in both for name in ("selected", "drawn")]
    facts = sorted(str(sorted(fact) if isinstance(fact, dict) else len(str(fact))) for fact in stored)
    trials = [(trial.number, trial.params, trial.user_attrs) for trial in study.trials]
    output = capfd.readouterr()
    optuna.logging.disable_propagation()
    return [seen, charges, facts, trials, output.out, output.err.replace(str(folder), "")]


def audit_the_number_of_repeats_is_secret(tmp: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any, capfd: Any) -> None:
    few, many = (transcript(tmp / str(k), k, monkeypatch, caplog, capfd) for k in (2, 7))
    assert few == many
    assert len(few[3]) == 1


def audit_the_score_is_noisy(monkeypatch: pytest.MonkeyPatch, count: int = 600) -> None:
    """Selections of one repeat: their scores have the noise of mu = .5 at n = 40, sigma = .025."""
    always(monkeypatch, 1)
    made = selections(lambda: ({}, "", np.full(N, 0.5)), count, law=LAW, n=N, score_mu=0.5)
    scores = [each.score for each in made]
    assert abs(np.std(scores) / 0.025 - 1) < 0.15
    assert abs(np.mean(scores) - 0.5) < 0.01


def shows_the_number_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(implementation, "silence", contextlib.nullcontext)


def stores_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    scored, real, fix = [], implementation.loss_vector, TrainingLedger.fix

    def storing(self: TrainingLedger, scope: str, name: str, value: object) -> object:
        return fix(self, scope, name, {**value, f"of {len(scored)}": 0} if isinstance(value, dict) else value)

    monkeypatch.setattr(implementation, "loss_vector", lambda losses: scored.append(1) or real(losses))
    monkeypatch.setattr(TrainingLedger, "fix", storing)


def shows_every_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    study = optuna.create_study(study_name="s")
    monkeypatch.setattr(optuna, "create_study", lambda **_: study)


@pytest.mark.parametrize("bug", [None, shows_the_number_early, stores_the_number, shows_every_trial])
def test_the_number_of_repeats_is_secret_and_one_that_shows_is_found(
    bug: Callable[[pytest.MonkeyPatch], None] | None, tmp_path: Path, monkeypatch: Any, caplog: Any, capfd: Any
) -> None:
    if bug is not None:
        bug(monkeypatch)
    with contextlib.nullcontext() if bug is None else pytest.raises(AssertionError):
        audit_the_number_of_repeats_is_secret(tmp_path, monkeypatch, caplog, capfd)


def test_a_best_that_is_shown_with_its_own_score_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    audit_the_score_is_noisy(monkeypatch)
    without_noise(monkeypatch)
    with pytest.raises(AssertionError):
        audit_the_score_is_noisy(monkeypatch, 20)


def audit_no_training_past_the_plan(path: Path) -> None:
    ledger = TrainingLedger(path, TrainingPlan(2.0, 0.1, 20, trainings=2), n=90)
    with contextlib.suppress(PlanComplete):
        for _ in range(4):
            ledger.begin(secure=True)
    assert ledger.count() == 2


def test_a_plan_that_is_overrun_by_one_training_is_found(fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit_no_training_past_the_plan(fast_path / "plan.db")
    monkeypatch.setattr(TrainingPlan, "charges", 3)
    with pytest.raises(AssertionError):
        audit_no_training_past_the_plan(fast_path / "bug.db")
