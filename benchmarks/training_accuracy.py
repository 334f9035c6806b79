"""Accuracy of private training at equal total epsilon, with four ways to choose its learning rate and clipping norm.

    python -m benchmarks.training_accuracy --seeds 10

A simulation: DP-SGD of a linear softmax model with NumPy's noise, NOT PRIVATE; the accounting is dptune's. Data ship
with scikit-learn: digits (1797 rows, 10 classes) and breast-cancer (569 rows, 2 classes), halved into training
people and validation people, a quarter of the rows held out for the test. delta = 1e-5.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

from dptune.accounting.gdp import bounded_range_from_mu, mu_from_epsilon
from dptune.accounting.subsampled import least_noise
from dptune.training import Repeats, SelectionPlan, noise_multipliers
from dptune.training.profiles import epsilon_of

DELTA, T, RATE, STEPS = 1e-5, 8, 0.1, 100
LAW = Repeats.geometric(T)
DEFAULT = (0.1, 1.0)  # learning rate and clipping norm of Opacus's MNIST example
_cancer = load_breast_cancer().data  # stands for public reference values: scaling by private rows is not private
PUBLIC_MEAN, PUBLIC_SCALE = _cancer.mean(axis=0), _cancer.std(axis=0)
Rows = tuple[np.ndarray, np.ndarray]
Model = np.ndarray


def load(name: str, rng: np.random.Generator) -> tuple[Rows, Rows, Rows]:
    X, y = (load_digits if name == "digits" else load_breast_cancer)(return_X_y=True)
    X = X / 16 if name == "digits" else np.tanh((X - PUBLIC_MEAN) / PUBLIC_SCALE)
    X = np.hstack([X, np.ones((len(X), 1))])
    order = rng.permutation(len(X))
    test, train, val = np.split(order, [len(X) // 4, len(X) // 4 + 3 * len(X) // 8])
    return (X[train], y[train]), (X[val], y[val]), (X[test], y[test])


def dp_sgd(rows: Rows, point: tuple[float, float], z: float, rng: np.random.Generator) -> Model:
    """The per-row gradient of a softmax model is x (p - e_y)^T, of norm |x| |p - e_y|."""
    (X, y), (rate, clip) = rows, point
    labels = np.eye(int(y.max()) + 1)[y]
    W = np.zeros((X.shape[1], labels.shape[1]))
    for _ in range(STEPS):
        drawn = rng.random(len(X)) < RATE
        x, logits = X[drawn], X[drawn] @ W
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        error = p / p.sum(axis=1, keepdims=True) - labels[drawn]
        norm = np.linalg.norm(x, axis=1) * np.linalg.norm(error, axis=1)
        gradient = x.T @ (error * np.minimum(1, clip / np.maximum(norm, 1e-12))[:, None])
        W -= rate / (RATE * len(X)) * (gradient + rng.normal(0, z * clip, W.shape))
    return W


def error(model: Model, rows: Rows) -> float:
    return float(np.mean((rows[0] @ model).argmax(axis=1) != rows[1]))


def anywhere(rng: np.random.Generator) -> tuple[float, float]:
    return float(10 ** rng.uniform(-2, 1)), float(10 ** rng.uniform(-1, 1))


Way = Callable[[Rows, Rows, dict[str, float], np.random.Generator], Model]


def untuned(train: Rows, val: Rows, noise: dict[str, float], rng: np.random.Generator) -> Model:
    return dp_sgd(train, DEFAULT, noise["one"], rng)


def composed(train: Rows, val: Rows, noise: dict[str, float], rng: np.random.Generator) -> Model:
    """T trainings, of which the exponential mechanism chooses with the validation people's whole epsilon."""
    models = [dp_sgd(train, anywhere(rng), noise["composition"], rng) for _ in range(T)]
    scale = 2 / len(val[0]) / noise["range"]
    return models[int(np.argmin([error(model, val) - scale * rng.gumbel() for model in models]))]


def selected(train: Rows, val: Rows, noise: dict[str, float], rng: np.random.Generator) -> Model:
    """Repeat and select; the validation people pay the same selection over their noisy scores."""
    models = [dp_sgd(train, anywhere(rng), noise["geometric"], rng) for _ in range(LAW.draw())]
    scores = [error(model, val) + rng.normal(0, noise["score"] / len(val[0])) for model in models]
    return models[int(np.argmin(scores))]


def public(train: Rows, val: Rows, noise: dict[str, float], rng: np.random.Generator) -> Model:
    """A fifth of the training rows is public: T trainings on one half of it are compared on the other."""
    k = len(train[0]) // 10
    parts = [tuple(array[a:b] for array in train) for a, b in ((0, k), (k, 2 * k), (2 * k, None))]
    points = [anywhere(rng) for _ in range(T)]
    errors = [error(dp_sgd(parts[0], point, noise["one"], rng), parts[1]) for point in points]  # type: ignore[arg-type]
    return dp_sgd(parts[2], points[int(np.argmin(errors))], noise["one"], rng)  # type: ignore[arg-type]


WAYS: dict[str, Way] = {
    "no tuning": untuned,
    f"composition, {T}": composed,
    f"best of geometric, mean {T}": selected,
    "a fifth is public": public,
}


def planned(epsilon: float) -> dict[str, float]:
    wanted: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "sample_rate": RATE, "steps": STEPS}
    score = least_noise(lambda s: epsilon_of([SelectionPlan(LAW, score_mu=1 / s)], DELTA), epsilon)
    once = noise_multipliers(**wanted, trainings=1)["composition"]
    eta = bounded_range_from_mu(mu_from_epsilon(epsilon, DELTA))
    return {**noise_multipliers(**wanted, trainings=T), "one": once, "score": score, "range": eta}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    print("| data | epsilon | " + " | ".join(WAYS) + " |\n|" + "---|" * (2 + len(WAYS)))
    for epsilon in (1.0, 3.0, 8.0):
        noise = planned(epsilon)
        for name in ("digits", "breast-cancer"):
            cells = []
            for way in WAYS.values():
                found = []
                for seed in range(seeds):
                    rng = np.random.default_rng([seed, int(epsilon)])
                    train, val, test = load(name, rng)
                    found.append(error(way(train, val, noise, rng), test))
                cells.append(f"{np.mean(found):.3f} ± {np.std(found, ddof=1) / seeds**0.5:.3f}")
            print(f"| {name} | {epsilon:g} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
