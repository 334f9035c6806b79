"""The trusted object: it holds the losses, pays, clips, averages, adds noise, and lets nothing else out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._checks import at_least, shown
from dptune._locks import ForkSafeLock
from dptune.accounting.ledger import Charge, Limit, PrivacyLedger
from dptune.errors import InputError
from dptune.privacy.held import HeldLosses, People
from dptune.privacy.mechanism import Mechanism, gaussian
from dptune.privacy.noise import NoiseSource, is_private, noise_source
from dptune.privacy.pending import PendingLosses, Waiting
from dptune.privacy.private import PerExampleLosses, frameless, reveal
from dptune.privacy.query import Box, Interval, MeanQuery, Query

Vector = npt.NDArray[np.float64]
Losses = PerExampleLosses | npt.ArrayLike


@dataclass(frozen=True)
class Released:
    """A released vector and the charge that paid for it. Built by ``LossPrivatizer.release`` only.

    Attributes:
        value: (p,), read-only; public.
        charge: the ledger's record of it.
        sigma: standard deviation of the noise per coordinate.
    """

    value: Vector
    charge: Charge
    sigma: float

    @property
    def scalar(self) -> float:
        """The value of a release with p = 1, as a Python float."""
        return float(self.value.item())


class LossPrivatizer:
    """Answers mean queries (and shares of people, which are means) about private losses, after paying for them.

    Promise: every release is mu-GDP under replacing all of one person's records, with n public, for a
    trusted curator; a release costs ``query.mu`` in ``ledger`` before any loss is read for it.

    Args:
        ledger: where every release is paid.
        n: number of examples, one person each. Give ``n`` or ``groups``.
        groups: (rows,) identifiers; examples with the same identifier belong to one person and are
            averaged to one loss before anything else, so that n counts people.
        clip: (low, high), finite: the losses' public range. NaN and +inf become ``high``, -inf ``low``.
        person_weights: (n,) positive public weights of the mean; default equal.
        dtype: numpy.float32 (default) or float64, how rows are kept: n * itemsize bytes a point.
        insecure_seed: NOT PRIVATE. Reproducible noise for tests; stamps ledger and statement.
        pending: keeps losses that wait for their question in an encrypted file, so that a kill does not lose them.
        noise: NOT PRIVATE. Another source of noise than OpenDP's, for tests; stamps like ``insecure_seed``.

    Raises:
        InputError: a setting is not usable; before any data is read.
        BudgetMismatch: the ledger protects another number of people.
    """

    def __init__(
        self,
        ledger: PrivacyLedger,
        *,
        n: int | None = None,
        groups: npt.ArrayLike | None = None,
        clip: tuple[float, float],
        person_weights: npt.ArrayLike | None = None,
        dtype: type[np.float32] | type[np.float64] = np.float32,
        insecure_seed: int | None = None,
        pending: PendingLosses | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        if not isinstance(ledger, PrivacyLedger):
            raise InputError('the first argument must be a PrivacyLedger, e.g. PrivacyLedger("ledger.db", budget).')
        if pending is not None and not isinstance(pending, PendingLosses):
            raise InputError(f"pending must be PendingLosses(path, PendingLosses.new_key()); got {shown(pending)}.")
        self.ledger = ledger
        if dtype is not np.float32 and dtype is not np.float64:
            raise InputError("dtype must be numpy.float32 or numpy.float64.")
        self.interval, self.dtype = Interval.of(clip), dtype
        self._people = People.of(n, groups, person_weights)
        self.rows, self.n = self._people.rows, self._people.n
        self._insecure_seed = None if insecure_seed is None else at_least("insecure_seed", insecure_seed, 0)
        self.pending, self._given_noise = pending, noise
        ledger.bind_people(self.n)
        self._start()

    def _start(self) -> None:
        self._lock = ForkSafeLock()
        self._unrecorded: dict[int, Vector] = {}  # charge -> a draw that could not be recorded; nobody has seen it
        self._held = HeldLosses(self._people, self.interval, self.dtype)
        self._noise = noise_source(self._given_noise, self._insecure_seed)

    @property
    def private(self) -> bool:
        """False if the noise is not OpenDP's: then nothing is protected."""
        return is_private(self._noise)

    @property
    def loss_range(self) -> float:
        """Width of the clipping interval, high - low."""
        return self.interval.diameter

    def describe(self) -> dict[str, object]:
        """Return the public settings as plain JSON data, without seed and groups, by which a run is recognised."""
        clip = [self.interval.low, self.interval.high]
        return {"n": self.n, "rows": self.rows, "clip": clip, "dtype": self.dtype.__name__, "private": self.private}

    def fingerprint(self) -> str:
        """Return a digest of all settings, with seed, groups and weights; to compare in memory, never to store.

        Who belongs to whom could be guessed from a digest of few groups.
        """
        people = self._people
        parts = [repr((self.describe(), self._insecure_seed)).encode(), people.weights.tobytes()]
        parts += [b"" if people.of_row is None else np.asarray(people.of_row, dtype=np.int64).tobytes()]
        return hashlib.sha256(b"|".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()

    # ---- private data in -----------------------------------------------------------------------

    @frameless
    def observe(self, point: str, losses: Losses) -> None:
        """Take the losses (rows,) of one evaluated point. A second call with the same name changes nothing.

        Args:
            point: public name of the evaluated point.
            losses: one loss per example, in a fixed order of examples.

        Raises:
            InputError: wrong length, shape or dtype; depends on public shape only.
        """
        wrapped = self.checked(losses)
        with np.errstate(all="ignore"):  # a floating-point warning would depend on the data
            row = self._held.clean(reveal(wrapped))
        with self._lock:
            if point not in self._held:
                self._held.add(point, row)

    def checked(self, losses: Losses) -> PerExampleLosses:
        """Return the losses (rows,) if :meth:`observe` would take them.

        Raises:
            InputError: wrong length, shape or dtype; depends on public shape only.
        """
        wrapped = losses if isinstance(losses, PerExampleLosses) else PerExampleLosses(losses)
        if len(wrapped) != self.rows:
            raise InputError(
                f"expected {self.rows} per-example losses, one per example, also for examples that fail; the n= or "
                "groups= of the LossPrivatizer says how many."
            )
        return wrapped

    def observe_failure(self, point: str) -> None:
        """Take an evaluation that failed: every person's loss is the upper clip, unless a query says otherwise."""
        with self._lock:
            if point not in self._held:
                self._held.add(point, np.full(self.n, self.interval.diameter / 2), failed=True)

    def copy(self, point: str, name: str) -> None:
        """Hold the losses of a point under another name, too.

        Raises:
            InputError: this process does not hold them.
        """
        with self._lock:
            if point not in self._held:
                raise self._missing((point,))
            if name not in self._held:
                self._held.add(name, self._held.row(point), failed=point in self._held.failed)

    def points(self) -> tuple[str, ...]:
        """Return the names of the points whose losses this process holds; public."""
        with self._lock:
            return self._held.points()

    def forget(self, point: str) -> None:
        """Overwrite the losses of a point."""
        with self._lock:
            if point in self._held:
                self._held.drop(point)
                self.settle([point])

    def keep(self, point: str, *, scope: str, parameters: Mapping[str, Any]) -> None:
        """Write the losses of a point to the encrypted file, if there is one; parameters are plain JSON data.

        Raises:
            LedgerError: they cannot be written.
        """
        with self._lock:
            if self.pending is not None and point in self._held:
                waiting = Waiting(point, scope, parameters, point in self._held.failed)
                self.pending.keep(waiting, self._held.row(point), whose=self._whose())

    def settle(self, points: Collection[str]) -> None:
        """Delete the losses of points from the encrypted file: a kill loses nothing of them any more."""
        if self.pending is not None:
            self.pending.drop(points)

    def kept(self, scope: str) -> list[Waiting]:
        """Take back what a killed process has left of a run in the encrypted file, as far as this one lacks it.

        Raises:
            InputError: they were written with another key, or by another privatizer.
        """
        with self._lock:
            found = [] if self.pending is None else self.pending.rows(scope, whose=self._whose())
            new = [(waiting, row) for waiting, row in found if waiting.point not in self._held]
            for waiting, row in new:
                self._held.add(waiting.point, row, failed=waiting.failed)
            return [waiting for waiting, _ in new]

    def _whose(self) -> list[object]:
        return [self.ledger.mark()["ledger"], self.fingerprint()]

    # ---- released values out -------------------------------------------------------------------

    def mean_query(self, point: str, mu: float) -> MeanQuery:
        """Return the question "the mean clipped loss at this point"."""
        return MeanQuery((point,), np.ones((1, 1)), self.interval, mu)

    def means_query(self, points: Sequence[str], mu: float) -> MeanQuery:
        """Return the joint question "the mean clipped losses at these points"."""
        box = Box(self.interval.low, self.interval.high, len(points))
        return MeanQuery(tuple(points), np.eye(len(points)), box, mu)

    def sensitivity(self, query: Query) -> float:
        """Return the L2 sensitivity of the query's weighted mean under replacing one person."""
        return query.clip.diameter * float(self._people.weights.max())

    def sigma(self, query: Query) -> float:
        """Return the noise's standard deviation per coordinate."""
        return gaussian(self._noise).scale(query, self.sensitivity(query))

    def release(
        self,
        query: Query,
        *,
        scope: str,
        key: str,
        note: Mapping[str, object] | None = None,
        limit: Limit | None = None,
        mechanism: Callable[[NoiseSource], Mechanism] = gaussian,
    ) -> Released:
        """Charge, then read, then draw, then record. A retry with the same key costs nothing.

        Args:
            query: what to release.
            scope: the study, name space of ``key`` in the ledger.
            key: idempotency key; the same key always gives the same value.
            note: public JSON data to store with the charge.
            limit: how many charges of a kind the scope may make.
            mechanism: makes a release of the statistic, with the privatizer's source of noise; default Gaussian.

        Raises:
            BudgetExhausted: it does not fit; nothing was read.
            PlanComplete: the limit is reached; nothing was read.
            KeyConflict: the key was used for another question.
            InputError: the losses of a point are not held by this process; nothing was charged.
        """
        how, sensitivity = mechanism(self._noise), self.sensitivity(query)
        scale = how.scale(query, sensitivity)
        event = how.event(query, sensitivity, scale)
        self._require(query.points, scope, key)
        digest = f"{query.digest()}/{sensitivity!r}/{scale!r}"
        charge = self.ledger.charge(scope, key, event, digest=digest, private=self.private, note=note, limit=limit)
        if charge.value is None:
            charge = self._answer(charge, lambda: how.draw(self._held.mean(query), scale) + how.adds_to * query.middle)
        value = np.array(charge.value, dtype=np.float64)
        value.setflags(write=False)
        return Released(value, charge, scale)

    def _require(self, points: tuple[str, ...], scope: str, key: str) -> None:
        """Refuse a question about points that are not held, unless its answer is recorded."""
        with self._lock:
            if all(point in self._held for point in points):
                return
        known = self.ledger.find(scope, key)
        if known is None or known.value is None:
            raise self._missing(points)

    def _missing(self, points: tuple[str, ...]) -> InputError:
        missing = [point for point in points if point not in self._held]
        return InputError(
            f"this process holds no losses for {missing[:3]}; losses live in the memory of the process that observed "
            "them. Evaluate the points again."
        )

    @frameless
    def _answer(self, charge: Charge, draw: Callable[[], Vector]) -> Charge:
        """Read and draw once per charge, and record: a draw that cannot be recorded is kept, and shown to nobody."""
        with self._lock:
            if charge.seq not in self._unrecorded:
                self._unrecorded[charge.seq] = draw()
            drawn = self._unrecorded[charge.seq]
        recorded = self.ledger.record(charge, drawn.tolist())
        self._unrecorded.pop(charge.seq, None)
        return recorded

    def drew(self, charge: Charge) -> bool:
        """Tell whether this process drew the charge's answer and has not seen it recorded."""
        return charge.seq in self._unrecorded

    def recorded(self, charge: Charge) -> Charge:
        """Return the charge with its value, if this process drew one and could not record it before.

        Raises:
            LedgerError: it cannot be recorded now either.
        """
        drawn = self._unrecorded.get(charge.seq)
        return charge if charge.value is not None or drawn is None else self._answer(charge, lambda: drawn)

    # ---- copies share the budget and hold no losses ----------------------------------------------

    def __getstate__(self) -> dict[str, object]:
        kept = {"_lock", "_held", "_noise", "_unrecorded"}
        return {**{k: v for k, v in self.__dict__.items() if k not in kept}, "pending": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._start()

    def __repr__(self) -> str:
        warning = "" if self.private else ", NOT PRIVATE"
        return f"LossPrivatizer(n={self.n}, clip=({self.interval.low}, {self.interval.high}){warning})"
