"""The trusted object: it charges, reads the losses, clips, averages, adds noise, records, and reveals nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dptune._arrays import Vector
from dptune._checks import attempt
from dptune.errors import InputError
from dptune.ledger.entries import Charge, Quota
from dptune.privacy.mechanism import GaussianMechanism, Mechanism
from dptune.privacy.noise import NoiseSource, is_private
from dptune.privacy.observed import Losses as Losses
from dptune.privacy.observed import ObservedLosses
from dptune.privacy.places import HeldAtPlaces, ModelToAsk, table_mean
from dptune.privacy.query import Box, MeanQuery, Query, names_of_points
from dptune.privacy.seal.private import without_frames

if TYPE_CHECKING:
    from dptune.privacy.table import TableQuery


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
        """Return the value of a release with p = 1, as a Python float."""
        return float(self.value.item())


class LossPrivatizer(ObservedLosses):
    """Answers mean queries (and shares of people, which are means) about private losses, after paying for them.

    Promise: every release is mu-GDP under replacing all of one person's records, with n public, for a trusted
        curator. A release costs ``query.mu`` in ``ledger`` before any loss is read for it.

    Args:
        ledger: where every release is paid.
        n: number of examples, one person each. Give ``n`` or ``groups``.
        places: instead: :class:`dptune.Places`, which have the people and add over them.
        groups: (rows,) identifiers; examples with the same identifier belong to one person and are
            averaged to one loss before anything else, so that n counts people.
        clip: (low, high), finite: the losses' public range. NaN and +inf become ``high``, -inf ``low``. Default the
            range of a bounded loss such as ``zero_one``, or what public rows say (:class:`dptune.PublicChoice`).
        person_weights: (n,) positive public weights of the mean; default equal.
        dtype: numpy.float32 (default) or float64, how rows are kept: n * itemsize bytes a point.
        noise: NOT PRIVATE. Another source of noise than OpenDP's, for tests, such as ``SeededNoise(0)`` of
            :mod:`dptune.privacy`; it stamps ledger and statement.

    Raises:
        InputError: a setting is not usable; before any data is read.
        BudgetMismatch: the ledger protects another number of people.
    """

    def _start(self) -> None:
        super()._start()
        self._unrecorded: dict[int, Vector] = {}  # charge -> a draw that could not be recorded and was not shown

    @property
    def private(self) -> bool:
        """False if the noise is not OpenDP's: then nothing is protected."""
        return is_private(self._noise)

    def describe(self) -> dict[str, object]:
        """Return the public settings as plain JSON data, without seed and groups, by which a run is recognised."""
        clip = [self.interval.low, self.interval.high]
        facts = {"n": self.n, "rows": self.rows, "clip": clip, "dtype": self.dtype.__name__, "private": self.private}
        return {**facts, "person_weights": self._people.weights_digest()}

    def fingerprint(self) -> str:
        """Return a digest of all settings, with seed, groups and weights; to compare in memory, never to store.

        Who belongs to whom could be guessed from a digest of few groups.
        """
        people = self._people
        parts = [repr((self.describe(), getattr(self._noise, "seed", None))).encode(), people.weights.tobytes()]
        parts += [b"" if people.of_row is None else np.asarray(people.of_row, dtype=np.int64).tobytes()]
        return hashlib.sha256(b"|".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()

    # ---- released values out -------------------------------------------------------------------

    def mean_query(self, point: str, mu: float) -> MeanQuery:
        """Return the question "the mean clipped loss at this point"."""
        return MeanQuery((point,), np.ones((1, 1)), self.interval, mu)

    def means_query(self, points: Sequence[str], mu: float) -> MeanQuery:
        """Return the joint question "the mean clipped losses at these points"."""
        names = names_of_points(attempt(tuple, points, failed=points))
        return MeanQuery(names, np.eye(len(names)), Box(self.interval.low, self.interval.high, len(names)), mu)

    def sensitivity(self, query: Query) -> float:
        """Return the L2 sensitivity of the query's weighted mean under replacing one person."""
        return query.clip.diameter * self.largest_weight

    def sigma(self, query: Query) -> float:
        """Return the noise's standard deviation per coordinate."""
        return GaussianMechanism(self._noise).scale(query, self.sensitivity(query))

    def release(
        self,
        query: Query,
        *,
        scope: str,
        key: str,
        note: Mapping[str, object] | None = None,
        quota: Quota | None = None,
        mechanism: Callable[[NoiseSource], Mechanism] = GaussianMechanism,
    ) -> Released:
        """Charge, then read, then draw, then record. A retry with the same key costs nothing.

        Args:
            query: what to release.
            scope: the study, name space of ``key`` in the ledger.
            key: idempotency key; the same key always gives the same value.
            note: public JSON data to store with the charge.
            quota: how many charges of a kind the scope may make.
            mechanism: makes a release of the statistic, with the privatizer's source of noise; default Gaussian.

        Raises:
            BudgetExhausted: it does not fit; nothing was read.
            PlanComplete: the quota is used; nothing was read.
            KeyConflict: the key was used for another question.
            InputError: the losses of a point are not held by this process; nothing was charged.
        """
        how = mechanism(self._noise)
        level = query.middle if how.adds_level else 0.0
        self._require(query.points, scope, key)
        return self._release(
            query,
            how,
            self.sensitivity(query),
            lambda: self._mean(query),
            level=level,
            scope=scope,
            key=key,
            note=note,
            quota=quota,
        )

    def release_table(
        self,
        query: TableQuery,
        read: Callable[[], Losses | None] | ModelToAsk,
        *,
        scope: str,
        key: str,
        note: Mapping[str, object] | None = None,
    ) -> Released:
        """Charge for a table of people by public cells, then read, then draw, then record.

        Args:
            query: what to release.
            read: returns the code of each example's cells (rows,), see :func:`dptune.privacy.table.code_of`; NaN where
                they are unknown, None where all are. It is called after the charge, and not if the answer is known.
                With places the model that they ask.
            scope, key, note: as for :meth:`release`.

        Raises:
            BudgetExhausted: it does not fit; nothing was read.
            KeyConflict: the key was used for another question.
        """
        how = GaussianMechanism(self._noise)
        sensitivity = query.diameter * self.largest_weight
        places: Any = self.places
        if isinstance(read, ModelToAsk) and places is None:
            self.checked(read)  # refuses it

        def statistic() -> Vector:
            if isinstance(read, ModelToAsk):
                return table_mean(places, query, read)
            codes = read()
            checked = self.checked(np.full(self.rows, np.nan) if codes is None else codes)
            return query.mean(self._people, self._values(checked))

        if isinstance(read, ModelToAsk) and not self.answered(scope, key):
            places.ready(read.recipe, (), self.n)
        return self._release(query, how, sensitivity, statistic, scope=scope, key=key, note=note)

    def _release(
        self,
        query: Query | TableQuery,
        how: Mechanism,
        sensitivity: float,
        statistic: Callable[[], Vector],
        *,
        scope: str,
        key: str,
        note: Mapping[str, object] | None,
        level: Vector | float = 0.0,
        quota: Quota | None = None,
    ) -> Released:
        """Charge, then read and draw, then record: the only way to release. A recorded answer is returned."""
        scale = how.scale(query, sensitivity)
        event = how.event(query, sensitivity, scale)
        digest = f"{query.digest()}/{sensitivity!r}/{scale!r}/{how.settings}/{self._people.weights_digest()}"
        private = self.private
        if self.places is not None and not self.answered(scope, key):
            note = {**(note or {}), "places": self.places.people}
        charge = self.ledger.charge(
            scope, key, event, digest=digest, private=private, note=note, quota=quota, people=self.n
        )
        if charge.value is None:
            charge = self._answer(charge, lambda: how.draw(statistic(), scale) + level)
        value = np.array(charge.value, dtype=np.float64)
        value.setflags(write=False)
        return Released(value, charge, scale)

    def ready(self, points: Sequence[str]) -> None:
        """Make sure, before a plan is stored or charged, that every place can ask the models of these points."""
        if isinstance(held := self._held, HeldAtPlaces):
            held.ready(points)

    def _require(self, points: tuple[str, ...], scope: str, key: str) -> None:
        """Refuse a query about points that are not stored, or places that are away, unless its answer is recorded."""
        with self._lock:
            stored = all(point in self._held for point in points)
        if (stored and self.places is None) or self.answered(scope, key):
            return
        if not stored:
            raise self._missing(points)
        self.ready(points)

    def answered(self, scope: str, key: str) -> bool:
        """Return whether the ledger has the answer of a release."""
        charge = self.ledger.find(scope, key)
        return charge is not None and charge.value is not None

    def _mean(self, query: Query) -> Vector:
        if not all(point in self._held for point in query.points):
            raise self._missing(query.points)
        return self._held.mean(query)

    @without_frames
    def _answer(self, charge: Charge, draw: Callable[[], Vector]) -> Charge:
        """Read and draw once per charge, and record; a draw that cannot be recorded is kept but not shown."""
        with self._lock:
            if charge.seq not in self._unrecorded:
                try:
                    self._unrecorded[charge.seq] = draw()
                except InputError:  # another thread may have recorded the answer and forgotten the losses
                    known = self.ledger.find(charge.scope, charge.key)
                    if known is None or known.value is None:
                        raise
                    return known
            drawn = self._unrecorded[charge.seq]
        recorded = self.ledger.record(charge, drawn.tolist())
        self._unrecorded.pop(charge.seq, None)
        return recorded

    def drew(self, charge: Charge) -> bool:
        """Return whether this process drew the charge's answer and has not seen it recorded."""
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
        kept = {"_lock", "_rows", "_noise", "_unrecorded"}
        return {k: v for k, v in self.__dict__.items() if k not in kept}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._start()

    def __repr__(self) -> str:
        warning = "" if self.private else ", NOT PRIVATE"
        clip = f"({self.interval.low}, {self.interval.high})" if self.knows_clip else "unknown"
        return f"LossPrivatizer(n={self.n}, clip={clip}{warning})"
