"""The package for OptunaHub loads as OptunaHub loads it, and its example runs."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import optuna
import pytest
import yaml

import dptune_optuna

REGISTRY = Path(__file__).parent.parent.parent / "integrations/for_optunahub/package"
PACKAGE = REGISTRY / "samplers/private_tuning"


def load(name: str) -> ModuleType:
    """Load a package of a local registry: with optunahub, or the same way where it is not installed."""
    if importlib.util.find_spec("optunahub"):
        import optunahub

        return optunahub.load_local_module(name, registry_root=str(REGISTRY))
    spec = importlib.util.spec_from_file_location(f"hub_{name.replace('/', '_')}", REGISTRY / name / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_holds_dptune_s_own_samplers() -> None:
    module = load("samplers/private_tuning")
    assert len(module.__all__) == 3
    assert all(getattr(module, name) is getattr(dptune_optuna, name) for name in module.__all__)
    assert issubclass(module.CentredSampler, optuna.samplers.BaseSampler)


def test_its_files_are_those_that_the_hub_asks_for() -> None:
    assert {path.name for path in PACKAGE.glob("[!_]*")} == {"README.md", "LICENSE", "example.py"}
    _, head, text = (PACKAGE / "README.md").read_text().split("---\n", 2)
    about = yaml.safe_load(head)
    assert about.keys() == {"author", "title", "description", "tags", "optuna_versions", "license"}
    assert about["license"] == "MIT License"
    assert "sampler" in about["tags"]
    assert all(isinstance(version, str) for version in about["optuna_versions"])
    for file in ("README.md", "__init__.py", "example.py"):  # CentredSampler, which the example uses, needs cmaes
        assert re.findall(r'pip install "(\S+)"', (PACKAGE / file).read_text()) == ["dptune[optuna,cmaes]"], file
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Abstract", "APIs", "Installation", "Example"]
    shown = dict(re.findall(r"`(\w+Sampler)\((.*?), \*,", text))
    assert shown.keys() == {"CentredSampler", "DPGIBOSampler"}
    for name, arguments in shown.items():
        first = [each.partition("=")[0] for each in arguments.split(", ")]
        assert first == [*inspect.signature(getattr(dptune_optuna, name)).parameters][: len(first)]
    assert (PACKAGE / "LICENSE").read_text().startswith("MIT License")


def test_its_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    module = load("samplers/private_tuning")
    monkeypatch.setitem(sys.modules, "optunahub", SimpleNamespace(load_module=lambda _: module))  # not by network
    exec((PACKAGE / "example.py").read_text(), {})
    assert "epsilon" in capsys.readouterr().out
