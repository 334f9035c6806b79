"""Draw docs/figures/watch.svg, what `dptune watch` shows: ``python docs/figures/watch_view.py LEDGER``."""

import sys
from io import StringIO
from pathlib import Path

from rich.console import Console

from dptune.cli.shared import open_any
from dptune.cli.watch import Runs, frame

ledger = sys.argv[1] if len(sys.argv) > 1 else "out/demo/ledger.db"
console = Console(record=True, width=120, file=StringIO())
console.print(frame(open_any(ledger), Runs()))
console.save_svg(str(Path(__file__).parent / "watch.svg"), title=f"dptune watch {Path(ledger).name}")
