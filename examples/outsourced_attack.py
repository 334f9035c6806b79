"""DEMONSTRATION OF AN ATTACK, NOT PRIVATE: the transform of Kharkovskii, Dai, Low (ICML 2020) hides nothing."""

import numpy as np
from scipy.stats import binom, norm

from dptune.ledger.gdp import mu_from_epsilon
from dptune.privacy.noise import OpenDPNoise, noise_scale

EPSILON, DELTA, R, PAIRS = 3.0, 1e-5, 10, 50  # R: the paper's number of columns r


def paper_transform(X, rng, branch):
    """Algorithm 1: Z = X M / sqrt(r); the second branch first adds omega^2 to the squared singular values."""
    U, s, V = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    omega = 16 * np.sqrt(R * np.log(2 / DELTA)) / EPSILON * np.log(16 * R / DELTA)
    return (U * np.hypot(s, omega * (branch == 2))) @ V @ rng.standard_normal((X.shape[1], R)) / np.sqrt(R)


def says_first(Z, X, other):
    """Attack 1, is Z of X or of its neighbour: of whose column space does less of Z lie outside?"""
    spaces = [np.linalg.qr(Y - Y.mean(axis=0))[0] for Y in (X, other)]
    return np.linalg.norm(Z - spaces[0] @ (spaces[0].T @ Z)) < np.linalg.norm(Z - spaces[1] @ (spaces[1].T @ Z))


def recovered(Z, X, known):
    """Attack 2, all rows from Z and d + 1 known ones: an affine map fits them."""
    A = np.column_stack([np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)[0][:, : X.shape[1]], np.ones(len(X))])
    return A @ np.linalg.lstsq(A[known], X[known], rcond=None)[0]


if __name__ == "__main__":
    rng, mu = np.random.default_rng(0), mu_from_epsilon(EPSILON, DELTA)
    sigma = noise_scale(sensitivity=1, mu=mu, dimension=400)
    X = rng.uniform(-17, 17, (200, 2))  # norms at most 25
    other = X + (np.arange(200) == 7)[:, None] * [0.6, 0.8]  # one row moves by 1
    releases = {f"paper's branch {b}": lambda Y, b=b: paper_transform(Y, rng, b) for b in (1, 2)}
    releases["dptune"] = lambda Y: OpenDPNoise().add_gaussian((Y - Y.mean(axis=0)).ravel(), sigma).reshape(200, 2)
    for name, release in releases.items():
        told = np.mean([[says_first(release(Y), X, other) for Y in (X, other)] for _ in range(PAIRS)], axis=0)
        error = np.sqrt(np.mean((recovered(release(X), X, [0, 1, 2]) - X) ** 2))
        print(f"{name}: advantage {told[0] - told[1]:.2f} in {PAIRS} pairs, rows (spread 10) found to {error:.0e}")
    fair, half, n = norm.cdf(mu / 2), norm.cdf(mu), 2 * PAIRS  # the best attack is right: our noise, half of it
    most = binom.isf(0.05, n, fair)  # of n guesses, in 95% of cases
    seen, power = 2 * most / n - 1, binom.sf(most, n, half)
    print(f"mu = {mu:.3f}, of ({EPSILON:g}, {DELTA:g})-DP, allows {2 * fair - 1:.3f}. The power of {PAIRS} pairs:")
    print(f"above {seen:.2f} they tell it from that; half of the noise in {power:.0%} of cases")
