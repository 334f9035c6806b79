"""Draw what `dptune watch` shows, wide and for a phone: ``python docs/figures/watch_view.py LEDGER``."""

import sys
from io import StringIO
from pathlib import Path

from rich.console import Console

from dptune.cli.shared import open_any
from dptune.cli.watch import Runs, frame

ledger = sys.argv[1] if len(sys.argv) > 1 else "out/demo/ledger.db"
for name, width in (("watch.svg", 120), ("watch-narrow.svg", 56)):
    console = Console(record=True, width=width, file=StringIO())
    console.print(frame(open_any(ledger), Runs()))
    console.save_svg(str(Path(__file__).parent / name), title=f"dptune watch {Path(ledger).name}")
