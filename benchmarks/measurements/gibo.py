"""The benchmark of DP-GIBO: `python -m benchmarks.measurements.gibo paper|equal-mu|speed [--seeds N] [--out docs]`.

Prints a Markdown table; writes raw results to `<out>/results/` and figures to `<out>/figures/`.
docs/research/measurements.md shows the tables, and says on which machine they were made.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.report import DOCS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("paper", "equal-mu", "speed"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--trials", type=int, default=200, help="of equal-mu")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    if asked.what == "speed":
        from benchmarks.measurements import speed

        print(speed.main(asked.out))
    elif asked.what == "paper":
        from benchmarks.measurements import paper_runs

        print(paper_runs.main(asked.seeds, asked.jobs, asked.out))
    else:
        from benchmarks.measurements import equal_mu

        print(equal_mu.main(asked.seeds, asked.jobs, asked.out, asked.trials))


if __name__ == "__main__":
    main()
