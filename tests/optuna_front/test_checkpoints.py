"""A trial hands a model over, or the path of its checkpoint."""

import os
import pickle
from contextlib import nullcontext

import numpy as np
import optuna
import pytest
from sklearn.linear_model import LogisticRegression

import dptune
import dptune_optuna
from harness import open_ledger

_rng = np.random.default_rng(7)
X = _rng.normal(size=(140, 3))
Y = (X[:, 0] + 0.5 * _rng.normal(size=140) > 0).astype(int)
PUBLIC, PEOPLE = (X[:60].copy(), Y[:60].copy()), (X[60:].copy(), Y[60:].copy())
del X, Y


def test_checkpoints_of_trials_are_candidates_and_nothing_is_trained(tmp_path, caplog):
    """A trial without a checkpoint drops out, in words."""
    trained, files = [], tmp_path / "files"
    files.mkdir()

    def objective(trial):
        path = files / f"{trial.number}"
        C = trial.suggest_float("C", 1e-5, 1e3, log=True)
        dptune_optuna.candidate(trial, path, held_out=PUBLIC, load=lambda path: pickle.loads(path.read_bytes()))
        trained.append(C)
        if trial.number:
            path.write_bytes(pickle.dumps(LogisticRegression(C=C).fit(PUBLIC[0][:30], PUBLIC[1][:30])))
        return abs(np.log(C))

    study = optuna.create_study(study_name="nets", sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=6)
    caplog.set_level("WARNING", "optuna.dptune")
    about = {"ledger": open_ledger(tmp_path), "loss": "log_loss", "data": PEOPLE, "progress": False}
    choice = dptune_optuna.choose(study, objective, **about)
    assert len(trained) == 6
    assert choice.model.C == choice.params["C"] in trained[1:]
    assert "1 of 6 trials have no checkpoint and are not candidates: FileNotFoundError" in caplog.text
    (files / "1").write_bytes(b"")
    about |= {"ledger": tmp_path / "other.db", "budget": dptune.Budget.gdp(1.0)}
    dptune_optuna.choose(study, objective, mu=0.5, **about)
    assert "1 of 6 configurations failed on public rows and drop out: EOFError" in caplog.text
    with pytest.raises(dptune.InputError, match=r"no trial with a checkpoint has the default=\. Nothing was charged\."):
        dptune_optuna.choose(study, objective, default={"C": 1.5}, name="c", **about)


@pytest.mark.parametrize("made", ["net", "net/epoch/net", None])
@pytest.mark.parametrize("late", [False, True])
def test_a_line_after_the_training_is_refused(tmp_path, made, late):
    """A checkpoint that was written since the trial began means that the objective trains before it hands over."""

    def objective(trial):
        C = trial.suggest_float("C", 1e-3, 1e3, log=True)
        if made is not None:
            file = tmp_path / made
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
            began = trial.datetime_start.timestamp()
            os.utime(file, (0, began + (1 if late else -1)))
        load = {"held_out": PUBLIC, "load": lambda _: LogisticRegression(C=C).fit(*PUBLIC)}
        dptune_optuna.candidate(trial, 3 if made is None else tmp_path / "net", **load)
        return C

    study = optuna.create_study(study_name="nets")
    for trial in (study.ask(), optuna.trial.FixedTrial({"C": 1.0})):
        with pytest.raises(dptune.InputError, match="after the training") if made and late else nullcontext():
            objective(trial)


def test_a_checkpoint_that_averages_load_has_no_bar_of_its_own(tmp_path, capfd):
    def objective(trial):
        model = LogisticRegression(C=trial.suggest_float("C", 1e-3, 1e3, log=True))
        dptune_optuna.candidate(trial, "net", held_out=PUBLIC, load=lambda _: model.fit(PUBLIC[0][:30], PUBLIC[1][:30]))
        return 0.0

    study = optuna.create_study(study_name="nets", sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=6)
    capfd.readouterr()
    dptune_optuna.choose(
        study, objective, ledger=open_ledger(tmp_path), loss="log_loss", data=PEOPLE, averages=True, progress=True
    )
    said = capfd.readouterr().err
    assert ("0/7" in said, "0/1 " in said) == (True, False)


def test_a_changed_checkpoint_is_no_old_answer(tmp_path):
    """Nothing but the files changes: their public losses are not taken from those that were kept."""
    (files := tmp_path / "files").mkdir()
    for at in (1.0, 2.0, 3.0):
        (files / f"{at}").write_text(f"{at / 10}")
    asked = []

    def load(path):
        asked.append(path.name)
        return LogisticRegression(C=float(path.read_text())).fit(*PUBLIC)

    def objective(trial):
        at = trial.suggest_float("at", 1.0, 3.0)
        dptune_optuna.candidate(trial, files / f"{at}", held_out=PUBLIC, load=load)
        return at

    study = optuna.create_study(study_name="nets", sampler=optuna.samplers.GridSampler({"at": [1.0, 2.0, 3.0]}, seed=0))
    study.optimize(objective)
    about = {"loss": "log_loss", "data": PEOPLE, "progress": False, "mu": 0.5}
    dptune_optuna.choose(study, objective, ledger=open_ledger(tmp_path), name="one", **about)
    assert set(asked) == {"1.0", "2.0", "3.0"}
    asked.clear()
    (files / "2.0").write_text("5.0")
    with pytest.raises(dptune.errors.BudgetMismatch):
        dptune_optuna.choose(study, objective, ledger=open_ledger(tmp_path), name="one", **about)
    assert set(asked) == {"1.0", "2.0", "3.0"}
