"""A device imports OpenDP and the standard library only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCKED = ["numpy", "scipy", "sqlalchemy", "optuna", "ray", "sklearn", "pandas", "matplotlib", "dp_accounting"]
PROGRAM = f"""
import sys, types
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED}:
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Block())
{{before}}
from dptune.local.randomizer import LocalRandomizer
from dptune.local import UserLedger
print(type(LocalRandomizer(1.0, 2.0).randomize(0.5)).__name__)
"""
STUB = 'package = types.ModuleType("dptune"); package.__path__ = ["dptune"]; sys.modules["dptune"] = package'


def run(before: str) -> str:
    program = PROGRAM.format(before=before)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_the_local_package_itself_is_light() -> None:
    assert run(STUB) == "float\n"


def test_a_device_imports_without_numpy_scipy_sqlalchemy_optuna_and_ray() -> None:
    assert run("") == "float\n"
