"""The package for OptunaHub loads as OptunaHub loads it, and its example runs."""

import contextlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import optuna

import dptune_optuna

REGISTRY = Path(__file__).parent.parent.parent / "integrations/for_optunahub/package"
PACKAGE = REGISTRY / "samplers/private_tuning"


def load(name):
    """Load a package of a local registry, as optunahub.load_local_module does."""
    spec = importlib.util.spec_from_file_location(f"hub_{name.replace('/', '_')}", REGISTRY / name / "__init__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_holds_dptune_s_own_samplers():
    module = load("samplers/private_tuning")
    assert len(module.__all__) == 3
    assert all(getattr(module, name) is getattr(dptune_optuna, name) for name in module.__all__)
    assert issubclass(module.CentredSampler, optuna.samplers.BaseSampler)


def test_its_page_shows_the_arguments_as_they_are():
    shown = dict(re.findall(r"`(\w+Sampler)\((.*?), \*,", (PACKAGE / "README.md").read_text()))
    assert shown.keys() == {"CentredSampler", "DPGIBOSampler"}
    for name, arguments in shown.items():
        first = [each.partition("=")[0] for each in arguments.split(", ")]
        assert first == [*inspect.signature(getattr(dptune_optuna, name)).parameters][: len(first)]


def test_its_example_runs(tmp_path, monkeypatch, capsys):
    module = load("samplers/private_tuning")
    monkeypatch.setitem(sys.modules, "optunahub", SimpleNamespace(load_module=lambda _: module))  # not by network
    with contextlib.chdir(tmp_path):
        exec((PACKAGE / "example.py").read_text(), {})
    assert "epsilon" in capsys.readouterr().out
