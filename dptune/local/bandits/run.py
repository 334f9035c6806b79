"""A run of one of the three LDP algorithms without a framework: it takes numbered replies and returns parameters.

Front ends translate; this file decides. The state depends only on the replies in the order of their numbers (a trial's
number), not on their order of arrival. So storage suffices: a restart replays it, a second process reads others'
replies, and a lost reply's number is skipped. Only privatised replies arrive here.

When a reply comes late, the run goes back to the last checkpoint before its number and replays from there. The ages of
checkpoints grow geometrically: there are O(log t) of them, and a reply that comes ``a`` numbers late costs O(a) rounds.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from operator import itemgetter

from dptune._checks import at_least, boolean, function, plain, real, shown
from dptune._store import ForkSafeLock
from dptune.errors import InputError
from dptune.local.bandits.bandit import LARGEST_REPLY, LDPSettings, LocalBandit
from dptune.local.bandits.curator import Curator, Key, design, key_of
from dptune.space import Float, Space, Value

STEP = 16  # replies between the youngest checkpoints


class LDPRun:
    """One run of LDPTGP, LDPATA or LDPMoMA on a search space; thread-safe.

    Args:
        settings: of the algorithm; the kernel is on the unit cube.
        maximize: whether large replies are good.
        candidates: parameters users may be asked to try, rounded to whole numbers and steps; default a design.
        count: number of points of that design, before rounding makes some points equal.
        centre: middle of the randomiser's interval; it is subtracted from the replies.

    Raises:
        InputError: a setting is out of range, or a candidate outside the space.
    """

    def __init__(
        self,
        algorithm: type[LocalBandit],
        space: Space,
        settings: LDPSettings,
        *,
        maximize: bool,
        candidates: Sequence[Mapping[str, Value]] | None = None,
        count: int = 128,
        centre: float = 0.0,
    ) -> None:
        middle = real(centre)
        count = at_least("count", count, 1)
        if middle is None:
            raise InputError(f"centre must be a finite number; got {shown(centre)}.")
        self.space = space
        self._sign = 1.0 if boolean("maximize", maximize) else -1.0
        self._centre = middle
        keys = design(space, count, seed=settings.seed) if candidates is None else _keys(space, candidates)
        self._curator = Curator(function("algorithm", algorithm), space, settings, keys)
        self._checkpoints: list[tuple[int, Curator]] = [(0, self._curator.copy())]
        self._told: list[tuple[int, Key, float]] = []  # numbers increase
        self._folded = 0  # number of replies that the curator has learned from
        self._unsure = False  # an exception (most often Ctrl-C) may have interrupted an update of these two
        self._lock = ForkSafeLock()

    def tell(self, number: int, parameters: Mapping[str, Value], reply: float) -> bool:
        """Take the privatised reply with this number >= 0, unless it is known; return whether it was taken.

        ``parameters`` are where the user measured, after rounding. Replies that are not finite, exceed 1e100 in
        magnitude, or lie outside the space are ignored.
        """
        number = at_least("number", number, 0)
        key = key_of(self.space, parameters)
        value = self._sign * (reply - self._centre) if isinstance(reply, Real) else math.nan
        if key is None or not abs(value) < LARGEST_REPLY:
            return False
        with self._lock:
            at = bisect_left(self._told, number, key=itemgetter(0))
            if at < len(self._told) and self._told[at][0] == number:
                return False
            self._go_back(at)
            self._told.insert(at, (number, key, value))  # last: an interrupt loses this reply or nothing
        return True

    def ask(self, pending: Iterable[Mapping[str, Value]] = ()) -> dict[str, Value]:
        """The parameters the next user should try; others are trying ``pending``, see :meth:`LocalBandit.ask`."""
        keys = (key_of(self.space, parameters) for parameters in pending)
        with self._lock, self._newest() as curator:
            return self._named(curator.ask(key for key in keys if key is not None))

    def recommend(self) -> dict[str, Value]:
        """Return the tried candidate with the largest posterior mean (smallest, to minimise)."""
        with self._lock, self._newest() as curator:
            return self._named(curator.recommend())

    @property
    def candidates(self) -> list[dict[str, Value]]:
        """Parameters users may be asked to try."""
        with self._lock, self._newest() as curator:
            return [self._named(key) for key in curator.candidates]

    @property
    def bandit(self) -> LocalBandit:
        """Return a copy of the algorithm after all replies, to look at its posterior."""
        with self._lock, self._newest() as curator:
            return curator.bandit.copy()

    def _named(self, key: Key) -> dict[str, Value]:
        return dict(zip(self.space, key, strict=True))

    @contextmanager
    def _newest(self) -> Iterator[Curator]:
        """Return the curator after all replies. After an exception inside, the next call returns to a checkpoint."""
        if self._unsure:
            self._go_back(self._folded)
        self._unsure = True
        self._fold()
        yield self._curator
        self._unsure = False

    def _fold(self) -> None:
        total = len(self._told)
        while self._folded < total:
            number, key, reply = self._told[self._folded]
            self._curator.tell(number + 1, key, reply)
            self._folded += 1
            if _is_kept(self._folded, total):
                self._checkpoints.append((self._folded, self._curator.copy()))
                self._checkpoints = [(n, c) for n, c in self._checkpoints if _is_kept(n, total)]

    def _go_back(self, at: int) -> None:
        """Return to a checkpoint before the reply at position ``at``, if the curator has learned from it."""
        if at >= self._folded and not self._unsure:
            return
        self._unsure = True
        while self._checkpoints[-1][0] > at:
            self._checkpoints.pop()
        folded, saved = self._checkpoints[-1]
        self._folded = folded
        self._curator = saved.copy()
        self._unsure = False


def _is_kept(folded: int, total: int) -> bool:
    """Return whether there is a checkpoint after ``folded`` of ``total`` replies: every 16, then 32, 64, ..."""
    age = total - folded
    return folded % (STEP << max(age // STEP, 1).bit_length() - 1) == 0


def _keys(space: Space, candidates: Sequence[Mapping[str, Value]]) -> list[Key]:
    listed = candidates if isinstance(candidates, Iterable) else ()
    keys = [key_of(space, plain(dict(one))) if isinstance(one, Mapping) else None for one in listed]
    if not keys or None in keys:
        raise InputError("candidates must be a list of parameters inside the space, with at least one entry.")
    return [_on_the_grid(space, key) for key in keys if key is not None]


def _on_the_grid(space: Space, key: Key) -> Key:
    numbers = [value for value in key if isinstance(value, float | int)]  # all of them
    pairs = zip(space.values(), numbers, strict=True)
    return tuple(float(v) if isinstance(p, Float) and p.step is None else p.decode(p.encode(v)) for p, v in pairs)
