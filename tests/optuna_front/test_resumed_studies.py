"""Studies resume after a restart, as docs/resume.md describes."""

import contextlib
import gc
import re
from pathlib import Path

import pytest

from harness import create, front, keys, open_privatizer, stored

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


PLANNED, POPULATION = 8, 4


def opened(folder, kind="centred", **sources):
    """A process of the study: a sampler, its objective and a privatizer that holds no losses yet."""
    sampler, objective = front(kind, open_privatizer(folder, **sources), n_trials=PLANNED)
    return create(stored(folder), sampler), sampler, objective


def stops_after(trials, open_one):
    study, _, objective = open_one()
    study.optimize(objective, n_trials=trials)
    del study, _, objective
    gc.collect()


@pytest.mark.parametrize(("trials", "kind"), [(6, "centred"), (3, "gibo")])
def test_a_restarted_study_ends_with_the_words_of_one_that_was_not(tmp_path, kind, trials, caplog):
    stops_after(trials, lambda: opened(tmp_path, kind))
    caplog.set_level("WARNING", "optuna.dptune")
    caplog.clear()
    study, sampler, objective = opened(tmp_path, kind)
    study.optimize(objective)
    assert objective.run_of(study).complete
    batch = POPULATION if kind == "centred" else 2
    assert len(study.trials) == PLANNED + trials % batch  # what was lost is trained again
    assert f"after {PLANNED} of {PLANNED} planned trials" in sampler.recommend(study).summary()
    del study
    gc.collect()
    assert "planned" not in caplog.text


def test_planned_trials_are_too_few_after_a_restart_and_a_warning_says_why(tmp_path, caplog):
    stops_after(5, lambda: opened(tmp_path))
    caplog.set_level("WARNING", "optuna.dptune")
    caplog.clear()
    stops_after(3, lambda: opened(tmp_path))
    assert "8 trials of the study 'study' have ended and 8 were planned. 7 of 8" in caplog.text
    assert "the losses of its last trials are lost, and nothing was charged" in caplog.text
    assert "study.optimize(objective) without n_trials" in caplog.text
    assert keys(tmp_path, "generation/") == ["generation/1"]  # the rest is unspent


PAGE = (Path(__file__).parents[2] / "docs/resume.md").read_text()


def test_the_page_runs_and_runs_again(tmp_path, capsys):
    block, _ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    with contextlib.chdir(tmp_path):
        for _ in range(2):
            exec(block, here := {})
        assert len([trial for trial in here["study"].trials if trial.state.name == "COMPLETE"]) == 12
        assert here["sampler"].run_of(here["study"]).complete
    assert capsys.readouterr().out.count("\nChosen: x = ") == 2
