"""Each refusal of the samplers and objectives in Optuna is read back, word by word."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import FixedTrial
from sklearn.dummy import DummyClassifier
from test_dpfts_sampler import alone, made
from test_public_study import PEOPLE, PUBLIC, chosen, logit, unseeded

import dptune
import dptune_optuna
from dptune.local import LaplaceReplies, LDPSettings, LocalRandomizer
from dptune.search.gp import RBF
from dptune.space import OTHER_SPACES
from dptune_optuna import CentredSampler, LDPMoMASampler, LocalObjective, POGPUCBSampler
from dptune_optuna.spaces import refuse_other_space
from harness import SPACE, N, begun, create, front, open_ledger, open_privatizer, people_s_losses, point, stored
from local_harness import at_x, open_sampler, paid, usual
from outsourced_tools import released

KINDS = {"k": CategoricalDistribution(["a", "b"]), "x": FloatDistribution(0.0, 1.0)}
MODEL = DummyClassifier()


def late(folder: Path) -> None:
    (folder / "net").touch()
    os.utime(folder / "net", (4e9, 4e9))
    dptune_optuna.candidate(FixedTrial({}), folder / "net", held_out=PUBLIC, load=str)


def run(kind: str, function: Any = people_s_losses, trials: int = 1, **about: Any) -> Callable[[Path], object]:
    """Optimise a study of this kind."""

    def optimised(folder: Path) -> object:
        _, study, objective = begun(kind, folder, function, about, n_trials=12)
        return study.optimize(objective, n_trials=trials)

    return optimised


def after(trials: int, use: Callable[..., object], function: Any = people_s_losses) -> Callable[[Path], object]:
    """Use a PrivateObjective and its study after so many trials."""

    def used(folder: Path) -> object:
        _, study, objective = begun("values", folder, function, n_trials=3)
        study.optimize(objective, n_trials=trials)
        return use(objective, study)

    return used


def undecorated(function: Any) -> Callable[[Path], object]:
    return lambda folder: begun("centred", folder)[1].optimize(function, n_trials=1)


def with_kernel(trial: Any) -> Any:
    trial.suggest_categorical("kernel", ["rbf"])
    return people_s_losses(trial)


def other_range(trial: Any) -> Any:
    trial.suggest_float("x", -1, 1)
    return trial.suggest_float("y", 1e-3, 9, log=True) * np.ones(N)


def other_sampler(folder: Path) -> None:
    _, objective = front("gibo", open_privatizer(folder))
    create(None, optuna.samplers.RandomSampler()).optimize(objective, n_trials=1)


def other_ledger(folder: Path) -> None:
    create(stored(folder), None).optimize(lambda trial: sum(point(trial)), n_trials=1)
    run_study = create(stored(folder), None)
    run_study.optimize(front("values", open_privatizer(folder))[1], n_trials=1)


class Tuner(optuna.Study):
    def __init__(self, sampler: Any) -> None:
        assert sampler


def two_randomizers(folder: Path) -> None:
    study = create(None, open_sampler("tpe"))
    for epsilon in (1.0, 2.0):
        objective = LocalObjective(lambda trial: at_x(trial, 0.5), LocalRandomizer(epsilon, 1.0, invalid=1.0))
        study.optimize(objective, n_trials=1)


def of_two(folder: Path) -> None:
    objective = LocalObjective(lambda trial: 0.5, usual())
    optuna.create_study(directions=["minimize", "maximize"]).optimize(objective, n_trials=1)


def of_table(folder: Path) -> None:
    sampler = POGPUCBSampler(released(np.eye(3), 0.3), RBF(1.0), noise_variance=0.5)
    optuna.create_study(sampler=sampler, direction="minimize").ask().suggest_int("row", 0, 2)


def of_agent(folder: Path) -> None:
    study = alone()
    study.sampler.join(study)
    study.sampler.join(create(None, study.sampler, "another"))


def sampler_of(space: Any) -> Callable[[Path], object]:
    return lambda folder: CentredSampler(open_privatizer(folder), space)


DECORATE = (
    "Decorate the function with @sampler.objective and give study.optimize what that returns. Delete this study if "
    "what it holds depends on private data. If everything that the function shows is public, make the sampler with "
    'unprotected="allow".'
)
ONE_DIRECTION = (
    'a private objective is a loss: create the study with direction="minimize" and one objective (for accuracy, '
    "minimise the zero-one loss). A study that is stored keeps its direction: give the new one another study_name, or "
    "delete the old one first with optuna.delete_study."
)
CASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a candidate without rows": (
        lambda folder: dptune_optuna.candidate(None, MODEL),
        "candidate(trial, model, ...) needs held_out=(X, y) or rows=(X, y), public rows.",
    ),
    "rows of two kinds": (
        lambda folder: dptune_optuna.candidate(None, MODEL, held_out=PUBLIC, rows=PUBLIC),
        "candidate(trial, model, ...) needs held_out=(X, y) or rows=(X, y), public rows.",
    ),
    "a path without its loader": (
        lambda folder: dptune_optuna.candidate(None, "net.pt", held_out=PUBLIC),
        "candidate(trial, path, ...) needs load=, the function that loads a model from a path.",
    ),
    "a path that would be trained": (
        lambda folder: dptune_optuna.candidate(None, "net.pt", rows=PUBLIC, load=str),
        "candidate(trial, path, load=...) needs held_out=(X, y): a loaded model is trained.",
    ),
    "a line after the training": (
        late,
        "candidate(trial, path, load=...) comes after the training, which has just written the checkpoint: choose "
        "would train again. Write this line before the training. Nothing was charged.",
    ),
    "no study": (
        lambda folder: dptune_optuna.choose(MODEL, logit, data=PEOPLE, loss="brier", ledger=open_ledger(folder)),
        "study must be an optuna.Study; got DummyClassifier. Nothing was charged.",
    ),
    "no training": (
        lambda folder: chosen(folder, train=None),
        "choose(study, train, ...) needs train: the study's objective, which calls dptune_optuna.candidate, a function "
        "train(trial, X, y) -> model, or an estimator such as SVC(). Nothing was charged.",
    ),
    "no trial": (
        lambda folder: chosen(folder, create(None, None)),
        "the study 'study' has no completed trial with a finite value: call study.optimize on public rows first. "
        "Nothing was charged.",
    ),
    "a training of two arguments": (
        lambda folder: chosen(folder, train=lambda trial, X: None),
        "train must take (trial, X, y), or be the study's objective; it takes 2.",
    ),
    "an objective and public rows": (
        lambda folder: chosen(folder, train=lambda trial: None),
        "an objective of one argument hands its public rows over itself, by dptune_optuna.candidate: leave public= "
        "out, or give a function train(trial, X, y).",
    ),
    "other rows in each trial": (
        lambda folder: chosen(folder, train=unseeded, public=None),
        "two candidates came with different public rows: candidates are compared on the same rows. Give "
        "train_test_split a random_state. Nothing was charged.",
    ),
    "an agent without settings": (
        lambda folder: made(settings=None),
        "DPFTSSampler needs settings: DPFTSSampler(transport, FTSSettings(...), space, agent=0).",
    ),
    "an agent of choices": (
        lambda folder: made(space=KINDS),
        "space must hold float and int parameters with more than one value, and no others.",
    ),
    "an agent of three parameters": (
        lambda folder: made(space={**SPACE, "z": FloatDistribution(0, 1)}),
        "the settings are for d=2 parameters; space has 3.",
    ),
    "an agent of two studies": (
        of_agent,
        "this sampler is agent 0 in the study 'study'; an agent has one study. Make another sampler with another agent "
        "number.",
    ),
    "no settings of replies": (
        lambda folder: LDPMoMASampler(None),
        "LDPMoMASampler needs settings: LDPMoMASampler(LDPSettings(HybridReplies(...)), space).",
    ),
    "points without a space": (
        lambda folder: LDPMoMASampler(LDPSettings(LaplaceReplies(1.0, B=0.8, R=0.2)), candidates=[{"x": 0.5}]),
        "candidates are points of a search space: give space= with them.",
    ),
    "no reply": (
        lambda folder: open_sampler(space=None).recommend(create(None, None)),
        "the study has no completed trial yet; there is nothing to recommend.",
    ),
    "a second randomiser": (
        two_randomizers,
        "the study 'study' was started with another randomiser; its attributes dptune:local:... have the settings. A "
        "study has one randomiser: give the same epsilon, bound and invalid, or begin a new study.",
    ),
    "a ledger of nobody": (
        lambda folder: LocalObjective(print, usual(), ledger=paid(folder)["ledger"]),
        "give ledger= and user= together: a ledger charges a user.",
    ),
    "replies of two values": (of_two, "a reply is one value: create the study with one direction."),
    "a table of another direction": (of_table, 'this table goes with direction="maximize"; the study has another.'),
    "a study that maximises": (
        lambda folder: create(None, None, direction="maximize").optimize(
            front("values", open_privatizer(folder))[1], n_trials=1
        ),
        ONE_DIRECTION,
    ),
    "a study of another sampler": (
        other_sampler,
        "the study's sampler, a RandomSampler, is not the DPGIBOSampler that decorated this objective. Load the study "
        "with sampler=sampler, without making the sampler again, or use PrivateObjective with other samplers.",
    ),
    "a trial that is over": (
        after(1, lambda objective, study: objective(study.trials[0])),
        "a private objective is called by study.optimize with a Trial; got FrozenTrial. For one more look at chosen "
        "parameters use estimate(study, parameters).",
    ),
    "an estimate at a trial": (
        after(3, lambda objective, study: objective.estimate(study, study.trials[0])),
        "parameters map names to values, as recommend(study) does; got FrozenTrial. See .params.",
    ),
    "an estimate at a part": (
        after(3, lambda objective, study: objective.estimate(study, {"x": 0.5, "y": 1.0}), with_kernel),
        "The value of the parameter 'kernel' is not found. Please set it at the construction of the FixedTrial object. "
        "Add what the run did not search: estimate(study, {**recommend(study), name: value}); in default= name every "
        "parameter that the function suggests.",
    ),
    "a study that nobody paid": (
        other_ledger,
        "the study 'study' has completed trials, but the ledger has no run of that name: another ledger paid for them, "
        "or none did. Nothing was trained or spent. Open the ledger that paid (a path like 'ledger.db' depends on the "
        "working directory), or give a new study a new name. If the values are public and belong to this search, make "
        'the sampler with unprotected="allow".',
    ),
    "the trials of no space": (
        lambda folder: sampler_of(None)(folder).n_trials,
        "the sampler has no space yet, on which n_trials depends. Call study.optimize(objective) without n_trials: the "
        "study stops when its plan is complete. Or give the sampler its space.",
    ),
    "an answer of no trial": (
        lambda folder: (sampler := sampler_of(None)(folder)).recommend(create(None, sampler)),
        "the study has no finished trial yet; there is nothing to recommend.",
    ),
    "a value from elsewhere": (
        undecorated(lambda trial: 0.5),
        "trial 0 has a value that did not come from an objective decorated with @sampler.objective. The value was "
        f"stored and logged as inf instead; what the function reported or printed is as it was. {DECORATE}",
    ),
    "an error from elsewhere": (
        undecorated(lambda trial: 1 / 0),
        "trial 0 failed, and its function was not decorated with @sampler.objective. What it raised is in Optuna's log "
        f"as it was; a vector that it returned is not. {DECORATE}",
    ),
    "a study that replaces samplers": (
        lambda folder: Tuner(sampler_of(SPACE)(folder)),
        "a Tuner of test_words_of_refusals was about to replace this study's CentredSampler and to store losses "
        "without noise, as LightGBMTuner does. Nothing was trained or stored. Give the tuner a study of its own and "
        "public rows only, or decorate a function that trains LightGBM with @sampler.objective.",
    ),
    "a report": (
        run("centred", lambda trial: trial.report(0.5, 1)),
        "trial.report is refused inside a private objective: Optuna would store what it is given. Return what you "
        "measured; only a noisy answer is reported. To prune by a quantity of public rows say what it is, public="
        '"...", where the objective is made, and call trial.report_public(value, step).',
    ),
    "choices that a storage changes": (
        lambda folder: create(stored(folder), None).optimize(
            front(
                "values", open_privatizer(folder), lambda trial: trial.suggest_categorical("z", [None, True, (1, 2)])
            )[1],
            n_trials=1,
        ),
        "the choices of 'z' have a tuple of length 2: a stored study gives it back as something else and could not be "
        """resumed. Choose among names, such as sizes[trial.suggest_categorical('z', ["small", "large"])], or create """
        "the study without storage=.",
    ),
    "a space that is a list": (
        sampler_of([0.1, 10]),
        'a space maps names to distributions, {"C": FloatDistribution(0.1, 10)}; got list.',
    ),
    "a range that is a pair": (
        sampler_of({"b": (0.0, 1.0)}),
        "the space's 'b' must be an Optuna distribution; got a tuple of length 2.",
    ),
    "a space with choices": (sampler_of(KINDS), f"space= has the categories 'k'. {OTHER_SPACES}"),
    "a space of one point": (
        sampler_of({"z": FloatDistribution(1.0, 1.0)}),
        f"space has no float or int parameter with more than one value to search. {OTHER_SPACES}",
    ),
    "a parameter that is missing": (
        lambda folder: refuse_other_space(dptune.Space({"a": dptune.Float(0, 1)}), {}, kept="Kept."),
        "the search space has the parameter 'a', FloatDistribution(high=1.0, log=False, low=0.0, step=None), but the "
        "function did not suggest it; it suggested nothing. Correct the name in the function, or leave the parameter "
        "out of space=: then it is drawn independently whenever it is suggested. Nothing was released of this trial. "
        "Kept.",
    ),
    "a parameter of another range": (
        run("gibo", other_range),
        "the search space has the parameter 'y' as FloatDistribution(high=10.0, log=True, low=0.001, step=None), but "
        "the function suggested it as FloatDistribution(high=9.0, log=True, low=0.001, step=None). Suggest it with "
        "that type, range, log and step. Nothing was released of this trial. A run keeps its space and its plan: with "
        "another space= give the study a new name, and mu=.",
    ),
}


@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution")
@pytest.mark.parametrize("case", CASES)
def test_a_refusal_in_optuna_says_what_to_do(case: str, tmp_path: Path) -> None:
    call, message = CASES[case]
    with pytest.raises((dptune.DptuneError, ValueError)) as told:
        call(tmp_path)
    assert str(told.value) == message
