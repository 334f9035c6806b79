"""The public names: what other code may rely on."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dptune

ROOT = Path(__file__).parent.parent
STUB = Path(dptune.__file__).with_suffix(".pyi")
LISTED = {  # name -> module, as type checkers see it
    alias.asname: statement.module
    for statement in ast.parse(STUB.read_text()).body
    if isinstance(statement, ast.ImportFrom)
    for alias in statement.names
}
PUBLIC = sorted(dptune.__all__)


def test_the_one_list_of_names_is_the_stubs() -> None:
    """Of two places that said what is public, one would be wrong; a name is the same thing for type checkers."""
    assert None not in LISTED, "a stub exports what it imports `as` the same name only"
    assert dptune._MODULE_OF == LISTED
    assert sorted(LISTED) == PUBLIC
    for name, module in LISTED.items():
        assert getattr(dptune, name) is getattr(importlib.import_module(module), name)


def test_the_names_that_pages_and_examples_use_are_there() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.py")]
    code = [text for page in pages for text in ([page.read_text()] if page.suffix == ".py" else blocks(page))]
    used = {name for text in code for name in re.findall(r"\bdptune\.([A-Z]\w+)", text)}
    assert {"LossPrivatizer", "PrivacyLedger", "Budget"} <= used
    assert used <= set(PUBLIC)


def blocks(page: Path) -> list[str]:
    return [text.split("```")[0] for text in page.read_text().split("```python\n")[1:]]


def test_importing_the_package_imports_none_of_its_modules_and_unknown_names_are_refused() -> None:
    program = (
        "import sys, dptune; print([m for m in sys.modules if 'dptune.' in m], {*dptune.__all__} <= {*dir(dptune)})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[] True\n"
    with pytest.raises(AttributeError, match="'Budgte'"):
        dptune.Budgte  # noqa: B018


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_exists_and_is_documented(name: str) -> None:
    thing = getattr(dptune, name)
    assert inspect.getdoc(thing), f"{name} has no docstring"
    for method, function in inspect.getmembers(thing, inspect.isfunction):
        if not method.startswith("_"):
            assert inspect.getdoc(function), f"{name}.{method} has no docstring"


def test_every_error_is_a_dptune_error_and_in_the_drawn_tree() -> None:
    from dptune import errors

    drawn = errors.__doc__ or ""
    for name, error in inspect.getmembers(errors, inspect.isclass):
        assert issubclass(error, dptune.DptuneError)
        assert name in drawn
        assert name in PUBLIC
    assert issubclass(dptune.InputError, ValueError)
    assert issubclass(dptune.MissingExtra, ImportError)
    assert issubclass(dptune.PlanComplete, dptune.BudgetError)
    assert issubclass(dptune.CapReached, dptune.BudgetError)


def test_the_version_is_the_installed_one() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", dptune.__version__)
    assert importlib.metadata.version("dptune") == dptune.__version__
    assert (Path(dptune.__file__).parent / "py.typed").exists()
