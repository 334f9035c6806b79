"""Private selection among trained models: `python -m benchmarks.centred.selection [--seeds 10] [--tasks ...]`.

Random candidates are trained once for each task and seed. Then one of the first m is chosen by `dptune.select`, as the
smallest of m noisy values at the same budget, and without noise. Test losses are averaged over repeated draws of the
noise.

**A simulation**: the code is the package's, but the ledger is in memory and the noise is seeded. Candidates are kept in
`out/selection` and results in `<out>/results/selection.jsonl`, so a run that was stopped goes on. Prints the table of
docs/centred.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from tqdm import tqdm

from benchmarks.data import Array, Split, load_split
from benchmarks.digits_tasks import elastic_net_task, gradient_boosting_task
from benchmarks.report import DOCS, Stored, machine, markdown, mean_and_error
from benchmarks.small_tasks import breast_cancer_task
from benchmarks.tasks import Task, kernel_ridge_task, svr_task
from dptune import Budget, LossPrivatizer, PrivacyLedger, select
from dptune.ledger.approximate import divided, largest_plan
from dptune.ledger.filter import Allowance
from dptune.ledger.gdp import mu_from_epsilon
from dptune.privacy.noise import SeededNoise

TASKS: dict[str, Callable[[int, int], Task]] = {  # (people, seed) -> task
    "svc-breast-cancer": lambda n, seed: breast_cancer_task(n=n, seed=seed),
    "elastic-digits": lambda n, seed: elastic_net_task(n=n, seed=seed),
    "gbm-digits": lambda n, seed: gradient_boosting_task(n=n, seed=seed),
    "krr-parkinsons": lambda n, seed: kernel_ridge_task(_parkinsons(n, seed)),
    "svr-parkinsons": lambda n, seed: svr_task(_parkinsons(n, seed)),
}
PEOPLE, CANDIDATES, BUDGETS, DRAWS = 300, (100, 400), (0.5, 1.0, 2.0), 5
KEPT = Path(__file__).resolve().parents[2] / "out" / "selection"


def _parkinsons(n: int, seed: int) -> Split:
    return load_split("parkinsons", n=n, seed=seed, n_train=300, n_test=1000)


class MemoryLedger(PrivacyLedger):
    """A ledger without database and budget, for simulations."""

    def __init__(self) -> None:
        self.budget = Budget.gdp(1.0)
        self._paid: dict[tuple[str, str], Any] = {}
        self._facts: dict[str, object] = {}

    def check_people(self, n: int) -> None:
        """Take any number."""

    def check(self, mu: float) -> None:
        """Refuse nothing."""

    def fact(self, scope: str, name: str) -> object:
        """The plan of a scope."""
        return self._facts.get(scope)

    def fix_plan(self, scope: str, make: Callable[[Any], object]) -> object:
        """Keep the first plan of a scope."""
        return self._facts.setdefault(scope, make(self.allowance()))

    def allowance(self) -> Allowance:
        """As much as anybody wants."""
        return Allowance(math.inf, math.inf, ())

    def find(self, scope: str, key: str) -> Any:
        """The charge of a key, or None."""
        return self._paid.get((scope, key))

    def charge(self, scope: str, key: str, event: Any, **about: Any) -> Any:
        """Keep what a release costs."""
        new = SimpleNamespace(value=None, mu=event.mu, seq=len(self._paid), private=about["private"], scope=scope)
        return self._paid.setdefault((scope, key), new)

    def record(self, charge: Any, value: Sequence[float]) -> Any:
        """Keep its value."""
        charge.value = tuple(value)
        return charge

    def charges(self, scope: str | None = None, *, prefix: str = "") -> list[Any]:
        """All charges of a scope."""
        return [charge for charge in self._paid.values() if charge.scope == scope]


@dataclass(frozen=True)
class Cell:
    """One task and split; its result is a dictionary from "method m mu" to the mean test loss over draws."""

    task: str
    people: int
    seed: int


class Candidates:
    """Models of a task at random points of the cube: losses (m, n) of the private people, and test losses on demand."""

    def __init__(self, cell: Cell) -> None:
        self.task = TASKS[cell.task](cell.people, cell.seed)
        self._points = np.random.default_rng([70, cell.seed]).random((max(CANDIDATES), self.task.d))
        path = KEPT / f"{cell.task}-{cell.people}-{cell.seed}.npy"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, np.array([self.task.losses(u) for u in self._points]))
        self.losses: Array = np.load(path)
        self._test: dict[int, float] = {}

    def test_loss(self, index: int) -> float:
        """Of a candidate; trained again."""
        if index not in self._test:
            self._test[index] = self.task.test_loss(self._points[index])
        return self._test[index]


def measure(cell: Cell, draws: int = DRAWS) -> dict[str, float]:
    """Mean test loss of the chosen candidates, by method, m and mu."""
    found = Candidates(cell)
    chosen: dict[str, list[int]] = {}
    for m in CANDIDATES:
        losses = found.losses[:m]
        means = np.clip(losses, *found.task.clip).mean(axis=1)
        chosen[f"exact {m}"] = [int(np.argmin(means))]
        for mu in BUDGETS:
            for draw in range(draws):
                for name, index in _choices(losses, means, found.task.clip, mu, [cell.seed, draw]):
                    chosen.setdefault(f"{name} {m} {mu:g}", []).append(index)
    return {name: float(np.mean([found.test_loss(j) for j in indices])) for name, indices in chosen.items()}


def _choices(
    losses: Array, means: Array, clip: tuple[float, float], mu: float, seed: list[int]
) -> Iterator[tuple[str, int]]:
    m, n = losses.shape
    seeded = int(np.random.default_rng(seed).integers(2**31))
    privatizer = LossPrivatizer(MemoryLedger(), n=n, clip=clip, noise=SeededNoise(seeded))
    yield "exponential", select(losses, privatizer, mu=mu, name="s").index
    noise = np.random.default_rng([*seed, 1]).normal(size=m)
    yield "values", int(np.argmin(means + (clip[1] - clip[0]) * math.sqrt(m) / (n * mu) * noise))


def compare_at_a_pair(seeds: int, draws: int = 4, delta: float = 1e-5) -> str:
    """How much larger the mean loss is than without noise at equal (epsilon, delta): at its mu, and with all."""
    rows = []
    for n, epsilon in ((50, 1.0), (100, 1.0), (300, 0.5), (300, 1.0), (300, 3.0)):
        mu, eta = mu_from_epsilon(epsilon, delta), divided(largest_plan(1.0, epsilon, delta), 1.0)[1]
        for m in (20, 100, 400):
            logs: dict[str, list[float]] = {}
            for cell in (Cell(task, PEOPLE, seed) for task in TASKS for seed in range(seeds)):
                found = Candidates(cell)
                losses = np.clip(found.losses[:m], *found.task.clip)
                everybody, means = losses.mean(axis=1), losses[:, :n].mean(axis=1)
                width = found.task.clip[1] - found.task.clip[0]
                for draw in range(draws):
                    chosen = dict(_choices(losses[:, :n], means, found.task.clip, mu, [cell.seed, draw]))
                    gumbel = np.random.default_rng([cell.seed, draw, 5]).gumbel(size=m)
                    chosen["one choice"] = int(np.argmin(means - 2 * width / (n * eta) * gumbel))
                    for name, index in chosen.items():
                        logs.setdefault(name, []).append(math.log(everybody[index] / everybody[np.argmin(means)]))
            costs = [f"{math.exp(np.mean(logs[name])):.3f}" for name in ("exponential", "one choice")]
            rows.append([str(n), f"{epsilon:g}", str(m), *costs])
    return markdown(["n", "epsilon", "m", "exponential, in GDP", "one choice in (epsilon, delta)"], rows)


SHOWN = ("values", "exponential")


def table(results: list[dict[str, Any]]) -> str:
    """Mean test loss ± standard error over seeds, and the excess over the choice without noise."""
    rows = []
    tasks = sorted({(result["people"], result["task"]) for result in results})
    for people, task in tasks:
        of = [result["test_loss"] for result in results if (result["people"], result["task"]) == (people, task)]
        for m in CANDIDATES:
            exact = [result[f"exact {m}"] for result in of]
            for mu in BUDGETS:
                losses = {name: [result[f"{name} {m} {mu:g}"] for result in of] for name in SHOWN}
                cost = [np.mean(losses[name]) / np.mean(exact) - 1 for name in SHOWN]
                shown = [mean_and_error(values) for values in (*losses.values(), exact)]
                rows.append([task, str(people), str(m), f"{mu:g}", *shown, *(f"{100 * c:+.1f}%" for c in cost)])
    heads = ["task", "n", "m", "mu", *SHOWN, "no noise", *(f"{name} costs" for name in SHOWN)]
    return markdown(heads, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--people", nargs="+", type=int, default=[PEOPLE])
    parser.add_argument("--pair", action="store_true", help="compare them at equal (epsilon, 1e-5)")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    if asked.pair:
        print(compare_at_a_pair(asked.seeds))
        return
    results = Stored("selection", asked.out)
    known = {(result["task"], result["people"], result["seed"]) for result in results}
    cells = [Cell(t, n, seed) for seed in range(asked.seeds) for n in asked.people for t in asked.tasks]
    for cell in tqdm([cell for cell in cells if (cell.task, cell.people, cell.seed) not in known]):
        results.add({**asdict(cell), "test_loss": measure(cell)})
    print(json.dumps(machine()))
    print(table(results))


if __name__ == "__main__":
    main()
