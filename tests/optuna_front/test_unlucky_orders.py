"""Trials that are shuffled, repeated, failed and ranked in opposite directions; a callback of two threads."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState, create_trial
from sklearn.linear_model import LogisticRegression

import dptune
import dptune_optuna
from choice_tools import Chooses
from dptune_mlflow import MLflowCallback
from dptune_optuna.choice import ranked
from dptune_optuna.spaces import to_distributions, to_space
from harness import front, open_ledger, open_privatizer, people_s_losses

SPACE = {"C": optuna.distributions.FloatDistribution(1e-3, 100)}
TRIALS = [  # C and two objectives, the first to maximise; None: the trial failed
    (1.0, (3.0, 9.0)),
    (5.0, None),
    (10.0, (1.0, 1.0)),
    (0.1, (9.0, 8.0)),
    (1.0, (3.0, 9.0)),
    (50.0, None),
    (0.01, (2.0, 2.0)),
    (20.0, (2.0, 9.5)),
]
FRONT = {10.0, 0.1, 0.01}  # no other trial is better in both


def study_of(objectives: slice) -> optuna.Study:
    directions = ["maximize", "minimize"][objectives]
    study = optuna.create_study(study_name="s", directions=directions)
    for C, values in TRIALS:
        state = TrialState.FAIL if values is None else TrialState.COMPLETE
        told = None if values is None else list(values[objectives])
        study.add_trial(create_trial(params={"C": C}, distributions=SPACE, values=told, state=state))
    return study


@pytest.mark.parametrize(
    ("objectives", "order"),
    [
        (slice(0, 1), [0.1, 1.0, 1.0, 0.01, 20.0, 10.0]),
        (slice(1, 2), [10.0, 0.01, 0.1, 1.0, 1.0, 20.0]),
        (
            slice(0, 2),
            [0.1, 0.01, 10.0, 1.0, 1.0, 20.0],
        ),  # ranks 0 + 2, 2 + 1 (or 3), 5 + 0 of the front, then the rest
    ],
    ids=["maximised", "minimised", "both"],
)
def test_trials_are_ranked_by_each_direction(objectives: slice, order: list[float]) -> None:
    found = [trial.params["C"] for trial in ranked(study_of(objectives))]
    assert found == order
    assert objectives != slice(0, 2) or set(found[:3]) == FRONT


@pytest.mark.parametrize("place", range(5))
def test_rows_of_public_losses_are_those_of_their_trials(fast_path: Path, place: int) -> None:
    rng = np.random.default_rng(0)
    losses = rng.uniform(size=(len(TRIALS), 40)) + rng.permutation(len(TRIALS))[:, None] / 40
    X = rng.normal(size=(100, 2))
    y = (X[:, 0] > 0).astype(int)

    def train(trial: Any, X: Any, y: Any) -> Any:
        return LogisticRegression(C=trial.params["C"]).fit(X, y)

    privatizer = dptune.LossPrivatizer(open_ledger(fast_path), n=60, noise=Chooses(place))
    choice = dptune_optuna.choose(
        study_of(slice(0, 2)), train, ledger=privatizer, loss="log_loss", public_losses=losses, default={"C": 0.01},
        data=(X[40:].copy(), y[40:].copy()), public=(X[:40].copy(), y[:40].copy()), progress=False,
    )  # fmt: skip
    rows = [row for row, (C, values) in enumerate(TRIALS) if values is not None and choice.params["C"] == C]
    kept = [row for row in rows if choice.selection.public_loss == pytest.approx(losses[row].mean())]
    assert kept == rows[:1]
    gain = choice.selection.improvement
    if gain is None:
        assert choice.params == {"C": 0.01}
    else:
        cut = np.clip(losses[6] - losses[rows[0]], -gain.radius, gain.radius)
        assert gain.predicted == pytest.approx(cut.mean())


def test_threads_of_a_study_share_one_mlflow_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look-up of the study's run and each new run need the callback's lock."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    sampler, objective = front("centred", open_privatizer(tmp_path), people_s_losses, n_trials=8)
    mine = MLflowCallback(objective, delta=1e-5, tracking_uri=f"file:{tmp_path}/mlruns")
    seen: list[bool] = []

    class Watched(dict[str, Any]):
        def __contains__(self, name: object) -> bool:
            seen.append(free())
            return super().__contains__(name)

        def __setitem__(self, name: str, run: Any) -> None:
            seen.append(free())
            super().__setitem__(name, run)

    def free() -> bool:
        """Return whether another thread could take the lock now."""
        got: list[bool] = []
        other = threading.Thread(target=lambda: got.append(mine._lock._lock.acquire(blocking=False)))
        other.start()
        other.join()
        return got[0]

    mine._written = Watched()
    study = optuna.create_study(study_name="study", sampler=sampler)
    study.optimize(objective, n_trials=2, callbacks=[mine])
    assert seen
    assert not any(seen)


def test_a_space_and_its_distributions_are_each_other() -> None:
    known = {
        "float": optuna.distributions.FloatDistribution(0.5, 2.5),
        "log": optuna.distributions.FloatDistribution(1e-3, 1.0, log=True),
        "steps": optuna.distributions.FloatDistribution(0.0, 1.0, step=0.25),
        "int": optuna.distributions.IntDistribution(2, 12, step=5),
        "logint": optuna.distributions.IntDistribution(1, 64, log=True),
    }
    space = to_space(known)
    assert space is not None
    assert to_distributions(space) == known


def test_candidates_of_two_sets_of_public_rows_are_refused(fast_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(160, 2))
    y = (X[:, 0] > 0).astype(int)
    halves = [(X[part].copy(), y[part].copy()) for part in (slice(0, 40), slice(40, 80))]

    def objective(trial: Any) -> None:
        model = LogisticRegression(C=trial.params["C"]).fit(*halves[0])
        dptune_optuna.candidate(trial, model, held_out=halves[trial.params["C"] > 1])

    ledger = open_ledger(fast_path)
    about: dict[str, Any] = {"loss": "log_loss", "data": (X[80:].copy(), y[80:].copy()), "progress": False}
    with pytest.raises(dptune.InputError, match="different public rows"):
        dptune_optuna.choose(study_of(slice(0, 1)), objective, ledger=ledger, **about)
    assert ledger.spent() == 0
