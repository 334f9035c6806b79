"""Each default of a plan is the documented number, and each option of a planner arrives in the plan."""

import math

import pytest

from dptune import CENTRED, GIBO, Float, Int, Space
from dptune.search import VALUES, PublicFacts
from dptune.search.algorithms.centred_plan import careful_quantile, default_quantile, default_trials
from dptune.search.algorithms.gibo import GradientDescent
from dptune.search.algorithms.values import usual_values
from dptune.search.gp import Matern52

SPACE = Space({"a": Float(0.0, 1.0), "b": Float(1e-2, 1e2, log=True), "k": Int(1, 6)})
DEFAULT = {"a": 0.25, "b": 1.0, "k": 2}
PEOPLE = PublicFacts(900, 2.0, 0.8)


def described(method, space=SPACE, **about):
    return method.plan(PEOPLE, space, **{"mu": 0.8, "seed": 5, **about}).describe()


def near(settings):
    return {name: pytest.approx(each, abs=1e-6) if isinstance(each, float) else each for name, each in settings.items()}


TUNING = {
    **{"quantile": 0.972, "rate": 1.0, "floor": 0.01, "radius_share": 0.05, "references": 2, "sigma": 0.2},
    **{"explored": 14, "most_explored": 0, "spread": 0.5, "candidates": 40, "average": 2, "reach": 0.2},
    **{"steps": (0.0, 0.0, 1 / 6), "saturation": 2.0, "saturated": 0.0},
}
OF_CENTRED = {"d": 3, "generations": 11, "population": 7, "mu": 0.7797435, "radius": 0.8, "default": None, "seed": 5}
OF_GIBO = {
    **{"d": 3, "steps": 18, "batch": 4, "mu": 0.6928203, "clip": 0.4, "noise_variance": 1e-3, "theta0": None},
    **{"starts": 8, "start_mu": 0.2529822, "start_clip": 1.6970563, "constant_mean": True, "memory": 1, "average": 4},
    **{"kernel": {"kernel": "RBF", "lengthscale": 0.5, "variance": 1.0}, "seed": 5},
    "rule": {"type": "AdaGradNorm", "eta": pytest.approx(0.5 / math.sqrt(18))},
}


def test_the_defaults_of_each_plan_are_these_numbers():
    plan = {"mu": 0.8, "seed": 5, "spare": 0, "shares": {"monitor": 0.0, "final": 0.05}}
    of_centred = {**plan, "algorithm": "CMA-ES on centred releases", "trials": 77}
    assert described(CENTRED) == {**of_centred, "settings": near({**OF_CENTRED, **TUNING})}
    many = Space({f"x{j:02d}": Float(0.0, 1.0) for j in range(12)})
    tuning = {**TUNING, "quantile": 0.745, "explored": 22, "most_explored": 238, "average": 5, "saturated": 0.6}
    settings = {**OF_CENTRED, **tuning, "d": 12, "generations": 36, "population": 11, "steps": ()}
    assert described(CENTRED, many, trials=400) == {**of_centred, "trials": 396, "settings": near(settings)}
    shares = {"monitor": 0.1, "final": 0.05}
    continuous = Space({name: Float(0.0, 1.0) for name in "abc"})
    of_gibo = {**plan, "algorithm": "DP-GIBO", "trials": 80, "spare": 8, "shares": shares, "settings": near(OF_GIBO)}
    assert described(GIBO, continuous) == of_gibo
    shares = {"monitor": 0.95, "final": 0.05}
    of_values = {**plan, "algorithm": "values", "seed": 0, "trials": 100, "shares": shares, "settings": {}}
    assert described(VALUES, None) == of_values


def test_public_numbers_stay_between_their_ends():
    assert [usual_values(n, 1.0) for n in (10, 252, 260, 450, 565, 566, 10**4)] == [20, 20, 21, 63, 99, 100, 100]
    assert [careful_quantile(n, 1.0, 9, 4) for n in (100, 240, 600, 2000, 10**5)] == [0.95, 0.95, 0.98, 0.99, 0.99]
    assert [default_quantile(n, 1.0, 100) for n in (100, 150, 200, 400, 1000)] == [0.5, 0.5, 0.583, 0.783, 0.8]
    assert [default_trials(d) for d in (1, 7)] == [40, 160]


# option -> its value, where the plan shows it, and what stands there
OPTIONS = {
    CENTRED: {
        "population": (6, ("settings", "population"), 6),
        "radius": (0.3, ("settings", "radius"), 0.3),
        "final_share": (0.19, ("settings", "mu"), 0.8 * 0.9),
        "tuning": ({"reach": 0.1}, ("settings", "reach"), 0.1),
        "trials": (50, ("trials",), 49),
    },
    VALUES: {"final_share": (0.3, ("shares", "monitor"), 0.7), "trials": (33, ("trials",), 33)},
    GIBO: {
        "steps": (5, ("settings", "steps"), 5),
        "batch": (3, ("settings", "batch"), 3),
        "starts": (6, ("settings", "starts"), 6),
        "clip": (0.7, ("settings", "clip"), 0.7),
        "start_clip": (0.6, ("settings", "start_clip"), 0.6),
        "lengthscale": (0.3, ("settings", "kernel", "lengthscale"), 0.3),
        "noise_variance": (0.02, ("settings", "noise_variance"), 0.02),
        "kernel": (Matern52(0.7), ("settings", "kernel", "kernel"), "Matern52"),
        "rule": (GradientDescent(0.3), ("settings", "rule"), {"type": "GradientDescent", "eta": 0.3}),
        "theta0": ((0.1, 0.2, 0.3), ("settings", "theta0"), (0.1, 0.2, 0.3)),
        "constant_mean": (False, ("settings", "constant_mean"), False),
        "memory": (3, ("settings", "memory"), 3),
        "average": (2, ("settings", "average"), 2),
        "monitor_share": (0.2, ("shares", "monitor"), 0.2),
        "start_share": (0.25, ("settings", "start_mu"), 0.8 * 0.5),
        "final_share": (0.3, ("shares", "final"), 0.3),
        "trials": (50, ("trials",), 49),
    },
}


@pytest.mark.parametrize("method", OPTIONS, ids=lambda method: method.name)
def test_every_option_of_a_planner_arrives_in_the_plan(method):
    assert set(OPTIONS[method]) == {*method.options, "trials"}
    for name, (value, place, wanted) in OPTIONS[method].items():
        shown = described(method, **{name: value})
        for key in place:
            shown = shown[key]
        assert shown == (pytest.approx(wanted) if isinstance(wanted, float) else wanted), name
    if method is not VALUES:
        point = {CENTRED: "default", GIBO: "theta0"}[method]
        assert described(method, default=DEFAULT)["settings"][point] == pytest.approx((0.25, 0.5, 0.25))
        assert described(method, seed=9)["seed"] == 9


def test_boundaries_between_defaults_lie_where_they_are_documented():
    def tuning(d, **about):
        return described(CENTRED, Space({f"x{j:02d}": Float(0.0, 1.0) for j in range(d)}), **about)["settings"]

    assert [tuning(d)["saturated"] for d in (10, 11)] == [0.0, 0.6]
    assert tuning(3, trials=7, population=7)["generations"] == 1
    fewer = {"population": 5, "trials": 100, "tuning": {"references": 10}}
    assert tuning(3, **fewer)["quantile"] == pytest.approx(1 - 2 * math.sqrt(15 * 20) / (900 * 0.7797435), abs=1e-3)
    given = tuning(12, trials=400, tuning={"explored": 7})
    assert (given["explored"], given["most_explored"]) == (7, 238)
    cells = Space({"two": Int(0, 1), "one": Int(3, 3), "log": Int(1, 9, log=True), "half": Float(0.0, 1.0, step=0.5)})
    assert described(CENTRED, cells)["settings"]["steps"] == pytest.approx((1 / 3, 0.0, 0.0, 0.5))  # by name
    starts = [
        described(GIBO, Space({f"x{j}": Float(0.0, 1.0) for j in range(d)}))["settings"]["starts"] for d in (5, 6)
    ]
    assert starts == [12, 0]
    assert described(GIBO, steps=5, average=99)["settings"]["average"] == 5
    scales = described(GIBO)["settings"]["kernel"]["lengthscale"]
    reach = (2e-3 * 9 / 8) ** 0.25 / math.sqrt(3)  # of a simplex of three dimensions, by coordinate
    assert scales == pytest.approx([0.5, 0.5, 0.5 / 6 / reach], rel=0.02)
