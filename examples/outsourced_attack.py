"""DEMONSTRATION OF AN ATTACK, NOT PRIVATE: the transform of Kharkovskii, Dai, Low (ICML 2020) hides nothing."""

import numpy as np

from dptune.accounting.gdp import mu_from_epsilon
from dptune.privacy.noise import OpenDPNoise, noise_scale

EPSILON, DELTA, R, PAIRS = 3.0, 1e-5, 10, 50  # R: the paper's number of columns r


def paper_transform(X, rng, branch):
    """Algorithm 1: Z = X M / sqrt(r); the second branch first adds omega^2 to the squared singular values."""
    U, s, V = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    omega = 16 * np.sqrt(R * np.log(2 / DELTA)) / EPSILON * np.log(16 * R / DELTA)
    return (U * np.hypot(s, omega * (branch == 2))) @ V @ rng.standard_normal((X.shape[1], R)) / np.sqrt(R)


def our_release(X):
    sigma = noise_scale(sensitivity=1.0, mu=mu_from_epsilon(EPSILON, DELTA), dimension=X.size)  # a row moves by 1
    return OpenDPNoise().add_gaussian((X - X.mean(axis=0)).ravel(), sigma).reshape(X.shape)


def advantage(release, X, other, pairs):
    """P(says X | X) - P(says X | its neighbour): which table's column space is nearer to Z?"""
    P, Q = (B @ np.linalg.pinv(B) for B in (X - X.mean(axis=0), other - other.mean(axis=0)))  # on the column spaces
    Z = [[release(X), release(other)] for _ in range(pairs)]  # (pairs, 2, n, r)
    return np.mean([[np.linalg.norm(z - P @ z) < np.linalg.norm(z - Q @ z) for z in two] for two in Z], axis=0) @ [1, -1]


def recovered(Z, X, known):
    """All rows from Z and d + 1 known ones: an affine map fits them."""
    A = np.column_stack([np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)[0][:, : X.shape[1]], np.ones(len(X))])
    return A @ np.linalg.lstsq(A[known], X[known], rcond=None)[0]


if __name__ == "__main__":
    rng, bound = np.random.default_rng(0), (np.exp(EPSILON) - 1 + 2 * DELTA) / (np.exp(EPSILON) + 1)
    X = rng.uniform(-17, 17, (200, 2))  # norms at most 25
    other = X + (np.arange(200) == 7)[:, None] * [0.6, 0.8]  # one row moves by 1
    print(f"epsilon = {EPSILON:g}, delta = {DELTA:g} allow an advantage of {bound:.3f}; rows spread by {X.std():.0f}")
    paper = {f"paper's branch {b}": lambda Y, b=b: paper_transform(Y, rng, b) for b in (1, 2)}
    for name, release in {**paper, "dptune's release": our_release}.items():
        error = np.sqrt(np.mean((recovered(release(X), X, [0, 1, 2]) - X) ** 2))
        print(f"{name}: advantage {advantage(release, X, other, PAIRS):.2f} in {PAIRS} pairs, rows found to {error:.0e}")
