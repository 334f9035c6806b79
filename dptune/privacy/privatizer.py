"""The trusted object: it holds the losses, pays, clips, averages, adds noise, and lets nothing else out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._checks import between, shown
from dptune._locks import ForkSafeLock
from dptune.errors import InputError
from dptune.ledger.entries import Charge, Quota
from dptune.ledger.ledger import PrivacyLedger
from dptune.privacy.auto_clip import AutoClip, as_auto_clip, range_of
from dptune.privacy.held import HeldLosses, People
from dptune.privacy.mechanism import Mechanism, gaussian
from dptune.privacy.noise import NoiseSource, is_private, noise_source
from dptune.privacy.query import LARGEST, SMALLEST, Box, Interval, MeanQuery, Query
from dptune.privacy.seal.pending import PendingLosses, Waiting
from dptune.privacy.seal.private import PerExampleLosses, frameless, reveal
from dptune.privacy.table import TableQuery

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

    Promise: every release is mu-GDP under replacing all of one person's records, with n public, for a trusted
        curator. A release costs ``query.mu`` in ``ledger`` before any loss is read for it.

    Args:
        ledger: where every release is paid.
        n: number of examples, one person each. Give ``n`` or ``groups``.
        groups: (rows,) identifiers; examples with the same identifier belong to one person and are
            averaged to one loss before anything else, so that n counts people.
        clip: (low, high), finite: the losses' public range. NaN and +inf become ``high``, -inf ``low``. Default
            "auto", or an :class:`~dptune.privacy.auto_clip.AutoClip`: :meth:`choose_clip` chooses it privately, which
            front ends do in their first trial.
        person_weights: (n,) positive public weights of the mean; default equal.
        dtype: numpy.float32 (default) or float64, how rows are kept: n * itemsize bytes a point.
        pending: keeps losses that wait for their question in an encrypted file, so that a kill does not lose them.
        noise: NOT PRIVATE. Another source of noise than OpenDP's, for tests, such as ``SeededNoise(0)`` of
            :mod:`dptune.privacy`; it stamps ledger and statement.

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
        clip: tuple[float, float] | str | AutoClip = "auto",
        person_weights: npt.ArrayLike | None = None,
        dtype: type[np.float32] | type[np.float64] = np.float32,
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
        self.dtype = dtype
        self.auto = as_auto_clip(clip)
        self._clip = Interval.of(clip) if self.auto is None else None
        self._clip_is_private = True  # as far as this process knows
        self._people = People.of(n, groups, person_weights)
        self.rows, self.n = self._people.rows, self._people.n
        self.pending, self._given_noise = pending, noise
        ledger.bind_people(self.n)
        self._start()

    def _start(self) -> None:
        self._lock = ForkSafeLock()
        self._unrecorded: dict[int, Vector] = {}  # charge -> a draw that could not be recorded; nobody has seen it
        self._rows = None if self._clip is None else HeldLosses(self._people, self._clip, self.dtype)
        self._noise = noise_source(self._given_noise)

    @property
    def private(self) -> bool:
        """False if the noise is not OpenDP's, or was not when the clip was chosen: then nothing is protected."""
        return is_private(self._noise) and self._clip_is_private

    @property
    def person_weights(self) -> Vector:
        """Public weights of the people's mean (n,), which sum to 1."""
        return self._people.weights

    @property
    def interval(self) -> Interval:
        """The public range of a loss.

        Raises:
            InputError: it is to be chosen, and was not yet.
        """
        return self._held.interval

    @property
    def knows_clip(self) -> bool:
        """Whether :attr:`interval` was given, or chosen by now, in this process or in another."""
        return self._rows is not None or self._chosen() is not None

    @property
    def _held(self) -> HeldLosses:
        return self._hold(self._chosen()) if self._rows is None else self._rows

    def _hold(self, clip: Interval | None) -> HeldLosses:
        if clip is None:
            raise InputError(
                'clip="auto" is chosen from the losses of your default configuration, and was not yet: front ends do '
                "it in their first trial; without one call privatizer.choose_clip(losses) before the run begins."
            )
        with self._lock:
            if self._rows is None:
                self._rows = HeldLosses(self._people, clip, self.dtype)
            return self._rows

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
        parts = [repr((self.describe(), getattr(self._noise, "seed", None))).encode(), people.weights.tobytes()]
        parts += [b"" if people.of_row is None else np.asarray(people.of_row, dtype=np.int64).tobytes()]
        return hashlib.sha256(b"|".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()

    # ---- a clip that is chosen -----------------------------------------------------------------

    def choose_clip(
        self,
        losses: Losses | Callable[[], Losses | None],
        *,
        loss: str = "loss",
        most: float | None = None,
        mu: float | None = None,
        choice_share: float = 0.0,
    ) -> tuple[float, float]:
        """Choose the clip, once, from the losses of your default configuration; return it.

        One release by the exponential mechanism (:mod:`dptune.privacy.auto_clip`), whose mu^2 is a share of what
        nobody has spent or planned. A clip that was given, or chosen before, is returned, and costs nothing.

        Args:
            losses: per-example losses (rows,), none of them below 0, or a function that returns them, or None if the
                default configuration failed.
            loss: its name; public.
            most: the largest loss there is, public; None: there is none.
            mu: GDP budget of the run that starts next, for which there has to be room in addition; a share of its
                square
                is paid. Default what is neither spent nor planned by any run.
            choice_share: share of that run's mu^2 for a choice at its end; a new budget in (epsilon, delta) is divided
                for it. 1 before :func:`dptune.select`; front ends know it.

        Raises:
            BudgetExhausted: nothing is left; before a model is trained.
            KeyConflict: the ledger's clip of this name belongs to another kind of loss.
            InputError: there is no room for it, or too few people; or the losses have the wrong shape or dtype, or
                there are none. Nothing was charged.

        Example:
            >>> privatizer = dptune.LossPrivatizer(ledger, n=400, clip="auto")  # doctest: +SKIP
            >>> privatizer.choose_clip(losses(default))  # doctest: +SKIP
            (0.0, 11.3)
        """
        if self.auto is None or self._clip is not None:
            return self.interval.low, self.interval.high
        most = None if most is None else between("most", most, 1e3 * SMALLEST, LARGEST)
        coming = mu, between("choice_share", choice_share, 0.0, 1.0)
        self.refuse_other_loss(loss)
        if not self.knows_clip:
            self.auto.refuse(self.ledger, self.n, most, *coming)
            found = losses() if callable(losses) else losses
            if found is None:
                raise InputError(
                    "the default configuration failed, and the clip is chosen from its losses; nothing was spent. Find "
                    "out why, or give clip=(low, high)."
                )
            self._release_clip(self.auto, self.checked(found), {"loss": loss, "most": most}, *coming)
        return self.interval.low, self.interval.high

    def use_clip(self, clip: tuple[float, float]) -> None:
        """Take (low, high) instead of choosing it: it is known of the kind of loss, and nothing is released.

        Raises:
            InputError: this privatizer has another clip by now.
        """
        if self.auto is None:
            return
        if self._rows is None:
            self._clip = Interval.of(clip)
            self._hold(self._clip)
        if self.interval != Interval.of(clip):
            raise InputError(
                f"this privatizer has the clip ({self.interval.low:g}, {self.interval.high:g}), of another loss, and "
                f"this one's is {clip}: make another LossPrivatizer for it. Nothing was trained or spent."
            )

    def refuse_other_loss(self, loss: str) -> None:
        """Refuse a loss for which the clip was not chosen.

        Raises:
            KeyConflict: the clip was chosen from another.
        """
        if self.auto is not None:
            self.auto.refuse_other_loss(self.ledger, loss)

    @frameless
    def _release_clip(
        self, auto: AutoClip, losses: PerExampleLosses, about: Mapping[str, Any], mu: float | None, choice_share: float
    ) -> None:
        rule, charge = auto.charge(self.ledger, self._people.weights, about, mu, choice_share, private=self.private)
        scale = float(charge.description["sigma"])

        def draw() -> Vector:
            with np.errstate(all="ignore"):  # a floating-point warning would depend on the data
                u = rule.distances(self._people.means(reveal(losses)), self._people.weights)
            return rule.over[[self._noise.noisy_argmin(u + scale * rule.handicaps, scale)]]

        if charge.value is None:
            self._answer(charge, draw)

    def _chosen(self) -> Interval | None:
        """Return the clip that the ledger has, or the one that was given."""
        made = None if self.auto is None or self._clip is not None else self.auto.made(self.ledger)
        if made is None or made.value is None:
            return self._clip
        self._clip_is_private = made.private
        return Interval(*range_of(made.value[0], made.note["most"]))

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

    @property
    def largest_weight(self) -> float:
        """The largest weight of a person in a mean; public, 1/n if all are equal."""
        return float(self._people.weights.max())

    def sensitivity(self, query: Query) -> float:
        """Return the L2 sensitivity of the query's weighted mean under replacing one person."""
        return query.clip.diameter * self.largest_weight

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
        quota: Quota | None = None,
        mechanism: Callable[[NoiseSource], Mechanism] = gaussian,
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
        how, sensitivity = mechanism(self._noise), self.sensitivity(query)
        scale = how.scale(query, sensitivity)
        event = how.event(query, sensitivity, scale)
        self._require(query.points, scope, key)
        digest = f"{query.digest()}/{sensitivity!r}/{scale!r}/{how.settings}"
        charge = self.ledger.charge(scope, key, event, digest=digest, private=self.private, note=note, quota=quota)
        if charge.value is None:
            charge = self._answer(charge, lambda: how.draw(self._held.mean(query), scale) + how.adds_to * query.middle)
        return self._released(charge, scale)

    def release_table(
        self,
        query: TableQuery,
        read: Callable[[], Losses | None],
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
            scope, key, note: as for :meth:`release`.

        Raises:
            BudgetExhausted: it does not fit; nothing was read.
            KeyConflict: the key was used for another question.
        """
        how, sensitivity = gaussian(self._noise), query.diameter * self.largest_weight
        scale = how.scale(query, sensitivity)
        event = how.event(query, sensitivity, scale)
        digest = f"{query.digest()}/{sensitivity!r}/{scale!r}"
        charge = self.ledger.charge(scope, key, event, digest=digest, private=self.private, note=note)

        def draw() -> Vector:
            codes = read()
            known = self.checked(np.full(self.rows, np.nan) if codes is None else codes)
            return how.draw(query.mean(self._people, reveal(known)), scale)

        return self._released(charge if charge.value is not None else self._answer(charge, draw), scale)

    def _released(self, charge: Charge, scale: float) -> Released:
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
        return {**{k: v for k, v in self.__dict__.items() if k not in kept}, "pending": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._start()

    def __repr__(self) -> str:
        warning = "" if self.private else ", NOT PRIVATE"
        clip = f"({self.interval.low}, {self.interval.high})" if self.knows_clip else "to be chosen"
        return f"LossPrivatizer(n={self.n}, clip={clip}{warning})"
