"""The cost of a choice and of a report as people grow: `python -m benchmarks.people_scale [--people 1000 10000 ...]`.

CPU time and peak memory of one process, next to a plain program of NumPy and scikit-learn that does the same sums
without privacy. Finalists are trained on public rows. Each person's log loss is centred on their median over the near
ones and cut, and the sums decide. The losses of the finalists stay in memory in both programs. Each line is a process
of its own, warmed up by a small run; time is the least of three runs.

A line of trials is one run of ``PrivateSearch`` of a fitted search with so many trials. It cross-validates at most 200
of them, and so does the plain program, which has as many finalists.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict

from benchmarks.report import machine, markdown
from dptune.choice.proposals import CANDIDATES

PEOPLE = (1_000, 10_000, 100_000, 1_000_000)
FINALISTS, PUBLIC, COLUMNS, RUNS = 40, 1_000, 10, 3
OF_TRIALS, RUNS_OF_TRIALS = 10_000, 1  # people of the lines of trials, and their runs
CHUNK = 10_000  # people whose losses the plain program centres at a time
EPS = float(np.finfo(float).eps)
Rows = tuple[np.ndarray, np.ndarray]


def rows(n: int, seed: int) -> Rows:
    """Rows (n, COLUMNS) and labels (n,) of one population."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, COLUMNS))
    return X, (X @ np.linspace(-1, 1, COLUMNS) + rng.normal(size=n) > 0).astype(int)


def strengths(m: int) -> np.ndarray:
    """Return m strengths of which public rows exclude none, so that all m models are asked."""
    return np.logspace(-1, 0, m)


def models(m: int) -> Iterator[LogisticRegression]:
    """Models of public rows, one at a time."""
    return (LogisticRegression(C=C).fit(*rows(PUBLIC, 1)) for C in strengths(m))


def log_losses(model: LogisticRegression, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The loss of each row (n,)."""
    chosen = model.predict_proba(X)[np.arange(len(y)), y]
    return -np.log(np.clip(chosen, EPS, 1.0))


def public_losses(m: int) -> np.ndarray:
    """Cross-validated losses (m, PUBLIC), common to both programs and not measured."""
    X, y = rows(PUBLIC, 1)
    proba = [cross_val_predict(LogisticRegression(C=C), X, y, method="predict_proba") for C in strengths(m)]
    return np.stack([-np.log(np.clip(each[np.arange(PUBLIC), y], EPS, 1.0)) for each in proba])


def plain_choice(data: Rows, m: int) -> float:
    """Without privacy: the same sums, and the default's mean improvement."""
    X, y = data
    L = np.empty((m, len(y)))
    for j, model in enumerate(models(m)):
        L[j] = log_losses(model, X, y)
    sums, near = np.zeros(m), max(2, 4 * m // 5)
    for first in range(0, len(y), CHUNK):
        part = L[:, first : first + CHUNK]
        sums += np.clip(part - np.median(part[:near], axis=0), -1.0, 1.0).sum(axis=1)
    return float(np.clip(L[0] - L[int(sums.argmin())], -1.0, 1.0).mean())


def plain_report(data: Rows, m: int) -> np.ndarray:
    """Without privacy: the scores' histogram of each class."""
    X, y = data
    scores = next(models(1)).predict_proba(X)[:, 1]
    return np.stack([np.histogram(scores[y == label], bins=16, range=(0.0, 1.0))[0] for label in (0, 1)])


def private(data: Rows, m: int, *, reports: bool) -> int:
    """The same with dptune, on a ledger of its own; return the number of models that were asked."""
    import dptune

    with tempfile.TemporaryDirectory() as folder:
        ledger = dptune.PrivacyLedger(Path(folder) / "ledger.db", dptune.Budget.gdp(mu=1.0))
        if reports:
            dptune.report(next(models(1)), ledger, data=data, public=rows(PUBLIC, 1))
            return 1
        chosen = dptune.select(
            models(m), ledger, data=data, loss="log_loss", public_losses=_PUBLIC[m], default_place=0, finalists=m,
            even_if_hopeless=True,
        )  # fmt: skip
        return int(chosen.finalists)


def searched(m: int) -> GridSearchCV:
    """Return a search of m trials, fitted with one split; not measured."""
    X, y = rows(PUBLIC, 1)
    split = [(np.arange(PUBLIC // 2), np.arange(PUBLIC // 2, PUBLIC))]
    grid = {"C": np.logspace(-3, 2, m)}
    search = GridSearchCV(LogisticRegression(), grid, cv=split, scoring="neg_log_loss", refit=False).fit(X, y)
    return search.set_params(cv=5)


def trials(data: Rows, m: int) -> int:
    """Return the number of finalists of a choice among the trials of a search."""
    from dptune import Budget
    from dptune_sklearn import PrivateSearch

    with tempfile.TemporaryDirectory() as folder:
        search = PrivateSearch(
            _SEARCHES[m], ledger=Path(folder) / "ledger.db", budget=Budget.gdp(mu=1.0), loss="log_loss",
            even_if_hopeless=True,
        ).fit(*rows(PUBLIC, 1), X_val=data[0], y_val=data[1])  # fmt: skip
        return int(search.selection_.finalists)


def plain_trials(data: Rows, m: int) -> float:
    """Without privacy: as many are cross-validated, and as many decide."""
    public_losses(min(m, CANDIDATES))
    return plain_choice(data, _FINALISTS[m])


_PUBLIC: dict[int, np.ndarray] = {}
_SEARCHES: dict[int, GridSearchCV] = {}
_FINALISTS: dict[int, int] = {}
PROGRAMS: dict[str, Callable[[Rows, int], object]] = {
    "choice": lambda data, m: private(data, m, reports=False),
    "plain choice": plain_choice,
    "report": lambda data, m: private(data, m, reports=True),
    "plain report": plain_report,
    "trials": trials,
    "plain trials": plain_trials,
}


def measure(program: str, n: int, m: int, finalists: int) -> dict[str, Any]:
    """CPU seconds, the peak of this process's memory in MB, and how many models were asked."""
    logging.getLogger("dptune").setLevel(logging.ERROR)
    if program == "choice":
        _PUBLIC[m] = public_losses(m)
    elif program == "trials":
        _SEARCHES[m] = searched(m)
    _FINALISTS[m] = finalists
    run = PROGRAMS[program]
    run(rows(1_000, 2), m)
    data, seconds = rows(n, 3), []
    for _ in range(RUNS_OF_TRIALS if program.endswith("trials") else RUNS):
        begun = time.process_time()
        answer = run(data, m)
        seconds.append(time.process_time() - begun)
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    return {"seconds": min(seconds), "megabytes": peak, "finalists": answer if isinstance(answer, int) else m}


def apart(program: str, n: int, m: int, finalists: int = FINALISTS) -> dict[str, Any]:
    """:func:`measure` in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, program, n, m, finalists).result()


def line(what: str, n: int, m: int) -> list[str]:
    ours = apart(what, n, m)
    plain = apart(f"plain {what}", n, m, ours["finalists"])
    ratio = (ours["megabytes"] - 8 * n * ours["finalists"] / 2**20) / plain["megabytes"]
    times = ours["seconds"] / plain["seconds"]
    cells = [f"{ours['seconds']:.3f}", f"{plain['seconds']:.3f}", f"{times:.2f}"]
    cells += [f"{ours['megabytes']:.0f}", f"{plain['megabytes']:.0f}", f"{ratio:.2f}"]
    shown = [f"{m} trials" if what == "trials" else what, f"{n:,}", str(ours["finalists"]), *cells]
    print(" | ".join(shown), flush=True)
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", nargs="*", type=int, default=PEOPLE)
    parser.add_argument("--finalists", nargs="*", type=int, default=(10, 20, 80), help="at 100,000 people")
    parser.add_argument("--trials", nargs="*", type=int, default=(60, 240, 1_000), help=f"at {OF_TRIALS:,} people")
    asked = parser.parse_args()
    lines = [line("choice", n, FINALISTS) for n in asked.people]
    lines += [line("choice", 100_000, m) for m in asked.finalists]
    lines += [line("trials", OF_TRIALS, m) for m in asked.trials]
    lines += [line("report", n, 1) for n in asked.people]
    print(json.dumps(machine()))
    head = ["", "people", "models", "CPU s", "plain", "ratio", "peak MB", "plain", "ratio, less 8 bytes a loss"]
    print(markdown(head, lines))


if __name__ == "__main__":
    main()
