"""Private rows in a public representation: what a cell holds may depend on that cell, its dtype may not.

NumPy, pandas and CSV readers choose a dtype by looking at every cell: one person's "n/a" turns a column of numbers into
text, one missing value turns whole numbers into floats, and everybody's answer changes with it. So rows are read into
the representation that public facts call for: numbers (float64), or whatever the public rows ``like`` hold. A cell that
does not fit makes its own row unreadable, and no other.

    data = Rows(X_val, y_val, like=X_train)     # a data frame, texts, float32
    data = (X_val, y_val)                       # numbers
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Private examples, and public rows that say what their columns hold.

    Attributes:
        X: private rows (n, d): an array, a list of rows or of texts, a sparse matrix, a data frame.
        y: private answers (n,).
        like: public rows of the same columns, such as the training rows, read without the private ones: what a table
            that held both says of a column is a private cell's to decide. Where they hold text or categories, so does
            ``X``; everything else is a number, in the floating-point type of ``like``. A column that has a missing
            value here may have one there. Any number of rows; the first one is what a model is tried out on.
    """

    X: Any
    y: Any
    like: Any = None
