"""The examples run, shorter than they stand."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from example_tools import run_shorter
from registry_schema import complaints

import dptune
from dptune.ledger import About, record

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# tests/ray_front/test_example.py, tests/outsourced, tests/training, and two below
ELSEWHERE = ("ray", "outsourced", "opacus", "federated", "ldp_users")
SLOW = (  # the first runs as it stands in `make demo`; pages have the lines of the others, which quick tests run
    *("public_first_optuna", "gibo_optuna", "ldp_optuna", "lightgbm_native", "pruning_optuna", "sklearn_pipeline"),
    *("svm_optuna", "xgboost_tabular"),
)
LENGTHS = {"opacus_public_odds": 120, **dict.fromkeys(("own_algorithm", "opacus_mlp", "outsourced_attack"), 60)}
LENGTHS |= dict.fromkeys(("public_first_optuna", "sklearn_pipeline"), 60)


def marked(path: Path) -> pytest.ParameterSet:
    torch = path.stem.startswith(("torch", "skorch"))  # `make test-torch` runs them
    marks = [pytest.mark.torch] if torch else [pytest.mark.slow] if path.stem in SLOW else []
    return pytest.param(path.stem, marks=marks, id=path.stem)


@pytest.mark.parametrize("example", [marked(path) for path in EXAMPLES if not path.stem.startswith(ELSEWHERE)])
@pytest.mark.filterwarnings("default")  # with few trials: that they are few
def test_a_short_run_of_an_example_prints_its_statement(example, tmp_path, monkeypatch, capsys):
    for library in ("torch", "skorch"):
        if example.startswith(library):
            pytest.importorskip(library)
    run_shorter(example, tmp_path, monkeypatch)
    printed, errors = capsys.readouterr()
    assert "epsilon" in printed
    assert "NOT PRIVATE" not in printed
    assert "sent nothing" not in errors
    if example == "public_first_optuna":  # the one of `make demo`
        statement = dptune.PrivacyLedger(tmp_path / "public_first.db").statement(delta=1e-5)
        assert complaints(record(statement, About.read(ROOT / "examples/about.toml"))) == []


def test_the_federated_example_runs_without_the_landmine_data(tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.setenv("DPTUNE_DATA", str(tmp_path))
    run_shorter("federated_landmine", tmp_path, monkeypatch)
    printed, errors = capsys.readouterr()
    assert "3 of 3 releases" in printed
    assert "NOT PRIVATE" not in printed
    assert "at delta = 0.001" in printed
    assert "sent nothing" not in errors + caplog.text


def test_an_example_is_short_and_has_files_of_its_own() -> None:
    """Run one after another in one folder, no example finds another one's ledger or study."""
    texts = {path.stem: path.read_text() for path in EXAMPLES}
    assert [name for name, text in texts.items() if len(text.splitlines()) > LENGTHS.get(name, 40)] == []
    named = [name for text in texts.values() for name in set(re.findall(r"[\w]+\.db", text))]
    assert len(named) > 8
    assert sorted(named) == sorted(set(named))


def test_no_phone_of_the_example_replies_past_its_cap(tmp_path, monkeypatch, capsys):
    reads = Counter()

    class Tastes(np.ndarray):
        def __getitem__(self, index):
            reads.update([index] if isinstance(index, int) else [])
            return super().__getitem__(index)

    drawn = np.random.default_rng(0).normal
    people = SimpleNamespace(normal=lambda *args: drawn(*args).view(Tastes))
    monkeypatch.setattr(np.random, "default_rng", lambda seed: people)
    made = run_shorter("ldp_users", tmp_path, monkeypatch)
    counts = Counter(reads.values())
    assert counts == {1: made["phones"], 2: 1}  # one phone has a ledger, with a cap of two
    printed = capsys.readouterr().out
    assert "refused" in printed
    assert "epsilon" in printed
    assert "NOT PRIVATE" not in printed
