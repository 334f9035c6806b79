"""Studies that go on: with more trials and budget, from another study, after a restart; docs/resume.md."""

import contextlib
import gc
import re
from pathlib import Path

import pytest

from harness import SPACE, create, front, keys, open_privatizer, ran, stored

pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


def test_a_study_goes_on_where_it_was_and_every_script_that_says_so_agrees(tmp_path):
    def script(n_trials):
        sampler, study, objective = ran("gibo", tmp_path, 12, storage=stored(tmp_path), n_trials=12, mu=0.6)
        objective.extend(study, n_trials=24, mu=1.0)
        study.optimize(objective, n_trials=n_trials)
        return sampler, study, objective

    _, first, _ = script(4)
    sampler, study, objective = script(40)
    run, ledger = sampler.run_of(study), open_privatizer(tmp_path).ledger
    assert (run.scope, run.complete, sampler.n_trials) == ("study, extended", True, run.trials)
    assert 20 <= run.trials <= len(study.trials) <= 34
    assert len(first.trials) > 12
    assert ledger.spent() <= 1.0 + 1e-9
    assert sampler.recommend(study).keys() == SPACE.keys()
    assert objective.estimate(study, sampler.recommend(study)).sigma > 0


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


def test_as_many_trials_as_planned_are_too_few_after_a_restart_and_it_says_why(tmp_path, caplog):
    stops_after(5, lambda: opened(tmp_path))
    caplog.set_level("WARNING", "optuna.dptune")
    caplog.clear()
    stops_after(3, lambda: opened(tmp_path))
    assert "8 trials of the study 'study' have ended and 8 were planned. 7 of 8" in caplog.text
    assert "the losses of its last trials are lost, and nothing was charged" in caplog.text
    assert "study.optimize(objective) without n_trials" in caplog.text
    assert keys(tmp_path, "generation/") == ["generation/1"]  # the rest is unspent


PAGE = (Path(__file__).parents[2] / "docs/resume.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_runs(tmp_path, capsys):
    here: dict[str, object] = {}
    with contextlib.chdir(tmp_path):
        for block in BLOCKS:
            exec(block, here)
        assert len(here["study"].trials) == 24
    assert "'x'" in capsys.readouterr().out
    run = here["sampler"].run_of(here["study"])
    assert run.scope == "first, extended"
    assert run.complete
    assert run.ledger.spent() <= 1.0
