"""Private people at several places: the contract in one process, and what a place refuses."""

import copy
import gc
import logging
import os
import pickle
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dptune
import places_contract as contract
from dptune.errors import BudgetMismatch, InputError, PlaceUnavailable, PrivacyError
from dptune.privacy.places import HeldAtPlaces, ModelToAsk, PlaceQuestion
from dptune.privacy.query import Ball, Box, Interval, MeanQuery, NormQuery
from dptune.privacy.stored_losses import Grid, People, StoredLosses
from dptune.privacy.table import TableQuery
from noises import CannedNoise, NoNoise


def made(parts: contract.Parts) -> dptune.Places:
    return dptune.Places([dptune.Place(name, data, groups=groups) for name, (data, groups) in parts.items()])


def test_five_places_release_what_one_does(tmp_path: Path) -> None:
    contract.same_release_as_one_place(made, tmp_path)


@pytest.mark.parametrize("order", [(4, 1, 0, 3, 2), (2,)])
def test_the_order_and_the_split_of_places_do_not_matter(tmp_path: Path, order: tuple[int, ...]) -> None:
    names = [*contract.PARTS]
    parts = {names[k]: contract.PARTS[names[k]] for k in order}
    if order == (2,):
        parts = {"all": (contract.WHOLE, None)}
    contract.same_release_as_one_place(lambda _: made(parts), tmp_path)


def test_a_person_with_several_rows_is_one_person_at_a_place(tmp_path: Path) -> None:
    """Rows (240 people of 40) in one process and at two places; nobody is at both."""
    X, y = contract.WHOLE
    groups = np.arange(len(y)) // 4
    halves = {"a": slice(0, 80), "b": slice(80, len(y))}
    data = made({name: ((X[part].copy(), y[part].copy()), groups[part]) for name, part in halves.items()})
    told = []
    for each in (None, data):
        noise = NoNoise()
        ledger = dptune.PrivacyLedger(tmp_path / f"{each is None}.db", dptune.Budget.gdp(4.0))
        people: Any = {"groups": groups} if each is None else {"places": each}
        p = dptune.LossPrivatizer(ledger, noise=noise, clip=(0.0, 3.0), **people)
        for flow in contract.FLOWS.values():
            flow(p, contract.WHOLE if each is None else each)
        told.append((p.n, [statistic.tolist() for statistic, _ in noise.seen]))
    assert told[0] == told[1]


def test_a_place_that_breaks_at_any_call_is_refused_or_waited_for(tmp_path: Path) -> None:
    contract.waits_and_resumes(made, tmp_path)


@pytest.mark.parametrize("flow", contract.FLOWS)
def test_a_trusted_process_that_dies_at_any_call_charges_and_draws_once(tmp_path: Path, flow: str) -> None:
    """17 kills: before a charge nothing is stored as charged, after it the next process draws under the same charge."""
    whole = contract.privatizer(tmp_path / "whole", contract.WHOLE, NoNoise())
    contract.FLOWS[flow](whole, contract.WHOLE)
    for method, calls in contract.CALLS[flow].items():
        for at in range(1, calls + 1):
            places, folder = made(contract.PARTS), tmp_path / f"{method} {at}"
            if (child := os.fork()) == 0:
                last = contract.Killed(places.places[4], method, at, lambda: os._exit(9))
                places.places = (*places.places[:4], last)
                contract.FLOWS[flow](contract.privatizer(folder, places, NoNoise()), places)
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
            p = contract.privatizer(folder, made(contract.PARTS), NoNoise())
            waiting = [charge for charge in p.ledger.charges() if charge.value is None]
            assert len(waiting) == (method == "answer")
            contract.FLOWS[flow](p, p.places)
            answers = [(charge.key, charge.value) for charge in p.ledger.charges()]
            assert answers == [(charge.key, charge.value) for charge in whole.ledger.charges()]
            assert p.ledger.spent() == whole.ledger.spent()


@pytest.mark.parametrize("odd", contract.ODD)
def test_a_place_that_answers_something_else_is_not_added(tmp_path: Path, odd: str) -> None:
    for flow in ("choice", "report"):  # a vector, a table
        error, charged, seen, _ = contract.interrupted(made, tmp_path / flow, flow, "answer", 1, contract.ODD[odd])
        assert charged
        assert "something else" in error
        assert len(seen) == {"choice": 2, "report": 1}[flow]


def test_each_place_has_a_report_of_its_own(tmp_path: Path) -> None:
    places = made(contract.PARTS)
    p = contract.privatizer(tmp_path, places, NoNoise())
    found = contract.report(p, places, by=places)
    X, y = contract.WHOLE
    right = (contract.MODELS[2].predict_proba(X)[:, 1] > 0.5) == y
    for name, end, n in zip(contract.PARTS, contract.ENDS, contract.SIZES, strict=True):
        own = found.groups[name].metrics()["accuracy_score"].value
        assert own == pytest.approx(right[end - n : end].mean()) if n >= 40 else True  # noise would hide a small place
    assert p.ledger.spent() == 1.0
    with pytest.raises(InputError, match="Places that are data="):
        contract.report(p, places, by=made(contract.PARTS))


def test_neighbours_at_one_place_leave_one_transcript(tmp_path: Path, capfd: Any, caplog: Any) -> None:
    caplog.set_level(logging.NOTSET)
    transcripts = []
    for k, (cell, answer) in enumerate([(0.0, 1), (np.nan, 0), (np.inf, 1), (1e300, 7)]):
        parts = copy.deepcopy(contract.PARTS)
        (X, y), _ = parts["place 2"]
        X[3], y[3] = cell, answer
        places = made(parts)
        p = contract.privatizer(tmp_path / str(k), places, CannedNoise())
        said = [str(flow(p, places)) for flow in contract.FLOWS.values()]
        charges = [(each.key, each.mu, each.value, each.note) for each in p.ledger.charges()]
        out, err = capfd.readouterr()
        assert "private" not in out
        transcripts.append((said, charges, out.replace(str(tmp_path / str(k)), ""), err.replace(f"/{k}/", "/")))
        caplog.clear()
    assert all(each == transcripts[0] for each in transcripts)


QUERIES = {
    "interval": MeanQuery(("a",), np.ones((1, 1)), Interval(0.1, 0.9), 1.0),
    "box": MeanQuery(("a", "b"), np.eye(2), Box(-0.3, 0.3, 2), 1.0, centred_on=2),
    "ball": MeanQuery(("a", "b"), np.array([[1.0, 2.0], [0.5, -1.0]]), Ball(0.7), 1.0),
    "norm": NormQuery(("a", "b"), np.eye(2), 0.7, 1.0),
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), cuts=st.lists(st.integers(1, 199), max_size=6, unique=True))
def test_sums_of_any_split_are_equal_and_one_person_moves_them_little(query: Any, seed: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    L = rng.choice([rng.normal(size=(2, 200)), np.full((2, 200), np.nan)], p=[0.9, 0.1])
    L[:, rng.integers(200)] = rng.choice([np.inf, -np.inf, 1e300])
    grid = Grid.of(200, query)

    def sums(L: np.ndarray) -> np.ndarray:
        held = StoredLosses(People.of(L.shape[1], None, None), Interval(-1.0, 1.0), np.float32)
        for point, row in zip("ab", L, strict=True):
            held.add(point, held.clean(row))
        return held.sums(query, grid)

    parts = [part for part in np.split(L, sorted(cuts), axis=1) if part.size]
    whole = sums(L)
    assert (sum(sums(part) for part in parts) == whole).all()
    neighbour = L.copy()
    neighbour[:, 5] = rng.choice([np.nan, np.inf, -np.inf, 0.0, 0.3], size=2)
    moved = np.linalg.norm(grid.mean(sums(neighbour), 1 / 200) - grid.mean(whole, 1 / 200))
    assert moved <= query.clip.diameter / 200 * (1 + 1e-9)


@pytest.mark.parametrize("n", [1, 200, 2**22 - 1, 2**22, 2**23, 10**9])
def test_the_sum_of_any_number_of_people_fits_its_whole_numbers(n: int) -> None:
    assert n << Grid.of(n).bits < 2**63


def test_another_model_under_a_forgotten_name_is_tried_out_again() -> None:
    tried: list[Any] = []
    stand_in: Any = SimpleNamespace(ready=lambda recipe, models, n: tried.extend(each() for each in models))
    held = HeldAtPlaces(stand_in, 9, Interval(0.0, 1.0), np.float32)
    for model in ("one", "two"):
        held.add("x", ModelToAsk("recipe", partial(str, model)))
        held.ready(["x"])
        held.ready(["x"])
        held.drop("x")
    assert tried == ["one", "two"]


def test_a_difference_is_equal_wherever_its_rows_are_stored() -> None:
    """A process that chooses holds 70 finalists in two blocks; a place that is asked for two has one block."""
    L = np.random.default_rng(0).uniform(size=(70, 50))
    query = MeanQuery(("69", "0"), np.array([[1.0, -1.0]]), Interval(-1.0, 1.0), 1.0)
    sums = []
    for held in (range(70), (69, 0)):
        store = StoredLosses(People.of(50, None, None), Interval(0.0, 1.0), np.float32)
        for j in held:
            store.add(str(j), store.clean(L[j]))
        sums.append(store.sums(query, Grid.of(50, query)).tolist())
    assert sums[0] == sums[1]


@pytest.mark.parametrize("rows", [1, 3, 19, 1013])
def test_people_whose_rows_all_share_one_cell_are_no_odd_answer(rows: int) -> None:
    """Shares are rounded down: 19 shares of 1/19, each rounded to the nearest step, are more than one person."""
    asker = SimpleNamespace(losses=lambda _: np.zeros(5 * rows))
    recipe = SimpleNamespace(open=lambda *_: asker)
    place = dptune.Place("a", lambda: contract.WHOLE, groups=np.repeat(range(5), rows))
    query, grid = TableQuery((np.eye(3),), 1.0, "cells", "made up"), Grid.of(5)
    first, *others = dptune.Places([place]).sums(
        PlaceQuestion(query, recipe, (lambda: "a model",), None, np.float64, grid)
    )
    assert others == [0, 0]
    assert 0 <= (5 << grid.bits) - first < 5 * rows


TO_100, FROM_99, LABELS = slice(100), slice(99, None), contract.WHOLE[1].tolist()
FRAME = pd.DataFrame(contract.WHOLE[0]), pd.Series(contract.WHOLE[1])


def load() -> contract.Rows:
    return contract.WHOLE


class Base:
    """A clinic's database."""

    def load(self) -> contract.Rows:
        return contract.WHOLE


def at_places(*parts: Any) -> dptune.Places:
    return dptune.Places(
        [dptune.Place(str(k), each, n=100 if callable(each) else None) for k, each in enumerate(parts)]
    )


BASE = Base()
WRONG: dict[str, Any] = {
    "no places": lambda: dptune.Places([]),
    "one name twice": lambda: dptune.Places([dptune.Place("a", contract.WHOLE)] * 2),
    "no name": lambda: dptune.Place("", contract.WHOLE),
    "no number": lambda: dptune.Place("a", lambda: contract.WHOLE),
    "one frame twice": lambda: at_places(FRAME, FRAME),
    "one loader twice": lambda: at_places(load, load),
    "one method twice": lambda: at_places(BASE.load, BASE.load),
    "views that overlap": lambda: at_places(*((contract.WHOLE[0][part], LABELS[part]) for part in (TO_100, FROM_99))),
    "labels of one array": lambda: at_places(contract.WHOLE, (contract.WHOLE[0].copy(), contract.WHOLE[1])),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_places_that_cannot_be_are_refused(wrong: Any) -> None:
    with pytest.raises(InputError):
        wrong()


def test_rows_of_one_table_may_be_at_two_places() -> None:
    """Every second row of an array, of a frame and of a list."""
    (X, y), (frame, labels) = contract.WHOLE, FRAME
    for a, b in ((X, y), (frame.iloc, labels.iloc), (X.tolist(), y.tolist())):
        assert at_places((a[::2], b[::2]), (a[1::2], b[1::2])).n == len(y)
    assert at_places(BASE.load, Base().load).people == {"0": 100, "1": 100}  # as stated: nothing was loaded


def test_recorded_answers_are_returned_while_all_places_are_away(tmp_path: Path) -> None:
    contract.recorded_answers_need_no_place(made(contract.PARTS), tmp_path)


@pytest.mark.parametrize("flow", [contract.choice, contract.report])
def test_a_ledger_as_payer_asks_no_place_for_a_recorded_answer(tmp_path: Path, flow: Any) -> None:
    """Any noise will do: the two answers are compared."""
    ledger = dptune.PrivacyLedger(tmp_path / "ledger.db", dptune.Budget.gdp(4.0))
    first, charged = flow(ledger, made(contract.PARTS)), ledger.count()
    assert (str(flow(ledger, contract.away())), ledger.count()) == (str(first), charged)
    with pytest.raises(PlaceUnavailable):
        flow(dptune.PrivacyLedger(tmp_path / "new.db", dptune.Budget.gdp(4.0)), contract.away())


def test_places_that_are_refused_fix_no_number_of_people(tmp_path: Path) -> None:
    """A wrong table at a place is refused, and the right one, with another number of rows, can be given."""
    for name, flow in contract.FLOWS.items():
        X, y = contract.PARTS["place 3"][0]
        wrong = made({**contract.PARTS, "place 3": ((X[:7, :2].copy(), y[:7].copy()), None)})
        with pytest.raises(InputError, match="at the place 'place 3'"):
            flow(contract.privatizer(tmp_path / name, wrong), wrong)
        right = made(contract.PARTS)
        p = contract.privatizer(tmp_path / name, right)
        assert p.ledger.n is None
        flow(p, right)
        assert p.ledger.n == right.n
        with pytest.raises(BudgetMismatch, match="have 187 people, and the ledger protects 200"):
            dptune.select(contract.MODELS, contract.privatizer(tmp_path / name, few := made(
                {**contract.PARTS, "place 3": ((X[:7].copy(), y[:7].copy()), None)}
            )), data=few, loss="log_loss", name="other", mu=0.1)  # fmt: skip


class Heavy(contract.Line):
    """A model of a megabyte; ``alive`` counts them, with ``most`` of them at a time."""

    alive = most = 0

    def __init__(self, slope: float) -> None:
        super().__init__(slope)
        self.weights = np.zeros(1 << 17)
        self._born()

    def __setstate__(self, state: Any) -> None:
        self.__dict__.update(state)
        self._born()

    @classmethod
    def _born(cls) -> None:
        cls.alive += 1
        cls.most = max(cls.most, cls.alive)

    def __del__(self) -> None:
        type(self).alive -= 1


def test_one_model_at_a_time_is_in_memory(tmp_path: Path) -> None:
    places = made(contract.PARTS)
    slopes = np.linspace(-1.0, 2.0, 12)
    losses = np.random.default_rng(0).uniform(0.4, 0.6, size=(12, 60))
    chosen = dptune.select(
        lambda j: Heavy(slopes[j]), contract.privatizer(tmp_path, places), data=places, loss="log_loss",
        public_losses=losses, default_place=0, mu=1.0, even_if_hopeless=True,
    )  # fmt: skip
    assert chosen.candidates == 12
    gc.collect()
    assert Heavy.alive == 0
    assert Heavy.most <= 2


def test_a_mistake_names_the_place_and_costs_nothing(tmp_path: Path) -> None:
    """Rows of other columns, losses instead of models, other places, a model that holds private rows."""
    parts = dict(contract.PARTS)
    (X, y), _ = parts["place 3"]
    parts["place 3"] = (X[:, :2].copy(), y), None
    odd, usual = made(parts), made(contract.PARTS)
    p = contract.privatizer(tmp_path / "odd", odd)
    for flow in contract.FLOWS.values():
        with pytest.raises(InputError, match="at the place 'place 3'"):
            flow(p, odd)
    assert p.ledger.count() == 0
    assert p.ledger.facts("plan") == {}
    p = contract.privatizer(tmp_path / "usual", usual)
    with pytest.raises(InputError, match="give their models"):
        p.observe("x", np.ones(p.n))
    for data in (None, contract.WHOLE, made(contract.PARTS)):
        with pytest.raises(InputError, match=r"must be the dptune\.Places"):
            dptune.select(np.ones((2, p.n)) if data is None else contract.MODELS, p, data=data, loss="log_loss", mu=1.0)
    for theirs in ({"n": p.n}, {"groups": np.arange(p.n)}, {"person_weights": np.ones(p.n)}):
        with pytest.raises(InputError, match="Places know their people: give no n="):
            dptune.LossPrivatizer(p.ledger, places=usual, **theirs)
    assert p.ledger.count() == 0
    shared = contract.Line(1.0)
    shared.rows = contract.PARTS["place 0"][0][0]
    with pytest.raises(InputError, match="shares memory"):
        contract.choice(p, usual, [*contract.MODELS[:4], shared])


def test_a_place_whose_people_changed_is_refused_before_the_charge(tmp_path: Path) -> None:
    places = made(contract.PARTS)
    p = contract.privatizer(tmp_path, places)
    before = len(contract.PARTS["place 4"][0][1])
    places.places = (*places.places[:4], dptune.Place("place 4", contract.rows(9)))
    with pytest.raises(PlaceUnavailable, match=f"the place 'place 4' had {before} people, and has another number now"):
        contract.choice(p, places)
    assert p.ledger.count() == 0


def test_the_statement_names_the_places_and_what_it_assumes(tmp_path: Path) -> None:
    places = made(contract.PARTS)
    p = contract.privatizer(tmp_path, places)
    contract.choice(p, places)
    said = str(p.ledger.statement(delta=1e-5))
    assert "5 places" in said
    assert "nobody is at two of them" in said


def test_private_rows_and_sums_are_not_copied_or_shown() -> None:
    place = made(contract.PARTS).places[0]
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivacyError):
            act(place)
    assert repr(place) == "Place('place 0', n=40)"
    assert repr(contract.Answer("0", 3, (1, 2))) == "Answer(<private sums>)"
