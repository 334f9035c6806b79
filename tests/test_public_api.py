"""The public names: what other code may rely on."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import re
from pathlib import Path

import pytest

import dptune

RELIED_ON = {  # issue 2 and design.md; removing one breaks users
    "AdaGrad",
    "AdaGradNorm",
    "Ball",
    "Budget",
    "BudgetError",
    "BudgetExhausted",
    "BudgetMismatch",
    "Charge",
    "DPGIBO",
    "DptuneError",
    "Estimate",
    "Float",
    "GIBOPlan",
    "GIBOSession",
    "GIBOSettings",
    "GradientDescent",
    "InputError",
    "Int",
    "Interval",
    "KeyConflict",
    "LedgerError",
    "LossPrivatizer",
    "Matern52",
    "MeanQuery",
    "MissingExtra",
    "PerExampleLosses",
    "PlanComplete",
    "Polynomial2",
    "PrivacyError",
    "PrivacyLedger",
    "RBF",
    "Released",
    "Space",
    "Statement",
    "UnsupportedMetric",
    "ValuePlan",
    "ValueRun",
}
PUBLIC = sorted(dptune.__all__)


def test_the_names_users_rely_on_are_there() -> None:
    assert set(PUBLIC) >= RELIED_ON
    assert len(PUBLIC) == len(set(PUBLIC))


def test_all_is_everything_the_package_imports_for_its_users() -> None:
    tree = ast.parse(Path(dptune.__file__).read_text())
    imported = {alias.asname or alias.name for n in tree.body if isinstance(n, ast.ImportFrom) for alias in n.names}
    assert imported - {"annotations"} == set(PUBLIC)


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


def test_the_version_is_the_installed_one() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", dptune.__version__)
    assert importlib.metadata.version("dptune") == dptune.__version__
    assert (Path(dptune.__file__).parent / "py.typed").exists()
