"""Search spaces map parameters to the unit cube and back."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dptune import Float, InputError, Int, Space

unit = st.floats(0, 1)


@st.composite
def parameters(draw: st.DrawFn) -> Float | Int:
    kind = draw(st.sampled_from(["float", "log", "step", "int", "int step", "int log"]))
    if kind == "float":
        low = draw(st.floats(-1e3, 1e3))
        return Float(low, low + draw(st.floats(0, 1e3)))
    if kind == "log":
        low = draw(st.floats(1e-8, 1e3))
        return Float(low, low * draw(st.floats(1, 1e6)), log=True)
    if kind == "step":
        low, step = draw(st.floats(-10, 10)), draw(st.floats(0.01, 3))
        return Float(low, low + step * draw(st.floats(0, 30)), step=step)
    low = draw(st.integers(1, 50))
    high = low + draw(st.integers(0, 200))
    return Int(low, high, log=kind == "int log", step=draw(st.integers(1, 7)) if kind == "int step" else 1)


@given(parameters(), unit)
@example(Float(17.0, 17.000000000000004, log=True), 0.0)  # whose ends have one logarithm
def test_decoding_stays_in_range_and_encoding_is_its_inverse(p: Float | Int, u: float) -> None:
    value = p.decode(u)
    assert p.low <= value <= p.high
    where = p.encode(value)
    assert -1e-12 <= where <= 1 + 1e-12
    assert p.decode(min(max(where, 0.0), 1.0)) == pytest.approx(value, rel=1e-9, abs=1e-9)
    if p.cells is None and p.high - p.low > 1e-3 * (1 + abs(p.low)):
        assert where == pytest.approx(u, abs=1e-6)
    if isinstance(p, Int):
        assert isinstance(value, int)
        assert (value - p.low) % p.step == 0
    elif p.step is not None:
        assert (value - p.low) / p.step == pytest.approx(round((value - p.low) / p.step), abs=1e-6)


def test_steps_have_cells_of_equal_width() -> None:
    for p, cells in ((Int(0, 9), 10), (Int(3, 20, step=4), 5), (Float(0.0, 1.0, step=0.3), 4)):
        assert p.cells == cells
        counts = [p.decode((k + 0.5) / (10 * cells)) for k in range(10 * cells)]
        values, sizes = np.unique(counts, return_counts=True)
        assert len(values) == cells
        assert set(sizes.tolist()) == {10}


def test_a_log_scale_is_even_in_the_logarithm() -> None:
    p = Float(1e-4, 1e2, log=True)
    assert [p.decode(u) for u in (0, 0.5, 1)] == pytest.approx([1e-4, 1e-1, 1e2])
    counts = np.unique([Int(1, 100, log=True).decode(u) for u in np.linspace(0, 1, 10_001)], return_counts=True)[1]
    width = math.log(100.5) - math.log(0.5)
    assert counts[0] == pytest.approx(10_000 * math.log(1.5 / 0.5) / width, abs=3)
    assert counts[9] == pytest.approx(10_000 * math.log(10.5 / 9.5) / width, abs=3)


SPACE = Space({"b": Int(1, 5), "a": Float(0.1, 10.0, log=True), "c": Float(0.0, 1.0, step=0.25)})


def test_a_space_is_ordered_by_name_whatever_order_it_is_given_in() -> None:
    assert list(SPACE) == ["a", "b", "c"]
    assert len(SPACE) == 3
    assert Space(dict(reversed(list(SPACE.items())))).describe() == SPACE.describe()
    assert SPACE.resolution == pytest.approx([0.0, 0.2, 0.2])
    json.dumps(SPACE.describe())


@given(st.tuples(unit, unit, unit))
def test_a_rounded_point_is_where_it_really_lies(u: tuple[float, ...]) -> None:
    decoded = SPACE.decode(np.array(u))
    assert SPACE.contains(decoded)
    again = SPACE.encode(decoded)
    assert SPACE.decode(again) == pytest.approx(decoded)
    assert np.abs(again - u).max() <= 0.1 + 1e-9  # half a cell


def test_points_outside_are_cut_and_told_apart() -> None:
    outside = {"a": 100.0, "b": 0, "c": 0.5}
    assert not SPACE.contains(outside)
    assert SPACE.encode(outside) == pytest.approx(SPACE.encode({"a": 10.0, "b": 1, "c": 0.5}))
    assert SPACE.decode(np.array([2.0, -1.0, 0.5])) == SPACE.decode(np.array([1.0, 0.0, 0.5]))
    assert not SPACE.contains({"a": math.nan, "b": 1, "c": 0.5})
    assert not SPACE.contains({"a": 1.0})
    assert SPACE.contains({"a": 1.0, "b": 1, "c": 0.5, "categorical": "x"})
    with pytest.raises(InputError, match="b"):
        SPACE.encode({"a": 1.0, "c": 0.5})


def test_a_range_of_one_value() -> None:
    space = Space({"x": Float(2.0, 2.0), "n": Int(3, 3), "l": Float(2.0, 2.0, log=True)})
    decoded = space.decode(np.array([0.1, 0.9, 0.4]))
    assert decoded == {"x": 2.0, "n": 3, "l": 2.0}
    assert space.encode(decoded) == pytest.approx([0.5, 0.5, 0.5])


def test_what_is_no_number_is_refused_with_the_way_to_tune_it() -> None:
    with pytest.raises(InputError, match=r"'kind' must be a Float or an Int; got list\..*`choose`.*dptune\.select"):
        Space({"x": Float(0, 1), "kind": ["a", "b"]})


OF_RANGE, OF_LOG = "a range needs finite low <= high; got low=", "a log scale needs low > 0; got low="
OF_WIDTH = "a range needs a finite width, high - low; got low="
WORDS: list[tuple[Callable[[], Any], str]] = [
    (lambda: Float(2.0, 1.5), f"{OF_RANGE}2.0, high=1.5."),
    (lambda: Float(-math.inf, 1), f"{OF_RANGE}-inf, high=1."),
    (lambda: Float(-1e308, 1e308), f"{OF_WIDTH}-1e+308, high=1e+308. Narrow it."),
    (lambda: Int(0, 5, log=True), f"{OF_LOG}0."),
    (lambda: Float(0.0, 5, log=True), f"{OF_LOG}0.0."),
    (lambda: Float(0, 1, step=0.0), "step must be positive and cannot go with log=True; got step=0.0."),
    (lambda: Float(1, 2, log=True, step=0.1), "step must be positive and cannot go with log=True; got step=0.1."),
    (lambda: Int(1, 3.5), "the ends of a whole-number range must be whole; got 1 and 3.5."),
    (lambda: Int(1, 5, step=0), "step must be >= 1, and 1 with log=True; got step=0."),
    (lambda: Int(1, 5, log=True, step=2), "step must be >= 1, and 1 with log=True; got step=2."),
    (lambda: Space({}), "a search space needs at least one parameter."),
    (lambda: SPACE.encode({"b": 1}), "parameters ['a', 'c'] are missing."),
]


def test_a_refused_range_quotes_what_was_given() -> None:
    for make, words in WORDS:
        with pytest.raises(InputError) as refused:
            make()
        assert str(refused.value) == words
    with pytest.raises(InputError, match=r"^log must be True or False; got 1\.$"):
        Float(1, 2, log=1)
    with pytest.raises(InputError, match=rf"^{OF_WIDTH}"):
        Int(-(10**308), 10**308)


def test_what_keeps_parameters_from_being_a_point_is_named() -> None:
    point = {"a": 1.0, "b": 2, "c": 0.5}
    said = {
        "": {},
        "'a' cannot be 11.0; allowed: Float(low=0.1, high=10.0, log=True, step=None)": {"a": 11.0},
        "'b' cannot be 'x'; allowed: Int(low=1, high=5, log=False, step=1)": {"b": "x"},
        "'c' cannot be True; allowed: Float(low=0.0, high=1.0, log=False, step=0.25)": {"c": True},
    }
    for words, change in said.items():
        assert SPACE.validation_error({**point, **change}) == words
        assert SPACE.contains({**point, **change}) == (words == "")
    ends = [{"a": a, "b": b, "c": c} for a, b, c in ((0.1, 1, 0.0), (10.0, 5, 1.0))]
    assert [SPACE.contains(each) for each in ends] == [True, True]
    assert SPACE.validation_error({"x": 1.0, "C": 2}) == "'a' is missing ('x', 'C' are not in the space)"
    assert SPACE.validation_error({"a": 1.0, "C": 2, "c": 0.5}) == "'b' is missing ('C' is not in the space)"
    assert SPACE.validation_error({"a": 1.0, "c": 0.5}) == "'b' is missing"


def test_a_space_is_stored_and_compared_with_all_its_settings() -> None:
    described = {
        "a": {"type": "Float", "low": 0.1, "high": 10.0, "log": True, "step": None},
        "b": {"type": "Int", "low": 1, "high": 5, "log": False, "step": 1},
        "c": {"type": "Float", "low": 0.0, "high": 1.0, "log": False, "step": 0.25},
    }
    assert SPACE.describe() == described
    assert Space.from_description(described) == SPACE
    assert SPACE.centre() == {"a": pytest.approx(1.0), "b": 3, "c": 0.5}
    assert SPACE.encode({"a": 1.0, "b": 4, "c": 0.25}) == pytest.approx([0.5, 0.7, 0.3])
    assert Float(-3.0, 5.0).encode(-1.0) == 0.25
    assert Int(4, 90, log=True).encode(20) == pytest.approx(math.log(20 / 3.5) / math.log(90.5 / 3.5))
    assert [Int(3, 12, step=4).encode(value) for value in (3, 7, 10, 11)] == pytest.approx([1 / 6, 0.5, 0.5, 5 / 6])
    for other in ({"b": Int(1, 5)}, {**SPACE, "b": Int(1, 6)}, {**SPACE, "b": Float(1, 5)}, {**SPACE, "d": Int(1, 2)}):
        assert Space(other) != SPACE
