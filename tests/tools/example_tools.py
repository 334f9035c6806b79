"""Run an example in this process with fewer trials. Slow tests and `make demo` run whole examples."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SHORTER = {  # what stands there -> what is run
    "any_sampler": ("n_trials=20", "n_trials=6"),
    "federated_landmine": ("29", "6"),
    "checkpoints_ray": ("num_samples=20", "num_samples=4"),
    "choose_ray": ("num_samples=40", "num_samples=6"),
    "gibo_optuna": ("n_trials=100", "n_trials=30"),
    "ldp_optuna": (", 300", ", 40"),
    "ldp_users": ("20_000", "2_000"),
    "lightgbm_native": ("n_trials=30", "n_trials=8"),
    "own_algorithm": ("48", "12"),
    "choose_optuna": ("n_trials=60", "n_trials=20"),
    "gibo_ray": ("n_trials=36", "n_trials=8"),
    "search_sklearn": ("n_iter=60", "n_iter=6"),
    "torch_mlp": ("range(40)", "range(8)"),
    "xgboost_tabular": ("n_iter=40, n_jobs=2", "n_iter=8, n_jobs=1"),
}


def run_shorter(name: str, folder: Path, patch: pytest.MonkeyPatch, *arguments: str) -> dict[str, object]:
    """Run it as a script whose results go into the folder; return its names."""
    code = (EXAMPLES / f"{name}.py").read_text()
    if name in SHORTER:
        stands, runs = SHORTER[name]
        assert stands in code
        code = code.replace(stands, runs)
    script = folder / f"{name}.py"
    script.write_text(code)
    patch.setattr(sys, "argv", [str(script), str(folder), *arguments])
    return runpy.run_path(str(script), run_name="__main__")
