"""Colours and lines of all figures."""

from __future__ import annotations

from typing import Any

from dptune._checks import boolean

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito: for all eyes
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))


def style(*, dark: bool = False) -> dict[str, Any]:
    """Return matplotlib's settings for figures on white or on dark paper: ``with matplotlib.style.context(style()):``.

    Lines differ in their dashes as well as in their colours, so that a figure can be read without colour.
    """
    from cycler import cycler

    boolean("dark", dark)
    ink, paper = ("0.92", "#1e2129") if dark else ("0.1", "white")
    names = ("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color")
    papers = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor"), paper)
    lines = {"axes.prop_cycle": cycler(color=_COLOURS[:: -1 if dark else 1]) + cycler(linestyle=_DASHES)}
    frame = {"axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "0.5"}
    return {**dict.fromkeys(names, ink), **papers, **lines, **frame, "grid.alpha": 0.2, "legend.framealpha": 0.8}
