"""A ledger of planned trainings, and one statement for several ledgers."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import optuna
import pytest

from cli_tools import invoke
from dptune import Budget, InputError, LossPrivatizer, PrivacyLedger
from dptune.errors import BudgetMismatch
from dptune.ledger import PlanLedger
from dptune.ledger import SubsampledGaussian as Rounds
from dptune.ledger.budget_ledger import REPLACE_ONE
from dptune.ledger.dominating import Gaussian
from dptune.ledger.events import GaussianRelease
from dptune.ledger.gdp import epsilon_from_mu
from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan, join
from dptune.training.ledger import REMOVE_ONE
from dptune.training.profiles import epsilon_of, removal_mu
from dptune_optuna import PrivateObjective
from training_tools import ONE

PLAN = TrainingPlan(noise_multiplier=2.0, sample_rate=0.1, steps=20, trainings=3)
DELTA = 1e-5


@pytest.fixture
def train(fast_path: Path) -> TrainingLedger:
    return TrainingLedger(fast_path / "train.db", PLAN, n=900)


@pytest.fixture
def val(fast_path: Path) -> PrivacyLedger:
    ledger = PrivacyLedger(fast_path / "val.db", Budget.gdp(0.5))
    ledger.bind_people(300)
    return ledger


def test_the_statement_is_of_the_whole_plan_from_the_start(train: TrainingLedger) -> None:
    before = train.statement(delta=DELTA)
    assert before.epsilon == epsilon_of([PLAN], DELTA)
    assert (before.adjacency, before.n, before.warnings) == (REMOVE_ONE, 900, ())
    train.begin(secure=False)
    after = train.statement(delta=DELTA)
    assert after.epsilon == before.epsilon
    assert "an ordinary generator, such as PyTorch's own" in after.warnings[0]
    assert json.loads(after.to_json())["plan"]["trainings"]["steps"] == 20
    assert "1 of 3 trainings" in str(after)


def test_epsilon_is_the_maximum_for_disjoint_people_or_else_composed(
    train: TrainingLedger, val: PrivacyLedger, fast_path: Path
) -> None:
    apart, joint = join([train, val], disjoint=True, delta=DELTA), join([train, val], delta=DELTA)
    assert apart.epsilon == max(epsilon_of([PLAN], DELTA), epsilon_from_mu(0.5, DELTA)) < joint.epsilon
    said = (REMOVE_ONE, REPLACE_ONE, "n = 900", "n = 300", "no person is in two parts")
    assert all(words in apart.to_text() for words in said)
    removed, replaced = (epsilon_of([PLAN, Gaussian(mu)], DELTA) for mu in (removal_mu(0.5), 0.5))
    assert joint.epsilon == removed < replaced
    assert joint.adjacency.startswith(REMOVE_ONE)
    assert "replacing a unit's records, which costs two removals" in joint.adjacency
    tuned_twice = join([val, PrivacyLedger(fast_path / "other.db", Budget.gdp(1.2))], delta=DELTA)
    assert tuned_twice.epsilon == pytest.approx(epsilon_from_mu(1.3, DELTA))
    assert tuned_twice.adjacency == REPLACE_ONE
    assert "n of 'validation data' is not stated" in tuned_twice.warnings[0]
    one_name = join([val, PrivacyLedger(fast_path / "other.db")], disjoint=True, delta=DELTA)
    assert any("same people" in warning for warning in one_name.warnings)


def test_what_cannot_be_added_or_charged_so_is_refused(
    train: TrainingLedger, val: PrivacyLedger, fast_path: Path
) -> None:
    agents = PlanLedger(fast_path / "fts.db", Rounds(0.3, 1.0, 4), n=9, unit="one person")
    rows = PrivacyLedger(fast_path / "rows.db", Budget.gdp(1.0), max_change=0.5)
    clinics = PrivacyLedger(fast_path / "clinics.db", Budget.gdp(1.0), unit="one clinic")
    select = TrainingLedger(fast_path / "select.db", SelectionPlan(Repeats.geometric(5), ONE), n=900)
    twice = partial(join, [train, TrainingLedger(fast_path / "train.db")], disjoint=True)
    for call, named in (
        (partial(join, [train, agents]), "zero out one agent"),
        (partial(join, [train, rows]), "row of features"),
        (partial(join, [train, clinics]), "different units"),
        (partial(join, [train], disjoint=True), "each of them once"),
        (twice, "each of them once"),
        (lambda delta: select.begin(secure=True), "repeat_and_select"),
        (lambda delta: train.begin_selection("settings", secure=True), "begin()"),
    ):
        with pytest.raises(InputError) as refused:
            call(delta=DELTA)
        assert named in str(refused.value)
    for other in (agents, rows, clinics):
        assert join([train, other], disjoint=True, delta=DELTA).epsilon > 0


def test_a_ledger_created_or_raised_after_another_ones_charge_is_late(fast_path: Path) -> None:
    """The order is that of the acts, also within one second, as in a script that runs without a pause."""
    one, two = (PrivacyLedger(fast_path / f"{name}.db", Budget.gdp(1.0), dataset=name) for name in ("one", "two"))
    assert join([one, two], delta=DELTA).late == ()
    one.charge("run", "a", GaussianRelease(0.1, 1.0, 10.0, 1, "mean"), digest="d")
    before = join([one, two], delta=DELTA)
    assert (before.late, before.warnings[2:]) == ((), ())  # the others: n is not stated yet
    late = PrivacyLedger(fast_path / "late.db", Budget.gdp(1.0), dataset="late")
    one.charge("run", "b", GaussianRelease(0.1, 1.0, 10.0, 1, "mean"), digest="d")
    assert join([one, two, late], delta=DELTA).late == ("late",)  # made between two charges
    two.raise_budget(Budget.gdp(2.0))
    after = join([one, two, late], delta=DELTA)
    assert after.late == ("two", "late")
    assert after.epsilon > before.epsilon
    assert "'two' was made, raised or divided after another was charged" in str(after.warnings)
    assert join([one, two, late], disjoint=True, delta=DELTA).late == ()


def test_a_statement_names_runs_that_train_on_unprotected_people(
    train: TrainingLedger, val: PrivacyLedger, fast_path: Path
) -> None:
    assert "Training" not in dict(val.statement(delta=DELTA).rows())
    privatizer = LossPrivatizer(val, n=300, clip=(0.0, 1.0))
    objective = PrivateObjective(lambda trial: np.full(300, 0.5), privatizer, n_trials=1, training="private")
    optuna.create_study(study_name="svm").optimize(objective, n_trials=1)
    said = dict(val.statement(delta=DELTA).rows())
    assert said["Adjacency"] == REPLACE_ONE
    words = ("in the runs 'svm'", "NOT protected by this ledger", "not replace-one", "raises is sealed", "how long")
    assert all(each in said["Training"] for each in words)
    assert val.statement(delta=DELTA).to_dict()["private_trainings"] == ["svm"]
    missed, other = "of whom no ledger is among these", PrivacyLedger(fast_path / "other.db", Budget.gdp(1.2))
    assert missed not in str(join([train, val], delta=DELTA).warnings)
    assert missed in str(join([other, val], disjoint=True, delta=DELTA).warnings)


def test_seeded_noise_in_one_part_voids_all(train: TrainingLedger, val: PrivacyLedger) -> None:
    train.begin(secure=True, private=False)
    for disjoint in (True, False):
        joint = join([train, val], disjoint=disjoint, delta=DELTA)
        assert (joint.private, joint.to_dict()["epsilon"]) == (False, "infinity")
        assert "NOT PRIVATE" in joint.warnings[0]
        assert "NONE" in str(joint)


def test_on_the_command_line(train: TrainingLedger, val: PrivacyLedger, fast_path: Path) -> None:
    paths = [str(fast_path / "train.db"), str(fast_path / "val.db")]
    apart = json.loads(invoke("statement", *paths, "--disjoint", "--format", "json"))
    together = json.loads(invoke("statement", *paths, "--format", "json"))
    assert (apart["disjoint"], together["disjoint"], apart["delta"]) == (True, False, 1e-5)
    assert apart["epsilon"] < together["epsilon"]
    train.begin(secure=True, note={"lr": 0.5})
    assert "1 of 3 made" in invoke("show", paths[0])
    assert json.loads(invoke("show", paths[0], "--format", "json"))["charges"][0]["lr"] == 0.5
    assert "for the whole plan" in invoke("statement", paths[0])


def test_another_plan_is_refused_in_words_that_differ(fast_path: Path) -> None:
    selections = (SelectionPlan(law, ONE) for law in (Repeats.geometric(5), Repeats.poisson(5)))
    plans = (PLAN, TrainingPlan(3.0, 0.1, 20), *selections)
    for place, plan in enumerate(plans):
        made = partial(TrainingLedger, fast_path / f"{place}.db", n=9)
        made(plan)
        for other in plans[:place]:
            with pytest.raises(BudgetMismatch) as refused:
                made(other)
            assert f"this ledger has plan={plan!r}, not {other!r}; it is fixed" in str(refused.value)
