"""A setting of a search or of its Gaussian process that cannot be used is refused in whole sentences."""

import numpy as np
import pytest

from dptune import InputError
from dptune.search.algorithms.centred_plan import plan_centred
from dptune.search.algorithms.gibo import GIBOSettings
from dptune.search.algorithms.gibo_plan import plan_gibo
from dptune.search.algorithms.values import plan_values
from dptune.search.gp import RBF, Polynomial2
from dptune.search.gp.features import FourierFeatures
from dptune.search.gp.points import as_points, as_vector
from dptune.search.gp.posterior import stable_cholesky
from planning import planned

GIBO = {"d": 3, "steps": 4, "batch": 2, "mu": 1.0, "clip": 0.5}
SHARES = {"monitor_share": 0.5, "final_share": 0.25, "start_share": 0.25, "starts": 4}
TINY = "too small for 15 generations; plan fewer trials or a larger mu"
SINGULAR = np.diag([1.0, -1.0])
REFUSALS = {
    "numbers of points": (
        lambda: GIBOSettings(**{**GIBO, "batch": (1, 2)}),
        "batch needs one number per step, 4; got 2.",
    ),
    "a start of two": (
        lambda: GIBOSettings(**GIBO, theta0=(0.5, 0.5)),
        "theta0 must be 3 numbers in [0, 1]; got 2.",
    ),
    "a start that is a number": (
        lambda: GIBOSettings(**GIBO, theta0=0.5),
        "theta0 must be numbers in [0, 1], one for each coordinate.",
    ),
    "no share for gradients": (
        lambda: planned(plan_gibo, **SHARES),
        "the shares leave nothing for the gradients; make monitor_share or final_share smaller.",
    ),
    "no share for starts": (
        lambda: planned(plan_gibo, starts=4, start_share=0.0),
        "starts needs start_share > 0: comparing the starting points is a release too.",
    ),
    "less than a generation": (
        lambda: planned(plan_centred, trials=20, population=21),
        "n_trials=20 is less than one generation, population=21; plan more trials.",
    ),
    "no trials": (lambda: planned(plan_values, trials=0), "n_trials must be a whole number >= 1; got 0."),
    "a radius": (
        lambda: planned(plan_centred, radius=1e31),
        "radius must lie in [1e-30, 1e+30]; got 1e+31. It is 0.4 of the clip's width unless given: scale the loss.",
    ),
    "steps": (
        lambda: planned(plan_centred, tuning={"steps": 5}),
        "steps must be cell widths in [0, 1], or (); got 5. To plan trials use n_trials.",
    ),
    "one cell": (
        lambda: planned(plan_centred, tuning={"steps": (0.5,)}),
        "steps must be 2 cell widths, or (); got a tuple of length 1.",
    ),
    "a tiny share": (
        lambda: planned(plan_centred, trials=75, population=5, mu=1.0, final_share=0.0, tuning={"radius_share": 1e-18}),
        f"radius_share=1e-18 of mu=1.0 is {TINY}, or radius_share=0.",
    ),
    "length-scales": (
        lambda: RBF((0.1, 0.2))(np.zeros((4, 3)), np.zeros((4, 3))),
        "the kernel has 2 length-scales, but the points have 3 coordinates.",
    ),
    "points of another width": (
        lambda: as_points(np.zeros((4, 2)), 3),
        "points must have shape (m, 3); got a ndarray of shape (4, 2).",
    ),
    "a vector of another length": (
        lambda: as_vector(np.zeros(2), 3),
        "theta must have shape (3,); got a ndarray of shape (2,).",
    ),
    "points that are missing": (
        lambda: as_points([[np.nan]], name="X"),
        "X must be finite: remove NaN and infinite coordinates.",
    ),
    "an odd number": (
        lambda: FourierFeatures.draw(d=1, M=5, lengthscale=0.3, seed=0),
        "M must be even, a cosine and a sine per frequency; got 5.",
    ),
    "little noise": (
        lambda: stable_cholesky(SINGULAR, scale=1.0, noise_variance=1e-8),
        "the covariance of the points cannot be factorised with noise_variance=1e-08, even with a jitter of 1e-06 "
        "times their mean variance. Give a larger noise_variance.",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_setting_that_cannot_be_used_is_refused_in_words(case):
    call, message = REFUSALS[case]
    with pytest.raises(InputError) as told:
        call()
    assert str(told.value) == message


def test_a_kernel_is_described_by_its_own_numbers():
    assert Polynomial2(0.5, 3.0).describe() == {"kernel": "Polynomial2", "constant": 0.5, "variance": 3.0}
    scales = {"kernel": "RBF", "lengthscale": [0.25, 0.5], "variance": 2.0}
    assert RBF((0.25, 0.5), 2.0).describe() == scales
