"""If every release is a canned value, nothing that a framework shows depends on the private data.

The same study runs on neighbouring data sets, and transcripts are compared byte by byte. The audit fails on the planted
leaks below.
"""

import contextlib
from functools import partial

import numpy as np
import optuna
import pytest

import dptune
from dptune.privacy.stored_losses import StoredLosses
from dptune_optuna import LocalObjective, PrivateObjective, shield
from harness import (
    OPEN,
    N,
    begun,
    create,
    front,
    open_ledger,
    open_privatizer,
    open_sampler,
    people,
    people_s_losses,
    point,
    transcript,
    users_function,
)
from local_harness import paid, usual
from noises import CannedNoise, NoNoise

SECRET = 1234.56789
TRIALS = 8  # of a plan of 12: starts and steps, or two generations


def neighbour(kind):
    data = people()
    data[7] = {"other": 3.0, "nan": np.nan, "inf": np.inf, "raise": SECRET, "prune": SECRET, "array": SECRET}[kind]
    return data


def transcript_of(folder, front, data, kind, noise=CannedNoise, privatizer=open_privatizer, trials=TRIALS, **stored):
    def run(storage):
        made, function = privatizer(folder, noise=noise()), users_function(data, kind)
        if front in OPEN:
            sampler = OPEN[front](made, n_trials=12, default={"x": 0.0, "y": 0.1})
            objective = sampler.objective(function)
        else:
            sampler = optuna.samplers.TPESampler(seed=2) if front == "tpe" else optuna.samplers.CmaEsSampler(seed=2)
            objective = PrivateObjective(function, made, n_trials=TRIALS)
        study = create(storage, sampler)
        study.optimize(objective, n_trials=trials, catch=(Exception,))
        if front in OPEN:
            objective.estimate(study, sampler.recommend(study), early=True)

    return transcript(folder, run, **stored)


def assert_transcripts_equal(tmp_path, front, kind, **how):
    mine = transcript_of(tmp_path / "a", front, people(), kind, **how)
    theirs = transcript_of(tmp_path / "b", front, neighbour(kind), kind, **how)
    assert mine == theirs
    assert str(SECRET) not in theirs
    return mine


@pytest.mark.parametrize(
    ("front", "kind", "how"),
    [
        ("gibo", "other", {}),
        ("gibo", "raise", {}),
        ("centred", "nan", {"sqlite": True, "trials": 4}),
        ("centred", "prune", {}),
        ("centred", "inf", {"privatizer": partial(open_privatizer, mu=2.0)}),
        ("tpe", "inf", {}),
        ("cmaes", "array", {}),
    ],
)
def test_transcripts_of_neighbouring_data_are_byte_identical(tmp_path, front, kind, how):
    text = assert_transcripts_equal(tmp_path, front, kind, **how)
    assert text.count("finished with value") == how.get("trials", TRIALS)  # the transcript does hold the run


class Leaking(dptune.LossPrivatizer):
    """Returns what it has not recorded: the raw means."""

    def release(self, query, **where):
        released = super().release(query, **where)
        raw = self._held.combine(query.points, query.weights).mean(axis=1)
        return dptune.Released(raw, released.charge, released.sigma)


def leaking(folder, noise):
    return Leaking(open_ledger(folder), n=N, clip=(0.0, 4.0), noise=noise)


def leak_exception(function, trial, take):
    return function(shield.ShieldedTrial(trial))


CLEAN = StoredLosses.clean


def leak_nan_count(self, losses):
    optuna.logging.get_logger("dptune_optuna").warning(f"{np.isnan(losses).sum()} losses are NaN")
    return CLEAN(self, losses)


@pytest.mark.filterwarnings("ignore::dptune_optuna.sampler.UnprotectedValueWarning")
@pytest.mark.parametrize(
    ("front", "kind", "how", "bug"),
    [
        ("gibo", "other", {"privatizer": leaking}, None),
        ("centred", "other", {"noise": NoNoise}, None),  # the raw record
        ("gibo", "raise", {}, ("dptune_optuna.objective.shielded", leak_exception)),
        ("centred", "nan", {}, (StoredLosses, "clean", leak_nan_count)),
    ],
)
def test_the_audit_fails_on_a_planted_leak(tmp_path, monkeypatch, front, kind, how, bug):
    if bug:
        monkeypatch.setattr(*bug)
    with pytest.raises(AssertionError):
        assert_transcripts_equal(tmp_path, front, kind, **how)


def test_no_private_value_is_in_the_files_of_a_real_run(tmp_path):
    seen = []

    def run(storage):
        sampler = open_sampler(open_privatizer(tmp_path / "a"))

        def losses(trial):
            seen.append(people_s_losses(trial))
            return seen[-1]

        create(storage, sampler).optimize(sampler.objective(losses), n_trials=6)

    transcript(tmp_path / "a", run, sqlite=True)
    written = b"".join(path.read_bytes() for path in (tmp_path / "a").iterdir())
    for row in seen:
        for loss in [*row, row.mean(), row.astype(np.float32).mean()]:
            assert np.float64(loss).tobytes() not in written
            assert repr(float(loss)).encode() not in written


@pytest.mark.parametrize("local", [False, True])
def test_cma_es_stores_no_memory_that_held_losses(tmp_path, local):
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
    study = create(None, optuna.samplers.CmaEsSampler(seed=2, with_margin=local))
    study.optimize(objective, n_trials=24)
    stored = "".join(str(trial.system_attrs) for trial in study.trials)
    assert "cma" in stored
    assert not [value for value in seen if value in stored]


@pytest.mark.parametrize(
    ("method", "swallows"),
    [("report", True), ("should_prune", False), ("set_user_attr", True), ("set_system_attr", False), ("study", True)],
)
def test_what_would_store_a_value_is_refused_before_it_does(tmp_path, method, swallows):
    def losses(trial):
        with contextlib.suppress(dptune.PrivacyError) if swallows else contextlib.nullcontext():
            getattr(trial, method)
        return np.zeros(N)

    _, study, objective = begun("gibo", tmp_path, losses)
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
        (np.zeros(N + 1), f"expected {N}"),
        (np.zeros(N, dtype="M8[D]"), "real numbers"),
        ([], "shape"),
    ],
)
def test_wrong_returns_raise_by_shape_and_release_nothing(tmp_path, returned, message):
    sampler, objective = front("gibo", open_privatizer(tmp_path), lambda trial: point(trial) and returned)
    with pytest.raises(dptune.InputError, match=message):
        create(None, sampler).optimize(objective, n_trials=1)
    with pytest.raises(dptune.InputError):
        objective.try_out({"x": 0.0, "y": 1.0})
    assert open_ledger(tmp_path).count() == 0


def test_try_out_shows_public_facts_and_exceptions_and_stores_nothing(tmp_path, caplog):
    sampler = open_sampler(open_privatizer(tmp_path))
    objective = sampler.objective(users_function(neighbour("raise"), "raise"))
    with caplog.at_level("INFO", "optuna.dptune"):
        assert objective.try_out({"x": 0.0, "y": 1.0}) == "PerExampleLosses(<private values>)"
    assert f"one loss for each of the {N} rows. Nothing was released" in caplog.text
    with pytest.raises(ZeroDivisionError):
        sampler.objective(lambda trial: 1 / 0).try_out({})
    assert open_ledger(tmp_path).count() == 0
