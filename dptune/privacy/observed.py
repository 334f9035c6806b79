"""The input of private losses: their people, the clip that bounds them, and their storage until release.

Nothing is released here: :class:`dptune.LossPrivatizer`, which extends this class, releases.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._arrays import Vector
from dptune._store import ForkSafeLock
from dptune.errors import InputError
from dptune.ledger.ledger import PrivacyLedger
from dptune.privacy.noise import NoiseSource, noise_source
from dptune.privacy.places import HeldAtPlaces, ModelToAsk, Places
from dptune.privacy.query import Interval
from dptune.privacy.seal.private import PerExampleLosses, reveal, without_frames
from dptune.privacy.stored_losses import People, StoredLosses

Losses = PerExampleLosses | npt.ArrayLike | ModelToAsk


class ObservedLosses:
    """The losses of a :class:`dptune.LossPrivatizer`, which documents the arguments."""

    def __init__(
        self,
        ledger: PrivacyLedger,
        *,
        n: int | None = None,
        groups: npt.ArrayLike | None = None,
        places: Places | None = None,
        clip: tuple[float, float] | None = None,
        person_weights: npt.ArrayLike | None = None,
        dtype: type[np.float32] | type[np.float64] = np.float32,
        noise: NoiseSource | None = None,
    ) -> None:
        self._given_noise = noise
        if not isinstance(ledger, PrivacyLedger):
            raise InputError('the first argument must be a PrivacyLedger, e.g. PrivacyLedger("ledger.db", budget).')
        self.ledger = ledger
        if dtype is not np.float32 and dtype is not np.float64:
            raise InputError("dtype must be numpy.float32 or numpy.float64.")
        self.dtype = dtype
        self._clip = None if clip is None else Interval.of(clip)
        self._clip_given = clip is not None
        if places is not None and not (isinstance(places, Places) and n is groups is person_weights is None):
            raise InputError("dptune.Places know their people: give no n=, groups= or weights. Nothing was charged.")
        self.places = places
        self._people = People.of(n if places is None else ledger.n or places.n, groups, person_weights)
        self.rows, self.n = self._people.rows, self._people.n
        self._start()
        ledger.check_people(self.n)  # the first charge fixes it

    def _start(self) -> None:
        self._lock = ForkSafeLock()
        self._noise = noise_source(self._given_noise)
        self._rows: StoredLosses | HeldAtPlaces | None = None if self._clip is None else self._empty()

    def _empty(self) -> StoredLosses | HeldAtPlaces:
        if self.places is not None:
            return HeldAtPlaces(self.places, self.n, self.interval, self.dtype)
        return StoredLosses(self._people, self.interval, self.dtype)

    @property
    def interval(self) -> Interval:
        """Return the public range of a loss.

        Raises:
            InputError: it was not given, and the loss has no range of its own.
        """
        if self._clip is None:
            raise InputError(
                "clip=(low, high) is missing, the public range of one person's loss. Find it with "
                "dptune.clip_from(losses), from the default's losses on public or made-up rows. A bounded loss "
                "(zero_one, brier) and public_losses= need no clip. Nothing was charged."
            )
        return self._clip

    @property
    def knows_clip(self) -> bool:
        """Return whether :attr:`interval` was given, or follows from the loss or from public rows."""
        return self._clip is not None

    @property
    def clip_given(self) -> bool:
        """Return whether the user gave :attr:`interval`, which then is that of every loss."""
        return self._clip_given

    @property
    def _held(self) -> StoredLosses | HeldAtPlaces:
        with self._lock:
            if self._rows is None:
                self._rows = self._empty()
            return self._rows

    @property
    def loss_range(self) -> float:
        """Return the width of the clipping interval, high - low."""
        return self.interval.diameter

    @property
    def largest_weight(self) -> float:
        """Return the largest weight of a person in a mean; public, 1/n if all are equal."""
        return float(self._people.weights.max())

    @property
    def weighted(self) -> bool:
        """Return whether people have unequal weights."""
        return self._people.relative_weights is not None

    @property
    def squared_weights(self) -> float:
        """Return the sum of the squared weights of people in a mean; public, 1/n if all are equal."""
        weights = np.array(self._people.weights)
        return float(weights @ weights)

    def use_clip(self, clip: tuple[float, float] | None) -> None:
        """Use (low, high), which the loss or public rows imply, unless the user gave a range; None: they imply none.

        Raises:
            InputError: this privatizer already has the range of another loss, or of other public losses.
        """
        implied = None if clip is None else Interval.of(clip)
        self._clip = self._clip or implied
        if self._clip != implied and self._clip is not None and not self._clip_given:
            mine = "unknown" if clip is None else clip
            raise InputError(
                f"this privatizer has the clip ({self._clip.low:g}, {self._clip.high:g}), of another loss or of other "
                f"public losses, and this one's is {mine}: make another LossPrivatizer for it. Nothing was "
                "charged."
            )

    # ---- private data in -----------------------------------------------------------------------

    @without_frames
    def observe(self, point: str, losses: Losses) -> None:
        """Store the losses (rows,) of one evaluated point. A second call with the same name changes nothing.

        Args:
            point: public name of the evaluated point.
            losses: one loss per example, in a fixed order of examples; or the model that places are to ask.

        Raises:
            InputError: wrong length, shape or dtype; depends on public shape only.
        """
        held = self._held
        if isinstance(held, HeldAtPlaces):
            if not isinstance(losses, ModelToAsk):
                raise InputError("this privatizer's people are at places, which compute losses: give their models.")
            self._add(point, losses)
            return
        self._add(point, held.clean(reveal(self.checked(losses))))

    def _add(self, point: str, row: Any, *, failed: bool = False) -> None:
        with self._lock:
            if point not in self._held:
                self._held.add(point, row, failed=failed)

    @without_frames
    def submit(self, point: str, losses: Losses | None) -> None:
        """Store the losses (rows,) of a point; None: its evaluation failed.

        Then every person's loss is the upper clip, unless a query defines it.
        """
        if losses is not None:
            self.observe(point, losses)
            return
        row = None if self.places else np.full(self.n, self.interval.diameter / 2)
        self._add(point, row, failed=True)

    def checked(self, losses: Losses) -> PerExampleLosses:
        """Return the losses (rows,) if :meth:`observe` would accept them.

        Raises:
            InputError: wrong length, shape or dtype; depends on public shape only.
        """
        if isinstance(losses, ModelToAsk):
            raise InputError("a model to ask needs a LossPrivatizer(ledger, places=...), whose places have rows.")
        wrapped = losses if isinstance(losses, PerExampleLosses) else PerExampleLosses(losses)
        if len(wrapped) != self.rows:
            raise InputError(
                f"expected {self.rows} per-example losses, one per example, also for examples that fail: n= or "
                "groups= says how many. A table of losses has one row for each candidate."
            )
        return wrapped

    def points(self) -> tuple[str, ...]:
        """Return the names of the points whose losses this process holds; public."""
        with self._lock:
            return self._held.points()

    def forget(self, point: str) -> None:
        """Overwrite the losses of a point."""
        with self._lock:
            if point in self._held:
                self._held.drop(point)

    def _missing(self, points: tuple[str, ...]) -> InputError:
        missing = [point for point in points if point not in self._held]
        return InputError(
            f"this process holds no losses for {missing[:3]}; losses live in the memory of the process that observed "
            "them. Evaluate the points again."
        )

    def _values(self, losses: PerExampleLosses) -> Vector:
        """Return the private values (rows,) of checked losses, as samples."""
        return reveal(losses)
