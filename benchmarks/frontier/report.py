"""What `python -m benchmarks.frontier --show` prints; docs/frontier.md has its first tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from benchmarks.frontier.design import CONSTANT, EXTERNAL, VALUES, Cell, in_order
from benchmarks.frontier.losses import BySplit, Losses, Place, interval, mean
from benchmarks.frontier.methods import CMA, GP, KEEPING, OURS, OWN, RANDOM, SELECTION, START, TPE
from benchmarks.frontier.tasks import TASKS
from benchmarks.report import markdown
from dptune.ledger.gdp import epsilon_from_mu

SETTINGS = tuple((n, mu) for n in (1000, 300) for mu in (2.0, 1.0, 0.5, 0.25))
DELTA = 1e-5
FEW = 10  # numbers of a space


def whole(results: list[dict[str, Any]]) -> str:
    """Everything."""
    losses = Losses(results)
    parts = [progress(results)]
    parts += [headline(losses, new=True), headline(losses, new=False), rivals(losses), defaults(losses)]
    parts += [f"n = {n}, mu = 1\n\n{tasks(losses, n)}" for n in (300, 1000)]
    return "\n\n".join(part for part in parts if part)


def progress(results: list[dict[str, Any]]) -> str:
    """How many cells of the design have been run."""
    done = {Cell(**{name: result[name] for name in Cell.__dataclass_fields__}) for result in results}
    every = list(in_order())
    return f"{sum(cell in done for cell in every)} of {len(every)} cells of the design have been run."


# ---- comparisons ---------------------------------------------------------------------------------------------------


def few(task: str) -> bool:
    """Whether it has ten numbers or fewer."""
    return TASKS[task].d is not None and TASKS[task].d <= FEW


def many(task: str) -> bool:
    """Whether it has more."""
    return TASKS[task].d is not None and TASKS[task].d > FEW


def mixed(task: str) -> bool:
    """Whether it has categories."""
    return TASKS[task].d is None


def everything(task: str) -> bool:
    """All of them."""
    return True


Triple = tuple[float, float, float]


def over_external(losses: Losses, n: int, mu: float | None, *, new: bool = True) -> Triple:
    """The primary outcome: ours over the best external search without privacy."""
    return interval(losses.logs(losses.places(n, new=new), lambda p: losses.at(p, mu), losses.external))


def over_values(
    losses: Losses,
    n: int,
    mu: float,
    methods: Iterable[str] = VALUES,
    which: Callable[[str], bool] = everything,
    *,
    new: bool = True,
) -> Triple:
    """Ours over the best of these methods, each task's best in hindsight."""
    places = [place for place in losses.places(n, new=new) if which(place[0])]
    return interval(losses.logs(places, lambda p: losses.at(p, mu), lambda p: losses.values(p, mu, methods)))


def median(losses: Losses, n: int, mu: float, methods: Iterable[str] = (OURS,)) -> float:
    """Median share kept of the new tasks that have something to tune."""
    kept = losses.shares(losses.places(n, new=True), mu, methods)
    return float(np.median(kept)) if len(kept) else math.nan


def worse(losses: Losses, place: Place, mu: float) -> float:
    """How much worse than the default, in standard errors of the difference."""
    default, ours = losses.at(place, None, (START, OWN)), losses.at(place, mu)
    gaps = np.array([ours[split] - default[split] for split in default.keys() & ours.keys()])
    if not gaps.any():  # the default was kept in all of them
        return 0.0
    return float(gaps.mean() / (gaps.std(ddof=1) / math.sqrt(len(gaps)))) if len(gaps) > 1 else math.nan


# ---- tables ---------------------------------------------------------------------------------------------------------


def headline(losses: Losses, *, new: bool) -> str:
    """The primary outcome and what stands beside it, for each n and mu."""
    rows = []
    for n, mu in SETTINGS:
        places = losses.places(n, new=new)
        counts = [len(losses.at(place, mu)) for place in places if losses.at(place, mu)]
        if not counts:
            continue
        kept = losses.shares(places, mu)
        alone = interval(losses.logs(places, lambda p, mu=mu: losses.at(p, mu), lambda p: losses.at(p, None)))
        rows.append(
            [
                *(f"{n}", f"{mu:g}", f"{epsilon_from_mu(mu, DELTA):.2f}", f"{len(counts)}", _span(counts)),
                *(shown(over_external(losses, n, mu, new=new)), shown(alone)),
                f"{np.median(kept):.2f}, {kept.min():.2f} ({len(kept)} tasks)" if len(kept) else "",
            ]
        )
    heads = ["n", "mu", "epsilon", "tasks", "splits", "over the best external", "over itself without noise"]
    return markdown([*heads, "share kept: median, least"], rows) if rows else ""


def rivals(losses: Losses) -> str:
    """Ours over each rival on privatised values, and over the best of them, by kind of space."""
    rows = []
    for n, mu in ((1000, 1.0), (300, 1.0), (300, 0.5)):
        for name, methods in _RIVALS.items():
            by_kind = [shown(over_values(losses, n, mu, methods, which)) for which in (few, many, mixed, everything)]
            rows.append([f"{n}", f"{mu:g}", name, *by_kind])
    kinds = ["10 numbers or fewer", "11 or more", "mixed", "all"]
    return markdown(["n", "mu", "rival", *kinds], rows)


_RIVALS: dict[str, tuple[str, ...]] = {
    "Gaussian process told the noise": (GP,),
    "TPE": (TPE,),
    "the better of these two": (GP, TPE),
    "CMA-ES": (CMA,),
    "random": (RANDOM,),
    "best of all four": VALUES,
    "one private choice": (SELECTION,),
    "one choice that keeps the default": (KEEPING,),
}


def defaults(losses: Losses) -> str:
    """At mu = .25: ours beside the default, and how sure the difference is."""
    rows = []
    for n in (300, 1000):
        for place in losses.places(n, new=True):
            default, ours = losses.at(place, None, (START, OWN)), losses.at(place, 0.25)
            if both := default.keys() & ours.keys():
                pair = [f"{mean(of, both):.4f}" for of in (default, ours)]
                rows.append([f"{n}", place[0], *pair, f"{worse(losses, place, 0.25):+.1f}"])
    heads = ["n", "task", "default", "centred, mu = .25", "worse by, in standard errors"]
    return markdown(heads, rows) if rows else ""


def tasks(losses: Losses, n: int) -> str:
    """Mean test losses of each task at mu = 1, new ones first; what has nothing to tune is marked."""
    rows = []
    for place in (*losses.places(n, new=True), *losses.places(n, new=False)):
        ours = losses.at(place, 1.0)
        if not ours:
            continue
        limits = [_least(losses, place, None, (method,)) for method in (*EXTERNAL, OURS)]
        told = [_least(losses, place, 1.0, (method,)) for method in (OURS, GP, TPE, SELECTION)]
        base = [_mean(losses.at(place, None, (START, read))) for read in (OWN, CONSTANT)]
        kept = losses.share_kept(place, 1.0)
        share = f"{kept:.2f}" if not math.isnan(kept) else f"nothing to tune ({100 * losses.gain(place):.0f}%)"
        numbers = TASKS[place[0]].d
        rows.append([place[0], f"{numbers}" if numbers else "mixed", f"{len(ours)}", *base, *limits, *told, share])
    limits = ["TPE", "CMA-ES", "GP", "ours"]
    heads = ["task", "numbers", "splits", "default", "constant", *(f"{name}, no privacy" for name in limits)]
    return markdown([*heads, "**centred**", "GP told the noise", "TPE", "one choice", "share kept"], rows)


def _least(losses: Losses, place: Place, mu: float | None, methods: tuple[str, ...]) -> str:
    found = losses.best(place, mu, methods)
    return _mean(found[1]) if found else ""


def _mean(of: BySplit) -> str:
    return f"{mean(of, of.keys()):.4f}" if of else ""


def _span(counts: list[int]) -> str:
    return f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


def shown(triple: Triple) -> str:
    """A ratio with its interval."""
    middle, low, high = triple
    return "" if math.isnan(middle) else f"{middle:.3f} [{low:.3f}, {high:.3f}]"
