"""What a trial costs as a run grows: `python -m benchmarks.measurements.scale [--marks 100 400 ...] [--subjects ...]`.

CPU time of this process in milliseconds a trial, over the last 50 trials before each mark; training is a quadratic and
costs next to nothing, so what is shown is the overhead. Beside it the transactions a trial and the connections of the
run, counted on SQLAlchemy's engines, from the opening of the ledger on.

    optuna           plain Optuna: RandomSampler, in-memory storage
    optuna centred   the front end: CentredSampler with its objective, in-memory storage, ledger in a file
    optuna gibo      the same with DPGIBOSampler
    run centred      `SearchRun` alone, driven as the vault of a Ray experiment drives it, ledger in a file
    run gibo         the same with DP-GIBO

The ledger lies in TMPDIR: /dev/shm shows the package's own cost, a disk adds its syncs. Each subject is a process
of its own, with one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import sqlalchemy as sa

from benchmarks.report import machine, markdown

MARKS = (100, 400, 1600, 6400)
WINDOW = 50  # trials before each mark
ROUNDING = 10  # a plan has up to a round of trials less than it was asked for
PEOPLE, MU, SEED = 200, 4.0, 0
BOX = {"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (0.0, 1.0), "d": (0.0, 1.0)}

Trial = Callable[[int], object]  # makes trial number 0, 1, ...


def losses(parameters: dict[str, float]) -> np.ndarray:
    """A quadratic with a minimum of each person's own, (PEOPLE,)."""
    people = np.random.default_rng(1).normal(0.3, 0.2, (PEOPLE, len(BOX)))
    return ((np.array([parameters[name] for name in BOX]) - people) ** 2).sum(axis=1)


def plain_optuna(trials: int, folder: Path) -> Trial:
    """Random search on exact means."""
    import optuna

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=SEED))
    return lambda number: study.optimize(lambda trial: float(losses(_suggested(trial)).mean()), n_trials=1)


def optuna_front(sampler: str) -> Callable[[int, Path], Trial]:
    """A private sampler of `dptune_optuna`."""

    def start(trials: int, folder: Path) -> Trial:
        import optuna
        from optuna.distributions import FloatDistribution

        import dptune_optuna

        space = {name: FloatDistribution(*ends) for name, ends in BOX.items()}
        private = getattr(dptune_optuna, sampler)(_privatizer(folder), space, n_trials=trials, seed=SEED)
        study, objective = optuna.create_study(sampler=private), private.objective(lambda t: losses(_suggested(t)))
        return lambda number: study.optimize(objective, n_trials=1)

    return start


def run_alone(method: str) -> Callable[[int, Path], Trial]:
    """A `SearchRun` under check, ask and finish."""

    def start(trials: int, folder: Path) -> Trial:
        import dptune
        from dptune.search.run import SearchRun

        space = dptune.Space({name: dptune.Float(*ends) for name, ends in BOX.items()})
        run = SearchRun(_method(method), _privatizer(folder), scope="s", space=space, seed=SEED, trials=trials)

        def trial(number: int) -> None:
            run.check(str(number))
            parameters = run.ask(number)
            run.finish(str(number), parameters, losses(parameters))

        return trial

    return start


def _method(name: str):
    from dptune.search.algorithms.centred_plan import CENTRED
    from dptune.search.algorithms.gibo_plan import GIBO

    return {"centred": CENTRED, "gibo": GIBO}[name]


def _suggested(trial) -> dict[str, float]:
    return {name: trial.suggest_float(name, *ends) for name, ends in BOX.items()}


def _privatizer(folder: Path):
    import dptune

    ledger = dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(mu=MU))
    return dptune.LossPrivatizer(ledger, n=PEOPLE, clip=(0.0, 2.0))


SUBJECTS: dict[str, Callable[[int, Path], Trial]] = {
    "optuna": plain_optuna,
    "optuna centred": optuna_front("CentredSampler"),
    "optuna gibo": optuna_front("DPGIBOSampler"),
    "run centred": run_alone("centred"),
    "run gibo": run_alone("gibo"),
}


@dataclass
class Count:
    """What was opened on all engines."""

    connections: int = 0
    transactions: int = 0

    def connect(self, *_: object) -> None:
        """A connection."""
        self.connections += 1

    def begin(self, *_: object) -> None:
        """A transaction."""
        self.transactions += 1


@contextmanager
def counted() -> Iterator[Count]:
    """Count connections and transactions of all engines of this process that are made inside."""
    count = Count()
    listeners = (sa.pool.Pool, "connect", count.connect), (sa.Engine, "begin", count.begin)
    for listener in listeners:
        sa.event.listen(*listener)
    try:
        yield count
    finally:
        for listener in listeners:
            sa.event.remove(*listener)


@dataclass(frozen=True)
class Cost:
    """Of one run.

    Attributes:
        subject: what ran.
        milliseconds: of CPU a trial, before each mark.
        transactions: a trial before each mark.
        connections: of the whole run.
    """

    subject: str
    milliseconds: dict[int, float]
    transactions: dict[int, float]
    connections: int


def measure(subject: str, marks: tuple[int, ...]) -> Cost:
    """Run a subject to the last mark, with a line for each."""
    milliseconds, transactions, done = {}, {}, 0
    with tempfile.TemporaryDirectory() as folder, counted() as count:
        _silence_optuna()
        trial = SUBJECTS[subject](max(marks) + ROUNDING, Path(folder))
        for mark in marks:
            window = min(WINDOW, mark - done)
            for number in range(done, mark - window):
                trial(number)
            begun, before = time.process_time(), count.transactions
            for number in range(mark - window, mark):
                trial(number)
            milliseconds[mark] = 1e3 * (time.process_time() - begun) / window
            transactions[mark] = (count.transactions - before) / window
            done = mark
            shown = f"{milliseconds[mark]:.2f} ms, {transactions[mark]:.1f} transactions a trial"
            print(f"{subject}: {mark} trials, {shown}, {count.connections} connections", flush=True)
    return Cost(subject, milliseconds, transactions, count.connections)


def _silence_optuna() -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)


def table(costs: list[Cost]) -> str:
    """Milliseconds at each mark, the last over the first, the most transactions a trial, connections."""
    marks = list(costs[0].milliseconds)
    rows = [
        [
            cost.subject,
            *(f"{cost.milliseconds[mark]:.2f}" for mark in marks),
            f"{cost.milliseconds[marks[-1]] / cost.milliseconds[marks[0]]:.2f}",
            f"{max(cost.transactions.values()):.1f}",
            str(cost.connections),
        ]
        for cost in costs
    ]
    return markdown(["CPU ms a trial", *map(str, marks), "last / first", "transactions a trial", "connections"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--marks", nargs="+", type=int, default=MARKS)
    parser.add_argument("--subjects", nargs="+", choices=list(SUBJECTS), default=list(SUBJECTS))
    asked = parser.parse_args()
    marks = tuple(sorted(asked.marks))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        costs = [pool.submit(measure, subject, marks).result() for subject in asked.subjects]
    print(json.dumps({**machine(), "folder": tempfile.gettempdir()}))
    print(table(costs))


if __name__ == "__main__":
    main()
