"""The model of a run's released values takes the newest ones, each with its own kind of parameter."""

import numpy as np
import pytest

from dptune import Float, Int, Space
from dptune.search.answer import at_edge, best_of_values, difference_of_values, features

SLOPE = [({"a": x}, 1.0 - x, 0.01) for x in np.linspace(0.0, 1.0, 9).tolist()]


def test_an_edge_is_one_hundredth_of_a_range_with_more_than_100_values():
    ranges = {"x": Float(0.0, 1.0), "y": Float(0.0, 1.0), "i": Int(0, 99), "j": Int(0, 100)}
    space = Space({**ranges, "C": Float(1e-3, 1e3, log=True)})
    at = {"x": 0.5, "y": 0.5, "i": 50, "j": 50, "C": 1.0}
    changes = [{"x": 0.009}, {"x": 0.011}, {"y": 0.989}, {"y": 0.991}, {"i": 0}, {"j": 0}, {"C": 900.0}]
    assert [at_edge(space, {**at, **change}) for change in changes] == [("x",), (), (), ("y",), (), ("j",), ("C",)]


def test_a_wide_positive_range_is_logarithmic_and_gaps_are_in_the_middle():
    def column(*values):
        return features([{"a": value} if value is not None else {} for value in values])[:, 0]

    assert column(1.0, 10.0, 100.0) == pytest.approx([0.0, 9 / 99, 1.0])
    assert column(1.0, 10.0, 1000.0) == pytest.approx([0.0, 1 / 3, 1.0])
    assert column(-1.0, 1.0, 999.0) == pytest.approx([0.0, 0.002, 1.0])
    assert column(2, None, 4) == pytest.approx([0.0, 0.5, 1.0])
    kinds = features([{"kind": "tree"}, {}, {"kind": "svc"}, {"kind": True}])
    assert kinds.tolist() == [[0, 1, 0], [0.5, 0.5, 0.5], [1, 0, 0], [0, 0, 1]]  # svc, tree, True
    assert features([{"on": True}, {"on": False}]).tolist() == [[0, 1], [1, 0]]
    assert features([{"on": True}, {"on": np.bool_(False)}]).tolist() == [[0, 1], [1, 0]]
    for default in (np.int64(3), np.float32(3), np.float16(3)):  # numbers of a user beside those of a ledger
        assert column(1, 2, default) == pytest.approx([0.0, 0.5, 1.0])


def test_four_values_are_fitted_and_three_are_taken_as_they_are():
    space, x, y = Space({"a": Float(0.0, 1.0)}), np.array([0.0]), np.array([1.0])
    assert best_of_values(SLOPE[:3], {"a": 0.0}) == ({"a": 0.25}, None)
    best, (gain, sigma) = best_of_values(SLOPE[:4], {"a": 0.0})
    assert (best, gain) == ({"a": 0.375}, pytest.approx(0.375, abs=0.02))
    outside = [({"a": 2.0}, -9.0, 0.01)]
    assert difference_of_values(space, [*SLOPE[:3], *outside], x, y) is None
    found = difference_of_values(space, [*SLOPE, *outside], x, y)
    assert found == difference_of_values(space, SLOPE, x, y)
    assert found[0] == pytest.approx(1.0, abs=0.05)  # the loss at x less that at y
    assert best_of_values(SLOPE, {"a": 0.25})[1][0] == pytest.approx(0.75, abs=0.05)
    assert 0 < sigma < 0.05


def test_the_largest_noise_is_that_of_all_values():
    loud = [(*one[:2], 1.0) for one in SLOPE]
    assert best_of_values([*SLOPE[:8], loud[8]], {"a": 0.0}) == best_of_values(loud, {"a": 0.0})
    assert best_of_values(SLOPE, {"a": 0.0}) != best_of_values(loud, {"a": 0.0})


def test_the_newest_250_values_are_used(monkeypatch):
    seen = []
    monkeypatch.setattr("dptune.search.answer.GroupedRegression.fit", lambda self, groups: seen.extend(groups))
    released = [({"a": float(i)}, float(i), 0.1) for i in range(260)]
    assert best_of_values(released)[0] == {"a": 10.0}
    assert seen[0].values.tolist() == list(range(10, 260))
    assert len(seen[0].points) == 250
