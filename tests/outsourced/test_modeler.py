"""The modeler's rank-one updates equal a refit, its corrected kernel is a mean, and beta is the paper's."""

import math

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import IntDistribution
from optuna.testing.pytest_samplers import BasicSamplerTestCase

from dptune import InputError
from dptune.outsourced.modeler import OutsourcedModeler, noisy_kernel
from dptune.search.gp import RBF
from dptune_optuna import POGPUCBSampler
from outsourced_tools import released


def refitted(modeler: OutsourcedModeler, kernel: RBF, s2: float, told: list[tuple[int, float]]) -> tuple:
    """Mean and variance from the n x n matrix."""
    K = noisy_kernel(kernel, 0.3, modeler.Z.shape[1])(modeler.Z, modeler.Z)
    np.fill_diagonal(K, kernel.variance)
    rows, y = np.array([r for r, _ in told]), np.array([y for _, y in told])
    inner = K[np.ix_(rows, rows)] + s2 * np.eye(len(rows))
    gain = np.linalg.solve(inner, K[rows])
    return gain.T @ y, np.diag(K) - np.einsum("tn,tn->n", K[rows], gain)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 25), st.integers(1, 12), st.floats(1e-4, 1.0))
def test_rank_one_updates_equal_a_refit_with_repeated_rows_too(seed: int, n: int, t: int, s2: float) -> None:
    rng = np.random.default_rng(seed)
    kernel, Z = RBF((0.7, 1.9), variance=2.0), rng.normal(size=(n, 2))
    modeler = OutsourcedModeler(released(Z, 0.3), kernel, noise_variance=s2)
    told = [(int(rng.integers(n)), float(rng.normal())) for _ in range(t)]
    for row, y in told:
        modeler.tell(row, y)
    mean, variance = refitted(modeler, kernel, s2, told)
    np.testing.assert_allclose(modeler.mean, mean, atol=1e-9)
    np.testing.assert_allclose(modeler.variance, variance, atol=1e-9)


def test_the_corrected_kernel_is_the_expected_kernel_of_the_noisy_rows() -> None:
    rng, sigma = np.random.default_rng(0), 0.8
    kernel, z = RBF((1.0, 2.5), variance=3.0), np.array([[0.4, -1.2], [1.1, 0.9]])
    rows = z[:, None, :] - sigma * rng.standard_normal((2, 100_000, 2))  # (2, draws, k)
    exact = noisy_kernel(kernel, sigma, 2)(z[:1], z[1:])[0, 0]
    s = (((rows[0] - rows[1]) / np.array([1.0, 2.5])) ** 2).sum(axis=1)
    draws = 3.0 * np.exp(-0.5 * s)
    assert abs(draws.mean() - exact) < 5 * draws.std() / math.sqrt(len(draws))
    w = 1.7**2 + 2 * 0.6**2  # and with one length-scale the formula of the theory
    formula = (1.7**2 / w) ** 1.0 * math.exp(-float(((z[0] - z[1]) ** 2).sum()) / (2 * w))
    assert math.isclose(noisy_kernel(RBF(1.7), 0.6, 2)(z[:1], z[1:])[0, 0], formula, rel_tol=1e-12)


def test_beta_is_the_papers() -> None:
    modeler = OutsourcedModeler(released(np.eye(5), 0.3), RBF(1.0), noise_variance=0.1, delta=0.2)
    assert math.isclose(modeler.beta, 2 * math.log(5 * math.pi**2 / (6 * 0.2)))
    modeler.tell(0, 1.0)
    assert math.isclose(modeler.beta, 2 * math.log(5 * 4 * math.pi**2 / (6 * 0.2)))


def test_losses_are_minimised_and_the_recommended_row_is_an_evaluated_one() -> None:
    Z = np.linspace(-1, 1, 41)[:, None]
    modeler = OutsourcedModeler(released(Z, 1e-6, maximise=False), RBF(0.5), noise_variance=1e-4, exploration=0.1)
    for _ in range(15):
        row = modeler.ask()
        modeler.tell(row, float((Z[row, 0] - 0.3) ** 2))
    assert modeler.recommend() in modeler.rows
    assert abs(Z[modeler.recommend(), 0] - 0.3) < 0.06
    between = OutsourcedModeler(released(np.array([[-0.2], [0.0], [0.2]]), 1e-6), RBF(0.5), noise_variance=1e-4)
    for row in (0, 2):
        between.tell(row, 1.0)
    assert np.argmax(between.mean) == 1
    assert between.recommend() in (0, 2)


def test_a_prior_mean_is_of_the_outputs_whichever_are_good() -> None:
    Z = np.linspace(-1, 1, 9)[:, None]
    twins = [
        OutsourcedModeler(released(Z, 1e-6, maximise=up), RBF(0.5), noise_variance=1e-2, mean=0.7 if up else -0.7)
        for up in (True, False)
    ]
    for row in (4, 7):
        for twin, sign in zip(twins, (1, -1), strict=True):
            twin.tell(row, sign * float(Z[row, 0]))
    np.testing.assert_allclose(twins[0].mean, twins[1].mean)
    assert twins[0].mean[0] > 0.5  # far from both rows the prior holds


def test_rows_in_flight_are_skipped() -> None:
    modeler = OutsourcedModeler(released(np.eye(3), 0.3), RBF(1.0), noise_variance=0.5)
    first = modeler.ask()
    assert modeler.ask(skip=[first]) != first
    assert modeler.ask(skip=range(3)) == first  # all are in flight: asking again is all there is


def test_what_is_told_is_checked() -> None:
    modeler = OutsourcedModeler(released(np.eye(3), 0.3), RBF(1.0), noise_variance=0.5)
    for row, y in ((-1, 0.0), (3, 0.0), (1.5, 0.0), (0, math.nan), (0, "1")):
        with pytest.raises(InputError, match="must"):
            modeler.tell(row, y)
    assert modeler.rows == []


# ---- in Optuna: row numbers as a parameter, state from the study alone -------------------------------------

POINTS = np.random.default_rng(0).uniform(-5, 5, (60, 2))
Y = np.exp(-0.5 * ((POINTS - [1, 2]) ** 2).sum(axis=1) / 4)


def sampler(*, maximise: bool = True) -> POGPUCBSampler:
    return POGPUCBSampler(released(POINTS, 0.2, maximise=maximise), RBF(2.0), noise_variance=1e-3)


def objective(trial: optuna.Trial) -> float:
    return float(Y[trial.suggest_int("row", 0, 59)])


def test_a_study_asks_what_the_modeler_asks() -> None:
    study = optuna.create_study(sampler=sampler(), direction="maximize")
    study.optimize(objective, n_trials=12)
    modeler = OutsourcedModeler(released(POINTS, 0.2), RBF(2.0), noise_variance=1e-3)
    for trial in study.trials:
        assert trial.params["row"] == modeler.ask()
        modeler.tell(trial.params["row"], trial.value)
    assert study.sampler.recommend(study) == {"row": modeler.recommend()}


def test_another_process_goes_on_and_another_study_starts_afresh() -> None:
    studies = [optuna.create_study(sampler=sampler(), direction="maximize") for _ in range(2)]
    studies[0].optimize(objective, n_trials=9)
    studies[1].add_trials(studies[0].trials[:6])
    studies[1].optimize(objective, n_trials=3)
    assert [t.params for t in studies[0].trials] == [t.params for t in studies[1].trials]
    fresh = optuna.create_study(sampler=studies[0].sampler, direction="maximize")
    fresh.optimize(objective, n_trials=4)
    assert [t.params for t in fresh.trials] == [t.params for t in studies[0].trials[:4]]


def test_pending_rows_are_not_repeated_and_failed_trials_are_ignored() -> None:
    study, rows = optuna.create_study(sampler=sampler(), direction="maximize"), IntDistribution(0, 59)
    trials = [study.ask({"row": rows}) for _ in range(4)]
    assert len({trial.params["row"] for trial in trials}) == 4
    study.tell(trials[0], state=optuna.trial.TrialState.FAIL)
    study.ask({"row": rows})
    assert study.sampler.modeler.rows == []


def test_a_study_in_the_wrong_direction_is_refused() -> None:
    study = optuna.create_study(sampler=sampler(maximise=False), direction="maximize")
    with pytest.raises(InputError, match='direction="minimize"'):
        study.optimize(objective, n_trials=1)


def test_one_sampler_of_two_studies_learns_of_each_its_own() -> None:
    here = optuna.create_study(sampler=sampler(), direction="maximize")
    there = optuna.create_study(sampler=here.sampler, direction="maximize")
    here.optimize(objective, n_trials=6)
    there.optimize(lambda trial: -objective(trial), n_trials=4)  # its trials have the same ids
    for study in (here, there, here):
        assert study.sampler.recommend(study) == sampler().recommend(study)
        assert study.sampler.modeler.rows == [trial.params["row"] for trial in study.trials]


@pytest.mark.parametrize(("low", "high"), [(0, 60), (1, 59), (0, 9)])
def test_a_row_of_another_range_is_refused_at_once(low: int, high: int) -> None:
    study = optuna.create_study(sampler=sampler(), direction="maximize")
    with pytest.raises(InputError, match=r'trial 0 .* trial\.suggest_int\("row", 0, 59\)'):
        study.optimize(lambda trial: float(trial.suggest_int("row", low, high)), n_trials=3)
    assert len(study.trials) == 1


def test_a_trial_without_a_row_is_said_to_teach_nothing(caplog: pytest.LogCaptureFixture) -> None:
    study = optuna.create_study(sampler=sampler(), direction="maximize")
    optuna.logging.enable_propagation()
    try:
        study.optimize(lambda trial: float(trial.suggest_int("index", 0, 59)), n_trials=1)
    finally:
        optuna.logging.disable_propagation()
    assert 'trial.suggest_int("row", 0, 59)' in caplog.text


class TestPOGPUCBSampler(BasicSamplerTestCase):
    @pytest.fixture
    def sampler(self):
        return lambda: POGPUCBSampler(released(POINTS, 0.2, maximise=False), RBF(2.0), noise_variance=1e-3)
