"""The randomizer keeps its promise: clamp, law, grid, reachability. Every audit fails on a planted bug."""

import copy
import itertools
import math
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, kstest, laplace

from dptune.errors import InputError
from dptune.local import HybridRandomizer, InsecureHybrid
from dptune.local.randomizer import GRID, InsecureRandomizer, LocalRandomizer
from refusals import refused

MISTAKE = 1e-8  # chance that one check fails although nothing is wrong; audit_law makes six
EXTREMES = (0.0, 0.3, 2.0, -2.0, 2.5, -1e300, 1e300, math.inf, -math.inf, math.nan, None, "text", 10**400, [1, 2])
Make = Callable[..., LocalRandomizer]


def grid_point(randomizer: LocalRandomizer, value: Any) -> Fraction:
    """Return the centre of the reply's law in units of L: the standardised value on OpenDP's grid, exactly."""
    return Fraction(round(Fraction(randomizer.standardised(value)) / Fraction(GRID))) * Fraction(GRID)


def recovered(randomizer: LocalRandomizer, reply: float) -> Fraction | None:
    """Return the grid point whose image the reply is, or None: the reply's reachability, whatever the value."""
    guess = round((Fraction(reply) - Fraction(randomizer.middle)) / Fraction(randomizer.scale) / Fraction(GRID))
    for k in range(guess - 64, guess + 65):
        if float(k * Fraction(GRID)) * randomizer.scale + randomizer.middle == reply:
            return k * Fraction(GRID)
    return None


# ---- the audits --------------------------------------------------------------------------------------


def audit_log_ratio(make: Make = LocalRandomizer) -> None:
    """|log p(r | y) - log p(r | y')| <= epsilon for all grid replies r and values y, y', in exact arithmetic."""
    for epsilon, bound in itertools.product((0.01, 0.5, 1.0, 2.0, 10.0), (2.0, (0.0, 1e-9), (1e9, 1e9 + 1))):
        randomizer = make(epsilon, bound)
        middle, half = randomizer.middle, (randomizer.high - randomizer.low) / 2
        values = [v if not isinstance(v, float) else middle + v * half / 2 for v in EXTREMES]
        centres = {grid_point(randomizer, value) for value in values}
        for k, a, b in itertools.product(range(-8, 9), centres, centres):  # log p = -|r - centre|, scale 1
            r = Fraction(k, 4)
            assert abs(abs(r - a) - abs(r - b)) <= Fraction(epsilon), "two values can be told apart beyond epsilon"


def audit_reaches(make: Make = LocalRandomizer) -> None:
    """The extremes use the whole price: no more noise than the promise needs."""
    randomizer = make(1.0, 2.0)
    apart = grid_point(randomizer, math.inf) - grid_point(randomizer, -math.inf)
    assert 1 - 2e-6 < apart <= 1, f"the extremes are {float(apart):.7g} apart, not 1"


def audit_reachable(make: Make = LocalRandomizer, replies: int = 100) -> None:
    """Every reply to one value could have been the reply to another: all lie on the image of one public grid."""
    for value in (-math.inf, 0.1, math.inf):
        randomizer = make(1.0, 2.0)
        for _ in range(replies):
            assert recovered(randomizer, randomizer.randomize(value)) is not None, "a reply that gives its value away"


def audit_law(make: Make = LocalRandomizer, replies: int = 1500) -> None:
    """Replies to the middle are Laplace of scale (high - low)/epsilon: shape, scale, sign, independence."""
    for epsilon, bound in ((0.5, (0.0, 1.0)), (2.0, 50.0)):
        randomizer = make(epsilon, bound)
        scale = (randomizer.high - randomizer.low) / epsilon
        z = np.array([randomizer.randomize(randomizer.middle) - randomizer.middle for _ in range(replies)]) / scale
        total = 2 * float(np.abs(z).sum())  # |z| is exponential: twice its sum is chi-squared
        assert min(chi2.cdf(total, 2 * replies), chi2.sf(total, 2 * replies)) > MISTAKE, "the scale"
        assert kstest(z, laplace.cdf).pvalue > MISTAKE, "not a Laplace law"
        assert len(np.unique(z)) > replies - 5, "the same noise twice"  # two of a grid of 2^-40 are one: chance 3e-7
        assert abs(float(np.sign(z[1:] * z[:-1]).sum())) < 7 * replies**0.5, "replies are correlated"


class RaisesInFloat:
    def __float__(self) -> float:
        raise SystemExit("secret")


def audit_clamp(make: Make = LocalRandomizer) -> None:
    """A value outside the interval is treated as the nearest end; no number is the public stand-in."""
    randomizer = make(1.0, (-1.0, 3.0), invalid=2.0)
    values: tuple[Any, ...] = (-1e300, -math.inf, math.inf, 3.1, 0.5, math.nan, None, "x", 10**400, RaisesInFloat())
    clamped = [randomizer.clamp(v) for v in values]
    assert clamped == [-1.0, -1.0, 3.0, 3.0, 0.5, 2.0, 2.0, 2.0, 2.0, 2.0]


# ---- planted bugs ------------------------------------------------------------------------------------


class NoClamp(LocalRandomizer):
    def clamp(self, value: Any) -> float:
        return float(value) if isinstance(value, float) and math.isfinite(value) else 0.0


class HalfTheSensitivity(LocalRandomizer):
    scale = property(lambda self: LocalRandomizer.scale.fget(self) / 2)


class TwiceTheSensitivity(LocalRandomizer):
    scale = property(lambda self: LocalRandomizer.scale.fget(self) * 2)


class RoundingUnpaid(LocalRandomizer):
    scale = property(lambda self: (self.high - self.low) / (self.epsilon + GRID))


class FloatingPointLaplace(LocalRandomizer):
    def randomize(self, value: Any) -> float:
        return self.clamp(value) + self.scale * float(np.random.default_rng().laplace())


class NormalNoise(LocalRandomizer):
    def randomize(self, value: Any) -> float:
        return self.clamp(value) + self.scale * random.gauss(0, 1)


class SameNoiseTwice(LocalRandomizer):
    def randomize(self, value: Any) -> float:
        noise = self.__dict__.setdefault("kept", [])
        noise.append(noise[-1] if len(noise) % 2 else super().randomize(self.middle) - self.middle)
        return self.clamp(value) + float(noise[-1])


FOUND = {
    audit_log_ratio: [NoClamp, HalfTheSensitivity, RoundingUnpaid],
    audit_clamp: [NoClamp],
    audit_reaches: [TwiceTheSensitivity],
    audit_law: [HalfTheSensitivity, TwiceTheSensitivity, NormalNoise, SameNoiseTwice],
    audit_reachable: [FloatingPointLaplace],
}


@pytest.mark.parametrize("audit", FOUND)
def test_every_audit_passes_and_finds_its_planted_bugs(audit: Callable[..., None]) -> None:
    audit()
    refused(AssertionError, None, *(partial(audit, bug) for bug in FOUND[audit]))


# ---- the rest ----------------------------------------------------------------------------------------


@given(st.floats(allow_nan=True, allow_infinity=True), st.floats(allow_nan=True, allow_infinity=True))
def test_any_two_values_stay_within_epsilon(a: float, b: float) -> None:
    randomizer = LocalRandomizer(0.7, (-3.0, 5.0))
    assert abs(grid_point(randomizer, a) - grid_point(randomizer, b)) <= Fraction(0.7)


@pytest.mark.parametrize(
    ("secure", "seeded"), [(LocalRandomizer, InsecureRandomizer), (HybridRandomizer, InsecureHybrid)]
)
def test_copies_draw_fresh_noise_and_a_seeded_randomizer_is_not_copied(secure: Any, seeded: Any) -> None:
    """A seeded randomizer describes itself as not private."""
    randomizer = secure(0.7, (1.0, 4.0), invalid=2.0)
    for twin in (pickle.loads(pickle.dumps(randomizer)), copy.deepcopy(randomizer)):
        assert twin.describe() == randomizer.describe()
        assert [twin.randomize(3.0) for _ in range(20)] != [randomizer.randomize(3.0) for _ in range(20)]
    a, b = (seeded(1.0, 2.0, insecure_seed=3) for _ in range(2))
    assert [a.randomize(0.5) for _ in range(9)] == [b.randomize(0.5) for _ in range(9)]
    refused(TypeError, "same noise", lambda: pickle.dumps(a), lambda: copy.copy(a))
    assert (randomizer.private, a.private, a.describe()["private"]) == (True, False, False)
    assert ("NOT PRIVATE" in repr(a), "NOT PRIVATE" in repr(randomizer)) == (True, False)


def test_the_seeded_variant_has_the_same_law() -> None:
    audit_law(lambda epsilon, bound: InsecureRandomizer(epsilon, bound, insecure_seed=1))


BAD_BOUNDS: list[Any] = [0.0, [0, 1], "ab", (0.0, 1.0, 2.0), (1.0, 1.0), (-1.7e308, 1.7e308), (0.0, 2e-308)]
BAD = {"epsilon": (0.0, 1e-12), "bound": BAD_BOUNDS, "invalid": (2.0,)}


def test_a_bad_setting_is_refused_by_name() -> None:
    make = partial(LocalRandomizer, epsilon=1.0, bound=1.0)
    for name, values in BAD.items():
        refused(InputError, name, *(partial(make, **{name: value}) for value in values))
    extremes = ((0.01, (0.0, 8e307)), (1e5, 1e-304))
    refused(InputError, "floating point", *(partial(LocalRandomizer, *extreme) for extreme in extremes))


@pytest.mark.parametrize("bound", [(0.0, 2.3e-308), 5e297, (1e16, 1e16 + 2), (1e300, math.nextafter(1e300, math.inf))])
def test_the_smallest_and_largest_intervals_keep_the_promise(bound: Any) -> None:
    randomizer = LocalRandomizer(0.9, bound)
    ends = [grid_point(randomizer, value) for value in (-math.inf, math.inf)]
    assert 0.9 - 3e-6 < ends[1] - ends[0] <= Fraction(0.9)
    assert math.isfinite(randomizer.randomize(0.0))


BLOCKED = ["numpy", "scipy", "sqlalchemy", "optuna", "ray", "sklearn", "pandas", "matplotlib", "dp_accounting"]
PROGRAM = f"""
import sys
sys.modules.update(dict.fromkeys({BLOCKED}))  # an import of one raises
from dptune.local.randomizer import LocalRandomizer
from dptune.local import UserLedger
print(type(LocalRandomizer(1.0, 2.0).randomize(0.5)).__name__)
"""


def test_a_device_imports_without_numpy_scipy_sqlalchemy_optuna_and_ray() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == "float\n"
