"""Run the example of docs/report.md, print its table, and draw its figure: ``python docs/figures/report_view.py``.

``report.svg`` is what ``report.plot`` draws. ``report-narrow.svg`` stacks its panels, for a phone.
"""

import re
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

FOLDER = Path(__file__).parent
SETTINGS = {"svg.hashsalt": "report"}


def save(figure: Figure, name: str) -> None:
    """Write an SVG without a date, so that nothing but the numbers changes it."""
    with rc_context(SETTINGS):
        figure.savefig(FOLDER / name, metadata={"Date": None})


text = (FOLDER.parent / "report.md").read_text(encoding="utf-8")
found = re.search(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
assert found is not None, "docs/report.md begins with an example"
names: dict[str, Any] = {}
with tempfile.TemporaryDirectory() as folder, chdir(folder):
    exec(compile(found[1], "docs/report.md", "exec"), names)
    figure = names["report"].plot()
save(figure, "report.svg")
grid = GridSpec(len(figure.axes), 1, figure=figure)
for axes, place in zip(figure.axes, grid, strict=True):
    axes.set_subplotspec(place)
figure.set_size_inches(3.8, 3.4 * len(figure.axes))
save(figure, "report-narrow.svg")
