"""When clipping misleads, in one picture: `python -m benchmarks.measurements.tails.picture [FILE]`.

Made-up losses, 1000 people, no noise: along one parameter, the mean loss and the mean of what clipping leaves of it,
where people agree about direction (above) and where a minority loses much (below).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from benchmarks.curator import clip
from benchmarks.data import Array
from benchmarks.measurements.tails.tasks import make
from dptune.privacy.query import Ball

SHARES = (0.5, 0.95)  # of people left as they are
STYLES = ("--", "-.")


def curves(name: str) -> tuple[Array, dict[str, Array]]:
    """Points along the first parameter, and by name: the mean loss and its clipped means, less their values at 0."""
    task = make(name, 1000, 0)
    x = np.linspace(0, 1, 41)
    rest = dict.fromkeys(task.space, 0.5)
    L = np.array([task.losses({**rest, "u0": float(at)}) for at in x])  # (points, people)
    V = L - L.mean(axis=0)
    found = {"mean loss, which was asked for": V.mean(axis=1)}
    for share in SHARES:
        radius = float(np.quantile(np.linalg.norm(V, axis=0), share))
        found[f"clipped, {100 * share:.0f}% of people left as they are"] = clip(V, Ball(radius)).mean(axis=1)
    return x, {label: values - values[0] for label, values in found.items()}


def main(path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9.5, "axes.titlesize": 10.5, "svg.hashsalt": "clipping"})
    figure, axes = plt.subplots(2, 1, figsize=(4.4, 6.2), layout="constrained")  # fits a phone
    titles = {"bowl": "People agree: clipping shortens", "minority loses": "15 of 100 lose much: clipping misleads"}
    for axis, (name, title) in zip(axes, titles.items(), strict=True):
        x, found = curves(name)
        for (label, values), style in zip(found.items(), ("-", *STYLES), strict=True):
            (line,) = axis.plot(x, values, style, label=label)
            best = int(np.argmin(values))
            axis.plot(x[best], values[best], "o", color=line.get_color())
        axis.set(title=title, xlabel="parameter", ylabel="loss, less that at 0")
    axes[1].annotate("dots: where each\nis smallest", (0.03, 0.82), xycoords="axes fraction")
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, loc="outside lower center")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[3] / "docs" / "figures" / "clipping.svg")
