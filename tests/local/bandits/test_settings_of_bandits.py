"""The bandits' defaults, limits and refusals are those that their pages state."""

import dataclasses
import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import dptune
from dptune.local import LDPATA, LDPTGP, HybridReplies, LaplaceReplies, LDPMoMA, LDPSettings
from dptune.local.bandits.bandit import LocalBandit
from dptune.local.bandits.curator import design
from dptune.local.bandits.run import LDPRun
from dptune.search.gp.kernels import RBF, Matern52
from refusals import refused

LAPLACE, HYBRID = LaplaceReplies(2.0, B=1.0, R=0.5), HybridReplies(2.0, B=1.0, R=0.5)
SPACE = dptune.Space({"x": dptune.Float(0, 1)})
THREE = np.array([[0.1], [0.5], [0.9]])


def run(**more: Any) -> LDPRun:
    settings = LDPSettings(LAPLACE, **more.pop("settings", {}))
    return LDPRun(LDPTGP, SPACE, settings, **{"maximize": True, **more})


def test_defaults_of_settings_and_of_a_run() -> None:
    made = LDPSettings(LAPLACE)
    numbers = {"horizon": 10_000, "lam": None, "delta": 0.1, "exploration": None, "q": 2.0, "accuracy": 0.5}
    numbers |= {"redraw": 0.25, "plays": 5, "seed": 0, "replies": LAPLACE, "kernel": Matern52(0.2)}
    assert {field.name: getattr(made, field.name) for field in dataclasses.fields(made)} == numbers
    assert len(run().candidates) == 128
    for seed in (0, 3):
        drawn = [(each["x"],) for each in run(count=9, settings={"seed": seed}).candidates]
        assert drawn == design(SPACE, 9, seed=seed)


def test_the_default_exploration_of_each_algorithm_and_a_given_one() -> None:
    """TGP explores more where no reply is ever cut."""
    wanted = {(LDPTGP, LAPLACE): 0.03, (LDPTGP, HYBRID): 0.15}
    wanted |= {(algorithm, replies): 0.015 for algorithm in (LDPATA, LDPMoMA) for replies in (LAPLACE, HYBRID)}
    for (algorithm, replies), multiplier in wanted.items():
        assert algorithm(THREE, LDPSettings(replies)).exploration == multiplier
        assert algorithm(THREE, LDPSettings(replies, exploration=0.7)).exploration == 0.7


@pytest.mark.parametrize("algorithm", [LDPTGP, LDPATA, LDPMoMA])
def test_only_a_candidate_that_was_tried_is_recommended(algorithm: type[LocalBandit]) -> None:
    bandit = algorithm(THREE, LDPSettings(LAPLACE, RBF(0.1), plays=1, q=1e9, horizon=3))
    assert (bandit.recommend(), bandit.T) == (0, 3)
    for _ in range(5):
        bandit.tell(1, -1.0)
    assert bandit.mean()[1] < bandit.mean()[0]
    assert (bandit.recommend(), bandit.T) == (1, 5)


def test_a_reply_counts_where_the_correlation_is_nine_tenths() -> None:
    session = run(settings={"kernel": RBF(0.2)}, candidates=[{"x": 0.1}, {"x": 0.6}])
    at = 0.2 * math.sqrt(2 * math.log(1 / 0.9))
    for number, x in enumerate((0.6 + at * 1.01, 0.6 - at * 1.01, 0.6 + at * 0.99, 0.1 + at * 0.99)):
        session.tell(number, {"x": x}, 1.0)
    assert session.bandit.counts.tolist() == [1, 1]


OF_CANDIDATES = "candidates must be a list of parameters inside the space, with at least one entry."
REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: LDPSettings(2.0), "replies must be HybridReplies(epsilon, B, R) or the like; got 2.0."),
    (lambda: LDPSettings(LAPLACE, redraw=-0.1), "redraw must be a number, at least 0; got -0.1."),
    (lambda: LDPSettings(LAPLACE, delta=0.0), "delta must be a number, positive and finite; got 0.0."),
    (lambda: LDPTGP(THREE, LDPSettings(LAPLACE)).tell(3, 0.0), "point must be one of the 3 candidates' rows; got 3."),
    (
        lambda: LDPTGP(THREE, LDPSettings(LAPLACE)).tell(0, math.inf),
        "a reply must be a finite number below 1e100: it comes from a randomiser.",
    ),
    (lambda: LDPTGP(THREE[:0], LDPSettings(LAPLACE)), "there must be at least one candidate."),
    (lambda: run(centre=math.inf, count=9), "centre must be a finite number; got inf."),
    *((partial(run, candidates=odd), OF_CANDIDATES) for odd in ([], [0.1], np.eye(2), 5, [{"y": 0.1}], [{"x": "a"}])),
]


def test_a_refusal_of_a_bandit_quotes_what_was_given() -> None:
    for act, text in REFUSED:
        refused(dptune.InputError, f"^{re.escape(text)}$", act)
    assert [LDPSettings(LAPLACE, redraw=each).redraw for each in (0, math.inf)] == [0, math.inf]
