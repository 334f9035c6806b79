"""Each argument of `choose`, `report`, `PrivateSearch`, a certificate and a curator has two values and two outcomes.

Noise is off, so outcomes differ by the argument alone. An argument without a row in its table fails.
"""

import inspect
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold

import dptune
import dptune_optuna
from dptune.choice.proposals import ChoiceOptions
from dptune.ledger import certificate
from dptune.outsourced import OutsourcedCurator
from dptune.outsourced.formats import Exchange
from dptune.outsourced.outputs import PublicOutputs
from dptune.privacy.noise import SeededNoise
from dptune_sklearn import PrivateSearch
from noises import NoNoise

USUAL, NOTHING = object(), dict[str, Any]()
_rng = np.random.default_rng(3)
X = _rng.normal(size=(260, 3))
X[:, 2] = X[:, 2] > 0.3
Y = (X[:, 0] + 0.5 * X[:, 2] + 0.5 * _rng.normal(size=260) > 0).astype(int)
PUBLIC, OTHER_PUBLIC = (X[:80].copy(), Y[:80].copy()), (X[:60].copy(), Y[:60].copy())
PRIVATE, OTHER = (X[80:200].copy(), Y[80:200].copy()), (X[140:].copy(), Y[140:].copy())
CS = [1e-3, 1e-2, 0.1, 1.0, 10.0]
BUDGETS = dptune.Budget.gdp(1.0), dptune.Budget.gdp(2.0)
Rows = dict[str, tuple[Any, ...]]  # argument -> its two values, and other arguments of both calls


@pytest.fixture
def outcome(fast_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, caplog: Any) -> Callable[..., object]:
    """Return a function: a call without noise -> all that it returns, raises, prints, logs and stores."""
    monkeypatch.setattr("dptune.privacy.observed.noise_source", lambda noise: NoNoise())
    caplog.set_level(logging.INFO)
    folders = iter(range(10**6))

    def of(call: Callable[[Path], Any]) -> object:
        folder = fast_path / str(next(folders))
        folder.mkdir()
        caplog.clear()
        capfd.readouterr()
        try:
            found = call(folder)
        except (dptune.InputError, ValueError) as error:  # scikit-learn's are ValueErrors
            found = f"{type(error).__name__}: {error}"
        said = capfd.readouterr()
        lines = [each.getMessage() for each in caplog.records if not each.name.startswith("dptune.ledger")]
        ledgers = [_stored(dptune.PrivacyLedger(path)) for path in sorted(folder.glob("*.db"))]
        return found, said.out, "train finalists" in said.err, lines, ledgers

    return of


def _stored(ledger: dptune.PrivacyLedger) -> object:
    charges = [(each.scope, each.key, each.description, each.value) for each in ledger.charges()]
    return ledger.budget, ledger.n, charges, str(ledger.facts("plan"))


def compare(outcome: Any, call: Callable[..., Any], rows: Rows, arguments: set[str]) -> None:
    """Each argument has a row, and each row's two values have two outcomes."""
    assert set(rows) == arguments
    usual: dict[int, object] = {}  # outcomes of the usual values, with the other arguments of a row
    for name, (one, other, *more) in rows.items():
        shared = more[0] if more else NOTHING
        if one is not USUAL:
            first = outcome(partial(call, **{**shared, name: one}))
        else:
            first = usual[id(shared)] = usual.get(id(shared)) or outcome(partial(call, **shared))
        assert first != outcome(partial(call, **{**shared, name: other})), name


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the numbers of workers that were asked for; one process does all work."""
    seen: list[Any] = []
    monkeypatch.setattr("dptune.choice.workers.workers_of", lambda n_jobs: seen.append(n_jobs) or 1)
    return seen


def ledger_in(folder: Path, mu: float = 1.0, name: str = "ledger") -> dptune.PrivacyLedger:
    return dptune.PrivacyLedger(folder / f"{name}.db", dptune.Budget.gdp(mu))


def of(function: Callable[..., Any], *left_out: str) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self", *left_out}


# ---- choose --------------------------------------------------------------------------------------------------


def study_of(values: list[float]) -> optuna.Study:
    study = optuna.create_study(study_name="s")
    space = {"C": optuna.distributions.FloatDistribution(1e-4, 100)}
    for place, C in enumerate(values):
        study.add_trial(optuna.trial.create_trial(params={"C": C}, distributions=space, value=float(place)))
    return study


def weak(trial: Any, X: Any, y: Any) -> Any:
    return LogisticRegression(C=trial.params["C"] / 100).fit(X, y)


def train(trial: Any, X: Any, y: Any) -> Any:
    return LogisticRegression(C=trial.params["C"]).fit(X, y)


LOSSES = np.abs(np.random.default_rng(0).normal(np.arange(5)[:, None] + 1, 0.3, (5, 80)))
WITH_DEFAULT = {"default": {"C": 1e-3}}
CHOOSE: Rows = {
    "study": (USUAL, study_of(CS[:3])),
    "train": (USUAL, weak),
    "data": (USUAL, OTHER, WITH_DEFAULT),
    "loss": (USUAL, "brier"),
    "ledger": (USUAL, 2.0),
    "public": (USUAL, OTHER_PUBLIC),
    "default": ({"C": 1e-3}, {"C": 1e-2}),
    "groups": (USUAL, np.arange(120) // 2),
    "n": (120, 140, {"data": None, "dry_run": True}),
    "budget": (*BUDGETS, {"ledger": None}),
    "name": (USUAL, "another"),
    "cv": (USUAL, 3),
    "public_losses": (LOSSES, LOSSES[::-1]),
    "candidates": (USUAL, 3),
    "mu": (USUAL, 0.6),
    "public_weight": (USUAL, 0.01),
    "estimate_share": (USUAL, 0.3, WITH_DEFAULT),
    "finalists": (USUAL, 3),
    "report_share": (USUAL, 0.4),
    "even_if_hopeless": (False, True, {"mu": 0.01, **WITH_DEFAULT}),
    "dry_run": (USUAL, True),
    "averages": (USUAL, True),
    "n_jobs": (USUAL, 2),
    "progress": (USUAL, True),
}


def test_arguments_of_choose(outcome: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = counted(monkeypatch)

    def call(folder: Path, **options: Any) -> object:
        workers.clear()
        about = {"study": study_of(CS), "train": train, "data": PRIVATE, "public": PUBLIC, "loss": "log_loss", "cv": 2}
        about |= {"progress": False, "ledger": 1.0, **options}
        about["ledger"] = folder / "l.db" if about["ledger"] is None else ledger_in(folder, about["ledger"])
        choice = dptune_optuna.choose(about.pop("study"), about.pop("train"), **about)
        return choice.params, choice.summary(), choice.selection, workers.copy()

    compare(outcome, call, CHOOSE, of(dptune_optuna.choose))


@pytest.mark.parametrize("front", ["dptune_optuna", "dptune_ray"])
@pytest.mark.parametrize("flag", ["even_if_hopeless", "dry_run", "averages"])
def test_every_option_of_a_front_end_arrives(monkeypatch: pytest.MonkeyPatch, front: str, flag: str) -> None:
    """Each is given a value of its own; of the options that are yes or no one is yes."""
    module = pytest.importorskip(f"{front}.choice")
    given = {name: object() for name in ChoiceOptions.__dataclass_fields__}
    given |= {"loss": "brier", "public": PUBLIC, "cv": KFold(2)}
    given |= {"even_if_hopeless": False, "dry_run": False, "averages": False, flag: True}
    seen: list[Any] = []

    def chosen(_: Any, __: Any, options: Any, *more: Any) -> Any:
        seen.append(options)
        raise StopIteration

    monkeypatch.setattr(module, "choose_among", chosen)
    if front == "dptune_ray":
        monkeypatch.setattr(module, "_ranked", lambda *about, **how: [SimpleNamespace(place=0, checkpoint=None)])
        results: Any = type("Results", (list,), {"experiment_path": "x"})([SimpleNamespace(config={}, error=None)])
    else:
        results = study_of(CS)
    with pytest.raises(StopIteration):
        module.choose(results, train, **given)
    assert vars(seen[0]) == given
    assert of(module.choose) - set(given) <= {
        "study", "results", "train", "load", "n_jobs", "progress", "metric", "mode", "task_options"
    }  # fmt: skip


# ---- report --------------------------------------------------------------------------------------------------

MODEL, MODEL_B = (LogisticRegression(C=C).fit(*PUBLIC) for C in (1.0, 1e-2))
SCORES = np.linspace(0.05, 0.95, 80)
REPORT: Rows = {
    "model": (USUAL, MODEL_B),
    "ledger": (USUAL, 2.0),
    "data": (USUAL, OTHER),
    "public": (USUAL, OTHER_PUBLIC),
    "held_out": (OTHER, PRIVATE, {"public": None}),
    "groups": (USUAL, np.arange(120) // 2),
    "n": (120, 60, {"data": lambda: PRIVATE, "groups": None}),
    "mu": (USUAL, 0.8),
    "name": (USUAL, "another"),
    "by": (USUAL, 2),
    "positive": (USUAL, 0),
    "threshold": (USUAL, 0.6),
    "scores": (USUAL, SCORES),
    "cv": (USUAL, 2),
    "fit_params": (USUAL, {"sample_weight": np.linspace(0.1, 2, 80)}),
    "bins": (USUAL, 4),
}


def test_arguments_of_a_report(outcome: Any) -> None:
    def call(folder: Path, **options: Any) -> object:
        about = {"model": MODEL, "data": PRIVATE, "public": PUBLIC, "ledger": 1.0, **options}
        about["ledger"] = ledger_in(folder, about["ledger"])
        found = dptune.report(about.pop("model"), about.pop("ledger"), **about)
        return found.to_dict(), str(found), found.to_markdown()

    compare(outcome, call, REPORT, of(dptune.report))


# ---- PrivateSearch ---------------------------------------------------------------------------------------------


def places(X: Any, y: Any) -> dptune.Places:
    parts = {"north": slice(0, 50), "south": slice(50, 120)}
    return dptune.Places([dptune.Place(name, (X[part].copy(), y[part].copy())) for name, part in parts.items()])


GRID = GridSearchCV(LogisticRegression(C=1e-3), {"C": CS[1:]}, cv=2)
SEARCH: Rows = {
    "estimator": (USUAL, GridSearchCV(LogisticRegression(C=1e-3), {"C": CS[2:]}, cv=2)),
    "ledger": (USUAL, 2.0),
    "loss": (USUAL, "brier"),
    "clip": (USUAL, (0, 1)),
    "default": ({"C": 1e-3}, {"C": 1e-2}),
    "budget": (*BUDGETS, {"ledger": None}),
    "mu": (0.3, 0.6),
    "report_share": (USUAL, 0.4),
    "public_weight": (USUAL, 0.01),
    "estimate_share": (USUAL, 0.3),
    "even_if_hopeless": (False, True, {"mu": 0.01}),
    "averages": (USUAL, True),
    "n_jobs": (USUAL, 2),
    "random_state": (
        0,
        1,
        {"estimator": GridSearchCV(LogisticRegression(C=1e-3), {"C": CS}, cv=KFold(2, shuffle=True))},
    ),
    "name": (USUAL, "another"),
    "verbose": (USUAL, 1),
}
FIT: Rows = {
    "X": (USUAL, PUBLIC[0] * [1, 2, 1]),
    "y": (USUAL, np.where(np.arange(80) < 9, 1 - PUBLIC[1], PUBLIC[1])),
    "X_val": (USUAL, PRIVATE[0] * [1, 2, 1]),
    "y_val": (USUAL, 1 - PRIVATE[1]),
    "data": (places(*PRIVATE), places(*OTHER), {"X_val": None, "y_val": None}),
    "groups": (USUAL, np.arange(120) // 2),
    "train_groups": (None, np.arange(80) // 2, {"estimator": "grouped"}),
    "options": (USUAL, {"sample_weight": np.linspace(0.1, 5, 80)}),
}


def test_arguments_of_a_private_search(outcome: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = counted(monkeypatch)

    def call(folder: Path, **options: Any) -> object:
        jobs.clear()
        about: dict[str, Any] = {"estimator": GRID, "ledger": 1.0, "loss": "log_loss", **options}
        about["ledger"] = folder / "l.db" if about["ledger"] is None else ledger_in(folder, about["ledger"])
        search = PrivateSearch(**about).fit(*PUBLIC, X_val=PRIVATE[0], y_val=PRIVATE[1])
        return search.best_params_, search.summary(), search.selection_, str(search.released_), jobs.copy()

    compare(outcome, call, SEARCH, of(PrivateSearch))


def searched(folder: Path, options: dict[str, Any]) -> tuple[PrivateSearch, dict[str, Any]]:
    grouped = GridSearchCV(LogisticRegression(C=1e-3), {"C": CS}, cv=GroupKFold(2))
    estimator = grouped if options.pop("estimator", "") == "grouped" else GRID
    search = PrivateSearch(estimator, ledger=ledger_in(folder), loss="log_loss", report_share=0.3)
    about = {"X": PUBLIC[0], "y": PUBLIC[1], "X_val": PRIVATE[0], "y_val": PRIVATE[1], **options}
    return search, {**about, **about.pop("options", {})}


def test_arguments_of_fit_plan_and_the_searchs_report(outcome: Any) -> None:
    def fit(folder: Path, **options: Any) -> object:
        search, about = searched(folder, options)
        search.fit(**about)
        return search.best_params_, search.summary(), search.selection_

    def plan(folder: Path, **options: Any) -> object:
        search, about = searched(folder, options)
        about = {name: value for name, value in about.items() if name not in ("X_val", "y_val")}
        return str(search.plan(**{"n": 120, **about}))

    def report(folder: Path, **options: Any) -> object:
        search, about = searched(folder, options)
        plain = {"X": PUBLIC[0], "y": PUBLIC[1], "X_val": PRIVATE[0], "y_val": PRIVATE[1]}
        search.fit(**{**plain, **({"groups": about["groups"]} if "groups" in about else {})})
        settings = about.pop("settings", {})
        return str(search.report(**about, **settings))

    compare(outcome, fit, FIT, of(PrivateSearch.fit))
    of_plan = {name: row for name, row in FIT.items() if name in of(PrivateSearch.plan)}
    compare(outcome, plan, {**of_plan, "n": (USUAL, 140)}, of(PrivateSearch.plan))
    of_report = {name: row for name, row in FIT.items() if name in of(PrivateSearch.report)}
    of_report["train_groups"] = (USUAL, np.arange(80) // 2)
    of_report |= {"model": (USUAL, MODEL_B), "settings": (USUAL, {"bins": 4})}
    compare(outcome, report, of_report, of(PrivateSearch.report))


# ---- a certificate, a statement, a curator -----------------------------------------------------------------------


def test_arguments_of_a_certificate(outcome: Any) -> None:
    def call(folder: Path, mu: float, delta: float, **options: Any) -> object:
        ledger = ledger_in(folder, mu)
        dptune.report(MODEL, ledger, data=PRIVATE, public=PUBLIC, mu=0.3)
        dptune.report(MODEL, ledger, data=PRIVATE, public=PUBLIC, mu=0.3, name="again")
        data = certificate.certificate(ledger, ledger.statement(delta=delta), **options)
        return {name: value for name, value in data.items() if name not in ("date", "ledger")}

    def made(folder: Path, ledger: float = 1.0, stated: float = 1e-5, **options: Any) -> object:
        return call(folder, ledger, stated, **options)

    rows: Rows = {"ledger": (USUAL, 2.0), "stated": (1e-5, 1e-6), "rows": (None, 1), "values": (False, True)}
    compare(outcome, made, rows, of(certificate.certificate))


def test_arguments_of_an_outsourced_curator(outcome: Any) -> None:
    def call(folder: Path, /, **options: Any) -> object:
        about: dict[str, Any] = {"ledger": 1.0, "table": X[:30], "scale": 1.0, "row_norm": 5.0, "folder": "own"}
        about |= {"outputs": PublicOutputs(float, because="they are printed"), "noise": NoNoise(), **options}
        export = {"shared": "a", "mu": 0.5, "key": "table"}
        export |= {name: about.pop(name) for name in export if name in about}
        serve = {"shared": export["shared"], "rounds": 1} | about.pop("serve", {})
        budget, change = dptune.Budget.gdp(about.pop("ledger")), about.get("max_change")
        ledger = dptune.PrivacyLedger(folder / "ledger.db", budget, max_change=change)
        curator = OutsourcedCurator(ledger, about.pop("table"), **{**about, "folder": folder / about["folder"]})
        charge = curator.export(folder / export.pop("shared"), **export)
        for shared in ("a", "b"):
            (folder / shared).mkdir(exist_ok=True)
            Exchange(folder / shared).ask(3)
        curator.serve(folder / serve["shared"], rounds=1)
        Exchange(folder / serve["shared"]).ask(4)
        curator.serve(folder / serve["shared"], rounds=serve["rounds"])
        files = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        return charge.description, {name: data for name, data in files.items() if ".db" not in name}

    others = {"ledger": 2.0, "table": -X[:30], "scale": 2.0, "row_norm": 1.0, "folder": "mine", "middle": 1.0}
    others |= {"outputs": PublicOutputs(abs, because="all know them"), "max_change": 1.0, "projection": 2 * np.eye(3)}
    rows = {name: (USUAL, other) for name, other in {**others, "noise": SeededNoise(0)}.items()}
    compare(outcome, call, rows, of(OutsourcedCurator))
    rows = {name: (USUAL, other) for name, other in {"shared": "b", "mu": 0.6, "key": "other"}.items()}
    compare(outcome, call, rows, of(OutsourcedCurator.export))
    for served in ({"shared": "b"}, {"rounds": 2}):
        assert outcome(call) != outcome(partial(call, serve=served))
    assert of(OutsourcedCurator.serve) == {"shared", "rounds"}
