"""DEMONSTRATION OF AN ATTACK, NOT PRIVATE: the transform of Kharkovskii, Dai, Low (ICML 2020) hides nothing."""

import numpy as np
from scipy.special import ndtr

import dptune
from dptune.privacy.noise import OpenDPNoise, noise_scale

EPSILON, DELTA, R = 3.0, 1e-5, 10  # R: the paper's number of columns r


def paper_transform(X, rng, branch):
    """Algorithm 1: Z = X M / sqrt(r); the second branch first adds omega^2 to the squared singular values."""
    U, s, V = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    omega = 16 * np.sqrt(R * np.log(2 / DELTA)) / EPSILON * np.log(16 * R / DELTA)
    s = s if branch == 1 else np.sqrt(s**2 + omega**2)
    return (U * s) @ V @ rng.standard_normal((X.shape[1], R)) / np.sqrt(R)


def our_release(X, mu):
    sigma = noise_scale(sensitivity=1.0, mu=mu, dimension=X.size)  # a row changes by at most 1, as in the paper
    return OpenDPNoise().add_gaussian((X - X.mean(axis=0)).ravel(), sigma).reshape(X.shape)


def looks_like(Z, X, other):
    """Attack 1, is Z of X or of its neighbour: which table's column space is nearer?"""
    bases = [np.linalg.qr(Y - Y.mean(axis=0))[0] for Y in (X, other)]
    return np.argmin([np.linalg.norm(Z - Q @ (Q.T @ Z)) for Q in bases]) == 0


def recovered(Z, X, known):
    """Attack 2, all rows from Z and d + 1 known ones: an affine map fits them."""
    U = np.linalg.svd(Z - Z.mean(axis=0), full_matrices=False)[0][:, : X.shape[1]] * np.sqrt(len(X))
    A = np.column_stack([U, np.ones(len(X))])
    return A @ np.linalg.lstsq(A[known], X[known], rcond=None)[0]


def advantage(release, X, other, pairs):
    """P(says X | X) - P(says X | neighbour)."""
    return np.mean([looks_like(release(X), X, other) * 1.0 - looks_like(release(other), X, other) for _ in range(pairs)])


def main():
    rng, mu = np.random.default_rng(0), dptune.Budget.approximate_dp(EPSILON, DELTA).mu
    X = rng.uniform(-17, 17, (200, 2))  # norms at most 25
    other = X + (np.arange(200) == 7)[:, None] * [0.6, 0.8]  # one row moves by 1
    bound = (np.exp(EPSILON) - 1 + 2 * DELTA) / (np.exp(EPSILON) + 1)
    print(f"epsilon = {EPSILON:g}, delta = {DELTA:g} allow an advantage of {bound:.3f}, mu-GDP {2 * ndtr(mu / 2) - 1:.3f}")
    paper = {f"paper's branch {b}": lambda Y, b=b: paper_transform(Y, rng, b) for b in (1, 2)}
    for name, release in {**paper, "dptune's release": lambda Y: our_release(Y, mu)}.items():
        error = np.sqrt(np.mean((recovered(release(X), X, [0, 1, 2]) - X) ** 2))
        print(f"{name}: advantage {advantage(release, X, other, 50):.2f} in 50 pairs, rows (spread {X.std():.1f}) to {error:.1e}")


if __name__ == "__main__":
    main()
