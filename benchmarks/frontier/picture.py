"""The picture of ten seconds: what is kept of the gain of tuning, against mu, for README in light and dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.frontier.losses import Losses
from benchmarks.frontier.methods import GP, OURS, TPE

BUDGETS = (0.25, 0.5, 1.0, 2.0)
LOWEST = -0.35  # shares below are drawn there, as arrows
LINES = {  # marker, line, and colours on light and dark ground, which are told apart without colour, too
    OURS: ("o", "-", "dptune"),
    GP: ("^", ":", "Gaussian process told the noise"),
    TPE: ("s", "--", "TPE on noisy scores"),
}
GROUNDS = {
    "light": ("#ffffff", "#1f2328", ("#0969da", "#9a6700", "#57606a")),
    "dark": ("#0d1117", "#e6edf3", ("#58a6ff", "#d29922", "#8b949e")),
}


def draw(losses: Losses, folder: Path) -> None:
    """Write `frontier-light.png` and `frontier-dark.png`."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for ground, (paper, ink, colours) in GROUNDS.items():
        settings = {"text.color": ink, "axes.labelcolor": ink, "xtick.color": ink, "ytick.color": ink}
        settings |= {"axes.edgecolor": ink, "figure.facecolor": paper, "axes.facecolor": paper, "font.size": 11}
        with plt.rc_context(settings):
            figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
            for axis, n in zip(axes, (300, 1000), strict=True):
                _panel(axis, losses, n, dict(zip(LINES, colours, strict=True)))
            axes[0].set_ylabel("share kept of what tuning\nwithout privacy gains")
            axes[1].legend(frameon=False, loc="lower right")
            figure.savefig(folder / f"frontier-{ground}.png", dpi=110, facecolor=paper)
            plt.close(figure)


def _panel(axis: Any, losses: Losses, n: int, colours: dict[str, str]) -> None:
    places = losses.places(n, new=True)
    for offset, (method, (marker, line, label)) in zip((-0.06, 0.06, 0.0), LINES.items(), strict=True):
        medians = []
        for place, mu in enumerate(BUDGETS):
            kept = losses.shares(places, mu, (method,))
            medians.append(np.median(kept) if len(kept) else np.nan)
            x, y = np.full(len(kept), place + offset), np.maximum(kept, LOWEST)
            axis.scatter(x, y, s=14, marker=marker, color=colours[method], alpha=0.45, linewidths=0)
        axis.plot(range(len(BUDGETS)), medians, line, marker=marker, color=colours[method], label=label, markersize=8)
    axis.axhline(1.0, color="gray", linewidth=0.7)
    axis.axhline(0.0, color="gray", linewidth=0.7)
    axis.set(title=f"{n} private people", xlabel="privacy budget mu", ylim=(LOWEST - 0.05, 1.15))
    axis.set_xticks(range(len(BUDGETS)), [f"{mu:g}" for mu in BUDGETS])
