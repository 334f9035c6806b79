"""The size of the house: files and lines of each room, and imports between rooms.

Run it on any checkouts: ``python -m benchmarks.architecture [folder ...]``. A room is a folder of ``dptune/`` or a file
directly in it; an arrow is a pair of rooms of which the first imports the second, anywhere in its code.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path


def room_of(module: str) -> str | None:
    """The room of a dotted name inside dptune, as "search" or "space"; None for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def arrows(package: Path) -> set[tuple[str, str]]:
    rooms = {path.stem for path in package.iterdir() if path.is_dir() or path.suffix == ".py"} - {"__pycache__"}
    found = set()
    for path in package.rglob("*.py"):
        here = path.relative_to(package).parts[0].removesuffix(".py")
        for name in imported(ast.parse(path.read_text())):
            there = room_of(name) if name.startswith("dptune.") else None
            if there in rooms and there != here:
                found.add((here, str(there)))
    return found


def sizes(root: Path) -> dict[str, tuple[int, int]]:
    """Files and lines of each folder that holds Python files, the package's own files under its name."""
    found: dict[str, tuple[int, int]] = {}
    for path in sorted([*root.glob("dptune/**/*.py*"), *root.glob("integrations/**/*.py")]):
        if path.suffix in (".py", ".pyi"):
            folder = path.parent.relative_to(root).as_posix()
            files, lines = found.get(folder, (0, 0))
            found[folder] = files + 1, lines + len(path.read_text().splitlines())
    return found


def main(roots: list[Path]) -> None:
    tables = [sizes(root) for root in roots]
    print("| folder | " + " | ".join(f"files, lines in {root.resolve().name}" for root in roots) + " |")
    for folder in sorted(set().union(*tables)):
        print(f"| {folder} | " + " | ".join("{}, {}".format(*table.get(folder, (0, 0))) for table in tables) + " |")
    totals = [tuple(map(sum, zip(*table.values(), strict=True))) for table in tables]
    print("| all | " + " | ".join(f"{files}, {lines}" for files, lines in totals) + " |")
    for root in roots:
        found = arrows(root / "dptune")
        back = sum((there, here) in found for here, there in found) // 2
        rooms = {room for arrow in found for room in arrow}
        print(f"{root.resolve().name}: {len(rooms)} rooms, {len(found)} arrows, {back} pairs that import each other")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]] or [Path(".")])
