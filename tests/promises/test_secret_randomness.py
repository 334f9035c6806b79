"""Every source of randomness that decides privacy follows one contract: noise, secret samples, numbers of repeats.

Seeding every available generator does not repeat any draw, including NumPy's and Python's global generators. Files of
the subpackages that decide privacy name no ordinary generator.
"""

import ast
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from ray import tune

import dptune
from audit_tools import Bug, FreeLedger, planted
from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.local import InsecureRandomizer, LocalRandomizer, UserLedger
from dptune.outsourced.curator import OutsourcedCurator
from dptune.outsourced.outputs import PublicOutputs
from dptune.privacy.noise import OpenDPNoise, SecretSample, SeededNoise, SeededSample, is_private, is_secret
from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan, plans, repeats
from dptune.training.repeats import one_of, repeat_and_select
from dptune_optuna import repeat_and_select as in_optuna
from dptune_ray import repeats as on_ray
from federated_audits import server

Draw = Callable[[Path], object]
PACKAGE = Path(dptune.__file__).parent
N, EVEN = 20, np.zeros(16)
PYTHONS = random.Random(0)


def release(folder: Path) -> object:
    privatizer = LossPrivatizer(FreeLedger(), n=N, clip=(0.0, 1.0))
    privatizer.observe("x", np.full(N, 0.5))
    return privatizer.release(privatizer.mean_query("x", 0.5), scope="s", key="k").scalar


def repeats_ledger(folder: Path) -> TrainingLedger:
    plan = SelectionPlan(Repeats.geometric(3), TrainingPlan(2.0, 0.1, 20), 0.5)
    return TrainingLedger(folder / "select.db", plan, n=N)


def selected(folder: Path) -> object:
    return repeat_and_select(lambda: ({}, "", np.full(N, 0.5)), [repeats_ledger(folder)], clip=(0.0, 1.0)).score


def drawn_in_optuna(folder: Path) -> object:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))

    def objective(trial: Any) -> tuple[str, np.ndarray]:
        return "", np.full(N, trial.suggest_float("x", 0, 1))

    return in_optuna(study, objective, [repeats_ledger(folder)], clip=(0.0, 1.0)).parameters


def outsourced(folder: Path) -> object:
    ledger = PrivacyLedger(folder / "rows.db", Budget.gdp(1.0), max_change=1.0)
    public = PublicOutputs(lambda: [0.0], because="made up")
    own = {"folder": folder / "own", "outputs": public}
    made = OutsourcedCurator(ledger, np.zeros((5, 2)), row_norm=25.0, scale=1.0, max_change=1.0, **own)
    return made._noisy(1.0).tolist()


LAWS = (Repeats.geometric(50), Repeats.logarithmic(50), Repeats.poisson(50))
SOURCES: dict[str, Draw] = {
    "Gaussian noise": lambda _: OpenDPNoise().add_gaussian(EVEN, 1.0).tolist(),
    "Gumbel noise": lambda _: [OpenDPNoise().noisy_argmin(EVEN, 1.0) for _ in range(30)],
    "Laplace noise": lambda _: OpenDPNoise().add_laplace(0.0, 1.0),
    "exponential noise": lambda _: [OpenDPNoise().permute_and_flip(EVEN, 1.0) for _ in range(30)],
    "a release": release,
    "a secret sample": lambda _: SecretSample().draw(200, 0.5).tolist(),
    "a federated round": lambda folder: server(folder, "federated").release(0).tolist(),
    "a selection's score": selected,
    "a repeat's candidate": lambda _: [one_of([{"i": i} for i in range(16)]) for _ in range(30)],
    "an outsourced table": outsourced,
    "a device's reply": lambda folder: UserLedger(folder / "replies.db", cap=2.0).reply(
        LocalRandomizer(1.0, 1.0), 0.3, user="ann", key="k"
    ),
    **{f"the number of repeats, {law}": lambda _, law=law: [law.draw() for _ in range(60)] for law in LAWS},
}
FRESH: dict[str, Draw] = {  # drawn by a generator that is made anew for each repeat, from the operating system's state
    "a repeat's parameters in Optuna": drawn_in_optuna,
    "a repeat's parameters in Ray": lambda _: on_ray.drawn({"x": tune.uniform(0, 1)}, None),
}


def draws_the_same(draw: Draw, folder: Path, *, fresh: bool = False) -> bool:
    """Whether it draws the same when everything that can be seeded is, before each of two draws.

    With ``fresh`` generators that are made meanwhile without a seed have the operating system's.
    """
    found = []
    for name in "ab":
        (folder / name).mkdir()
        with pytest.MonkeyPatch.context() as patch:
            random.seed(0)
            np.random.seed(0)
            if not fresh:
                patch.setattr("numpy.random.bit_generator.randbits", lambda bits: 7)  # numpy's own seed
                patch.setattr(random, "Random", lambda *_: PYTHONS)
                PYTHONS.seed(0)
            found.append(draw(folder / name))
    return found[0] == found[1]


@pytest.mark.parametrize("source", [*SOURCES, *FRESH])
def test_no_seed_decides_what_is_drawn(source: str, fast_path: Path) -> None:
    assert not draws_the_same({**SOURCES, **FRESH}[source], fast_path, fresh=source in FRESH)


class PythonsGenerator:
    """Stands where ``SystemRandom`` does, and is an ordinary generator that nobody has seeded."""

    def __new__(cls) -> Any:
        return random.Random()  # PYTHONS, meanwhile


def numpys_noise(self: OpenDPNoise, statistic: Any, sigma: float) -> Any:
    return statistic + np.random.normal(0, sigma, len(statistic))


def numpys_sample(self: SecretSample, n: int, q: float) -> Any:
    return np.random.default_rng().random(n) < q


PLANTED: dict[str, Bug] = {
    "a release": planted(OpenDPNoise, "add_gaussian", lambda _: numpys_noise),
    "a secret sample": planted(SecretSample, "draw", lambda _: numpys_sample),
    "a repeat's candidate": planted(repeats, "SystemRandom", lambda _: PythonsGenerator),
    f"the number of repeats, {LAWS[2]}": planted(plans, "SystemRandom", lambda _: PythonsGenerator),
}


@pytest.mark.parametrize("source", PLANTED)
def test_an_ordinary_generator_is_found(source: str, fast_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[source](monkeypatch)
    assert draws_the_same(SOURCES[source], fast_path)


def test_what_takes_a_seed_draws_the_same_and_says_that_it_is_not_private(fast_path: Path) -> None:
    def seeded(_: Path) -> object:
        reply = InsecureRandomizer(1.0, 1.0, insecure_seed=3).randomize(0.0)
        return SeededNoise(3).add_gaussian(EVEN, 1.0).tolist(), SeededSample(3).draw(50, 0.5).tolist(), reply

    assert draws_the_same(seeded, fast_path)
    assert not is_private(SeededNoise(3))
    assert not is_secret(SeededSample(3))
    assert is_secret(SecretSample())
    assert not InsecureRandomizer.private


# ---- and who names one -----------------------------------------------------------------------------------


def ordinary_generators(tree: ast.AST) -> set[str]:
    """Names of ordinary generators outside of classes that say in their name that they are not private."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef) and node.name.startswith(("Seeded", "Insecure")):
            continue
        if isinstance(node, ast.Attribute) and "random" in (getattr(node.value, name, "") for name in ("id", "attr")):
            found.add(ast.unparse(node))
        if isinstance(node, ast.ImportFrom) and node.module in ("random", "numpy.random"):
            found |= {alias.name for alias in node.names} - {"SystemRandom"}
        found |= ordinary_generators(node)
    return found


def test_where_privacy_is_decided_no_file_names_an_ordinary_generator() -> None:
    rooms = [PACKAGE / room for room in ("privacy", "training", "local", "choice", "ledger", "federated")]
    files = [path for room in rooms for path in sorted(room.rglob("*.py")) if path.parent != PACKAGE / "local/bandits"]
    files = [path for path in files if path.parent != PACKAGE / "federated" or path.name == "server.py"]
    assert len(files) > 50
    found = {path.name: ordinary_generators(ast.parse(path.read_text())) for path in files}
    assert {name: names for name, names in found.items() if names} == {
        # these simulate with public values, and shuffle public rows
        **{name: {"np.random.default_rng"} for name in ("planning.py", "binary.py", "forecast.py", "public_rows.py")},
        "silence.py": {"random.getstate", "random.setstate", "random.seed"},  # undoes what a user's model draws
    }
    for code in ("import numpy as np\nG = np.random.default_rng()", "from random import random", "random.Random()"):
        assert ordinary_generators(ast.parse(code))
