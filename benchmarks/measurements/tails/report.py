"""Tables of docs/research/measurements.md from stored results."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.report import markdown

Place = tuple[str, int, float]  # family, n, mu
Reading = tuple[str, str]  # method, recommendation
OURS, TPE, START = ("package", "own"), ("values, TPE", "best value"), ("start", "own")
WORSE = 1.005  # a test loss that is more than .5% above the default's
Losses = Mapping[Place, Mapping[Reading, Mapping[int, float]]]


def by_place(results: Sequence[Mapping[str, Any]]) -> Losses:
    """Test losses by family, n and mu, then by method and recommendation, then by split."""
    found: Any = defaultdict(lambda: defaultdict(dict))
    for result in results:
        for name, loss in result["test_loss"].items():
            found[result["task"], result["n"], result["mu"]][result["method"], name][result["seed"]] = loss
    return found


def logs(losses: Losses, place: Place, one: Reading, other: Reading) -> list[float]:
    """log(one / other) on the splits that both have."""
    a, b = losses[place].get(one, {}), losses[place].get(other, {})
    return [math.log(a[seed] / b[seed]) for seed in sorted(a.keys() & b.keys())]


def best_of_values(losses: Losses, place: Place) -> Reading:
    """The method on privatised values with the smallest mean loss there, in hindsight."""
    rivals = [reading for reading in losses[place] if reading[0].startswith("values")]
    return min(rivals, key=lambda reading: np.mean(list(losses[place][reading].values())))


def ratio(values: Sequence[Sequence[float]]) -> str:
    """The geometric mean over families, of equal weight, and its standard error over splits."""
    kept = [np.asarray(v) for v in values if len(v)]
    if not kept:
        return "-"
    error = math.sqrt(sum(v.var(ddof=1) / len(v) for v in kept if len(v) > 1)) / len(kept)
    middle = math.exp(np.mean([v.mean() for v in kept]))
    return f"{middle:.3f} +- {middle * error:.3f}"


def worse(losses: Losses, places: Sequence[Place], reading: Reading) -> float:
    """The share of runs whose test loss is more than .5% above the default's."""
    pairs = [
        (losses[place][reading][seed], losses[place][START][seed])
        for place in places
        for seed in losses[place][reading].keys() & losses[place][START].keys()
    ]
    return float(np.mean([a > WORSE * b for a, b in pairs])) if pairs else math.nan


def comparison(results: Sequence[Mapping[str, Any]]) -> str:
    """By family, and by n and mu, over TPE and over the best of values; how often worse than the default."""
    losses = by_place(results)
    families = list(dict.fromkeys(place[0] for place in losses))
    rows = []
    for family in families:
        places = [place for place in losses if place[0] == family]
        over = [[log for place in places for log in logs(losses, place, OURS, other)] for other in (START, TPE)]
        best = [log for place in places for log in logs(losses, place, OURS, best_of_values(losses, place))]
        share = [f"{100 * worse(losses, places, reading):.0f}%" for reading in (OURS, TPE)]
        rows.append([family, ratio([over[0]]), ratio([over[1]]), ratio([best]), *share])
    head = ["losses", "over the default", "over TPE", "over the best of values", "worse than default", "TPE worse"]
    cuts: dict[str, list[Place]] = {"all": list(losses)}
    for n, mu in sorted({place[1:] for place in losses}):
        cuts[f"n = {n}, mu = {mu:g}"] = [place for place in losses if place[1:] == (n, mu)]
    small = [
        [name, *(_mean(losses, places, reading) for reading in (TPE, None, START))] for name, places in cuts.items()
    ]
    second = ["people and budget", "over TPE", "over the best of values", "over the default"]
    methods = [
        [", ".join(reading), _over_tpe(losses, reading), f"{100 * worse(losses, list(losses), reading):.0f}%"]
        for reading in dict.fromkeys(reading for place in losses for reading in losses[place])
    ]
    third = ["method, recommendation", "over TPE", "worse than default"]
    return "\n\n".join([markdown(head, rows), markdown(second, small), markdown(third, methods)])


def harm(results: Sequence[Mapping[str, Any]]) -> str:
    """The sentence of the README."""
    losses = by_place(results)
    families: dict[str, list[Place]] = defaultdict(list)
    for place in losses:
        families[place[0]].append(place)
    ours, tpe = (worse(losses, list(losses), reading) for reading in (OURS, TPE))
    most = max(worse(losses, places, OURS) for places in families.values())
    return (
        f"On {len(families)} kinds of loss the search ends more than .5% worse than the library's default in "
        f"{100 * ours:.0f}% of runs, TPE in {100 * tpe:.0f}%. For the worst kind of loss it is {100 * most:.0f}% of "
        "runs."
    )


def _mean(losses: Losses, places: Sequence[Place], other: Reading | None) -> str:
    families: dict[str, list[float]] = defaultdict(list)
    for place in places:
        families[place[0]] += logs(losses, place, OURS, other or best_of_values(losses, place))
    return ratio(list(families.values()))


def _over_tpe(losses: Losses, reading: Reading) -> str:
    families: dict[str, list[float]] = defaultdict(list)
    for place in losses:
        families[place[0]] += logs(losses, place, reading, TPE)
    return ratio(list(families.values()))


def calibration(results: Sequence[Mapping[str, Any]]) -> str:
    """By family: how often the package compares, covers the truth, and says what is false."""
    rows = []
    for family in [*dict.fromkeys(result["task"] for result in results), None]:
        runs = [r for r in results if family in (None, r["task"])]
        made = [r for r in runs if r["verdict"] is not None]
        covers = [r["low"] <= r["truth"] <= r["high"] for r in made]
        better = [r for r in made if r["verdict"] == "better"]
        false = sum(r["truth"] <= 0 for r in better)
        rows.append(
            [
                family or "all",
                str(len(runs)),
                str(len(made)),
                f"{np.mean(covers):.3f}" if covers else "-",
                str(len(better)),
                f"{false} ({100 * false / len(runs):.1f}%)",
                f"{100 * np.mean([r['truth'] < 0 for r in runs]):.0f}%",
            ]
        )
    head = ["losses", "runs", "compared", "95% covers", '"better"', "of these false", "truly worse than default"]
    return markdown(head, rows)
