"""DP-FTS-DE measured: landmine detectors, how many agents it takes, the paper's synthetic figure, time of a round.

Run: python -m benchmarks.federated landmine|agents|synthetic|speed [--seeds 20] [--out docs]
Writes docs/results/fts_*.json and docs/figures/fts_*.png, and prints the tables of docs/federated.md. The landmine
data is read from DPTUNE_DATA (default ../shared/data); its AUCs are computed once and kept in out/.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.federated.moments import epsilon_moments_accountant
from benchmarks.federated.problems import FederatedProblem, landmine, landmine_path, synthetic
from benchmarks.federated.runs import Method, run, timed
from benchmarks.report import DOCS, drawing, in_parallel, machine, markdown, mean_and_error, save
from dptune.federated.settings import FTSSettings
from dptune.ledger.subsampled import (
    SubsampledGaussian,
    epsilon_pld,
    noise_multiplier,
)

CACHE = Path("out")
SHOWN = (0, 1, 2, 5, 10, 20, 40, 60)  # rounds in the tables
ROUNDS, SYNTHETIC_ROUNDS, SYNTHETIC_N = 60, 40, 200
N = 29
DELTA = N**-1.1

# The paper's landmine settings (Dai, Low, Jaillet 2021); its shared length-scale, 0.01, is a method of its own below.
PAPER = FTSSettings(agents=N, d=2, M=100, lengthscale=0.25, noise=0.01, regions=(2, 2), S=22.0, spread=1.0, initial=10)
# One region, posterior means instead of samples, half the features, the clip at the size of such a message.
FOUND = replace(PAPER, M=50, noise=0.1, regions=(), S=3.0, spread=0.0)


def plan(z: float, q: float = 0.35, steps: int = ROUNDS) -> SubsampledGaussian:
    return SubsampledGaussian(q, z, steps)


@functools.cache
def plan_for(epsilon: float, steps: int) -> SubsampledGaussian:
    """Everybody in every round (q = 1) and the least noise for this epsilon at N^-1.1."""
    return plan(noise_multiplier(q=1.0, steps=steps, epsilon=epsilon, delta=DELTA), 1.0, steps)


def landmine_methods() -> list[tuple[str, FTSSettings, Method]]:
    paper = [
        Method("TS", change={"joint": 0.0}),
        Method("FTS-DE, not private"),
        Method("DP-FTS-DE z=1", plan(1.0)),
        Method("DP-FTS-DE z=2", plan(2.0)),
        Method("DP-FTS-DE z=4", plan(4.0)),
        Method("DP-FTS-DE z=1, length-scale 0.01", plan(1.0), change={"lengthscale": 0.01}),
        Method("DP-FTS z=1 (one region)", plan(1.0), change={"regions": ()}),
        Method("control: noise only, z=1", plan(1.0), silent=True),
        Method("control: random query", plan(1.0), random_query=True),
    ]
    found = [
        Method("TS", change={"joint": 0.0}),
        Method("FTS, not private"),
        *(
            Method(f"DP-FTS eps={e:g}, {steps} releases", plan_for(e, steps))
            for steps in (3, 10)
            for e in (9.9, 5.0, 2.0, 1.0)
        ),
        Method("control: noise only, eps=5, 3 releases", plan_for(5.0, 3), silent=True),
        Method("control: random query, 3 rounds", plan_for(5.0, 3), random_query=True),
    ]
    return [("paper", PAPER, m) for m in paper] + [("found", FOUND, m) for m in found]


def _landmine_job(item: tuple[int, int]) -> dict[str, Any]:
    index, seed = item
    group, settings, method = landmine_methods()[index]
    return {"group": group, **_rounded(run(landmine(CACHE), settings, method, seed=seed, rounds=ROUNDS))}


def bench_landmine(seeds: int, out: Path) -> None:
    if not landmine_path().exists() and not list(CACHE.glob("landmine_auc_*.npz")):
        print(f"left out: no {landmine_path()}; set DPTUNE_DATA")
        return
    problem, methods = landmine(CACHE), landmine_methods()
    jobs = [(index, seed) for index in range(len(methods)) for seed in range(seeds)]
    results = _measure(_landmine_job, jobs, "fts_landmine", out)
    mean, best = problem.values.mean(), problem.values.max(axis=1).mean()
    print(f"\n29 fields, AUC: mean of the grid {mean:.4f}, best of each field {best:.4f}, ", end="")
    seeds = len({r["seed"] for r in results})
    print(f"best common point {problem.values.mean(axis=0).max():.4f}; delta = 29^-1.1 = {DELTA:.4f}; {seeds} seeds\n")
    for group in ("paper", "found"):
        table = [_row(results, group, m.name, m.plan) for g, _, m in methods if g == group]
        print(
            markdown(
                ["method", "eps PLD", "eps classic", "eps PLD at 1e-3", *_heads(SHOWN), "broadcast's point"], table
            )
        )
        names = [m.name for g, _, m in methods if g == group]
        for other in ("TS", next(name for name in names if "noise only" in name)):
            print(f"\nDifference to {other}, paired by seed:\n")
            rows = [_difference(results, group, name, other) for name in names if name != other]
            print(markdown(["method", *_heads(SHOWN[1:])], rows), "\n")
    _draw_landmine(results, out)


def _heads(rounds: tuple[int, ...]) -> list[str]:
    return [f"t={t}" for t in rounds]


def _curves(results: list[dict[str, Any]], group: str, name: str, key: str = "curve") -> np.ndarray:
    return np.array([r[key] for r in results if r["group"] == group and r["method"] == name])


def _row(results: list[dict[str, Any]], group: str, name: str, p: SubsampledGaussian | None) -> list[str]:
    curves, informed = _curves(results, group, name), _curves(results, group, name, "informed")
    shown = [mean_and_error(curves[:, t], 4) for t in SHOWN if t < curves.shape[1]]
    at = mean_and_error(informed.mean(axis=1), 4) if informed.size else ""
    return [name, *epsilons(p), *shown, at]


def epsilons(p: SubsampledGaussian | None) -> list[str]:
    if p is None:
        return ["", "", ""]
    exact = [epsilon_pld(p, DELTA), epsilon_moments_accountant(p, DELTA), epsilon_pld(p, 1e-3)]
    return [f"{e:.2f}" for e in exact]


def _difference(results: list[dict[str, Any]], group: str, name: str, other: str) -> list[str]:
    apart = _curves(results, group, name) - _curves(results, group, other)  # (seeds, rounds + 1)
    return [name, *(_signed(apart[:, t]) for t in SHOWN[1:])]


def _signed(x: np.ndarray) -> str:
    error = x.std(ddof=1) / math.sqrt(len(x))
    return f"{x.mean():+.4f} ± {error:.4f}"


def _draw_landmine(results: list[dict[str, Any]], out: Path) -> None:
    shown = {
        "paper": ["TS", "FTS-DE, not private", "DP-FTS-DE z=1", "DP-FTS-DE z=4", "control: noise only, z=1"],
        "found": [
            "TS",
            "FTS, not private",
            "DP-FTS eps=9.9, 3 releases",
            "DP-FTS eps=5, 3 releases",
            "DP-FTS eps=2, 3 releases",
            "control: random query, 3 rounds",
        ],
    }
    titles = {"paper": "the paper's settings, 60 releases", "found": "one region, means, 3 releases"}
    with drawing(out / "figures" / "fts_landmine.png", 11, 4) as figure:
        for axes, (group, names) in zip(figure.subplots(1, 2, sharey=True), shown.items(), strict=True):
            for name in names:
                _band(axes, _curves(results, group, name)[:, :31], name)
            axes.set(xlabel="round", ylabel="best AUC, mean over 29 agents", title=titles[group])
            axes.legend(fontsize="x-small")


def _band(axes: Any, curves: np.ndarray, name: str) -> None:
    mean, error = curves.mean(axis=0), curves.std(axis=0, ddof=1) / math.sqrt(len(curves))
    t = np.arange(len(mean))
    (line,) = axes.plot(t, mean, label=name)
    axes.fill_between(t, mean - error, mean + error, alpha=0.2, color=line.get_color(), lw=0)


def _measure(work: Any, jobs: list[Any], name: str, out: Path) -> list[dict[str, Any]]:
    """One process; the file has a line for every run. Without jobs, what the file has is returned."""
    if not jobs:
        stored: list[dict[str, Any]] = json.loads((out / "results" / f"{name}.json").read_text())["results"]
        return stored
    results: list[dict[str, Any]] = in_parallel(work, jobs, jobs=1, name=name, out=out)
    path = out / "results" / f"{name}.json"
    lines = ",\n".join(json.dumps(result) for result in results)
    path.write_text(f'{{"machine": {json.dumps(machine())},\n"results": [\n{lines}\n]}}\n')
    return results


def _rounded(result: dict[str, Any]) -> dict[str, Any]:
    return {k: [round(x, 4) for x in v] if isinstance(v, list) else v for k, v in result.items()}


# ---- how many agents it takes ----------------------------------------------------------------------------

COPIES, EARLY = (1, 4, 10, 20), 10


def agents_methods() -> list[tuple[str, FTSSettings, Method]]:
    return [
        ("paper", PAPER, Method("the paper's settings, z=1")),
        ("paper", PAPER, Method("control: noise only", silent=True)),
        ("found", FOUND, Method("one region, means, 10 releases, q=1, eps=2 at N^-1.1")),
    ]


def _agents_job(item: tuple[int, int, int]) -> dict[str, Any]:
    index, copies, seed = item
    group, settings, method = agents_methods()[index]
    fields = landmine(CACHE)
    problem = FederatedProblem("landmine", fields.points, np.tile(fields.values, (copies, 1)))
    settings = replace(settings, agents=problem.N)
    delta = problem.N**-1.1
    z = noise_multiplier(q=1.0, steps=EARLY, epsilon=2.0, delta=delta)
    p = plan(1.0) if group == "paper" else plan(z, 1.0, EARLY)
    result = run(problem, settings, replace(method, plan=p), seed=seed, rounds=EARLY)
    return {"N": problem.N, "group": group, "epsilon": epsilon_pld(p, delta), **_rounded(result)}


def bench_agents(seeds: int, out: Path) -> None:
    jobs = [(i, c, s) for i in range(len(agents_methods())) for c in COPIES for s in range(seeds)]
    results = _measure(_agents_job, jobs, "fts_agents", out)
    rows = []
    for _, _, method in agents_methods():
        for copies in COPIES:
            mine = [r for r in results if r["method"] == method.name and r["N"] == N * copies]
            informed = np.array([r["informed"] for r in mine]).mean(axis=1)
            epsilon = np.mean([float(str(r["epsilon"])) for r in mine])
            rows.append([method.name, str(N * copies), f"{epsilon:.2f}", mean_and_error(informed, 4)])
    print(markdown(["broadcast", "N", "eps at N^-1.1", "AUC at its point, rounds 1-10"], rows))


# ---- the paper's synthetic figure ------------------------------------------------------------------------

SYNTHETIC = FTSSettings(agents=SYNTHETIC_N, d=1, M=100, lengthscale=0.03, noise=0.01, S=11.0, spread=1.0, initial=10)


def synthetic_methods() -> dict[str, list[Method]]:
    regions = {P: {"regions": (P,) if P > 1 else ()} for P in (1, 2, 3)}

    def private(z: float, q: float, P: int = 2, S: float = 11.0) -> Method:
        change = {**regions[P], "S": S}
        return Method(f"P={P}, S={S:g}, q={q:g}, z={z:g}", plan(z, q, SYNTHETIC_ROUNDS), change=change)

    alone = Method("TS", change={"joint": 0.0})
    tuned = {"M": 60, "noise": 0.1, "S": 3.0, "spread": 0.0}
    return {
        "not private": [alone, *(Method(f"P={P}, not private", change=regions[P]) for P in (1, 2, 3))],
        "regions": [alone, *(private(1.0, 0.25, P=P) for P in (1, 2, 3))],
        "clipping": [alone, *(private(1.0, 0.25, S=S) for S in (5.0, 11.0, 20.0))],
        "sampling": [alone, *(private(1.0, q) for q in (0.15, 0.25, 0.5))],
        "noise": [alone, *(private(z, 0.25) for z in (1.0, 1.2, 1.5))],
        "means, clipped at 3": [
            alone,
            Method("P=1, means, q=0.25, z=1", plan(1.0, 0.25, SYNTHETIC_ROUNDS), change=tuned),
            Method("P=2, means, q=0.25, z=1", plan(1.0, 0.25, SYNTHETIC_ROUNDS), change={**tuned, "regions": (2,)}),
            Method("control: noise only", plan(1.0, 0.25, SYNTHETIC_ROUNDS), silent=True, change=regions[2]),
        ],
    }


def _distinct() -> dict[str, Method]:
    return {m.name: m for methods in synthetic_methods().values() for m in methods}


def _synthetic_job(item: tuple[str, int]) -> dict[str, Any]:
    name, seed = item
    problem = synthetic(SYNTHETIC_N, seed)
    result = run(problem, SYNTHETIC, _distinct()[name], seed=seed, rounds=SYNTHETIC_ROUNDS)
    return {"group": "synthetic", **_rounded(result)}


def bench_synthetic(seeds: int, out: Path) -> None:
    jobs = [(name, seed) for seed in range(seeds) for name in _distinct()]
    results = _measure(_synthetic_job, jobs, "fts_synthetic", out)
    seeds = len({r["seed"] for r in results})
    rounds = (1, 2, 5, 10, 20, 40)
    rows = []
    for name, method in _distinct().items():
        curves = _curves(results, "synthetic", name)
        apart = curves - _curves(results, "synthetic", "TS")
        delta = SYNTHETIC_N**-1.1
        epsilon = f"{epsilon_pld(method.plan, delta):.2f}" if method.plan else ""
        rows.append([name, epsilon, *(f"{curves[:, t].mean():.3f} ({_signed(apart[:, t])})" for t in rounds)])
    print(f"\nN = {SYNTHETIC_N}, best value, mean over agents (difference to TS, paired), {seeds} seeds\n")
    print(markdown(["method", "eps PLD", *_heads(rounds)], rows))
    _draw_synthetic(results, out)


def _draw_synthetic(results: list[dict[str, Any]], out: Path) -> None:
    with drawing(out / "figures" / "fts_synthetic.png", 13, 7) as figure:
        for axes, (title, methods) in zip(figure.subplots(2, 3).flat, synthetic_methods().items(), strict=True):
            for method in methods:
                _band(axes, _curves(results, "synthetic", method.name), method.name)
            axes.set(xlabel="round", ylabel="best value, mean over agents", title=title)
            axes.legend(fontsize="x-small")


# ---- time of a round -------------------------------------------------------------------------------------


def bench_speed(seeds: int, out: Path) -> None:
    """A round's time has no seeds: it is measured once, or with 0 shown as it was stored."""
    rows = []
    stored = json.loads((out / "results" / "fts_speed.json").read_text())["results"] if seeds == 0 else None
    results = stored or [_timed(agents) for agents in (29, 200, 2000)]
    for result in results:
        parts = [f"{1e3 * result[part]:.1f}" for part in ("fits", "messages", "server", "choices", "tell")]
        rows.append(
            [
                str(result["N"]),
                f"{1e3 * result['total']:.1f}",
                f"{1e3 * result['median']:.1f}",
                f"{1e3 * result['cpu']:.1f}",
                *parts,
            ]
        )
    heads = [
        "N",
        "mean",
        "median",
        "processor time",
        "own fits",
        "messages",
        "server, ledger, noise",
        "choices",
        "observations",
    ]
    print(markdown([f"{h}, ms" if h != "N" else h for h in heads], rows))
    if stored is None:
        save("fts_speed", results, out)


def _timed(agents: int) -> dict[str, Any]:
    settings, rounds = replace(PAPER, agents=agents), 20 if agents < 1000 else 10
    with tempfile.TemporaryDirectory() as folder:
        return timed(agents, observations=60, rounds=rounds, settings=settings, folder=Path(folder))


def main() -> None:
    benches = {"landmine": bench_landmine, "agents": bench_agents, "synthetic": bench_synthetic, "speed": bench_speed}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=benches)
    parser.add_argument("--seeds", type=int, default=20, help="0: no runs, tables and figures of the stored results")
    parser.add_argument("--out", type=Path, default=DOCS)
    arguments = parser.parse_args()
    benches[arguments.what](arguments.seeds, arguments.out)


if __name__ == "__main__":
    main()
