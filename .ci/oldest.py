"""Print, for pip's --constraint, the oldest version of every dependency that pyproject.toml allows."""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
users = (
    *project["dependencies"],
    *(
        one
        for extra, them in extras.items()
        if extra not in ("all", "dev")
        for one in them
        if not one.startswith("dptune[")
    ),
)
for requirement in users:
    name, bound = re.fullmatch(r"([\w-]+)(?:\[.*\])?>=([\w.]+)", requirement).groups()
    sys.stdout.write(f"{name}=={bound}\n")
