"""The three algorithms word for word, from the list of plays: O(t) to O(t^3) a round. Nothing is shared with the cores.

The reference of the tests; `benchmarks.ldp speed` times it, too. Each function takes the kernel matrix of
the M candidates, the points played and the replies, and returns mean, deviation (M,) and gamma or m.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
RCOND = 1e-10  # below it an eigenvalue of K_DD counts as 0, as in dptune.search.gp.nystroem


def tgp(K: Array, x: list[int], y: list[float], b: list[float], lam: float) -> tuple[Array, Array, float]:
    """Mean, deviation and information gain; b holds the thresholds b_1..b_t."""
    cut = np.array([r if abs(r) <= limit else 0.0 for r, limit in zip(y, b, strict=True)])
    inverse = np.linalg.inv(K[np.ix_(x, x)] + lam * np.eye(len(x)))
    cross = K[:, x]  # (M, t)
    variance = np.diag(K) - np.einsum("mt,ts,ms->m", cross, inverse, cross)
    gain = 0.5 * np.linalg.slogdet(np.eye(len(x)) + K[np.ix_(x, x)] / lam)[1]
    return cross @ inverse @ cut, np.sqrt(np.maximum(variance, 0.0)), float(gain)


def features(K: Array, D: list[int]) -> Array:
    """phi~ of all candidates, (M, m): (K_DD^(1/2))^+ k_D(x), by a singular value decomposition."""
    u, s, vt = np.linalg.svd(K[np.ix_(D, D)])
    root = np.array([1 / math.sqrt(value) if value > RCOND * s[0] else 0.0 for value in s])
    return np.asarray(K[:, D] @ (vt.T * root) @ u.T)


def deviation(K: Array, phi: Array, x: list[int], lam: float) -> Array:
    """sqrt(k(x, x) - phi^T phi + lambda phi^T V^-1 phi), (M,)."""
    V = phi[x].T @ phi[x] + lam * np.eye(phi.shape[1])
    variance = np.diag(K) - (phi**2).sum(axis=1) + lam * np.einsum("mi,ij,mj->m", phi, np.linalg.inv(V), phi)
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)))


def dictionaries(K: Array, x: list[int], lam: float, q: float, redraw: float, seed: int) -> list[int]:
    """The dictionary after the plays x, by going through all of them; as printed for redraw = 0."""
    D: list[int] = []
    at_draw, drift, draws = np.sqrt(np.diag(K)), 0.0, 0
    for t in range(1, len(x) + 1):
        drift += at_draw[x[t - 1]] ** 2 / lam
        if drift > redraw or not D:
            s = deviation(K, features(K, D), x[: t - 1], lam) if D else np.sqrt(np.diag(K))
            draws += 1
            uniform = np.random.default_rng([seed, draws]).random(len(K))
            D = [j for j in range(len(K)) if uniform[j] >= (1 - min(q * s[j] ** 2, 1.0)) ** x[:t].count(j)]
            at_draw = deviation(K, features(K, D), x[:t], lam) if D else np.sqrt(np.diag(K))
            drift = 0.0
    return D


def ata_estimate(phi: Array, x: list[int] | NDArray[np.int64], y: Array, b: float, lam: float) -> Array:
    """The mean (M,) from the (m, t) matrix of all u_i,tau: the part whose cost grows with t."""
    played = phi[x]  # (t, m)
    w, Q = np.linalg.eigh(played.T @ played + lam * np.eye(phi.shape[1]))
    root = (Q / np.sqrt(w)) @ Q.T  # V^(-1/2), (m, m)
    products = root @ played.T * y  # u_i,tau y_tau, (m, t)
    r = np.where(np.abs(products) <= b, products, 0.0).sum(axis=1)  # (m,)
    return np.asarray(phi @ (root @ r))


def moma_estimate(phi: Array, x: list[int], Y: Array, lam: float) -> Array:
    """The mean (M,) from epochs at x (n,) with replies Y (n, k)."""
    played = phi[x]  # (n, m)
    V = played.T @ played + lam * np.eye(phi.shape[1])
    theta = [np.linalg.solve(V, played.T @ Y[:, j]) for j in range(Y.shape[1])]
    best, chosen = math.inf, 0
    for j, a in enumerate(theta):
        others = [math.sqrt(max(float((a - c) @ V @ (a - c)), 0.0)) for s, c in enumerate(theta) if s != j]
        median = float(np.median(others)) if others else 0.0
        if median < best * (1 - 1e-9):  # the first of equals
            best, chosen = median, j
    return np.asarray(phi @ theta[chosen])


def tgp_beta(B: float, cut: float, gain: float, bias: float, lam: float, delta: float) -> float:
    """B + 2 sqrt(2/lambda) b_t sqrt(gamma_t + ln(1/delta)) + sqrt(bias_t/lambda)."""
    return B + 2 * math.sqrt(2 / lam) * cut * math.sqrt(gain - math.log(delta)) + math.sqrt(bias / lam)


def ata_threshold(v: float, m: int, T: int, delta: float) -> float:
    """b_t = sqrt(v/ln(4 m T/delta))."""
    return math.sqrt(v / math.log(4 * m * T / delta))


def ata_beta(B: float, v: float, m: int, T: int, lam: float, delta: float, accuracy: float) -> float:
    """B (1 + 1/sqrt(1 - a)) + 4 sqrt(v m ln(4 m T/delta)/lambda)."""
    return B + B / math.sqrt(1 - accuracy) + 4 * math.sqrt(m * v / lam * math.log(4 * m * T / delta))


def moma_beta(B: float, v: float, m: int, lam: float, accuracy: float) -> float:
    """B (1 + 1/sqrt(1 - a)) + 9 sqrt(v m/lambda)."""
    return B + B / math.sqrt(1 - accuracy) + 9 * math.sqrt(m * v / lam)
