"""A study keeps the choice of each ledger, day and name, and an old name stays that of its choice."""

import math
import re
import shutil

import optuna
import pytest
from test_public_study import CS, chosen, study_of

import dptune
from dptune.choice.recorded import recorded_choices, side_by_side
from dptune_optuna.choice import CHOICE, choices_of
from harness import open_ledger


def test_a_study_keeps_each_ledgers_choice_and_its_note_shows_all(tmp_path):
    study = study_of()
    for quarter in ("q1", "q2", "q1"):
        (tmp_path / quarter).mkdir(exist_ok=True)
        ledger = dptune.PrivacyLedger(tmp_path / quarter / "ledger.db", dptune.Budget.gdp(50.0), dataset=quarter)
        chosen(tmp_path, study, ledger=ledger, default={"C": 1e-4})
    assert sorted(kept["ledger"] for kept in choices_of(study).values()) == ["q1", "q2"]
    note = study._storage.get_study_system_attrs(study._study_id)["dashboard:note_str:0"]
    assert note.count("## Private choice of 20") == 2
    assert note.count("logit (choice), ledger of q") == 2


def test_a_study_knows_the_ledger_of_its_people(tmp_path, caplog):
    """It refuses an older copy and a fork of the ledger, and warns of another one for the same people."""
    study, path = study_of(), tmp_path / "a.db"

    def ask(dataset="people", **about):
        ledger = dptune.PrivacyLedger(path, dptune.Budget.gdp(50.0), dataset=dataset)
        return chosen(tmp_path, study, ledger=ledger, mu=0.5, **about)

    dptune.PrivacyLedger(path, dptune.Budget.gdp(50.0), dataset="people")
    shutil.copy(path, tmp_path / "older.db")
    ask()
    assert "through ledger" not in caplog.text
    shutil.copy(path, tmp_path / "newer.db")
    shutil.copy(tmp_path / "older.db", path)
    with pytest.raises(dptune.LedgerError, match="is behind"):
        ask()
    chosen(tmp_path, study_of(), ledger=dptune.PrivacyLedger(path), mu=0.1)
    with pytest.raises(dptune.LedgerError, match="two copies of the ledger were charged apart"):
        ask()
    shutil.copy(tmp_path / "newer.db", path)
    ask()
    path.unlink()
    ask(dataset="others")
    assert "through ledger" not in caplog.text
    path.unlink()
    ask()
    assert re.search(r"asked 'people' on \d{4}-.* through ledger \w{12}, and this is ledger \w{12}\.", caplog.text)
    path.unlink()
    ask(dry_run=True)


def test_a_plan_counts_the_trials_that_are_no_candidates(tmp_path, caplog):
    study, create = study_of(), optuna.trial.create_trial
    about = {"params": {"C": 0.7}, "distributions": study.trials[0].distributions}
    for state, values in (("PRUNED", (1.0, 2.0)), ("FAIL", (None,)), ("RUNNING", (None,)), ("COMPLETE", (math.inf,))):
        for value in values:
            study.add_trial(create(state=optuna.trial.TrialState[state], value=value, **about))
    caplog.set_level("INFO", "optuna.dptune")
    chosen(tmp_path, study)
    said = "2 were pruned, 1 failed, 1 did not end, 1 have no finite value and are not candidates. Plan"
    assert f"Of {len(CS) + 5} trials {said}" in caplog.text
    caplog.clear()
    chosen(tmp_path, study_of(), ledger=dptune.PrivacyLedger(tmp_path / "b.db", dptune.Budget.gdp(1.0)))
    assert "not candidates" not in caplog.text


def test_a_changed_study_under_an_old_name_is_refused(tmp_path):
    chosen(tmp_path, mu=0.5)
    with pytest.raises(dptune.errors.BudgetMismatch):
        chosen(tmp_path, study_of([{"C": C} for C in (0.5, 5.0, 50.0)], [1.0, 2.0, 3.0]), mu=0.5)
    study = study_of()
    for C in (2e-4, 0.2):
        study.add_trial(
            optuna.trial.create_trial(params={"C": C}, distributions=study.trials[0].distributions, value=9.0)
        )
    study.set_user_attr(CHOICE + "2026-11-28/abc/logit", {"params": {"C": 0.1}})
    with pytest.raises(dptune.errors.BudgetMismatch, match=r"\(6, now 8\)\. The answer .* recorded") as refused:
        chosen(tmp_path, study, mu=0.5)
    assert refused.value.__notes__ == [
        "The study's answers are in its user_attrs: 'dptune:choice/2026-11-28/abc/logit'."
    ]
    assert open_ledger(tmp_path).spent() == pytest.approx(0.5)


def test_choices_have_one_list_only_if_equal_places_are_equal_candidates(tmp_path):
    """Another default of the list, as in the next quarter, does not change it; another order or averages do."""
    made = {
        "q1": {"default": {"C": 1e-4}},
        "q2": {"default": {"C": 1.0}},
        "other order": {"study": study_of(values=range(len(CS)))},
        "averages": {"averages": True},
    }
    for quarter, about in made.items():
        ledger = dptune.PrivacyLedger(tmp_path / f"{quarter}.db", dptune.Budget.gdp(50.0))
        chosen(tmp_path, **{"ledger": ledger, "default": {"C": 1e-4}, **about})
        made[quarter] = recorded_choices(ledger)[0]
    rows = {row[""]: [row[quarter] for quarter in made] for row in side_by_side(made)}
    assert [cell.split("list ")[1] for cell in rows["candidates"]] == ["1)", "1)", "2)", "3)"]
