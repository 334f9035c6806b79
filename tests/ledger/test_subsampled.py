"""The subsampled Gaussian against mpmath integration, the analytic Gaussian and the published figures."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from benchmarks.federated.moments import epsilon_moments_accountant, log_moment
from dptune.errors import InputError, MissingExtra
from dptune.ledger.subsampled import SubsampledGaussianPlan, epsilon_pld, pld_accountant

DELTA = 200**-1.1


def delta_pld(plan: SubsampledGaussianPlan, epsilon: float) -> float:
    return float(pld_accountant().compose(plan.event()).get_delta(epsilon))


PUBLISHED = [  # q, z, classic accountant, PLD (DP-FTS-DE: N = 200, T = 40)
    (0.15, 1.0, "5.93", "3.964"),
    (0.25, 1.0, "9.91", "7.054"),
    (0.5, 1.0, "20.12", "15.710"),
    (0.25, 1.2, "7.39", "5.152"),
    (0.25, 1.5, "5.22", "3.597"),
]


@pytest.mark.parametrize(("q", "z", "classic", "pld"), PUBLISHED)
def test_published_figures(q: float, z: float, classic: str, pld: str) -> None:
    plan = SubsampledGaussianPlan(q, z, 40)
    assert f"{epsilon_moments_accountant(plan, DELTA):.2f}" == classic
    assert f"{epsilon_pld(plan, DELTA):.3f}" == pld


def test_landmine_and_what_its_secret_sample_is_worth() -> None:
    """N = 29, 60 rounds: epsilon 10.38 as long as nobody learns who was sampled, 44.3 otherwise."""
    assert epsilon_pld(SubsampledGaussianPlan(0.35, 1.0, 60), 0.0246) == pytest.approx(10.385, abs=1e-3)
    assert epsilon_pld(SubsampledGaussianPlan(1.0, 1.0, 60), 0.0246) == pytest.approx(44.347, abs=1e-3)


def moments(q: float, z: float, lam: int) -> tuple[float, float]:
    """Both directions' log moments by quadrature: ln E_M[(M/P)^lam] and ln E_P[(P/M)^lam]."""

    def p(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.npdf(x, 0, z)

    def m(x: mpmath.mpf) -> mpmath.mpf:
        return (1 - q) * mpmath.npdf(x, 0, z) + q * mpmath.npdf(x, 1, z)

    cuts = [-15 * z, -3 * z, 0, 1, lam / 2 + 1, lam + 1, lam + 1 + 15 * z]
    with mpmath.workdps(20):
        forward = mpmath.log(mpmath.quad(lambda x: m(x) * (m(x) / p(x)) ** lam, cuts))
        backward = mpmath.log(mpmath.quad(lambda x: p(x) * (p(x) / m(x)) ** lam, cuts))
    return float(forward), float(backward)


@pytest.mark.parametrize(
    ("q", "z", "lam"), [(0.25, 1.2, 1), pytest.param(0.25, 1.2, 7, marks=pytest.mark.slow), (0.05, 2.0, 4)]
)
def test_the_binomial_expansion_is_the_larger_moment(q: float, z: float, lam: int) -> None:
    forward, backward = moments(q, z, lam)
    assert log_moment(SubsampledGaussianPlan(q, z, 1), lam) == pytest.approx(forward, rel=1e-10)
    assert backward <= forward


@pytest.mark.parametrize(("z", "steps", "best"), [(1.0, 40, 1), (3.0, 1, 14), (1000.0, 1, 32)])
def test_classic_epsilon_minimises_over_lambda_1_to_32(z: float, steps: int, best: int) -> None:
    """At q = 1, alpha = steps * lambda (lambda + 1) / (2 z^2): the optimum at both ends of the range and inside."""
    by_hand = {k: (steps * k * (k + 1) / (2 * z * z) + math.log(1e5)) / k for k in range(1, 100)}
    assert min(range(1, 33), key=lambda k: by_hand[k]) == best
    got = epsilon_moments_accountant(SubsampledGaussianPlan(1.0, z, steps), 1e-5)
    assert got == pytest.approx(by_hand[best], rel=1e-12)


@pytest.mark.parametrize(("z", "steps"), [(1.0, 1), (1.0, 40), (3.0, 10)])
def test_without_subsampling_pld_is_the_analytic_gaussian(z: float, steps: int) -> None:
    plan, mu = SubsampledGaussianPlan(1.0, z, steps), math.sqrt(steps) / z
    for eps in (0.5, 2.0, 6.0):
        exact = norm.cdf(-eps / mu + mu / 2) - math.exp(eps) * norm.cdf(-eps / mu - mu / 2)
        assert exact <= delta_pld(plan, eps) <= exact + 2e-3 * math.sqrt(steps)


def test_one_step_is_the_hockey_stick_divergence_of_the_mixture_rounded_up() -> None:
    """M(x) > e^eps P(x) exactly beyond a cut that is solved by hand; the other direction is smaller."""
    q, z, eps = 0.3, 0.8, 0.7
    cut = z * z * math.log((math.exp(eps) - 1 + q) / q) + 0.5
    exact = (1 - q) * norm.sf(cut / z) + q * norm.sf((cut - 1) / z) - math.exp(eps) * norm.sf(cut / z)
    got = delta_pld(SubsampledGaussianPlan(q, z, 1), eps)
    assert exact <= got <= exact + 1e-3


plans = st.builds(
    SubsampledGaussianPlan,
    q=st.floats(0.01, 1.0),
    z=st.floats(0.5, 8.0),
    steps=st.integers(1, 60),
)


@settings(max_examples=2, deadline=None)
@given(plans, st.sampled_from([1e-2, 1e-5, 1e-8]))
def test_pld_is_tighter_than_the_classic_accountant_and_grows_with_steps(
    plan: SubsampledGaussianPlan, delta: float
) -> None:
    eps = epsilon_pld(plan, delta)
    assert eps <= epsilon_moments_accountant(plan, delta) + 2e-3 * plan.steps
    assert eps <= epsilon_pld(dataclasses.replace(plan, steps=plan.steps + 1), delta) + 1e-9


def test_extremes_stay_numbers() -> None:
    assert math.isfinite(epsilon_moments_accountant(SubsampledGaussianPlan(1.0, 0.1, 10**6), 1e-300))
    assert epsilon_pld(SubsampledGaussianPlan(0.25, 1.0, 40), 1e-30) == math.inf


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"q": 0.0}, "q="),
        ({"q": 1.01}, "q="),
        ({"q": math.nan}, "q="),
        ({"z": 0.0}, "z="),
        ({"z": math.inf}, "z="),
        ({"z": math.nan}, "z="),
        ({"steps": 0}, "steps="),
        ({"steps": 1.5}, "steps="),
        ({"steps": True}, "steps="),
        ({"steps": "3"}, "steps="),
        ({"q": "0.5"}, "q="),
        ({"z": None}, "z="),
    ],
)
def test_a_plan_names_the_setting_it_refuses(change: dict[str, float], word: str) -> None:
    with pytest.raises(InputError, match=word):
        dataclasses.replace(SubsampledGaussianPlan(0.5, 1.0, 2), **change)


def test_a_plan_of_numpy_numbers_is_plain_data() -> None:
    plan = SubsampledGaussianPlan(np.float32(0.25), np.int64(2), np.int64(3))
    assert plan == SubsampledGaussianPlan(0.25, 2.0, 3)
    assert json.dumps(dataclasses.asdict(plan)) == '{"q": 0.25, "z": 2.0, "steps": 3}'


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan])
def test_delta_is_a_probability(delta: float) -> None:
    plan = SubsampledGaussianPlan(0.5, 1.0, 2)
    for epsilon in (epsilon_pld, epsilon_moments_accountant):
        with pytest.raises(InputError, match="delta"):
            epsilon(plan, delta)


def test_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(MissingExtra, match=r'pip install "dptune\[federated\]"'):
        epsilon_pld(SubsampledGaussianPlan(0.5, 1.0, 2), 1e-5)


@pytest.mark.slow  # the figures are compared above; the command computes much more
def test_the_command_prints_all_ten_figures() -> None:
    out = subprocess.run(
        [sys.executable, "-m", "benchmarks.federated.accounting"], check=True, capture_output=True, text=True
    ).stdout
    for _, _, classic, pld in PUBLISHED:
        assert classic in out
        assert pld in out
