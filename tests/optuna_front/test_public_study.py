"""A finished study of public rows, and one private choice among what it proposes."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from noises import NoNoise
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.svm import SVC

import dptune
import dptune_optuna
from dptune.privacy.noise import SeededNoise
from dptune_optuna.choice import CHOICE, parameters_of, ranked
from public_studies import CS, PEOPLE, PUBLIC, ROWS, N, chosen, ledger_in, logit, study_of

SCRIPTS = Path(__file__).parent / "scripts"


def test_a_share_of_the_budget_is_left_for_a_report(tmp_path: Path) -> None:
    made = chosen(tmp_path, default={"C": 1e-4}, report_share=0.36)
    assert made.selection.mu == pytest.approx(0.8)
    assert dptune.report(made.model, ledger_in(tmp_path), data=PEOPLE, public=PUBLIC).mu == pytest.approx(0.6)


# ---- other people's scripts ------------------------------------------------------------------------------

MODULE = """
import numpy as np
from sklearn.datasets import load_breast_cancer

X, y = load_breast_cancer(return_X_y=True)
X_private, y_private = X[200:].copy(), y[200:].copy()
people = X_private / X[:200].std(axis=0), y_private
"""


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(path.name, marks=() if path.stem in ("simple", "xgboost_pruning") else pytest.mark.slow)
        for path in sorted(SCRIPTS.glob("*.py"))
    ],
)
def test_a_script_becomes_private_with_six_added_lines_and_no_changed_one(tmp_path: Path, script: str) -> None:
    lines = (SCRIPTS / script).read_text().splitlines()
    before = [line for line in lines if not line.endswith("  # +")]
    assert 4 <= len(lines) - len(before) <= 6
    assert all(len(line.removesuffix("  # +")) <= 120 for line in lines)
    assert "dptune" not in "".join(before)
    ast.parse("\n".join(before))
    (tmp_path / "people.py").write_text(MODULE)
    for name, text in (("before", before), ("after", lines)):
        (tmp_path / f"{name}.py").write_text("\n".join(text))
    both = "import runpy; [runpy.run_path(f'{name}.py', run_name='__main__') for name in ('before', 'after')]"
    run = [sys.executable, "-W", "ignore", "-c", both]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=300, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert "Chosen: " in done.stdout
    assert re.search("among [0-9]+ finalists", done.stdout)
    assert dptune.PrivacyLedger(tmp_path / "ledger.db").spent() > 0
    assert not (tmp_path / "before.db").exists()


# ---- what is chosen, and where it stands -----------------------------------------------------------------


def test_the_choice_is_what_the_core_chooses_from_the_same_public_losses(tmp_path: Path) -> None:
    """Without noise: the finalist with the smallest private loss that public rows do not outvote."""
    privatizer = dptune.LossPrivatizer(ledger_in(tmp_path, 50.0), n=N, noise=NoNoise())
    choice = chosen(tmp_path, privatizer=privatizer, default={"C": 1e-4})
    losses = {C: -np.log(logit_probability(C, *PUBLIC)).mean() for C in CS}
    assert choice.params["C"] == pytest.approx(min(losses, key=lambda C: losses[C]))
    assert choice.selection.improvement.verdict == "better"
    direct = LogisticRegression(C=choice.params["C"]).fit(*PUBLIC)
    np.testing.assert_allclose(choice.model.coef_, direct.coef_)
    assert f"\nChosen: C = {choice.params['C']:.4g}, by one private choice among" in choice.summary()
    assert str(choice) == choice.summary()


def logit_probability(C: float, X: Any, y: Any) -> Any:
    model = LogisticRegression(C=C).fit(X, y)
    return model.predict_proba(PEOPLE[0])[np.arange(N), PEOPLE[1]]


@pytest.mark.parametrize("storage", ["memory", "sqlite"])
def test_the_study_keeps_the_choice_as_an_attribute_and_a_note(tmp_path: Path, storage: str) -> None:
    study = study_of(storage=None if storage == "memory" else f"sqlite:///{tmp_path}/s.db")
    choice = chosen(tmp_path, study, default={"C": 1e-4})
    kept = study.user_attrs[CHOICE]
    assert kept["params"] == choice.params
    assert {name: kept[name] for name in choice.selection.to_dict()} == choice.selection.to_dict()
    notes = study._storage.get_study_system_attrs(study._study_id)
    assert choice.selection.summary().splitlines()[0] in notes["dashboard:note_str:0"]
    assert [trial.params for trial in study.trials] == [{"C": C} for C in CS]  # as it was


def test_asked_again_the_choice_is_the_same_free_and_only_the_chosen_model_is_trained(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole: list[float] = []

    def train(trial: Any, X: Any, y: Any) -> Any:
        model = logit(trial, X, y)
        if len(y) == ROWS:
            whole.append(trial.params["C"])
        return model

    caplog.set_level("INFO", "optuna.dptune")
    study = study_of()
    first = chosen(tmp_path, study, train, default={"C": 1e-4})
    assert "Plan: " in caplog.text
    caplog.clear()
    trained, spent = len(whole), ledger_in(tmp_path).spent()
    again = chosen(tmp_path, study, train, default={"C": 1e-4})
    said = [each.getMessage() for each in caplog.records if each.name == "optuna.dptune"]
    assert said == ["Recorded answer of 'logit (choice)'; nothing is charged."]
    assert (again.params, again.selection) == (first.params, first.selection)
    assert whole[trained:] == [first.params["C"]]
    assert ledger_in(tmp_path).spent() == spent


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_threads_change_nothing(tmp_path: Path, n_jobs: int) -> None:
    found = []
    for jobs in (1, n_jobs):
        (tmp_path / str(jobs)).mkdir()
        privatizer = dptune.LossPrivatizer(ledger_in(tmp_path / str(jobs)), n=N, noise=SeededNoise(3))
        found.append(chosen(tmp_path, privatizer=privatizer, n_jobs=jobs, default={"C": 1e-4}))
    assert found[0].params == found[1].params
    assert found[0].selection == found[1].selection


def test_an_objective_an_estimator_and_a_function_of_three_are_the_same_choice(tmp_path: Path) -> None:
    def objective(trial: Any) -> float:
        model = LogisticRegression(C=trial.suggest_float("C", 1e-5, 1e3, log=True))
        dptune_optuna.candidate(trial, model, rows=PUBLIC)
        raise AssertionError("a candidate ends here")

    found = []
    for name, train, public in (
        ("a", logit, PUBLIC),
        ("b", objective, None),
        ("c", LogisticRegression(), PUBLIC),
    ):
        (tmp_path / name).mkdir()
        privatizer = dptune.LossPrivatizer(ledger_in(tmp_path / name), n=N, noise=SeededNoise(3))
        found.append(chosen(tmp_path, None, train, privatizer=privatizer, public=public))
    assert found[0].params == found[1].params == found[2].params
    assert found[0].selection == found[1].selection == found[2].selection


def test_a_candidate_line_does_nothing_in_an_ordinary_trial() -> None:
    def objective(trial: Any) -> float:
        trial.suggest_float("C", 0.1, 1)
        dptune_optuna.candidate(trial, object(), held_out=PUBLIC)
        return 1.0

    study = optuna.create_study()
    study.optimize(objective, n_trials=2)
    assert [trial.value for trial in study.trials] == [1.0, 1.0]
    assert study.user_attrs == {}


def test_losses_of_held_out_rows_are_those_of_the_model_that_was_handed_over(tmp_path: Path) -> None:
    """The same choice as with these losses given as an array."""
    half = ROWS // 2
    train, held = (PUBLIC[0][:half], PUBLIC[1][:half]), (PUBLIC[0][half:], PUBLIC[1][half:])

    def objective(trial: Any) -> float:
        model = LogisticRegression(C=trial.suggest_float("C", 1e-5, 1e3, log=True)).fit(*train)
        dptune_optuna.candidate(trial, model, held_out=held)
        return 0.0

    models = [LogisticRegression(C=C).fit(*train) for C in CS]
    V = [-np.log(model.predict_proba(held[0])[np.arange(half), held[1]]) for model in models]
    found = []
    for name, about in (("a", {"public": None}), ("b", {"public_losses": V, "public": train})):
        (tmp_path / name).mkdir()
        privatizer = dptune.LossPrivatizer(ledger_in(tmp_path / name), n=N, noise=SeededNoise(3))
        way = objective if name == "a" else logit
        found.append(chosen(tmp_path, None, way, privatizer=privatizer, **about))
    assert found[0].params == found[1].params
    assert found[0].selection == found[1].selection


def test_several_objectives_propose_their_pareto_front_first() -> None:
    values = [[0.9, 9.0], [0.5, 5.0], [0.8, 1.0], [0.1, 0.5], [0.85, 2.0]]
    study = study_of([{"C": C} for C in CS[:5]], values, ["maximize", "minimize"])
    order = [trial.number for trial in ranked(study)]
    assert set(order[:4]) == {trial.number for trial in study.best_trials} == {0, 2, 3, 4}
    assert order[4] == 1


def test_candidates_are_the_best_completed_trials_each_once(tmp_path: Path) -> None:
    study = study_of([{"C": C} for C in (1.0, 0.1, 1.0, 0.01, 10.0)], [0.3, 0.1, 0.2, float("inf"), 0.5])
    study.add_trial(optuna.trial.create_trial(state=optuna.trial.TrialState.FAIL))
    assert [trial.params["C"] for trial in ranked(study)] == [0.1, 1.0, 1.0, 10.0]
    asked: list[float] = []

    def train(trial: Any, X: Any, y: Any) -> Any:
        asked.append(trial.params["C"])
        return logit(trial, X, y)

    choice = chosen(tmp_path, study, train, candidates=3)
    assert set(asked) == {0.1, 1.0}
    assert choice.selection.candidates == 2


# ---- mistakes --------------------------------------------------------------------------------------------


def three(trial: Any, X: Any) -> Any:
    """One argument too few."""


def no_model(trial: Any) -> float:
    return 0.5


def never(trial: Any, X: Any, y: Any) -> Any:
    raise ZeroDivisionError("a public mistake")


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ({"study": lambda: optuna.create_study()}, "no completed trial with a finite value"),
        ({"study": lambda: study_of([{"C": 1.0}] * 2, [0.1, 0.2])}, "two configurations or more; got 1"),
        ({"train": three}, "it takes 2"),
        ({"train": "logit"}, "must be a function"),
        ({"public": None}, r"needs public=\(X, y\)"),
        ({"train": no_model}, "leave public= out"),
        ({"train": no_model, "public": None}, "6 of 6 configurations could not be trained.*did not hand a model over"),
        ({"train": never}, "6 of 6 .*Nothing was charged.*ZeroDivisionError: a public mistake"),
        ({"loss": "roc_auc"}, "cannot be released"),
        ({"ledger": None}, "give ledger=, or privatizer="),
        ({"n": 3}, "must have 3 rows"),
        ({"data": lambda: PEOPLE}, "give n="),
        ({"default": [1.0]}, "must be a dict"),
        ({"cv": 1}, "cv|folds|n_splits"),
        ({"cv": KFold(2).split(PUBLIC[0][:10])}, "in a test fold"),
        ({"public_losses": np.zeros((3, ROWS))}, r"must be \(6, N\)"),
        ({"candidates": 1}, "candidates"),
        ({"name_": "x"}, "no option 'name_'; it has loss, data"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"data": (PUBLIC[0], PUBLIC[1])}, "can reach the private data"),
    ],
)
def test_mistakes_are_told_before_anything_is_charged(tmp_path: Path, about: dict[str, Any], says: str) -> None:
    study, train = about.pop("study", study_of)(), about.pop("train", logit)
    with pytest.raises((dptune.InputError, ValueError), match=f"(?s){says}"):
        chosen(tmp_path, study, train, **about)
    assert ledger_in(tmp_path).spent() == 0
    assert CHOICE not in study.user_attrs


def test_required_options_are_named(tmp_path: Path) -> None:
    with pytest.raises(dptune.InputError, match=r"needs loss= and data=\. Nothing was charged"):
        dptune_optuna.choose(study_of(), logit, ledger=ledger_in(tmp_path))


def test_what_is_no_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(dptune.InputError, match=r"must be an optuna\.Study; got int"):
        chosen(tmp_path, 3)


# ---- which choice it is --------------------------------------------------------------------------------


def unnamed(seed: int) -> optuna.Study:
    """A study that Optuna names, another name each time."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    study.optimize(lambda trial: abs(np.log(trial.suggest_float("C", 1e-5, 1e3, log=True))), n_trials=4)
    return study


def test_the_same_proposals_of_a_study_without_a_name_are_the_same_choice(tmp_path: Path) -> None:
    first, spent = chosen(tmp_path, unnamed(0)), ledger_in(tmp_path).spent()
    again = chosen(tmp_path, unnamed(0))
    assert again.selection == first.selection
    assert again.params == first.params
    assert ledger_in(tmp_path).spent() == spent > 0
    with pytest.raises(dptune.BudgetExhausted) as refused:
        chosen(tmp_path, unnamed(1))
    assert "Give the search a name and a seed" in "".join(refused.value.__notes__)


def test_a_tuner_s_trials_propose_all_parameters_with_which_they_were_trained(tmp_path: Path) -> None:
    import lightgbm
    from optuna_integration import lightgbm as tuners

    study = optuna.create_study(study_name="tuned", direction="minimize")
    train, test = lightgbm.Dataset(*PUBLIC), lightgbm.Dataset(*PUBLIC)
    usual = {"objective": "binary", "metric": "binary_logloss", "verbosity": -1, "num_threads": 1}
    tuner = tuners.LightGBMTuner(
        usual, train, valid_sets=[test], study=study, num_boost_round=3, show_progress_bar=False, optuna_seed=0
    )
    tuner.tune_feature_fraction(3)
    tuner.tune_num_leaves(2)
    seen: list[dict[str, Any]] = []

    def booster(trial: Any, X: Any, y: Any) -> Any:
        seen.append(trial.params)
        return lightgbm.train(trial.params, lightgbm.Dataset(X, y), num_boost_round=3)

    choice = chosen(tmp_path, study, booster)
    assert all({**usual, "feature_pre_filter": False}.items() <= params.items() for params in seen)
    assert all("feature_fraction" in params and "num_leaves" in params for params in seen)
    assert choice.params in [parameters_of(trial) for trial in study.trials]


def test_a_spent_ledger_is_refused_before_a_model_is_trained(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    spender = dptune.LossPrivatizer(ledger, n=N, clip=(0.0, 1.0))
    spender.observe("x", np.zeros(N))
    spender.release(spender.mean_query("x", 1.0), scope="other", key="1")
    calls: list[int] = []
    with pytest.raises(dptune.BudgetExhausted):
        chosen(tmp_path, None, lambda trial, X, y: calls.append(1))
    assert calls == []


def test_a_changed_study_under_an_old_name_is_refused(tmp_path: Path) -> None:
    chosen(tmp_path, mu=0.5)
    with pytest.raises(dptune.errors.BudgetMismatch, match="another name"):
        chosen(tmp_path, study_of([{"C": C} for C in (0.5, 5.0, 50.0)], [1.0, 2.0, 3.0]), mu=0.5)
    study = study_of()
    for C in (2e-4, 0.2):
        study.add_trial(
            optuna.trial.create_trial(params={"C": C}, distributions=study.trials[0].distributions, value=9.0)
        )
    study.set_user_attr(CHOICE, {"params": {"C": 0.1}})
    with pytest.raises(dptune.errors.BudgetMismatch, match=r"\(6, now 8\)\. The answer .* recorded") as refused:
        chosen(tmp_path, study, mu=0.5)
    assert refused.value.__notes__ == ["The study's last answer is in study.user_attrs['dptune:choice']."]
    assert ledger_in(tmp_path).spent() == pytest.approx(0.5)


def test_configurations_that_fail_drop_out_publicly_and_the_default_may_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def train(trial: Any, X: Any, y: Any) -> Any:
        if trial.params["C"] in (0.01, 1e-4) or (trial.params["C"] == 0.1 and len(y) == ROWS):
            raise ValueError("no convergence")
        return logit(trial, X, y)

    caplog.set_level("WARNING", "optuna.dptune")
    choice = chosen(tmp_path, None, train, mu=0.5)
    assert choice.params["C"] not in (0.01, 1e-4, 0.1)
    assert "2 of 6 configurations could not be trained on public rows and drop out: ValueError: no conv" in caplog.text
    with pytest.raises(dptune.InputError, match="default= could not be trained on public rows: ValueError: no conv"):
        chosen(tmp_path, None, train, default={"C": 0.01}, name="other")


def test_an_unseeded_split_is_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)

    def objective(trial: Any) -> float:
        held = rng.permutation(ROWS)[:30]
        model = logit(trial, *PUBLIC)
        dptune_optuna.candidate(trial, model, held_out=(PUBLIC[0][held], PUBLIC[1][held]))
        return 0.0

    with pytest.raises(dptune.InputError, match=r"different public rows.*random_state"):
        chosen(tmp_path, None, objective, public=None)
    with pytest.raises(dptune.InputError, match="needs held_out"):
        dptune_optuna.candidate(None, None)


def test_svc_without_probabilities_is_told_what_the_loss_needs(tmp_path: Path) -> None:
    with pytest.raises(dptune.InputError, match="needs predict_proba"):
        chosen(tmp_path, None, lambda trial, X, y: SVC(C=trial.params["C"]).fit(X, y))


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs/optuna.md").read_text()
    section = page.partition("\n## A public study, one private choice\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {"X_train": PUBLIC[0], "y_train": PUBLIC[1], "X_val": PEOPLE[0], "y_val": PEOPLE[1]}
    names |= {"X_stop": PUBLIC[0][::2].copy(), "y_stop": PUBLIC[1][::2].copy()}
    exec(code.replace("n_trials=50", "n_trials=5"), names)
    assert "one private choice" in capsys.readouterr().out
    assert names["ledger"].count("svm (choice)") >= 1
