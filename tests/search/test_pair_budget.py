"""A search within a budget in (epsilon, delta): its choice has a limit of its own, and everything is larger."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dptune import Budget, Categorical, Float, LossPrivatizer, PrivacyLedger, SearchRun, Space
from dptune.errors import BudgetExhausted
from dptune.ledger.approximate import divided, largest_plan
from dptune.search import CENTRED, SELECTION
from dptune.search.algorithms.method import Method
from dptune.search.replay import CHOICE
from dptune.search.request import SearchRequest
from dptune.search.view import RunView

SPACE = Space({"x": Float(0.0, 1.0), "kind": Categorical(["a", "b"])})
DEFAULT = {"x": 0.9, "kind": "a"}
EPSILON, DELTA, N = 3.0, 1e-5, 300


def complete(run: SearchRun) -> SearchRun:
    rng = np.random.default_rng(0)
    for trial in range(200):
        if run.complete:
            return run
        parameters = run.ask(trial=str(trial))
        level = (parameters["x"] - 0.3) ** 2 + 0.2 * (parameters["kind"] == "a")
        run.finish(str(trial), parameters, np.clip(level + 0.05 * rng.standard_normal(N), 0, 1))
    raise AssertionError("the run does not end")


@pytest.mark.parametrize("method", [CENTRED, SELECTION])
def test_a_run_that_takes_all_spends_the_promise_and_no_more(method: Method, fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "ledger.db", Budget.approximate_dp(EPSILON, DELTA))
    privatizer = LossPrivatizer(ledger, n=N, clip=(0.0, 1.0))
    new = {"space": SPACE, "default": DEFAULT, "trials": 20, "seed": 1}
    run = complete(SearchRun(method, privatizer, scope="run", **new))
    share = run.plan.choice_share
    assert run.plan.mu == largest_plan(share, EPSILON, DELTA) > 1.2 * ledger.budget.mu
    charge = ledger.find("run", CHOICE)
    assert charge is not None
    assert (charge.mu, charge.eta) == (None, divided(run.plan.mu, share)[1])
    assert (ledger.filter.holder, ledger.filter.limits.eta) == ("run", charge.eta)
    assert ledger.statement().epsilon == pytest.approx(EPSILON, rel=1e-6)
    assert ledger.spent() <= ledger.mu == pytest.approx(run.plan.mu)
    assert run.progress()["mu_budget"] == ledger.mu
    assert SearchRun(method, privatizer, scope="run", **new).recommend() == run.recommend()
    view = RunView.of(ledger, "run")
    assert view is not None
    assert view.plan.describe() == run.plan.describe()
    with pytest.raises(BudgetExhausted):
        SearchRun(method, privatizer, scope="another", **new)


def test_the_line_that_announces_it_names_the_promise(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "ledger.db", Budget.approximate_dp(EPSILON, DELTA))
    privatizer = LossPrivatizer(ledger, n=N, clip=(0.0, 1.0))
    request = SearchRequest(CENTRED, privatizer, space=SPACE, settings={"trials": 20})
    assert "of the ledger's epsilon=3 at delta=1e-05" in request.announcement(request.begin("run", SPACE))


def test_a_run_with_a_price_of_its_own_leaves_the_rest_to_others(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "ledger.db", Budget.approximate_dp(EPSILON, DELTA))
    privatizer = LossPrivatizer(ledger, n=N, clip=(0.0, 1.0))
    complete(SearchRun(CENTRED, privatizer, scope="run", space=SPACE, trials=20, seed=1, mu=0.4))
    rest = ledger.allowance().unplanned
    assert rest**2 > ledger.budget.mu**2 - 0.4**2, "the choice is cheaper than in GDP"
    other = complete(SearchRun(CENTRED, privatizer, scope="other", space=SPACE, trials=20, seed=1))
    assert other.plan.mu == rest
    charge = ledger.find("other", CHOICE)
    assert charge is not None
    assert charge.mu == other.plan.choice_mu
    assert ledger.statement().epsilon == pytest.approx(EPSILON, rel=1e-6)
