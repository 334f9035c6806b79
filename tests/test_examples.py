"""The examples run with fewer trials."""

import re
from pathlib import Path

import pytest

import dptune
from dptune.ledger.registry import About, record
from example_tools import run_shorter
from registry_schema import complaints

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
ELSEWHERE = (
    "choose_ray",
    "checkpoints_ray",
    "gibo_ray",
    "outsourced",
    "opacus",
)  # tests/ray_front, outsourced, training
PRINTED = {  # besides epsilon
    "hospitals": ("5 places", "place = north", "one patient"),
    "federated_landmine": ("3 of 3 releases", "at delta = 0.001"),
    "ldp_users": ("Monday: sent", "Tuesday: sent", "Wednesday: refused"),  # a phone with a cap of two
}
SLOW = (  # the first runs as it stands in `make demo`; pages have the lines of the others, which quick tests run
    *("choose_optuna", "gibo_optuna", "ldp_optuna", "lightgbm_native", "xgboost_tabular"),
)
LENGTHS = {
    "opacus_public_odds": 120,
    "checkpoints_ray": 74,
    **dict.fromkeys(("own_algorithm", "opacus_mlp", "outsourced_attack"), 61),
}


def marked(path: Path):
    torch = path.stem.startswith("torch")  # `make test-torch` runs them
    marks = [pytest.mark.torch] if torch else [pytest.mark.slow] if path.stem in SLOW else []
    return pytest.param(path.stem, marks=marks, id=path.stem)


@pytest.mark.parametrize("example", [marked(path) for path in EXAMPLES if not path.stem.startswith(ELSEWHERE)])
@pytest.mark.filterwarnings("default")  # with few trials: that they are few
def test_a_short_run_of_an_example_prints_its_statement(example, tmp_path, monkeypatch, capsys, caplog):
    if example.startswith("torch"):
        pytest.importorskip("torch")
    monkeypatch.setenv("DPTUNE_DATA", str(tmp_path))  # where the landmine data are not
    run_shorter(example, tmp_path, monkeypatch)
    printed, errors = capsys.readouterr()
    assert [words for words in ("epsilon", *PRINTED.get(example, ())) if words not in printed] == []
    assert "NOT PRIVATE" not in printed
    assert "sent nothing" not in errors + caplog.text  # by an agent whose round went without it
    if example == "choose_optuna":  # the one of `make demo`
        statement = dptune.PrivacyLedger(tmp_path / "choose_optuna.db").statement(delta=1e-5)
        assert complaints(record(statement, About.read(ROOT / "examples/about.toml"))) == []


def test_an_example_is_short_and_has_files_of_its_own() -> None:
    """Run one after another in one folder, no example finds another one's ledger or study."""
    texts = {path.stem: path.read_text() for path in EXAMPLES}
    assert [name for name, text in texts.items() if len(text.splitlines()) > LENGTHS.get(name, 40)] == []
    named = [name for text in texts.values() for name in set(re.findall(r"[\w]+\.db", text))]
    assert len(named) > 8
    assert sorted(named) == sorted(set(named))


def test_the_folder_of_an_example_may_be_left_out() -> None:
    files = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "examples").rglob("*.py")}
    bare = {name for name, text in files.items() if "sys.argv[1]" in text and "if len(sys.argv) > 1 else" not in text}
    assert bare == set()
