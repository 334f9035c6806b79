"""What leaves ``study.optimize``, by whatever way, holds no private value: errors, warnings, log lines."""

from __future__ import annotations

import contextlib

import numpy as np
import optuna
import pytest

import dptune
from dptune_optuna import LocalObjective, PrivateObjective
from harness import N, create, open_centred, open_ledger, open_privatizer, open_sampler

SECRET = 4711.25
MARK = str(SECRET)


# ---- errors ---------------------------------------------------------------------------------------------


def seen_in(error: BaseException | None) -> str:
    """Return all that hangs on an exception: texts and the local variables of frames, of its causes, too."""
    found = []
    while error is not None:
        found.append(repr(error))
        traceback = error.__traceback__
        while traceback is not None:
            found.append(repr(traceback.tb_frame.f_locals))
            traceback = traceback.tb_next
        assert error.__cause__ is None or error.__cause__ is error.__context__
        error = error.__context__
    return "\n".join(found)


def failing_inside(mistake):
    """An objective that fails on a private value, and makes a public mistake while it handles that."""

    def objective(trial):
        trial.suggest_float("x", -1, 1)
        trial.suggest_float("y", 1e-3, 1e1, log=True)
        secret = SECRET
        try:
            raise ValueError(f"row 17 has income {secret}")
        except ValueError:
            return mistake(trial)

    return objective


FRONTS = {
    "PrivateObjective": lambda folder, f: (None, PrivateObjective(f, open_privatizer(folder), n_trials=2)),
    "sampler": lambda folder, f: ((s := open_centred(open_privatizer(folder))), s.objective(f)),
    "LocalObjective": lambda folder, f: (None, LocalObjective(f, dptune.LocalRandomizer(1.0, (0.0, 1.0), invalid=1.0))),
    "ledger": lambda folder, f: (
        None,
        LocalObjective(
            f,
            dptune.LocalRandomizer(1.0, (0.0, 1.0), invalid=1.0),
            ledger=dptune.UserLedger(folder / "u.db", cap=5.0),
            user="me",
        ),
    ),
}
MISTAKES = {
    "refused": lambda trial: trial.set_user_attr("failed", True),
    "bad range": lambda trial: trial.suggest_float("z", 1.0, 0.0),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("front", FRONTS)
def test_a_public_error_does_not_carry_the_private_one_it_was_raised_in(tmp_path, caplog, capfd, front, mistake):
    sampler, objective = FRONTS[front](tmp_path, failing_inside(MISTAKES[mistake]))
    study = create(None, sampler)
    with pytest.raises((dptune.PrivacyError, ValueError)) as caught:
        study.optimize(objective, n_trials=1)
    assert MARK not in seen_in(caught.value)
    assert MARK not in caplog.text + "".join(capfd.readouterr())


def test_an_estimate_raises_without_the_private_error(tmp_path):
    fail = []
    inside = failing_inside(MISTAKES["refused"])
    objective = PrivateObjective(
        lambda trial: inside(trial) if fail else np.zeros(N), open_privatizer(tmp_path), n_trials=2
    )
    study = create(None, None)
    study.optimize(objective, n_trials=1)
    fail.append(True)
    with pytest.raises(dptune.PrivacyError) as caught:
        objective.estimate(study, {"x": 0.0, "y": 1.0})
    assert MARK not in seen_in(caught.value)


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, KeyboardInterrupt])
def test_what_is_returned_cannot_raise_past_the_shield(tmp_path, error):
    class Unreadable:
        def __array__(self, *args, **kwargs):
            raise error(f"row 17 has income {SECRET}")

    objective = PrivateObjective(lambda trial: Unreadable(), open_privatizer(tmp_path), n_trials=2)
    study = create(None, optuna.samplers.RandomSampler(seed=0))
    interrupted = pytest.raises(KeyboardInterrupt) if error is KeyboardInterrupt else contextlib.nullcontext()
    with interrupted as caught:
        study.optimize(objective, n_trials=1)
    if caught is not None:
        assert MARK not in seen_in(caught.value)
