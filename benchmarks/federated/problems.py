"""What the agents of the federated benchmarks tune: a landmine detector per field, or a synthetic function each.

Landmine (Xue et al. 2007; the experiment of Dai, Low, Jaillet 2021): 29 fields, each an agent with a support vector
machine of its own; C in [1e-4, 10] and gamma in [1e-2, 10], both linear as in the published code; the value is the AUC
of `decision_function` on the half of the field that was not trained on (stratified, split seed 0). `predict_proba`, as
published, refits with a random split and makes the objective itself noisy. The AUCs are computed once, on a grid, and
kept in a file: the objective is deterministic and the agents choose among the grid's points.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.data import data_folder

Array = npt.NDArray[np.float64]

GRID = 33  # points a coordinate
C_RANGE, GAMMA_RANGE = (1e-4, 10.0), (1e-2, 10.0)


@dataclass(frozen=True)
class FederatedProblem:
    """N functions on the same points of the unit cube, to be maximised."""

    name: str
    points: Array  # (m, d)
    values: Array  # (N, m), noiseless
    noise: float = 0.0  # standard deviation of an observation

    @property
    def N(self) -> int:
        return len(self.values)


def landmine(cache: Path, folder: str | Path | None = None, grid: int = GRID) -> FederatedProblem:
    """The 29 fields; `cache` is a folder for the AUCs, some minutes to compute."""
    path = cache / f"landmine_auc_{grid}.npz"
    unit = np.linspace(0, 1, grid)
    points = np.stack(np.meshgrid(unit, unit, indexing="ij"), axis=-1).reshape(-1, 2)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fields = landmine_fields(folder)
        np.savez(path, auc=[[auc(field, x) for x in points] for field in fields])
    return FederatedProblem("landmine", points, np.load(path)["auc"])


def landmine_path(folder: str | Path | None = None) -> Path:
    return data_folder(folder) / "LandmineData.mat"


def landmine_fields(folder: str | Path | None = None) -> list[tuple[Array, Array, Array, Array]]:
    """Training inputs, test inputs, training labels, test labels of each field."""
    from scipy.io import loadmat
    from sklearn.model_selection import train_test_split

    data = loadmat(landmine_path(folder))
    pairs = zip(data["feature"][0], data["label"][0], strict=True)
    return [train_test_split(X, y.ravel(), test_size=0.5, stratify=y.ravel(), random_state=0) for X, y in pairs]


def auc(field: tuple[Array, Array, Array, Array], x: Array) -> float:
    """The AUC of the machine at x in the unit square."""
    from sklearn.metrics import roc_auc_score
    from sklearn.svm import SVC

    X_train, X_test, y_train, y_test = field
    C, gamma = (low + u * (high - low) for u, (low, high) in zip(x, (C_RANGE, GAMMA_RANGE), strict=True))
    return float(roc_auc_score(y_test, SVC(C=C, gamma=gamma).fit(X_train, y_train).decision_function(X_test)))


def synthetic(N: int, seed: int, *, m: int = 1000, lengthscale: float = 0.03, apart: float = 0.1) -> FederatedProblem:
    """One function in [0, 1] drawn from a Gaussian process on a line, and for each agent a perturbation of its own.

    `apart` is the standard deviation of the perturbations, drawn from the same process. Observations have noise 0.1.
    """
    rng = np.random.default_rng([seed, 77])
    x = np.linspace(0, 1, m)
    K = np.exp(-0.5 * ((x[:, None] - x) / lengthscale) ** 2) + 1e-8 * np.eye(m)
    draws = rng.standard_normal((N + 1, m)) @ np.linalg.cholesky(K).T
    shared = (draws[0] - draws[0].min()) / np.ptp(draws[0])
    return FederatedProblem("synthetic", x[:, None], shared + apart * draws[1:], noise=0.1)
