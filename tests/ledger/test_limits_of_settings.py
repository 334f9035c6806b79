"""Plans, risks and waits hold up to their limits, and costs above a limit are noticed."""

from decimal import Decimal

import pytest

from dptune import Budget, InputError, LedgerError, _store
from dptune.ledger import Risk, SubsampledGaussian, schema
from dptune.ledger.approximate import Limits
from dptune.ledger.filter import PairFilter, mu_and_choice_share
from dptune.ledger.gdp import Spent
from dptune.ledger.statement import budget_statement, opendp_noise
from dptune.ledger.subsampled import least_noise


def test_a_plan_and_a_risk_may_lie_on_their_limits() -> None:
    plan = SubsampledGaussian(1, 0.1, 1)
    assert (plan.q, plan.z, plan.steps) == (1.0, 0.1, 1)
    assert [type(each) for each in (plan.q, plan.z, plan.steps)] == [float, float, int]
    assert (Risk.of_mu(0).advantage, Risk.of_mu(0).detected) == pytest.approx((0.0, 0.01))
    assert Risk.of_epsilon(0.0, 0.0) == Risk(0.0, 0.01)


def test_noise_is_looked_for_up_to_a_limit_that_is_named() -> None:
    assert 8000 <= least_noise(lambda z: 8000 / z, 1.0) <= 8008
    with pytest.raises(InputError) as told:
        least_noise(lambda z: 20000 / z, 1.0)
    assert str(told.value) == "epsilon=1.0 needs a noise multiplier above 10000"


def test_a_plan_may_give_its_choice_everything_and_no_more() -> None:
    for share, kept in ((0.3, 0.3), (1, 1.0), (1.01, 0.0), (0, 0.0), (-0.5, 0.0)):
        assert mu_and_choice_share({"mu": 2, "shares": {"choice": share}}) == (2.0, kept)
    for plan, mu in (
        (None, 0.0),
        ({"mu": "2"}, 0.0),
        ({"mu": 2.0, "shares": [1]}, 2.0),
        ({"shares": {"choice": 1}}, 0.0),
    ):
        assert mu_and_choice_share(plan) == (mu, 0.0)


def test_a_lock_is_waited_for_as_long_as_its_refusal_says() -> None:
    assert _store.SECONDS == schema._SQLITE["timeout"] == 60, "a minute"


@pytest.mark.parametrize(
    ("limits", "spent"),
    [
        (Limits(0.5), Spent(Decimal("0.26"))),
        (Limits(0.5, eta=0.3), Spent(choices=Decimal("0.31"))),
        (Limits(0.5, pure=0.3), Spent(pure=Decimal("0.31"))),
    ],
    ids=["mu", "eta", "pure"],
)
def test_charges_above_any_limit_leave_no_guarantee(limits: Limits, spent: Spent) -> None:
    held = PairFilter(Budget.approximate_dp(1.0, 1e-5), limits, "run")
    with pytest.raises(LedgerError, match="the ledger of 'wards' was changed from outside: its charges are mu = 0"):
        budget_statement({"dataset": "wards"}, held, spent, failures=0, public=(), trained=(), raises=())


def test_noise_of_an_unknown_version_is_said_to_be_one() -> None:
    said = "OpenDP of an unknown version, discrete, unseeded, on a grid (no floating-point noise)"
    assert opendp_noise({"versions": {}, "private": True}) == said
    assert opendp_noise({"versions": {}, "private": False}) == "A SEEDED GENERATOR"
