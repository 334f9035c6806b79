"""What leaves a report does not depend on private rows but through its release; bugs that were planted are found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from every_logger import every_logger, without_clocks
from noises import CannedNoise, NoNoise
from report_tools import MODEL, PUBLIC, people, privatizer
from scipy import stats

import dptune
from dptune.privacy import TableQuery

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


def transcript(folder: Path, data: Any, capfd: pytest.CaptureFixture[str], public: Any = PUBLIC) -> str:
    """Everything that a report leaves behind, with answers that are canned."""
    folder.mkdir()
    with every_logger() as lines:
        mine = privatizer(folder, noise=CannedNoise(answer=0.01), n=60)
        found = dptune.report(MODEL, mine, data=data, public=public, mu=0.5, bins=6)
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
    one, other = (transcript(tmp_path / name, data, capfd, copies[name]) for name, data in people.items())
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
    assert stats.kstest(np.ravel(errors), "norm").pvalue > 1e-6
    assert np.abs(np.corrcoef(np.transpose(errors)) - np.eye(12)).max() < 0.55


class Failing:
    """Answers few rows at once, and never sixty."""

    classes_, n_features_in_ = MODEL.classes_, 3

    def predict_proba(self, X: Any) -> Any:
        if len(X) > 1 and np.asarray(X)[0, 0] == PRIVATE[0][0, 0]:
            raise ValueError(f"person 3 has {X[3]}")
        return MODEL.predict_proba(X)


def test_a_model_that_fails_for_everybody_is_not_told_of(tmp_path: Path) -> None:
    mine = privatizer(tmp_path, n=60)
    found = dptune.report(Failing(), mine, data=PRIVATE, public=PUBLIC, mu=1.0, scores=MODEL.predict_proba(PUBLIC[0]))
    assert mine.ledger.spent() == 1.0
    assert found.unknown == pytest.approx(60, abs=15)
