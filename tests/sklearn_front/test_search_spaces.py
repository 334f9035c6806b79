"""Lists, distributions and grids mean what they mean in scikit-learn."""

import numpy as np
import pytest
from scipy.stats import (
    beta,
    binom,
    expon,
    geom,
    loguniform,
    norm,
    poisson,
    randint,
    rv_discrete,
    rv_histogram,
    uniform,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import dptune
from dptune_sklearn.spaces import UserSpace, candidates, refuse_unknown

DISTRIBUTIONS = {
    "uniform": uniform(2, 3),
    "loguniform": loguniform(1e-3, 1e2),
    "shifted": loguniform(1e-3, 1e2, loc=5),
    "randint": randint(3, 9),
    "normal": norm(1, 2),
    "beta": beta(2, 5),
    "expon": expon(scale=3),
    "poisson": poisson(4),
    "histogram": rv_histogram(np.histogram([1.0, 2.0, 4.0], bins=3)),
    "numbers": [10, 0.1, 1],
    "whole": np.array([5, 3, 4]),
    "constant": ["one"],
    "text": ["rbf", "linear", None],
    "objects": [(8,), np.arange(3), len],
}


def test_every_point_of_the_cube_is_a_value_of_the_users_and_back():
    where = UserSpace(DISTRIBUTIONS)
    for u in np.random.default_rng(0).random((200, where.space.d)):
        point = where.space.decode(u)
        user = where.user(point)
        assert any(user["objects"] is each for each in DISTRIBUTIONS["objects"])
        for name in set(user) - {"objects"}:
            given, value = DISTRIBUTIONS[name], user[name]
            if hasattr(given, "support"):
                low, high = given.support()
                assert low <= value <= high, name
                assert isinstance(value, int | float)
            else:
                assert value in given
        assert isinstance(user["randint"], int)
        back = where.ours({**user, "objects": len})
        assert back is not None
        for name in set(point) - {"poisson", "objects"}:  # whose values are fewer than their quantiles
            assert back[name] == (point[name] if name == "text" else pytest.approx(point[name])), name


def test_the_ends_of_a_space_are_the_users_and_what_is_outside_is_no_point():
    where = UserSpace(DISTRIBUTIONS)
    for outside in ({}, dict.fromkeys(DISTRIBUTIONS, "scale"), dict.fromkeys(DISTRIBUTIONS, 1e9)):
        assert where.ours(outside) is None
    low, high = (where.user(where.space.decode(np.full(where.space.d, u))) for u in (0.0, 1.0))
    assert (low["uniform"], high["uniform"]) == (2, 5)
    assert (low["randint"], high["randint"]) == (3, 8)
    assert (low["numbers"], high["numbers"]) == (0.1, 10)
    assert low["loguniform"], high["loguniform"] == pytest.approx((1e-3, 1e2))
    assert norm(1, 2).cdf(low["normal"]) == pytest.approx(1e-3)
    assert (low["histogram"], high["histogram"]) == (1.0, 4.0)


@pytest.mark.parametrize(
    "given", [poisson(4), binom(10, 0.3), geom(0.3), rv_discrete(values=([1, 2, 5], [0.2, 0.3, 0.5]))]
)
def test_discrete_distributions_give_whole_numbers_that_they_can_have_and_back(given):
    where = UserSpace({"k": given})
    for u in np.linspace(0, 1, 21):
        user = where.user(where.space.decode(np.array([u])))
        assert isinstance(user["k"], int)
        assert given.pmf(user["k"]) > 0
        assert where.user(where.ours(user)) == user


def test_the_nearest_point_moves_numbers_and_nothing_else():
    where = UserSpace({"l2": loguniform(1e-6, 1.0), "depth": [2, 4, 8], "kind": ["a", "b"]})
    point, moved = where.nearest({"l2": 0.0, "depth": 7, "kind": "b"})
    assert (where.user(point), moved) == ({"l2": 1e-6, "depth": 8, "kind": "b"}, ["l2", "depth"])
    assert where.nearest({"l2": 0.0, "depth": 7, "kind": "c"}) == (None, [])
    assert where.nearest({"l2": "auto", "depth": 4, "kind": "b"}) == (None, [])
    assert where.nearest({"l2": 0.1, "depth": 4, "kind": "b"})[1] == []


PIPELINE = Pipeline([("scale", StandardScaler()), ("model", SVC())])
MISSPELT = [{"model__C": [1, 2]}, {"model": [Ridge()], "model__alhpa": uniform(0, 1)}]
REFUSING = {
    "a space": UserSpace,
    "names": lambda given: refuse_unknown(given, PIPELINE),
    "candidates": lambda given: candidates(given, None, 0),
}


@pytest.mark.parametrize(
    ("refusing", "given", "message"),
    [
        ("a space", {"C": 3}, "must be a list of values or a frozen"),
        ("a space", {"C": "abc"}, "must be a list"),
        ("a space", {"C": []}, "must be a list"),
        ("a space", {"C": [1.0]}, "nothing to search"),
        *((each, empty, "one parameter; got") for empty in ({}, [], [{}], "C", None, [["C"]]) for each in REFUSING),
        ("names", {"model__CC": [1, 2]}, "has 'model__CC', which .* Did you mean 'model__C'"),
        ("names", MISSPELT, "has 'model__alhpa', which .* Did you mean 'model__alpha'"),
        ("names", [{"modle": [Ridge()], "model__C": [1, 2]}], "has 'modle', which .* Did you mean 'model'"),
    ],
)
def test_what_cannot_be_searched_is_refused_with_a_remedy(refusing, given, message):
    with pytest.raises(dptune.InputError, match=message):
        REFUSING[refusing](given)


@pytest.mark.parametrize(
    "given",
    [
        {"scale": [StandardScaler(), "passthrough"], "scale__with_mean": [True, False], "model__C": uniform(0, 1)},
        [{"model": [SVC(), Ridge()], "model__alpha": [1, 2], "model__C": [3, 4]}],
        {"model": [Pipeline([("ridge", Ridge())])], "model__ridge__alpha": [1, 2]},
        {"scale": np.array([StandardScaler()]), "scale__with_mean": [True, False]},
    ],
)
def test_a_parameter_of_some_model_of_a_space_is_not_refused(given):
    refuse_unknown(given, PIPELINE)


def test_a_grid_is_tried_whole_and_a_sample_is_drawn_without_repetition():
    grid = {"C": [1, 2, 3], "kernel": ["rbf", "linear"]}
    assert candidates(grid, None, 0) == list(ParameterGrid(grid))
    assert len(candidates(grid, 100, 0)) == 6
    some = candidates(grid, 4, 0)
    assert len({tuple(each.items()) for each in some}) == 4
    assert len(candidates([grid, {"C": [9], "kernel": ["poly"]}], None, 0)) == 7
    assert len(candidates({"C": uniform(0, 1)}, None, 0)) == 100
    assert candidates({"C": uniform(0, 1)}, 5, 1) == candidates({"C": uniform(0, 1)}, 5, 1)


def test_of_several_spaces_a_point_lies_in_one():
    where = UserSpace([{"kernel": ["linear"], "C": uniform(0, 1)}, {"kernel": ["rbf"], "C": [1, 2], "gamma": [3, 4]}])
    points = [where.user(where.space.decode(u)) for u in np.random.default_rng(0).random((50, where.space.d))]
    linear, rbf = ([point for point in points if point["kernel"] == kernel] for kernel in ("linear", "rbf"))
    assert len(linear) + len(rbf) == 50
    assert all(set(point) == {"kernel", "C"} and 0 <= point["C"] <= 1 for point in linear)
    assert all(set(point) == {"kernel", "C", "gamma"} and point["C"] in (1, 2) for point in rbf)
    assert linear
    assert rbf


def test_an_estimators_own_parameters_are_a_point_of_the_space_they_lie_in():
    svc = {"model": [SVC()], "model__C": uniform(0.1, 9.9)}
    tree = {"model": [DecisionTreeClassifier(), DecisionTreeClassifier(max_depth=2)], "model__min_samples_leaf": [1, 5]}
    where = UserSpace([svc, tree])

    def own(model):
        point = where.ours(Pipeline([("model", model)]).get_params())
        return None if point is None else where.user(point)

    assert own(SVC()) == {"model": svc["model"][0], "model__C": pytest.approx(1.0)}
    assert own(DecisionTreeClassifier(max_depth=2)) == {"model": tree["model"][1], "model__min_samples_leaf": 1}
    assert own(SVC(gamma=0.1)) is None
    assert own(SVC(C=20.0)) is None
    assert own(LogisticRegression()) is None
