"""An audit replaces rows as it says, and its findings and their evidence have the right words and numbers."""

import logging
import sys
import warnings
from collections.abc import Callable
from dataclasses import fields
from itertools import islice
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, norm

from dptune import InputError
from dptune.audit import Audit
from dptune.audit.evidence import complaints, lower_bound
from dptune.audit.own import Finding
from dptune.audit.transcript import transcript
from dptune.privacy.noise import OpenDPNoise

N = 10
RNG = np.random.default_rng(0)
X, Y = np.arange(2.0 * N).reshape(N, 2), np.arange(N) + 100.0


def audited(losses: Callable[[Any, Any], Any], checks: int = 2, **settings: Any) -> list[str]:
    settings = {"clip": (-1.0, 3.0), "people": 2, "answers": 400, "mu": 2.0, **settings}
    return [str(finding) for finding in islice(Audit(losses, X, Y, **settings).run(), checks)]


def shifts(X: Any, y: Any) -> Any:
    """One row's number moves every loss, and is printed where it is large; of infinite ones NumPy warns."""
    if X[0, 0] > 1e20:
        print("large")
    return X[:, 0] - X[0, 0]


KEPT = "[ok] isolation: each of 16 replaced rows moved its own loss only"
SILENT = "[ok] silence: console, loggers, warnings and errors are the same for 16 neighbours"
FINDINGS: dict[str, tuple[Callable[[Any, Any], Any], list[str]]] = {
    "kept": (lambda X, y: X[:, 0] + y, [KEPT, SILENT]),
    "broken": (
        shifts,
        [
            "[BROKEN] isolation: others' losses change, or are missing, if row 0 is another person's (6 of 16 "
            "neighbours). No noise of a search covers one person who moves many losses",
            "[BROKEN] silence: what it prints, logs or raises tells if row 0 holds inf (3 of 16 neighbours)",
        ],
    ),
    "random": (
        lambda X, y: RNG.random(len(y)),
        ["[BROKEN] isolation: two calls on the same rows differ: seed what is random, and audit again", SILENT],
    ),
    "short": (lambda X, y: y[1:], ["[BROKEN] isolation: no losses (10,) of the rows as they are. ", SILENT]),
}


@pytest.mark.parametrize("case", FINDINGS)
def test_findings_say_what_was_found_and_of_how_many(case: str) -> None:
    losses, said = FINDINGS[case]
    assert audited(losses) == said


def test_rows_are_replaced_by_two_other_people_and_by_odd_numbers() -> None:
    seen: list[tuple[Any, Any]] = []
    audited(lambda X, y: (seen.append((X, y)), y)[1])
    changed = []
    for rows, answers in seen:
        for row in range(N):
            mine = [float(rows[row, 0] / 2), float(answers[row] - 100)]  # whose row, whose answer
            changed += [(row, *mine)] if mine != [row, row] else []
    odd = [1e30 / 2, np.inf, -np.inf]
    assert [case for case in changed if np.isfinite(case[1]) and case[1] < 1e9] == [
        (0, 1, 1), (0, 0, 1), (0, 5, 5), (0, 0, 5), (9, 0, 0), (9, 9, 0), (9, 4, 4), (9, 9, 4),
    ]  # fmt: skip
    assert sorted(case[1] for case in changed if case[1] in odd) == sorted(odd * 2)
    assert sum(bool(np.isnan(case[1])) for case in changed) == 2
    assert len(seen) == 2 + 16
    assert [field.default for field in fields(Audit)][-3:] == [1.0, 8, 2000]  # mu, people, answers


def test_the_noise_and_the_attack_are_stated_with_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of 400 evenly spaced quantiles in a fixed order; an attack sees both neighbours' answers."""
    quantiles = np.random.default_rng(1).permutation(norm.ppf((np.arange(400) + 0.5) / 400))
    drawn: list[tuple[float, float]] = []
    factor = [1.0]

    def draw(self: Any, statistic: Any, sigma: float) -> Any:
        drawn.append((float(statistic[0]), sigma))
        return statistic + factor[0] * sigma * quantiles[len(drawn) % 400]

    monkeypatch.setattr(OpenDPNoise, "add_gaussian", draw)
    _, _, noise, attack = audited(lambda X, y: np.full(len(y), 2.0), 4)
    assert noise == "[ok] noise: nothing speaks against N(0, 0.2^2), independent, in 400 answers"
    assert [sigma for _, sigma in drawn] == pytest.approx([4 / 10 / 2] * 1200, rel=1e-5)
    assert [drawn[k][0] + 1 for k in (0, 400, 800)] == pytest.approx([-1.0, 1.7, 2.1])  # all low; the first low, high
    wrong = round(400 * float(norm.cdf(-1.0)))  # a side: the threshold is between means 2 sigma apart
    bound = float(beta.isf(5e-7, wrong + 1, 400 - wrong))
    proven = f"an attack with 400 answers a side proves mu >= {-2 * norm.ppf(bound):.3f}"
    assert attack == f"[ok] attack: {proven}; 2 is paid for each (mistaken once in 10^6)"
    factor[0] = 0.6  # means are 3.3 sigma apart, and a bound of 2.3 can be proven
    assert audited(lambda X, y: np.full(len(y), 2.0), 4)[3].startswith("[BROKEN] attack: ")


def test_a_lower_bound_is_that_of_clopper_and_pearson() -> None:
    a, b = np.array([0.0] * 90 + [1.0] * 10), np.array([1.0] * 75 + [0.5] * 5)
    fpr, fnr = beta.isf(0.005, 11, 90), beta.isf(0.005, 6, 75)  # an answer at the threshold is not above it
    assert lower_bound(a, b, 0.5, 0.99) == pytest.approx(-norm.ppf(fpr) - norm.ppf(fnr))
    assert lower_bound(np.ones(9), np.ones(9), 0.5) == -np.inf


EVEN = norm.ppf((np.arange(1000) + 0.5) / 1000)
MIXED = np.random.default_rng(5).permutation(EVEN)


def lagged(k: int) -> Any:
    """Independent numbers, of which every second block of k repeats three quarters of the block before."""
    z = MIXED.copy().reshape(-1, 2, k)[: 1000 // (2 * k)] if 1000 % (2 * k) == 0 else MIXED[:996].reshape(-1, 2, k)
    return np.concatenate([z[:, 0], 0.75 * z[:, 0] + np.sqrt(1 - 0.75**2) * z[:, 1]], axis=1).ravel()


EVIDENCE = {
    "independent": (MIXED, []),
    "too wide": (1.3 * MIXED, ["variance 1.688, not 1"]),
    "too narrow": (0.7 * MIXED, ["variance 0.4894, not 1"]),
    "two points": (np.sign(MIXED) + MIXED * 1e-9, ["not a normal law"]),
    "moved": (MIXED + 0.25, ["not a normal law", "mean: 7.91 standard deviations"]),
    "moved down": (MIXED - 0.25, ["not a normal law", "mean: -7.91 standard deviations"]),
    "five twice": (np.append(MIXED, MIXED[:5]), []),
    "six twice": (np.append(MIXED, MIXED[:6]), ["the same noise twice"]),
}


@pytest.mark.parametrize("case", EVIDENCE)
def test_numbers_that_are_no_normal_noise_are_found_in_words(case: str) -> None:
    z, said = EVIDENCE[case]
    assert complaints(z) == said


@pytest.mark.parametrize("k", [1, 2, 3])
def test_noise_that_repeats_is_found_at_its_lag(k: int) -> None:
    z = lagged(k)
    expected = float(z[k:] @ z[:-k]) / (len(z) - k) ** 0.5
    assert f"correlation at lag {k}: {expected:.2f} standard deviations" in complaints(z)
    assert not [line for line in complaints(z) if "lag" in line and f"lag {k}" not in line]


def test_a_transcript_is_everything_that_was_said_and_leaves_no_handler(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    root = logging.getLogger()
    before = root.level, list(root.handlers), warnings.showwarning

    def speaks() -> None:
        print("out")
        print("err", file=sys.stderr)
        logging.getLogger("a").debug("log")
        raise KeyError("k")

    assert transcript(speaks) == (None, "out\nerr\nlog\nKeyError: 'k'")
    assert transcript(lambda: 3) == (3, "")
    assert (root.level, list(root.handlers), warnings.showwarning) == before


def test_a_finding_and_a_wrong_table_are_told_in_one_line() -> None:
    assert str(Finding("noise", False, "why")) == "[BROKEN] noise: why"
    for rows, answers, got in (
        (X, Y[:3], "a ndarray of shape (10, 2) and a ndarray of shape (3,)"),
        (X[:1], Y[:1], "a ndarray of shape (1, 2) and a ndarray of shape (1,)"),
        (3, Y, "an int and a ndarray of shape (10,)"),
    ):
        with pytest.raises(InputError) as told:
            Audit(len, rows, answers, clip=(0.0, 1.0))
        assert str(told.value) == f"X and y must be arrays of as many rows, at least 2; got {got}."
