"""The public names are documented, and package metadata is what installers, citations and indexes need."""

import ast
import importlib
import importlib.metadata
import inspect
import re
import runpy
import sys
import tomllib
from collections import Counter
from dataclasses import is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

import dptune
from dptune._exports import public_names

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
STUBS = {".".join(path.parent.relative_to(ROOT).parts): path for path in ROOT.glob("dptune/**/__init__.pyi")}
PUBLIC = sorted(dptune.__all__)
ROOMS = ("choice", "errors", "federated", "ledger", "local", "outsourced", "privacy", "search", "search.gp", "training")
FRONTS = ("dptune_mlflow", "dptune_optuna", "dptune_ray", "dptune_sklearn")
NAMES = [(dptune, name) for name in PUBLIC] + [
    (room, name)
    for room in map(importlib.import_module, [*(f"dptune.{room}" for room in ROOMS), *FRONTS])
    for name in getattr(room, "__all__", vars(room))
    if name[0].isupper() or room.__name__ in FRONTS
]


def test_dptune_exports_common_names_and_subpackages_export_the_rest() -> None:
    assert len(PUBLIC) <= 27
    assert {"Budget", "PrivacyLedger", "LossPrivatizer", "InputError", "select"} <= {*PUBLIC}
    rooms = {name for name, module in public_names(STUBS["dptune"]).items() if module == "dptune"}
    assert rooms.isdisjoint(PUBLIC)
    folders = {path.parent.name for path in ROOT.glob("dptune/*/__init__.py")}
    assert rooms == folders - {"cli"} | {"errors", "results", "space"}
    assert all(getattr(dptune, room) is importlib.import_module(f"dptune.{room}") for room in rooms)


def test_stubs_list_all_public_names_and_each_name_has_one_meaning() -> None:
    """Of two places that said what is public, one would be wrong; a name is the same thing for type checkers."""
    defined: dict[str, set[str]] = {}
    for package, stub in STUBS.items():
        room, names = importlib.import_module(package), public_names(stub)
        imports = (node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom))
        exported = {alias.asname for node in imports for alias in node.names}
        assert None not in exported, "a stub exports what it imports `as` the same name only"
        assert sorted(name for name, module in names.items() if module != package) == room.__all__
        for name in room.__all__:
            assert getattr(room, name) is getattr(importlib.import_module(names[name]), name)
        for name, module in names.items():
            defined.setdefault(name, set()).add(module)
    assert {"SearchRun", "LDPSettings"} <= set(defined)
    assert not {name: modules for name, modules in defined.items() if len(modules) > 1}


def test_an_unknown_name_is_refused() -> None:
    assert {*PUBLIC} <= {*dir(dptune)}
    with pytest.raises(AttributeError, match="'Budgte'"):
        dptune.Budgte  # noqa: B018


def test_every_public_name_and_method_is_documented() -> None:
    for room, name in NAMES:
        thing = getattr(room, name)
        assert inspect.getdoc(thing), f"{name} has no docstring"
        if inspect.isclass(thing):
            assert [method for method, function in own_methods(thing) if not inspect.getdoc(function)] == [], name


def optional(function: object) -> list[str]:
    """The arguments that may be left out and may be given by position."""
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [
        name
        for name, each in inspect.signature(function).parameters.items()  # the caller knows
        if each.kind in by_position and each.default is not inspect.Parameter.empty
    ]


def own_methods(thing: type) -> list[tuple[str, object]]:
    """Public methods that override no other library's."""
    theirs = {name for base in thing.__mro__ if not base.__module__.startswith("dptune") for name in vars(base)}
    return [
        (name, function)
        for name, function in inspect.getmembers(thing, lambda each: inspect.isfunction(each) or inspect.ismethod(each))
        if not name.startswith("_") and name not in theirs
    ]


def test_options_are_given_by_name_but_for_one() -> None:
    for room, name in NAMES:
        thing = getattr(room, name)
        if inspect.isfunction(thing):
            assert len(optional(thing)) < 2, name
        elif inspect.isclass(thing) and not (is_dataclass(thing) or issubclass(thing, BaseException | tuple)):
            assert len(optional(thing)) < 2, name
            assert [method for method, function in own_methods(thing) if len(optional(function)) > 1] == [], name


def test_no_two_classes_have_one_name() -> None:
    """Names that begin with an underscore stay in their file."""
    files = [*(ROOT / "dptune").rglob("*.py"), *(ROOT / "integrations").glob("dptune_*/*.py")]
    names = Counter(name for path in files for name in re.findall(r"^class ([^_]\w*)", path.read_text(), re.MULTILINE))
    assert names["RunPlan"] == 1
    assert [name for name, times in names.items() if times > 1] == []


def test_every_error_is_a_dptune_error_and_in_the_drawn_tree() -> None:
    from dptune import errors

    drawn = errors.__doc__ or ""
    for name, error in inspect.getmembers(errors, inspect.isclass):
        assert issubclass(error, dptune.DptuneError)
        assert name in drawn
    assert not issubclass(dptune.InputError, ValueError)  # `catch=(ValueError,)` would swallow it
    assert issubclass(dptune.errors.MissingExtra, ImportError)
    assert issubclass(dptune.PlanComplete, dptune.errors.BudgetError)
    assert issubclass(dptune.errors.CapReached, dptune.errors.BudgetError)


def test_the_version_is_the_installed_one() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", dptune.__version__)
    assert importlib.metadata.version("dptune") == dptune.__version__
    assert (Path(dptune.__file__).parent / "py.typed").exists()


def test_no_file_is_longer_than_a_reader_holds_in_mind() -> None:
    folders = ("dptune", "integrations", "tests", "benchmarks", "examples", "docs")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    lines = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n") for path in files}
    assert len(lines) > 300
    assert {path: count for path, count in lines.items() if count > 400} == {}


def test_no_test_has_a_name_of_more_than_70_characters() -> None:
    """Its docstring says the rest."""
    files = sorted((ROOT / "tests").rglob("*.py"))
    names = [name for path in files for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8"))]
    assert len(names) > 500
    assert [name for name in names if len(name) > 70] == []


# ---- packaging -------------------------------------------------------------------------------------------


def test_what_make_test_skips_without_pytorch_is_what_make_test_torch_runs() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\ntest-torch:")[2].partition("\n\n")[0]
    needing = {
        path.relative_to(ROOT).as_posix(): text
        for path in ROOT.glob("tests/**/test_*.py")
        if re.search(r'importorskip\("(torch|opacus|skorch|botorch|catboost)', text := path.read_text())
        and "pytestmark = [pytest.mark.slow" not in text  # `make audit` has those
    }
    assert len(needing) > 2
    assert [name for name, text in needing.items() if "mark.torch" not in text] == []
    assert [name for name in needing if not any(name.startswith(each) for each in recipe.split())] == []
    assert "make test-torch" in (ROOT / "CONTRIBUTING.md").read_text().partition("dptune/training/")[0]


def test_package_and_citation_name_the_same_authors_and_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert [author["name"] for author in PROJECT["authors"]] == [author["name"] for author in citation["authors"]]
    assert citation["version"] == dptune.__version__
    assert {"title", "abstract", "license", "keywords"} <= citation.keys()
    assert citation["references"][0]["title"] in " ".join(README.split())
    assert ("repository-code" in citation) == ("urls" in PROJECT), "both, once the repository has a public address"


def test_a_package_index_shows_no_link_that_only_a_checkout_can_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin: Any = SimpleNamespace(MetadataHookInterface=object)
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", plugin)
    hook = runpy.run_path(str(ROOT / "hatch_readme.py"))["Readme"]()
    hook.root, shown = str(ROOT), dict[str, Any]()
    hook.update(shown)
    text = shown["readme"]["content-type"] and shown["readme"]["text"]
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert links
    assert all(link.startswith("https:") for link in links)
    assert "Figure:" not in text
    assert "[Tutorial" not in text
    assert "Tutorial" in text
    assert "hatch_readme.py" in (ROOT / "pyproject.toml").read_text()
