"""A finished study of public rows proposes candidates, of which one private choice takes one."""

import contextlib
import pickle
import re
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold

import dptune
import dptune_optuna
from dptune.choice import public_choice
from dptune.losses.named import NamedLoss
from dptune.privacy.noise import SeededNoise
from dptune_optuna.choice import CHOICE, choices_of, parameters_of, ranked
from harness import open_ledger, stored, transcript
from noises import CannedNoise, NoNoise

ROWS, N = 60, 80
_rng = np.random.default_rng(7)
X = _rng.normal(size=(ROWS + N, 3))
Y = (X[:, 0] + 0.5 * _rng.normal(size=ROWS + N) > 0).astype(int)
PUBLIC, PEOPLE = (X[:ROWS].copy(), Y[:ROWS].copy()), (X[ROWS:].copy(), Y[ROWS:].copy())
del X, Y
SPACE = {"C": FloatDistribution(1e-5, 1e3, log=True)}
CS = [1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0]


def study_of(parameters=None, values=None, directions=("minimize",), storage=None):
    """A finished study with these trials; by default the strength of a logistic regression."""
    study = optuna.create_study(directions=list(directions), study_name="logit", storage=storage)
    parameters = [{"C": C} for C in CS] if parameters is None else parameters
    values = [abs(np.log(C)) for C in CS] if values is None else values
    for params, value in zip(parameters, values, strict=True):
        value = {"values" if isinstance(value, list) else "value": value}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=SPACE, **value))
    return study


def logit(trial, X, y):
    return LogisticRegression(C=trial.suggest_float("C", 1e-5, 1e3, log=True)).fit(X, y)


def chosen(folder, study=None, train=logit, **about):
    about = {"loss": "log_loss", "data": PEOPLE, "public": PUBLIC, "progress": False, "cv": 3, **about}
    if "ledger" not in about:
        about["ledger"] = open_ledger(folder)
    return dptune_optuna.choose(study_of() if study is None else study, train, **about)


# ---- what is chosen, and where it stands -----------------------------------------------------------------


def test_the_choice_is_what_the_core_chooses_from_the_same_public_losses(tmp_path):
    """Without noise: the finalist with the smallest private loss that public rows do not outvote."""
    privatizer = dptune.LossPrivatizer(open_ledger(tmp_path, 50.0), n=N, noise=NoNoise())
    choice = chosen(tmp_path, ledger=privatizer, default={"C": 1e-4})
    models = {C: LogisticRegression(C=C).fit(*PUBLIC) for C in CS}
    losses = {C: log_loss(PEOPLE[1], model.predict_proba(PEOPLE[0])) for C, model in models.items()}
    assert choice.params["C"] == pytest.approx(min(losses, key=lambda C: losses[C]))
    assert choice.selection.improvement.verdict == "better"
    np.testing.assert_allclose(choice.model.coef_, models[choice.params["C"]].coef_)
    assert f"\nChosen: C = {choice.params['C']:.4g}, by one private choice among" in choice.summary()
    assert str(choice) == choice.summary()


def test_a_repeated_choice_is_free_and_trains_only_the_chosen_model(tmp_path, caplog):
    whole = []

    def train(trial, X, y):
        if len(y) == ROWS:
            whole.append(trial.params["C"])
        return logit(trial, X, y)

    caplog.set_level("INFO", "optuna.dptune")
    study = study_of(storage=stored(tmp_path))
    first = chosen(tmp_path, study, train, default={"C": 1e-4})
    assert "Plan: " in caplog.text
    (key, kept), *_ = choices_of(study).items()
    assert key == f"{CHOICE}{kept['charged']}/{open_ledger(tmp_path).identity[:12]}/{first.name}"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", kept["charged"])
    assert kept["summary"] == first.summary()
    assert kept["params"] == first.params
    assert {name: kept[name] for name in first.selection.to_dict()} == first.selection.to_dict()
    notes = study._storage.get_study_system_attrs(study._study_id)
    assert first.selection.summary().splitlines()[0] in notes["dashboard:note_str:0"]
    assert [trial.params for trial in study.trials] == [{"C": C} for C in CS]  # as it was
    trained, spent = len(whole), open_ledger(tmp_path).spent()
    again = chosen(tmp_path, study, train, default={"C": 1e-4})
    assert re.search(r"Recorded answer of 'logit \(choice\)', from [\d-]{10}\. Nothing is charged\.", caplog.text)
    assert (again.params, again.selection) == (first.params, first.selection)
    assert whole[trained:] == [first.params["C"]]
    assert open_ledger(tmp_path).spent() == spent


def test_every_way_to_train_makes_the_same_choice_as_an_array_of_losses(tmp_path):
    """A function, an objective that hands over an estimator or a model with held-out rows, an estimator; threads."""
    half = ROWS // 2
    held_out = (PUBLIC[0][half:], PUBLIC[1][half:])
    train = (PUBLIC[0][:half], PUBLIC[1][:half])
    few = CS[1:4]
    models = [LogisticRegression(C=C).fit(*train) for C in few]
    V = [-np.log(model.predict_proba(held_out[0])[np.arange(half), held_out[1]]) for model in models]

    def hands_over(rows, held_out):
        def objective(trial):
            C = trial.suggest_float("C", 1e-5, 1e3, log=True)
            model = models[few.index(C)] if held_out and C in few else LogisticRegression(C=C)
            model.trial = trial  # as a callback that stays in its model
            dptune_optuna.candidate(trial, model, held_out=held_out, rows=rows)
            return C  # in an ordinary trial

        return objective

    ways = {
        "function": (logit, {"n_jobs": -1}),
        "objective": (hands_over(PUBLIC, None), {"public": None}),
        "estimator": (LogisticRegression(), {}),
        "held out": (hands_over(None, held_out), {"public": None}),
        "array": (logit, {"public_losses": V, "public": train}),
    }
    found = {}
    for name, (way, about) in ways.items():
        (tmp_path / name).mkdir()
        privatizer = dptune.LossPrivatizer(open_ledger(tmp_path / name), n=N, noise=SeededNoise(3))
        choice = chosen(tmp_path, study_of([{"C": C} for C in few], few), way, ledger=privatizer, **about)
        found[name] = choice.params, choice.selection
    assert found["function"] == found["objective"] == found["estimator"]
    assert found["held out"] == found["array"]
    study = optuna.create_study()
    study.optimize(hands_over(PUBLIC, None), n_trials=1)
    assert study.best_value == study.best_params["C"]
    assert study.user_attrs == {}


def test_several_objectives_propose_their_pareto_front_first():
    values = [[0.9, 9.0], [0.5, 5.0], [0.8, 1.0], [0.1, 0.5], [0.85, 2.0]]
    study = study_of([{"C": C} for C in CS[:5]], values, ["maximize", "minimize"])
    order = [trial.number for trial in ranked(study)]
    assert {0, 2, 3, 4} == {trial.number for trial in study.best_trials}
    assert order == [2, 4, 0, 3, 1]  # the front by the sum of both ranks, each in its own direction


def test_candidates_are_the_best_distinct_trials(tmp_path, caplog):
    """A candidate whose training fails is dropped publicly."""
    study = study_of([{"C": C} for C in (1.0, 0.1, 1.0, 0.01, 10.0)], [0.3, 0.1, 0.2, float("inf"), 0.5])
    study.add_trial(optuna.trial.create_trial(state=optuna.trial.TrialState.FAIL))
    assert [trial.params["C"] for trial in ranked(study)] == [0.1, 1.0, 1.0, 10.0]

    def train(trial, X, y):
        if trial.params["C"] == 10.0 or (trial.params["C"] == 0.1 and len(y) == ROWS):
            raise ValueError("no convergence")
        return logit(trial, X, y)

    caplog.set_level("WARNING", "optuna.dptune")
    choice = chosen(tmp_path, study, train, mu=0.5, default={"C": 1e-3})
    assert choice.params["C"] in (1.0, 1e-3)
    assert choice.selection.candidates == 4
    assert "1 of 4 configurations failed on public rows and drop out: ValueError: no conv" in caplog.text
    with pytest.raises(
        dptune.InputError, match=r"default= failed on public rows\. Nothing was charged\. ValueError: no conv"
    ):
        chosen(tmp_path, study, train, default={"C": 10.0}, name="other")
    assert chosen(tmp_path, study, logit, candidates=3, name="three", mu=0.1).selection.candidates == 3


def constrained(form, over, front=False):
    """A study whose trials are over the limit by these amounts; the objective is the same for all of them."""
    study = optuna.create_study(directions=["minimize"] * (1 + front), study_name="logit")
    for C, by in zip(CS, over, strict=True):
        kept = {"function": {"constraints": (-1.0, by)}, "set_constraint": {"constraints:a": -1.0, "constraints:b": by}}
        values = {"values": [0.5, 0.5]} if front else {"value": 0.5}
        about = {"system_attrs": kept[form], "user_attrs": {"rounds": [C]}, "distributions": SPACE}
        study.add_trial(optuna.trial.create_trial(params={"C": C}, **values, **about))
    return study


@pytest.mark.parametrize("front", [False, True])
@pytest.mark.parametrize("form", ["function", "set_constraint"])
def test_constraints_and_user_attributes_of_trials_are_respected(tmp_path, caplog, form, front):
    seen, study = [], constrained(form, [1e-9, 0.0, 3.0, -1.0, 0.5, 0.0], front)

    def train(trial, X, y):
        seen.append((trial.params["C"], trial.user_attrs))
        trial.user_attrs["rounds"].append(0)  # a copy
        return logit(trial, X, y)

    def objective(trial):
        train(trial, *PUBLIC)
        dptune_optuna.candidate(trial, LogisticRegression(C=trial.params["C"]), rows=PUBLIC)

    caplog.set_level("INFO", "optuna.dptune")
    for way, public in ((train, PUBLIC), (objective, None)):
        seen.clear()
        found = chosen(tmp_path, study, way, public=public, mu=0.5, name=way.__name__)
        assert found.selection.candidates == 3
        assert {C for C, _ in seen} == {CS[1], CS[3], CS[5]}
        assert all(attrs["rounds"][0] == C for C, attrs in seen)
    assert [trial.user_attrs for trial in study.trials] == [{"rounds": [C]} for C in CS]
    assert "Of 6 trials 3 break a constraint and are not candidates. Plan" in caplog.text
    for few in ([1.0] * 6, [1.0] * 5 + [0.0]):
        with pytest.raises(dptune.InputError, match=f"Of 6 trials {int(sum(few))} break a constraint"):
            chosen(tmp_path, constrained(form, few, front), name="few")
    found = chosen(tmp_path, constrained(form, few, front), logit, default={"C": 2.0}, mu=0.5, name="one")
    assert found.selection.candidates == 2


# ---- mistakes --------------------------------------------------------------------------------------------


def unseeded(trial):
    held = np.random.default_rng(trial.number).permutation(ROWS)[:30]
    dptune_optuna.candidate(trial, logit(trial, *PUBLIC), held_out=(PUBLIC[0][held], PUBLIC[1][held]))


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ({"study": lambda: study_of([{"C": 1.0}] * 2, [0.1, 0.2])}, "two configurations or more; got 1"),
        ({"public": None}, r"needs public=\(X, y\)"),
        (
            {"train": lambda trial: 0.5, "public": None},
            "6 of 6 configurations failed.*did not hand a model over",
        ),
        ({"train": lambda trial, X, y: 1 / 0}, "Nothing was charged.*6 of 6 .*ZeroDivisionError: division by zero"),
        ({"data": lambda: PEOPLE}, "Give n="),
        ({"default": [1.0]}, "must be a dict"),
        ({"cv": KFold(2).split(PUBLIC[0][:10])}, "in a test fold"),
        ({"public_losses": np.zeros((3, ROWS))}, r"must be \(6, N\)"),
        ({"data": (PUBLIC[0], PUBLIC[1])}, "^public=.* shares memory"),
        ({"train": lambda trial, X, y: logit(trial, *PEOPLE), "dry_run": True}, "can reach the private data"),
        (
            {"loss": NamedLoss("own", lambda y, out: (y - out) * PEOPLE[1][0]), "dry_run": True},
            "^loss=.* shares memory",
        ),
        ({"data": {"X": PUBLIC[0]}, "n": ROWS, "dry_run": True}, "must be .X, y., Rows.*got dict"),
        (
            {"data": dptune.Places([dptune.Place("a", PUBLIC)]), "dry_run": True},
            "at the place 'a': public=.* shares memory",
        ),
    ],
)
def test_mistakes_are_told_before_anything_is_charged(tmp_path, about, says):
    study, train = about.pop("study", study_of)(), about.pop("train", logit)
    with pytest.raises((dptune.InputError, ValueError), match=f"(?s){says}"):
        chosen(tmp_path, study, train, **about)
    assert open_ledger(tmp_path).spent() == 0
    assert not isinstance(study, optuna.Study) or choices_of(study) == {}


# ---- which choice it is --------------------------------------------------------------------------------


def unnamed(seed):
    """A study that Optuna names, another name each time."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    study.optimize(lambda trial: abs(np.log(trial.suggest_float("C", 1e-5, 1e3, log=True))), n_trials=4)
    return study


@pytest.mark.parametrize("about", [{}, {"report_share": 0.36}], ids=["nothing left", "left for a report"])
def test_the_same_proposals_of_a_study_without_a_name_are_the_same_choice(tmp_path, about):
    first, spent, calls = chosen(tmp_path, unnamed(0), **about), open_ledger(tmp_path).spent(), []
    again = chosen(tmp_path, unnamed(0), **about)
    assert again.selection == first.selection
    assert again.params == first.params
    assert open_ledger(tmp_path).spent() == spent > 0
    with pytest.raises(dptune.BudgetExhausted) as refused:
        chosen(tmp_path, unnamed(1), lambda trial, X, y: calls.append(1), **about)
    assert calls == []  # nothing is trained
    assert "This choice differs from 'choice " in str(refused.value)


def test_a_dry_run_prints_the_plan_and_changes_neither_ledger_nor_study(tmp_path):
    study, ledger = study_of(), open_ledger(tmp_path)
    before = ledger.mark()
    planned = chosen(tmp_path, study, ledger=ledger, data=None, n=N, dry_run=True)
    assert f"Plan: {N} private people choose among" in str(planned)
    assert (planned.selection, planned.model, dict(planned.params)) == (None, None, {})
    assert (ledger.mark(), ledger.n, ledger.facts("plan"), study.user_attrs) == (before, None, {}, {})
    assert chosen(tmp_path, study, ledger=ledger).name == planned.name


def test_trials_of_a_lightgbm_tuner_propose_all_their_parameters(tmp_path):
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
    seen = []

    def booster(trial, X, y):
        seen.append(trial.params)
        return lightgbm.train(trial.params, lightgbm.Dataset(X, y), num_boost_round=3)

    choice = chosen(tmp_path, study, booster)
    assert all({**usual, "feature_pre_filter": False}.items() <= params.items() for params in seen)
    assert all("feature_fraction" in params and "num_leaves" in params for params in seen)
    assert choice.params in [parameters_of(trial) for trial in study.trials]


def test_the_page_runs(tmp_path, capsys):
    page = (Path(__file__).parents[2] / "docs/optuna.md").read_text()
    section = page.partition("\n## A public study, one private choice\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names = {"X_train": PUBLIC[0], "y_train": PUBLIC[1], "X_val": PEOPLE[0], "y_val": PEOPLE[1]}
    names |= {"X_stop": PUBLIC[0][::2].copy(), "y_stop": PUBLIC[1][::2].copy()}
    with contextlib.chdir(tmp_path):
        few = code.replace("n_trials=50", "n_trials=5").replace('loss="hinge",', 'loss="hinge", even_if_hopeless=True,')
        exec(few, names)
    assert "one private choice" in capsys.readouterr().out
    assert names["ledger"].count("svm (choice)") >= 1


# ---- what a choice leaves behind: released and public facts only ---------------------------------------

FEW = CS[1:5]  # what is searched, and how bad each is


class Counting(LogisticRegression):
    """Counts what it is asked, as scikit-learn's trees of neighbours do."""

    def predict_proba(self, X):
        self.asked_ = getattr(self, "asked_", 0) + len(X)
        return super().predict_proba(X)


def test_the_model_that_is_returned_was_never_asked_about_private_rows(tmp_path):
    choice = chosen(tmp_path, None, lambda trial, X, y: Counting(C=trial.params["C"]).fit(X, y))
    assert not hasattr(choice.model, "asked_")


def shown(folder, data, capfd, noise=CannedNoise):
    """Everything that a choice leaves: storage, ledger, log lines, console, files, and what is returned."""

    def run(storage):
        trained = []

        def train(trial, X, y):
            trained.append(f"trained C={trial.params['C']} on {len(y)} rows")
            return logit(trial, X, y)

        privatizer = dptune.LossPrivatizer(open_ledger(folder, 0.5), n=N, noise=noise())
        study = study_of([{"C": C} for C in FEW], FEW, storage=storage)
        choice = chosen(folder, study, train, ledger=privatizer, default={"C": 1e-4}, data=data)
        returned = [choice.summary(), repr(choice), repr(pickle.dumps(choice.model))]
        files = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*"))]
        return "\n".join([*trained, *returned, *files, *capfd.readouterr()])

    return transcript(folder, run)


def neighbour(kind):
    X, y = PEOPLE[0].copy(), PEOPLE[1].copy()
    if kind == "label":
        y[7] = 1 - y[7]
    elif kind == "wrong":  # the more a model is sure, the worse
        X[7] = [8.0 - 16.0 * y[7], 0.0, 0.0]
    else:
        X[7] = {"far": 1e6, "nan": np.nan}[kind]
    return X, y


def test_neighbouring_data_leave_identical_transcripts(tmp_path, capfd):
    mine = shown(tmp_path / "a", PEOPLE, capfd)
    for kind in ("far", "nan", "label"):
        assert shown(tmp_path / kind, neighbour(kind), capfd) == mine, kind
    assert "NOT PRIVATE" in mine  # canned noise is called what it is
    theirs = (PEOPLE[0], 1 - PEOPLE[1])
    assert shown(tmp_path / "c", PEOPLE, capfd, NoNoise) != shown(tmp_path / "d", theirs, capfd, NoNoise)


def test_a_radius_that_private_losses_decide_is_seen_in_the_transcripts(tmp_path, capfd, monkeypatch):
    found, box = [], public_choice.Box
    models = [LogisticRegression(C=C).fit(*PUBLIC) for C in (*FEW, 1e-4)]
    for name, (X, y) in (("a", PEOPLE), ("b", neighbour("wrong"))):
        r = -np.log(models[0].predict_proba(X)[np.arange(N), y]).mean()
        monkeypatch.setattr(public_choice, "Box", lambda low, high, m, r=r: box(low - r, high + r, m))
        found.append(shown(tmp_path / name, (X, y), capfd))
    assert found[0] != found[1]
