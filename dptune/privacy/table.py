"""A table of people by public cells: the question behind a report of a final model.

Public rules divide examples into cells, once or in several *blocks*. Person i has a vector u_i^l
in block l: the mean, over the person's examples, of the unit vectors of their cells, a point of a simplex. With public
matrices M_l (p_l, s_l) and public person weights w that sum to 1,

    release  (sum_i w_i M_l u_i^l for each block l) + N(0, sigma^2 I)

**Sensitivity.** Replacing person i moves block l by w_i M_l (u - u'). They lie in the convex hull of the unit
vectors, so |M_l (u - u')| is at most the largest distance of two columns of M_l. All blocks together move by at most
max_i w_i sqrt(sum_l max_{a, b} |M_l e_a - M_l e_b|^2). For one block of counts, M = I, that is sqrt(2) max w.

An example with an unknown cell, whose model failed, counts in the last cell of every block: a public rule.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dptune._arrays import Indices, Matrix, Vector
from dptune._checks import positive
from dptune.errors import InputError
from dptune.privacy.stored_losses import Grid, People, Whole

MOST_CELLS = 2**53  # product over all blocks: an example's cells are one whole number, stored as a float


@dataclass(frozen=True, eq=False)
class TableQuery:
    """Weighted shares of people in public cells, or public linear maps of them. Frozen and public.

    Attributes:
        blocks: M_l (p_l, s_l) of each block; its last cell is for examples with unknown cells.
        mu: GDP price, > 0.
        statistic: what is released, in words.
        meaning: the rule that assigns examples to cells, as text; part of the query's digest.

    Raises:
        InputError: a block is not a finite matrix of at least two columns, there are too many cells, or mu is not
            positive.
    """

    blocks: tuple[Matrix, ...]
    mu: float
    statistic: str
    meaning: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", positive("mu", self.mu))
        blocks = tuple(np.array(block, dtype=np.float64) for block in self.blocks)
        for block in blocks:
            if block.ndim != 2 or block.shape[1] < 2 or not np.isfinite(block).all():
                raise InputError("a block of a table must be a finite matrix with two cells at least.")
            block.setflags(write=False)
        object.__setattr__(self, "blocks", blocks)
        if not blocks or math.prod(self.sizes) > MOST_CELLS:
            raise InputError("a table has too many cells: give fewer classes, groups or bins.")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the number of cells of each block."""
        return tuple(block.shape[1] for block in self.blocks)

    @property
    def dimension(self) -> int:
        """Return p, the length of the released vector."""
        return sum(block.shape[0] for block in self.blocks)

    @cached_property
    def diameter(self) -> float:
        """Return the largest L2 distance between two people's contributions."""
        return math.sqrt(sum(_largest_distance(block) ** 2 for block in self.blocks))

    def digest(self) -> str:
        """Return a fingerprint of the query, by which a retry is recognised."""
        header = json.dumps([[block.shape for block in self.blocks], self.mu, self.statistic, self.meaning])
        return hashlib.sha256(header.encode() + b"".join(block.tobytes() for block in self.blocks)).hexdigest()

    def split(self, vector: Vector) -> list[Vector]:
        """Return each block's part of a released vector (p,)."""
        return np.split(vector, np.cumsum([block.shape[0] for block in self.blocks])[:-1])

    def sums(self, people: People, codes: Vector, grid: Grid) -> Whole:
        """Return the people in each cell of each block, in steps of the grid, from their examples' codes (rows,).

        A person with several examples is a share in the cell of each, rounded down: all shares together are at most 1.
        A weighted person counts less than 1.
        """
        shares = np.ones(1) if people.relative_weights is None else people.relative_weights
        if people.of_row is not None:
            shares = (shares / np.bincount(people.of_row, minlength=people.n))[people.of_row]
        whole = np.floor(shares * 2.0**grid.bits).astype(np.int64)  # (rows,), or (1,) if all are equal
        sums = [np.zeros(size, dtype=np.int64) for size in self.sizes]
        for each, cells in zip(sums, _cells(codes, self.sizes), strict=True):
            np.add.at(each, cells, whole)
        return np.concatenate(sums)

    def mean(self, people: People, codes: Vector) -> Vector:
        """Return the weighted mean (p,) over people of examples with these codes (rows,), see :func:`code_of`."""
        grid = Grid.of(people.n)
        return self.mean_of(self.sums(people, codes, grid), grid, float(people.weights.max()))

    def mean_of(self, sums: Whole, grid: Grid, largest_weight: float) -> Vector:
        """Return the mean (p,) of summed people in cells."""
        shares = np.split(grid.mean(sums, largest_weight), np.cumsum(self.sizes)[:-1])
        return np.concatenate([block @ each for block, each in zip(self.blocks, shares, strict=True)])


def code_of(cells: Sequence[Indices], sizes: Sequence[int]) -> Vector:
    """Return one number for each example (rows,) that encodes its cell in every block."""
    code = np.zeros(len(cells[0]))
    for cell, size in zip(cells, sizes, strict=True):
        code = code * size + cell
    return code


def _cells(codes: Vector, sizes: Sequence[int]) -> list[Indices]:
    """Return the cell of each example in every block (rows,); the last one if the code is invalid."""
    with np.errstate(all="ignore"):  # a floating-point warning would depend on the data
        valid = (codes >= 0) & (codes < math.prod(sizes)) & (codes == np.floor(codes))
        left = np.where(valid, codes, float(math.prod(sizes) - 1)).astype(np.intp)
    cells = []
    for size in reversed(sizes[1:]):
        cells.append(left % size)
        left //= size
    return [left, *reversed(cells)]


def _largest_distance(block: Matrix) -> float:
    """Return the largest distance of two columns; sqrt(2) for unit vectors."""
    columns = np.unique(block.T, axis=0)  # (s, p)
    centred = columns - columns.mean(axis=0)
    squares = np.einsum("ij,ij->i", centred, centred)
    far = max(
        float(np.max(squares[i] + squares - 2 * (centred @ centred[i]))) for i in range(len(columns))
    )  # one row at a time, to save memory
    return math.sqrt(max(far, 0.0)) * (1 + 1e-12)
