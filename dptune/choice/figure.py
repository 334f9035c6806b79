"""Pictures of a choice that public rows prepared: the finalists, and the public and private estimates of the gain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dptune.choice.result import IMPROVEMENT, INDEX, PairedEstimate
from dptune.ledger.ledger import Charge
from dptune.results import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def is_choice(charge: Charge) -> bool:
    """Return whether a charge is the choice itself."""
    return charge.key == INDEX and "public" in charge.note


def draw_finalists(axes: Axes, charges: Sequence[Charge]) -> None:
    """Draw the finalists' mean public losses, and mark the chosen one."""
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
    released = next((c for c in charges if c.key == IMPROVEMENT and c.value), None)
    axes.axvline(0.0, color="C1", ls="--")
    axes.set(xlabel="improvement over your default, and 95% interval", title="Private people decide", ylim=(-0.6, 1.6))
    if released is None or not released.value:
        axes.text(0.5, 0.5, "nothing was released about it", ha="center", transform=axes.transAxes)
        axes.set_yticks([])
        return
    gain = PairedEstimate.of(released)
    rows = [
        (Estimate(gain.predicted, gain.sampling, True), "0.6", "public rows\n(cross-validated)"),
        (gain, "C0", "private people\n(released once)"),
    ]
    for place, (estimate, colour, _) in enumerate(rows):
        half = estimate.value - estimate.interval()[0]
        axes.errorbar(estimate.value, place, xerr=half, fmt="o", color=colour, capsize=4)
    axes.set_yticks([0, 1], [label for *_, label in rows])
    if gain.verdict in ("better", "worse"):
        axes.annotate(gain.verdict, (gain.value, 1), (0, 10), textcoords="offset points", ha="center", color="C0")
