"""LocalObjective: only the reply leaves the device, whatever the user's function does."""

from __future__ import annotations

import contextlib
import io
import re
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

import dptune
from dptune.local import InsecureRandomizer, LocalRandomizer, UserLedger
from dptune_optuna import LDPTGPSampler, LocalObjective
from dptune_optuna.local import randomizers_of
from harness import create, transcript
from local_harness import SAMPLERS, SECRET, at_x, open_sampler, users_function

HASH = re.compile(r"[0-9a-f]{64}")  # of a ledger's rows, which hold when a trial began; all that they cover is compared
KINDS = ["raise", "prune", "exit", "input error", "none", "text", "nan", "inf", "array"]


def study_of(front: str, folder: Path, kind: str, randomizer: Any) -> Any:
    def run(storage: Any) -> None:
        ledger = UserLedger(folder / "ledger.db", cap=100.0)
        objective = LocalObjective(users_function(kind), randomizer(), ledger=ledger, user="somebody")
        create(storage, open_sampler(front)).optimize(objective, n_trials=6)

    return run


def canned() -> LocalRandomizer:
    """What is left of the value's influence, when every reply is replaced by a constant, is a leak."""
    randomizer = LocalRandomizer(1.0, 1.0, invalid=1.0)
    randomizer.randomize = lambda value: 0.25
    return randomizer


FRONTS = [("tgp", kind) for kind in KINDS] + [(front, kind) for front in SAMPLERS for kind in ("raise", "nan")][2:]


@pytest.mark.parametrize(("front", "kind"), FRONTS)
def test_transcripts_of_neighbouring_values_are_byte_identical(tmp_path, front, kind):
    mine = transcript(tmp_path / "a", study_of(front, tmp_path / "a", "plain", canned))
    theirs = transcript(tmp_path / "b", study_of(front, tmp_path / "b", kind, canned))
    assert HASH.sub("", mine) == HASH.sub("", theirs)
    assert str(SECRET) not in theirs
    assert mine.count("finished with value") == 6


def test_the_audit_fails_on_a_planted_leak(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "dptune_optuna.local_objective.shielded", lambda function, trial, take: print_and_call(function, trial)
    )

    def print_and_call(function: Any, trial: Any) -> Any:
        optuna.logging.get_logger("dptune_optuna").warning(f"measured {(value := function(trial))}")
        return value

    mine = transcript(tmp_path / "a", study_of("tgp", tmp_path / "a", "plain", canned))
    theirs = transcript(tmp_path / "b", study_of("tgp", tmp_path / "b", "nan", canned))
    assert mine != theirs


@pytest.mark.parametrize("kind", ["plain", "raise", "nan", "array"])
def test_the_value_is_in_no_file_and_no_line_of_a_real_run(tmp_path, kind):
    values: list[float] = []
    function = users_function(kind)

    def measure(trial):
        values.append(SECRET * trial.suggest_float("x", 0, 1))
        return function(trial)

    def run(storage: Any) -> None:
        ledger = UserLedger(tmp_path / "a" / "ledger.db", cap=100.0)
        objective = LocalObjective(measure, LocalRandomizer(1.0, 1.0, invalid=1.0), ledger=ledger, user="somebody")
        create(storage, open_sampler()).optimize(objective, n_trials=8)

    console = io.StringIO()
    with contextlib.redirect_stderr(console), contextlib.redirect_stdout(console):
        text = transcript(tmp_path / "a", run, sqlite=True) + console.getvalue()
    written = b"".join(path.read_bytes() for path in (tmp_path / "a").iterdir())
    for value in [SECRET, *values]:
        if value:
            assert repr(value) not in text
            assert repr(value).encode() not in written
            assert np.float64(value).tobytes() not in written
            assert np.float64(value).tobytes()[::-1] not in written  # SQLite's order of bytes


def test_a_reply_is_the_clamped_value_plus_noise(monkeypatch):
    messages: list[str] = []
    monkeypatch.setattr(optuna.logging.get_logger("optuna.dptune"), "warning", messages.append)
    study = create(None, open_sampler("tpe"))
    for value, middle in [(5.0, 1.0), (-np.inf, -1.0), (0.5, 0.5), (None, 1.0)]:
        objective = LocalObjective(
            lambda trial, value=value: at_x(trial, value), InsecureRandomizer(1e6, 1.0, invalid=1.0, insecure_seed=0)
        )
        assert objective(study.ask()) == pytest.approx(middle, abs=1e-4)
    (described,) = randomizers_of(study)
    assert described["mechanism"] == "CTL"
    assert described["private"] is False  # the study says so
    assert all("NOT PRIVATE" in message for message in messages)
    assert messages


# ---- public mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("with_ledger", [False, True])
@pytest.mark.parametrize("method", ["report", "should_prune", "set_user_attr", "study"])
def test_what_would_store_a_value_is_refused(tmp_path, method, with_ledger):
    ledger = UserLedger(tmp_path / "u.db", cap=5.0) if with_ledger else None
    study = create(None, open_sampler())

    def measure(trial):
        with contextlib.suppress(dptune.PrivacyError):
            getattr(trial, method)(SECRET)
        return SECRET

    objective = LocalObjective(
        measure, LocalRandomizer(1.0, 1.0, invalid=1.0), ledger=ledger, user="me" if ledger else None
    )
    with pytest.raises(dptune.PrivacyError, match=method) as caught:
        objective(study.ask())
    seen = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    while seen is not None:
        assert str(SECRET) not in "".join(seen.format())
        seen = seen.__cause__ or seen.__context__


def test_wrong_settings_are_refused(tmp_path):
    randomizer = LocalRandomizer(1.0, 1.0, invalid=1.0)
    with pytest.raises(dptune.InputError, match="function"):
        LocalObjective(3, randomizer)
    with pytest.raises(dptune.InputError, match="together"):
        LocalObjective(users_function("plain"), randomizer, user="me")
    with pytest.raises(dptune.InputError, match="together"):
        LocalObjective(users_function("plain"), randomizer, ledger=UserLedger(tmp_path / "u.db", cap=1.0))


def test_trying_out_shows_the_functions_errors():
    randomizer = LocalRandomizer(1.0, 1.0, invalid=1.0)
    LocalObjective(users_function("plain"), randomizer).try_out({"x": 0.5})
    with pytest.raises(ValueError, match="the value"):
        LocalObjective(users_function("raise"), randomizer).try_out({"x": 0.5})
    with pytest.raises(TypeError):
        LocalObjective(users_function("none"), randomizer).try_out({"x": 0.5})


@pytest.mark.parametrize(("name", "high"), [("xx", 1.0), ("x", 0.5)])
@pytest.mark.parametrize("with_ledger", [False, True])
@pytest.mark.parametrize("kind", ["tgp", "ata", "moma"])
def test_a_function_that_does_not_suggest_what_is_searched_is_refused_and_sends_nothing(
    tmp_path, monkeypatch, kind, with_ledger, name, high
):
    ledger = UserLedger(tmp_path / "u.db", cap=10.0)
    whose = {"ledger": ledger, "user": "me"} if with_ledger else {}
    randomizer = LocalRandomizer(1.0, 1.0, invalid=1.0)
    objective = LocalObjective(lambda trial: trial.suggest_float(name, 0, high), randomizer, **whose)
    study = create(None, optuna.samplers.PartialFixedSampler({}, open_sampler(kind)))
    with pytest.raises(dptune.InputError, match=f"parameter 'x'.*FloatDistribution.*suggested.*{name}?"):
        study.optimize(objective, n_trials=5)
    assert [t.state for t in study.trials] == [TrialState.FAIL]
    assert study.trials[0].value is None
    assert ledger.spent("me") <= 1.0  # charged before its function may be called, and once


def test_without_a_space_a_parameter_that_comes_and_goes_is_no_mistake():
    settings = dptune.bandits.LDPSettings(dptune.bandits.LaplaceReplies(1.0, B=0.8, R=0.2))
    study = create(None, LDPTGPSampler(settings=settings, count=16, warn_independent_sampling=False))

    def function(trial):
        if trial.number % 2 == 0:
            trial.suggest_float("even", 0, 1)
        return at_x(trial, 0.5)

    study.optimize(LocalObjective(function, LocalRandomizer(1.0, 1.0, invalid=1.0)), n_trials=4)
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 4
