"""For reproduction only, do not report: the classic moments accountant of Abadi et al. (2016)."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logsumexp, xlog1py

from dptune.ledger.gdp import probability
from dptune.ledger.subsampled import SubsampledGaussian

MAX_LAMBDA = 32


def epsilon_moments_accountant(plan: SubsampledGaussian, delta: float) -> float:
    """The minimum over integers lambda = 1..32 of (alpha + ln(1/delta)) / lambda.

    alpha = steps * ln E_P[(M/P)^(lambda+1)]. It is a valid bound, but a loose one: 1.3 to 1.5 times `epsilon_pld` for
    the plans of the DP-FTS-DE paper, whose figures it reproduces.
    """
    log_1_delta = -math.log(probability("delta", delta))
    return min((plan.steps * log_moment(plan, k) + log_1_delta) / k for k in range(1, MAX_LAMBDA + 1))


def log_moment(plan: SubsampledGaussian, lam: int) -> float:
    """log E_M[(M/P)^lam] = log sum_k C(lam+1, k) (1-q)^(lam+1-k) q^k exp(k(k-1) / 2z^2), exactly.

    The other direction, E_P[(P/M)^lam], is never larger (Mironov, Talwar & Zhang 2019).
    """
    m = lam + 1
    k = np.arange(m + 1)
    log_binomial = np.array([math.log(math.comb(m, int(j))) for j in k])
    terms = log_binomial + xlog1py(m - k, -plan.q) + k * math.log(plan.q) + k * (k - 1) / (2 * plan.z**2)
    return float(logsumexp(terms))
