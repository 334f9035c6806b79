"""A plan's outlook uses public numbers, and its announced noise is the noise that is drawn."""

import math
import re
from statistics import NormalDist

import numpy as np
import pytest

from dptune import CENTRED, GIBO, Budget, Float, LossPrivatizer, PrivacyLedger, SearchRun, Space
from dptune.results import Estimate
from dptune.search import VALUES, PublicFacts
from dptune.search.outlook import Noise, forecast, in_words, noises, warning
from dptune.search.request import SearchRequest

SPACE = Space({"a": Float(0.0, 1.0), "b": Float(0.0, 1.0)})


@pytest.mark.parametrize(("method", "levels"), [(CENTRED, 2), (GIBO, 1), (VALUES, 2)])
def test_the_announced_noise_is_that_of_the_charges(ledger, method, levels):
    privatizer = LossPrivatizer(ledger, n=50, clip=(0.0, 2.0))
    space = None if method is VALUES else SPACE
    about = {} if levels == 1 else {"default": {"a": 0.25, "b": 0.25}}
    run = SearchRun(method, privatizer, scope="run", space=space, trials=20, **about)
    for i in range(60):
        if run.complete:
            break
        x = {"a": 0.5, "b": i / 100} if space is None else run.ask()
        run.finish(str(i), x, np.full(50, x["a"]))
    if run.estimated(best := run.recommend()) is None:
        run.estimate(best, np.zeros(50), default=np.zeros(50))
    charges = ledger.charges("run")[::-1]
    drawn = {c.key.split("/")[0]: c.description["sigma"] for c in charges}  # the first of each kind
    announced = [noise.sigma for noise in noises(run.plan, privatizer, levels=levels)]
    kinds = {CENTRED: ("generation", "final"), GIBO: ("value", "step", "final"), VALUES: ("value", "final")}
    if method is CENTRED:  # C moves: the announcement is for the first
        first = ledger.charges("run", prefix="generation/")[0]
        drawn["generation"] *= run.plan.settings.radius / first.note["radius"]
    assert announced == pytest.approx([drawn[kind] for kind in kinds[method]], rel=1e-5)
    said = re.findall(r" ([\d.e-]+)[;.]", in_words(noises(run.plan, privatizer, levels=levels)))
    assert [float(each.rstrip(".")) for each in said] == pytest.approx(announced, rel=6e-3)


def test_a_plan_warns_only_if_its_noise_hides_every_difference():
    def warned(n, mu, method):
        people = PublicFacts(n, 3.0, mu)
        return warning(noises(method.plan(people, SPACE, mu=mu, seed=0, trials=100), people))

    for method in (CENTRED, GIBO, VALUES):
        assert "Plan fewer trials" in warned(100, 0.01, method)
        assert warned(100_000, 1.0, method) == ""
    assert "told apart" in warned(306, 1.0, VALUES)
    for n, mu, trials in ((300, 1.0, 28), (300, 0.5, 20), (1000, 1.0, 100)):  # as many as can be told apart
        assert VALUES.plan(PublicFacts(n, 1.0, mu), None, mu=mu, seed=0).trials == trials
    assert warned(306, 1.0, CENTRED) == ""


def test_a_run_announces_what_it_can_show_and_what_a_person_risks(fast_path):
    """The message says whether the number of trials is the default."""
    privatizer = LossPrivatizer(PrivacyLedger(fast_path / "ledger.db", Budget.gdp(1.0)), n=300, clip=(0.0, 3.0))
    request = SearchRequest(CENTRED, privatizer, default={"a": 0.5, "b": 1.0})
    announced = request.announcement(request.begin("run", SPACE))
    assert "(the default for 2 coordinates)" in announced
    sigma = 2 * 3.0 / (300 * 0.05**0.5)  # of the difference of two levels, released jointly for 5% of mu^2
    shows = (1.96 + NormalDist().inv_cdf(0.95)) * sigma  # above 1.96 sigma after noise, in 95% of runs
    assert f"Shows: an improvement over the default of {shows:.3g} in 95% of runs" in announced
    noise = np.random.default_rng(0).normal(0.0, sigma, 20_000)
    rates = [
        np.mean([Estimate(true + x, sigma, True).verdict == "better" for x in noise]) for true in (shows, shows / 2)
    ]
    assert rates == [pytest.approx(0.95, abs=0.005), pytest.approx(0.44, abs=0.01)]
    assert "and half of it in 44%" in announced
    assert [line.partition(":")[0] for line in announced.splitlines()] == ["Plan", "Spends", "Shows", "Risk", "Stop"]
    assert "at most 70 times in 100" in announced  # Phi(1/2) = .69


def test_a_warning_about_noise_says_what_makes_it_smaller():
    few, quiet = Noise("a step", 0.5, "the noise of a step hides it"), Noise("a value", 0.1)
    assert warning([quiet]) == ""
    remedy = "Plan fewer trials, a larger mu, a tighter clip, or more people."
    assert warning([few, quiet, few]) == f"{few.hides}; {few.hides}. {remedy}"


@pytest.mark.parametrize("default", [False, True])
def test_a_forecast_has_half_and_twice_the_budget_and_the_trials(default):
    """Of 6 or 12 trials in 3 dimensions a generation has 4, and of 24 it has 6."""
    rows, wanted = forecast(200, (1.0, 5.0), 3, mu=0.3, trials=12, default=default), []
    for method in (CENTRED, VALUES):
        for mu in (0.15, 0.3, 0.6):
            for trials, generations in ((6, 1), (12, 3), (24, 4)):
                centred = 2 * 1.6 * math.sqrt(generations) / (200 * mu * 0.95)
                sigma = 4 * math.sqrt(trials / 0.95) / (200 * mu) if method is VALUES else centred
                what = "a trial's value" if method is VALUES else "a mean loss within a generation, at first"
                final = 4 * math.sqrt(2 if default else 1) / (200 * mu * math.sqrt(0.05))
                shows = (1.96 + 1.645) * math.sqrt(2) * final if default else None
                numbers = {"sigma": sigma, "sigma / clip": sigma / 4, "final estimate": final, "shows": shows}
                made = 4 if (trials, method) == (6, CENTRED) else trials
                wanted.append({"method": method.name, "mu": mu, "trials": made, "noise of": what, **numbers})
    assert [bool(row.pop("warning")) for row in rows] == [False] * 9 + [True] * 9
    assert rows == [
        {name: pytest.approx(each) if isinstance(each, float) else each for name, each in row.items()} for row in wanted
    ]
    few = forecast(200, (1.0, 5.0), 3, mu=0.3, trials=6, default=default)
    assert [row["trials"] for row in few] == [4, 12] * 3 + [4, 6, 12] * 3  # no row twice
    usual = forecast(200, (1.0, 5.0), 3, mu=0.3, trials=None)
    assert [row["trials"] for row in usual[9:12]] == [40, 80, 160]


@pytest.mark.parametrize("share", [0.98, 1.02])
def test_a_plan_warns_beyond_5_percent_of_the_clip_or_half_of_a_vector(share):
    values = 2 * math.sqrt(2) * math.sqrt(12 / 0.95) / (200 * 0.05 * share)
    generations = 2 * math.sqrt(4 + 2) * math.sqrt(3) / (200 * 0.95 * 0.5 * share)
    for method, mu in ((VALUES, values), (CENTRED, generations)):
        people = PublicFacts(200, 3.0, mu)
        plan = method.plan(people, Space({"x": Float(0.0, 1.0)}), mu=mu, seed=0, trials=12)
        assert bool(warning(noises(plan, people))) is (share > 1)
    with_steps = GIBO.plan(people, SPACE, mu=values, seed=0, trials=12)
    assert noises(with_steps, people)[0].hides == ""  # it learns from its gradients, too
