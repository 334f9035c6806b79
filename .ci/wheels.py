"""Build sdist and wheel, install the wheel with each extra alone in an environment of its own, and use it there.

``python .ci/wheels.py FOLDER`` keeps everything in FOLDER. The environments of the extras see the one with the required
packages through a .pth file, so that NumPy and SciPy are installed once. torch and xgboost are left out: their wheels
bring gigabytes of a graphics card's libraries.
"""

import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT, FOLDER = Path(__file__).parent.parent, Path(sys.argv[1]).resolve()
LEFT_OUT = {"torch", "xgboost", "all", "dev", "docs"}
LEDGER = (
    "import dptune; ledger = dptune.PrivacyLedger('l.db', dptune.Budget.gdp(1.0)); "
    "p = dptune.LossPrivatizer(ledger, n=2, clip=(0, 1)); p.observe('x', [0, 1]); "
    "p.release(p.mean_query('x', 0.5), scope='s', key='value/0'); "
)
CORE = LEDGER + "print(ledger.statement(delta=1e-5).to_text()); import dptune.cli"
USES = {
    "optuna": "import dptune_optuna; [getattr(dptune_optuna, name) for name in dptune_optuna.__all__]",
    "sklearn": "import dptune_sklearn; [getattr(dptune_sklearn, name) for name in dptune_sklearn.__all__]",
    "ray": "import dptune_ray; [getattr(dptune_ray, name) for name in dptune_ray.__all__]",
    "federated": "from dptune.ledger.subsampled import SubsampledGaussian, epsilon_pld; "
    "assert epsilon_pld(SubsampledGaussian(q=0.1, z=1.0, steps=5), 1e-3) > 0",
    "postgresql": "import dptune\ntry: dptune.PrivacyLedger('postgresql://u@127.0.0.1:1/d?connect_timeout=2')\n"
    "except dptune.LedgerError: print('asked the server')",
    "figures": LEDGER + "from dptune.figures import save_figure; save_figure(ledger, 'f.png')",
    "lightgbm": "import lightgbm, dptune.losses.models",
    "cli": LEDGER + "import sys; sys.argv = ['dptune', 'show', 'l.db']; from dptune.cli import main; main()",
    "cmaes": "import cmaes, dptune",
    "mlflow": "import os; os.environ['MLFLOW_ALLOW_FILE_STORE'] = 'true'; "
    + LEDGER
    + "from dptune_mlflow import log_run; log_run(ledger, 's', delta=1e-5, tracking_uri='file:mlruns')",
}


def run(*command: object, **settings: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **settings)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))[:200]}\n{done.stdout}{done.stderr}")
    return done.stdout


def environment(name: str, sees: Path | None = None) -> Path:
    """Make an environment; return its Python."""
    venv.create(FOLDER / name, with_pip=sees is None, clear=True)
    python = FOLDER / name / "bin" / "python"
    if sees is not None:
        (site(python) / "base.pth").write_text(str(site(sees)))
    return python


def site(python: Path) -> Path:
    return Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())


def names(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def build(python: Path) -> Path:
    """Build both, and the wheel once more from the sdist alone; return the wheel."""
    run(python, "-m", "pip", "install", "--quiet", "hatchling")
    run(python, "-m", "hatchling", "build", "-d", FOLDER / "dist", cwd=ROOT)
    (wheel,), (sdist,) = ((FOLDER / "dist").glob(ending) for ending in ("*.whl", "*.tar.gz"))
    with tarfile.open(sdist) as archive:
        archive.extractall(FOLDER / "sdist", filter="data")
    (unpacked,) = (FOLDER / "sdist").iterdir()
    run(python, "-m", "hatchling", "build", "-t", "wheel", "-d", FOLDER / "again", cwd=unpacked)
    (again,) = (FOLDER / "again").glob("*.whl")
    if names(wheel) != names(again):
        sys.exit(f"the sdist lacks, or adds: {sorted(names(wheel) ^ names(again))}")
    packages = {name.split("/")[0] for name in names(wheel) if name.endswith("__init__.py")}
    untyped = {package for package in packages if f"{package}/py.typed" not in names(wheel)}
    if untyped:
        sys.exit(f"py.typed is missing in the wheel: {sorted(untyped)}")
    return wheel


def main() -> None:
    FOLDER.mkdir(parents=True)
    base = environment("core")
    wheel = build(base)
    run(base, "-m", "pip", "install", "--quiet", "--no-compile", wheel)
    done = subprocess.run([base, "-c", CORE], capture_output=True, text=True, cwd=FOLDER, check=False)
    if "epsilon" not in done.stdout or "needs typer and rich" not in done.stderr:
        sys.exit(f"the wheel alone does not work: {done.stdout}{done.stderr}")
    print("core: ok", flush=True)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    if unknown := extras.keys() ^ (USES.keys() | (LEFT_OUT & extras.keys())):
        sys.exit(f"say here how to use the extras {sorted(unknown)}")
    for extra, needed in extras.items():
        if extra in USES:
            python = environment(extra, sees=base)
            missing = [one for one in needed if not re.match("dptune", one)]
            run(base, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile", *missing)
            (FOLDER / "l.db").unlink(missing_ok=True)
            run(python, "-W", "error::ImportWarning", "-c", USES[extra], cwd=FOLDER)
            print(f"{extra}: ok", flush=True)


main()
