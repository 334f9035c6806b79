"""Decisions to stop trials by private losses: each is charged, drawn and decided as the plan says; planted bugs."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_tools import Bug, planted, small_sensitivity
from noises import NoNoise

from dptune import CENTRED, Budget, Float, LossPrivatizer, PrivacyLedger, SearchRun, Space
from dptune.privacy import stored_losses as held
from dptune.privacy.noise import OpenDPNoise
from dptune.privacy.query import Ball, Question
from dptune.search import RunPlan
from dptune.search.algorithms.centred import Centred
from dptune.search.replay import point_name
from dptune.search.rungs import EARLIER, LAST, Rungs
from dptune.search.unfinished import Unfinished

SPACE = Space({"x": Float(0.0, 1.0)})
N, C = 30, 0.05
PLANNED = 8  # two generations
TRIALS = (0.7, 0.5, 0.3, 0.45, 0.95, 0.31, 0.6, 0.28, 0.33, 0.8, 0.3, 0.9)


def at(trial: object) -> float:
    """The parameter of a trial."""
    return TRIALS[int(str(trial)) % len(TRIALS)]


def losses(trial: object, step: object) -> np.ndarray:
    people = np.random.default_rng([int(str(trial)), int(str(step))]).normal(0.3, 0.05, N)
    return np.clip(people + (at(trial) - 0.3) ** 2 + 0.2 / int(str(step)), 0, 1)


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


def reported(trial: str, step: int) -> str:
    """The name of a half-trained model's losses with the curator."""
    return point_name("run", f"{trial} at step {step}", {"x": at(trial)})


def difference_of(note: Mapping[str, Any]) -> np.ndarray:
    """The losses that a question is about, which nobody but this test knows, (N,)."""
    return losses(note["trial"], note["step"]) - losses(note["incumbent"], note["step"])


def audit_decisions(folder: Path) -> int:
    """Play a run; every decision is the released answer to the right question; return how many there were."""
    ledger = PrivacyLedger(folder / "ledger.db", Budget.gdp(2.0))
    noise = Drawn(ledger)
    privatizer = LossPrivatizer(ledger, n=N, clip=(0.0, 1.0), dtype=np.float64, noise=noise)
    options = {"trials": PLANNED, "population": 4, "rung_share": 0.3, "rungs": 2, "rung_radius": C}
    run = SearchRun(CENTRED, privatizer, scope="run", space=SPACE, seed=1, **options)
    decisions: list[tuple[str, bool]] = []
    behind: dict[str, float] = {}
    trained: list[str] = []
    for i in map(str, count()):
        if run.complete:
            break
        for step in (1, 2):
            run.rungs.report(i, {"x": at(i)}, losses(i, step), step)
            held = [t for t in trained if reported(t, step) in privatizer.points()]
            known = [run.algorithm.difference(np.array([at(t)]), np.array([0.5])) for t in held]
            standing = [behind.get(t, 0.0) if found is None else found[0] for t, found in zip(held, known, strict=True)]
            stops = run.rungs.stops(i)
            if not held or len(decisions) == run.plan.decisions:
                assert not stops, "a trial was stopped without a comparison that is paid for"
                continue
            best = held[int(np.argmin(standing))]
            charge = ledger.find("run", f"rung/{i}/{step}")
            assert charge is not None, "a decision without a charge"
            difference = losses(i, step) - losses(best, step)
            followed = [c.note["radius"] for c in ledger.charges("run", prefix="generation/")]
            radius = C * (followed[-1] / run.plan.settings.radius if followed else 1.0)
            wanted = float(np.clip(difference, -radius, radius).mean())
            behind[i] = behind.get(best, 0.0) + charge.value[0]
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
            run.unfinished.withdraw(i)
        else:
            trained.append(i)
            run.finish(i, {"x": at(i)}, losses(i, 3))
    released = [x for c in ledger.charges("run", prefix="generation/") for (x,) in c.note["points"][: c.note["new"]]]
    assert released == pytest.approx([at(t) for t in trained]), "others than those that trained to their end took part"
    assert run.privatizer.points() == (), "losses are kept for nothing"
    return len(decisions)


def test_every_decision_is_the_released_answer_to_the_right_question(tmp_path: Path) -> None:
    assert audit_decisions(tmp_path) >= 8


def raw_mean(asked: Question) -> bool:
    return bool(difference_of(asked.note).mean() > 0)


def no_charge(self: Rungs, asked: Question) -> bool:
    sigma = self.run.privatizer.sigma(asked.query)
    noisy = OpenDPNoise().add_gaussian(difference_of(asked.note).mean(keepdims=True), sigma)
    return bool(noisy[0] > LAST * sigma)


def first_incumbent(true: Any) -> Any:
    """The first trial stays the incumbent."""
    first: dict[Rungs, str] = {}

    def incumbent(self: Rungs, step: int, of: str) -> str | None:
        found = true(self, step, of)
        return found and first.setdefault(self, found)

    return incumbent


def mean_of_last_losses(self: Rungs, trial: str) -> float:
    """Of a trial, which nobody has paid for."""
    return float(losses(trial, 3).mean())


def other_query(change: Callable[[Question], dict[str, Any]]) -> Bug:
    """Another question is asked under the same name."""

    def by(true: Any) -> Any:
        def question(self: Rungs, trial: str) -> Question | None:
            asked = true(self, trial)
            return asked and replace(asked, query=replace(asked.query, **change(asked)))

        return question

    return planted(Rungs, "question", by)


def last_losses_of_the_incumbent(asked: Question) -> dict[str, Any]:
    """Not those of the same rung."""
    best = str(asked.note["incumbent"])
    return {"points": (asked.query.points[0], reported(best, 2))}


def radius_of_the_losses(asked: Question) -> dict[str, Any]:
    """C follows the losses themselves, which nobody has paid for."""
    return {"clip": Ball(float(np.median(np.abs(difference_of(asked.note)))) + 1e-6)}


def takes_part(self: Unfinished, trial: str) -> None:
    """Who is stopped."""
    self._run.finish(trial, {"x": at(trial)}, losses(trial, 2))


BUGS: dict[str, Bug] = {
    "raw mean after the charge": planted(
        Rungs, "decide", lambda true: lambda self, asked: [true(self, asked), raw_mean(asked)][1]
    ),
    "no charge": planted(Rungs, "decide", lambda _: no_charge),
    "half the sensitivity": small_sensitivity("rung/", lambda privatizer: 0.5),
    "cheaper": planted(RunPlan, "rung_mu", lambda true: property(lambda self: true.fget(self) / 2)),
    "stale incumbent": planted(Rungs, "incumbent", first_incumbent),
    "incumbent by losses": planted(Rungs, "standing", lambda _: mean_of_last_losses),
    "the incumbent's last losses": other_query(last_losses_of_the_incumbent),
    "radius of the losses": other_query(radius_of_the_losses),
    "radius of the plan": planted(Centred, "radius_ratio", lambda _: 1.0),
    "forgotten clip": planted(held, "clipped", lambda _: lambda g, clip, middle: g),
    "losses are kept": planted(Rungs, "forget", lambda _: lambda self, in_use: None),
    "reports of stopped trials are kept": planted(Unfinished, "withdraw", lambda _: lambda self, trial: None),
    "who is stopped takes part": planted(Unfinished, "withdraw", lambda _: takes_part),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    BUGS[bug](monkeypatch)
    with pytest.raises(AssertionError):
        audit_decisions(tmp_path)
