"""The two regression tables of the benchmark, standardised and split by a public seed.

Both are read from the folder in the environment variable DPTUNE_DATA, or from an argument, or from `../shared/data`
beside the repository. They are never copied into the repository.

Notation: N rows in the table, d features, n validation rows (the private people).
"""

import gzip
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

TABLES = ("parkinsons", "pumadyn32nm")
_BESIDE_REPOSITORY = Path(__file__).resolve().parents[2] / "shared" / "data"


@dataclass(frozen=True)
class Split:
    """Public training rows, private validation rows, test rows that only the benchmark's judge reads.

    Standardised with the mean and deviation of the training rows: the only ones that are public.
    """

    name: str
    X_train: Array  # (m, d)
    y_train: Array  # (m,)
    X_val: Array  # (n, d)
    y_val: Array  # (n,)
    X_test: Array  # (t, d)
    y_test: Array  # (t,)

    def first_features(self, p: int) -> "Split":
        """The same rows with at most the first p features."""
        X_train, X_val, X_test = (np.ascontiguousarray(X[:, :p]) for X in (self.X_train, self.X_val, self.X_test))
        return replace(self, X_train=X_train, X_val=X_val, X_test=X_test)


def data_folder(folder: str | Path | None = None) -> Path:
    """The folder of the tables: the argument, else DPTUNE_DATA, else `../shared/data` beside the repository."""
    return Path(folder or os.environ.get("DPTUNE_DATA") or _BESIDE_REPOSITORY)


def available(name: str, folder: str | Path | None = None) -> bool:
    """Whether the table can be read; for tests that skip and runners that say what they left out."""
    return _path(name, folder).is_file()


def load_table(name: str, folder: str | Path | None = None) -> Array:
    """Read one table, shape (N, d + 1), target last.

    `pumadyn32nm`: simulated robot arm, 32 inputs of which columns 3, 4, 14 and 15 matter.

    `parkinsons`: 5875 voice recordings of 42 patients; column 0 is the patient, and is kept as an input as in the
    uci_datasets preparation. **Rows are treated as people**, as in the GIBO paper and in the issue. The unit of
    privacy is therefore one recording: a patient with k recordings (about 140) is protected at k mu only. Rows are
    split at random, so every patient is in training, validation and test, and small losses are partly recognition of
    the patient. For a real promise to patients average the losses of each (`groups=`) and split by patient.
    """
    path = _path(name, folder)
    if not path.is_file():
        raise FileNotFoundError(
            f"no table {path.name} in {path.parent}: set DPTUNE_DATA, or pass folder=, to the folder that holds it"
        )
    with gzip.open(path, "rt") as file:
        table: Array = np.loadtxt(file, delimiter=",", dtype=np.float64, ndmin=2)
    return table  # (N, d + 1)


def split_table(name: str, table: Array, *, n: int, seed: int, n_train: int = 500, n_test: int = 1300) -> Split:
    """Split the rows; for one seed, training and test rows are the same for every n, and validation sets nest."""
    if n < 1 or n_train < 2 or n_test < 1 or n + n_train + n_test > len(table):
        raise ValueError(
            f"{name} has {len(table)} rows: n + n_train + n_test = {n} + {n_train} + {n_test} must fit, "
            "with n >= 1, n_train >= 2 and n_test >= 1"
        )
    rows = np.random.default_rng(seed).permutation(len(table))
    test, train, val = np.split(rows[: n_test + n_train + n], [n_test, n_test + n_train])
    centre, scale = table[train].mean(axis=0), table[train].std(axis=0)
    Z = (table - centre) / np.where(scale > 0, scale, 1.0)  # (N, d + 1)
    X, y = np.ascontiguousarray(Z[:, :-1]), Z[:, -1].copy()
    return Split(name, X[train], y[train], X[val], y[val], X[test], y[test])


def load_split(
    name: str,
    *,
    n: int,
    seed: int,
    n_train: int = 500,
    n_test: int = 1300,
    folder: str | Path | None = None,
) -> Split:
    """`load_table`, then `split_table`."""
    return split_table(name, load_table(name, folder), n=n, seed=seed, n_train=n_train, n_test=n_test)


def _path(name: str, folder: str | Path | None) -> Path:
    if name not in TABLES:
        raise ValueError(f"unknown table {name!r}: choose one of {', '.join(TABLES)}")
    return data_folder(folder) / f"{name}.csv.gz"
