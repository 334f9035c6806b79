"""Each check of an argument accepts up to its limits, and refuses with what is allowed and what was given."""

import itertools
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dptune import InputError
from dptune import _checks as checks
from dptune._statement import counted, large_delta, priced
from dptune.errors import BudgetMismatch

MOST = 2**53
REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: checks.at_least("k", "3", 2), "k must be a whole number >= 2; got '3'."),
    (lambda: checks.at_least("k", 1, 2), "k must be a whole number >= 2; got 1."),
    (lambda: checks.at_least("k", MOST + 1, 2), f"k must be at most {MOST}; got a number of 54 bits."),
    (lambda: checks.at_least("k", 8, 2, 7), "k must be at most 7; got a number of 4 bits."),
    (lambda: checks.positive("x", 0), "x must be a number, positive and finite; got 0."),
    (lambda: checks.share("s", 1), "s must lie in [0, 1); got 1."),
    (lambda: checks.share("s", -0.5), "s must lie in [0, 1); got -0.5."),
    (lambda: checks.between("b", 5, 0.25, 4), "b must lie in [0.25, 4]; got 5."),
    (lambda: checks.boolean("y", 1), "y must be True or False; got 1."),
    (lambda: checks.function("f", 3, " of a trial"), "f must be a function of a trial; got 3. Nothing was charged."),
    (
        lambda: checks.users_function("f", dict, " of a trial"),
        "f must be a function of a trial; got the class dict. Give a function that makes one, trains it and returns "
        "the result. Nothing was charged.",
    ),
    (
        lambda: checks.place("p", None),
        "p must say where, as text or a Path; got None. Is an environment variable not set?",
    ),
    (
        lambda: checks.place("p", " "),
        "p must say where, as text or a Path; got ' '. Is an environment variable not set?",
    ),
    (lambda: checks.text("t", ""), "t must be a text that is not empty; got ''."),
    (
        lambda: checks.text("t", "a\0", lambda _: "it"),
        "t must be a text without NUL characters and lone surrogates; got it.",
    ),
    (
        lambda: checks.json_data("j", {1, 2}),
        "j must be JSON data: None, bool, int, finite float, str, lists and dicts of these; got a set of length 2.",
    ),
    (
        lambda: checks.readable("X", lambda *_: 1 / 0, [1], np.zeros((2, 3))),
        "X cannot be read (ZeroDivisionError); got a list of length 1 and a ndarray of shape (2, 3). Nothing was "
        "charged.",
    ),
]


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_a_check_says_what_is_allowed_and_what_was_given(call: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError) as told:
        call()
    assert str(told.value) == words


def test_a_check_returns_what_lies_on_its_limits() -> None:
    assert (checks.at_least("k", 2, 2), checks.at_least("k", MOST, 2), checks.at_least("k", 7, 2, 7)) == (2, MOST, 7)
    assert (checks.share("s", 0), checks.between("b", 0.25, 0.25, 4), checks.between("b", 4, 0.25, 4)) == (0, 0.25, 4)
    assert (checks.boolean("y", np.True_), checks.boolean("y", False)) == (True, False)
    assert (checks.place("p", Path("a/b")), checks.place("p", "a")) == ("a/b", "a")
    assert checks.users_function("f", len) is checks.function("f", len) is len
    assert checks.json_data("j", {"a": (1, None, [0.5])}) == {"a": [1, None, [0.5]]}
    assert checks.readable("X", max, 3, 5) == 5
    assert checks.tupled([1, [2, [3]], {"a": [4]}]) == (1, (2, (3,)), {"a": [4]})


def test_short_texts_and_numbers_are_quoted_and_all_else_is_described() -> None:
    for value in ("x" * 200, 10**200 - 1, 1 - 10**200, 0.5, math.nan, True, -3):
        assert checks.shown(value) == repr(value)
    assert (checks.shown(np.float32(0.5)), checks.shown(np.int8(3)), checks.shown(None)) == ("0.5", "3", "None")
    for value, words in (
        ("x" * 201, "a str of length 201"), (10**200, "an int"), ((1, 2), "a tuple of length 2"),
        ({"a": 1}, "a dict of length 1"), (frozenset(), "a frozenset of length 0"), (type("Odd", (), {})(), "an Odd"),
        (type("estimate", (), {})(), "an estimate"), (np.zeros((2, 3)), "a ndarray of shape (2, 3)"),
        (b"ab", "a bytes of length 2"),
        (pd.DataFrame({"a": [1]}), "a DataFrame of shape (1, 1)"), (SimpleNamespace(shape="x"), "a SimpleNamespace"),
    ):  # fmt: skip
        assert checks.shown(value) == words


def test_names_of_columns_are_those_of_a_table() -> None:
    cells = {"b": [1, 2], "a": [3, 4]}
    method = SimpleNamespace(column_names=lambda: ["b", "a"], shape=(2, 2))
    for table in (pd.DataFrame(cells), pl.DataFrame(cells), pa.table(cells), method):
        assert checks.column_names(table) == ["b", "a"]
    assert checks.column_names(pd.DataFrame([[1, 2]], columns=[7, 3])) == [7, 3]
    wide = SimpleNamespace(column_names=["b", "a"], shape=(2, 3))
    for table in (wide, np.zeros((2, 2)), [1], SimpleNamespace(columns=("a",)), SimpleNamespace(columns=[1])):
        assert checks.column_names(table) is None


def test_an_error_says_once_that_nothing_was_charged() -> None:
    for kind, said in itertools.product((InputError, BudgetMismatch), ("no.", "no. Nothing was charged.")):
        with pytest.raises(kind) as told, checks.nothing_charged():
            raise kind(said)
        assert str(told.value) == "no. Nothing was charged."
    with pytest.raises(KeyError, match="no"), checks.nothing_charged():
        raise KeyError("no")


def test_an_interrupt_passes_and_everything_else_fails_quietly() -> None:
    def stop(error: BaseException) -> object:
        raise error

    for error in (ValueError(), SystemExit()):
        assert checks.attempt(partial(stop, error), failed="failed") == "failed"
    interrupted = partial(stop, KeyboardInterrupt("private"))
    for act in (lambda: checks.attempt(interrupted, failed=None), lambda: checks.readable("X", interrupted)):
        with pytest.raises(KeyboardInterrupt) as told:
            act()
        assert told.value.args == ()


def test_numbers_of_releases_and_prices_in_words() -> None:
    assert [counted(k) for k in (0, 1, 2)] == ["0 releases", "1 release", "2 releases"]
    assert priced(1.23456, 1.2345678e-5, True, "for all") == "epsilon = 1.235 at delta = 1.23457e-05, for all"
    assert priced(1.0, 1e-5, False, "for all") == "NONE (epsilon = infinity)"
    assert (large_delta(0.25, None), large_delta(0.2499, 4)) == ((), ())
    assert large_delta(0.25, 4)[0].startswith("delta = 0.25 is not below 1/n = 0.25: choose a smaller delta.")
