"""What an installer, a citation manager and a package index read of the project."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

import dptune

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_what_make_test_skips_without_pytorch_is_what_make_test_torch_runs() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\ntest-torch:")[2].partition("\n\n")[0]
    needing = {
        path.relative_to(ROOT).as_posix(): text
        for path in ROOT.glob("tests/**/test_*.py")
        if re.search(r'importorskip\("(torch|opacus|skorch|botorch)', text := path.read_text())
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
