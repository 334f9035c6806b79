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


def test_a_bad_range_is_refused() -> None:
    bad: list[Callable[[], Any]] = [
        lambda: Float(2.0, 1.0),
        lambda: Float(0.0, 1.0, log=True),
        lambda: Float(0.0, 1.0, step=0.0),
        lambda: Float(1.0, 2.0, log=True, step=0.1),
        lambda: Int(0.5, 3.7),
        lambda: Int(0, 5, log=True),
        lambda: Int(1, 5, step=0),
        lambda: Int(1, 5, log=True, step=2),
        lambda: Space({}),
        lambda: Space({"a": (0.0, 1.0)}),
    ]
    for make in bad:
        with pytest.raises(InputError):
            pytest.fail(f"made {make()}")


def test_what_is_no_number_is_refused_with_the_way_to_tune_it() -> None:
    with pytest.raises(InputError, match=r"'kind' must be a Float or an Int; got list\..*`choose`.*dptune\.select"):
        Space({"x": Float(0, 1), "kind": ["a", "b"]})
