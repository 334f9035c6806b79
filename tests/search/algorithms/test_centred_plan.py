"""A search by centred releases plans from public numbers, and refuses plans that cannot work."""

from functools import partial

import pytest

from dptune import Float, InputError, Space
from dptune.search.algorithms.centred_plan import default_population, default_quantile, plan_centred
from planning import planned
from refusals import refused


def test_many_parameters_and_few_trials_have_small_generations():
    plans = {
        (d, trials): planned(plan_centred, d=d, n=300, mu=1.0, trials=trials).settings
        for d, trials in [(3, 80), (10, 100), (33, 100), (33, 400), (33, 680)]
    }
    assert [s.population for s in plans.values()] == [7, 10, 5, 14, 14]
    assert [s.tuning.explored for s in plans.values()] == [14, 20, 28, 28, 28]
    assert [s.tuning.most_explored for s in plans.values()] == [0, 0, 60, 236, 404]  # .6 of 100, 392, 672
    still = planned(plan_centred, d=33, n=300, mu=1.0, tuning={"explored": 0}).settings
    assert still.tuning.most_explored == 0


def test_fewer_people_are_clipped_where_noise_is_small():
    facts = [(300, 0.5, 100), (150, 1.0, 100), (300, 1.0, 100), (600, 1.0, 400), (10**6, 1.0, 100)]
    assert [default_quantile(*each) for each in facts] == [0.5, 0.5, 0.7, 0.7, 0.8]


@pytest.mark.parametrize(("d", "trials"), [(1, 4), (3, 100), (33, 10), (33, 400)])
def test_the_plan_fits_the_trials_and_the_budget(d, trials):
    plan = planned(plan_centred, d=d, n=300, loss_range=2.0, mu=0.7, seed=1, trials=trials)
    s = plan.settings
    assert trials - s.population < plan.trials <= trials
    assert s.population == default_population(d, trials, generations=max(min(d, 20), 4))
    assert s.tuning.explored <= trials / 3
    assert s.generations * (s.mean_mu**2 + s.radius_mu**2) + plan.final_mu**2 == pytest.approx(0.7**2)
    assert plan.monitor_mu == 0


@pytest.mark.parametrize("shares", [{}, {"final_share": 0.2}, {"final_share": 0.0}])
def test_all_shares_add_up_to_the_budget(shares):
    space = Space({"x": Float(0, 1)})
    plan = planned(plan_centred, d=1, n=300, loss_range=1.0, mu=0.7, seed=0, trials=60, space=space, **shares)
    assert plan.settings.mu**2 + 0.49 * plan.final_share == pytest.approx(0.49)


def test_a_plan_that_cannot_be_is_refused():
    for change, named in (
        ({"trials": 3}, "n_trials"),
        ({"loss_range": 1e-30}, "radius.*scale the loss"),
        ({"mu": 1e-9}, "mu.*plan fewer trials"),
        ({"tuning": {"explore": 1}}, "tuning must be a dict of quantile, rate.*explore"),
    ):
        refused(InputError, named, partial(planned, plan_centred, **change))
