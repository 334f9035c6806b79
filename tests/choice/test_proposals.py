"""A search's proposals become candidates, of which equal ones count once; the choice is called after the search."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

import dptune
from choice_tools import PRIVATE, PUBLIC, PUBLIC_ROWS, privatizer, proposed
from dptune.choice import proposals
from dptune.choice.averages import with_averages
from dptune.choice.configurations import Candidate, digest_of, key_of, numeric_key, without_twins
from dptune.choice.crossval import FoldAnswers
from dptune.choice.finalists import Finalists
from dptune.choice.proposals import ChoiceOptions, Proposals, _prevalence, not_candidates
from dptune.losses.named import as_loss

FLAT, OTHER, ERROR = np.linspace(0.5, 1.0, 20), np.linspace(1.0, 0.4, 20), ValueError("no")


def test_configurations_are_equal_if_their_numbers_and_parts_are() -> None:
    alike: list[tuple[Any, Any]] = [(np.int64(10), 10), (np.float64(10), 10.0), (np.float32(0.5), 0.5)]
    alike += [(SVC(C=1.0), SVC())]
    alike += [(np.array([1, 2]), [1, 2]), (make_pipeline(SVC()), make_pipeline(SVC()))]
    assert all(key_of({"a": one, "b": 1}) == key_of({"b": 1, "a": other}) for one, other in alike)
    unlike: list[tuple[Any, Any]] = [(True, 1), (True, False), ("1", 1), (None, 0), (SVC(C=2), SVC()), (len, max)]
    unlike += [(SVC(), LogisticRegression()), (make_pipeline(SVC(C=2)), make_pipeline(SVC())), (np.True_, 1)]
    assert all(numeric_key({"a": one}) != numeric_key({"a": other}) for one, other in unlike)
    unlike += [(10, 10.0), (np.int64(1), 1.0), (1, np.float32(1))]  # 1 column, and 1.0 is all of them
    assert all(key_of({"a": one}) != key_of({"a": other}) for one, other in unlike)
    assert numeric_key({"a": 10}) == numeric_key({"a": 10.0})


def test_candidates_with_equal_numbers_are_one_if_their_public_losses_are() -> None:
    found = [Candidate({"m": m}, row) for row, m in enumerate((1, 2, 1.0, 2.0, 3, 3.0))]
    losses = [FLAT, FLAT, OTHER, FLAT, ERROR, FLAT]
    assert without_twins(found, losses, 3) == ([0, 1, 2, 4, 5], 1)
    assert without_twins(found, losses, 2) == ([0, 1, 2, 4, 5], 2)
    assert without_twins(found[:3], [FLAT, OTHER, ERROR], 2) == ([0, 1], 0)  # 1.0 fails where 1 is meant
    assert without_twins(found[:3], losses[:3], None) == ([0, 1, 2], None)


def test_candidates_are_the_best_different_ones_and_the_default() -> None:
    found = Proposals([Candidate({"C": C}, row) for row, C in enumerate((1.0, 1.0, 2.0, 3.0, 4.0))], 5, None)
    for default, most, trained, rows, place in (
        (None, 2, True, [0, 2], None),
        (None, 9, True, [0, 2, 3, 4], None),
        ({"C": 2.0}, 3, True, [0, 2, 3], 1),
        ({"C": 4.0}, 2, True, [0, 2, 4], 2),  # searched, and not among the best two
        ({"C": 9}, 2, True, [0, 2, None], 2),
        ({"C": 2}, 3, True, [0, 2, 3, None], 3),  # perhaps 2.0; training will tell
        ({"C": 2}, 3, False, [0, 2, 3], 1),
        ({"C": 9}, 2, False, [0, 2, None], 2),
    ):
        candidates, at = found.with_default(default, most, trained=trained)
        assert ([each.row for each in candidates], at) == (rows, place)
    some = [Candidate({"C": C}, None) for C in (1.0, 2.0)]
    assert digest_of(some, 0, "brier") == digest_of(some[::-1], 1, "brier")  # other rows rank them differently
    others = [digest_of(some, place, loss) for place, loss in ((1, "brier"), (None, "brier"), (0, "log_loss"))]
    assert len({digest_of(some, 0, "brier"), digest_of(some[:1], 0, "brier"), *others}) == 5
    at = [[Candidate({"f": f"<function f at 0x{address}>"}, None)] for address in ("1f", "2e")]
    assert digest_of(at[0], None, "brier") == digest_of(at[1], None, "brier")


def test_trials_that_are_no_candidates_are_counted() -> None:
    assert not_candidates(9, {"failed": 2, "pruned": 0, "break a constraint": 3}) == (
        "Of 9 trials 2 failed, 3 break a constraint and are not candidates. "
    )
    assert not_candidates(9, {"failed": 0}) == ""


@pytest.mark.parametrize(
    ("about", "name"),
    [({}, "s (choice)"), ({"name": "mine"}, "mine"), ({"of": None, "name": "mine"}, "mine"), ({"of": None}, "")],
)
def test_a_choice_is_called_after_its_search(tmp_path: Path, about: dict[str, Any], name: str) -> None:
    p = privatizer(tmp_path)
    planned: Any = proposed([FLAT, OTHER, FLAT + 1], dry_run=True, kind="grid", **about)(p)
    digest = planned.name.removeprefix("grid ")
    assert planned.name == name or (name == "" and len(digest) == 12)
    assert planned.name == planned.outlook.name


def test_a_default_that_failed_is_compared_with_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    planned: Any = proposed([FLAT, OTHER, ERROR], said=said.append, usual={"a": 2}, dry_run=True)(privatizer(tmp_path))
    assert said == [
        "What is searched failed as it was given, so the choice is compared with nothing. Give default=, the "
        "parameters that you use today.",
        "1 of 3 configurations failed on public rows and drop out: ValueError: no",
        f"2 left. {planned.outlook}",
    ]
    assert (planned.outlook.default_loss, planned.outlook.best_loss) == (None, pytest.approx(OTHER.mean()))
    compared: Any = proposed([FLAT, OTHER, ERROR], {"a": 1}, usual={"a": 2}, dry_run=True)(privatizer(tmp_path))
    assert compared.outlook.default_loss == pytest.approx(OTHER.mean())


@pytest.mark.parametrize(("averages", "loss", "says"), [(False, "log_loss", True), (False, "hinge", False)])
@pytest.mark.parametrize("loads", [False, True])
def test_a_dry_run_says_what_it_assumes_and_did_not_check(
    tmp_path: Path, averages: bool, loss: str, says: bool, loads: bool
) -> None:
    data: Any = (lambda: None) if loads else None
    planned: Any = proposed([FLAT, OTHER, FLAT + 1], dry_run=True, loss=loss, data=data)(privatizer(tmp_path))
    assert ("public_weight=0.5 and averages=True." in str(planned)) is says
    assert ("Not checked: whether a training" in str(planned)) is loads


def test_a_report_expects_the_share_of_the_second_label() -> None:
    def prevalence(answers: Any, loss: str = "brier", share: float | None = 0.3) -> float | None:
        public: Any = None if answers is None else (None, answers)
        return _prevalence(ChoiceOptions(data=None, loss=loss, ledger="x", public=public, report_share=share))

    assert prevalence(["no", "yes", "no", "no", "no"]) == 0.2
    for none in ((["a", "b", "c"],), (None,), ([0, 1, 1], "squared_error"), ([0, 1, 1], "brier", None)):
        assert prevalence(*none) is None


def test_finalists_that_failed_are_counted_with_the_first_error() -> None:
    said: list[str] = []
    trained = Finalists(
        lambda places: [ValueError(f"no {j}") if j else "model" for j in places],
        [{j: 1.0} for j in range(3)], as_loss("brier"), lasting=False,
    )  # fmt: skip
    trained.warn_of_failures(said.append)
    assert list(trained.asked([2, 0, 1], lambda model: [0.5])) == [(2, None), (0, [0.5]), (1, None)]
    trained.warn_of_failures(said.append)
    assert said == ["2 finalists failed on public rows and drop out: ValueError: no 2"]


def test_a_choice_without_a_name_is_called_choice_and_its_place_is_told(tmp_path: Path) -> None:
    p = privatizer(tmp_path)
    dptune.select(PRIVATE, p, public_losses=PUBLIC, mu=0.5)
    assert [run for run, _ in p.ledger.runs()] == ["choice"]
    place = dptune.Place("north", PUBLIC_ROWS, groups=np.arange(20) // 4)
    assert repr(place) == "Place('north', n=5)"


def test_averages_have_the_weight_of_public_rows_and_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights: list[float] = []

    def made(public: Any, answers: Any, default: Any, loss: Any, weight: float) -> Any:
        weights.append(weight)
        return with_averages(public, answers, default, loss, weight)

    monkeypatch.setattr(proposals, "with_averages", made)
    rows = np.arange(20)
    found = [[FoldAnswers(rows, np.zeros(20), np.full(20, level) + rows / 100, None)] for level in (1.0, 2.0, 3.0)]
    about: Any = {"averages": True, "public_weight": 0.5, "dry_run": True, "said": (said := []).append}
    planned: Any = proposed(found, {"a": 2}, **about)(privatizer(tmp_path))
    assert weights == [0.5]
    assert planned.outlook.default_loss == pytest.approx(np.mean((3 + rows / 100) ** 2))
    assert said[0].startswith("Averages: the public loss of the best one is ")
    assert "averages=True" not in str(planned)
