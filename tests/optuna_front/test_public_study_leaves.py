"""What a choice among a study's trials leaves behind: released and public facts only."""

from __future__ import annotations

import logging
import pickle
import re
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from noises import CannedNoise, NoNoise
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import dptune
from dptune.choice import public_choice
from public_studies import CS, PEOPLE, PUBLIC, N, chosen, ledger_in, logit, study_of


class Counting(LogisticRegression):
    """Counts what it is asked, as scikit-learn's trees of neighbours do."""

    def predict_proba(self, X: Any) -> Any:
        self.asked_ = getattr(self, "asked_", 0) + len(X)
        return super().predict_proba(X)


def test_the_model_that_is_returned_was_never_asked_about_private_rows(tmp_path: Path) -> None:
    choice = chosen(tmp_path, None, lambda trial, X, y: Counting(C=trial.params["C"]).fit(X, y))
    assert not hasattr(choice.model, "asked_")
    neighbours = (PEOPLE[0] + 1000.0 * (np.arange(N) == 7)[:, None], PEOPLE[1])
    models = []
    for name, data in (("a", PEOPLE), ("b", neighbours)):
        (tmp_path / name).mkdir()
        privatizer = dptune.LossPrivatizer(ledger_in(tmp_path / name), n=N, noise=CannedNoise())
        near = lambda trial, X, y: KNeighborsClassifier(5, algorithm="kd_tree").fit(X, y)  # noqa: E731
        models.append(chosen(tmp_path, None, near, privatizer=privatizer, data=data, loss="zero_one").model)
    assert pickle.dumps(models[0]) == pickle.dumps(models[1])


def shown(folder: Path, data: Any, capfd: Any, noise: Any = CannedNoise, loss: str = "log_loss") -> str:
    """Everything that a choice leaves: storage, ledger, every logger, console, files, and what is returned."""
    folder.mkdir()
    lines: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.name} {record.levelname} {self.format(record)}")

    handler, root, library = Collect(), logging.getLogger(), logging.getLogger("optuna")
    levels = root.level, library.level
    for logger in (root, library):
        logger.addHandler(handler)
        logger.setLevel(logging.NOTSET)
    try:
        study = study_of(storage=f"sqlite:///{folder}/s.db")
        privatizer = dptune.LossPrivatizer(ledger_in(folder, 0.5), n=N, noise=noise())

        def train(trial: Any, X: Any, y: Any) -> Any:
            lines.append(f"trained C={trial.params['C']} on {len(y)} rows")
            return logit(trial, X, y)

        about = {"privatizer": privatizer, "default": {"C": 1e-4}, "data": data, "loss": loss}
        choice = chosen(folder, study, train, **about)
        lines += [choice.summary(), repr(choice), repr(pickle.dumps(choice.model))]
    finally:
        for logger, level in zip((root, library), levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
    for path in sorted(folder.glob("*.db")):
        with sqlite3.connect(path) as connection:
            lines.extend(connection.iterdump())
        connection.close()
    lines += [str(path.relative_to(folder)) for path in sorted(folder.rglob("*"))] + list(capfd.readouterr())
    text = "\n".join(lines).replace(str(folder), "<folder>")
    text = re.sub(r"\b[0-9a-f]{32}\b", "<identity>", text)
    return re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d([.,]\d+)?(\+00:00)?", "<time>", text)


def neighbour(kind: str) -> Any:
    X, y = PEOPLE[0].copy(), PEOPLE[1].copy()
    if kind == "label":
        y[7] = 1 - y[7]
    elif kind == "wrong":  # the more a model is sure, the worse
        X[7] = [8.0 - 16.0 * y[7], 0.0, 0.0]
    else:
        X[7] = {"far": 1e6, "nan": np.nan, "moved": 3.0}[kind]
    return X, y


def test_neighbouring_data_leave_byte_identical_transcripts(tmp_path: Path, capfd: Any) -> None:
    mine = shown(tmp_path / "a", PEOPLE, capfd)
    for kind in ("far", "nan", "moved", "label", "wrong"):
        assert shown(tmp_path / kind, neighbour(kind), capfd) == mine, kind
    assert "NOT PRIVATE" in mine  # canned noise is called what it is


def test_without_noise_the_transcripts_differ(tmp_path: Path, capfd: Any) -> None:
    far = (PEOPLE[0], 1 - PEOPLE[1])
    assert shown(tmp_path / "a", PEOPLE, capfd, NoNoise) != shown(tmp_path / "b", far, capfd, NoNoise)


def the_vote_reads_private_rows(patch: pytest.MonkeyPatch, losses: Any) -> None:
    prior = public_choice.prior
    patch.setattr(public_choice, "prior", lambda V, w: prior(V + losses()[: len(V), None], w))


def r_from_private_rows(patch: pytest.MonkeyPatch, losses: Any) -> None:
    query = public_choice.Box
    patch.setattr(public_choice, "Box", lambda low, high, m: query(low - losses()[0], high + losses()[0], m))


def finalists_ordered_by_private_losses(patch: pytest.MonkeyPatch, losses: Any) -> None:
    order = property(lambda self: tuple(np.argsort(losses(), kind="stable").tolist()))
    patch.setattr(public_choice.PublicLosses, "order", order)


BUGS = [the_vote_reads_private_rows, r_from_private_rows, finalists_ordered_by_private_losses]


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_seen_in_the_transcripts(
    tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch, bug: Any
) -> None:
    """The audit: neighbours, canned noise, byte by byte."""
    found = []
    for name, data in (("a", PEOPLE), ("b", neighbour("wrong"))):
        with monkeypatch.context() as patch:
            models = [LogisticRegression(C=C).fit(*PUBLIC) for C in CS]
            private = [-np.log(m.predict_proba(data[0])[np.arange(N), data[1]] + 1e-12).mean() for m in models]
            bug(patch, lambda private=private: np.array(private))
            try:
                found.append(shown(tmp_path / name, data, capfd))
            except Exception as error:  # noqa: BLE001 - it is seen, too
                found.append(repr(error))
    assert found[0] != found[1]


def test_private_losses_are_forgotten_when_the_choice_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    privatizer = dptune.LossPrivatizer(ledger_in(tmp_path), n=N)
    chosen(tmp_path, privatizer=privatizer)
    assert privatizer.points() == ()
