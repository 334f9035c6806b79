"""The costs of plans of trainings equal integrals, closed forms and the formulas of the papers."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy import stats
from scipy.integrate import quad

from dptune import InputError
from dptune.ledger.dominating import Gaussian
from dptune.ledger.gdp import delta_from_mu, epsilon_from_mu, mu_from_epsilon
from dptune.ledger.subsampled import SubsampledGaussian, epsilon_pld, noise_multiplier
from dptune.training import Repeats, SelectionPlan, TrainingPlan, noise_multipliers
from dptune.training.profiles import epsilon_of, renyi_epsilon

DELTA = 1e-5


def converted(orders: np.ndarray, rdp: np.ndarray, delta: float = DELTA) -> np.ndarray:
    """Canonne, Kamath & Steinke (2020), proposition 12."""
    return rdp + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)


def theorem_2(mean: float, eta: float, gamma: float, mu: float) -> float:
    """Papernot & Steinke, for a Gaussian, minimised over a grid that is finer than dp-accounting's."""
    orders = np.arange(1.01, 60, 0.01)
    rdp = orders * mu**2 / 2
    other = np.min((1 - 1 / orders) * rdp - math.log(gamma) / orders)
    return float(np.min(converted(orders, rdp + (1 + eta) * other + math.log(mean) / (orders - 1))))


def theorem_6(mean: float, mu: float) -> float:
    """Papernot & Steinke, with the Gaussian's delta from the same conversion as dp-accounting's."""
    orders = np.arange(1.1, 60, 0.1)
    at = np.log1p(1 / (orders - 1))[:, None]
    a = np.arange(1.05, 60, 0.05)
    delta = np.exp((a - 1) * (a * mu**2 / 2 - at + np.log1p(-1 / a)) - np.log(a)).min(axis=1)
    return float(np.min(converted(orders, orders * mu**2 / 2 + mean * delta + math.log(mean) / (orders - 1))))


@pytest.mark.parametrize(
    ("mean", "eta", "mu"), [(2.0, 0.0, 0.5), (30.0, 0.5, 0.1), (30.0, 1.0, 0.5), (1000.0, 1.0, 0.1), (2.0, 3.0, 0.5)]
)
def test_negative_binomial_repeats_are_theorem_2(mean: float, eta: float, mu: float) -> None:
    repeats = Repeats(mean, eta)
    ours = renyi_epsilon([SelectionPlan(repeats, score_mu=mu)], DELTA)
    theirs = theorem_2(mean, eta, repeats.gamma(), mu)
    assert theirs * (1 - 1e-6) <= ours <= 1.02 * theirs


@pytest.mark.parametrize("mean", [1.0, 50.0])
def test_poisson_repeats_are_theorem_6(mean: float) -> None:
    ours = renyi_epsilon([SelectionPlan(Repeats.poisson(mean), score_mu=0.25)], DELTA)
    assert ours == pytest.approx(theorem_6(mean, 0.25), rel=0.03)


def test_trainings_without_sampling_compose_as_gaussian_releases() -> None:
    assert epsilon_of([Gaussian(0.7)], DELTA) == epsilon_from_mu(0.7, DELTA)
    plan = TrainingPlan(noise_multiplier=8.0, sample_rate=1.0, steps=5, trainings=4)
    assert epsilon_of([plan], DELTA) == pytest.approx(epsilon_from_mu(math.sqrt(20) / 8, DELTA), rel=2e-3)
    three = epsilon_of([TrainingPlan(1.0, 0.05, 100, trainings=3)], DELTA)
    assert three == epsilon_pld(SubsampledGaussian(0.05, 1.0, 300), DELTA)
    both = epsilon_of([plan, Gaussian(0.7)], DELTA)
    assert both == pytest.approx(epsilon_from_mu(math.sqrt(20 / 64 + 0.49), DELTA), rel=2e-3)


@pytest.mark.parametrize(("z", "q", "mu"), [(1.0, 0.1, 0.5), (0.7, 0.3, 1.0)])
def test_a_sampled_step_and_an_adaptive_budget_against_an_integral(z: float, q: float, mu: float) -> None:
    """Both directions of remove-one, integrated over the step's output; the Gaussian of mu in closed form."""
    epsilon = epsilon_of([TrainingPlan(z, q, 1), Gaussian(mu)], DELTA)
    assert max(remaining(z, q, mu, epsilon, turned) for turned in (False, True)) <= DELTA * (1 + 1e-6)
    assert max(remaining(z, q, mu, epsilon * 0.995, turned) for turned in (False, True)) > DELTA


def remaining(z: float, q: float, mu: float, epsilon: float, turned: bool) -> float:
    def excess(x: float) -> float:
        p = stats.norm.pdf(x, 0, z)
        mixed = (1 - q) * p + q * stats.norm.pdf(x, 1, z)
        a, b = (p, mixed) if turned else (mixed, p)
        shifted = epsilon - math.log(a / b)
        if shifted >= 0:
            return a * delta_from_mu(mu, shifted)
        return a * (1 - math.exp(shifted) + math.exp(shifted) * delta_from_mu(mu, -shifted))

    return float(quad(excess, -12 * z, 12 * z + 1, limit=400, epsabs=1e-14)[0])


def test_a_plan_is_read_from_an_event_of_dp_accounting() -> None:
    step = dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(2.0))
    assert TrainingPlan.of_event(dp_event.SelfComposedDpEvent(step, 20), trainings=3) == TrainingPlan(2.0, 0.1, 20, 3)
    shuffled = dp_event.SampledWithoutReplacementDpEvent(100, 10, dp_event.GaussianDpEvent(2.0))
    discrete = dp_event.PoissonSampledDpEvent(0.1, dp_event.ZCDpEvent(0.1))
    for other in (step, *(dp_event.SelfComposedDpEvent(each, 20) for each in (shuffled, discrete)), None):
        with pytest.raises(InputError, match="Poisson-sampled Gaussian steps"):
            TrainingPlan.of_event(other)


def test_a_gdp_through_one_point_of_dp_sgd_says_too_little_at_another() -> None:
    """The bridge that must not be built: z = .6, q = .001, 5000 steps."""
    plan = TrainingPlan(0.6, 0.001, 5000)
    at_5, at_7 = epsilon_of([plan], 1e-5), epsilon_of([plan], 1e-7)
    mu = mu_from_epsilon(at_5, 1e-5)
    page = " ".join((Path(__file__).parents[2] / "docs/training.md").read_text(encoding="utf-8").split())
    assert f"epsilon {at_5:.4f} at delta = 1e-5 and {at_7:.4f} at 1e-7" in page
    assert f"(mu = {mu:.4f}) says {epsilon_from_mu(mu, 1e-7):.4f} at the second" in page
    assert at_7 > 1.3 * epsilon_from_mu(mu, 1e-7)
    assert epsilon_of([plan], 1e-3) < epsilon_from_mu(mu, 1e-3), "at larger deltas it is the other way round"


@pytest.mark.slow
def test_noise_for_many_trainings_is_the_least_that_fits_the_budget() -> None:
    """Paid scores need more noise."""
    wanted = {"epsilon": 3.0, "delta": DELTA, "sample_rate": 0.1, "steps": 10}
    found = noise_multipliers(**wanted, trainings=20)
    assert found["composition"] == noise_multiplier(q=0.1, steps=200, epsilon=3.0, delta=DELTA)
    assert found["geometric"] < found["poisson"] < found["composition"]
    plan = SelectionPlan(Repeats.geometric(20), TrainingPlan(found["geometric"], 0.1, 10))
    less = SelectionPlan(Repeats.geometric(20), TrainingPlan(found["geometric"] * 0.99, 0.1, 10))
    assert epsilon_of([plan], DELTA) <= 3.0 < epsilon_of([less], DELTA)
    assert set(noise_multipliers(**wanted, trainings=1)) == {"composition"}
    scored = noise_multipliers(**wanted, trainings=20, score_mu=0.1)
    assert all(scored[way] > found[way] for way in found)


LAWS: list[tuple[Repeats, Callable[[int], float]]] = [
    (Repeats.geometric(7.0), lambda k: stats.geom.pmf(k, 1 / 7)),
    (Repeats.poisson(3.5), lambda k: stats.poisson.pmf(k, 3.5)),
    (Repeats.logarithmic(5.0), lambda k: stats.logser.pmf(k, 1 - Repeats.logarithmic(5.0).gamma())),
    (Repeats(9.0, 0.5), lambda k: (k > 0) * stats.nbinom.pmf(k, 0.5, g := Repeats(9.0, 0.5).gamma()) / (1 - g**0.5)),
]


@pytest.mark.parametrize(("repeats", "law"), LAWS, ids=[str(repeats) for repeats, _ in LAWS])
def test_the_number_of_repeats_has_its_law(repeats: Repeats, law: Callable[[int], float]) -> None:
    drawn = np.bincount([repeats.quantile(u) for u in (np.arange(20000) + 0.5) / 20000], minlength=30)[:30] / 20000
    assert np.abs(drawn - [law(k) for k in range(30)]).max() <= 1e-4
    assert sum(k * law(k) for k in range(1, 400)) == pytest.approx(repeats.mean, rel=1e-3)
    assert np.mean([repeats.draw() for _ in range(4000)]) == pytest.approx(repeats.mean, rel=0.15)  # of the secret draw


@pytest.mark.parametrize("repeats", [Repeats.poisson(800), Repeats(800, 1e5)], ids=str)
def test_a_law_whose_smallest_numbers_have_no_chance_is_drawn_from(repeats: Repeats) -> None:
    """exp(-800) is 0 in floating point."""
    law = stats.poisson(800) if repeats.shape is None else stats.nbinom(1e5, repeats.gamma())
    assert [repeats.quantile(u) for u in (1e-6, 0.5, 0.999)] == [law.ppf(u) for u in (1e-6, 0.5, 0.999)]
