"""Refusals, descriptions and the statement of local replies are true to the letter."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dptune import Budget, PrivacyLedger
from dptune.errors import DptuneError
from dptune.local import (
    HybridRandomizer,
    HybridReplies,
    InsecureHybrid,
    InsecureRandomizer,
    LaplaceReplies,
    LocalRandomizer,
    UserLedger,
)
from dptune.local.bandits.replies import agreed_centre, check_randomizer, refuse_winning_failure
from dptune.local.windows import largest_reply
from refusals import refused

A, B = LocalRandomizer(0.5, (-1.0, 3.0)), HybridRandomizer(0.25, 2.0)
LAPLACE, HYBRID = (kind(2.0, B=0.75, R=0.25) for kind in (LaplaceReplies, HybridReplies))
BOUND = (
    "bound must be a number b > 0, for [-b, b], or a pair (low, high) of finite numbers; got {}. The distance from low "
    "to high must be at least 2.22507e-308. Choose it from the meaning of the value, not from anybody's data."
)
SETTINGS_OF = "the settings are {}, but the randomiser is a {}. Give the algorithm {}, or the users another randomiser."
WINS = (
    "a setting that fails would win: its value counts as invalid={}, the best in the interval when {} replies are "
    "good. Give the randomiser invalid={}, the worst."
)
SETTINGS: list[tuple[Callable[[], object], str]] = [
    (lambda: LocalRandomizer(1.0, 0.0), BOUND.format("0.0")),
    (lambda: HybridRandomizer(1.0, (2, 1)), BOUND.format("(2, 1)")),
    (
        lambda: LocalRandomizer(0.01, 8e307),
        "bound=8e+307 at epsilon=0.01 needs noise too small or too large for floating point.",
    ),
    (
        lambda: LocalRandomizer(0.01, (0.0, 8e307)),
        "bound=(0.0, 8e+307) at epsilon=0.01 needs noise too small or too large for floating point.",
    ),
    (lambda: LocalRandomizer(9e-9, 1.0), "epsilon must lie in [1e-08, 1.8e+308]; got 9e-09."),
    (lambda: HybridRandomizer(31.0, 1.0), "epsilon must lie in [1e-06, 30]; got 31.0."),
    (lambda: LocalRandomizer(1.0, (1.0, 3.0), invalid=-2.0), "invalid must lie in [1, 3]; got -2.0."),
    (
        lambda: check_randomizer(LAPLACE, B.describe()),
        SETTINGS_OF.format("LaplaceReplies", "HybridRandomizer", "HybridReplies"),
    ),
    (
        lambda: check_randomizer(HYBRID, A.describe()),
        SETTINGS_OF.format("HybridReplies", "LocalRandomizer", "LaplaceReplies"),
    ),
    (
        lambda: check_randomizer(LAPLACE, A.describe()),
        "the settings are for replies with epsilon=2.0 and B + R = 1.0, but the randomiser has epsilon=0.5 and an "
        "interval of half-width 2.0. Give the algorithm LaplaceReplies(epsilon=0.5, B=..., R=...) with B + R = 2.0, or "
        "the users another randomiser.",
    ),
    (
        lambda: agreed_centre(LaplaceReplies(0.5, B=1.5, R=0.5), 1.01, A.describe()),
        "centre=1.01, but the randomiser's interval has the middle 1.0. Leave centre= out: it is read from the rand",
    ),
    (lambda: refuse_winning_failure(A.describe(), maximize=False), WINS.format(-1.0, "small", 3.0)),
    (
        lambda: refuse_winning_failure(LocalRandomizer(1.0, (-1.0, 3.0), invalid=3.0).describe(), maximize=True),
        WINS.format(3.0, "large", -1.0),
    ),
]


@pytest.mark.parametrize("number", range(len(SETTINGS)))
def test_a_refused_setting_is_quoted_with_its_remedy(number: int) -> None:
    act, text = SETTINGS[number]
    refused(DptuneError, f"^{re.escape(text)}", act)


@pytest.fixture
def users(fast_path: Path) -> UserLedger:
    return UserLedger(fast_path / "users.db", cap=2.0)


class Endless(LocalRandomizer):
    """Its replies are infinite."""

    def randomize(self, value: Any) -> float:
        return float("inf")


def test_a_refusal_of_a_users_ledger_names_file_cap_and_key(users: UserLedger, fast_path: Path) -> None:
    path, other, curators = users.path, fast_path / "none.db", fast_path / "curator.db"
    PrivacyLedger(curators, Budget.gdp(1.0))
    users.reply(A, 0.5, user="ann", key="k")
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: UserLedger(path, cap=3.0), "this ledger was created with cap=2.0, not 3.0; it is fixed for good."),
        (lambda: UserLedger(other), f"no ledger exists at {other}; give cap= to create one."),
        (
            lambda: UserLedger(curators, 1.0),
            f"{curators} is the ledger of a curator; give the us",
        ),
        (
            lambda: users.reply(B, 0.5, user="ann", key="k"),
            "the reply 'k' of this user was made with other settings; use a new key.",
        ),
        (
            lambda: users.reply(Endless(0.5, 1.0), 0.5, user="eve", key="l"),
            f"the ledger {path} cannot record a reply that is not finite; nothing was sent. The reply 'l' is charged, "
            "and its answer was not recorded. Run it again",
        ),
    ]
    for act, text in cases:
        refused(DptuneError, f"^{re.escape(text)}", act)
    assert repr(users) == f"UserLedger({str(path)!r}, cap=2.0)"
    path.unlink()
    UserLedger(path, cap=2.0)
    text = f"the ledger {path} was replaced by another one since it was opened. What users have paid is in the old"
    refused(DptuneError, re.escape(text), lambda: users.spent("ann"))


def test_a_randomiser_describes_all_that_it_was_given() -> None:
    for kind, name, more in (
        (LocalRandomizer, "CTL", {}),
        (InsecureRandomizer, "CTL", {"insecure_seed": 1}),
        (HybridRandomizer, "hybrid", {}),
        (InsecureHybrid, "hybrid", {"insecure_seed": 1}),
    ):
        made = kind(0.7, (1.0, 4.0), invalid=2.5, **more)
        public = {"mechanism": name, "epsilon": 0.7, "private": not more, "low": 1.0, "high": 4.0, "invalid": 2.5}
        assert made.describe() == public
        stamp = "NOT PRIVATE, " if more else ""
        assert repr(made) == f"{kind.__name__}({stamp}epsilon=0.7, bound=(1.0, 4.0))"
        assert [made.clamp(value) for value in (None, 0.0, 9.0)] == [2.5, 1.0, 4.0]
        assert kind(0.7, 2, **more).describe() == {**public, "low": -2.0, "high": 2.0, "invalid": -2.0}


def test_the_smallest_and_the_largest_prices_are_accepted() -> None:
    made = [LocalRandomizer(1e-8, 1.0), *(HybridRandomizer(price, 1.0) for price in (1e-6, 30.0))]
    assert [one.epsilon for one in made] == [1e-8, 1e-6, 30.0]


def test_only_duchis_mechanism_replies_up_to_an_epsilon_of_0_61() -> None:
    """Its replies are +-(e^epsilon + 1)/(e^epsilon - 1); those of the piecewise mechanism reach farther."""
    for epsilon, alone in ((0.5, True), (0.61, True), (0.62, False), (0.8, False)):
        duchi = (math.exp(epsilon) + 1) / (math.exp(epsilon) - 1)
        assert (largest_reply(epsilon) == pytest.approx(duchi, rel=1e-6)) == alone


def test_without_a_stated_interval_the_centre_is_the_users_own() -> None:
    assert [agreed_centre(LAPLACE, centre, {}) for centre in (None, 2.5)] == [0.0, 2.5]
    stated = LocalRandomizer(2.0, (1.0, 3.0)).describe()
    assert [agreed_centre(LAPLACE, centre, stated) for centre in (None, 2.0)] == [2.0, 2.0]


# ---- the statement ---------------------------------------------------------------------------------------


def test_every_row_of_a_local_statement_is_as_written_here(users: UserLedger) -> None:
    """Devices come in the order of their first replies."""
    for user, key, randomizer in (("bob", "1", A), ("ann", "1", B), ("bob", "2", A)):
        users.reply(randomizer, 0.5, user=user, key=key)
    statement = users.statement()
    ctl = "CTL: the value is cut to a public interval and gets discrete Laplace noise from OpenDP"
    hybrid = (
        "hybrid mechanism: the value is cut to a public interval; the reply is drawn exactly, in whole numbers; "
        "interval [-2, 2], epsilon = 0.25 a reply (1)"
    )
    rows = [
        ("Protects", "one user and all their replies"),
        ("Adjacency", "any two values of the user, at every reply"),
        (
            "Trust model",
            "local: the user's own device, which measures the value and makes the reply; curator, storage and "
            "everybody else see replies only",
        ),
        ("Guarantee", "epsilon = 2 (delta = 0) for each user: the cap, fixed for good"),
        ("Spent so far", "at most epsilon = 1 (delta = 0) by any one user, in 3 replies of 2 users"),
        ("Mechanisms", f"{ctl}; interval [-1, 3], epsilon = 0.5 a reply (2); {hybrid}"),
        (
            "Accountant",
            "basic composition: the epsilons of a user's replies add up, and a reply past the cap is refused before "
            "its value is measured",
        ),
    ]
    assert list(statement.rows()[: len(rows)]) == rows
    assert [name for name, _ in statement.rows()[len(rows) :]] == ["Not covered", "", "", "", ""]
    told = json.loads(statement.to_json())
    assert {"n", "dataset", "remarks", "releases", "versions"}.isdisjoint(told)
    of = [{"settings": each.describe(), "epsilon": each.epsilon, "replies": k} for each, k in ((A, 2), (B, 1))]
    assert told["mechanisms"] == of
    assert [str(each) for each in users.asked(2)] == [str(each) for each in users.asked(3)[:2]]
    assert [ctl in str(each) for each in users.asked(3)] == [True, False, True]


def test_a_seeded_reply_is_said_to_be_one_of_some(users: UserLedger) -> None:
    users.reply(A, 0.5, user="ann", key="1")
    users.reply(InsecureHybrid(0.5, 1.0, insecure_seed=1), 0.5, user="bob", key="1")
    statement = users.statement()
    said = "NOT PRIVATE: the noise of some replies was drawn from a seeded generator; epsilon = infinity."
    assert statement.warnings == (said,)
    nothing = "NONE (epsilon = infinity)"
    assert dict(statement.rows())["Guarantee"] == f"{nothing} for each user: the cap, fixed for good"
    assert dict(statement.rows())["Spent so far"] == f"{nothing} by any one user, in 2 replies of 2 users"


def test_a_mechanism_without_a_name_is_called_that(users: UserLedger) -> None:
    nameless = LocalRandomizer(0.5, 1.0)
    nameless.describe = lambda: {}
    users.reply(nameless, 0.5, user="ann", key="1")
    said = "a mechanism that has no name, not one of dptune's; epsilon = 0.5 a reply (1)"
    assert dict(users.statement().rows())["Mechanisms"] == said
