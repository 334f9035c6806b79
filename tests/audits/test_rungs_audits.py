"""Decisions to stop trials by private losses: each is charged, drawn and decided as the plan says; planted bugs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from house_audits import plant_sensitivity
from noises import NoNoise

from dptune import CENTRED, Budget, Float, LossPrivatizer, PrivacyLedger, SearchRun, Space
from dptune.privacy import stored_losses as held
from dptune.privacy.noise import OpenDPNoise
from dptune.privacy.query import Ball, MeanQuery, Question
from dptune.search import RunPlan
from dptune.search.algorithms.centred import Centred
from dptune.search.replay import point_name
from dptune.search.rungs import EARLIER, LAST, Rungs
from dptune.search.unfinished import Unfinished

SPACE = Space({"x": Float(0.0, 1.0)})
N, C = 30, 0.05
PLANNED = 8  # two generations
TRIALS = (0.7, 0.5, 0.3, 0.45, 0.95, 0.31, 0.6, 0.28, 0.33, 0.8, 0.3, 0.9)


def losses(trial: int, x: float, step: int) -> np.ndarray:
    people = np.random.default_rng([trial, step]).normal(0.3, 0.05, N)
    return np.clip(people + (x - 0.3) ** 2 + 0.2 / step, 0, 1)


class Drawn(NoNoise):
    """Seeded noise on decisions; keeps what was drawn for them, and whether their charges were in the ledger then."""

    def __init__(self, ledger: PrivacyLedger) -> None:
        super().__init__()
        self.draws: list[tuple[float, float, float, int]] = []
        self.ledger = ledger
        self.rng = np.random.default_rng(0)

    def add_gaussian(self, statistic: Any, sigma: float) -> Any:
        if len(statistic) > 1:
            return np.array(statistic)
        noise = sigma * self.rng.standard_normal()
        self.draws.append((float(statistic[0]), noise, sigma, self.ledger.count("run", prefix="rung/")))
        return np.array(statistic) + noise


def reported(trial: str, x: float, step: int) -> str:
    """The name of a half-trained model's losses with the curator."""
    return point_name("run", f"{trial} at step {step}", {"x": x})


def difference_of(note: Mapping[str, Any]) -> np.ndarray:
    """The losses that a question is about, which nobody but this test knows, (N,)."""
    mine, theirs = (
        losses(int(t), TRIALS[int(t) % len(TRIALS)], int(note["step"])) for t in (note["trial"], note["incumbent"])
    )
    return mine - theirs


def audit_decisions(folder: Path) -> int:
    """Play a run; every decision is the released answer to the right question; return how many there were."""
    ledger = PrivacyLedger(folder / "ledger.db", Budget.gdp(2.0))
    noise = Drawn(ledger)
    privatizer = LossPrivatizer(ledger, n=N, clip=(0.0, 1.0), dtype=np.float64, noise=noise)
    options = {"trials": PLANNED, "population": 4, "rung_share": 0.3, "rungs": 2, "rung_radius": C}
    run = SearchRun(CENTRED, privatizer, scope="run", space=SPACE, seed=1, **options)
    ended: dict[str, float] = {}
    decisions: list[tuple[str, bool]] = []
    behind: dict[str, float] = {}
    trained: list[str] = []
    for i, x in enumerate(cycle(TRIALS)):
        if run.complete:
            break
        for step in (1, 2):
            run.rungs.report(str(i), {"x": x}, losses(i, x, step), step)
            held = [t for t in trained if reported(t, ended[t], step) in privatizer.points()]
            known = [run.algorithm.difference(np.array([ended[t]]), np.array([0.5])) for t in held]
            standing = [behind.get(t, 0.0) if found is None else found[0] for t, found in zip(held, known, strict=True)]
            stops = run.rungs.stops(str(i))
            if not held or len(decisions) == run.plan.decisions:
                assert not stops, "a trial was stopped without a comparison that is paid for"
                continue
            best = held[int(np.argmin(standing))]
            charge = ledger.find("run", f"rung/{i}/{step}")
            assert charge is not None, "a decision without a charge"
            difference = losses(i, x, step) - losses(int(best), ended[best], step)
            followed = [c.note["radius"] for c in ledger.charges("run", prefix="generation/")]
            radius = C * (followed[-1] / run.plan.settings.radius if followed else 1.0)
            wanted = float(np.clip(difference, -radius, radius).mean())
            behind[str(i)] = behind.get(best, 0.0) + charge.value[0]
            value, noise_drawn, drawn, charged = noise.draws[-1]
            assert value == pytest.approx(wanted, abs=1e-9), "an answer to another question"
            assert charge.value[0] == value + noise_drawn, "the answer without its noise"
            sigma = 2 * radius / N * (1 + 1e-6) / (run.plan.rung_mu - 2.0**-40)
            assert charge.mu == run.plan.mu * math.sqrt(0.3 / (2 * PLANNED)), "another price"
            decisions.append((charge.key, stops))
            assert charged == len(decisions), "read before it was charged"
            assert drawn == pytest.approx(sigma, rel=1e-9), "noise of another size"
            assert stops == (charge.value[0] > (EARLIER, LAST)[step - 1] * drawn), "a decision by something else"
            if stops:
                break
        if stops:
            run.unfinished.withdraw(str(i))
        else:
            trained.append(str(i))
            run.finish(str(i), {"x": x}, losses(i, x, 3))
            ended[str(i)] = x
    released = [x for c in ledger.charges("run", prefix="generation/") for (x,) in c.note["points"][: c.note["new"]]]
    assert released == pytest.approx([ended[t] for t in trained]), (
        "others than those that trained to their end took part"
    )
    assert run.privatizer.points() == (), "losses are kept for nothing"
    return len(decisions)


def test_every_decision_is_the_released_answer_to_the_right_question(tmp_path: Path) -> None:
    assert audit_decisions(tmp_path) >= 8


def raw_mean(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rungs, "decide", lambda self, asked: bool(difference_of(asked.note).mean() > 0))


def raw_mean_after_the_charge(patch: pytest.MonkeyPatch) -> None:
    true = Rungs.decide

    def raw(self: Rungs, asked: Question) -> bool:
        true(self, asked)
        return bool(difference_of(asked.note).mean() > 0)

    patch.setattr(Rungs, "decide", raw)


def no_charge(patch: pytest.MonkeyPatch) -> None:
    def drawn(self: Rungs, asked: Question) -> bool:
        sigma = self.run.privatizer.sigma(asked.query)
        noisy = OpenDPNoise().add_gaussian(difference_of(asked.note).mean(keepdims=True), sigma)
        return bool(noisy[0] > LAST * sigma)

    patch.setattr(Rungs, "decide", drawn)


def half_the_sensitivity(patch: pytest.MonkeyPatch) -> None:
    plant_sensitivity(patch, "rung/", lambda privatizer: 0.5)


def cheaper(patch: pytest.MonkeyPatch) -> None:
    true = RunPlan.rung_mu.fget
    patch.setattr(RunPlan, "rung_mu", property(lambda self: true(self) / 2))


def stale_incumbent(patch: pytest.MonkeyPatch) -> None:
    """The first trial stays the incumbent."""
    first: dict[Rungs, str] = {}

    def incumbent(self: Rungs, step: int, of: str) -> str | None:
        found = true(self, step, of)
        return found and first.setdefault(self, found)

    true = Rungs.incumbent
    patch.setattr(Rungs, "incumbent", incumbent)


def incumbent_by_losses(patch: pytest.MonkeyPatch) -> None:
    """The best one by its losses, which nobody has paid for."""

    def mean(self: Rungs, trial: str) -> float:
        return float(losses(int(trial), TRIALS[int(trial) % len(TRIALS)], 3).mean())

    patch.setattr(Rungs, "standing", mean)


def answers_of_other_incumbents(patch: pytest.MonkeyPatch) -> None:
    """Answers about different incumbents are compared as if they were about one."""
    true, known = Rungs.decide, dict[str, float]()

    def decide(self: Rungs, asked: Question) -> bool:
        stops, trial = true(self, asked), str(asked.note["trial"])
        known[trial] = self.run.ledger.find("run", asked.key).value[0]
        return stops

    def standing(self: Rungs, trial: str) -> float:
        return known.get(trial, 0.0) if self.run.algorithm.t == 0 else by_answers(self, trial)

    by_answers = Rungs.standing
    patch.setattr(Rungs, "decide", decide)
    patch.setattr(Rungs, "standing", standing)


def incumbents_last_losses(patch: pytest.MonkeyPatch) -> None:
    """Not those of the same rung."""
    true = Rungs.question

    def question(self: Rungs, trial: str) -> Question | None:
        asked = true(self, trial)
        if asked is None:
            return None
        best = str(asked.note["incumbent"])
        points = (asked.query.points[0], reported(best, TRIALS[int(best) % len(TRIALS)], 2))
        query = MeanQuery(points, asked.query.weights, asked.query.clip, asked.query.mu)
        return Question(asked.key, query, asked.note)

    patch.setattr(Rungs, "question", question)


def radius_of_the_losses(patch: pytest.MonkeyPatch) -> None:
    """C follows the losses themselves, which nobody has paid for."""
    true = Rungs.question

    def question(self: Rungs, trial: str) -> Question | None:
        asked = true(self, trial)
        if asked is None:
            return None
        ball = Ball(float(np.median(np.abs(difference_of(asked.note)))) + 1e-6)
        return Question(asked.key, MeanQuery(asked.query.points, asked.query.weights, ball, asked.query.mu), asked.note)

    patch.setattr(Rungs, "question", question)


def radius_of_the_plan(patch: pytest.MonkeyPatch) -> None:
    """C does not follow."""
    patch.setattr(Centred, "radius_ratio", 1.0)


def forgotten_clip(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(held, "clipped", lambda g, clip, middle: g)


def kept_losses(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rungs, "forget", lambda self, in_use: None)


def kept_reports(patch: pytest.MonkeyPatch) -> None:
    """Of trials that were stopped."""
    patch.setattr(Unfinished, "withdraw", lambda self, trial: None)


def who_is_stopped_takes_part(patch: pytest.MonkeyPatch) -> None:
    def withdraw(self: Unfinished, trial: str) -> None:
        x = TRIALS[int(trial) % len(TRIALS)]
        self._run.finish(trial, {"x": x}, losses(int(trial), x, 2))

    patch.setattr(Unfinished, "withdraw", withdraw)


BUGS: list[Callable[[pytest.MonkeyPatch], None]] = [
    raw_mean,
    raw_mean_after_the_charge,
    no_charge,
    half_the_sensitivity,
    cheaper,
    stale_incumbent,
    incumbent_by_losses,
    answers_of_other_incumbents,
    incumbents_last_losses,
    radius_of_the_losses,
    radius_of_the_plan,
    forgotten_clip,
    kept_losses,
    kept_reports,
    who_is_stopped_takes_part,
]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_planted_bug_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: Any) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        audit_decisions(tmp_path)
