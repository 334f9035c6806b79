"""Every code block of the README and the pages runs. A block that cannot run here is at least parsed."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pytest
import sqlalchemy as sa
from optuna.distributions import FloatDistribution
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

import dptune
import dptune_optuna
from benchmarks.choose import __main__ as budgets
from dptune.cli import app
from dptune.cli.releases import release_rows
from dptune.cli.shared import budget_and_spent
from dptune.ledger import schema
from dptune.outsourced.outputs import PublicOutputs
from dptune_optuna import CentredSampler, DPFTSSampler, LDPTGPSampler, LocalObjective
from dptune_optuna.choice import choices_of
from dptune_sklearn import PrivateSearch
from page_tools import PAGES, ROOT, ROWS, TRAIN, X, blocks, dptune_prints, page, run

if TYPE_CHECKING:
    from conftest import PostgresqlServer

ELSEWHERE = {  # page -> the test that runs its blocks
    "docs/cli.md#audit-your-own-objective": "tests/audit_room/test_own_audit.py",
    "docs/optuna.md#a-public-study-one-private-choice": "tests/optuna_front/test_public_study.py",
    "docs/optuna.md#a-search-that-knows-the-noise": "tests/optuna_front/test_known_noise.py",
    "docs/optuna.md#mlflow": "tests/optuna_front/test_mlflow.py",
    "docs/resume.md": "tests/optuna_front/test_resumed_studies.py",
}
KEYS = re.compile(r"^(?:Plan|Spends|Shows|Risk|Stop|Chosen|Public rows predicted|Budget left|Next)\b", re.MULTILINE)
READ = {  # page -> why its blocks are compiled here, and not run
    "docs/what-breaks-the-promise.md": "wrong beside right: tests/docs/test_wrong_and_right.py runs them",
    "docs/ray.md": "needs a cluster: tests/ray_front/test_example.py runs it there",
    "docs/tutorial_ray.md": "needs a cluster: tests/ray_front/test_example.py runs it there",
}
ALONE = "docs/centred.md#without-a-framework"
SELECTION = "docs/centred.md#one-of-many-models-paid-once"
PRUNING, PRIVATE = "docs/pruning.md", "docs/optuna.md#a-private-search"
RUN = {"README.md", "docs/choose.md", "docs/outsourced.md", "docs/public.md", "docs/sklearn.md", "docs/training.md",
       "docs/tutorial_optuna.md", "docs/federated.md", "docs/ldp.md", "docs/places.md", "docs/report.md",
       "docs/tutorial_sklearn.md",
       "docs/cli.md#look-at-a-ledger", "docs/cli.md#a-record-to-sign",
       "docs/cli.md#certificates", ALONE, SELECTION, PRUNING, PRIVATE,
       "docs/next_quarter.md", "docs/no_public_rows.md", "docs/postgresql.md"}  # fmt: skip


pytestmark = pytest.mark.usefixtures("own_folder")


def privatizer(file: str = "ledger.db", mu: float = 1.0) -> dptune.LossPrivatizer:
    return dptune.LossPrivatizer(dptune.PrivacyLedger(file, dptune.Budget.gdp(mu=mu)), n=400, clip=(0.0, 1.0))


def test_no_page_with_code_is_left_out() -> None:
    listed = [*RUN, *ELSEWHERE, *READ]
    for path in PAGES:
        name = path.relative_to(ROOT).as_posix()
        parts = [each for each in listed if each.partition("#")[0] == name]
        assert len(code_of(name)) == sum(len(code_of(part)) for part in parts), f"{name} has code that no test runs"
    for name, test in ELSEWHERE.items():
        assert Path(name).name.partition("#")[0] in (ROOT / test).read_text(), f"{test} does not read {name}"


def code_of(name: str) -> list[tuple[str, str]]:
    return blocks(page(name), "python", "console")


def test_the_first_two_readme_scripts_run_and_a_rerun_is_free(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fewer = {"n_iter=60": "n_iter=6", "n_trials=60": "n_trials=6"}
    run("README.md", only=slice(1), instead=fewer)
    first = capsys.readouterr().out
    assert "by one private choice among" in first
    run("README.md", only=slice(2), instead=fewer)
    both = capsys.readouterr().out
    assert "data= played no part" in both
    assert scores(both) == scores(first)
    assert len(scores(first)) == 3
    assert "mean loss" in first or "Keep the default" in first
    assert both.count("by one private choice among") == 2
    assert len(page("README.md").splitlines()) <= 120


def scores(printed: str) -> list[str]:
    """Lines of a report: the summary above them has more lines after some draws than after others."""
    return [line for line in printed.splitlines() if re.match(r"\w+_score: ", line)]


def test_the_page_of_the_public_choice_runs() -> None:
    known = run("docs/public.md")
    assert known["chosen"].improvement is not None or known["chosen"].index == 10


@pytest.mark.slow
@pytest.mark.parametrize("name", ["docs/tutorial_optuna.md", "docs/tutorial_sklearn.md", PRIVATE])
def test_a_tutorial_runs_and_prints_what_it_says(
    name: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    run(name)
    printed = "\n".join([*capfd.readouterr(), *caplog.messages])
    for _, text in blocks(page(name), "text"):
        for line in text.splitlines():
            assert line in printed or "..." in line
    for _, text in blocks(page(name), "output"):  # of one run: the numbers of another one differ
        assert {key for key in KEYS.findall(text) if f"\n{key}" not in f"\n{printed}"} == set()


def test_the_pages_of_the_command_line_print_what_they_show() -> None:
    held = privatizer()
    held.observe("0", np.linspace(0.0, 1.0, 400))
    held.release(held.mean_query("0", mu=0.5), scope="svm", key="value/0")
    run("docs/cli.md#look-at-a-ledger")
    commands = {(command.name or command.callback.__name__).replace("_", "-") for command in app.registered_commands}
    assert commands >= {"statement", "plan"}
    assert {name for name in commands if f"`{name}`" not in page("docs/cli.md")} == set()
    run("docs/cli.md#a-record-to-sign")
    shown = f"{{{next(text for _, text in blocks(page('docs/cli.md#a-record-to-sign'), 'json'))}}}"
    (row, *_), known = release_rows(held.ledger), budget_and_spent(held.ledger)
    for example, printed in zip(json.loads(shown)["releases"], (row, row), strict=True):
        assert [*example] == [name for name in printed if name != "what"]
    assert {name: [*json.loads(shown)[name]] for name in known} == {name: [*facts] for name, facts in known.items()}


def test_the_page_of_the_next_quarter_runs(capsys: pytest.CaptureFixture[str]) -> None:
    study = run("docs/next_quarter.md")["study"]
    assert [kept["ledger"] for kept in choices_of(study).values()].count("q2") == 1
    assert re.search(r"q1 .*\nq2 .*\n", capsys.readouterr().out)


def test_the_page_of_no_public_rows_runs() -> None:
    known = run("docs/no_public_rows.md")
    assert known["train"].count() == known["plan"].charges == len(known["models"])
    printed = dptune_prints("dptune statement train.db val.db --disjoint")
    assert "epsilon = 1 at delta = 1e-05, for one patient" in printed


def test_the_certificates_of_the_page_are_printed(tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples/about.toml", tmp_path)
    run("docs/cli.md#certificates")


def test_a_search_without_a_framework_runs_and_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(ALONE)["run"].complete
    first = capsys.readouterr().out
    assert "Privacy statement" in first
    run(ALONE)
    assert capsys.readouterr().out == first


def test_the_page_of_private_selection_runs() -> None:
    known = run(SELECTION, {**ROWS, "SVC": SVC, "dptune": dptune, "privatizer": (payer := privatizer()),
                "ledger": payer.ledger, "Cs": [0.1, 1.0, 10.0], "gammas": [1e-4, 1e-3],
                "usual": SVC().fit(*TRAIN)})  # fmt: skip
    assert 0 <= known["chosen"].index < 7
    assert known["ledger"].fact("or as it was", "plan")["default"] == 0


def logistic(trial: optuna.Trial) -> LogisticRegression:
    return LogisticRegression(C=trial.suggest_float("C", 1e-3, 1e3, log=True)).fit(*TRAIN)


def test_the_page_of_scikit_learn_runs() -> None:
    made = {"ledger": privatizer("search.db").ledger, "estimator": LogisticRegression()}
    rest = {"patient_of_row": np.arange(400), "X_new": X[:3]}
    Path("patients.csv").write_text("age,sick\n" + "50,1\n" * 9 + "?,0\n")
    known = run("docs/sklearn.md", {**ROWS, **made, **rest, "PrivateSearch": PrivateSearch})
    assert [len(known[half]) for half in ("X_train", "y_train", "X_val", "y_val")] == [4, 4, 6, 6]


def test_the_page_of_reports_runs(tmp_path: Path) -> None:
    known = run("docs/report.md")
    assert known["report"].roc_auc_score.value > 0.6
    assert (tmp_path / "report.png").exists()


def test_the_page_of_budgets_holds_what_its_command_prints() -> None:
    for each in (budgets.risks(), budgets.epsilons(), budgets.deltas(), budgets.mus()):
        assert each in page("docs/choose.md")
    run("docs/choose.md")


def test_the_page_of_private_training_runs(tmp_path: Path) -> None:
    run("docs/training.md", only=slice(1))
    compile(blocks(page("docs/training.md"), "python")[1][1], "training.md", "exec")  # Opacus is not in every CI

    def objective(trial: optuna.Trial) -> tuple[float, np.ndarray]:
        return trial.suggest_float("rate", 0.0, 1.0), np.full(3000, 0.5)

    with contextlib.chdir(tempfile.mkdtemp(dir=tmp_path)):
        known = run("docs/training.md", {"study": optuna.create_study(), "objective": objective}, only=slice(2, 3))
    assert known["val"].count() == 1
    assert len(blocks(page("docs/training.md"), "python", "console")) == 3


def test_both_halves_of_outsourced_tuning_run() -> None:
    (_, curator), (_, modeler) = blocks(page("docs/outsourced.md"), "python")
    soil = np.random.default_rng(0).normal(size=(60, 2)) * 0.1 + [6.0, 3.0]
    trusted = {"dptune": dptune, "soil": soil, "PublicOutputs": PublicOutputs, "measure": lambda row: 6.0}
    Path("curators_own").mkdir()
    with ThreadPoolExecutor(2) as pool:
        serving = pool.submit(exec, curator.replace("rounds=30", "rounds=1"), trusted)
        asking = pool.submit(exec, modeler, {"dptune": dptune, "Exchange": dptune.outsourced.Exchange})
        for half in (serving, asking):
            half.result()  # each half gives up after ten minutes
    assert trusted["ledger"].spent() > 0


def test_the_page_on_local_privacy_runs() -> None:
    names = {"dptune": dptune, "optuna": optuna, "RBF": dptune.search.gp.RBF, "LDPTGPSampler": LDPTGPSampler}
    names |= {name: getattr(dptune.local, name) for name in ("LDPTGP", "LDPSettings", "HybridReplies")}
    names |= {"measure": lambda setting: setting, "setting": 0.3, "candidates": [[0.0], [0.5], [1.0]]}
    names |= {"LocalObjective": LocalObjective, "space": {"x": FloatDistribution(0, 1)}, "url": "sqlite:///s.db"}
    names["satisfaction"] = lambda trial: trial.suggest_float("x", 0, 1)
    device = run("docs/ldp.md", names, only=slice(1))
    device["reply_of_the_device"] = lambda parameters: device["randomizer"].randomize(parameters["x"])
    known = run("docs/ldp.md", device, only=slice(1, 2))
    assert [trial.state.name for trial in known["study"].trials] == ["COMPLETE"] * 2
    assert known["ledger"].remaining("me") == 0


def test_two_places_choose_and_report_on_their_page(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = ROWS["X_val"], ROWS["y_val"]
    parts = {"north": slice(0, 150), "south": slice(150, 400)}
    names = {f"{one}_{name}": rows[part].copy() for name, part in parts.items() for one, rows in (("X", X), ("y", y))}
    study = optuna.create_study(study_name="models", sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(lambda trial: trial.suggest_float("C", 1e-4, 1.0, log=True), n_trials=4)

    def train(trial: Any, X: Any, y: Any) -> Any:
        return LogisticRegression(C=trial.params["C"]).fit(X, y)

    known = {"dptune": dptune, "dptune_optuna": dptune_optuna, "study": study, "train": train, **names}
    run("docs/places.md", {**known, "X_train": TRAIN[0], "y_train": TRAIN[1]}, only=slice(1))
    printed = capsys.readouterr().out
    assert all(words in printed for words in ("one private choice", "place = north", "2 places", "one patient"))


def test_the_agents_of_the_federated_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    space = {"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)}
    names = {"dptune": dptune, "optuna": optuna, "DPFTSSampler": DPFTSSampler, "space": space}
    study = run("docs/federated.md", names, only=slice(1))["study"]
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1) - trial.suggest_float("y", 0, 1), n_trials=3)
    assert "zero out one agent" in capsys.readouterr().out


def digits() -> dict[str, Any]:
    """Rows, and small networks for them."""
    X, y = load_digits(return_X_y=True)
    parts = {"val": slice(400), "stop": slice(400, 450), "train": slice(450, 600)}
    rows = {f"{one}_{part}": held[which].copy() for part, which in parts.items() for one, held in (("X", X), ("y", y))}
    return {**rows, "MLPClassifier": partial(MLPClassifier, 4, random_state=0)}


def test_a_study_for_choose_prunes_as_usual() -> None:
    known: dict[str, Any] = {**digits(), "optuna": optuna, "log_loss": partial(log_loss, labels=range(10))}
    known |= {"dptune_optuna": dptune_optuna, "ledger": privatizer("pruned.db").ledger}
    _, code = blocks(page(PRUNING), "python")[0]
    code = code.replace("n_trials=40", "n_trials=8").replace("range(1, 21)", "range(1, 3)")
    seeded = "MedianPruner(n_startup_trials=2), sampler=optuna.samplers.RandomSampler(seed=0)"
    exec(code.replace("MedianPruner()", seeded), known)
    assert "PRUNED" in {trial.state.name for trial in known["study"].trials}
    assert known["choice"].params in [trial.params for trial in known["study"].trials]
    assert known["choice"].model.predict(known["X_val"]).shape == (400,)


def test_trials_of_the_page_of_pruning_end() -> None:
    space = {"rate": FloatDistribution(1e-4, 1e-1, log=True)}
    sampler = CentredSampler(privatizer(mu=100.0), space, n_trials=8, seed=1)  # noise would lead to what is pruned
    known = {"optuna": optuna, "log_loss": partial(log_loss, labels=range(10)), "sampler": sampler, **digits()}
    _, code = blocks(page(PRUNING), "python")[1]
    code = code.replace("range(1, 21)", "range(1, 4)")
    code = code.replace("MedianPruner()", "MedianPruner(n_startup_trials=8)")  # else noise may stop all that comes
    exec(code, known)
    assert known["sampler"].run_of(known["study"]).complete


def test_the_page_on_postgresql_sets_up_a_ledger_with_the_least_rights(postgresql_server: PostgresqlServer) -> None:
    names: dict[str, Any] = {}
    for language, code in blocks(page("docs/postgresql.md#set-up"), "sql", "python"):
        if language == "sql":
            postgresql_server.run(code)
            continue
        here = f"@/postgres?host={postgresql_server.folder}&options"
        exec(code.replace("@db.example.org/dptune?options", here), names)
    made = names["ledger"]
    assert (made.dataset, made.budget) == ("patients 2025", dptune.Budget.gdp(1.0))
    of_two = dptune.LossPrivatizer(made, n=2, clip=(0.0, 1.0))
    of_two.observe("x", [0.0, 1.0])
    released = of_two.release(of_two.mean_query("x", 0.5), scope="s", key="1")
    made.raise_budget(dptune.Budget.gdp(2.0))
    reader = dptune.PrivacyLedger(postgresql_server.url(user="reader", schema="patients"))
    assert reader.find("s", "1").value == (released.scalar,)
    with pytest.raises(dptune.LedgerError, match="permission denied"):
        reader.fix("s", "name", 1)
    for statement in ("UPDATE dptune_ledger SET mu = 9", "DELETE FROM dptune_charges", "TRUNCATE dptune_facts"):
        with schema.connect(made.url).connect() as connection, pytest.raises(sa.exc.DBAPIError, match=r"only|denied"):
            connection.exec_driver_sql(statement)
