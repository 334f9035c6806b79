"""The trusted object: it holds the losses, pays, clips, averages, adds noise, and lets nothing else out."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._checks import at_least, shown
from dptune._locks import ForkSafeLock
from dptune.accounting.ledger import Charge, Limit, PrivacyLedger
from dptune.errors import InputError
from dptune.privacy.clipping import per_person
from dptune.privacy.mechanism import Mechanism, gaussian
from dptune.privacy.noise import NoiseSource, is_private, noise_source
from dptune.privacy.pending import PendingLosses, Waiting
from dptune.privacy.people import count_of, float_type, interval_of, person_of_row, person_weights_of
from dptune.privacy.private import PerExampleLosses, bare, reveal
from dptune.privacy.query import Box, Interval, MeanQuery, Query
from dptune.privacy.released import Released
from dptune.privacy.rows import LossRows

Vector = npt.NDArray[np.float64]
Losses = PerExampleLosses | npt.ArrayLike

_PEOPLE_PER_CHUNK = 8192  # G of one chunk, (p, 8192) float64, stays in cache; memory beside the rows is O(p * 8192)


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
        self.interval = interval_of(clip)
        self._person = person_of_row(n, groups)  # (rows,) codes, or None: a person a row
        self.rows = count_of(n) if self._person is None else len(self._person)
        self.n = self.rows if self._person is None else int(self._person.max()) + 1
        if person_weights is not None and groups is not None:
            raise InputError("person_weights cannot go with groups: a weight would follow a person's place in a list.")
        self._weights = person_weights_of(person_weights, self.n)  # (n,), sums to 1
        self.dtype = float_type(dtype)
        self._insecure_seed = None if insecure_seed is None else at_least("insecure_seed", insecure_seed, 0)
        self.pending, self._given_noise = pending, noise
        ledger.bind_people(self.n)
        self._start()

    def _start(self) -> None:
        self._lock = ForkSafeLock()
        self._unrecorded: dict[int, Vector] = {}  # charge -> a draw that could not be recorded; nobody has seen it
        self._losses = LossRows(self.n, self.dtype)
        self._failed: set[str] = set()  # points whose evaluation failed: as private as the losses
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
        parts = [repr((self.describe(), self._insecure_seed)).encode(), self._weights.tobytes()]
        parts += [b"" if self._person is None else np.asarray(self._person, dtype=np.int64).tobytes()]
        return hashlib.sha256(b"|".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()

    # ---- private data in -----------------------------------------------------------------------

    def observe(self, point: str, losses: Losses) -> None:
        """Take the losses (rows,) of one evaluated point. A second call with the same name changes nothing.

        Args:
            point: public name of the evaluated point.
            losses: one loss per example, in a fixed order of examples.

        Raises:
            InputError: wrong length, shape or dtype; depends on public shape only.
        """
        try:
            self._take(point, self.checked(losses))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised without its frames
            failure = bare(error)
        else:
            return
        raise failure

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

    def _take(self, point: str, losses: PerExampleLosses) -> None:
        with np.errstate(all="ignore"):  # a floating-point warning would depend on the data
            self._store(point, self._clean(reveal(losses)))

    def observe_failure(self, point: str) -> None:
        """Take an evaluation that failed: every person's loss is the upper clip, unless a query says otherwise."""
        with self._lock:
            if point not in self._losses:
                self._failed.add(point)
                self._store(point, np.full(self.n, self.interval.diameter / 2))

    def copy(self, point: str, name: str) -> None:
        """Hold the losses of a point under another name, too.

        Raises:
            InputError: this process does not hold them.
        """
        with self._lock:
            if point not in self._losses:
                raise self._missing((point,))
            self._store(name, self._losses.row(point).astype(np.float64))
            self._failed.update([name] if point in self._failed else [])

    def _store(self, point: str, row: Vector) -> None:
        with self._lock:
            if point not in self._losses:
                self._losses.put(point, row)

    def _clean(self, values: Vector) -> Vector:
        """Clip to [low, high], average each person's rows, and centre at the public midpoint: (n,)."""
        low, high = self.interval.low, self.interval.high
        clipped = np.clip(np.nan_to_num(values, nan=high, posinf=high, neginf=low), low, high) - self._midpoint
        if self._person is None:
            return clipped
        return np.bincount(self._person, clipped, self.n) / np.bincount(self._person, minlength=self.n)

    @property
    def _midpoint(self) -> float:
        return (self.interval.low + self.interval.high) / 2

    def points(self) -> tuple[str, ...]:
        """Return the names of the points whose losses this process holds; public."""
        with self._lock:
            return self._losses.names()

    def forget(self, point: str) -> None:
        """Overwrite the losses of a point."""
        with self._lock:
            if point in self._losses:
                self._losses.drop(point)
                self._failed.discard(point)
                self.settle([point])

    def keep(self, point: str, *, scope: str, parameters: Mapping[str, Any]) -> None:
        """Write the losses of a point to the encrypted file, if there is one; parameters are plain JSON data.

        Raises:
            LedgerError: they cannot be written.
        """
        with self._lock:
            if self.pending is not None and point in self._losses:
                waiting = Waiting(point, scope, parameters, point in self._failed)
                self.pending.keep(waiting, self._losses.row(point), whose=self._whose())

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
            new = [(waiting, row) for waiting, row in found if waiting.point not in self._losses]
            for waiting, row in new:
                self._losses.put(waiting.point, row)
                self._failed.update([waiting.point] if waiting.failed else [])
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
        return query.clip.diameter * float(self._weights.max())

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
        if not self._holds(query.points):  # then only what is recorded can be told again
            known = self.ledger.find(scope, key)
            if known is None or known.value is None:
                raise self._missing(query.points)
        digest = f"{query.digest()}/{sensitivity!r}/{scale!r}"
        charge = self.ledger.charge(scope, key, event, digest=digest, private=self.private, note=note, limit=limit)
        if charge.value is None:
            charge = self._draw_and_record(charge, query, how, scale)
        value = np.array(charge.value, dtype=np.float64)
        value.setflags(write=False)
        return Released(value, charge, scale)

    def _draw_and_record(self, charge: Charge, query: Query, how: Mechanism, scale: float) -> Charge:
        """Draw once per charge: a draw that could not be recorded is kept for the retry, and shown to nobody."""
        try:
            return self._record(charge, self._draw(charge, query, how, scale))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised without its frames
            failure = bare(error)
        raise failure

    def drew(self, charge: Charge) -> bool:
        """Tell whether this process drew the charge's answer and has not seen it recorded."""
        return charge.seq in self._unrecorded

    def recorded(self, charge: Charge) -> Charge:
        """Return the charge with its value, if this process drew one and could not record it before.

        Raises:
            LedgerError: it cannot be recorded now either.
        """
        draw = self._unrecorded.get(charge.seq)
        if charge.value is not None or draw is None:
            return charge
        try:
            return self._record(charge, draw)
        except BaseException as error:  # noqa: BLE001 - as above
            failure = bare(error)
        raise failure

    def _draw(self, charge: Charge, query: Query, how: Mechanism, scale: float) -> Vector:
        with self._lock:
            if charge.seq not in self._unrecorded:
                centre = how.adds_to * self._centre(query)
                self._unrecorded[charge.seq] = how.draw(self._clipped_mean(query), scale) + centre
            return self._unrecorded[charge.seq]

    def _record(self, charge: Charge, draw: Vector) -> Charge:
        recorded = self.ledger.record(charge, draw.tolist())
        self._unrecorded.pop(charge.seq, None)
        return recorded

    def _holds(self, points: tuple[str, ...]) -> bool:
        with self._lock:
            return all(point in self._losses for point in points)

    def _missing(self, points: tuple[str, ...]) -> InputError:
        missing = [point for point in points if point not in self._losses]
        return InputError(
            f"this process holds no losses for {missing[:3]}; losses live in the memory of the process that observed "
            "them. Evaluate the points again."
        )

    def _clipped_mean(self, query: Query) -> Vector:
        """Return sum_i w_i clip(W L_i) less :meth:`_centre`, shape (p,), in float64."""
        with self._lock, np.errstate(all="ignore"):  # a floating-point warning would depend on the data
            parts = []  # (chunks, p)
            for first in range(0, self.n, _PEOPLE_PER_CHUNK):
                people = slice(first, min(first + _PEOPLE_PER_CHUNK, self.n))
                g = self._statistic(query, people)  # (p, people)
                parts.append(per_person(g, query, self._centre(query)) @ self._weights[people])
            return np.array([math.fsum(column) for column in np.transpose(parts)])  # exact: see noise.SLACK

    def _statistic(self, query: Query, people: slice) -> Vector:
        """Return W L_i of these people, each less :meth:`_centre` if the query is a mean, (p, people)."""
        W = query.weights
        centre = self._centre(query) if isinstance(query, MeanQuery) else 0.0
        if query.saturate_above is None:
            weights, offset = self._effective(query, W)
            return self._losses.combine(query.points, weights, people) + (offset - centre)[:, None]
        weights, offset = self._effective(query, np.eye(W.shape[1]))
        L = self._losses.combine(query.points, weights, people) + offset[:, None]  # (m, people)
        return W @ np.minimum(L, np.median(L, axis=0) + query.saturate_above) - centre

    def _effective(self, query: Query, W: Vector) -> tuple[Vector, Vector]:
        """Return what is applied to the rows held for W (p, m): such a matrix, and an offset (p,)."""
        failed = np.array([point in self._failed for point in query.points])  # (m,)
        offset = self._midpoint * W.sum(axis=1)  # of the rows' centring
        if query.failed_above is None or not failed.any() or failed.all():
            return W, offset
        theirs = W[:, failed].sum(axis=1)  # (p,), now of the others' mean plus failed_above
        return np.where(failed, 0.0, W + theirs[:, None] / np.sum(~failed)), offset + query.failed_above * theirs

    def _centre(self, query: Query) -> float:
        """Return what is added after the noise: a range far from 0 would round the mean by more than noise covers."""
        return (query.clip.low + query.clip.high) / 2 if isinstance(query.clip, Interval) else 0.0

    # ---- copies share the budget and hold no losses ----------------------------------------------

    def __getstate__(self) -> dict[str, object]:
        kept = {"_lock", "_losses", "_failed", "_noise", "_unrecorded"}
        return {**{k: v for k, v in self.__dict__.items() if k not in kept}, "pending": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._start()

    def __repr__(self) -> str:
        warning = "" if self.private else ", NOT PRIVATE"
        return f"LossPrivatizer(n={self.n}, clip=({self.interval.low}, {self.interval.high}){warning})"
