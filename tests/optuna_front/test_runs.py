"""What holds for every private run in Optuna: its space, its privatizer, its name, the ledger's other runs."""

from __future__ import annotations

import contextlib
import shutil

import numpy as np
import optuna
import pytest
from optuna.distributions import IntDistribution
from optuna.samplers import RandomSampler
from optuna.trial import TrialState
from sklearn.linear_model import Ridge

import dptune
from dptune.search.algorithms.centred_plan import plan_centred
from dptune_optuna import CentredSampler, DPGIBOSampler, LDPTGPSampler, PrivateObjective, PrivateSampler
from harness import (
    FRONTS,
    OPEN,
    SPACE,
    N,
    create,
    front,
    losses_at,
    open_ledger,
    open_privatizer,
    people,
    people_s_losses,
    point,
    ran,
    stored,
)

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
BOTH = pytest.mark.parametrize("kind", OPEN)
ALL = pytest.mark.parametrize("kind", FRONTS)


# ---- the search space and the function ------------------------------------------------------------------


def suggest(name="y", low=1e-3, high=1e1, **options):
    """A function that suggests its second parameter like this."""

    def losses(trial):
        x, y = trial.suggest_float("x", -1, 1), trial.suggest_float(name, low, high, **options)
        return losses_at(people(), x, y)

    return losses


@BOTH
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (suggest("yy", log=True), r"'y', FloatDistribution.*did not suggest it.*'x', 'yy'"),
        (suggest(high=1.0, log=True), r"'y' as FloatDistribution.high=10.0.*as FloatDistribution.high=1.0"),
        (suggest(), "different log"),  # Optuna's own refusal
    ],
    ids=["name", "range", "log"],
)
def test_a_function_that_does_not_suggest_the_space_is_refused_and_costs_nothing(tmp_path, kind, function, message):
    sampler, objective = front(kind, open_privatizer(tmp_path), function)
    study = create(None, sampler)
    with pytest.raises((dptune.InputError, ValueError), match=message):
        study.optimize(objective, n_trials=24)
    assert len(study.trials) == 1
    assert open_ledger(tmp_path).charges() == []


@BOTH
def test_a_function_that_failed_before_it_had_suggested_everything_is_no_mistake(tmp_path, kind):
    def losses(trial):
        if trial.number == 0:
            return people_s_losses(trial)
        trial.suggest_float("x", -1, 1)
        raise ValueError

    sampler, objective = front(kind, open_privatizer(tmp_path), losses)
    study = create(None, sampler)
    study.optimize(objective, n_trials=3)
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 3


def test_without_a_space_a_parameter_that_comes_and_goes_is_warned_of_once(tmp_path):
    sampler = DPGIBOSampler(open_privatizer(tmp_path), n_trials=24, seed=0)
    study = create(None, sampler)

    @sampler.objective
    def losses(trial):
        if trial.number == 0:
            trial.suggest_int("only_first", 1, 3)
        return people_s_losses(trial)

    with pytest.warns(UserWarning, match=r"trial 1 did not suggest all that .*'only_first'.*space=") as told:
        study.optimize(losses, n_trials=5)
    assert len(told) == 1
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * 5


@pytest.mark.parametrize("kind", [DPGIBOSampler, CentredSampler])
def test_without_a_space_another_range_than_that_of_the_run_is_warned_of_once(tmp_path, kind):
    def run(trials, **other):
        sampler = kind(open_privatizer(tmp_path), n_trials=12, seed=0)
        create(stored(tmp_path), sampler).optimize(sampler.objective(suggest(log=True, **other)), n_trials=trials)

    run(3)
    with pytest.warns(UserWarning, match=r"'y' as FloatDistribution.high=1.0,.* not as .*=10.0.*a new name") as told:
        run(3, high=1.0)
    assert len(told) == 1
    run(2)  # the one that it began with


@ALL
def test_a_study_keeps_its_loss(tmp_path, kind):
    X, answers = np.zeros((N, 1)), np.linspace(0.0, 1.0, N)
    rows = np.ones((3, 1)), np.arange(3.0)

    def fitted(trial):
        return Ridge(alpha=point(trial)[1]).fit(*rows)

    def run(function, n_trials=2, **about):
        sampler, objective = front(kind, open_privatizer(tmp_path), function, about=about, n_trials=12)
        study = create(stored(tmp_path), sampler)
        study.optimize(objective, n_trials=n_trials)
        return objective.run_of(study)

    data = {"data": (X, answers)}
    with pytest.raises(dptune.DptuneError, match="predict_proba"):
        run(fitted, loss="brier", **data)  # of which nothing comes: it may be corrected under the same name
    run(fitted, loss="squared_error", **data)
    spent, fits = open_ledger(tmp_path).spent(), []
    with pytest.raises(dptune.errors.BudgetMismatch, match=r"minimises squared_error.*absolute_error.*another"):
        run(lambda trial: fits.append(1) or fitted(trial), loss="absolute_error", **data)
    assert (open_ledger(tmp_path).spent(), fits) == (spent, [])
    run(people_s_losses)  # nobody knows which loss that is
    run(fitted, loss="squared_error", **data)


@pytest.mark.parametrize("kind", [DPGIBOSampler, CentredSampler, LDPTGPSampler])
@pytest.mark.parametrize(
    ("space", "says"),
    [(["x"], "got list"), ({**SPACE, "b": (0.0, 1.0)}, r"'b'.*Optuna distribution.*got \(0.0, 1.0\)")],
)
def test_what_is_no_space_is_refused_by_name(tmp_path, kind, space, says):
    settings = dptune.local.LDPSettings(dptune.local.LaplaceReplies(1.0, B=0.8, R=0.2))
    with pytest.raises(dptune.InputError, match=says):
        kind(settings if kind is LDPTGPSampler else open_privatizer(tmp_path), space)


def test_an_int_of_the_space_is_an_int_of_the_function(tmp_path):
    sampler = CentredSampler(open_privatizer(tmp_path), {"i": IntDistribution(1, 7, step=3)}, n_trials=12, seed=0)
    study = create(None, sampler)
    objective = sampler.objective(lambda trial: np.full(N, trial.suggest_int("i", 1, 7, step=3) / 9))
    study.optimize(objective, n_trials=3)
    assert all(t.state == TrialState.COMPLETE for t in study.trials)


# ---- one privatizer a run -------------------------------------------------------------------------------


@ALL
def test_a_study_keeps_its_privatizer(tmp_path, kind):
    def run(high):
        sampler, objective = front(kind, open_privatizer(tmp_path, clip=(0.0, high)), n_trials=9)
        create(stored(tmp_path), sampler).optimize(objective, n_trials=2)

    run(4.0)
    spent = open_ledger(tmp_path).spent()
    with pytest.raises(dptune.errors.BudgetMismatch, match=r"another privatizer .other clip"):
        run(40.0)
    assert open_ledger(tmp_path).spent() == spent
    run(4.0)


# ---- names ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("swallows", [False, True])
def test_a_study_begun_again_without_its_storage_is_refused_before_a_model_is_trained(tmp_path, swallows):
    trained = []

    def losses(trial):
        with contextlib.suppress(Exception) if swallows else contextlib.nullcontext():
            trial.suggest_float("x", -1, 1)
        trained.append(trial.params)
        return np.zeros(N)

    for seed in (0, 0, 1):
        objective = PrivateObjective(losses, open_privatizer(tmp_path), n_trials=9)
        study = create(None, RandomSampler(seed=seed))
        if seed:
            with pytest.raises(dptune.errors.KeyConflict, match=r"storage=.*new name"):
                study.optimize(objective, n_trials=2)
        else:  # the same points again are answered from the ledger
            study.optimize(objective, n_trials=2)
    assert len(trained) == 4 + swallows
    assert len(open_ledger(tmp_path).charges()) == 2


def test_a_second_estimate_elsewhere_is_refused_before_a_model_is_trained(tmp_path):
    trained = []
    objective = PrivateObjective(
        lambda trial: trained.append(1) or np.full(N, trial.suggest_float("x", -1, 1)),
        open_privatizer(tmp_path),
        n_trials=2,
    )
    study = create(None, RandomSampler(seed=0))
    study.optimize(objective, n_trials=2)
    estimate = objective.estimate(study, {"x": 0.3})
    trained.clear()
    with pytest.raises(dptune.errors.KeyConflict, match=r"one final estimate, at \{'x': 0.3\}"):
        objective.estimate(study, {"x": 0.31})
    assert trained == []
    assert objective.estimate(study, {"x": 0.3}) == estimate


@pytest.mark.parametrize("given", [3, None, "x", SPACE.keys()], ids=type)
def test_an_estimate_needs_parameters_by_name(tmp_path, given):
    sampler, study, _ = ran("centred", tmp_path, 1)
    for wrong in (given, study.best_trial):
        with pytest.raises(dptune.InputError, match=r"map names to values.*got (int|None|str|dict_keys|FrozenTrial)"):
            sampler.objective(lambda trial: pytest.fail("trained")).estimate(study, wrong)
    assert open_ledger(tmp_path).count() == 0


@BOTH
def test_a_study_that_is_run_again_under_another_name_takes_nothing_from_the_first(tmp_path, kind):
    sampler, study, objective = ran(kind, tmp_path, storage=stored(tmp_path))
    again, calls = OPEN[kind](open_privatizer(tmp_path)), []
    for other in (optuna.create_study(sampler=again), create(None, again, "copy")):
        with pytest.raises(dptune.errors.BudgetPlanned, match=r"'study'.*storage=.*mu=.*a new ledger .* adds to what"):
            other.optimize(again.objective(calls.append), n_trials=again.n_trials)
    without = type(again)(open_privatizer(tmp_path), n_trials=24)
    with pytest.raises(dptune.errors.BudgetPlanned):
        optuna.create_study(sampler=without).optimize(without.objective(calls.append), n_trials=3)
    assert calls == []
    objective.estimate(study, sampler.recommend(study))
    assert SPACE.keys() == sampler.recommend(study).keys()


# ---- the ledger of a study ------------------------------------------------------------------------------


def ways(kind):
    """How to continue the study of one folder with the ledger of another."""

    def run(storage, ledger, calls=None):
        def losses(trial):
            if calls is not None:
                calls.append(trial.number)
            return people_s_losses(trial)

        privatizer = dptune.LossPrivatizer(ledger, n=N, clip=(0.0, 4.0))
        if kind == "values":
            sampler, objective = front(kind, privatizer, losses)
        else:
            sampler = DPGIBOSampler(privatizer, None if kind == "no space" else SPACE, n_trials=24, seed=1)
            objective = sampler.objective(losses)
        study = create(storage, sampler)
        study.optimize(objective, n_trials=3)
        return study

    return run


WAYS = pytest.mark.parametrize("kind", ["values", "space", "no space"])


@WAYS
@pytest.mark.parametrize("other", ["another", "older"])
def test_a_study_refuses_a_ledger_that_did_not_pay_for_it_before_training(fast_path, kind, other):
    run, storage = ways(kind), stored(fast_path)
    study = run(storage, open_ledger(fast_path))
    mark = study.user_attrs["dptune:ledger"]
    assert mark["seq"] >= 3
    elsewhere = fast_path / "elsewhere"
    elsewhere.mkdir()
    if other == "older":
        shutil.copy(fast_path / "ledger.db", elsewhere)
        run(storage, open_ledger(fast_path))
    calls = []
    with pytest.raises(
        dptune.LedgerError, match="Restore the newest file" if other == "older" else "ledger of the study"
    ):
        run(storage, open_ledger(elsewhere), calls)
    assert calls == []
    run(storage, open_ledger(fast_path), calls)  # with its own it goes on
    assert len(calls) == 3


@WAYS
def test_a_study_whose_completed_trials_nobody_paid_for_is_refused_before_training(fast_path, kind):
    storage, calls = stored(fast_path), []
    create(storage, RandomSampler(seed=0)).optimize(lambda trial: sum(point(trial)), n_trials=1)
    with pytest.raises(dptune.LedgerError, match=r"has no run of that name.*new name.*unprotected"):
        ways(kind)(storage, open_ledger(fast_path), calls)
    assert calls == []
    assert open_ledger(fast_path).count() == 0


OWN = dptune.search.Method("my search", plan_centred, dptune.search.CentredCMA, shared_slots=True)


def test_a_sampler_takes_any_method(fast_path):
    sampler = PrivateSampler(open_privatizer(fast_path), SPACE, method=OWN, n_trials=12, seed=1)
    study = create(None, sampler)
    study.optimize(sampler.objective(people_s_losses), n_trials=sampler.n_trials)
    assert sampler.run_of(study).complete
    with pytest.raises(dptune.InputError, match="PrivateSampler has no option 'sigmaa'"):
        PrivateSampler(open_privatizer(fast_path), SPACE, method=OWN, sigmaa=1)


@pytest.mark.parametrize("method", [None, "centred", 3])
def test_a_sampler_without_a_method_of_its_own_needs_one(fast_path, method):
    with pytest.raises(dptune.InputError, match="PrivateSampler needs method="):
        PrivateSampler(open_privatizer(fast_path), SPACE, method=method)


def test_a_sampler_with_a_method_of_its_own_takes_no_other(fast_path):
    with pytest.raises(dptune.InputError, match="CentredSampler has a method of its own"):
        CentredSampler(open_privatizer(fast_path), SPACE, method=OWN)
