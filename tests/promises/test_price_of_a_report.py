"""A report is one table of people by public cells: sensitivity, noise, order, transcripts and planted bugs."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import dptune
from audit_tools import MISTAKE
from dptune import Budget, InputError, LossPrivatizer
from dptune.privacy.stored_losses import People
from dptune.privacy.table import TableQuery, code_of
from every_logger import every_logger, without_clocks
from noises import CannedNoise, NoNoise
from report_tools import MODEL, PUBLIC, people, privatizer
from watched import Draws, Watched

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


def query(*blocks: Any, mu: float = 1.0, kind: type[TableQuery] = TableQuery) -> TableQuery:
    return kind(blocks or EYES, mu, "a table", "test")


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


def reached(asked: TableQuery, who: str) -> float:
    """How far the table moves if the heaviest person does, in units of their weight."""
    people = of(who)
    last = float(np.prod([5, 3])) - 1
    person, heaviest = int(np.argmax(people.weights)), people.weights.max()
    return moved(asked, people, [0.0] * ROWS, [last] * ROWS, person) / heaviest


class InTwoCells(TableQuery):
    """Planted: a person is in two cells."""

    def mean(self, people: People, codes: Any) -> Any:
        return super().mean(people, codes) + super().mean(people, np.minimum(codes + 1, 14.0))


class SmallDiameter(TableQuery):
    """Planted: it has noise for one block only."""

    diameter = math.sqrt(2)


def audit_sensitivity(asked: TableQuery, who: str) -> None:
    assert reached(asked, who) == pytest.approx(asked.diameter)


@pytest.mark.parametrize("who", PEOPLE)
def test_the_sensitivity_is_reached_and_what_moves_further_is_found(who: str) -> None:
    audit_sensitivity(query(), who)
    for bug in (InTwoCells, SmallDiameter):
        with pytest.raises(AssertionError):
            audit_sensitivity(query(kind=bug), who)


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
    assert np.abs(table - exact).max() <= 2.0**-40 * n * people.weights.max()  # half a step of the grid each


def test_a_table_charges_then_reads_then_draws_then_records(tmp_path: Path) -> None:
    def read() -> Any:
        happened.append("read")
        return np.zeros(ROWS)

    ledger = Watched(tmp_path / "ledger.db", Budget.gdp(2.0))
    happened = ledger.happened
    mine = LossPrivatizer(ledger, n=ROWS, clip=(0, 1), noise=Draws(happened))
    released = mine.release_table(query(), read, scope="s", key="k")
    assert happened == ["charge", "read", "draw", "record"]
    assert mine.release_table(query(), read, scope="s", key="k").value.tolist() == released.value.tolist()
    assert happened.count("read") == 1
    assert mine.ledger.spent() == 1.0
    assert released.charge.description["sensitivity"] == pytest.approx(2.0 / ROWS)
    failed = mine.release_table(query(), lambda: None, scope="s", key="a model that fails for everybody")
    assert failed.value.tolist() == [0, 0, 0, 0, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("blocks", "mu"),
    [((), 1.0), ((np.eye(1),), 1.0), ((np.full((2, 2), np.nan),), 1.0), ((np.eye(1000),) * 6, 1.0), (EYES, 0.0)],
)
def test_what_cannot_be_a_table_is_refused(blocks: Any, mu: float) -> None:
    with pytest.raises(InputError):
        TableQuery(blocks, mu, "a table", "test")


def test_the_noise_of_a_table_is_gaussian_of_the_stated_size(fast_path: Path) -> None:
    """1,200 cells of 100 reports by the real code, from the source of noise that is not seeded."""
    ledger = dptune.PrivacyLedger(fast_path / "ledger.db", dptune.Budget.gdp(100.0))
    mine = dptune.LossPrivatizer(ledger, n=60, clip=(0, 1))
    asked = TableQuery((np.eye(12),), 0.5, "a table", "law")
    codes = np.arange(60) % 12 * 1.0
    errors = []
    for i in range(100):
        released = mine.release_table(asked, lambda: codes, scope="law", key=str(i))
        errors.append((released.value - 5 / 60) / released.sigma)
    assert released.sigma * 60 == pytest.approx(np.sqrt(2) / 0.5, rel=1e-5)
    assert stats.kstest(np.ravel(errors), "norm").pvalue > MISTAKE
    assert np.abs(np.corrcoef(np.transpose(errors)) - np.eye(12)).max() < 0.65  # 66 pairs: by chance 2e-11


# ---- reports ---------------------------------------------------------------------------------------------

PRIVATE = people(60)
PLACE = np.arange(60)
NEIGHBOURS = {
    "another person": lambda X, y: (np.vstack([X[1:], [[9.0, 9.0, 9.0]]]), np.append(y[1:], 1 - y[0])),
    "a missing cell": lambda X, y: (np.where(PLACE[:, None] == 3, np.nan, X), y),
    "an infinite cell": lambda X, y: (np.where(PLACE[:, None] == 3, np.inf, X), y),
    "a text cell": lambda X, y: (np.where(PLACE[:, None] == 3, "n/a", X.astype(object)), y),
    "a text label": lambda X, y: (X, np.where(PLACE == 3, "?", y.astype(object))),
    "a label of nobody": lambda X, y: (X, np.where(PLACE == 3, 17, y)),
}


def transcript(folder: Path, data: Any, capfd: pytest.CaptureFixture[str], **rows: Any) -> str:
    """Everything that a report leaves behind, with answers that are canned."""
    folder.mkdir()
    with every_logger() as lines:
        mine = privatizer(folder, noise=CannedNoise(answer=0.01), n=60)
        found = dptune.report(MODEL, mine, data=data, **(rows or {"public": PUBLIC}), mu=0.5, bins=6)
    out, err = capfd.readouterr()
    said = [out, err, str(found), found.to_markdown(), json.dumps(found.to_dict()), repr(found), repr(vars(MODEL))]
    said += [repr(charge) for charge in mine.ledger.charges()] + [json.dumps(mine.ledger.fact("report", "plan"))]
    return "\n".join(without_clocks([*lines, *said], folder))


def test_neighbours_leave_the_same_transcript(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    one = transcript(tmp_path / "one", PRIVATE, capfd)
    for name, neighbour in NEIGHBOURS.items():
        assert transcript(tmp_path / name, neighbour(*PRIVATE), capfd) == one, name


def test_bins_that_private_scores_have_chosen_are_found(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    people = {"one": PRIVATE, "other": NEIGHBOURS["another person"](*PRIVATE)}
    copies = {name: [np.copy(each) for each in data] for name, data in people.items()}
    one, other = (transcript(tmp_path / name, data, capfd, held_out=copies[name]) for name, data in people.items())
    assert one != other


@pytest.mark.parametrize("neighbour", ["another person", "a missing cell", "a text label"])
def test_one_person_moves_the_table_by_one_cell(tmp_path: Path, neighbour: str) -> None:
    noise = NoNoise()
    for name, data in (("one", PRIVATE), ("other", NEIGHBOURS[neighbour](*PRIVATE))):
        dptune.report(MODEL, privatizer(tmp_path, n=60, noise=noise), data=data, public=PUBLIC, mu=0.5, name=name)
    moved = np.abs(noise.seen[0][0] - noise.seen[1][0]) * 60
    people_replaced = 2 if neighbour == "another person" else 1  # there: one leaves at the front, one comes at the end
    assert (moved > 1e-9).sum() <= 4 * people_replaced  # one cell, and the count of decisions that holds it
    assert np.linalg.norm(moved) <= np.sqrt(2) * people_replaced + 1e-9


FIRST = float(PRIVATE[0][0, 0])


class Failing:
    """Answers few rows at once, and never sixty."""

    classes_, n_features_in_ = MODEL.classes_, 3

    def predict_proba(self, X: Any) -> Any:
        if len(X) > 1 and np.asarray(X)[0, 0] == FIRST:
            raise ValueError(f"person 3 has {X[3]}")
        return MODEL.predict_proba(X)


def test_a_model_that_fails_for_everybody_is_not_told_of(tmp_path: Path) -> None:
    mine = privatizer(tmp_path, n=60)
    found = dptune.report(Failing(), mine, data=PRIVATE, public=PUBLIC, mu=1.0, scores=MODEL.predict_proba(PUBLIC[0]))
    assert mine.ledger.spent() == 1.0
    assert found.unknown == pytest.approx(60, abs=15)
