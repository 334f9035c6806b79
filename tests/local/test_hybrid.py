"""The hybrid mechanism has its exact law and moments and refuses bad input. Audits fail on planted bugs."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, getcontext
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

from dptune import InputError
from dptune.local import (
    HybridRandomizer,
    HybridReplies,
    InsecureHybrid,
    LaplaceReplies,
    LocalRandomizer,
    UserLedger,
)
from dptune.local.bandits.replies import check_randomizer
from dptune.local.windows import PARTS, Window, largest_reply, largest_variance, windows
from refusals import refused

SMALL = [Window(2, 1, 3, 1), Window(7, 3, 5, 2), Window(6, 1, 4, 1), Window(9, 4, 9, 4)]
EXTREMES = [-1.0, 1.0, 0.3, -7.0, 5.0, math.inf, -math.inf, math.nan, None, "text", 1e300, 10**400, [1]]


def law(window: Window, t: float) -> dict[float, Fraction]:
    """The probability of each reply, by trying every number that ``below`` may draw."""
    place = (window.m - window.k) * (min(max(t, -1.0), 1.0) + 1) / 2
    up = Fraction(int((place - math.floor(place)) * PARTS), PARTS)
    found: Counter[float] = Counter()
    for coin, chance in ((0, up), (PARTS - 1, 1 - up)):
        if chance:
            for number in range(window.total):
                draws = iter([coin, number])
                found[window.reply(t, lambda n, draws=draws: next(draws))] += chance / window.total
    return dict(found)


def audit_law(of: Callable[[Window, float], dict[float, Fraction]] = law) -> None:
    """Whatever t is: the same replies, probabilities that differ by a/b at most, and t as their mean."""
    for window in SMALL:
        laws = {t: of(window, t) for t in (-1.0, -0.4, 0.0, 0.7, 1.0, 3.0)}
        for t, found in laws.items():
            assert sum(found.values()) == 1
            assert len(found) == window.m
            assert float(sum(reply * float(p) for reply, p in found.items())) == pytest.approx(min(t, 1.0), abs=1e-9)
            assert max(map(abs, found)) == pytest.approx(window.largest)
        for one in laws.values():
            for other in laws.values():
                assert one.keys() == other.keys(), "a reply tells the value"
                assert all(one[reply] * window.b <= other[reply] * window.a for reply in one), "above e^epsilon"


def beyond_the_interval(window: Window, t: float) -> dict[float, Fraction]:
    """A planted bug: the value is not cut."""
    found = law(window, t)
    return {reply + max(t - 1, 0): p for reply, p in found.items()}


def a_window_that_wins_too_often(window: Window, t: float) -> dict[float, Fraction]:
    """Another: the cells of the window are likelier than they may be."""
    return law(replace(window, a=2 * window.a), t)


def test_the_audit_of_the_law_passes_and_finds_the_planted_bugs() -> None:
    audit_law()
    for bug in (beyond_the_interval, a_window_that_wins_too_often):
        refused(AssertionError, None, partial(audit_law, bug))


def test_the_weights_stay_below_e_to_the_epsilon_and_come_near() -> None:
    getcontext().prec = 60
    for epsilon in (1e-6, 0.61, 0.62, 2.0, 30.0):
        exact = Decimal(epsilon).exp()
        for window in windows(epsilon)[1:]:
            assert exact * (1 - Decimal("2e-12")) <= Decimal(window.a) / Decimal(window.b) <= exact
            assert 1 <= window.k < window.m


def test_the_variance_is_half_of_laplace_s() -> None:
    """Wang et al. (2019), their closed forms; the largest is that of t = 0."""
    for epsilon, laplace, hybrid in ((0.5, 32, 16.7), (1.0, 8, 4.3), (2.0, 2, 1.04)):
        e, root = math.exp(epsilon), math.exp(epsilon / 2)
        duchi = ((e + 1) / (e - 1)) ** 2
        piecewise = (root + 3) / (3 * (root - 1) ** 2)
        share = 1 - 1 / root if epsilon > 0.61 else 0.0
        assert largest_variance(epsilon) == pytest.approx(share * piecewise + (1 - share) * duchi, rel=1e-6)
        assert largest_variance(epsilon) == pytest.approx(hybrid, rel=0.01)
        assert 2 * LocalRandomizer(epsilon, 1.0).scale ** 2 == pytest.approx(laplace, rel=1e-4)


@pytest.mark.parametrize(("epsilon", "bound", "at"), [(0.5, 1.0, 0.6), (1.0, (2.0, 12.0), 0.6), (2.0, 1.0, 1.0)])
def test_replies_are_unbiased_and_bounded_and_vary_as_stated(epsilon: float, bound: Any, at: float) -> None:
    """6,000 replies: seven standard errors of the mean (chance 3e-12) and eight of the variance (1e-15)."""
    randomizer, count = HybridRandomizer(epsilon, bound), 6_000
    half = (randomizer.high - randomizer.low) / 2
    value = randomizer.middle + at * half
    replies = (np.array([randomizer.randomize(value) for _ in range(count)]) - randomizer.middle) / half
    assert abs(replies.mean() - at) < 7 * math.sqrt(largest_variance(epsilon) / count)
    assert np.abs(replies).max() <= randomizer.largest * (1 + 1e-12)
    assert randomizer.largest == largest_reply(epsilon)
    expected = largest_variance(epsilon) - (at**2 if epsilon <= 0.61 else 0.0)  # the hybrid's is the same at every t
    assert replies.var() == pytest.approx(expected, rel=0.2)


def test_which_mechanism_replies_does_not_depend_on_the_value() -> None:
    for value in EXTREMES:
        made, asked = InsecureHybrid(1.0, 1.0, insecure_seed=1), list[int]()
        true = made._below
        made._below = lambda n, asked=asked, true=true: asked.append(n) or true(n)
        made.randomize(value)
        assert asked[:2] == [PARTS, PARTS]
        assert asked[2] in {window.total for window in windows(1.0)[1:]}


def test_it_is_charged_and_stated_as_one_of_ours(tmp_path: Any) -> None:
    ledger = UserLedger(tmp_path / "users.db", cap=2.0)
    ledger.reply(HybridRandomizer(1.0, (0.0, 1.0)), 0.5, user="ann", key="1")
    text = ledger.statement().to_text()
    assert "hybrid mechanism" in text
    assert "not one of dptune's" not in text
    ledger.reply(InsecureHybrid(1.0, (0.0, 1.0), insecure_seed=1), 0.5, user="bob", key="1")
    assert (ledger.private("ann"), ledger.private("bob")) == (True, False)
    for made in (lambda epsilon: HybridRandomizer(epsilon, 1.0), lambda epsilon: HybridReplies(epsilon, 1.0, 1.0)):
        refused(InputError, "epsilon", *(partial(made, epsilon) for epsilon in (0.0, 1e-9, 31.0, math.nan, "1")))


def test_the_curator_knows_the_moments_and_cuts_nothing() -> None:
    replies, laplace = HybridReplies(1.0, B=2.0, R=1.0), LaplaceReplies(1.0, B=2.0, R=1.0)
    assert replies.second_moment == pytest.approx(4 + 1 + 9 * largest_variance(1.0))
    assert replies.second_moment < 0.6 * laplace.second_moment
    assert (replies.truncation(1), replies.truncation(10**6)) == (3 * largest_reply(1.0),) * 2
    assert replies.bias(1000) == 0.0
    check_randomizer(replies, HybridRandomizer(1.0, 3.0).describe())
    check_randomizer(laplace, LocalRandomizer(1.0, 3.0).describe())
    other = HybridRandomizer(2.0, 3.0).describe()
    refused(InputError, r"HybridReplies\(epsilon=2.0", lambda: check_randomizer(replies, other))
