"""Trials, logs, notes and defaults in Optuna are what the functions were given, each name and number in its place."""

import inspect
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.trial import FixedTrial, TrialState, create_trial
from test_dpfts_sampler import SETTINGS as FEDERATED
from test_dpfts_sampler import Silent, made
from test_ldp_samplers import SETTINGS as REPLIES
from test_public_study import CS, chosen, logit, study_of

import dptune
import dptune_optuna
from dptune.local import InsecureRandomizer
from dptune.privacy.noise import SeededNoise
from dptune_optuna import LocalObjective
from dptune_optuna.candidates import _QUIET
from dptune_optuna.choice import CHOICE, choices_of
from dptune_optuna.ending import Ending
from dptune_optuna.federated import _larger_is_better
from dptune_optuna.local import _Replies
from dptune_optuna.shield import ShieldedTrial, _refuse_unstorable
from harness import N, begun, create, front, open_privatizer, people_s_losses, point, stored
from local_harness import at_x


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return level and text of each line that dptune has logged in Optuna."""
    return [(each.levelname, each.getMessage()) for each in caplog.records if each.name == "optuna.dptune"]


def test_defaults_are_those_of_the_pages() -> None:
    wanted = {
        "choose": {"cv": 5, "candidates": 200, "public_weight": 1.0, "progress": True, "averages": False},
        "PrivateObjective": {"final_share": 0.05, "n_trials": None, "mu": None},
        "CentredSampler": {"unprotected": "refuse", "warn_independent_sampling": True},
        "LDPTGPSampler": {"count": 128, "patience": 1000, "centre": None},
        "DPFTSSampler": {"seed": None, "warn_independent_sampling": True},
        "repeat_and_select": {"secure": True, "candidates": None, "odds": None},
    }
    for name, defaults in wanted.items():
        parameters = inspect.signature(getattr(dptune_optuna, name)).parameters
        assert {each: parameters[each].default for each in defaults} == defaults, name


# ---- what a training sees of its trial and study ----------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_training_sees_its_trial_and_study_in_a_worker_too(tmp_path: Path, n_jobs: int) -> None:
    study, seen, verbosity = study_of(storage=stored(tmp_path)), {}, optuna.logging.get_verbosity()
    study.set_user_attr("site", "north")

    def train(trial: Any, X: Any, y: Any, extra: int = 7) -> Any:
        seen[trial.params["C"]] = trial.number, trial.study.study_name, trial.study.user_attrs["site"], extra
        return logit(trial, X, y)

    with joblib.parallel_config("threading"):
        chosen(tmp_path, study, train, n_jobs=n_jobs, default={"C": 1e-4 / 2})
    assert seen == {C: (number, "logit", "north", 7) for number, C in enumerate([*CS, 1e-4 / 2])}
    assert optuna.logging.get_verbosity() == verbosity


def test_workers_leave_the_verbosity_of_the_process_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that restores it may restore what another one has set. So may another thread that chooses."""
    usual, threads, free = optuna.create_study, [], []

    def create_study(**settings: Any) -> optuna.Study:
        threads.append(threading.current_thread())
        with ThreadPoolExecutor(1) as another:
            free.append(another.submit(_QUIET._lock.acquire, blocking=False).result())
        return usual(**settings)

    study = study_of(storage=stored(tmp_path))
    monkeypatch.setattr(optuna, "create_study", create_study)
    with joblib.parallel_config("threading"):
        chosen(tmp_path, study, n_jobs=2)
    assert set(threads) == {threading.main_thread()}
    assert not any(free)


def test_progress_says_what_is_trained(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    chosen(tmp_path, progress=True, finalists=3)
    bars = [line.split("|") for line in capfd.readouterr().err.replace("\r", "\n").splitlines() if "100%" in line]
    ends = {bar[0].partition(":")[0].strip(): bar[-1].split()[0] for bar in bars}
    assert ends == {"cross-validate on public rows": "7/7", "train finalists on all public rows": "3/3"}


def test_suggestions_keep_step_and_logarithm() -> None:
    study = create(None, optuna.samplers.RandomSampler(seed=0))
    trial = ShieldedTrial(study.ask())
    trial.suggest_float("a", 0.0, 9.0, step=1.5)
    trial.suggest_float("b", 0.5, 9.0, log=True)
    trial.suggest_int("c", 2, 14, step=4)
    trial.suggest_int("d", 3, 40, log=True)
    assert study.trials[0].distributions == {
        "a": FloatDistribution(0.0, 9.0, step=1.5),
        "b": FloatDistribution(0.5, 9.0, log=True),
        "c": IntDistribution(2, 14, step=4),
        "d": IntDistribution(3, 40, log=True),
    }
    assert (trial.number, trial.params, trial.datetime_start) == (
        0,
        study.trials[0].params,
        study.trials[0].datetime_start,
    )


def test_a_storage_keeps_names_numbers_and_none(tmp_path: Path) -> None:
    trial = create(stored(tmp_path), None).ask()
    _refuse_unstorable(trial, "k", ["a", 1, 0.5, True, None])
    _refuse_unstorable(FixedTrial({}), "k", [(1, 2)])
    with pytest.raises(dptune.InputError, match="a list of length 2"):
        _refuse_unstorable(trial, "k", ["a", [1, 2]])


# ---- what a study says -------------------------------------------------------------------------------------


def test_of_a_choice_the_plan_is_information_and_no_warning(tmp_path: Path, caplog: Any) -> None:
    caplog.set_level("INFO", "optuna.dptune")
    study = study_of()
    for state in (TrialState.WAITING, TrialState.WAITING, TrialState.RUNNING):
        about = {"params": {"C": 0.7}, "distributions": study.trials[0].distributions}
        study.add_trial(create_trial(state=state, **({} if state == TrialState.WAITING else about)))
    chosen(tmp_path, study)
    lines = [(level, text) for level, text in said(caplog) if "Plan" in text]
    assert [level for level, _ in lines] == ["INFO"]
    assert lines[0][1].startswith("Of 9 trials 3 did not end and are not candidates. Plan: ")


def test_the_newest_choice_of_a_study_comes_first() -> None:
    study = study_of()
    for day in ("2026-01-31", "2026-03-01", "2025-12-24"):
        study.set_user_attr(f"{CHOICE}{day}/abc/c", {"charged": day})
    assert [kept["charged"] for kept in choices_of(study).values()] == ["2026-03-01", "2026-01-31", "2025-12-24"]


def test_failures_in_a_row_end_a_study_at_the_twentieth(caplog: Any) -> None:
    study, ending = create(None, None), Ending()

    def fails(trial: optuna.Trial) -> float:
        with ending.watch(study):
            if trial.number in (5, 6):
                raise optuna.TrialPruned
            if trial.number == 9:
                return 0.0
            raise KeyError("row 7")

    study.optimize(fails, n_trials=40, catch=KeyError)
    assert len(study.trials) == 30  # twenty after the one that succeeded
    assert said(caplog) == [
        (
            "WARNING",
            "The study ends here: 20 trials in a row failed, the last with KeyError. Correct the function and call "
            "study.optimize again.",
        )
    ]
    pruned = create(None, None)

    def prunes(trial: optuna.Trial) -> float:
        with Ending().watch(pruned), ending.watch(pruned):
            raise optuna.TrialPruned

    pruned.optimize(prunes, n_trials=25)
    assert len(pruned.trials) == 25


def test_the_note_and_facts_of_a_seeded_study(tmp_path: Path, caplog: Any) -> None:
    about = {"loss": "zero_one", "data": (np.zeros((N, 1)), np.arange(N) % 2)}

    class Model:
        classes_, n_features_in_ = np.array([0, 1]), 1

        def predict(self, X: Any) -> Any:
            return np.zeros(len(X), dtype=int)

    def model(trial: Any) -> Any:
        if point(trial) and trial.number == 1:
            raise ValueError("public")
        return Model()

    _, objective = front("values", open_privatizer(tmp_path, noise=SeededNoise(3)), model, about, n_trials=4)
    study = create(None, optuna.samplers.RandomSampler(seed=0))
    versions = []
    for _ in range(4):
        study.optimize(objective, n_trials=1, catch=ValueError)
        versions.append(study._storage.get_study_system_attrs(study._study_id)["dashboard:note_ver"])
    assert versions == [1, 1, 2, 3]  # a failed trial writes nothing
    assert study.user_attrs["dptune:loss"] == "zero_one_loss"
    assert study.user_attrs["dptune:value_is"] == "mean zero_one_loss, noisy"
    note = study._storage.get_study_system_attrs(study._study_id)["dashboard:note_str:0"].split("\n\n")
    assert note[0] == "## Private search: values — NOT PRIVATE, its noise is seeded"
    assert note[2] == (
        "**A trial's value** is the mean zero_one_loss, noisy; `inf` as long as nothing is released about it. "
        "`dptune:sigma` is the standard deviation of its noise. The smallest value is small mostly by its noise: it is "
        "not the recommendation."
    )
    assert note[3] == "**Trials** 4 planned, 0 failed in the process that wrote this"
    assert note[4].startswith("**Recommended** so far: `recommend(study)` computes it from all released values, with ")
    assert all(level == "WARNING" for level, _ in said(caplog))


def test_a_centred_note_waits_for_a_release_and_counts_failures(tmp_path: Path) -> None:
    def losses(trial: Any) -> Any:
        return people_s_losses(trial) if trial.number != 1 else point(trial) and 1 / 0

    sampler, study, objective = begun("centred", tmp_path, losses, n_trials=12)
    notes = []
    for _ in range(sampler.n_trials):
        study.optimize(objective, n_trials=1)
        notes.append(study._storage.get_study_system_attrs(study._study_id)["dashboard:note_str:0"].split("\n\n"))
    assert notes[0][4] == "**Recommended** when something is released that says where to look"
    assert [f"{count} failed" in note[3] for count, note in zip([0, *[1] * 11], notes, strict=True)] == [True] * 12
    starts = {"so far: x = `" in note[4] for note in notes[8:-1]}
    assert starts == {True}
    assert notes[-1][4].startswith("**Recommended** x = `")


def local_sampler(kind: Any) -> Any:
    return lambda privatizer, **about: kind(REPLIES, {"x": X}, **about)


X = FloatDistribution(-1.0, 1.0)
SAMPLERS = {
    "tgp": local_sampler(dptune_optuna.LDPTGPSampler),
    "ata": local_sampler(dptune_optuna.LDPATASampler),
    "moma": local_sampler(dptune_optuna.LDPMoMASampler),
    "federated": lambda privatizer, **about: dptune_optuna.DPFTSSampler(
        Silent(), FEDERATED, {"x": X, "y": X}, agent=0, **about
    ),
    "centred": lambda privatizer, **about: dptune_optuna.CentredSampler(privatizer, {"x": X}, n_trials=12, **about),
    "gibo": lambda privatizer, **about: dptune_optuna.DPGIBOSampler(privatizer, {"x": X}, n_trials=20, mu=0.5, **about),
}


@pytest.mark.parametrize("kind", SAMPLERS)
def test_every_sampler_draws_other_parameters_as_it_was_told(tmp_path: Path, caplog: Any, kind: str) -> None:
    """With the seed that was given, and with a warning or without."""
    drawn = {}
    for seed, warn in ((1, True), (1, False), (2, False)):
        caplog.clear()
        (at := tmp_path / f"{seed} {warn}").mkdir()
        sampler = SAMPLERS[kind](open_privatizer(at), seed=seed, warn_independent_sampling=warn)
        study = create(None, sampler)
        study.ask({"x": X})
        drawn[seed, warn] = sampler.sample_independent(study, study.trials[0], "kernel", X)
        assert ["'kernel'" in text for text in caplog.messages].count(True) == warn
    assert drawn[1, True] == drawn[1, False] != drawn[2, False]


# ---- what a run does with its trials -----------------------------------------------------------------------


def test_the_answer_has_the_other_parameters_of_the_nearest_trial(tmp_path: Path) -> None:
    sampler = dptune_optuna.CentredSampler(
        open_privatizer(tmp_path), {"x": FloatDistribution(-1.0, 1.0)}, n_trials=12, warn_independent_sampling=False
    )
    study = create(None, sampler)

    @sampler.objective
    def losses(trial: Any) -> Any:
        trial.suggest_int("place", 0, 10**9)
        return np.full(N, trial.suggest_float("x", -1.0, 1.0) ** 2)

    study.optimize(losses)
    best = sampler.recommend(study)
    nearest = min(study.trials, key=lambda trial: abs(trial.params["x"] - best["x"]))
    assert best["place"] == nearest.params["place"]


@pytest.mark.parametrize("kind", ["values", "centred"])
def test_an_incomplete_answer_says_how_to_continue(tmp_path: Path, kind: str) -> None:
    sampler, study, objective = begun(kind, tmp_path, n_trials=12)
    study.optimize(objective, n_trials=8)
    best = (objective if kind == "values" else sampler).recommend(study)
    how = "To continue, call study.optimize(objective) without n_trials: the study stops when its plan is complete."
    assert how in best.summary()


def test_an_early_estimate_is_the_end_of_a_study(tmp_path: Path, caplog: Any) -> None:
    _, study, objective = begun("values", tmp_path, n_trials=12)
    study.optimize(objective, n_trials=3)
    with pytest.raises(dptune.InputError):
        objective.estimate(study, {"x": 0.0, "y": 1.0})
    objective.estimate(study, {"x": 0.0, "y": 1.0}, early=True)
    assert not objective._runs._ends[study].alive
    assert objective.__name__ == "people_s_losses"


def test_a_try_out_is_logged_and_an_objective_keeps_its_name(tmp_path: Path, caplog: Any) -> None:
    caplog.set_level("INFO", "optuna.dptune")
    _, _, objective = begun("gibo", tmp_path)
    objective.try_out({"x": 0.1, "y": 1.0})
    assert said(caplog) == [
        (
            "INFO",
            f"try_out: the function returned one loss for each of the {N} rows. Nothing was released, stored or spent.",
        )
    ]


def test_a_study_of_an_insecure_randomiser_is_warned_of_once(caplog: Any) -> None:
    def measured(trial: optuna.Trial) -> float:
        return at_x(trial, 0.5)

    randomizer = InsecureRandomizer(1.0, 1.0, invalid=1.0, insecure_seed=0)
    objective = LocalObjective(measured, randomizer)
    create(None, None).optimize(objective, n_trials=3)
    assert said(caplog) == [("WARNING", f"The study 'study' is NOT PRIVATE: {randomizer!r}.")]
    assert objective.__name__ == "measured"


def test_a_running_trial_counts_until_later_ones_are_its_patience() -> None:
    study = create(None, None)
    trials = [study.ask() for _ in range(6)]
    for trial in trials:
        trial.suggest_float("x", 0, 1)
    replies = _Replies(lambda space: None, None, ())
    replies._next, replies._unfinished = 6, {trial.number: trial for trial in study.trials}
    for patience in range(7):
        assert replies.pending(patience) == [trial.params for trial in study.trials[6 - patience :]]


def test_agents_learn_larger_values_whatever_the_direction() -> None:
    studies = {way: optuna.create_study(direction=way) for way in ("maximize", "minimize")}
    assert {way: _larger_is_better(study, [3.0]) for way, study in studies.items()} == {
        "maximize": 3.0,
        "minimize": -3.0,
    }
    for odd in (math.inf, -math.inf, math.nan, 1e100, -1e308, 10**400):
        assert _larger_is_better(studies["minimize"], [odd]) is None
    for number in (np.float32(3.0), np.float16(3.0), np.int64(3), 3):  # as Ray Tune passes on what a trial reports
        assert _larger_is_better(studies["minimize"], [number]) == -3.0
    assert _larger_is_better(studies["minimize"], None) is None


def test_reseeding_moves_the_draws_of_other_parameters() -> None:
    def drawn(again: bool) -> float:
        sampler = made()  # seed 1
        study = create(None, sampler)
        if again:
            sampler.reseed_rng()
        return sampler.sample_independent(study, create_trial(state=TrialState.RUNNING), "z", FloatDistribution(0, 1))

    assert drawn(False) == drawn(False) != drawn(True)
