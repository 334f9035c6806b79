"""The local privacy statement: what users of a ledger are promised, and what is not covered."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dptune._numbers import finite, rounded_up
from dptune._statement import NOTHING, Statement, counted

TRUST_MODEL = (
    "local: the user's own device, which measures the value and makes the reply; curator, storage and everybody else "
    "see replies only"
)
OURS = {
    "CTL": "CTL: the value is cut to a public interval and gets discrete Laplace noise from OpenDP",
    "hybrid": "hybrid mechanism: the value is cut to a public interval; the reply is drawn exactly, in whole numbers",
}
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
_SEEDED = "NOT PRIVATE: the noise of some replies was drawn from a seeded generator; epsilon = infinity."


@dataclass(frozen=True)
class Account:
    """The account of one user."""

    user: str
    replies: int  # charged
    epsilon: float  # sum of the replies' prices
    private: bool  # False if any reply has seeded noise


@dataclass(frozen=True)
class Device:
    """Replies with equal settings of the randomiser."""

    settings: Mapping[str, object]  # the randomiser's public description
    epsilon: float  # price of one reply
    replies: int  # charged

    def __str__(self) -> str:
        name, low, high = (self.settings.get(setting) for setting in ("mechanism", "low", "high"))
        price = f"epsilon = {rounded_up(self.epsilon, 6)} a reply"
        if name in OURS and isinstance(low, float) and isinstance(high, float):
            return f"{OURS[str(name)]}; interval [{low:g}, {high:g}], {price}"
        return f"{name or 'a mechanism that has no name'}, not one of dptune's; {price}"


@dataclass(frozen=True, kw_only=True)
class LocalStatement(Statement):
    """The statement of a ledger of users, at delta = 0. It names no user."""

    cap: float  # epsilon that one user may spend in all
    spent: float  # the most that one user has spent
    users: int  # number of charged users
    devices: tuple[Device, ...]  # settings of the replies

    def to_dict(self) -> dict[str, object]:
        curators = {"remarks", "dataset", "n", "releases", "versions"}
        return {name: value for name, value in super().to_dict().items() if name not in curators}


def local_statement(accounts: Sequence[Account], devices: tuple[Device, ...], cap: float) -> LocalStatement:
    """Return the statement of users' charges, devices and cap."""
    private = all(account.private for account in accounts)
    spent = max((account.epsilon for account in accounts), default=0.0)
    replies = sum(device.replies for device in devices)
    epsilon = cap if private else math.inf
    users = counted(len(accounts), "user")
    most = f"{_cost(spent, private)} by any one user, in {counted(replies, 'reply', 'replies')} of {users}"
    return LocalStatement(
        cap=cap,
        spent=spent,
        users=len(accounts),
        devices=devices,
        unit="one user and all their replies",
        adjacency="any two values of the user, at every reply",
        trust_model=TRUST_MODEL,
        mechanisms=tuple((str(device), device.replies) for device in devices),
        private=private,
        delta=0.0,
        epsilon=epsilon,
        accountant=ACCOUNTANT,
        noise="on each user's device, before anything leaves it; the mechanisms' settings are what the devices said",
        not_covered=NOT_COVERED,
        warnings=() if private else (_SEEDED,),
        guarantee=(
            ("Guarantee", f"{_cost(cap, private)} for each user: the cap, fixed for good"),
            ("Spent so far", f"at most {most}" if private else most),
        ),
        numbers={
            "mechanisms": [{"settings": dict(d.settings), "epsilon": d.epsilon, "replies": d.replies} for d in devices],
            "replies": replies,
            "users": len(accounts),
            "cap": {"epsilon": finite(epsilon)},
            "spent": {"epsilon": finite(spent if private else math.inf)},
        },
        title="Local privacy statement",
    )


def _cost(epsilon: float, private: bool) -> str:
    return f"epsilon = {rounded_up(epsilon)} (delta = 0)" if private else NOTHING
