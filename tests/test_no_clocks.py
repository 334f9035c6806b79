"""No test depends on speed or the order of folders: a table lists clocks, sleeps and short limits with reasons."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
GUARD = 120  # seconds: a shorter limit may end on a busy machine before what it waits for
CLOCKS = {"monotonic", "perf_counter", "process_time"}
LIMITS = {"sleep", "wait", "join", "poll", "alarm", "result", "get", "communicate"}


def found(tree: ast.AST) -> Iterator[str]:
    """Names of clocks that a file calls, and of what it calls with a limit below the guard."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "import " in node.value:
            try:  # a script of another process
                yield from found(ast.parse(node.value))
            except SyntaxError:
                continue
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        limits = [each.value for each in node.keywords if each.arg == "timeout"]
        if name in LIMITS and ast.unparse(node.func) != name:
            limits += node.args[:1]
        if name in CLOCKS or any(short(each) for each in limits) or (name == "sleep" and computed(node.args[0])):
            yield name


def computed(limit: ast.expr) -> bool:
    return not isinstance(limit, ast.Constant)


def short(limit: ast.expr) -> bool:
    return isinstance(limit, ast.Constant) and isinstance(limit.value, int | float) and limit.value < GUARD


WAITING = "it waits for another process, again and again, until that has done its part or its own guard ends"
NEVER = "what is waited for never comes while the code is right: a longer wait only finds more"
LATE = "others are late on purpose: a longer wait changes nothing"
KNOWN = {  # file -> how many of them, and why none can make a test fail that is right
    "audits/test_kill_minus_nine.py": (4, "a kill may come at any time"),
    "audits/test_users_cap.py": (1, "a lock that is held is not waited for"),
    "federated/test_transport.py": (4, LATE),
    "flower/test_flower_places.py": (1, NEVER),
    "flower/test_kill.py": (3, WAITING),
    "ledger/test_one_file.py": (1, NEVER),
    "ledger/test_outages.py": (3, "a pause between two acts, which may take any time"),
    "optuna_front/test_dpfts_sampler.py": (1, LATE),
    "optuna_front/test_sealed.py": (1, NEVER),
    "outsourced/test_curator.py": (1, LATE),
    "ray_front/ray_harness.py": (3, WAITING),
    "ray_front/test_choice_ray.py": (1, NEVER),
    "ray_front/test_every_searcher.py": (1, LATE),
    "ray_front/test_no_marker.py": (1, NEVER),
    "ray_front/test_refusals.py": (1, "the time is stated, and nobody waits"),
    "ray_front/test_two_nodes.py": (1, "an agent is slow, so that others overtake it"),
    "search/test_centred_run.py": (1, NEVER),
    "tools/public_functions.py": (1, LATE),
    "tools/superlink.py": (4, WAITING),
}


def test_clocks_sleeps_and_short_limits_are_listed() -> None:
    counts = {str(path.relative_to(HERE)): count_in(path) for path in sorted({*HERE.rglob("*.py")} - {Path(__file__)})}
    unknown = {name: count for name, count in counts.items() if count > KNOWN.get(name, (0, ""))[0]}
    assert unknown == {}, f"use an event, a fake clock or a guard of {GUARD} s, or say here why speed does not matter"


def count_in(path: Path) -> int:
    return len(list(found(ast.parse(path.read_text(encoding="utf-8")))))


def test_every_thread_of_a_test_is_joined() -> None:
    """One that lives on may raise while another test runs, which then fails. A server of pages raises nothing."""
    left = []
    for path in sorted({*HERE.rglob("test_*.py")} - {Path(__file__)}):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and "Thread(" in (text := ast.unparse(node)):
                left += [] if ".join(" in text or "serve_forever" in text else [f"{path.name}: {node.name}"]
    assert left == []


def test_the_table_of_chances_names_files_that_exist() -> None:
    named = re.findall(r"`([\w/]+\.py)`", (HERE / "README.md").read_text(encoding="utf-8"))
    assert [name for name in named if not (HERE / name).exists()] == []


def test_what_is_looked_for_is_found() -> None:
    code = (
        "time.sleep(1)\nevent.wait(5)\nrun(timeout=30)\nf('import time\\ntime.monotonic()')\nwait(3)\nrun(timeout=300)"
    )
    assert sorted(found(ast.parse(code))) == ["monotonic", "run", "sleep", "wait"]


def test_a_fixture_of_a_folder_has_a_name_of_its_own() -> None:
    """Which of two a test gets may depend on the order in which folders are entered."""
    names = Counter(
        node.name
        for path in HERE.rglob("conftest.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and any("fixture" in ast.unparse(each) for each in node.decorator_list)
    )
    assert [name for name, count in names.items() if count > 1] == []
