"""With every release replaced by a canned value, nothing a framework shows depends on the private data.

The same study runs on neighbouring data sets, and transcripts are compared byte by byte. The audit fails on planted
leaks, below.
"""

import contextlib

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
    begun,
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

SECRET = 1234.56789
TRIALS = 12  # of a plan of 24: starts and steps, or two generations


def neighbour(kind):
    data = people()
    data[7] = {"other": 3.0, "nan": np.nan, "inf": np.inf, "raise": SECRET, "prune": SECRET, "array": SECRET}[kind]
    return data


RAISED = {"raise": ValueError, "prune": optuna.TrialPruned, "array": dptune.InputError}


def users_function(data, kind):
    """The user's code. That it fails is public (assumption 1 of docs/privacy.md); what it raises is not."""

    def losses(trial):
        x, y = point(trial)
        if kind in RAISED and trial.number % 3 == 1:
            raise RAISED[kind](f"loss of person 7 is {data[7]}")
        with np.errstate(all="ignore"):
            return losses_at(data, x, y)

    return losses


def canned(monkeypatch):
    """Replace every answer by a constant: what is left of the data's influence is a leak."""
    monkeypatch.setattr(StoredLosses, "mean", lambda self, query: np.full(query.dimension, 0.25))


def transcript_of(folder, front, data, kind, trials=TRIALS, **stored):
    def run(storage):
        privatizer, function = open_privatizer(folder, noise=SeededNoise(5)), users_function(data, kind)
        if front in OPEN:
            sampler = OPEN[front](privatizer)
            objective = sampler.objective(function)
        else:
            sampler = optuna.samplers.TPESampler(seed=2) if front == "tpe" else optuna.samplers.CmaEsSampler(seed=2)
            objective = PrivateObjective(function, privatizer, n_trials=TRIALS)
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
        ("centred", "nan", {"sqlite": True, "trials": 8}),
        ("centred", "prune", {}),
        ("tpe", "inf", {}),
        ("cmaes", "array", {}),
    ],
)
def test_transcripts_of_neighbouring_data_are_byte_identical(tmp_path, monkeypatch, front, kind, how):
    canned(monkeypatch)
    text = assert_transcripts_equal(tmp_path, front, kind, **how)
    assert text.count("finished with value") == how.get("trials", TRIALS)  # the transcript does hold the run


def leak_raw_value(monkeypatch):
    original = dptune.LossPrivatizer.release

    def release(self, query, **where):
        released = original(self, query, **where)
        raw = self._held.combine(query.points, query.weights).mean(axis=1)
        return dptune.Released(raw, released.charge, released.sigma)

    monkeypatch.setattr(dptune.LossPrivatizer, "release", release)


def leak_raw_record(monkeypatch):
    def raw(self, query):
        return self.combine(query.points, query.weights).mean(axis=1)[: query.dimension]

    monkeypatch.setattr(StoredLosses, "mean", raw)


def leak_exception(monkeypatch):
    monkeypatch.setattr(
        "dptune_optuna.objective.shielded", lambda function, trial, *_: function(shield.ShieldedTrial(trial))
    )


def leak_nan_count(monkeypatch):
    original = StoredLosses.clean

    def clean(self, values):
        optuna.logging.get_logger("dptune_optuna").warning(f"{np.isnan(values).sum()} losses are NaN")
        return original(self, values)

    monkeypatch.setattr(StoredLosses, "clean", clean)


@pytest.mark.filterwarnings("ignore::dptune_optuna.UnprotectedValueWarning")
@pytest.mark.parametrize(
    ("front", "leak", "kind"),
    [
        ("gibo", leak_raw_value, "other"),  # returned, and not recorded
        ("centred", leak_raw_record, "other"),
        ("gibo", leak_exception, "raise"),
        ("centred", leak_nan_count, "nan"),
    ],
)
def test_the_audit_fails_on_a_planted_leak(tmp_path, monkeypatch, front, leak, kind):
    canned(monkeypatch)
    leak(monkeypatch)
    with pytest.raises(AssertionError):
        assert_transcripts_equal(tmp_path, front, kind)


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


@pytest.mark.parametrize("error", [SystemExit, Panic, KeyboardInterrupt])
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
