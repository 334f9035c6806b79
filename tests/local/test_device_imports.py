"""A device imports OpenDP and the standard library only."""

from __future__ import annotations

import subprocess
import sys

BLOCKED = ["numpy", "scipy", "sqlalchemy", "optuna", "ray", "sklearn", "pandas", "matplotlib", "dp_accounting"]
PROGRAM = f"""
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED}:
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Block())
from dptune.local.randomizer import LocalRandomizer
from dptune.local import UserLedger
print(type(LocalRandomizer(1.0, 2.0).randomize(0.5)).__name__)
"""


def test_a_device_imports_without_numpy_scipy_sqlalchemy_optuna_and_ray() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == "float\n"
