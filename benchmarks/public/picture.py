"""The picture of docs/frontier.md: the test loss of five ways to choose, over the best search without privacy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.public.measure import CV, EXACT, FREE, OURS, PEOPLE, RANDOM
from benchmarks.public.results import Results
from benchmarks.public.tables import ONE

WAYS = {
    EXACT: "exact choice, no privacy", OURS: "dptune", FREE: "average of the best half, no private people",
    CV: "cross-validation alone, no private people", RANDOM: "one private choice among random models",
}  # fmt: skip
BUDGETS = {"epsilon = 1": ("o", "#0969da"), "epsilon = 4": ("D", "#9a6700")}
SIZE, POINTS = (4.4, 6.2), 9.5  # inches, and points of the smallest text: a phone shows 0.8 of it and can be read


def draw(found: Results, folder: Path) -> None:
    """Write `public.svg`: two panels, one above the other, which fit a phone."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"font.size": POINTS, "axes.titlesize": 10.5, "svg.hashsalt": "public"}):
        figure, axes = plt.subplots(len(PEOPLE), 1, figsize=SIZE, sharex=True, layout="constrained")
        for axis, n in zip(axes, PEOPLE, strict=True):
            _panel(axis, found, n)
        axes[-1].set_xlabel("test loss over the best search without privacy")
        figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=2)
        figure.savefig(folder / "public.svg", metadata={"Date": None})
        plt.close(figure)


def _panel(axis: Any, found: Results, n: int) -> None:
    for shift, (budget, (marker, colour)) in zip((0.0, 0.28), BUDGETS.items(), strict=True):
        key = (ONE, n, budget)
        for place, way in enumerate(WAYS):
            mean, low, high = found.ratio(key, way, found.limits(key))
            axis.errorbar(
                mean, place + shift, xerr=np.array([[mean - low], [high - mean]]), fmt=marker, color=colour, capsize=3,
                markersize=5, label=budget if place == 0 else None,
            )  # fmt: skip
    for place, words in enumerate(WAYS.values()):  # above its intervals: a column of names would leave them no room
        axis.text(0.02, place - 0.22, words, transform=axis.get_yaxis_transform())
    axis.axvline(1.0, color="gray", linewidth=0.7)
    axis.set_yticks([])
    axis.set_ylim(len(WAYS) - 0.4, -0.7)
    axis.set_title(f"{n:,} private people")
