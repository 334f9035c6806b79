"""What all benchmarks share: jobs in parallel with a progress bar, Markdown tables, JSON of the raw results."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
from tqdm import tqdm

DOCS = Path(__file__).resolve().parents[1] / "docs"

A = TypeVar("A")
R = TypeVar("R")


def in_parallel(work: Callable[[A], R], items: Sequence[A], *, jobs: int, title: str) -> list[R]:
    """The results in the order of the items, one thread and one process a job."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ProcessPoolExecutor(jobs) as pool:
        return list(tqdm(pool.map(work, items), total=len(items), desc=title, smoothing=0.05))


def mean_and_error(samples: Iterable[float], digits: int = 3) -> str:
    """`mean ± standard error of the mean`."""
    x = np.array(list(samples), dtype=np.float64)
    error = x.std(ddof=1) / np.sqrt(len(x)) if len(x) > 1 else float("nan")
    return f"{x.mean():.{digits}f} ± {error:.{digits}f}"


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def machine() -> dict[str, object]:
    """What the figures depend on."""
    import optuna
    import scipy

    return {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "processor": _processor(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "optuna": optuna.__version__,
        "threads": os.environ.get("OMP_NUM_THREADS", "not limited"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def save(name: str, results: object, out: Path) -> Path:
    """Write `out/results/<name>.json`, with the machine."""
    path = out / "results" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine(), "results": results}, indent=1) + "\n")
    return path
