"""The subsampled Gaussian against mpmath integration, the analytic Gaussian and the published figures."""

from __future__ import annotations

import dataclasses
import json
import math
import sys

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks.federated.moments import epsilon_moments_accountant
from dptune.errors import InputError, MissingExtra
from dptune.ledger.subsampled import SubsampledGaussianPlan, epsilon_pld, pld_accountant

DELTA = 200**-1.1


def delta_pld(plan: SubsampledGaussianPlan, epsilon: float) -> float:
    return float(pld_accountant().compose(plan.event()).get_delta(epsilon))


PUBLISHED = [  # q, z, classic accountant, PLD (DP-FTS-DE: N = 200, T = 40)
    (0.15, 1.0, "5.93", "3.964"),
    (0.5, 1.0, "20.12", "15.710"),
    (0.25, 1.5, "5.22", "3.597"),
]


@pytest.mark.parametrize(("q", "z", "classic", "pld"), PUBLISHED)
def test_published_figures(q: float, z: float, classic: str, pld: str) -> None:
    plan = SubsampledGaussianPlan(q, z, 40)
    assert f"{epsilon_moments_accountant(plan, DELTA):.2f}" == classic
    assert f"{epsilon_pld(plan, DELTA):.3f}" == pld


@pytest.mark.parametrize(("z", "steps"), [(1.0, 1), (3.0, 10)])
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


def test_epsilon_grows_with_steps() -> None:
    plan = SubsampledGaussianPlan(0.3, 1.5, 4)
    assert epsilon_pld(plan, 1e-5) < epsilon_pld(dataclasses.replace(plan, steps=5), 1e-5)


def test_extremes_stay_numbers() -> None:
    assert epsilon_pld(SubsampledGaussianPlan(0.25, 1.0, 40), 1e-30) == math.inf


def test_a_plan_names_the_setting_it_refuses() -> None:
    bad = {"q": (0.0, 1.01, math.nan, "0.5"), "z": (0.0, math.inf, math.nan, None), "steps": (0, 1.5, True, "3")}
    for name, values in bad.items():
        for value in values:
            with pytest.raises(InputError, match=f"{name}="):
                dataclasses.replace(SubsampledGaussianPlan(0.5, 1.0, 2), **{name: value})


def test_a_plan_of_numpy_numbers_is_plain_data() -> None:
    plan = SubsampledGaussianPlan(np.float32(0.25), np.int64(2), np.int64(3))
    assert plan == SubsampledGaussianPlan(0.25, 2.0, 3)
    assert json.dumps(dataclasses.asdict(plan)) == '{"q": 0.25, "z": 2.0, "steps": 3}'


def test_delta_is_a_probability() -> None:
    for delta in (0.0, 1.0):
        for epsilon in (epsilon_pld, epsilon_moments_accountant):
            with pytest.raises(InputError, match="delta"):
                epsilon(SubsampledGaussianPlan(0.5, 1.0, 2), delta)


def test_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(MissingExtra, match=r'pip install "dptune\[federated\]"'):
        epsilon_pld(SubsampledGaussianPlan(0.5, 1.0, 2), 1e-5)
