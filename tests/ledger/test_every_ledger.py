"""Every kind of ledger follows one contract: created once, unchanged, charged once per query, never forked."""

import copy
import json
import math
import pickle
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sklearn.base import BaseEstimator, clone

from audit_tools import start_forked
from dptune import InputError, LedgerError
from dptune.errors import BudgetMismatch, KeyConflict
from dptune.ledger import schema
from dptune.training.ledger import open_ledger
from ledger_tools import KEYED, KINDS, Kind
from refusals import refused

every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
PLACES = [(name, "sqlite") for name in KINDS] + [(name, "postgresql") for name in ("budget", "rounds")]
everywhere = pytest.mark.parametrize(("name", "new_url"), PLACES, indirect=["new_url"])
keyed_everywhere = pytest.mark.parametrize(
    ("name", "new_url"), [each for each in PLACES if each[0] in KEYED], indirect=["new_url"]
)


@pytest.fixture
def place(fast_path: Path) -> str:
    return str(fast_path / "ledger.db")


@everywhere
def test_it_is_reopened_as_it_was_made_and_as_nothing_else(url: str, name: str) -> None:
    kind = KINDS[name]
    made = kind.new(url, dataset="hospital", unit="one patient")
    (promise, *_) = kind.promise
    for ledger in (kind.opener(url), kind.new(url), open_ledger(url)):
        assert type(ledger) is kind.opener
        assert (ledger, repr(ledger), getattr(ledger, promise)) == (made, repr(made), kind.promise[promise])
        assert (ledger.dataset, ledger.unit, ledger.n) == ("hospital", "one patient", 29)
    changes: list[dict[str, Any]] = [{promise: other} for other in kind.others]
    for change in [*changes, {"dataset": "another"}, {"unit": "one household"}]:
        refused((BudgetMismatch, InputError), next(iter(change)), partial(kind.new, url, **change))
    refused(BudgetMismatch, r"n=29.*Nothing was charged to it yet.*delete it", lambda: made.bind_people(30))
    kind.charge(made, 0)
    with pytest.raises(BudgetMismatch) as refusal:
        made.bind_people(30)
    assert "delete" not in str(refusal.value)


@every_kind
def test_what_is_not_this_ledger_is_refused_by_name(place: str, kind: Kind) -> None:
    (promise, *_) = kind.promise
    refused(LedgerError, r"no ledger.*budget= or plan=", lambda: kind.opener(place))
    refused(InputError, f"{promise} must be a", lambda: kind.opener(place, **{**kind.promise, promise: 1.0}))
    for n in (None, 0, True, "3", 3.0) if "n" in kind.promise else ():
        refused(InputError, "n must be the number of", partial(kind.opener, place, **{**kind.promise, "n": n}))
    ledger = kind.new(place)
    others = [partial(other.new, place) for other in KINDS.values() if other.opener is not kind.opener]
    refused(LedgerError, f"open it with {kind.opener.__name__}", *others)
    with schema.connect(ledger.url).begin() as connection:
        connection.execute(sa.text("DROP TRIGGER dptune_ledger_no_UPDATE"))
        connection.execute(sa.text("UPDATE dptune_ledger SET version = version + 1"))
    read = f"format {schema.VERSION + 1}; this dptune reads format {schema.VERSION}"
    refused(LedgerError, read, *(partial(opened, place) for opened in (kind.opener, kind.new, open_ledger)))


@everywhere
def test_no_more_is_charged_than_was_promised(url: str, name: str) -> None:
    kind = KINDS[name]
    ledger = kind.new(url)
    for t in range(kind.most):
        charge = kind.charge(kind.new(url), t, note={"lr": 0.1 * t}) if kind.most > 1 else kind.charge(ledger, t)
        assert (charge.seq, charge.value, charge.private) == (t + 1, None, True)
        assert charge.note.get("lr", 0.0) == 0.1 * t
        assert charge.mu is None or "budget" in kind.promise, "what belongs to a plan has no price in GDP"
    if kind.most > 1:
        refused(kind.refusal, None, *(partial(kind.charge, view, kind.most) for view in (ledger, kind.opener(url))))
    assert ledger.count() == ledger.statement(delta=1e-5).releases == kind.most


@every_kind
def test_a_charge_with_a_non_bool_private_or_non_json_note_is_refused(place: str, kind: Kind) -> None:
    """The ledger writes nothing."""
    ledger = kind.new(place)
    for private in ("no", 0, None):
        refused(InputError, "private must be True or False", partial(kind.charge, ledger, 0, private=private))
    for bad in (math.nan, math.inf, {1, 2}, b"x") if kind.most > 1 else ():
        refused(InputError, r"note must be JSON data.*finite", partial(kind.charge, ledger, 0, note={"a": bad}))
    assert ledger.count() == 0


@keyed_everywhere
def test_a_question_is_paid_once_and_has_one_answer(url: str, name: str) -> None:
    kind = KINDS[name]
    ledger = kind.new(url)
    first = kind.charge(ledger, 0)
    assert kind.charge(kind.opener(url), 0) == first, "an orphan is answered later at no cost"
    assert ledger.record(first, [0.1, -2.5]).value == (0.1, -2.5)
    assert kind.opener(url).record(first, [9.0, 9.0]).value == (0.1, -2.5)
    assert kind.charge(ledger, 0).value == ledger.find(first.scope, first.key).value == (0.1, -2.5)
    for change in ({"digest": "another question"}, {"private": False}):
        refused(KeyConflict, "another", partial(kind.charge, ledger, 0, **change))
    assert (ledger.count(), ledger.private) == (1, True)


def sklearn_clone(ledger: Any) -> Any:
    class Search(BaseEstimator):
        def __init__(self, ledger: Any = None) -> None:
            self.ledger = ledger

    return clone(Search(ledger)).ledger


@every_kind
def test_copies_are_views_and_never_forks(place: str, kind: Kind) -> None:
    ledger = kind.new(place)
    assert copy.copy(ledger) is copy.deepcopy(ledger) is sklearn_clone(ledger) is ledger, "one connection a process"
    other = pickle.loads(pickle.dumps(ledger))
    assert (other, hash(other), repr(other)) == (ledger, hash(ledger), repr(ledger))
    for t in range(kind.most):
        kind.charge((ledger, other)[t % 2], t)
    assert ledger.count() == other.count() == kind.most
    assert ledger.mark() == other.mark()


CHARGE_ALL = """
    import sys
    from ledger_tools import KINDS

    kind = KINDS[sys.argv[2]]
    ledger, made = kind.opener(sys.argv[1]), []
    for t in range(kind.most + 1):
        try:
            made.append(kind.charge(ledger, t).seq)
        except kind.refusal:
            pass
    print(sorted(set(made)))
"""


@everywhere
def test_several_processes_count_together(url: str, name: str) -> None:
    kind = KINDS[name]
    ledger = kind.new(url)
    workers = [start_forked(textwrap.dedent(CHARGE_ALL), url, name) for _ in range(2)]
    said = [json.loads(worker.wait().stdout) for worker in workers]
    everything = list(range(1, kind.most + 1))
    assert sorted({seq for each in said for seq in each}) == everything
    assert name not in KEYED or said == [everything] * 2  # the same charges
    assert ledger.count() == kind.most


@every_kind
def test_a_statement_names_who_is_protected_in_all_three_formats(place: str, kind: Kind) -> None:
    """It warns if the protection means nothing."""
    ledger = kind.new(place, dataset="pipes | and 'quotes'", unit="one patient")
    statement = ledger.statement(delta=1 / 30)
    assert "none so far" in str(statement)
    assert (statement.releases, statement.warnings) == (0, ())
    kind.charge(ledger, 0)
    statement = ledger.statement(delta=1 / 30)
    data = json.loads(statement.to_json())
    assert data == statement.to_dict()
    assert (data["private"], data["unit"], data["n"], data["releases"]) == (True, "one patient", 29, 1)
    for text in (statement.to_text(), statement.to_markdown(), str(statement)):
        assert all(words in text for words in ("one patient", "n = 29", "opendp", "delta = 0.0333334", "trusted"))
        assert not any(words in text for words in ("!!", "NOT PRIVATE"))
    rows = [line for line in statement.to_markdown().splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {3}
    (warning,) = ledger.statement(delta=1 / 29).warnings
    assert "not below 1/n" in warning
    assert warning in ledger.statement(delta=1 / 29).to_text()
    refused(InputError, "delta", *(partial(ledger.statement, delta=bad) for bad in (0.0, 1.0, math.nan, "1e-5")))


@every_kind
def test_a_statement_of_seeded_noise_promises_nothing(place: str, kind: Kind) -> None:
    ledger = kind.new(place)
    kind.charge(ledger, 0, private=False)
    statement = ledger.statement(delta=1e-5)
    data = json.loads(statement.to_json())
    assert (statement.epsilon, data["private"], data.get("epsilon", "infinity")) == (math.inf, False, "infinity")
    for text in (statement.to_text(), statement.to_markdown(), data["warnings"][0]):
        assert "NOT PRIVATE" in text
    assert "NONE" in statement.to_text()
