"""A table of people by public cells: its sensitivity, its noise, its order, and bugs that were planted."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from noises import NoNoise
from report_tools import privatizer

from dptune import InputError, LossPrivatizer
from dptune.ledger.ledger import PrivacyLedger
from dptune.privacy import TableQuery
from dptune.privacy.mechanism import GaussianMechanism
from dptune.privacy.noise import OpenDPNoise
from dptune.privacy.stored_losses import People
from dptune.privacy.table import code_of

ROWS = 12
EYES = (np.eye(5), np.eye(3))
CURVE = np.vstack([np.linspace(0, 1, 6), np.linspace(0, 1, 6) ** 2])
GROUPS = np.column_stack([np.kron(np.eye(2), CURVE - 0.5), np.zeros(4)])
PEOPLE = {
    "n": {"n": ROWS},
    "weights": {"n": ROWS, "person_weights": np.arange(1.0, ROWS + 1)},
    "groups": {"groups": [0, 0, 0, 1, 2, 2, 3, 4, 4, 4, 4, 5]},
}
codes = st.lists(
    st.one_of(st.integers(0, 14).map(float), st.sampled_from([math.nan, math.inf, -math.inf, -1.0, 2.5, 1e300])),
    min_size=ROWS,
    max_size=ROWS,
)


def of(who: str) -> People:
    given = PEOPLE[who]
    return People.of(given.get("n"), given.get("groups"), given.get("person_weights"))


def query(*blocks: Any, mu: float = 1.0) -> TableQuery:
    return TableQuery(blocks or EYES, mu, "a table", "test")


def moved(asked: TableQuery, people: People, one: list[float], other: list[float], person: int) -> float:
    """How far the table moves if all examples of one person are replaced."""
    own = np.arange(ROWS) == person if people.of_row is None else people.of_row == person
    neighbour = np.where(own, other, one)
    return float(np.linalg.norm(asked.mean(people, np.array(one)) - asked.mean(people, neighbour)))


@pytest.mark.hypothesis
@pytest.mark.parametrize(
    ("who", "blocks"),
    [("n", EYES), ("weights", (np.eye(15),)), ("groups", (CURVE, np.eye(3))), ("weights", (GROUPS,))],
    ids=["two", "one", "means", "groups"],
)
@given(one=codes, other=codes, person=st.integers(0, 5))
def test_replacing_one_person_moves_a_table_by_at_most_the_sensitivity(
    who: str, blocks: Any, one: list[float], other: list[float], person: int
) -> None:
    people, asked = of(who), query(*blocks)
    most = asked.diameter * people.weights.max()
    assert moved(asked, people, one, other, person) <= most * (1 + 1e-9)


@pytest.mark.parametrize("who", PEOPLE)
def test_the_sensitivity_is_reached(who: str) -> None:
    people = of(who)
    person = int(np.argmax(people.weights))
    last = float(np.prod([5, 3])) - 1
    assert query().diameter == pytest.approx(2.0)
    assert moved(query(), people, [0.0] * ROWS, [last] * ROWS, person) == pytest.approx(2.0 * people.weights.max())


def test_the_diameter_of_a_block_is_the_largest_distance_of_two_columns() -> None:
    columns = np.random.default_rng(0).normal(size=(3, 40))
    far = max(np.linalg.norm(a - b) for a in columns.T for b in columns.T)
    assert query(columns).diameter == pytest.approx(far, rel=1e-9)
    assert query(columns).diameter >= far


def test_codes_stand_for_cells_and_unknown_ones_for_the_last() -> None:
    cells = [np.array([0, 4, 2]), np.array([2, 0, 1])]
    codes = np.append(code_of(cells, (5, 3)), [np.nan])
    table = query().mean(People.of(4, None, None), codes)
    first, second = query().split(table)
    assert (first * 4).tolist() == [1, 0, 1, 0, 2]
    assert (second * 4).tolist() == [1, 1, 2]


def test_counts_of_a_million_people_are_exact() -> None:
    n = 10**6
    weights = np.random.default_rng(0).random(n) + 0.5
    people, codes = People.of(n, None, weights), np.arange(n) % 4 * 1.0
    table = query(np.eye(4)).mean(people, codes)
    exact = [math.fsum(people.weights[k::4]) for k in range(4)]
    assert np.abs(table - exact).max() <= 1e-16 * n * people.weights.max()


def test_a_table_charges_then_reads_then_draws_then_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []

    def logged(kind: type, name: str) -> None:
        true = getattr(kind, name)

        def wrapper(*given: Any, **options: Any) -> Any:
            result = true(*given, **options)
            happened.append(name)
            return result

        monkeypatch.setattr(kind, name, wrapper)

    for kind, name in ((PrivacyLedger, "charge"), (PrivacyLedger, "record"), (OpenDPNoise, "add_gaussian")):
        logged(kind, name)
    mine = privatizer(tmp_path, n=ROWS)

    def read() -> Any:
        happened.append("read")
        return np.zeros(ROWS)

    released = mine.release_table(query(), read, scope="s", key="k")
    assert happened == ["charge", "read", "add_gaussian", "record"]
    assert released.sigma == pytest.approx(2.0 / ROWS, rel=1e-5)
    assert mine.release_table(query(), read, scope="s", key="k").value.tolist() == released.value.tolist()
    assert happened.count("read") == 1
    assert mine.ledger.spent() == 1.0
    assert released.charge.description["sensitivity"] == pytest.approx(2.0 / ROWS)


def test_what_cannot_be_a_table_is_refused() -> None:
    for blocks in ((), (np.eye(1),), (np.full((2, 2), np.nan),), (np.eye(1000),) * 6):
        with pytest.raises(InputError):
            TableQuery(blocks, 1.0, "a table", "test")
    with pytest.raises(InputError, match="mu"):
        query(mu=0.0)


# ---- planted bugs ----------------------------------------------------------------------------------------


def audit_noise(path: Path) -> None:
    """Every number of a table has noise of the size that its charge states."""
    noise = NoNoise()
    mine = privatizer(path, noise=noise, n=ROWS)
    released = mine.release_table(query(), lambda: np.zeros(ROWS), scope="s", key="k")
    assert [len(each) for each, _ in noise.seen] == [len(released.value)], "numbers without noise"
    assert noise.sigma >= 2.0 / ROWS, "too little noise"


def test_the_audit_passes(tmp_path: Path) -> None:
    audit_noise(tmp_path)


def test_a_person_in_two_cells_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    true = TableQuery.mean

    def twice(self: TableQuery, people: People, codes: Any) -> Any:
        return true(self, people, codes) + true(self, people, np.minimum(codes + 1, 14.0))

    monkeypatch.setattr(TableQuery, "mean", twice)
    with pytest.raises(AssertionError):
        test_the_sensitivity_is_reached("n")


def test_counts_without_noise_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class BareCounts(GaussianMechanism):
        def draw(self, statistic: Any, scale: float) -> Any:
            return np.concatenate([super().draw(statistic[:5], scale), statistic[5:]])

    monkeypatch.setattr("dptune.privacy.privatizer.GaussianMechanism", BareCounts)
    with pytest.raises(AssertionError, match="without noise"):
        audit_noise(tmp_path)


def test_noise_for_one_block_only_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TableQuery, "diameter", math.sqrt(2))
    with pytest.raises(AssertionError, match="too little"):
        audit_noise(tmp_path)


def test_a_failure_of_the_model_for_everybody_is_sealed(tmp_path: Path) -> None:
    mine: LossPrivatizer = privatizer(tmp_path, noise=NoNoise(), n=ROWS)
    released = mine.release_table(query(), lambda: None, scope="s", key="k")
    assert released.value.tolist() == [0, 0, 0, 0, 1, 0, 0, 1]
