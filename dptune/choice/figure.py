"""Pictures of a choice that public rows prepared: the finalists, and what public and private people say of the gain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dptune.choice.public_choice import IMPROVEMENT, INDEX
from dptune.ledger.ledger import Charge

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Z_95 = 1.959964


def is_choice(charge: Charge) -> bool:
    """Whether a charge is the choice itself."""
    return charge.key == INDEX and "public" in charge.note


def draw_finalists(axes: Axes, charges: Sequence[Charge]) -> None:
    """Draw the finalists' mean public losses, and which one private people chose."""
    choice = next(filter(is_choice, charges))
    losses = np.array(choice.note["public"])  # (s,)
    axes.plot(np.arange(1, len(losses) + 1), losses, "o", ms=4, color="0.6", label="finalists")
    if choice.note["default"] is not None:
        axes.axhline(choice.note["default"], color="C1", ls="--", label="your default")
    if choice.value is not None:
        place = int(choice.value[0])
        axes.plot(place + 1, losses[place], "D", ms=8, color="C0", label="chosen by private people")
    axes.set(xlabel="rank on public rows", ylabel="mean loss of public rows", title="Public rows propose")
    axes.legend(fontsize="x-small")


def draw_improvement(axes: Axes, charges: Sequence[Charge]) -> None:
    """Draw the improvement over the default, as public rows predicted it and as private people released it."""
    told = next((c for c in charges if c.key == IMPROVEMENT and c.value), None)
    axes.axvline(0.0, color="C1", ls="--")
    axes.set(xlabel="improvement over your default, and 95% interval", title="Private people decide", ylim=(-0.6, 1.6))
    if told is None or not told.value:
        axes.text(0.5, 0.5, "nothing was released about it", ha="center", transform=axes.transAxes)
        axes.set_yticks([])
        return
    sigma = float(told.description["sigma"])
    rows = [
        (told.note["predicted"], told.note["predicted_sigma"], "0.6", "public rows\n(cross-validated)"),
        (told.value[0], sigma, "C0", "private people\n(released once)"),
    ]
    for place, (value, deviation, colour, _) in enumerate(rows):
        axes.errorbar(value, place, xerr=Z_95 * deviation, fmt="o", color=colour, capsize=4)
    axes.set_yticks([0, 1], [label for *_, label in rows])
    better = "better" if told.value[0] - Z_95 * sigma > 0 else "worse" if told.value[0] + Z_95 * sigma < 0 else ""
    if better:
        axes.annotate(better, (told.value[0], 1), (0, 10), textcoords="offset points", ha="center", color="C0")
