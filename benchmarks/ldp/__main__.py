"""The LDP paper's experiments, the speed of a round, and the search for the default exploration.

Run: OMP_NUM_THREADS=1 python -m benchmarks.ldp speed | overhead | multiplier | plays | regret | real | tables
     also: parallel | mechanisms; options: --rounds 100000 --seeds 10 --variants theorem order-wise default
     --replies hybrid; see --help

Each prints Markdown and writes docs/results/ldp_*.json; `regret`, `real` and `tables` also draw docs/figures/ldp_*.png.
Runs already in a JSON file are not repeated, so a longer run may be stopped and continued, and all that is stored is
printed. `tables` prints the tables of docs/ldp.md that come from stored runs, and runs nothing. Replies are simulated
with numpy's noise and a public seed: the figures are about regret, not about privacy.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.ldp import samplers as ldp_samplers
from benchmarks.ldp import speed as ldp_speed
from benchmarks.ldp.problems import (
    KERNELS,
    MECHANISMS,
    Problem,
    heavy_replies,
    ldp_replies,
    light_sensors,
    rkhs,
    stocks,
)
from benchmarks.ldp.runs import (
    ALGORITHMS,
    DEFAULT,
    FIGURES,
    ORDER_WISE,
    RESULTS,
    THEOREM,
    Variant,
    checkpoints,
    load,
    mean_error,
    multiplied,
    play,
    save,
    table,
)
from benchmarks.ldp.search import RUNS_PER_SEED, multiplier_tables, paired_table, plays_table
from benchmarks.report import drawing
from dptune.local.bandits.replies import Replies

EPSILONS = (0.5, 1.0, 2.0)
GRID = [0.002, 0.004, 0.008, 0.015, 0.03, 0.06, 0.12]
SEARCH_SEED = 1000  # the search has problems of its own


# ---- regret --------------------------------------------------------------------------------------------


def synthetic(kernel: str, epsilon: float | None, seed: int, mechanism: str = "CTL") -> tuple[Problem, Replies]:
    problem = rkhs(kernel, seed, student=epsilon is None)
    return problem, heavy_replies(problem) if epsilon is None else ldp_replies(problem, epsilon, mechanism)


def real(name: str, epsilon: float, seed: int, mechanism: str = "CTL") -> tuple[Problem, Replies]:
    problem = light_sensors(seed) if name == "light sensors" else stocks(seed)
    return problem, ldp_replies(problem, epsilon, mechanism)


def case_name(name: str, epsilon: float | None) -> str:
    return f"{name}, " + ("Student-t(3), not private" if epsilon is None else f"epsilon={epsilon:g}")


def regret(
    name: str, T: int, seeds: int, variant: Variant, cases: list[tuple[str, float | None]], mechanism: str
) -> None:
    """Run what is missing of docs/results/<name>.json, seed by seed."""
    data = load(name)
    for seed in range(seeds):
        for case, epsilon in cases:
            for algorithm in ALGORITHMS:
                key = f"{algorithm} | {variant.name} | {case_name(case, epsilon)} | T={T}"
                runs = data.setdefault(key, {})
                if str(seed) not in runs:
                    runs[str(seed)] = _one_run(algorithm, variant, case, epsilon, T, seed, mechanism)
        save(name, data)
    tables(name)


def _one_run(
    algorithm: str, variant: Variant, name: str, epsilon: float | None, T: int, seed: int, mechanism: str
) -> dict[str, Any]:
    made = synthetic(name, epsilon, seed, mechanism) if name in KERNELS else real(name, epsilon or 1, seed, mechanism)
    curve, last = play(algorithm, *made, T, seed, variant)
    uniform = made[0].uniform
    return {
        "relative": round(curve[-1] / (uniform * T), 6),
        "curve": (curve / uniform).round(1).tolist(),
        "last": round(last / uniform, 5),
    }


def tables(name: str) -> None:
    """Print the tables of all runs in docs/results/<name>.json and draw the figures."""
    data = load(name)
    groups: dict[tuple[str, str], dict[str, dict[str, list[float]]]] = {}
    for key, runs in data.items():
        algorithm, variant, case, T = key.split(" | ")
        rows = groups.setdefault((T, variant), {}).setdefault(case, {})
        rows[algorithm] = [run["relative"] for run in runs.values()]
    for (T, variant), cases in groups.items():
        print(f"\n**{variant}, {T}**: cumulative regret over that of uniform play, mean ± standard error\n")
        lines = [
            [case, *(mean_error(by[a]) for a in ALGORITHMS), str(min(len(v) for v in by.values()))]
            for case, by in cases.items()
            if len(by) == len(ALGORITHMS)
        ]
        print(table(["problem", *ALGORITHMS, "seeds"], lines))
    for T, variant in groups:
        draw(name, data, T, variant)


def draw(name: str, data: dict[str, Any], T: str, variant: str) -> None:
    """One panel per problem: mean cumulative regret of the three against t, with standard errors."""
    cases = sorted({key.split(" | ")[2] for key in data if key.split(" | ")[1::2] == [variant, T]})
    columns = min(3, len(cases))
    rows = -(-len(cases) // columns)
    t = checkpoints(int(T[2:]))
    with drawing(FIGURES / f"{name}.png", 4 * columns, 3 * rows) as figure:
        axes = figure.subplots(rows, columns, squeeze=False)
        for axis in axes.flat[len(cases) :]:
            axis.axis("off")
        for axis, case in zip(axes.flat, cases, strict=False):
            for algorithm in ALGORITHMS:
                runs = data.get(f"{algorithm} | {variant} | {case} | {T}", {})
                if runs:
                    curves = np.array([run["curve"] for run in runs.values()])
                    mean, error = curves.mean(axis=0), curves.std(axis=0) / max(len(curves) - 1, 1) ** 0.5
                    axis.plot(t, mean, label=f"{algorithm} ({len(curves)} seeds)")
                    axis.fill_between(t, mean - error, mean + error, alpha=0.2, lw=0)
            axis.set_title(case, fontsize=9)
            axis.set_xlabel("replies")
            axis.legend(fontsize=7)
        axes[0, 0].set_ylabel("regret / uniform play's per round")
        figure.suptitle(f"{variant}, {T}")


# ---- the search for the multiplier ---------------------------------------------------------------------


def multiplier(
    T: int, seeds: int, algorithms: list[str], grid: list[float], lams: tuple[float | None, ...], mechanism: str
) -> None:
    """Mean relative regret over both kernels and the three epsilons for each multiplier, on seeds of its own."""
    name = _stored("ldp_multiplier", mechanism)
    data = load(name)
    for lam in lams:
        for algorithm in algorithms:
            for c in grid:
                by = data.setdefault(f"T={T} | lambda={lam or 'matched'}", {})
                runs = by.setdefault(algorithm, {}).setdefault(f"{c:g}", [])
                for seed in range(SEARCH_SEED + len(runs) // RUNS_PER_SEED, SEARCH_SEED + seeds):
                    runs += _cases(algorithm, T, seed, multiplied(c, lam), mechanism)
                save(name, data)
    print(multiplier_tables(data), *([paired_table(data)] if mechanism == "CTL" else []), sep="\n\n")


def _stored(name: str, mechanism: str) -> str:
    """The name of the stored runs: CTL's have none of their own."""
    return name if mechanism == "CTL" else f"{name}_{mechanism}"


def _cases(algorithm: str, T: int, seed: int, variant: Variant, mechanism: str = "CTL", **more: Any) -> list[float]:
    about = T, seed, variant, mechanism
    return [_relative(algorithm, k, epsilon, *about, **more) for k in KERNELS for epsilon in EPSILONS]


def plays(T: int, seeds: int) -> None:
    """MoMA's k at the default multiplier."""
    data = load("ldp_multiplier")
    for k in (1, 3, 5, 11, 21, 41):
        runs = data.setdefault(f"T={T} | plays", {}).setdefault(f"{k}", [])
        for seed in range(SEARCH_SEED + len(runs) // RUNS_PER_SEED, SEARCH_SEED + seeds):
            runs += _cases("MoMA", T, seed, DEFAULT, plays=k)
        save("ldp_multiplier", data)
    print(plays_table(data))


def _relative(
    algorithm: str, kernel: str, epsilon: float, T: int, seed: int, variant: Variant, mechanism: str, **more: Any
) -> float:
    problem, replies = synthetic(kernel, epsilon, seed, mechanism)
    curve, _ = play(algorithm, problem, replies, T, seed, variant, **more)
    return round(float(curve[-1] / (problem.uniform * T)), 5)


# ---- Laplace and hybrid replies ------------------------------------------------------------------------

HYBRID_EXPLORATION = (0.03, 0.1)  # multipliers of the bonus under hybrid replies, beside the algorithm's own


def mechanisms(T: int, seeds: int, algorithms: list[str]) -> None:
    """Regret under both mechanisms, over both kernels and epsilons 1 and 2, by problems that both have."""
    data = load("ldp_mechanisms")
    for seed in range(seeds):
        for algorithm in algorithms:
            for name in MECHANISMS:
                for c in _explorations(algorithm, name):
                    runs = data.setdefault(f"{algorithm} | {name} | {c or 'own'} | T={T}", {})
                    if str(seed) not in runs:
                        runs[str(seed)] = [
                            _relative(algorithm, kernel, epsilon, T, seed, _exploring(c), name)
                            for kernel in KERNELS
                            for epsilon in EPSILONS[1:]
                        ]
            save("ldp_mechanisms", data)
    print(mechanisms_table(data))


def _explorations(algorithm: str, mechanism: str) -> list[float | None]:
    return [None, *HYBRID_EXPLORATION] if mechanism == "hybrid" else [None]


def _exploring(c: float | None) -> Variant:
    return Variant("", lambda _, settings: settings if c is None else replace(settings, exploration=c))


def mechanisms_table(data: dict[str, Any]) -> str:
    """A row for each algorithm and number of replies: relative regret, and the difference to that under CTL."""
    rows = []
    for key, runs in data.items():
        algorithm, name, c, T = key.split(" | ")
        usual = data[f"{algorithm} | CTL | own | {T}"]
        seeds = [seed for seed in runs if seed in usual]
        means = [float(np.mean(runs[seed])) for seed in seeds]
        less = [float(np.mean(runs[seed]) - np.mean(usual[seed])) for seed in seeds]
        difference = "" if name == "CTL" else mean_error(less)
        rows.append([algorithm, name, c, T[2:], mean_error(means), difference, str(len(seeds))])
    return table(
        ["algorithm", "replies", "exploration", "rounds", "regret / uniform play", "less CTL's", "seeds"], rows
    )


SYNTHETIC: list[tuple[str, float | None]] = [(kernel, epsilon) for kernel in KERNELS for epsilon in (*EPSILONS, None)]
REAL: list[tuple[str, float | None]] = [(name, e) for name in ("light sensors", "stocks") for e in (0.5, 1.0, 2.0)]
PROBLEMS = {"regret": SYNTHETIC, "real": REAL}
VARIANTS = {"theorem": THEOREM, "order-wise": ORDER_WISE, "default": DEFAULT}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what",
        choices=["regret", "real", "speed", "multiplier", "plays", "overhead", "parallel", "mechanisms", "tables"],
    )
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=["order-wise", "default"])
    parser.add_argument("--algorithms", nargs="+", choices=list(ALGORITHMS), default=list(ALGORITHMS))
    parser.add_argument("--grid", nargs="+", type=float, default=GRID)
    parser.add_argument("--replies", choices=list(MECHANISMS), default="CTL", help="of regret, real and multiplier")
    parser.add_argument("--paper", action="store_true", help="also with the papers' lambda = 1")
    given = parser.parse_args()
    if given.what in PROBLEMS:
        for name in given.variants:
            stem = f"{_stored(f'ldp_{given.what}', given.replies)}_{given.rounds}_{name}"
            cases = [
                case for case in PROBLEMS[given.what] if case[1] or given.replies == "CTL"
            ]  # Student-t: not private
            regret(stem, given.rounds, given.seeds, VARIANTS[name], cases, given.replies)
    elif given.what == "multiplier":
        lams = (None, 1.0) if given.paper else (None,)
        multiplier(given.rounds, given.seeds, given.algorithms, given.grid, lams, given.replies)
    elif given.what == "plays":
        plays(given.rounds, given.seeds)
    elif given.what == "speed":
        ldp_speed.main()
    elif given.what == "overhead":
        ldp_samplers.overhead()
    elif given.what == "mechanisms":
        mechanisms(given.rounds, given.seeds, given.algorithms)
    elif given.what == "parallel":
        ldp_samplers.parallel(given.rounds, given.seeds, given.algorithms)
    else:
        print_stored()


def print_stored() -> None:
    """Print what is stored, without running anything, and draw the figures."""
    for path in sorted(RESULTS.glob("ldp_re*.json")):
        tables(path.stem)
    for stem in sorted({path.stem.rpartition("_")[0] for path in RESULTS.glob("ldp_re*.json")}):
        print(f"\n*{stem}*\n\n{side_by_side(stem)}")
    data = load("ldp_multiplier")
    for part in (
        multiplier_tables(data),
        multiplier_tables(load("ldp_multiplier_hybrid")),
        plays_table(data),
        paired_table(data),
        mechanisms_table(load("ldp_mechanisms")),
    ):
        print(f"\n{part}")


def side_by_side(stem: str) -> str:
    """The table of all stored variants of docs/results/<stem>_<variant>.json."""
    head, rows = ["problem"], {}  # type: list[str], dict[str, list[str]]
    for variant in VARIANTS:
        for key, runs in load(f"{stem}_{variant}").items():
            algorithm, _, case, _ = key.split(" | ")
            if f"{algorithm}, {variant}" not in head:
                head.append(f"{algorithm}, {variant}")
            rows.setdefault(case, [case]).append(mean_error([run["relative"] for run in runs.values()], digits=2))
    return table(head, list(rows.values()))


if __name__ == "__main__":
    main()
