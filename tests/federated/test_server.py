"""The trusted server validates messages, charges each release, and its rounds survive every failure."""

import copy
import math
import pickle
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dptune import Budget, InputError, LedgerError, PlanComplete, PrivacyLedger
from dptune.errors import AlreadySent, BudgetMismatch, KeyConflict, MessageRefused, RoundClosed
from dptune.federated import FTSServer
from dptune.federated import server as implementation
from dptune.federated.messages import Message
from dptune.ledger.plan_ledger import PlanLedger
from dptune.ledger.subsampled import epsilon_pld
from dptune.privacy.noise import SecretSample, SeededNoise, SeededSample
from federated_audits import PLAN, SETTINGS, Chosen, full_disk, server
from noises import NoNoise

GOOD = np.arange(10.0)
PRIVATE = 3.0303030303


@pytest.fixture
def one(fast_path: Path) -> FTSServer:
    return server(fast_path, "one")


# ---- messages --------------------------------------------------------------------------------------------


HUGE = 10**5000  # more digits than Python prints
WEIGHTS = [np.zeros(11), np.zeros((1, 10)), PRIVATE, [[1.0], [PRIVATE, 2.0]], ["1.0"] * 10]
NOT_FINITE = [[PRIVATE] * 9 + [math.nan], np.full(10, np.longdouble("1e4000"))]
REFUSED = {  # words -> messages, some with arguments in another order
    "numbered 0 to 6.*no such agent": [Message(n, 0, GOOD) for n in (7, -1, "3", True, HUGE)]
    + [Message([PRIVATE] * 10, 0, 0)],
    "whole number.*no such round": [Message(3, t, GOOD) for t in (-1, 0.5, -HUGE)] + [Message(0, [PRIVATE] * 10, 0)],
    "open round is 0.*to come": [Message(0, t, GOOD) for t in (1, HUGE)],
    "takes a Message": [GOOD],
    "10 real numbers": [Message(0, 0, weights) for weights in WEIGHTS],
    "finite": [Message(0, 0, weights) for weights in NOT_FINITE],
    "agent 2 has sent": [Message(2, 0, GOOD)],
}


def test_a_bad_message_is_refused_by_name_and_the_round_stays_open(one: FTSServer) -> None:
    one.submit(Message(2, 0, GOOD))
    for words, messages in REFUSED.items():
        for message in messages:
            with pytest.raises(MessageRefused, match=words) as raised:
                one.submit(message)
            assert "3.0303" not in "".join(traceback.format_exception(raised.value))
            assert (one.sent, one.open_round) == ({2}, 0)
    one.submit(Message(0, 0, GOOD))  # the same agent may send a good one
    assert one.release(0).shape == (2, 10)


def direction(one: FTSServer) -> np.ndarray:
    """Release round 0, without noise and with everybody in the sample; the direction of its first sum, (M,)."""
    first = one.release(0)[0]
    return first / np.linalg.norm(first)


def test_a_second_message_and_a_late_one_are_refused_and_the_first_stands(fast_path: Path) -> None:
    one = server(fast_path, "one", noise=NoNoise(), samples=Chosen(np.ones(7)))
    one.submit(Message(np.int64(0), np.uint8(0), GOOD.astype(np.float32)))
    with pytest.raises(AlreadySent):
        one.submit(Message(0, 0, -GOOD))
    assert np.allclose(direction(one), GOOD / np.linalg.norm(GOOD))
    with pytest.raises(RoundClosed, match=r"round 0 is released.*The open round is 1\."):
        one.submit(Message(3, 0, GOOD))
    assert one.sent == frozenset()


def test_a_message_is_copied_and_not_shown(fast_path: Path) -> None:
    one, weights = server(fast_path, "one", noise=NoNoise(), samples=Chosen(np.ones(7))), np.full(10, PRIVATE)
    message = Message(0, 0, weights)
    one.submit(message)
    weights[0] = 0.0
    for show in (repr(message), str(message), f"{message}", repr(one), str(one), repr(one.sent)):
        assert "3.03" not in show
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(InputError):
            attempt(one)
    assert np.allclose(direction(one), 0.1**0.5)


# ---- rounds ----------------------------------------------------------------------------------------------


def test_every_release_is_charged_before_a_message_is_read(one: FTSServer, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    steps = (PlanLedger, "charge"), (SecretSample, "draw"), (implementation, "weighted_sums"), (PlanLedger, "record")
    for owner, name in steps:
        true = getattr(owner, name)

        def watched(*args: Any, _true: Any = true, _name: str = name, **more: Any) -> Any:
            order.append(_name)
            return _true(*args, **more)

        monkeypatch.setattr(owner, name, watched)
    one.release(0)
    assert order == [name for _, name in steps]
    one.release(0)
    assert order == [name for _, name in steps], "a released round is not released again"


def test_a_server_stops_after_its_plan_and_each_charge_is_described(one: FTSServer) -> None:
    for t in range(PLAN.steps):
        one.release(t)
    for beyond in (lambda: one.release(PLAN.steps), lambda: one.submit(Message(0, PLAN.steps, GOOD))):
        with pytest.raises(PlanComplete):
            beyond()
    charges = one.ledger.charges()
    assert len(charges) == PLAN.steps
    for t, charge in enumerate(charges):
        sensitivity = SETTINGS.sensitivity(t, PLAN.q)
        assert charge.description["sensitivity"] == sensitivity
        assert charge.description["sigma"] == pytest.approx(PLAN.z * sensitivity, rel=1e-5)
        assert [charge.description[name] for name in ("q", "z", "dimension")] == [PLAN.q, PLAN.z, 20]
    assert one.ledger.statement(delta=0.01).epsilon == epsilon_pld(PLAN, 0.01)


def test_a_draw_that_could_not_be_recorded_is_kept_for_the_retry(one: FTSServer) -> None:
    with full_disk() as drawn, pytest.raises(LedgerError):
        one.release(0)
    assert (one.broadcast(0), one.open_round) == (None, 0)
    with pytest.raises(RoundClosed):
        one.submit(Message(0, 0, GOOD))
    assert [one.release(0).ravel().tolist()] == drawn
    assert len(one.ledger.charges()) == 1


def test_two_servers_on_one_ledger_publish_the_same(fast_path: Path) -> None:
    a, b = server(fast_path, "both"), server(fast_path, "both")
    b.submit(Message(0, 0, GOOD))
    first = a.release(0)
    assert np.array_equal(b.release(0), first)
    assert len(a.ledger.charges()) == 1
    assert not first.flags.writeable


def test_misfits_are_refused_by_name_before_anything_is_fixed_or_charged(fast_path: Path) -> None:
    one, other = server(fast_path, "one"), PrivacyLedger(fast_path / "gdp.db", Budget.gdp(1.0))
    quiet = PlanLedger(fast_path / "quiet.db", replace(PLAN, q=1e-200), n=7)
    refused: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (BudgetMismatch, "n=", made(one.ledger, agents=8)),
        (InputError, "PlanLedger", made(other)),
        (InputError, "at most", made(one.ledger, agents=100_000)),
        (InputError, "ask for noise", made(quiet)),
        (BudgetMismatch, "other settings", made(one.ledger, S=4.0)),
        (BudgetMismatch, "other settings", made(one.ledger, regions=())),
        (InputError, "in order; the next is 0", partial(one.release, 1)),
        (InputError, "whole number", partial(one.release, "0")),
        (InputError, "whole number", partial(one.broadcast, -1)),
    ]
    for error, words, call in refused:
        with pytest.raises(error, match=words):
            call()
    assert one.ledger.charges() == []
    assert quiet.fix("federation", "settings", "nothing yet") == "nothing yet"


def made(ledger: Any, **change: Any) -> Callable[[], FTSServer]:
    return lambda: FTSServer(ledger, replace(SETTINGS, **change))


def test_seeded_noise_is_reproducible_and_stamped(fast_path: Path) -> None:
    released = []
    for name in ("a", "b"):
        ledger = PlanLedger(fast_path / f"{name}.db", PLAN, n=7)
        one = FTSServer(ledger, SETTINGS, noise=SeededNoise(3), samples=SeededSample(3))
        assert "NOT PRIVATE" in repr(one)
        with full_disk(), pytest.raises(LedgerError):
            one.release(0)
        with pytest.raises(KeyConflict):
            server(fast_path, name).release(0)
        released.append(one.release(0).tolist())
        assert ledger.statement(delta=0.01).epsilon == math.inf
    assert released[0] == released[1]
