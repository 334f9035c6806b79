"""The walls of design.md, read from the source: who may import what, and who may build a released value."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

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


@cache
def imports(tree: ast.AST) -> list[str]:
    """Return every imported module, and "module.name" for each name imported from one."""
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found += [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


@cache
def names(tree: ast.AST) -> set[str]:
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return found | {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


@cache
def called(tree: ast.AST) -> Counter[str]:
    functions = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return Counter(getattr(each, "id", None) or getattr(each, "attr", "") for each in functions)


def calls(tree: ast.AST, name: str) -> int:
    return called(tree)[name]


ROOMS = {  # folder or file -> the other rooms that it may import; the longest entry decides; nothing points back up
    "ledger/": {"space"},
    "privacy/": {"ledger"},
    "privacy/seal/": set(),
    "losses/": {"privacy.seal"},
    "search/": {"losses", "privacy", "ledger", "space", "parameters"},
    "search/gp/": set(),
    "search/algorithms/": {"search.gp", "privacy.query", "space", "parameters"},
    "choice/": {"ledger", "privacy", "losses", "search", "figures"},
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
EVERYBODYS = ("errors", "_arrays", "_checks", "_exports", "_locks", "_numbers", "_statement", "_store")
NEVER = {  # what a room must not import, whichever rooms it may
    "losses/": {"sqlalchemy", "opendp"},
    "search/": {"sqlalchemy", "opendp"},
    "search/gp/": {"sqlalchemy", "opendp"},
    "search/algorithms/": {"sqlalchemy", "opendp"},
    "privacy/seal/": {"sqlalchemy", "opendp"},
    "federated/": {"sqlalchemy", "opendp"},
    "ledger/": {"opendp"},
    "privacy/": {"sqlalchemy"},
    "local/": {"numpy", "scipy", "sqlalchemy"},
}
FRAMEWORKS = (
    "optuna",
    "ray",
    "sklearn",
    "torch",
    "matplotlib",
    "cmaes",
    "pandas",
    "dp_accounting",
    "typer",
    "rich",
    "mlflow",
)


def room_of(name: str) -> str:
    return max((room for room in ROOMS if name.startswith(room)), key=len, default="")


@pytest.mark.parametrize("folder", ROOMS)
def test_a_room_imports_the_rooms_below_it_only(folder: str) -> None:
    files = {name: tree for name, tree in FILES.items() if room_of(name) == folder}
    assert files, f"there is no dptune/{folder}: has it moved?"
    itself = folder.removesuffix("/").removesuffix(".py").replace("/", ".")
    allowed = [f"dptune.{room}" for room in (*ROOMS[folder], *EVERYBODYS, itself)]
    for name, tree in files.items():
        for module in imports(tree):
            assert module.split(".")[0] not in NEVER.get(folder, set()), f"dptune/{name} imports {module}"
            inside = module == "dptune" or any(f"{module}.".startswith(f"{room}.") for room in allowed)
            package = any(room.startswith(f"{module}.") for room in allowed)  # "from dptune.privacy import ..."
            ours = module.startswith("dptune.")
            assert not ours or inside or package, f"dptune/{name} imports {module}, which is no room below it"


def closures(*steps: Iterable[str]) -> list[set[str]]:
    """Return what is imported after each step of modules, directly or not, in a fresh interpreter."""
    code = "import importlib, sys\n"
    for names in steps:
        code += f"[importlib.import_module(m) for m in {sorted(names)!r}]; print(*sys.modules)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [set(line.split()) for line in done.stdout.splitlines()]


def modules_of(*rooms: str) -> set[str]:
    return {"dptune." + name.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for name in FILES
            if name.startswith(rooms)}  # fmt: skip


LEDGER_AND_NOISE = {
    "sqlalchemy",
    "opendp",
    "dptune.ledger.ledger",
    "dptune.ledger.durable",
    "dptune.privacy.noise",
}


def test_what_decides_in_public_loads_neither_ledger_nor_noise() -> None:
    public = modules_of("search/algorithms/", "search/gp/", "local/bandits/", "space.py", "privacy/query.py",
                        "federated/agent.py", "outsourced/modeler.py", "outsourced/formats.py")  # fmt: skip
    assert {"dptune.search.algorithms.gibo", "dptune.privacy.query", "dptune.space", "dptune.federated.agent"} <= public
    loaded, after = closures(public, {"dptune.search.run"})
    assert public <= loaded
    assert not loaded & LEDGER_AND_NOISE
    assert after >= LEDGER_AND_NOISE  # the test can fail


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


def test_the_front_door_has_few_files() -> None:
    assert sum("/" not in name for name in FILES) < 13


def test_no_algorithm_names_the_wrapper_of_private_losses() -> None:
    for name, tree in FILES.items():
        if name.startswith(("search/algorithms/", "search/gp/")):
            assert not names(tree) & {"PerExampleLosses", "LossPrivatizer", "PrivacyLedger", "reveal"}, name


def test_reveal_is_imported_by_the_privatizers_base_only() -> None:
    users = {name for name, tree in EVERYTHING.items() if "dptune.privacy.seal.private.reveal" in set(imports(tree))}
    assert users == {"privacy/observed.py"}
    assert {name for name, tree in EVERYTHING.items() if "reveal" in names(tree)} == {"privacy/observed.py"}
    for name, tree in EVERYTHING.items():  # nor the module, from which it could be had, nor the slot itself
        assert "dptune.privacy.seal.private" not in {
            a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names
        }
        if name != "privacy/seal/private.py":
            assert "_PerExampleLosses__values" not in names(tree), name


def test_released_is_constructed_in_the_privatizer_only() -> None:
    assert {name for name, tree in EVERYTHING.items() if calls(tree, "Released")} == {"privacy/privatizer.py"}
    assert calls(FILES["privacy/privatizer.py"], "Released") == 1


def test_only_the_ledger_makes_charges_and_only_the_privatizer_asks_for_them() -> None:
    assert {name for name, tree in EVERYTHING.items() if calls(tree, "Charge")} == {"ledger/entries.py"}
    assert "privacy/privatizer.py" in {name for name, tree in FILES.items() if calls(tree, "record")}


def test_noise_is_drawn_from_opendp_in_one_file_of_the_central_model() -> None:
    users = {name for name, tree in EVERYTHING.items() if any(m.split(".")[0] == "opendp" for m in imports(tree))}
    assert {name for name in users if not name.startswith("local/")} == {"privacy/noise.py"}
    askers = {name for name, tree in FILES.items() if "add_gaussian" in names(tree)}
    assert askers == {"privacy/mechanism.py", "federated/server.py", "outsourced/curator.py", "training/repeats.py"}


def test_the_federated_server_alone_reads_messages_and_samples() -> None:
    assert {name for name, tree in FILES.items() if calls(tree, "weighted_sums")} == {"federated/server.py"}
    assert {name for name, tree in EVERYTHING.items() if calls(tree, "checked_message")} == {"federated/server.py"}
    samplers = {
        name for name, tree in EVERYTHING.items() if names(tree) & {"SecretSample", "SeededSample", "sample_source"}
    }
    assert samplers == {"federated/server.py", "privacy/noise.py"}


def test_nothing_is_pickled_and_no_assert_guards() -> None:
    """But a model, which is copied in memory before it is asked; joblib trains in parallel, and stores nothing."""
    allowed = {"privacy/seal/copied.py": {"pickle"}, "integrations/dptune_sklearn/models.py": {"joblib"}}
    for name, tree in EVERYTHING.items():
        pickling = {m.split(".")[0] for m in imports(tree)} & {"pickle", "dill", "joblib", "shelve", "marshal"}
        assert pickling == allowed.get(name, set()), name
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.Assert)], f"{name} has an assert"


SPEAKING = {
    **{f"search/{name}.py": {"warnings"} for name in ("view", "agreement")},  # public facts
    "choice/choosing.py": {"warnings"},  # of what the public half of a user's function raised
    "ledger/durable.py": {"logging"},  # so here
    "ledger/server.py": {"logging"},  # and here
    "audit/transcript.py": {"logging"},  # listens
    **{"privacy/seal/quiet.py": {"warnings"}, "privacy/seal/silence.py": {"warnings", "logging"}},
}


def test_the_code_near_private_data_neither_logs_nor_prints() -> None:
    for name, tree in FILES.items():
        if not name.startswith(("cli/", "figures.py")):
            spoken = {"logging", "warnings"} & set(imports(tree))
            assert spoken <= SPEAKING.get(name, set()), f"dptune/{name} imports {spoken}"
            assert not calls(tree, "print"), name
    assert calls(FILES["ledger/durable.py"], "warning") == 1  # a new ledger is announced
    assert calls(FILES["ledger/server.py"], "warning") == 1  # a server that is away, in its own words
    assert calls(FILES["search/view.py"], "warn") == 1  # rounds that the plan has and the ledger has not
    assert calls(FILES["search/agreement.py"], "warn") == 2  # a run takes what others have planned, or they its choice
    assert not any(calls(FILES["ledger/durable.py"], level) for level in ("debug", "info", "error", "exception"))


def test_importing_all_public_names_imports_no_framework() -> None:
    """Nor scikit-learn, which ``opendp.prelude`` would import, nor ``scipy.stats``: seconds in every process."""
    code = "import sys, dptune; [getattr(dptune, name) for name in dptune.__all__]; "
    code += f"print(sorted({{*{FRAMEWORKS!r}, 'scipy.stats'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_modules_of_the_core_import_no_framework_at_their_top() -> None:
    optional = ("figures.py", "cli/", "ledger/subsampled.py", "training/opacus.py")
    for name, tree in FILES.items():
        top = {
            m.split(".")[0]
            for node in tree.body
            for m in imports(node)
            if isinstance(node, ast.Import | ast.ImportFrom)
        }
        assert not top & set(FRAMEWORKS) or name.startswith(optional), name
