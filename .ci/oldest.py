"""Print, for pip's --constraint, the oldest version of every dependency that pyproject.toml allows."""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
extras = {name: needed for name, needed in project["optional-dependencies"].items() if name != "dev"}
for requirement in (*project["dependencies"], *(one for needed in extras.values() for one in needed)):
    if found := re.fullmatch(r"([\w-]+)(?:\[.*\])?>=([\w.]+)", requirement):  # not "dptune[sklearn]"
        sys.stdout.write("{}=={}\n".format(*found.groups()))
        if found[1] == "xgboost":  # tested without the libraries of a graphics card
            sys.stdout.write(f"xgboost-cpu=={found[2]}\n")
