"""Each argument that a page names, alone or in a call, is in the signature of a public function."""

import ast
import importlib.util
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from dptune.search.algorithms.centred_settings import CentredSettings
from page_tools import CODE, PAGES, ROOT, blocks

ANY = "**"  # of a function that takes any argument
FOREIGN = {"tune.report", "Tuner.restore", "study.tell", "X.mean"}  # with one of our names
THEIRS = {  # arguments of other libraries or of users' functions, environment variables, and one that is said to lack
    "C", "MLFLOW_DISABLE_TELEMETRY", "RAY_AUTH_MODE", "RAY_USE_TLS", "catch", "connect_timeout", "decimal", "direction",
    "engine", "error_evaluator", "eval_set", "labels", "load_if_exists", "max_concurrent_trials", "num_samples",
    "parse_dates", "restart_errored", "resume_errored", "reuse_actors", "scoring", "storage", "thousands",
    "uses_labels", "validation",
}  # fmt: skip


def public() -> Iterator[tuple[str, Any]]:
    """Yield the public functions and classes, and the public methods of classes, by their last names."""
    yield "CentredSettings", CentredSettings  # which searches take as **settings
    for file in (*(ROOT / "dptune").rglob("__init__.py"), *(ROOT / "integrations").glob("*/__init__.py")):
        place = ".".join(file.parent.relative_to(ROOT).parts).removeprefix("integrations.")
        if place == "dptune_flower" and importlib.util.find_spec("flwr") is None:
            continue
        package = importlib.import_module(place)
        for name in getattr(package, "__all__", ()):
            made = getattr(package, name)
            yield name, made
            for method, each in inspect.getmembers(made, callable) if inspect.isclass(made) else ():
                if not method.startswith("_"):
                    yield method, each


def arguments() -> dict[str, set[str]]:
    """Return the arguments of all functions of a name."""
    found = defaultdict[str, set[str]](set)
    for name, each in public():
        try:
            parameters = inspect.signature(each).parameters.values()
        except (TypeError, ValueError):
            continue
        found[name] |= {ANY if one.kind is one.VAR_KEYWORD else one.name for one in parameters}
    return found


KNOWN = arguments()


def named(text: str) -> Iterator[tuple[str, str]]:
    """Yield function and argument of what a page names; no function for an argument that stands alone."""
    spans = re.findall(r"`([^`\n]+)`", CODE.sub("", text))
    yield from (("", name) for span in spans for name in re.findall(r"^(\w+)=(?!=)", span))
    for code in (*spans, *(code for _, code in blocks(text, "python"))):
        try:
            tree = ast.parse(re.sub(r"=(?=[,)])", "=0", code))  # f(name=) names an argument
        except SyntaxError:
            continue
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            function = ast.unparse(call.func)
            if function not in FOREIGN:
                yield from ((function.rpartition(".")[2], each.arg) for each in call.keywords if each.arg)


def unknown(text: str) -> list[str]:
    """Return what is in no signature."""
    all_names = set[str]().union(*KNOWN.values(), THEIRS)
    return [
        f"{function}({argument}=)"
        for function, argument in dict.fromkeys(named(text))
        if argument not in (KNOWN.get(function, {argument}) if function else all_names)
        and ANY not in KNOWN.get(function, ())
    ]


def test_each_argument_that_a_page_names_is_in_a_signature() -> None:
    assert {path.name: wrong for path in PAGES if (wrong := unknown(path.read_text(encoding="utf-8")))} == {}
    text = (
        "Give `shares=`, or `dptune.select(models, ledger, report=0.3)`.\n\n```python\nchoose(study, people=1)\n```\n"
    )
    assert unknown(text) == ["(shares=)", "select(report=)", "choose(people=)"]
