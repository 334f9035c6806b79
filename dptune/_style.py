"""Colours and lines of all figures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptune._checks import boolean
from dptune._store import ForkSafeLock
from dptune.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito: for all eyes
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))


_DRAWING = ForkSafeLock()  # matplotlib's settings belong to the process


@contextmanager
def drawing(*, dark: bool = False, **settings: Any) -> Iterator[type[Figure]]:
    """Import matplotlib, and yield its class of figures while :func:`style` and ``settings`` apply."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.style import context
    except ImportError:
        raise MissingExtra('figures need matplotlib: pip install "dptune[figures]".') from None
    except ValueError as error:  # the backend, which a figure in a file does not need
        reason = str(error).partition(";")[0]
        raise InputError(f"matplotlib does not load ({reason}). Unset or correct MPLBACKEND.") from None
    with _DRAWING, context({**style(dark=dark), **settings}):
        yield Figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure to a file, whose ending chooses the format."""
    endings = sorted(figure.canvas.get_supported_filetypes())
    if path.suffix.removeprefix(".").lower() not in endings:
        raise InputError(f"{path} must end in one of {', '.join(endings)}.")
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
    else:
        return
    raise InputError(f"cannot write {path}: {reason}.")


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
