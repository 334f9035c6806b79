"""What `python -m benchmarks.frontier --show` prints: docs/frontier.md's tables and the sentences to quote."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from benchmarks.data import Array
from benchmarks.frontier.design import CLIPPED, TRIALS, Cell, blocks
from benchmarks.frontier.losses import VALUES, Losses, Reading, interval, readings
from benchmarks.frontier.methods import BEST, METHODS, OURS, OWN
from benchmarks.frontier.tasks import TASKS
from benchmarks.report import markdown

SETTINGS = tuple((n, mu) for n in (300, 1000, 4000) for mu in (0.25, 0.5, 1.0, 2.0))
HEADLINES = ((1000, 1.0), (300, 1.0), (300, 0.5))
MINE: Reading = (OURS, OWN)
TPE: Reading = ("values, TPE", BEST)
MANY = ("parkinsons", "pumadyn32nm")  # data sets of the tasks with more than ten parameters
SETTLED = 14  # the first split that was run after the search was what it is


def shown(triple: tuple[float, float, float]) -> str:
    """A ratio with its interval."""
    mean, low, high = triple
    return "" if np.isnan(mean) else f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def progress(results: list[dict[str, object]]) -> str:
    """How many cells of the design have been run, by block."""
    names = Cell.__dataclass_fields__
    done = {Cell(**{name: result[name] for name in names}) for result in results}
    every = {name: set(cells) for name, cells in blocks().items()}
    chosen = set.union(*every.values())
    parts = ", ".join(f"{name}: {len(cells & done)} of {len(cells)}" for name, cells in every.items())
    return f"{len(done & chosen)} of {len(chosen)} cells of the design have been run ({parts})."


def headline(losses: Losses) -> str:
    """The primary outcome and what stands beside it, for each n and mu."""
    rows = []
    for n, mu in SETTINGS:
        over = losses.over_frontier(n, mu, MINE)
        if not over:
            continue
        kept = losses.shares_kept(n, mu)
        alone = losses.over_frontier(n, None, MINE)
        price = losses.logs(n, lambda p, mu=mu: losses.at(p, mu, MINE), lambda p: losses.at(p, None, MINE))
        rival = losses.over_values(n, mu, MINE)
        median = f"{np.median(list(kept.values())):.2f} ({len(kept)} tasks)" if kept else ""
        numbers = [str(len(over)), _splits(over)]
        rows.append([str(n), f"{mu:g}", *numbers, *map(shown, map(interval, (over, rival, price, alone))), median])
    heads = [
        "n",
        "mu",
        "data sets",
        "splits",
        "over the frontier",
        "over the best of values",
        "over itself without noise",
    ]
    return markdown([*heads, "itself without noise over the frontier", "median share kept"], rows)


def methods(losses: Losses, n: int, mu: float) -> str:
    """Every private reading over the frontier, and ours over it."""
    rows = []
    for reading in (*readings(METHODS),):
        over = losses.over_frontier(n, mu, reading)
        if over:
            ours = losses.logs(
                n, lambda p: losses.at(p, mu, MINE), lambda p, reading=reading: losses.at(p, mu, reading)
            )
            rows.append([*reading, str(len(over)), shown(interval(over)), shown(interval(ours))])
    heads = ["method", "recommends", "data sets", "over the frontier", "centred over it"]
    return _titled(n, mu, heads, rows)


def tasks(losses: Losses, n: int, mu: float) -> str:
    """Mean test losses by task: the start, the frontier, ours without and with noise, the best of values.

    Means are over the splits of ours with noise; a best with fewer has their number in brackets.
    """
    rows = []
    for place in losses.places(n):
        best, rival = losses.frontier(place), losses.best(place, mu, VALUES)
        if best is None or rival is None or not losses.at(place, mu, MINE):
            continue
        ours = losses.at(place, mu, MINE)
        readings_of = [(1.0, ("start", OWN)), (None, best), (None, MINE), (mu, MINE), (mu, rival)]
        found = [
            {seed: loss for seed, loss in losses.at(place, price, reading).items() if seed in ours}
            for price, reading in readings_of
        ]
        seen = "seen" if TASKS[place[0]].seen else "new at first"
        kept = losses.shares_kept(n, mu).get(place[0])
        means = [_mean(of) for of in found]
        names = [f"{best[0].removeprefix('values, ')}", ": ".join(rival).removeprefix("values, ")]
        share = "-" if kept is None else f"{kept:.2f}"
        for i, of in enumerate((found[1], found[4])):
            names[i] += f" ({len(of)})" * (len(of) < len(found[3]))
        rows.append([place[0], seen, str(len(found[3])), *means[:2], names[0], *means[2:], names[1], share])
    heads = ["task", "", "splits", "start", "frontier", "which is", "centred, no noise", "centred"]
    return _titled(n, mu, [*heads, "best of values", "which is", "share kept"], rows)


def clips(losses: Losses, n: int = 300, mu: float = 1.0) -> str:
    """A tighter clip over the same method's own full range."""
    rows = []
    for reading in readings(CLIPPED):
        ratios = [
            losses.logs(
                n,
                lambda p, clip=clip, reading=reading: losses.at(p, mu, reading, clip),
                lambda p, reading=reading: losses.at(p, mu, reading),
            )
            for clip in (0.3, 0.1)
        ]
        if all(ratios):
            rows.append([*reading, *(shown(interval(ratio)) for ratio in ratios)])
    return markdown(["method", "recommends", "clip .3 over 1", "clip .1 over 1"], rows) if rows else "(none yet)"


def trials(losses: Losses) -> str:
    """Test loss with 50 and with 400 trials over that with 100, by n, mu and task."""
    rows = []
    for n in (300, 1000):
        for mu in (None, 0.5, 1.0):
            for task, kind in TASKS.items():
                by = {t: losses.at((task, n, t), mu, MINE) for t in (50, TRIALS, 400)}
                if n in kind.people and by[TRIALS].keys() & (by[50].keys() | by[400].keys()):
                    pairs = [_paired(by[t], by[TRIALS]) for t in (50, 400)]
                    rows.append([task, str(n), "none" if mu is None else f"{mu:g}", *pairs])
    return markdown(["task", "n", "mu", "50 over 100", "400 over 100"], rows) if rows else "(none yet)"


def sentences(losses: Losses) -> Iterator[str]:
    """What docs/frontier.md quotes, and the README rounds."""
    for n, mu in HEADLINES:
        over = losses.over_frontier(n, mu, MINE)
        if not over:
            continue
        rival = losses.over_values(n, mu, MINE)
        few = interval(_left(rival, MANY))
        kept = list(losses.shares_kept(n, mu).values())
        share = f", and it keeps {100 * np.median(kept or 0):.0f}% of the achievable improvement (median of tasks)"
        yield (
            f"With {n} private rows, mu = {mu:g} and {TRIALS} trials the centred search's test loss is "
            f"{shown(interval(over))} times that of the best search without privacy, over {len(over)} data sets and "
            f"{_splits(over)} of each{share if kept else ''}. Over the best search on privatised values it is "
            f"{shown(interval(rival))}, with {_splits(rival)}, and {shown(few)} without the two tasks of more than ten "
            "parameters. Both bests were chosen in hindsight, task by task."
        )


def parts(losses: Losses) -> str:
    """What the ratios become without some data sets, and without the splits that the search was chosen in view of."""
    rows = []
    for n, mu in HEADLINES:
        for name, out, of in (
            ("", (), losses),
            ("parkinsons", MANY[:1], losses),
            ("parkinsons, pumadyn32nm", MANY, losses),
            (f"splits 0 to {SETTLED - 1}", (), losses.since(SETTLED)),
        ):
            over = (
                of.over_frontier(n, mu, MINE),
                of.over_values(n, mu, MINE),
                of.logs(n, lambda p, mu=mu: losses.at(p, mu, MINE), lambda p, mu=mu: losses.at(p, mu, TPE)),
            )
            kept = [_left(logs, out) for logs in over]
            if kept[0]:
                rows.append([str(n), f"{mu:g}", name or "nothing", *(f"{shown(interval(k))} ({len(k)})" for k in kept)])
    heads = ["n", "mu", "left out", "over the frontier", "over the best of values", "over TPE on values"]
    return markdown(heads, rows)


def _titled(n: int, mu: float, heads: list[str], rows: list[list[str]]) -> str:
    return f"n = {n}, mu = {mu:g}, {TRIALS} trials\n\n{markdown(heads, rows)}\n" if rows else ""


def _left(logs: dict[str, Array], out: Collection[str]) -> dict[str, Array]:
    return {data: of for data, of in logs.items() if data not in out}


def _splits(logs: dict[str, Array]) -> str:
    few, many = min(map(len, logs.values())), max(map(len, logs.values()))
    return f"{few} split{'s' * (few > 1)}" if few == many else f"{few} to {many} splits"


def _mean(of: dict[int, float]) -> str:
    return f"{np.mean(list(of.values())):.3f}" if of else "-"


def _paired(one: dict[int, float], other: dict[int, float]) -> str:
    logs = np.array([np.log(one[seed] / other[seed]) for seed in sorted(one.keys() & other.keys())])
    error = logs.std(ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else np.nan
    return f"{np.exp(logs.mean()):.2f} ± {error:.2f}" if len(logs) else "-"
