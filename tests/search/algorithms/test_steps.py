"""The step rules against their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dptune import InputError
from dptune.search import AdaGrad, AdaGradNorm, GradientDescent

gradients = st.tuples(st.integers(1, 6), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-1e3, 1e3))
)
RULES = [GradientDescent, AdaGrad, AdaGradNorm]


@given(gradients, st.floats(1e-3, 10))
def test_the_formulas(g: np.ndarray, eta: float) -> None:
    assert GradientDescent(eta).step(g) == pytest.approx(-eta * g[-1])
    for j, move in enumerate(AdaGrad(eta).step(g)):
        size = math.hypot(*g[:, j])
        if size > 1e-140:  # below, squares are lost
            assert move == pytest.approx(-eta * g[-1, j] / size, abs=1e-9)
    size = math.hypot(*g.ravel())
    if size > 1e-140:
        assert AdaGradNorm(eta).step(g) == pytest.approx(-eta * math.sqrt(g.shape[1]) * g[-1] / size, abs=1e-9)


@given(gradients, st.floats(1e-3, 10))
def test_adaptive_steps_are_bounded_and_do_not_depend_on_the_unit_of_the_loss(g: np.ndarray, eta: float) -> None:
    assert (np.abs(AdaGrad(eta).step(g)) <= eta * (1 + 1e-12)).all()
    assert np.linalg.norm(AdaGradNorm(eta).step(g)) <= eta * math.sqrt(g.shape[1]) * (1 + 1e-12)
    for rule in (AdaGrad(eta), AdaGradNorm(eta)):
        if np.abs(g).min() > 1e-100:
            assert rule.step(64 * g) == pytest.approx(rule.step(g), rel=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_no_gradient_means_no_step_and_the_argument_stays(rule: type) -> None:
    g = np.zeros((3, 2))
    assert (rule(0.5).step(g) == 0).all()
    assert (g == 0).all()
    assert rule(0.5).eta == 0.5


def test_the_first_adagrad_step_is_the_sign() -> None:
    assert AdaGrad(0.1).step(np.array([[3.0, -0.2]])) == pytest.approx([-0.1, 0.1])


def test_in_one_dimension_the_adaptive_rules_agree() -> None:
    g = np.array([[1.0], [-2.0], [0.5]])
    assert AdaGradNorm(0.3).step(g) == pytest.approx(AdaGrad(0.3).step(g))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("eta", [0.0, -1.0, math.nan, math.inf])
def test_a_bad_step_size_is_refused(rule: type, eta: float) -> None:
    with pytest.raises(InputError, match="eta"):
        rule(eta)
