"""The local privacy statement: what may be claimed about the users of a ledger, and what is not covered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dptune._numbers import finite, rounded_up
from dptune._statement import Printable

UNIT = "one user and all their replies"
ADJACENCY = "any two values of the user, at every reply"
TRUST_MODEL = (
    "local: the user's own device, which measures the value and makes the reply; curator, storage and everybody else "
    "see replies only"
)
CTL = "CTL: the value is cut to a public interval and gets discrete Laplace noise from OpenDP"
ACCOUNTANT = (
    "basic composition: the epsilons of a user's replies add up, and a reply past the cap is refused before its value "
    "is measured"
)
NOT_COVERED = (
    "which setting a user was asked to try, when, and that they replied at all; lost or refused replies",
    "a copy or deletion of the ledger's file; several ledgers, or several names, for one user",
    "the interval, epsilon, candidates, kernel and search space, if chosen by looking at anybody's data",
    "what the user's own code prints or writes",
    "devices that do not do what their randomiser's settings say: the ledger takes their word for mechanism and price",
)


@dataclass(frozen=True)
class Account:
    """What one user has paid.

    Attributes:
        user: whose it is.
        replies: how many were charged.
        epsilon: the sum of their prices.
        private: False if any was made with seeded noise.
    """

    user: str
    replies: int
    epsilon: float
    private: bool


@dataclass(frozen=True)
class Device:
    """Replies that were made in the same way.

    Attributes:
        settings: what the randomiser said of itself, public.
        epsilon: price of one reply.
        replies: how many were charged.
    """

    settings: Mapping[str, object]
    epsilon: float
    replies: int

    def __str__(self) -> str:
        name, low, high = (self.settings.get(setting) for setting in ("mechanism", "low", "high"))
        price = f"epsilon = {rounded_up(self.epsilon, 6)} a reply"
        if name == "CTL" and isinstance(low, float) and isinstance(high, float):
            return f"{CTL}; interval [{low:g}, {high:g}], {price}"
        return f"{name or 'a mechanism that has no name'}, not one of dptune's; {price}"


@dataclass(frozen=True)
class LocalStatement(Printable):
    """Everything a sceptical reader needs; print it, or use one of the three renderings. It names no user.

    Attributes:
        cap: epsilon that one user may spend in all.
        spent: the most that one user has spent.
        users: number of users who were charged.
        devices: how the replies were made.
        private: False if any reply was made with seeded noise; then nothing is guaranteed.
    """

    cap: float
    spent: float
    users: int
    devices: tuple[Device, ...]
    private: bool

    @property
    def epsilon(self) -> float:
        """Of the guarantee to each user, at delta = 0: the cap; infinite if any reply's noise was seeded."""
        return self.cap if self.private else float("inf")

    @property
    def replies(self) -> int:
        """Number of charged replies."""
        return sum(device.replies for device in self.devices)

    # ---- what a certificate asks of every statement --------------------------------------------------

    n, delta, protects, adjacency = None, 0.0, UNIT, ADJACENCY
    trust_model, accountant, not_covered = TRUST_MODEL, ACCOUNTANT, NOT_COVERED
    noise = "on each user's device, before anything leaves it; the mechanisms' settings are what the devices said"

    @property
    def mechanisms(self) -> tuple[tuple[str, int], ...]:
        """In words, with the number of replies."""
        return tuple((str(device), device.replies) for device in self.devices)

    @property
    def caveats(self) -> tuple[str, ...]:
        """What must be said with the numbers."""
        return self.warnings

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must see before the numbers."""
        seeded = "NOT PRIVATE: the noise of some replies was drawn from a seeded generator; epsilon = infinity."
        return () if self.private else (seeded,)

    def to_dict(self) -> dict[str, object]:
        """Return the statement as plain JSON data (an infinite epsilon is the string "infinity")."""
        return {
            "private": self.private,
            "warnings": list(self.warnings),
            "unit": UNIT,
            "adjacency": ADJACENCY,
            "trust_model": TRUST_MODEL,
            "accountant": ACCOUNTANT,
            "mechanisms": [
                {"settings": dict(d.settings), "epsilon": d.epsilon, "replies": d.replies} for d in self.devices
            ],
            "replies": self.replies,
            "users": self.users,
            "delta": 0.0,
            "cap": {"epsilon": finite(self.epsilon)},
            "spent": {"epsilon": finite(self.spent if self.private else float("inf"))},
            "not_covered": list(NOT_COVERED),
        }

    def _title(self) -> str:
        return "Local privacy statement"

    def _rows(self) -> list[tuple[str, str]]:
        spent = f"{self._cost(self.spent)} by any one user, in {self.replies} replies of {self.users} users"
        return [
            ("Protects", UNIT),
            ("Adjacency", ADJACENCY),
            ("Trust model", TRUST_MODEL),
            ("Guarantee", f"{self._cost(self.cap)} for each user: the cap, fixed for good"),
            ("Spent so far", f"at most {spent}" if self.private else spent),
            ("Mechanisms", "; ".join(f"{device} ({device.replies})" for device in self.devices) or "none so far"),
            ("Accountant", ACCOUNTANT),
            ("Not covered", "; ".join(NOT_COVERED)),
        ]

    def _cost(self, epsilon: float) -> str:
        return f"epsilon = {rounded_up(epsilon)} (delta = 0)" if self.private else "NONE (epsilon = infinity)"
