"""No optimizer of cmaes, which frameworks pickle and store, contains uninitialised memory."""

import inspect
import pickle
import runpy
from pathlib import Path
from typing import Any

import cmaes
import numpy as np
import pytest

from dptune.errors import InputError
from dptune.privacy.seal import uninitialised
from dptune.privacy.seal.uninitialised import write_memory_of_cmaes
from dptune_optuna import objective
from dptune_ray import choice

LEFT = 1234.56789  # in memory, by whatever was there before
USUAL = {"mean": np.zeros(2), "sigma": 1.0}
MIXED = {"x_space": [[-1, 1], [-1, 1]], "z_space": [[0, 1, 2]], "c_space": [2]}
SETTINGS = {
    "CatCMA": {**USUAL, "cat_num": np.array([3, 2])},
    "CMAwM": {**USUAL, "bounds": np.array([[-1.0, 1.0]] * 2), "steps": np.array([0.0, 0.5])},
    "CatCMAwM": MIXED,
    "COMOCatCMAwM": MIXED,
}


@pytest.fixture(autouse=True)
def left(monkeypatch: pytest.MonkeyPatch) -> None:
    write_memory_of_cmaes()
    monkeypatch.setattr(np, "empty", lambda shape, dtype=float, **_: np.full(shape, LEFT, dtype=dtype))


def as_it_comes(optimizer: str) -> type[Any]:
    """The class without what dptune does to it."""
    cls = getattr(cmaes, optimizer)
    return type(optimizer, (cls,), {"__init__": inspect.unwrap(cls.__init__)})


def held(optimizer: str, cls: type[Any]) -> bool:
    """Say whether a new one has what was left in memory."""
    return np.float64(LEFT).tobytes() in pickle.dumps(vars(cls(**SETTINGS.get(optimizer, USUAL))))


@pytest.mark.parametrize("optimizer", [name for name, value in vars(cmaes).items() if inspect.isclass(value)])
def test_an_optimizer_begins_with_zeros(optimizer: str) -> None:
    assert not held(optimizer, getattr(cmaes, optimizer))
    if optimizer not in ("CMAwM", "COMOCatCMAwM"):  # which hold others of them
        assert held(optimizer, as_it_comes(optimizer))  # the test can fail


@pytest.mark.parametrize("optimizer", ["CMA", "SepCMA"])
def test_what_an_optimizer_does_never_depended_on_it(optimizer: str) -> None:
    def course(cls: type[Any]) -> list[tuple[bool, list[float]]]:
        made, seen = cls(mean=np.zeros(2), sigma=1.0, seed=3), []
        for _ in range(30):
            points = [made.ask() for _ in range(made.population_size)]
            seen.append((made.should_stop(), [float(x) for point in points for x in point]))
            made.tell([(point, 1.0) for point in points])  # a plateau, which ends a search as soon as it is known
        return seen

    zeros = course(getattr(cmaes, optimizer))
    assert course(as_it_comes(optimizer)) == zeros
    assert {stops for stops, _ in zeros} == {False, True}


@pytest.mark.parametrize("module", ["dptune_optuna/shield.py", "dptune_ray/search.py"])
def test_a_process_that_imports_the_front_end_is_safe(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """As one that unpickles an objective."""
    written = []
    monkeypatch.setattr(uninitialised, "write_memory_of_cmaes", lambda: written.append(module))
    runpy.run_path(str(Path(__file__).parents[3] / "integrations" / module))
    assert written
    # whoever unpickles an objective imports the shield
    assert {"dptune_optuna.shield"} <= {getattr(held, "__module__", "") for held in vars(objective).values()}


def test_a_ray_process_of_a_choice_is_made_safe_before_it_reads_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    monkeypatch.setattr(choice, "write_memory_of_cmaes", lambda: written.append("choice"))
    with pytest.raises(InputError, match="results must be"):
        choice.choose(None, len, loss="log_loss", data=written.clear, ledger="none.db")
    assert written
