"""Statements are complete, and a record for the public registry validates against its schema."""

from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from dptune import Budget, InputError, LossPrivatizer, PrivacyLedger
from dptune.cli import app
from dptune.ledger import PlanLedger, SubsampledGaussian
from dptune.ledger.gdp import epsilon_from_mu
from dptune.ledger.registry import About, record, to_yaml
from dptune.privacy.noise import SeededNoise
from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan
from ledger_tools import pay
from refusals import refused
from registry_schema import complaints


def test_a_record_validates_and_fills_the_field_on_tuning(used: PrivacyLedger, about: Path) -> None:
    done = CliRunner().invoke(app, ["certificate", used.url.database or "", "--registry", str(about)])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = yaml.safe_load(done.output)
    assert complaints(found) == []
    deployment = found["deployment"]
    assert deployment["privacy_loss"]["number_of_privacy_units"] == 4
    epsilon = deployment["privacy_loss"]["privacy_parameters"]["epsilon"]
    assert 0 <= epsilon - used.budget.epsilon(1e-5) < 1e-3, "rounded up"
    tuning = deployment["implementation"]["preprocessing_and_hyperparameter_tuning"]
    assert "accounted for in full: the ledger's 3 releases" in tuning
    assert "The search space is customary." in tuning
    assert deployment["administrative"]["status"] == "Draft"


def test_the_validator_can_refuse(used: PrivacyLedger, about: Path) -> None:
    for field, value in (("publication_date", "yesterday"), ("data_product_sector", "Banking"), ("surprise", 1)):
        found = record(used.statement(delta=1e-5), About.read(about))
        found["deployment"]["basic"][field] = value
        assert len(complaints(found)) == 1


def everywhere(ledger: PrivacyLedger | TrainingLedger, about: Path) -> list[str]:
    """What the registry, the statement and its JSON say."""
    statement = ledger.statement(delta=0.4)  # above 1/n, and a warning
    return [str(record(statement, About.read(about))), str(statement), str(statement.to_dict())]


def test_noise_of_trainings_and_plans_is_named_as_it_is(tmp_path: Path, about: Path) -> None:
    ledger = TrainingLedger(tmp_path / "train.db", TrainingPlan(2.0, 0.1, 20), n=900)
    ledger.begin(secure=False)
    for words in everywhere(ledger, about):
        assert "an ordinary generator, such as PyTorch's own, in floating point" in words
        assert "not below 1/n" in words
    mechanisms = record(ledger.statement(delta=0.01), About.read(about))["deployment"]["implementation"]["mechanisms"]
    assert "in floating point (an ordinary generator, such as PyTorch's own, in 1 of 1 charge," in mechanisms
    assert "OpenDP" not in mechanisms
    for training in (TrainingPlan(2.0, 0.1, 20), None):
        plan = SelectionPlan(Repeats.geometric(3.0), training, score_mu=0.1)
        noise = TrainingLedger(tmp_path / f"{training}.db", plan, n=900).statement(delta=1e-4).noise
        assert ("of DP-SGD: from the library that trains, in floating point" in noise) == (training is not None)
        assert "of scores: OpenDP" in noise
    federated = PlanLedger(tmp_path / "plan.db", SubsampledGaussian(q=0.35, z=1.0, steps=60), n=29)
    found = record(federated.statement(delta=1e-3), About.read(about))
    assert complaints(found) == []
    assert found["deployment"]["deployment_model"]["model_name"] == "Federated"


def test_seeded_noise_is_not_registered(tmp_path: Path, about: Path) -> None:
    ledger = PrivacyLedger(tmp_path / "seeded.db", Budget.gdp(1.0))
    privatizer = LossPrivatizer(ledger, n=4, clip=(0.0, 1.0), noise=SeededNoise(1))
    privatizer.observe("x", [0.5] * 4)
    privatizer.release(privatizer.mean_query("x", 0.1), scope="s", key="1")
    refused(InputError, "seeded", lambda: record(ledger.statement(delta=1e-5), About.read(about)))
    assert ledger.statement(delta=1e-5).noise == "A SEEDED GENERATOR"


def test_a_file_that_does_not_say_enough_is_refused_by_name(about: Path) -> None:
    whole = about.read_text()
    for old, new, complaint in (
        ('"Global"', '""', "region"),
        ("name =", "name", "cannot be read as TOML"),
    ):
        about.write_text(whole.replace(old, new))
        refused(InputError, complaint, lambda: About.read(about))


def test_text_survives_yaml() -> None:
    data = {"a": {"b": 'quotes " and \\ and: colons # and ünï 🎉', "c": [1, 2.5, {"d": "e"}]}}
    data |= {"f": 1e-10, "g": 1.25e-7, "h": 2.0, "i": 1e22}
    assert yaml.safe_load(to_yaml(data)) == data


# ---- the statement: what was promised, what is spent of it, and what makes it void ----------------------------


def test_a_statement_has_the_promise_and_what_is_spent_of_it(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.approximate_dp(4.0, 1e-7))
    ledger.bind_people(10**7)
    assert "delta = 1e-07 is not below 1/n" in ledger.statement(delta=1e-8).warnings[0], "also the stated one"
    pay(ledger, "a", 0.3)
    statement = ledger.statement()
    assert statement.delta == 1e-7
    spent = epsilon_from_mu(0.3, 1e-7)
    stated = {"epsilon": 4.0, "delta": 1e-7, "spent_epsilon": spent}
    assert ledger.statement(delta=1e-5).to_dict()["stated"] == stated
    pay(ledger, "b", 0.1, private=False)
    assert "epsilon = 4 " not in str(ledger.statement())
    assert ledger.statement().to_dict()["stated"] == {"epsilon": "infinity", "delta": 1e-7, "spent_epsilon": "infinity"}


def test_a_budget_in_gdp_needs_a_delta_and_seeded_noise_voids_it(fast_path: Path) -> None:
    ledger = PrivacyLedger(fast_path / "x.db", Budget.gdp(3.0))
    refused(InputError, "delta=1e-5", ledger.statement)
    assert ledger.statement(delta=1e-5).spent_epsilon == 0.0
    assert ledger.statement(delta=1e-5).to_dict()["stated"] is None
    pay(ledger, "seeded", private=False)
    data = ledger.statement(delta=1e-5).to_dict()
    assert data["budget"] == data["spent"] == {"mu": "infinity", "epsilon": "infinity"}
