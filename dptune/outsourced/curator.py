"""The curator's half, which alone reads the rows: it releases them once, with noise, and answers queries about them.

Use::

    ledger = dptune.PrivacyLedger("ledger.db", dptune.Budget.approximate_dp(3, 1e-5), max_change=1.0)
    outputs = PublicOutputs(measure, because="the yields are in the ministry's yearbook")
    public = {"scale": [10, 2], "row_norm": 25.0, "max_change": 1.0}
    curator = OutsourcedCurator(ledger, table, **public, outputs=outputs, folder="own")
    curator.export("shared", mu=ledger.budget.mu)
    curator.serve("shared", rounds=50)

Guarantee: for a trusted curator the released table is mu-GDP under replacing a unit's records; n is public. With
``max_change``, one unit's row changes by at most that norm instead. The proof is in
:class:`~dptune.ledger.events.TableRelease`. A modeler's computations on table and outputs are post-processing.

An export charges, reads, draws, and stores the draw as ``<SHA-256>.npy`` in the curator's own folder. Then it records
the SHA-256 in the ledger (first writer wins) and copies the file to the shared folder. Only the draw that the ledger
names is ever copied, so after any crash a charge has at most one published table.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from dptune._arrays import Array, Matrix
from dptune._checks import at_least, attempt, between, kind, place, positive, shown
from dptune.errors import BudgetMismatch, InputError, LedgerError, PrivacyError
from dptune.ledger.budget_ledger import adjacency_of
from dptune.ledger.entries import Charge
from dptune.ledger.events import TableRelease
from dptune.ledger.ledger import PrivacyLedger
from dptune.outsourced.formats import Exchange, TableFacts, to_bytes
from dptune.outsourced.outputs import PublicOutputs
from dptune.privacy.noise import NoiseSource, is_private, noise_scale, noise_source
from dptune.privacy.query import LARGEST, SMALLEST
from dptune.privacy.seal.parsing import as_array, numbers, odd_type
from dptune.privacy.seal.private import without_frames

Numbers = float | Sequence[float] | Array

_SCOPE = "outsourced"  # scope of the exports in a ledger
_NUMBERS_PER_DRAW = 2**16  # per call of OpenDP: bounds the memory of its lists
_LEAST_CHANGE = 1e-3  # share of row_norm: below it the noise's slack would not cover the rows' rounding


class OutsourcedCurator:
    """Holds a table of private rows, one a unit; releases it with noise; answers queries by row number.

    Args:
        ledger: where the table is paid; its adjacency must be what the export protects.
        table: (n, d) numbers, private. A cell that is not a finite number makes its row the middle.
        scale: one number, or one a feature, public: rows are divided by it. Never computed from the table.
        middle: the same, public: what is subtracted before.
        row_norm: R, from 1e-30 to 1e30; rows of a larger norm, after scaling, are cut to it. Public.
        max_change: None protects replacing a unit's records: Delta = 2 R. A number protects only changes of one row by
            that norm, a weaker promise, which a ledger states that was made with the same ``max_change``.
        outputs: what answers queries. Nothing protects the answers, neither the rows' owners nor anybody else.
        folder: the curator's own; the modeler must not be able to read it.
        projection: public W (d, k); default the identity.
        noise: NOT PRIVATE. Other noise, such as ``SeededNoise(0)``, for tests; stamps ledger and statement.

    Raises:
        InputError: a setting is not usable.
        BudgetMismatch: the ledger promises something else, or another n.
    """

    def __init__(
        self,
        ledger: PrivacyLedger,
        table: npt.ArrayLike,
        *,
        scale: Numbers,
        row_norm: float,
        outputs: PublicOutputs,
        folder: str | os.PathLike[str],
        middle: Numbers = 0.0,
        max_change: float | None = None,
        projection: npt.ArrayLike | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        if not isinstance(ledger, PrivacyLedger):
            raise InputError('the first argument must be a PrivacyLedger, e.g. PrivacyLedger("ledger.db", budget).')
        if ledger.adjacency != (wanted := adjacency_of(max_change)):
            raise BudgetMismatch(
                f"the export protects {wanted!r}, but the ledger promises {ledger.adjacency!r}. Make the ledger and "
                f"the curator with the same max_change, here {shown(max_change)}."
            )
        if not isinstance(outputs, PublicOutputs):
            raise InputError("outputs must be PublicOutputs(measure, because=...); a query's answer is not protected.")
        self.ledger = ledger
        self.outputs = outputs
        self.row_norm = between("row_norm", row_norm, SMALLEST, LARGEST)
        self.change = largest_change(self.row_norm, max_change)
        self._cells = cells_of(table)  # (n, d), private; read after the charge only
        self.n, d = self._cells.shape
        self._scale, self._middle = _per_feature("scale", scale, d), _per_feature("middle", middle, d)
        if not (self._scale > 0).all():
            raise InputError("scale must be positive, in the units of the features.")
        self._W = np.eye(d) if projection is None else _public_map(projection, d)  # (d, k)
        self._folder = Path(place("the curator's own folder", folder))
        self._noise = noise_source(noise)
        self.private = is_private(self._noise)
        ledger.check_people(self.n)  # the first charge fixes it

    # ---- the table ---------------------------------------------------------------------------

    def event(self, mu: float) -> TableRelease:
        """Return the event of an export of ``mu``, including its noise, without reading a row."""
        norm = float(np.linalg.norm(self._W, 2))
        shape = (self.n, self._W.shape[1])
        sigma = noise_scale(sensitivity=self.change * norm, mu=positive("mu", mu), dimension=math.prod(shape))
        return TableRelease(mu, self.row_norm, self.change, norm, sigma, shape, self.outputs.words)

    def export(self, shared: str | os.PathLike[str] | Exchange, *, mu: float, key: str = "table") -> Charge:
        """Release the table into a shared folder, once: the same key shows the same table again at no cost.

        Args:
            mu: price in GDP; the whole budget is ``ledger.budget.mu``.
            key: names the export; another key is another release with its own noise and price.

        Raises:
            InputError: the shared folder holds another table, or the curator's own folder is in it or cannot be made.
            BudgetExhausted: the table does not fit; nothing was read.
            KeyConflict: the key was used with other settings.
            LedgerError: the released file is lost.
        """
        exchange = _exchange(shared)
        self._refuse_folders(exchange, key)
        event = self.event(mu)
        digest = self._digest(event)
        note = {"rows": self.n}
        charge = self.ledger.charge(_SCOPE, key, event, digest=digest, private=self.private, note=note, people=self.n)
        if charge.value is None:
            charge = self._draw_and_record(charge, event.sigma)
        data, shown = self._kept(charge)
        exchange.publish(data, self._facts(event, shown))
        return charge

    def _refuse_folders(self, exchange: Exchange, key: str) -> None:
        """Refuse, before the charge, folders in which the table could not be kept in private and then shown."""
        own, shared = self._folder.resolve(), exchange.folder.resolve()
        if own == shared or shared in own.parents:
            raise InputError(
                f"folder={str(self._folder)!r} must be the curator's own and not in the shared folder: it has draws "
                "that nobody else may see. Nothing was charged."
            )
        try:
            own.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"the curator's own folder cannot be made at {str(self._folder)!r}: {error.strerror}. Nothing was "
                "charged."
            ) from None
        known = self.ledger.find(_SCOPE, key)
        if known is None or known.value is None:
            exchange.refuse_other_table(None)

    def _digest(self, event: TableRelease) -> str:
        """Return a fingerprint of the public query, never of the rows."""
        question = json.dumps([event.describe(), self._scale.tolist(), self._middle.tolist(), self._W.tolist()])
        return hashlib.sha256(question.encode()).hexdigest()

    def _facts(self, event: TableRelease, digest: str) -> TableFacts:
        promise = f"mu = {event.mu:g} GDP: {self.ledger.adjacency}" if self.private else "NOT PRIVATE"
        return TableFacts(event.sigma, self.outputs.maximise, promise, self.outputs.words, digest)

    def _noisy(self, sigma: float) -> Matrix:
        """Return C X W + N(0, sigma^2 I), (n, k)."""
        rows = bounded_rows(self._cells, self._middle, self._scale, self.row_norm)  # (n, d)
        Z = (rows - means(rows)) @ self._W
        flat = Z.ravel()
        parts = [flat[i : i + _NUMBERS_PER_DRAW] for i in range(0, flat.size, _NUMBERS_PER_DRAW)]
        return np.concatenate([self._noise.add_gaussian(part, sigma) for part in parts]).reshape(Z.shape)

    @without_frames
    def _draw_and_record(self, charge: Charge, sigma: float) -> Charge:
        """Store the draw in the private folder, then record it in the ledger: the first recorded draw is final."""
        data = to_bytes(self._noisy(sigma))
        digest = hashlib.sha256(data).digest()
        path = self._folder / f"{digest.hex()}.npy"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        recorded = self.ledger.record(charge, list(digest))
        if recorded.value != tuple(digest):
            path.unlink()
        return recorded

    def _kept(self, charge: Charge) -> tuple[bytes, str]:
        digest = bytes(int(byte) for byte in charge.value or ()).hex()
        path = self._folder / f"{digest}.npy"
        data = path.read_bytes() if path.exists() else b""
        if hashlib.sha256(data).hexdigest() != digest:
            raise LedgerError(
                f"the table that was released under {charge.key!r} is not in the curator's folder as {path.name}: put "
                "it back. It cannot be drawn again for the same charge; another key= pays for another table."
            )
        return data, digest

    # ---- the outputs -------------------------------------------------------------------------

    def serve(self, shared: str | os.PathLike[str] | Exchange, *, rounds: int) -> None:
        """Answer queries 1 to ``rounds`` as they come; those answered before are skipped.

        Raises:
            InputError: a query does not come in time, or names no row of the table.
        """
        exchange = _exchange(shared)
        for t in range(1, at_least("rounds", rounds, 1) + 1):
            if exchange.answered(t) is None:
                row = exchange.query(t, self.n)
                exchange.answer(t, row, self.outputs.answer(row))

    # ---- a curator is not copied or pickled --------------------------------------------------

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise PrivacyError("a curator holds private rows: it is neither pickled nor copied. Make one where they are.")

    def __repr__(self) -> str:
        warning = "" if self.private else ", NOT PRIVATE"
        return f"OutsourcedCurator(n={self.n}, row_norm={self.row_norm:g}, change={self.change:g}{warning})"


def _exchange(shared: str | os.PathLike[str] | Exchange) -> Exchange:
    return shared if isinstance(shared, Exchange) else Exchange(shared)


def largest_change(row_norm: float, max_change: float | None) -> float:
    """Return the largest L2 change of one unit's row: 2 R, or the ledger's limit."""
    change = 2 * row_norm if max_change is None else min(positive("max_change", max_change), 2 * row_norm)
    if change < _LEAST_CHANGE * row_norm:
        raise InputError(
            f"max_change must be at least {_LEAST_CHANGE:g} of row_norm={row_norm:g}; got {shown(max_change)}."
        )
    return change


def cells_of(table: npt.ArrayLike) -> Matrix:
    """Return the cells as floats, NaN for all that is not a number; only a wrong shape or dates raise."""
    array = as_array(table)
    if array is None or array.ndim != 2 or 0 in array.shape:
        raise InputError(f"the table must have rows and columns: an array or a data frame (n, d); got {kind(table)}.")
    if odd := odd_type(table):
        raise InputError(f"the table has cells of the type {odd}; allowed: numbers. Turn dates into numbers of days.")
    return numbers(array)[0]


def _per_feature(name: str, values: Numbers, d: int) -> Matrix:
    """Return a public setting as (d,); refuse settings that are fitted to the rows or have no numbers yet."""
    array = attempt(np.asarray, values, failed=np.empty(0))
    if array.dtype.kind not in "fiu" or array.shape not in ((), (1,), (d,)) or not np.isfinite(array).all():
        raise InputError(
            f"{name} must be one finite number or {d} of them, public: from what the features mean, never from the "
            "rows. Scaling by their deviation or range lets one row move all others, which no noise here covers."
        )
    return np.broadcast_to(array.astype(np.float64), (d,))


def _public_map(projection: npt.ArrayLike, d: int) -> Matrix:
    W: Matrix = attempt(partial(np.array, dtype=np.float64), projection, failed=np.empty(()))
    if W.ndim != 2 or W.shape[0] != d or W.shape[1] < 1 or not np.isfinite(W).all():
        raise InputError(f"projection must be a public map W ({d}, k) of finite numbers; got {kind(projection)}.")
    if not SMALLEST <= np.abs(W).max() <= LARGEST:
        raise InputError(f"the largest entry of projection must lie in [{SMALLEST:g}, {LARGEST:g}]: scale it.")
    return W


def means(rows: Matrix) -> Matrix:
    """Return the mean of each column (d,), summed exactly: rounding errors of a sum would move all n rows."""
    return np.array([math.fsum(column) / len(rows) for column in rows.T])


def bounded_rows(cells: Matrix, middle: Matrix, scale: Matrix, row_norm: float) -> Matrix:
    """Scale each row and project it on the ball of radius R, (n, d); a row that is not finite becomes 0."""
    with np.errstate(all="ignore"):  # a floating-point warning would depend on the data
        rows = (cells - middle) / scale
        rows[~np.isfinite(rows).all(axis=1)] = 0.0
        norms = np.linalg.norm(rows, axis=1)  # (n,), infinite where squares overflow: that row becomes 0
        return np.asarray(rows * np.minimum(1.0, row_norm / np.maximum(norms, np.finfo(float).tiny))[:, None])
