"""What a command prints can be read in a narrow terminal, and output that cannot be written is one line."""

import io
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from dptune import Budget, LedgerError, PrivacyLedger
from dptune.cli import app, main, shared
from dptune.cli.releases import release_rows
from ledger_tools import edit, pay

pytestmark = pytest.mark.usefixtures("own_folder")
FULL = Path("/dev/full")


def ends(monkeypatch: pytest.MonkeyPatch, command: str) -> object:
    """Run a command as from a shell, and return what it exits with."""
    monkeypatch.setattr(sys, "argv", ["dptune", *command.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


# ---- narrow terminals ------------------------------------------------------------------------------------


@pytest.fixture
def releases() -> list[dict[str, object]]:
    """A ledger with a release of long fields, one of empty fields and a name that looks like markup."""
    ledger = PrivacyLedger("x.db", Budget.gdp(2.0))
    for key, scope in (("a", "svm"), ("b", "run [/x] " + "long" * 40)):
        ledger.record(pay(ledger, key, 0.1, scope=scope), [0.25, 3.0])
    pay(ledger, "lost", 0.1)
    return release_rows(ledger)


@pytest.mark.parametrize("width", [40, 80])
def test_a_table_wider_than_its_terminal_has_a_line_for_each_entry(
    releases: list[dict[str, object]], width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "Console", partial(Console, force_terminal=True))
    done = CliRunner().invoke(app, ["show", "x.db", "--releases"], env={"COLUMNS": str(width), "NO_COLOR": "1"})
    _, *lines = done.output.split("\n")
    blocks = [block.split("\n") for block in "\n".join(lines).rstrip("\n").split("\n\n")]
    assert len(blocks) == len(releases)
    for block, row in zip(blocks, releases, strict=True):
        entries = dict(line.split(": ", 1) for line in block)
        assert list(entries) == [name for name, value in row.items() if value is not None]
        assert (entries["study"], entries["release"], entries["private"]) == (row["study"], row["release"], "yes")
    assert blocks[0][3] == "value: 0.25, 3"


def test_a_column_without_a_name_is_listed_without_a_colon(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of ``dptune compare``, whose first column names the facts."""
    monkeypatch.setattr(shared, "Console", partial(Console, force_terminal=True, width=40, no_color=True))
    rows = [{"": "verdict", "q1.db": "better", "q2.db": "x" * 40}, {"": "improvement", "q1.db": "0.1", "q2.db": ""}]
    shared.print_contents(shared.Contents("two", {"private": True, "rows": rows}, "rows"))
    said = f"two\nverdict\nq1.db: better\nq2.db: {'x' * 40}\n\nimprovement\nq1.db: 0.1\n"
    assert capsys.readouterr().out == said


def test_a_table_that_fits_its_terminal_and_one_in_a_pipe_stay_tables(
    releases: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    show = partial(CliRunner().invoke, app, ["show", "x.db", "--releases"])
    piped = show(env={"COLUMNS": "40"}).output
    assert all(f" {row['study']} " in piped for row in releases)
    monkeypatch.setattr(shared, "Console", partial(Console, force_terminal=True))
    assert show(env={"COLUMNS": "900", "NO_COLOR": "1", "TERM": "dumb"}).output.count("\u2502") > len(releases)


# ---- output that cannot be written ----------------------------------------------------------------------


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    "command",
    ["show x.db", "show x.db --format json", "certificate x.db", "statement x.db", "convert --mu 1", "--help"],
)
def test_output_to_a_full_disk_ends_in_one_line(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pay(PrivacyLedger("x.db", Budget.approximate_dp(4.0, 1e-5)), "a", 0.1)
    with FULL.open("w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert ends(monkeypatch, command) == "dptune: the output cannot be written: No space left on device."


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_the_interpreter_does_not_try_the_output_once_more(unbuffered: str) -> None:
    env = {"PYTHONUNBUFFERED": unbuffered, "PYTHONPATH": ":".join(sys.path)}
    run = [sys.executable, "-c", "from dptune.cli import main; main()", "convert", "--mu", "1"]
    with FULL.open("w") as stream:
        done = subprocess.run(run, stdout=stream, stderr=subprocess.PIPE, text=True, check=False, timeout=120, env=env)
    assert (done.returncode, done.stderr) == (1, "dptune: the output cannot be written: No space left on device.\n")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_output_that_its_encoding_lacks_ends_in_one_line(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pay(PrivacyLedger("x.db", Budget.gdp(1.0)), "a", 0.1, scope="\N{GREEK SMALL LETTER LAMDA}")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    says = f"dptune: the output cannot be written in {encoding}: set PYTHONIOENCODING=utf-8."
    assert ends(monkeypatch, "show x.db") == says


@pytest.mark.parametrize("error", [OSError("of a script"), UnicodeEncodeError("latin-1", "", 0, 0, "of a script")])
def test_an_error_that_is_not_of_the_output_passes(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("my.py").write_text(f"raise {error!r}\n")
    monkeypatch.setattr(sys, "argv", ["dptune", "audit", "my.py"])
    with pytest.raises(type(error), match="of a script"):
        main()


# ---- an environment or a ledger of another kind ----------------------------------------------------------


def test_a_backend_that_matplotlib_does_not_know_is_named() -> None:
    code = "from dptune._style import drawing\nwith drawing(): pass"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"MPLBACKEND": "foo", "PYTHONPATH": ":".join(sys.path)},
        stderr=subprocess.PIPE, text=True, check=False, timeout=120,
    )  # fmt: skip
    (line,) = done.stderr.splitlines()[-1:]
    assert line == (
        "dptune.errors.InputError: matplotlib does not load (Key backend: 'foo' is not a valid value for backend). "
        "Unset or correct MPLBACKEND."
    )


def test_a_ledger_of_an_unknown_kind_is_refused_by_all_openers() -> None:
    edit(PrivacyLedger("x.db", Budget.gdp(1.0)), "UPDATE dptune_ledger SET kind = 'later'")
    from dptune.training.ledger import open_ledger

    for opener in (PrivacyLedger, open_ledger):
        with pytest.raises(LedgerError, match=r"x\.db is of a kind that this dptune does not know: 'later'\. Open it"):
            opener("x.db")
