"""A run recommends an answer with its improvement over the defaults and the interval of that improvement."""

import json
import math
import pickle
from functools import partial

import numpy as np
import pytest

from dptune import (
    CENTRED,
    GIBO,
    Budget,
    BudgetExhausted,
    Float,
    InputError,
    LossPrivatizer,
    PlanComplete,
    PrivacyLedger,
    SearchRun,
    Space,
)
from dptune.errors import BudgetMismatch
from dptune.privacy.query import Interval
from dptune.results import Estimate
from dptune.search.answer import best_of_values, features
from refusals import refused
from runs import CENTRED_RUN, GIBO_RUN, VALUES_RUN, readable, trials

SPACE = Space({"a": Float(0.0, 1.0), "b": Float(1e-2, 1e2, log=True)})
DEFAULT = {"a": 0.9, "b": 50.0}
N = 400
PEOPLE = np.random.default_rng(0).normal(0.0, 0.05, N)


def losses(x):
    return (x["a"] - 0.3 + PEOPLE) ** 2 + 0.02 * np.log10(x["b"]) ** 2


def finished(folder, method, *, mu, **options):
    privatizer = LossPrivatizer(PrivacyLedger(folder / "ledger.db", Budget.gdp(mu)), n=N, clip=(0.0, 1.0))
    run = SearchRun(method, privatizer, scope="run", space=SPACE, seed=1, trials=30, **options)
    for i in range(run.plan.trials):
        x = run.ask(i)
        run.finish(str(i), x, losses(x))
    return run


def test_a_default_is_tried_first_repeated_and_compared_to_the_answer(fast_path):
    run = finished(fast_path, CENTRED, mu=8.0, default=DEFAULT)
    u = SPACE.encode(DEFAULT)
    asked = [c.note["points"] for c in run.ledger.charges("run", prefix="generation/")]
    assert np.allclose(asked[0][0], u)
    assert len(asked) > 3
    assert all(any(np.allclose(point, u) for point in points) for points in asked)
    found = run.recommend()
    run.estimate(found, losses(found), default=losses(DEFAULT))
    best = run.recommend()
    true = float(np.mean(losses(DEFAULT) - losses(best)))
    assert best.defaults == DEFAULT
    assert abs(best.improvement.value - true) < 7 * best.improvement.sigma
    assert best.improvement.sigma == pytest.approx(2 / (N * run.plan.final_mu), rel=1e-3)  # of a difference in [-1, 1]
    assert true > 0.2
    assert best.distinguishable
    assert best.summary().startswith("Better than a = 0.9, b = 50: the mean loss improves by ")
    assert best.improvement.private
    assert json.loads(json.dumps(best)) == dict(best)  # it is the dictionary of parameters
    assert run.estimated(best) == run.estimate(best, losses(best), default=losses(DEFAULT))
    assert len(run.ledger.charges("run", prefix="final")) == 1
    assert run.privatizer.points() == ()


@pytest.mark.parametrize("method", [CENTRED, GIBO], ids=lambda method: method.name)
def test_what_was_not_released_is_not_called_better(fast_path, method):
    options = {"monitor_share": 0.5} if method is GIBO else {}
    run = finished(fast_path, method, mu=8.0, default=DEFAULT, **options)
    best = run.recommend()
    assert best.improvement is None
    assert best.hint.value > 0.2
    assert not best.distinguishable
    assert "No comparison with a = 0.9, b = 50 was released: " in best.summary()
    assert "A model of the released values expects " in best.summary()
    estimate = run.estimate(best, losses(best), default=losses(DEFAULT))
    assert run.estimate(best, losses(best), default=losses(DEFAULT)) == estimate  # the recorded one, for nothing
    assert run.recommend().improvement == estimate.improvement
    assert run.recommend().distinguishable
    (charge,) = run.ledger.charges("run", prefix="final")
    assert charge.mu == run.plan.final_mu
    assert charge.description["sensitivity"] == pytest.approx(2**0.5 / N)  # of two losses in [0, 1]
    low, high = estimate.improvement.interval(1 - 1e-9)
    assert low <= float(np.mean(losses(DEFAULT) - losses(best))) <= high
    assert "better than the defaults: improvement" in str(estimate)
    assert run.privatizer.points() == () or method is GIBO


def test_without_the_defaults_losses_nothing_is_called_better(fast_path):
    run = finished(fast_path, CENTRED, mu=8.0, default=DEFAULT)
    best = run.recommend()
    estimate = run.estimate(best, losses(best))
    assert estimate.improvement is run.recommend().improvement is None
    assert abs(estimate.value - losses(best).mean()) < 7 * estimate.sigma
    assert run.estimated(DEFAULT) is None


def test_an_answer_that_looks_worse_than_the_default_is_dropped(fast_path):
    """Either the release or all answers together can show it."""
    run = finished(fast_path, CENTRED, mu=8.0, default=DEFAULT)
    preferred = run.recommend()
    assert preferred != DEFAULT
    again = pickle.loads(pickle.dumps(run))  # with a model that has it so
    usual = SPACE.encode(DEFAULT)
    again.algorithm.difference = lambda x, y: (-0.2 if np.allclose(x, usual) else 0.2, 0.1)
    best = again.recommend()
    assert best == DEFAULT == again.progress()["recommended"]
    assert "Keep a = 0.9, b = 50: the search prefers no other configuration." in best.summary()

    estimate = run.estimate(preferred, np.ones(N), default=np.zeros(N))
    assert estimate.improvement.verdict == "worse"
    assert "worse than the defaults: improvement -" in str(estimate)
    best = run.recommend()
    assert best == DEFAULT == run.progress()["recommended"]
    assert best.summary().startswith("Keep a = 0.9, b = 50")
    level = run.estimated(DEFAULT)
    assert abs(level.value) < 7 * level.sigma


def test_an_estimate_flags_the_upper_clip_unless_noise_hides_it():
    values = ((1.9, 0.1), (1.7, 0.1), (2.5, 0.1), (1.9, 1.0))
    found = [Estimate.of_loss(value, sigma, Interval(0.0, 2.0), private=True) for value, sigma in values]
    assert [estimate.at_clip for estimate in found] == [True, False, True, False]
    assert ["upper clip" in str(estimate) for estimate in found] == [True, False, True, False]
    refused(InputError, "confidence", lambda: found[0].interval(1.0))


def test_a_model_of_all_values_beats_the_smallest_noisy_value():
    rng, regrets = np.random.default_rng(3), []
    for _ in range(20):
        X = rng.random((60, 2))
        true = ((X - 0.4) ** 2).sum(axis=1)
        values = true + rng.normal(0.0, 0.05, 60)
        trials = [{"x": float(x), "y": float(y), "kind": "tree", "i": i} for i, (x, y) in enumerate(X)]
        best = best_of_values([(t, float(v), 0.05) for t, v in zip(trials, values, strict=True)])
        regrets.append([true[best[0]["i"]], true[np.argmin(values)]])
    ours, smallest = np.mean(regrets, axis=0)
    assert ours < 0.7 * smallest


def test_categories_conditions_and_constants_become_coordinates():
    trials = [{"model": "svc", "C": 1e-2}, {"model": "tree", "depth": 3}, {"model": "svc", "C": 1e2}]
    X = features([{**trial, "fixed": 1, "on": True, "none": None} for trial in trials])  # C, svc, tree
    assert pytest.approx(np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 1.0], [1.0, 1.0, 0.0]])) == X
    assert best_of_values([]) is None
    assert best_of_values([({"a": 1}, 0.5, 0.1), ({"a": 2}, 0.2, 0.1)]) == ({"a": 2}, None)  # few are taken as they are


# ---- values for any sampler: a budget divided among the trials, and no steps ---------------------------------


def values(ledger, **change):
    return VALUES_RUN.start(ledger, **{"scope": "values", "trials": 5, **change})


def test_a_value_run_divides_its_budget_among_its_trials(ledger):
    run = values(ledger)
    for i in range(5):
        assert not run.complete
        run.check(str(i))
        value = run.finish(str(i), {"kind": "rbf", "C": i}, np.full(VALUES_RUN.n, 0.5))
        assert ledger.find("values", f"value/{i}").value == (value,)
    assert run.complete
    assert {k: v for k, v in run.progress().items() if k.startswith("values")} == {"values_done": 5, "values_lost": 0}
    refused(PlanComplete, None, lambda: values(ledger).check("5"))
    assert ledger.spent() == pytest.approx(4.0 * math.sqrt(0.95))
    run.estimate({"kind": "rbf", "C": 1}, np.full(VALUES_RUN.n, 0.5))
    assert ledger.spent() == pytest.approx(4.0)
    assert run.privatizer.points() == ()
    refused(BudgetMismatch, r"Other: .*trials \(it has 5\)\.", lambda: values(ledger, trials=6))
    refused(BudgetExhausted, "read again at no cost", lambda: values(ledger, scope="another"))


def test_an_estimate_that_cannot_be_paid_is_refused_before_a_training(ledger):
    run = values(ledger, trials=1)
    run.finish("0", {"C": 1}, np.full(VALUES_RUN.n, 0.5))
    run.privatizer.observe("x", np.full(VALUES_RUN.n, 0.5))
    run.privatizer.release(run.privatizer.mean_query("x", ledger.remaining()), scope="another", key="all")
    refused(BudgetExhausted, None, lambda: run.check_estimate({"C": 1}))


def test_a_values_run_proposes_nothing_and_counts_its_values(ledger):
    """It recommends nothing before its first value."""
    run = values(ledger)
    assert "recommended" not in run.progress()

    for wrong in ({"trials": 0}, {"trials": 2.0}, {"final_share": 1.0}, {"final_share": -0.1}):
        refused(InputError, next(iter(wrong)), partial(values, ledger, scope="bad", **wrong))
    refused(InputError, "'values'", run.ask)
    refused(InputError, "no value was released yet", run.recommend)
    run.finish("0", {"C": 1}, np.full(VALUES_RUN.n, 0.5))
    words = r"1 of 5 planned trials have a value\. Resume the run with more trials"
    refused(InputError, words, lambda: run.check_estimate({"C": 1}))


@pytest.mark.parametrize("kind", [CENTRED_RUN, GIBO_RUN], ids=readable)
def test_progress_recommends_what_the_run_recommends(ledger, kind):
    run = kind.start(ledger)
    trials(run, kind.trials - 1)
    assert run.progress()["recommended"] == run.recommend()
