"""PerExampleLosses accepts losses and never reveals them."""

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dptune import InputError, PrivacyError
from dptune.privacy import PerExampleLosses
from dptune.privacy.seal.private import reveal

SECRET = 0.123456789


@pytest.fixture
def losses() -> PerExampleLosses:
    return PerExampleLosses([SECRET, 0.5])


def test_only_its_length_and_a_redacted_repr_are_public(losses: PerExampleLosses) -> None:
    assert len(losses) == 2
    assert repr(losses) == "PerExampleLosses(<private values>)"
    assert repr([losses]) == "[PerExampleLosses(<private values>)]"
    assert not hasattr(losses, "__dict__")
    assert not [name for name in dir(losses) if not name.startswith("_")]


ESCAPES: dict[str, Callable[[Any], Any]] = {
    "str": str,
    "format": lambda x: format(x, ".3f"),
    "iter": lambda x: list(x),
    "getitem": lambda x: x[0],
    "contains": lambda x: SECRET in x,
    "reversed": lambda x: list(reversed(x)),
    "asarray": np.asarray,
    "add an array": lambda x: np.zeros(2) + x,
    "float": float,
    "bool": bool,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "eq": lambda x: x == x,
    "ne": lambda x: x != 1,
    "eq array": lambda x: np.ones(2) == x,
    "lt": lambda x: x < 1,
    "le": lambda x: x <= 1,
    "gt": lambda x: x > 1,
    "ge": lambda x: x >= 1,
    **{f"pickle {p}": lambda x, p=p: pickle.dumps(x, protocol=p) for p in range(pickle.HIGHEST_PROTOCOL + 1)},
}


def test_every_way_out_is_refused_with_the_same_words(losses: PerExampleLosses) -> None:
    for name, escape in ESCAPES.items():
        with pytest.raises(PrivacyError, match=r"can only be given to LossPrivatizer\.observe") as refused:
            escape(losses)
        assert str(SECRET) not in str(refused.value), name
    for escape in (hash, int, json.dumps, memoryview, bytes, lambda x: x + 1, lambda x: {x}, vars, abs, round):
        with pytest.raises((TypeError, PrivacyError)) as refused:
            escape(losses)  # protocols that do not exist
        assert "0.12" not in str(refused.value)


def values(given: object) -> np.ndarray:
    return reveal(PerExampleLosses(given))


def test_the_wrapper_holds_a_copy_and_is_not_wrapped_twice(losses: PerExampleLosses) -> None:
    mine = np.array([0.1, 0.2])
    held = PerExampleLosses(mine)
    mine[:] = 9.0
    assert reveal(held).tolist() == [0.1, 0.2]
    with pytest.raises(InputError):
        PerExampleLosses(losses)


def test_real_numbers_of_any_kind_are_taken() -> None:
    for dtype in ("f2", "f4", "f8", "g", "i1", "i8", "u1", "u8", "?"):
        taken = values(np.array([0, 1, 1]).astype(dtype))
        assert taken.dtype == np.float64
        assert taken.tolist() == [0.0, 1.0, 1.0]
    assert values(np.array([np.longdouble("1e4000"), 1])).tolist() == [np.inf, 1.0]  # without a warning
    assert values((1, 2)).tolist() == [1.0, 2.0]


def test_an_odd_entry_of_a_list_neither_raises_nor_changes_the_others() -> None:
    huge = np.longdouble("1e4000")  # overflows float64
    odd = [0.5, None, "12 years", b"x", 1j, np.complex128(1j), [2, 3], {}, object(), np.float32(2), True, huge, 10**400]
    found = values(odd)
    assert found[[0, 9, 10]].tolist() == [0.5, 2.0, 1.0]
    assert found[11] == np.inf or np.isnan(found[11])
    assert found[12] == np.inf
    assert np.isnan(found[1:9]).all()
    assert np.isnan(values([[1.0, 2.0], [3.0, 4.0]])).all()
    np.testing.assert_array_equal(values(np.array(odd, dtype=object)), found)
    # arrays that NumPy makes of numbers beside a text or a complex number, and a mask
    for odd in (np.array([0.5, "n/a"]), np.array([0.5, 1j]), np.ma.masked_array([0.5, 7.0], [False, True])):
        np.testing.assert_array_equal(values(odd), [0.5, np.nan])


REFUSED: list[Callable[[int], object]] = [
    lambda k: np.array(["2020-01-01", f"20{10 + k}-01-01"], dtype="M8[D]"),
    lambda k: np.array([(k, 2.0)], dtype=[("a", "i8"), ("b", "f8")]),
    lambda k: np.full((2, 2), float(k)),
    lambda k: np.empty((0, 3)),
    lambda k: float(k),
    lambda k: "a" * k,
    lambda k: (x for x in [k]),
    lambda k: {"a": k},
    lambda k: [],
]


def test_what_is_refused_is_refused_in_words_that_do_not_depend_on_values() -> None:
    for make in REFUSED:
        texts = set()
        for content in (1, 7):
            with pytest.raises(InputError) as refused:
                PerExampleLosses(make(content))
            assert refused.value.__cause__ is None
            texts.add(str(refused.value))
        assert len(texts) == 1
        assert texts.pop().startswith("per-example losses must be")


class Quotes:
    """Raises an error with a private value, whatever it is asked for."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __array__(self, *args: Any, **kw: Any) -> Any:
        raise self.error(f"cannot convert {SECRET}")

    def __float__(self) -> float:
        raise self.error(f"cannot convert {SECRET}")


@pytest.mark.parametrize("error", [RuntimeError, SystemExit, GeneratorExit])
def test_an_error_that_quotes_private_values_is_not_shown(
    error: type[BaseException],
) -> None:
    """An entry that raises becomes nan, and the others are unchanged."""
    with pytest.raises(InputError) as refused:
        PerExampleLosses(Quotes(error))
    assert str(SECRET) not in str(refused.value)
    assert refused.value.__context__ is None
    entry = Quotes(error)
    np.testing.assert_array_equal(values([0.5, entry]), [0.5, np.nan])
