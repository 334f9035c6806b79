"""Forty people's answers and predictions, and every value that must not raise."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

RNG = np.random.default_rng(5)
Y, F = RNG.normal(size=40), RNG.normal(size=40)
ANIMALS = ["cat", "dog", "eel"]
KIND = RNG.choice(ANIMALS, size=40)
P3 = RNG.dirichlet(np.ones(3), size=40)  # (n, 3)
P1 = RNG.uniform(size=40)  # (n,)
BINARY = np.where(RNG.uniform(size=40) < 0.4, "no", "yes")

anything = st.one_of(
    st.floats(width=64),
    st.sampled_from([math.inf, -math.inf, math.nan, 1e308, -1e308, 5e-324]),
)


class Panic(BaseException):
    """No Exception, as what Rust extensions raise."""


UNUSUAL = [RuntimeError, Panic, SystemExit, GeneratorExit]
