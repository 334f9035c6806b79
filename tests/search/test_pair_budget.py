"""Runs without a choice work within an (epsilon, delta) budget as in GDP."""

import numpy as np
import pytest

from dptune import CENTRED, Budget, BudgetExhausted, Float, LossPrivatizer, PrivacyLedger, Space
from dptune.ledger.approximate import composed_delta
from dptune.ledger.filter import PairFilter
from dptune.search.request import SearchRequest
from refusals import refused
from runs import losses_of

SPACE = Space({"a": Float(0.0, 1.0), "b": Float(1e-2, 1e2, log=True)})
EPSILON, DELTA, N = 1.0, 1e-5, 400
PAIR = Budget.approximate_dp(EPSILON, DELTA)


def asked(folder, **settings):
    """A request as each process makes it, with a ledger of its own."""
    privatizer = LossPrivatizer(PrivacyLedger(folder / "ledger.db", PAIR), n=N, clip=(0.0, 1.0))
    given = {"space": SPACE, "settings": {"trials": 12}, "default": SPACE.centre(), "seed": 1, **settings}
    return SearchRequest(CENTRED, privatizer, **given)


def complete(*runs):
    for trial in range(200):
        if runs[0].complete:
            return
        run = runs[trial % len(runs)]
        at = run.ask(trial=str(trial))
        run.finish(str(trial), at, losses_of(at, N))
    raise AssertionError("the run does not end")


def test_a_run_spends_the_mu_of_its_pair_and_processes_agree(fast_path):
    request = asked(fast_path)
    runs = [each.begin("run", SPACE) for each in (request, asked(fast_path))]
    assert runs[0].plan == runs[1].plan
    complete(*runs)
    best = runs[0].recommend()
    runs[0].estimate(best, losses_of(best, N), default=np.zeros(N))
    limits = request.ledger.filter.limits
    assert (runs[0].plan.mu, limits.mu, limits.eta) == (PAIR.mu, PAIR.mu, 0.0)
    assert request.ledger.statement().epsilon == pytest.approx(EPSILON, rel=1e-6)
    assert request.ledger.spent() == pytest.approx(PAIR.mu)
    refused(BudgetExhausted, None, lambda: asked(fast_path).begin("another", SPACE))


def test_a_run_with_a_price_of_its_own_leaves_the_rest_to_others(fast_path):
    complete(asked(fast_path, mu=0.1).begin("run", SPACE))
    other = asked(fast_path).begin("other", SPACE)
    assert other.plan.mu == pytest.approx((PAIR.mu**2 - 0.1**2) ** 0.5)
    complete(other)
    assert other.ledger.statement().epsilon == pytest.approx(EPSILON, rel=1e-6)


def test_planted_bug_limits_that_pass_the_promise_are_made_smaller():
    limits = PairFilter(PAIR).divided(5.0, 0.9, "run").limits
    assert limits.eta == 0.9
    assert composed_delta(limits.mu, 0.9, EPSILON) <= DELTA
