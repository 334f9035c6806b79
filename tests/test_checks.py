"""Numbers from callers: NumPy's are converted to Python's, look-alikes are not numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest

from dptune import InputError
from dptune._checks import at_least, between, check, check_fields, positive, share
from dptune._numbers import plain, real, whole


class Forged(int):
    def __int__(self) -> int:
        return 99


class ForgedFloat(np.float64):
    def __float__(self) -> float:
        return 99.0


@pytest.mark.parametrize("kind", [int, np.int8, np.uint8, np.int64, np.uint64, np.intp])
def test_whole_numbers_of_every_kind(kind: type) -> None:
    assert type(whole(kind(3))) is int
    assert whole(kind(3)) == 3
    assert type(real(kind(3))) is float


@pytest.mark.parametrize("kind", [float, np.float16, np.float32, np.float64, np.longdouble])
def test_real_numbers_of_every_kind(kind: type) -> None:
    assert real(kind(0.5)) == 0.5
    assert type(real(kind(0.5))) is float
    assert whole(kind(3)) is None


@pytest.mark.parametrize(
    "value", [True, np.True_, "3", None, 3j, [3], np.array(3), Forged(3), ForgedFloat(3), Fraction(3)]
)
def test_look_alikes_are_not_numbers(value: object) -> None:
    assert whole(value) is None
    assert real(value) is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [math.nan, math.inf, -np.float32("inf"), 10**400, np.longdouble("1e4000")])
def test_real_numbers_are_finite(value: object) -> None:
    assert real(value) is None


@dataclass(frozen=True)
class Checked:
    count: int = field(metadata=check(at_least, 1))
    part: float = field(default=0.5, metadata=check(between, 0.0, 1.0))
    size: float | None = field(default=None, metadata=check(positive))

    def __post_init__(self) -> None:
        check_fields(self)


def test_a_declared_check_converts_or_refuses_by_name_and_none_stays_where_it_is_the_default() -> None:
    made = Checked(np.int8(2), part=np.float16(0.25))
    assert made == Checked(2, 0.25, None)
    assert (type(made.count), type(made.part)) == (int, float)
    for name, bad in {"count": 0, "part": 1.5, "size": -1.0}.items():
        with pytest.raises(InputError, match=f"^{name} must"):
            Checked(**{"count": 1, name: bad})
    for name in ("count", "part"):
        with pytest.raises(InputError, match=f"^{name} must"):
            Checked(**{"count": 1, name: None})


def test_the_helpers_convert_or_refuse_by_name() -> None:
    assert plain((np.int8(1), (np.float32(0.5), "a"), None, True)) == (1, (0.5, "a"), None, True)
    assert [type(plain(kind(1))) for kind in (np.int8, np.float32)] == [int, float]
    assert (at_least("k", np.int8(2), 2), positive("x", np.int8(2)), share("s", 0)) == (2, 2.0, 0.0)
    for refuse in (lambda: at_least("it", 1, 2), lambda: positive("it", 0), lambda: share("it", 1)):
        with pytest.raises(InputError, match="it must"):
            refuse()
