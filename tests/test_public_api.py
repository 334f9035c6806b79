"""The public names: what other code may rely on."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dptune

RELIED_ON = {  # issues 2 to 4 and 6, and design.md; removing one breaks users
    "AlreadySent",
    "FTSAgent",
    "FTSServer",
    "FTSSettings",
    "InProcess",
    "MessageRefused",
    "PlanLedger",
    "PlanStatement",
    "RoundClosed",
    "SubsampledGaussianPlan",
    "AdaGrad",
    "AdaGradNorm",
    "Ball",
    "Budget",
    "BudgetError",
    "BudgetExhausted",
    "BudgetMismatch",
    "CapReached",
    "CentredCMA",
    "CentredCMAPlan",
    "CentredCMASession",
    "CentredCMASettings",
    "Charge",
    "DPGIBO",
    "DptuneError",
    "Estimate",
    "Float",
    "GIBOPlan",
    "GIBOSession",
    "GIBOSettings",
    "GradientDescent",
    "HeavyTailedReplies",
    "InputError",
    "Int",
    "Interval",
    "KeyConflict",
    "LDPATA",
    "LDPMoMA",
    "LDPRun",
    "LDPSettings",
    "LDPTGP",
    "LaplaceReplies",
    "LedgerError",
    "LocalRandomizer",
    "LossPrivatizer",
    "Matern52",
    "MeanQuery",
    "MissingExtra",
    "NormQuery",
    "PerExampleLosses",
    "PlanComplete",
    "Polynomial2",
    "PrivacyError",
    "PrivacyLedger",
    "RBF",
    "Refinement",
    "Released",
    "Space",
    "Statement",
    "UnsupportedMetric",
    "UserLedger",
    "ValuePlan",
    "ValueRun",
}
PUBLIC = sorted(dptune.__all__)
SOURCE = ast.parse(Path(dptune.__file__).read_text())
IMPORTED = {  # name -> module, as type checkers see it
    alias.asname or alias.name: statement.module
    for block in SOURCE.body
    if isinstance(block, ast.If)
    for statement in block.body
    if isinstance(statement, ast.ImportFrom)
    for alias in statement.names
}


def test_the_names_users_rely_on_are_there() -> None:
    assert set(PUBLIC) >= RELIED_ON
    assert len(PUBLIC) == len(set(PUBLIC))


def test_all_is_everything_the_package_imports_for_its_users() -> None:
    assert IMPORTED.keys() == set(PUBLIC)


def test_a_name_is_imported_at_run_time_from_where_type_checkers_see_it() -> None:
    assert dptune._MODULE_OF == IMPORTED


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
