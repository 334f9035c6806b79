"""What all benchmarks share: jobs in parallel with a progress bar, Markdown tables, JSON of the raw results."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from tqdm import tqdm

from dptune._style import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOCS = Path(__file__).resolve().parents[1] / "docs"

A = TypeVar("A")


class Stored(list[dict[str, Any]]):
    """Results in `<out>/results/<name>.jsonl`, one JSON line each. A stopped benchmark continues from them."""

    def __init__(self, name: str, out: Path) -> None:
        self._path = out / "results" / f"{name}.jsonl"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(map(json.loads, self._path.read_text().splitlines()) if self._path.exists() else ())

    def add(self, result: dict[str, Any]) -> None:
        """Keep one more."""
        self.append(result)
        with self._path.open("a") as file:
            file.write(json.dumps(result) + "\n")

    def save(self) -> None:
        """Write all of them anew, after a change."""
        self._path.write_text("".join(json.dumps(result) + "\n" for result in self))


def in_parallel(
    work: Callable[[A], dict[str, object]], items: Sequence[A], *, jobs: int, name: str, out: Path
) -> list[dict[str, object]]:
    """The results in the order of the items, one thread and one process a job.

    Each result is kept in `<out>/results/<name>.partial.jsonl` as it comes, and a run that was stopped goes on from
    there; the file is removed at the end.
    """
    partial = out / "results" / f"{name}.partial.jsonl"
    partial.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in partial.read_text().splitlines()] if partial.exists() else []
    with ProcessPoolExecutor(jobs) as pool, partial.open("a") as file:
        rest = items[len(done) :]
        for result in tqdm(pool.map(work, rest), total=len(rest), desc=name, smoothing=0.02):
            file.write(json.dumps(result) + "\n")
            file.flush()
            done.append(result)
    save(name, done, out)
    partial.unlink()
    return done


def run_missing(
    measure: Callable[[Any], float], runs: Sequence[Any], *, jobs: int, name: str, out: Path
) -> list[dict[str, object]]:
    """The test losses of all runs kept in `<out>/results/<name>.jsonl`, after adding those asked for and not there.

    Args:
        measure: the test loss of a run.
        runs: dataclasses of plain data.
        jobs: processes, one thread each.
        name: of the file, a line for each run, written as it ends: what was stopped goes on from there.
        out: folder.
    """
    kept = Stored(name, out)
    done = [{key: value for key, value in result.items() if key != "test_loss"} for result in kept]
    known = {json.dumps(about, sort_keys=True) for about in done}
    rest = [run for run in runs if json.dumps(asdict(run), sort_keys=True) not in known]
    with ProcessPoolExecutor(jobs) as pool:
        waiting = {pool.submit(measure, run): run for run in rest}
        for future in tqdm(as_completed(waiting), total=len(rest), desc=name, smoothing=0.02):
            kept.add({**asdict(waiting[future]), "test_loss": future.result()})
    return kept


def mean_and_error(samples: Iterable[float], digits: int = 3) -> str:
    """`mean ± standard error of the mean`; the sample alone if there is one."""
    x = np.array(list(samples), dtype=np.float64)
    error = f" ± {x.std(ddof=1) / np.sqrt(len(x)):.{digits}f}" if len(x) > 1 else ""
    return f"{x.mean():.{digits}f}{error}"


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


@contextmanager
def drawing(path: Path, *size: float) -> Iterator[Figure]:
    """Give a figure of this size in inches, in dptune's style, and save it at the end."""
    from matplotlib.figure import Figure
    from matplotlib.style import context

    path.parent.mkdir(parents=True, exist_ok=True)
    with context(style()):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        figure.savefig(path, dpi=120)
    print(f"wrote {path}")
