"""A choice or report whose process was killed says so when its ledger is read, and a rerun returns the answer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import dptune
from choice_tools import PRIVATE, PUBLIC, Chooses, privatizer
from dptune.choice.recorded import LOST, NOT_YET, recorded_choices, refuse_same, side_by_side
from dptune.choice.report.reporting import stored_report
from dptune.privacy.noise import SeededNoise

AGAIN = "was charged, and its answer is not recorded. Make the same call again: it costs nothing more."


class Killed(BaseException):
    """Stands for a killed process."""


def killed(monkeypatch: pytest.MonkeyPatch, method: str, nth: int, call: Callable[[], object]) -> None:
    """Make a call whose process is killed when it calls a ledger's method for the nth time."""
    usual, made = getattr(dptune.PrivacyLedger, method), 0

    def stops(self: dptune.PrivacyLedger, *args: Any, **options: Any) -> Any:
        nonlocal made
        made += 1
        if made == nth:
            raise Killed
        return usual(self, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(dptune.PrivacyLedger, method, stops)
        with pytest.raises(Killed):
            call()


def choose(
    folder: Path, *, name: str = "x", default: int | None = 0, index: int = 1, **options: Any
) -> dptune.Selection:
    p = privatizer(folder, noise=Chooses(index))
    return dptune.select(PRIVATE, p, name=name, public_losses=PUBLIC, default_place=default, **options)


def ledger_in(folder: Path) -> dptune.PrivacyLedger:
    return dptune.PrivacyLedger(folder / "ledger.db")


@pytest.mark.parametrize(("method", "verdict", "costs"), [("record", LOST, False), ("charge", NOT_YET, True)])
def test_an_estimate_that_a_kill_took_is_not_no_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, verdict: str, costs: bool
) -> None:
    killed(monkeypatch, method, 2, lambda: choose(tmp_path))
    ledger = ledger_in(tmp_path)
    (said,) = recorded_choices(ledger)
    assert (said["verdict"], said["improvement"], said["interval"], said["private"]) == (verdict, None, None, False)
    rows = {row[""]: row["x"] for row in side_by_side({"x": said})}
    assert (rows["verdict"], rows["improvement"]) == (f"{verdict} (NOT PRIVATE)", "")
    spent = ledger.spent()
    found = choose(tmp_path)
    assert (ledger.spent() > spent) == costs
    assert recorded_choices(ledger)[0]["verdict"] == found.verdict == "better"


def test_a_choice_whose_answer_a_kill_took_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed(monkeypatch, "record", 1, lambda: choose(tmp_path, mu=1.0))
    choose(tmp_path, name="another", mu=0.1, estimate_share=0.0)
    ledger = ledger_in(tmp_path)
    lost, other = recorded_choices(ledger)
    assert (lost["choice"], lost["chosen"], lost["verdict"], other["choice"]) == ("x", None, LOST, "another")
    rows = {row[""]: row["x"] for row in side_by_side({"x": lost})}
    assert (rows["verdict"], rows["chosen"]) == (f"{LOST} (NOT PRIVATE)", "")
    seq = ledger.charges()[0].seq
    assert choose(tmp_path, mu=1.0).verdict == recorded_choices(ledger)[0]["verdict"]
    assert ledger.charges()[0].seq == seq


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({}, "better"),
        ({"default": None}, "no default"),
        ({"estimate_share": 0.0}, "not estimated"),
        ({"default": int(np.argmin(PUBLIC.mean(axis=1))), "index": 0}, "the default"),
    ],
)
def test_a_ledger_and_its_selection_have_one_verdict(tmp_path: Path, options: dict[str, Any], verdict: str) -> None:
    found = choose(tmp_path, **options)
    assert recorded_choices(ledger_in(tmp_path))[0]["verdict"] == found.verdict == verdict


@pytest.mark.parametrize(("default", "verdict"), [(None, "no default"), (0, "the default"), (1, "not estimated")])
def test_a_choice_without_public_rows_has_one_verdict(tmp_path: Path, default: int | None, verdict: str) -> None:
    p = privatizer(tmp_path, noise=Chooses(0), clip=(0.0, 3.0))
    found = dptune.select(PRIVATE, p, name="x", mu=1.0, default_place=default)
    assert recorded_choices(p.ledger)[0]["verdict"] == found.verdict == verdict


def test_a_report_whose_answer_a_kill_took_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, n = np.random.default_rng(0), 100
    y = rng.integers(2, size=2 * n)
    X = rng.normal(size=(2 * n, 2)) + y[:, None]
    about: dict[str, Any] = {"data": (X[n:].copy(), y[n:].copy()), "public": (X[:n].copy(), y[:n].copy()), "mu": 0.5}
    model = LogisticRegression().fit(*about["public"])

    def report() -> object:
        return dptune.report(model, privatizer(tmp_path, n=n, noise=SeededNoise(0), clip=(0.0, 1.0)), **about)

    killed(monkeypatch, "record", 1, report)
    for name in (None, "report"):
        with pytest.raises(dptune.InputError, match=f"^the report 'report' {AGAIN}$"):
            stored_report(ledger_in(tmp_path), name)
    with pytest.raises(dptune.InputError, match=r"^the ledger has no report named 'x'; it has \['report'\]\.$"):
        stored_report(ledger_in(tmp_path), "x")
    spent = ledger_in(tmp_path).spent()
    found = report()
    assert ledger_in(tmp_path).spent() == spent
    assert str(stored_report(ledger_in(tmp_path))) == str(found)


def test_one_ledger_is_not_compared_with_itself(tmp_path: Path) -> None:
    one, other = (privatizer(tmp_path / name, clip=(0.0, 1.0)).ledger for name in ("one", "other"))
    copy = tmp_path / "copy.db"
    copy.write_bytes((tmp_path / "one" / "ledger.db").read_bytes())
    refuse_same([one, other])
    for same in (
        one,
        dptune.PrivacyLedger(tmp_path / "other" / ".." / "one" / "ledger.db"),
        dptune.PrivacyLedger(copy),
    ):
        with pytest.raises(dptune.InputError, match=r"^give each ledger once \(.*about the same people\.$"):
            refuse_same([one, other, same])
