"""README's picture: the test loss of four ways to choose, over the best search without privacy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.public.measure import CV, EXACT, OURS, PEOPLE, RANDOM

if TYPE_CHECKING:
    from benchmarks.public.report import Results

WAYS = {
    EXACT: "exact choice,\nno privacy", OURS: "dptune", CV: "cross-validation alone,\nno private people",
    RANDOM: "one private choice\namong random models",
}  # fmt: skip
GROUNDS = {
    "light": ("#ffffff", "#1f2328", ("#0969da", "#9a6700", "#57606a")),
    "dark": ("#0d1117", "#e6edf3", ("#58a6ff", "#d29922", "#8b949e")),
}
BUDGETS = {"epsilon = 1": "o", "epsilon = 4": "D"}


def draw(found: Results, folder: Path) -> None:
    """Write `public-light.png` and `public-dark.png`."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for ground, (paper, ink, colours) in GROUNDS.items():
        settings = {"text.color": ink, "axes.labelcolor": ink, "xtick.color": ink, "ytick.color": ink}
        settings |= {"axes.edgecolor": ink, "figure.facecolor": paper, "axes.facecolor": paper, "font.size": 11}
        with plt.rc_context(settings):
            figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True, sharex=True, layout="constrained")
            for axis, n in zip(axes, PEOPLE, strict=True):
                _panel(axis, found, n, colours)
            axes[1].legend(frameon=False, loc="lower right")
            figure.savefig(folder / f"public-{ground}.png", dpi=110, facecolor=paper)
            plt.close(figure)


def _panel(axis: Any, found: Results, n: int, colours: tuple[str, ...]) -> None:
    for shift, (budget, marker) in zip((-0.12, 0.12), BUDGETS.items(), strict=True):
        key = (False, n, budget)
        colour = colours[0] if shift < 0 else colours[1]
        for place, way in enumerate(WAYS):
            mean, low, high = found.ratio(key, way, found.limits(key))
            axis.errorbar(
                mean, place + shift, xerr=np.array([[mean - low], [high - mean]]), fmt=marker, color=colour, capsize=3,
                label=budget if place == 0 else None,
            )  # fmt: skip
    axis.axvline(1.0, color="gray", linewidth=0.7)
    axis.set_yticks(range(len(WAYS)), list(WAYS.values()))
    axis.invert_yaxis()
    axis.set(title=f"{n:,} private people", xlabel="test loss over the best search without privacy")
