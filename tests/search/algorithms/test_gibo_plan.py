"""The defaults are usable plans for every size, and designs stay distinct on a coarse grid."""

import math

import numpy as np
import pytest

from benchmarks.curator import Curator
from dptune import GIBO, Int, SearchRun, Space
from dptune.search.algorithms.gibo_plan import LENGTHSCALE, plan_gibo
from planning import planned


@pytest.mark.parametrize(("d", "trials"), [(1, 7), (2, 40), (6, 850), (33, 1)])
def test_a_plan_fits_its_trials_where_one_step_can(d, trials):
    plan = planned(plan_gibo, d=d, n=500, loss_range=2.0, mu=1.0, seed=0, trials=trials)
    s = plan.settings
    assert plan.trials <= max(trials, s.starts + s.batch_at(0))
    if trials > 2 * (d + 1):
        assert plan.trials <= trials
    assert 1 <= s.average <= s.steps
    released = math.hypot(s.mu, s.start_mu if s.starts else 0.0, plan.final_mu)
    assert math.hypot(released, plan.monitor_mu * math.sqrt(plan.trials + plan.spare)) == pytest.approx(1.0)


def test_defaults_follow_from_public_facts():
    s = planned(plan_gibo, d=33, n=500, mu=1.0, trials=60).settings
    assert s.batch == 12
    assert s.steps == 5
    assert s.memory == 3
    assert s.memory * s.batch_at(0) >= 34  # together they measure every direction
    wide, narrow = (
        planned(plan_gibo, n=500, loss_range=width, steps=steps).settings for width, steps in ((6.0, 100), (2.0, 4))
    )
    assert wide.clip == pytest.approx(3 * narrow.clip)
    assert wide.rule.eta * 10 == pytest.approx(narrow.rule.eta * 2)  # the path does not grow with the steps
    assert planned(plan_gibo, d=3, n=500, mu=1.0, trials=80).settings.starts == 8
    assert planned(plan_gibo, d=3, n=50, mu=0.5, trials=80).settings.starts == 0  # noise would choose
    assert planned(plan_gibo, d=6, n=500, mu=1.0, trials=80).settings.starts == 0
    assert planned(plan_gibo, d=3, n=500, mu=1.0, theta0=(0.1, 0.2, 0.3)).settings.starts == 0


@pytest.mark.parametrize(("cells", "d"), [(3, 8), (8, 1), (10, 4)])
def test_a_coarse_grid_does_not_swallow_the_design(cells, d):
    """Without noise a quadratic's minimum is found; designs inside one cell would never leave the start."""
    space = Space({f"i{j:02d}": Int(0, cells - 1) for j in range(d)})
    assert worst_distance(space) < 1e-9
    if d == 8:
        assert worst_distance(space, lengthscale=LENGTHSCALE) > 0.02  # the test can fail: without the cells it does


def worst_distance(space, **settings):
    """Of the found point from the optimum over two seeds, where everybody's loss is the same."""
    distances = []
    for seed in range(2):
        target = space.encode(space.decode(np.random.default_rng(seed).uniform(size=len(space))))
        curator = Curator(4, (0.0, 1.0), seed=seed, private=False, mu=1e4)
        run = SearchRun(GIBO, curator, scope="s", space=space, seed=seed, monitor_share=0.0, **settings)
        for trial in range(run.plan.trials):
            found = run.ask()
            run.finish(str(trial), found, np.full(4, np.mean((space.encode(found) - target) ** 2)))
        distances.append(np.mean((space.encode(run.recommend()) - target) ** 2))
    return max(distances)
