"""Imports follow docs/architecture.md, and only the listed files may build a released value."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import dptune
from dptune._exports import public_names

PACKAGE = Path(dptune.__file__).parent
FILES = {p.relative_to(PACKAGE).as_posix(): ast.parse(p.read_text()) for p in PACKAGE.rglob("*.py")}
INTEGRATIONS = {
    p.relative_to(PACKAGE.parent).as_posix(): ast.parse(p.read_text())
    for p in (PACKAGE.parent / "integrations").rglob("*.py")
}
EVERYTHING = {**FILES, **INTEGRATIONS}


pytestmark = pytest.mark.xdist_group("imports")  # one process walks each tree once


class Facts(NamedTuple):
    """What a module imports, as "module" and "module.name", and the names that it uses and calls."""

    imports: set[str]
    names: set[str]
    calls: Counter[str]


@cache
def facts(tree: ast.AST) -> Facts:
    found = Facts(set(), set(), Counter())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found.imports.update([node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)])
        elif isinstance(node, ast.Name):
            found.names.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.names.add(node.attr)
        elif isinstance(node, ast.Call):
            found.calls[getattr(node.func, "id", None) or getattr(node.func, "attr", "")] += 1
    return found


def callers(name: str) -> set[str]:
    return {file for file, tree in EVERYTHING.items() if facts(tree).calls[name]}


def users(*given: str) -> set[str]:
    return {file for file, tree in EVERYTHING.items() if facts(tree).names & {*given}}


ROOMS = {  # folder or file -> the other rooms that it may import; the longest entry decides; nothing points back up
    "ledger/": {"space"},
    "privacy/": {"ledger"},
    "privacy/seal/": set(),
    "losses/": {"privacy.seal"},
    "results.py": {"privacy", "ledger"},
    "search/": {"results", "losses", "privacy", "ledger", "space", "parameters"},
    "search/gp/": set(),
    "search/algorithms/": {"search.gp", "privacy.query", "space", "parameters"},
    "choice/": {"results", "ledger", "privacy", "losses", "_style"},
    "training/": {"ledger", "privacy", "search.gp", "space"},
    "audit/": {"ledger", "privacy"},
    "outsourced/": {"ledger", "search.gp", "privacy"},
    "federated/": {"search.gp", "privacy.noise", "privacy.seal", "ledger", "space", "parameters"},
    "local/": set(),
    "local/bandits/": {"search.gp", "space", "parameters", "local.windows"},
    "outsourced/curator.py": {"ledger", "privacy", "outsourced.formats", "outsourced.outputs"},
    "outsourced/outputs.py": set(),
    "outsourced/formats.py": set(),
    "outsourced/modeler.py": {"search.gp", "outsourced.formats"},
    "space.py": {"parameters"},
    "parameters.py": set(),
}
EVERYBODYS = ("errors", "_arrays", "_checks", "_exports", "_numbers", "_statement", "_store")
NEVER = {  # what a room must not import, whichever rooms it may
    "losses/": {"sqlalchemy", "opendp"},
    "results.py": {"sqlalchemy", "opendp"},
    "search/": {"sqlalchemy", "opendp"},
    "search/gp/": {"sqlalchemy", "opendp"},
    "search/algorithms/": {"sqlalchemy", "opendp"},
    "privacy/seal/": {"sqlalchemy", "opendp"},
    "federated/": {"sqlalchemy", "opendp"},
    "ledger/": {"opendp"},
    "privacy/": {"sqlalchemy"},
    "local/": {"numpy", "scipy", "sqlalchemy"},
}
FRAMEWORKS = {
    *("optuna", "ray", "sklearn", "torch", "matplotlib", "cmaes", "pandas", "dp_accounting", "typer", "rich", "mlflow")
}


def room_of(name: str) -> str:
    return max((room for room in ROOMS if name.startswith(room)), key=len, default="")


@pytest.mark.parametrize("folder", ROOMS)
def test_a_room_imports_the_rooms_below_it_only(folder: str) -> None:
    files = {name: tree for name, tree in FILES.items() if room_of(name) == folder}
    assert files, f"there is no dptune/{folder}: has it moved?"
    itself = folder.removesuffix("/").removesuffix(".py").replace("/", ".")
    allowed = [f"dptune.{room}" for room in (*ROOMS[folder], *EVERYBODYS, itself)]
    for name, tree in files.items():
        for module in facts(tree).imports:
            assert module.split(".")[0] not in NEVER.get(folder, set()), f"dptune/{name} imports {module}"
            inside = module == "dptune" or any(f"{module}.".startswith(f"{room}.") for room in allowed)
            package = any(room.startswith(f"{module}.") for room in allowed)  # "from dptune.privacy import ..."
            ours = module.startswith("dptune.")
            assert not ours or inside or package, f"dptune/{name} imports {module}, which is no room below it"


def test_no_circle_of_imports_those_for_types_included() -> None:
    paths = [*(f"dptune/{name}" for name in FILES), *(name.removeprefix("integrations/") for name in INTEGRATIONS)]
    modules = [path.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for path in paths]
    trees = dict(zip(modules, EVERYTHING.values(), strict=True))
    faces = {module for module, path in zip(modules, paths, strict=True) if path.endswith("__init__.py")}
    graph = {module: facts(tree).imports & (trees.keys() - faces - {module}) for module, tree in trees.items()}
    assert sum(map(len, graph.values())) > len(graph)
    TopologicalSorter(graph).prepare()  # CycleError names the files
    with pytest.raises(CycleError):
        TopologicalSorter({**graph, "dptune.errors": {"dptune.search.run"}}).prepare()


def modules_of(*rooms: str) -> set[str]:
    return {"dptune." + name.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for name in FILES
            if name.startswith(rooms)}  # fmt: skip


LEDGER_AND_NOISE = {"sqlalchemy", "opendp", "dptune.ledger.ledger", "dptune.ledger.durable", "dptune.privacy.noise"}
PRIVATE_ROOMS = tuple(f"dptune.{room}" for room in ("privacy", "ledger", "losses", "local", "search.algorithms"))
STEPS = """import importlib, sys, dptune, dptune_optuna, dptune_ray
def show(*names):
    [importlib.import_module(name) for name in names]
    print(*sys.modules)
show()
show("dptune.outsourced.modeler", "dptune.outsourced.formats")
show(*PUBLIC)
show("dptune.outsourced.curator")
[getattr(dptune, name) for name in dptune.__all__]
show()"""


def test_what_each_import_loads() -> None:
    """In one fresh interpreter: the packages, a modeler, what decides in public, a curator, all public names."""
    public = modules_of("search/algorithms/", "search/gp/", "local/bandits/", "space.py", "privacy/query.py",
                        "federated/agent.py", "outsourced/modeler.py", "outsourced/formats.py")  # fmt: skip
    assert {"dptune.search.algorithms.gibo", "dptune.privacy.query", "dptune.space", "dptune.federated.agent"} <= public
    program = STEPS.replace("PUBLIC", repr(sorted(public)))
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    front, modeler, deciding, curator, everything = (set(line.split()) for line in done.stdout.splitlines())
    assert {name for name in front if name.startswith("dptune.")} == {"dptune._exports"}
    assert not front & {"numpy", "optuna", "ray", "scipy", "sqlalchemy"}  # front ends load at the first use, too
    room = "dptune.outsourced"
    assert {name for name in modeler if name.startswith(room)} == {room, f"{room}.formats", f"{room}.modeler"}
    assert not {name for name in modeler if name.startswith((*PRIVATE_ROOMS, "opendp", "sqlalchemy"))}
    assert public <= deciding
    assert not deciding & LEDGER_AND_NOISE
    assert not {name for name in curator if "privatizer" in name}  # its points are private rows
    assert everything >= LEDGER_AND_NOISE  # the test can fail
    assert not everything & {*FRAMEWORKS, "scipy.stats"}  # nor scikit-learn, which opendp.prelude would import


def documented() -> tuple[str, ...]:
    """Modules that docs/architecture.md lets front ends import."""
    page = (PACKAGE.parent / "docs/architecture.md").read_text()
    table = page.split("A front end imports")[1].split("## ")[0]
    return tuple(re.findall(r"`(dptune\.[\w.]+)`", table))


def takes_public_names(node: ast.AST) -> bool:
    """Say whether this imports names that a room lists, as "from dptune.privacy import MeanQuery"."""
    stub = PACKAGE.parent / str(getattr(node, "module", "")).replace(".", "/") / "__init__.pyi"
    return stub.exists() and {alias.name for alias in node.names} <= {*public_names(stub)}


def test_integrations_import_documented_modules_only() -> None:
    allowed = documented()
    assert "dptune.search.run" in allowed
    for name, tree in INTEGRATIONS.items():
        for node in ast.walk(tree):
            named = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            for module in [*named, getattr(node, "module", None) or ""]:
                if module.startswith("dptune.") and not takes_public_names(node):
                    assert module.startswith(allowed), f"{name} imports {module}, which is documented nowhere"


def test_only_the_privatizers_base_and_a_place_import_reveal() -> None:
    """Nor is its module, from which it could be had, nor the slot itself read."""
    private = "dptune.privacy.seal.private"
    assert {name for name, tree in EVERYTHING.items() if f"{private}.reveal" in facts(tree).imports} == users("reveal")
    assert users("reveal") == {"privacy/observed.py", "privacy/places.py"}
    imports = [node for tree in EVERYTHING.values() for node in ast.walk(tree) if isinstance(node, ast.Import)]
    assert private not in {alias.name for node in imports for alias in node.names}
    assert users("_PerExampleLosses__values") <= {"privacy/seal/private.py"}


def test_who_makes_a_released_value_and_a_charge_and_who_draws() -> None:
    assert callers("Released") == {"privacy/privatizer.py"}
    assert facts(FILES["privacy/privatizer.py"]).calls["Released"] == 1
    assert callers("Charge") == {"ledger/entries.py"}
    assert "privacy/privatizer.py" in callers("record")
    drawing = {name for name, tree in EVERYTHING.items() if "opendp.domains" in facts(tree).imports}
    assert {name for name in drawing if not name.startswith("local/")} == {"privacy/noise.py"}
    noisy = {"privacy/mechanism.py", "federated/server.py", "outsourced/curator.py", "training/repeats.py"}
    assert users("add_gaussian") == noisy
    assert callers("weighted_sums") == callers("checked_message") == {"federated/server.py"}
    assert users("SecretSample", "SeededSample") == {"federated/server.py", "privacy/noise.py"}


def test_nothing_is_pickled_and_no_assert_guards() -> None:
    """But a public model, which is copied before it is asked or sent; large finalists wait in temporary files."""
    allowed = {
        "losses/steady.py": {"pickle"},
        "choice/kept_models.py": {"pickle"},
        "choice/workers.py": {"joblib", "pickle"},  # trains in parallel; the error of what cannot be sent
        "integrations/dptune_flower/places.py": {"pickle"},  # models go to the rows
    }
    for name, tree in EVERYTHING.items():
        pickling = {m.split(".")[0] for m in facts(tree).imports} & {"pickle", "dill", "joblib", "shelve", "marshal"}
        assert pickling == allowed.get(name, set()), name
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.Assert)], f"{name} has an assert"


LOUD = ("warn", "warning", "debug", "info", "error", "exception")
SPEAKING = {  # file -> what it imports, what it calls, and how often
    "search/run.py": ({"warnings"}, "warn", 1),  # rounds that the plan has and the ledger has not
    "search/agreement.py": ({"warnings"}, "warn", 1),  # a run takes what others have planned
    "choice/choosing.py": ({"warnings"}, "warn", 1),  # shows what the public half of a user's function raised
    "choice/workers.py": ({"warnings"}, "warn", 0),  # shows again what public trainings warn in other processes
    "ledger/durable.py": ({"logging"}, "warning", 1),  # a new ledger is announced
    "ledger/server.py": ({"logging"}, "warning", 1),  # a server that is away, in its own words
    "audit/transcript.py": ({"logging"}, "warning", 0),  # listens
    "privacy/seal/silence.py": ({"warnings", "logging"}, "warn", 0),
}


def test_the_code_near_private_data_neither_logs_nor_prints() -> None:
    for name, tree in FILES.items():
        if not name.startswith(("cli/", "figures.py")):
            imported, call, times = SPEAKING.get(name, (set(), "warn", 0))
            assert {"logging", "warnings"} & facts(tree).imports <= imported, f"dptune/{name} speaks"
            said = {each: count for each, count in facts(tree).calls.items() if imported and each in LOUD}
            assert said == ({call: times} if times else {}), name
            assert not facts(tree).calls["print"], name


def test_modules_of_the_core_import_no_framework_at_their_top() -> None:
    optional = ("figures.py", "cli/", "ledger/subsampled.py", "training/opacus.py")
    for name, tree in FILES.items():
        imported = [facts(node).imports for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        top = {module.split(".")[0] for modules in imported for module in modules}
        assert not top & FRAMEWORKS or name.startswith(optional), name
