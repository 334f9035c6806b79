"""The checkpoints of a finished experiment are the candidates of one private choice, and nothing is trained."""

import logging
import tempfile
import tracemalloc
import weakref
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import optuna
import pytest
from ray import tune

import dptune
import dptune_optuna
import dptune_ray
from dptune.privacy.noise import SeededNoise
from noises import CannedNoise
from ray_harness import open_ledger

pytestmark = pytest.mark.ray
ROWS, N, TRIALS, WEIGHT = 60, 80, 64, 20 * 2**20  # bytes of a loaded model
_rng = np.random.default_rng(7)
X = _rng.normal(size=(ROWS + N, 3))
Y = (X[:, 0] + 0.5 * _rng.normal(size=ROWS + N) > 0).astype(int)
HELD_OUT, PEOPLE = (X[:ROWS].copy(), Y[:ROWS].copy()), (X[ROWS:].copy(), Y[ROWS:].copy())
del X, Y
FAILED, NO_CHECKPOINT, BEST_IS_FIRST = 0, (1, 2, 3), 4  # trials


def steep(trial, step):
    """The slope of a trial's model after a step, the only thing that its checkpoint has."""
    return 0.02 * (trial + 1) * (step if trial != BEST_IS_FIRST else 4 - step)


class Loaded:
    """A big model that nobody can train; counts the copies that exist in this process."""

    alive: ClassVar[Any] = weakref.WeakSet()
    most: ClassVar[int] = 0

    def __init__(self, slope, weight=1):
        self.slope, self.classes_, self.ballast = slope, np.array([0, 1]), np.ones(weight, dtype=np.int8)

    def __setstate__(self, state):
        self.__dict__ |= state
        Loaded.alive.add(self)
        Loaded.most = max(Loaded.most, len(Loaded.alive))

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-self.slope * X[:, 0]))
        return np.column_stack([1 - p, p])


class Talking(Loaded):
    """Prints what it is asked, and draws from the global generator."""

    def predict_proba(self, X):
        print("asked", X.sum(), np.random.normal())
        return super().predict_proba(X)


def slope_of(checkpoint):
    with checkpoint.as_directory() as folder:
        return float(Path(folder, "slope").read_text())


def load(checkpoint):
    return Loaded(slope_of(checkpoint))


@pytest.fixture(scope="module")
def results(cluster, tmp_path_factory):
    """An ordinary experiment: a larger step is a smaller loss, except in one trial; one fails, three save nothing."""

    def ordinary(config):
        trial = config["trial"]
        for step in (1, 2, 3) if trial < 6 else (3,):
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "slope").write_text(repr(steep(trial, step)))
                saved = None if trial in NO_CHECKPOINT else tune.Checkpoint.from_directory(folder)
                values = {"loss": -steep(trial, step), "unsaved": 1.0 if trial in NO_CHECKPOINT else np.nan}
                tune.report(values, checkpoint=saved)
        if trial == FAILED:
            raise ValueError("it saved a checkpoint, and crashed")

    run = tune.RunConfig(name="nets", storage_path=str(tmp_path_factory.mktemp("results")), verbose=0)
    about = tune.TuneConfig(metric="loss", mode="min", reuse_actors=True, max_concurrent_trials=1)
    space = {"trial": tune.grid_search(list(range(TRIALS)))}
    return tune.Tuner(ordinary, param_space=space, tune_config=about, run_config=run).fit()


def chosen(folder, results, **about):
    about = {"load": load, "loss": "log_loss", "data": PEOPLE, "public": HELD_OUT, **about}
    about.setdefault("task_options", {"num_cpus": 2})  # one process: to start another one takes longer than the tasks
    if "ledger" not in about:
        about["ledger"] = open_ledger(folder, 4.0)
    return dptune_ray.choose(results, **about)


def test_checkpoints_are_chosen_like_models_that_an_objective_hands_over(results, tmp_path, caplog):
    """The best checkpoint of each trial counts; trials without one are left out, counted and named."""
    caplog.set_level(logging.INFO, "dptune_ray")
    assert results.num_errors == 1
    ledgers = {}
    for name in ("ray", "optuna"):
        (tmp_path / name).mkdir()
        ledgers[name] = dptune.LossPrivatizer(open_ledger(tmp_path / name, 4.0), n=N, noise=SeededNoise(3))
    about = {"default": {"trial": 5}, "name": "c"}
    mine = chosen(tmp_path, results, ledger=ledgers["ray"], load=lambda checkpoint, config: load(checkpoint), **about)
    assert "have no checkpoint and are not candidates. Plan: " in caplog.text
    assert "load finalists: " in caplog.text
    study, space = optuna.create_study(), {"trial": optuna.distributions.IntDistribution(0, TRIALS)}
    for trial in (each for each in range(TRIALS) if each not in (FAILED, *NO_CHECKPOINT)):
        value = -steep(trial, 1 if trial == BEST_IS_FIRST else 3)
        study.add_trial(optuna.trial.create_trial(params={"trial": trial}, distributions=space, value=value))

    def objective(trial):
        at = trial.suggest_int("trial", 0, TRIALS)
        model = Loaded(steep(at, 1 if at == BEST_IS_FIRST else 3))
        dptune_optuna.candidate(trial, model, held_out=HELD_OUT)

    about |= {"loss": "log_loss", "data": PEOPLE, "progress": False}
    theirs = dptune_optuna.choose(study, objective, ledger=ledgers["optuna"], **about)
    assert (mine.params, mine.selection) == (theirs.params, theirs.selection)
    assert mine.model.slope == theirs.model.slope
    assert mine.model.ballast.flags.writeable


def test_no_more_than_a_model_and_its_copy_are_in_memory(results, tmp_path):
    Loaded.alive.clear()  # models of other tests that are not collected yet
    Loaded.most = 0
    tracemalloc.start()
    try:
        chosen(tmp_path, results, load=lambda checkpoint: Loaded(slope_of(checkpoint), WEIGHT))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert Loaded.most == 2
    assert peak < 3 * WEIGHT


def test_averages_and_a_dry_run_need_no_training_either(results, tmp_path, caplog):
    caplog.set_level(logging.INFO, "dptune_ray")
    planned = chosen(tmp_path, results, averages=True, dry_run=True, data=None, n=N, name="a")
    assert f"Plan: {N} private people choose among" in str(planned)
    assert (planned.selection, planned.model, open_ledger(tmp_path, 4.0).spent()) == (None, None, 0)
    assert "trained again" not in caplog.text
    found = chosen(tmp_path, results, averages=True, name="a")
    assert "Averages: the public loss of the best one" in caplog.text
    assert found.selection.candidates > 60
    assert found.model.predict_proba(HELD_OUT[0]).shape == (ROWS, 2)


def test_training_in_place_of_loading_is_said(results, tmp_path, caplog):
    caplog.set_level(logging.INFO, "dptune_ray")
    with pytest.raises(dptune.InputError, match="2 of 2 configurations failed"):
        chosen(tmp_path, results, load=None, train=lambda config, X, y: 1 / 0, candidates=2)
    assert "60 of 63 trials have a checkpoint: with load= in place of train nothing trains" in caplog.text


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ({"train": load}, "needs either train"),
        ({"load": None}, "needs either train"),
        ({"load": 3}, "load must be a function of a checkpoint; got 3"),
        ({"load": lambda a, b, c: None}, "it takes 3 arguments"),
        ({"metric": "unsaved"}, r"no trial has a checkpoint: report it by tune\.report"),
        ({"public": None}, r"load needs public=\(X, y\), public rows on which no trial was trained"),
        ({"default": {"trial": NO_CHECKPOINT[0]}}, "no trial with a checkpoint has the configuration default="),
        ({"load": lambda checkpoint: 1 / 0}, "failed on public rows.*ZeroDivisionError"),
        ({"load": lambda checkpoint: Loaded(PEOPLE[0].sum())}, "can reach the private data"),
    ],
)
def test_mistakes_are_told_before_anything_is_charged(results, tmp_path, about, says):
    with pytest.raises(dptune.InputError, match=f"(?s){says}"):
        chosen(tmp_path, results, **about)
    assert open_ledger(tmp_path, 4.0).spent() == 0


def test_neighbours_leave_one_console_whatever_a_loaded_model_prints(results, tmp_path, capfd, caplog):
    """A person's row decides neither what is printed nor the states of global generators."""
    caplog.set_level(logging.INFO, "dptune_ray")
    X, y = PEOPLE[0].copy(), PEOPLE[1].copy()
    X[7], y[7] = [np.nan, 1e39, -1.0], 1 - y[7]
    told = []
    for name, data in (("a", PEOPLE), ("b", (X, y))):
        (tmp_path / name).mkdir()
        np.random.seed(5)
        caplog.clear()
        privatizer = dptune.LossPrivatizer(open_ledger(tmp_path / name, 4.0), n=N, noise=CannedNoise())
        talking = {"load": lambda checkpoint: Talking(slope_of(checkpoint)), "default": {"trial": 5}}
        choice = chosen(tmp_path, results, data=data, ledger=privatizer, name="c", **talking)
        console = [line for line in "".join(capfd.readouterr()).splitlines() if "pid=" not in line]  # the tasks' own
        told.append(
            (
                choice.summary(),
                [each for each in caplog.messages if "new ledger" not in each],
                console,
                np.random.normal(),
            )
        )
    assert told[0] == told[1]
    assert not any("asked" in line for line in told[0][2])
