"""With every release replaced by a canned value, nothing a framework shows depends on the private data.

The audit runs the same study on neighbouring data sets (one person replaced by: another person, NaN,
infinity, a person who makes the user's code raise, prune, exit badly) and compares transcripts byte by byte.
It fails on planted leaks, below.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

import dptune
from dptune.privacy.noise import SeededNoise
from dptune.privacy.stored_losses import StoredLosses
from dptune_optuna import LocalObjective, PrivateObjective, shield
from harness import (
    OPEN,
    N,
    create,
    front,
    losses_at,
    open_ledger,
    open_privatizer,
    open_sampler,
    people,
    people_s_losses,
    point,
    transcript,
)
from local_harness import paid, usual
from sealed_harness import seen_in

SECRET = 1234.56789
SAID = str(SECRET)
TRIALS = 12  # of a plan of 24: starts and steps, or two generations
OWN = {"dpgibo": OPEN["gibo"], "centred": OPEN["centred"]}


def neighbour(kind: str) -> np.ndarray:
    data = people()
    data[7] = {"other": 3.0, "nan": np.nan, "inf": np.inf, "raise": SECRET, "prune": SECRET, "array": SECRET}[kind]
    return data


def users_function(data: np.ndarray, kind: str):
    """The user's code. That it fails is public (assumption 1 of docs/privacy.md); what it raises is not."""

    def losses(trial):
        x, y = point(trial)
        if kind in ("raise", "prune", "array") and trial.number % 3 == 1:
            if kind == "prune":
                raise optuna.TrialPruned(f"loss of person 7 is {data[7]}")
            if kind == "array":
                raise dptune.InputError(f"losses {data[7]}")
            raise ValueError(f"bad person: {data[7]}")
        with np.errstate(all="ignore"):
            return losses_at(data, x, y)

    return losses


def canned(monkeypatch) -> None:
    """Replace every answer by a constant: what is left of the data's influence is a leak."""
    monkeypatch.setattr(StoredLosses, "mean", lambda self, query: np.full(query.dimension, 0.25))


def study_of(front: str, folder: Path, data: np.ndarray, kind: str):
    def run(storage: Any) -> None:
        privatizer = open_privatizer(folder, noise=SeededNoise(5))
        if front in OWN:
            sampler = OWN[front](privatizer)
            objective = sampler.objective(users_function(data, kind))
        else:
            sampler = optuna.samplers.TPESampler(seed=2) if front == "tpe" else optuna.samplers.CmaEsSampler(seed=2)
            objective = PrivateObjective(users_function(data, kind), privatizer, n_trials=TRIALS)
        study = create(storage, sampler)
        study.optimize(objective, n_trials=TRIALS, catch=(Exception,))
        if front in OWN:
            objective.estimate(study, sampler.recommend(study), early=True)

    return run


def transcript_of(folder: Path, front: str, data: np.ndarray, kind: str, **stored: bool) -> str:
    return transcript(folder, study_of(front, folder, data, kind), **stored)


def assert_transcripts_equal(tmp_path: Path, front: str, kind: str, mine: str = "", **stored: bool) -> str:
    mine = mine or transcript_of(tmp_path / "a", front, people(), kind, **stored)
    theirs = transcript_of(tmp_path / "b", front, neighbour(kind), kind, **stored)
    assert mine == theirs
    assert str(SECRET) not in theirs
    return mine


KINDS = ["other", "nan", "inf", "raise", "prune", "array"]
SILENT = ("other", "nan", "inf")  # the user's code does not raise: its transcripts are the same for all of them


@pytest.fixture(scope="module")
def unchanged() -> dict[tuple[str, str, bool], str]:
    """Transcripts of the people as they are: one for all neighbours with whom the user's code does the same."""
    return {}


@pytest.mark.parametrize(
    ("front", "kind", "sqlite"),
    [
        *(
            pytest.param(front, kind, False, marks=pytest.mark.slow if (i + j) % 2 else ())
            for i, front in enumerate(("dpgibo", "centred"))
            for j, kind in enumerate(KINDS)
        ),
        *((front, kind, False) for front, kinds in (("tpe", KINDS[::2]), ("cmaes", KINDS[1::2])) for kind in kinds),
        *((front, kind, True) for front, kind in (("centred", "nan"), ("tpe", "raise"))),
    ],
)
def test_transcripts_of_neighbouring_data_are_byte_identical(tmp_path, monkeypatch, unchanged, front, kind, sqlite):
    canned(monkeypatch)
    code = (front, "silent" if kind in SILENT else kind, sqlite)
    if code not in unchanged:
        unchanged[code] = transcript_of(tmp_path / "a", front, people(), kind, sqlite=sqlite)
    text = assert_transcripts_equal(tmp_path, front, kind, unchanged[code], sqlite=sqlite)
    assert text.count("finished with value") == TRIALS  # the transcript does hold the run


def leak_raw_value(monkeypatch) -> None:
    original = dptune.LossPrivatizer.release

    def release(self, query, **where):
        released = original(self, query, **where)
        raw = self._held.combine(query.points, query.weights).mean(axis=1)
        return dptune.Released(raw, released.charge, released.sigma)

    monkeypatch.setattr(dptune.LossPrivatizer, "release", release)


def leak_raw_record(monkeypatch) -> None:
    def raw(self, query):
        return self.combine(query.points, query.weights).mean(axis=1)[: query.dimension]

    monkeypatch.setattr(StoredLosses, "mean", raw)


def leak_exception(monkeypatch) -> None:
    monkeypatch.setattr(
        "dptune_optuna.objective.shielded", lambda function, trial, *_: function(shield.ShieldedTrial(trial))
    )


def leak_nan_count(monkeypatch) -> None:
    original = StoredLosses.clean

    def clean(self, values):
        optuna.logging.get_logger("dptune_optuna").warning(f"{np.isnan(values).sum()} losses are NaN")
        return original(self, values)

    monkeypatch.setattr(StoredLosses, "clean", clean)


@pytest.mark.filterwarnings("ignore::dptune_optuna.UnprotectedValueWarning")
@pytest.mark.parametrize("front", OWN)
@pytest.mark.parametrize(
    ("leak", "kind"), [(leak_raw_record, "other"), (leak_exception, "raise"), (leak_nan_count, "nan")]
)
def test_the_audit_fails_on_a_planted_leak(tmp_path, monkeypatch, front, leak, kind):
    canned(monkeypatch)
    leak(monkeypatch)
    with pytest.raises(AssertionError):
        assert_transcripts_equal(tmp_path, front, kind)


@pytest.mark.filterwarnings("ignore::dptune_optuna.UnprotectedValueWarning")
def test_the_audit_fails_on_a_raw_value_that_is_returned_and_not_recorded(tmp_path, monkeypatch):
    canned(monkeypatch)
    leak_raw_value(monkeypatch)
    with pytest.raises(AssertionError):
        assert_transcripts_equal(tmp_path, "dpgibo", "other")


def test_no_private_value_is_in_the_files_of_a_real_run(tmp_path):
    data = people()
    privatizer_losses: list[np.ndarray] = []

    def run(storage: Any) -> None:
        sampler = open_sampler(open_privatizer(tmp_path / "a"))

        def losses(trial):
            privatizer_losses.append(users_function(data, "other")(trial))
            return privatizer_losses[-1]

        study = create(storage, sampler)
        study.optimize(sampler.objective(losses), n_trials=12)

    transcript(tmp_path / "a", run, sqlite=True)
    written = b"".join(path.read_bytes() for path in (tmp_path / "a").iterdir())
    for row in privatizer_losses:
        for loss in [*row, row.mean(), row.astype(np.float32).mean()]:
            assert np.float64(loss).tobytes() not in written
            assert repr(float(loss)).encode() not in written


@pytest.mark.parametrize("setting", ["plain", "use_separable_cma", "with_margin"])
@pytest.mark.parametrize("local", [False, True])
def test_cma_es_stores_no_memory_that_held_losses(tmp_path, setting, local):
    def losses(trial):
        x, y = (trial.suggest_float(name, -1, 1) for name in "xy")
        values = np.random.default_rng(trial.number).random(n) + x * x + y * y
        seen.update(value.tobytes().hex() for value in values)
        return values.mean() if local else values

    n, seen = 40, set[str]()  # as many as the array that cmaes leaves unwritten has in two dimensions
    if local:
        objective = LocalObjective(losses, usual(), **paid(tmp_path, cap=100.0))
    else:
        objective = PrivateObjective(losses, open_privatizer(tmp_path, n=n), n_trials=24)
    sampler = optuna.samplers.CmaEsSampler(seed=2, **({} if setting == "plain" else {setting: True}))
    study = create(None, sampler)
    study.optimize(objective, n_trials=24)
    stored = "".join(str(trial.system_attrs) for trial in study.trials)
    assert "cma" in stored
    assert not [value for value in seen if value in stored]


@pytest.mark.parametrize("swallows", [False, True])
@pytest.mark.parametrize("method", ["report", "should_prune", "set_user_attr", "set_system_attr", "study", "storage"])
def test_what_would_store_a_value_is_refused_before_it_does(tmp_path, method, swallows):
    def losses(trial):
        with contextlib.suppress(dptune.PrivacyError) if swallows else contextlib.nullcontext():
            getattr(trial, method)
        return np.zeros(N)

    sampler, objective = front("gibo", open_privatizer(tmp_path), losses)
    study = create(None, sampler)
    with pytest.raises(dptune.PrivacyError, match=method):
        study.optimize(objective, n_trials=1)
    assert study.trials[0].intermediate_values == {}


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (0.5, "before averaging"),
        (None, r"NoneType of shape \(\)"),
        (optuna.samplers.RandomSampler(), "loss= and data="),
        (np.zeros((N, 1)), r"losses.ravel\(\)"),
        (np.zeros((N, 2)), "shape"),
        (np.zeros(N + 1), f"expected {N}"),
        (np.zeros(N, dtype="M8[D]"), "real numbers"),
        ([], "shape"),
    ],
)
def test_wrong_returns_raise_by_shape_and_release_nothing(tmp_path, returned, message):
    sampler, objective = front("gibo", open_privatizer(tmp_path), lambda trial: point(trial) and returned)
    with pytest.raises(dptune.InputError, match=message):
        create(None, sampler).optimize(objective, n_trials=1)
    assert open_ledger(tmp_path).count() == 0


def test_trying_out_says_what_is_public_lets_exceptions_through_and_stores_nothing(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(optuna.logging.get_logger("optuna"), "propagate", True)
    sampler = open_sampler(open_privatizer(tmp_path))
    objective = sampler.objective(users_function(neighbour("raise"), "raise"))
    with caplog.at_level("INFO"):
        assert objective.try_out({"x": 0.0, "y": 1.0}) == "PerExampleLosses(<private values>)"
    assert f"one loss for each of the {N} rows. Nothing was released" in caplog.text
    with pytest.raises(dptune.InputError, match=f"expected {N} per-example losses"):
        sampler.objective(lambda trial: np.zeros(3)).try_out({})
    with pytest.raises(ZeroDivisionError):
        sampler.objective(lambda trial: 1 / 0).try_out({})
    assert sampler.run_of(create(None, sampler)).ledger.spent() == 0


class Panic(BaseException):
    """What a native extension may raise; not an Exception."""


@pytest.mark.parametrize("error", [SystemExit, Panic, GeneratorExit, MemoryError, KeyboardInterrupt])
def test_nothing_the_function_raises_escapes_but_an_interrupt(tmp_path, error):
    def losses(trial):
        if trial.number == 0:  # nothing counts before one trial has succeeded
            return people_s_losses(trial)
        raise error(f"person 3 has {SECRET}")

    sampler, objective = front("gibo", open_privatizer(tmp_path), losses)
    study, interrupts = create(None, sampler), error is KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt, match=r"^$") if interrupts else contextlib.nullcontext():
        study.optimize(objective, n_trials=2)
    assert interrupts or study.trials[1].state == optuna.trial.TrialState.COMPLETE


def test_no_frame_of_a_raised_error_holds_a_loss(tmp_path):
    sampler, objective = front("gibo", open_privatizer(tmp_path), lambda trial: np.array(SECRET))
    with pytest.raises(dptune.InputError) as caught:
        objective(create(None, sampler).ask())
    assert SAID not in seen_in(caught.value)


@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution")
def test_wrapped_losses_are_taken_as_they_are_and_a_choice_that_json_does_not_know_is_stored_as_text(tmp_path):
    def losses(trial):
        trial.suggest_categorical("k", [np.int64(3)])
        return dptune.privacy.PerExampleLosses(people_s_losses(trial))

    sampler, objective = front("gibo", open_privatizer(tmp_path), losses)
    study = create(None, sampler)
    study.optimize(objective, n_trials=1)
    assert study.trials[0].state == optuna.trial.TrialState.COMPLETE
