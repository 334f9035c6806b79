"""The walls of design.md, read from the source: who may import what, and who may build a released value."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dptune

PACKAGE = Path(dptune.__file__).parent
FILES = {p.relative_to(PACKAGE).as_posix(): ast.parse(p.read_text()) for p in PACKAGE.rglob("*.py")}
INTEGRATIONS = {
    p.relative_to(PACKAGE.parent).as_posix(): ast.parse(p.read_text())
    for p in (PACKAGE.parent / "integrations").rglob("*.py")
}
EVERYTHING = {**FILES, **INTEGRATIONS}


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield every imported module, and "module.name" for each name imported from one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def names(tree: ast.AST) -> set[str]:
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return found | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def calls(tree: ast.AST, name: str) -> int:
    return sum(
        isinstance(node, ast.Call)
        and (getattr(node.func, "id", None) == name or getattr(node.func, "attr", None) == name)
        for node in ast.walk(tree)
    )


WALLS = {  # folder or file -> what it must not import
    "algorithms/": (
        "dptune.accounting",
        "dptune.privacy.noise",
        "dptune.privacy.privatizer",
        "dptune.privacy.private",
        "dptune.privacy.rows",
        "dptune.search.agreement",
        "dptune.search.run",
        "dptune.session",
        "dptune.federated",
        "dptune.privacy.sampling",
        "dptune.centred",
        "sqlalchemy",
        "opendp",
    ),
    "gp/": (
        "dptune.privacy",
        "dptune.accounting",
        "dptune.algorithms",
        "dptune.search.agreement",
        "sqlalchemy",
        "opendp",
    ),
    "accounting/": ("dptune.privacy", "dptune.algorithms", "dptune.gp", "dptune.search.agreement", "opendp"),
    "federated/": (
        "dptune.gp",
        "dptune.search.agreement",
        "dptune.search.run",
        "dptune.session",
        "dptune.centred",
        "dptune.privacy.private.PerExampleLosses",
        "dptune.privacy.private.reveal",
        "dptune.privacy.privatizer",
        "sqlalchemy",
        "opendp",
    ),
    "privacy/": (
        "dptune.algorithms",
        "dptune.gp",
        "dptune.search.agreement",
        "dptune.search.run",
        "dptune.session",
        "dptune.centred",
    ),
    "local/": (
        "dptune.privacy",
        "dptune.accounting",
        "dptune.algorithms",
        "dptune.gp",
        "dptune.space",
        "numpy",
        "scipy",
        "sqlalchemy",
    ),
    "ldp_session.py": (
        "dptune.privacy",
        "dptune.accounting",
        "dptune.local",
        "dptune.search.agreement",
        "sqlalchemy",
        "opendp",
    ),
    "ldp_curator.py": (
        "dptune.privacy",
        "dptune.accounting",
        "dptune.local",
        "dptune.search.agreement",
        "sqlalchemy",
        "opendp",
    ),
    "space.py": ("dptune.privacy", "dptune.accounting"),
    "plan.py": ("dptune.privacy", "dptune.accounting"),
    "centred_plan.py": ("dptune.privacy", "dptune.accounting"),
}
RUNS = {"run.py", "search_run.py", "session.py", "centred.py", "values.py", "ldp_session.py", "ldp_curator.py"}
FRAMEWORKS = ("optuna", "ray", "sklearn", "torch", "matplotlib", "cmaes", "pandas", "dp_accounting", "typer", "rich")


@pytest.mark.parametrize("folder", WALLS)
def test_walls(folder: str) -> None:
    files = {name: tree for name, tree in FILES.items() if name.startswith(folder)}
    assert files, f"there is no dptune/{folder}: has it moved?"
    for name, tree in files.items():
        for module in imports(tree):
            hit = [wall for wall in WALLS[folder] if module == wall or module.startswith(wall + ".")]
            assert not hit, f"dptune/{name} imports {module}"


def test_no_algorithm_names_the_wrapper_of_private_losses() -> None:
    for name, tree in FILES.items():
        if name.startswith(("algorithms/", "gp/")):
            assert not names(tree) & {"PerExampleLosses", "LossPrivatizer", "PrivacyLedger", "reveal"}, name


def test_reveal_is_imported_by_the_privatizer_only() -> None:
    users = {name for name, tree in EVERYTHING.items() if "dptune.privacy.private.reveal" in set(imports(tree))}
    assert users == {"privacy/privatizer.py"}
    assert {name for name, tree in EVERYTHING.items() if "reveal" in names(tree)} == {"privacy/privatizer.py"}
    for name, tree in EVERYTHING.items():  # nor the module, from which it could be had, nor the slot itself
        assert "dptune.privacy.private" not in {
            a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names
        }
        if name != "privacy/private.py":
            assert "_PerExampleLosses__values" not in names(tree), name


def test_released_is_constructed_in_the_privatizer_only() -> None:
    assert {name for name, tree in EVERYTHING.items() if calls(tree, "Released")} == {"privacy/privatizer.py"}
    assert calls(FILES["privacy/privatizer.py"], "Released") == 1


def test_only_the_ledger_makes_charges_and_only_the_privatizer_asks_for_them() -> None:
    assert {name for name, tree in EVERYTHING.items() if calls(tree, "Charge")} == {"accounting/durable.py"}
    assert "privacy/privatizer.py" in {name for name, tree in FILES.items() if calls(tree, "record")}


def test_noise_is_drawn_from_opendp_in_one_file_of_the_central_model() -> None:
    users = {name for name, tree in EVERYTHING.items() if any(m.split(".")[0] == "opendp" for m in imports(tree))}
    assert {name for name in users if not name.startswith("local/")} == {"privacy/noise.py"}
    askers = {name for name, tree in FILES.items() if calls(tree, "add_gaussian")}
    assert askers == {"privacy/privatizer.py", "federated/server.py"}


def test_the_federated_server_alone_reads_messages_and_samples() -> None:
    assert {name for name, tree in FILES.items() if calls(tree, "weighted_sums")} == {"federated/server.py"}
    assert {name for name, tree in EVERYTHING.items() if calls(tree, "checked_message")} == {"federated/server.py"}
    samplers = {name for name, tree in EVERYTHING.items() if names(tree) & {"SecretSample", "SeededSample"}}
    assert samplers == {"federated/server.py"}


def test_nothing_is_pickled_and_no_assert_guards() -> None:
    for name, tree in EVERYTHING.items():
        assert not {m.split(".")[0] for m in imports(tree)} & {"pickle", "dill", "joblib", "shelve", "marshal"}, name
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.Assert)], f"{name} has an assert"


SPEAKING = {
    "privacy/losses.py",
    "accounting/durable.py",
    "centred.py",
    "run.py",
}  # the first silences warnings, others are public


def test_the_privacy_code_neither_logs_nor_prints() -> None:
    for name, tree in FILES.items():
        if name.startswith(("privacy/", "accounting/", "local/", "federated/")) or name in RUNS:
            assert not {"logging", "warnings"} & set(imports(tree)) or name in SPEAKING, name
            assert not calls(tree, "print"), name
    assert calls(FILES["accounting/durable.py"], "warning") == 1  # a new ledger is announced
    assert calls(FILES["centred.py"], "warn") == 2  # generations that the plan has and the ledger has not
    assert not any(calls(FILES["accounting/durable.py"], level) for level in ("debug", "info", "error", "exception"))


def test_importing_all_public_names_imports_no_framework() -> None:
    """OpenDP itself imports scikit-learn where it is installed; dptune adds nothing to that."""
    found = f"set({FRAMEWORKS!r}) & set(sys.modules)"
    code = f"import sys, opendp.prelude; before = {found}; import dptune; print(sorted({found} - before))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_modules_of_the_core_import_no_framework_at_their_top() -> None:
    optional = {"figures.py", "cli.py", "accounting/subsampled.py"}
    for name, tree in FILES.items():
        top = {
            m.split(".")[0]
            for node in tree.body
            for m in imports(node)
            if isinstance(node, ast.Import | ast.ImportFrom)
        }
        assert not top & set(FRAMEWORKS) or name in optional, name
