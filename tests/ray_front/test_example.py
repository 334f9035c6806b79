"""The examples of Ray Tune and the Python of its pages run, on the tests' cluster and on one of their own."""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ray import tune

import dptune
from dptune.federated import FTSSettings
from dptune.ledger import PlanLedger, SubsampledGaussian
from dptune.local import HybridRandomizer
from dptune_ray import DPFTSSearch, Federation, LDPTGPSearch, RayTransport
from example_tools import run_shorter
from ray_harness import tuner
from ray_people import N

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.usefixtures("cluster")]
ROOT = Path(__file__).parent.parent.parent
KEYS = r"^(?:Plan|Spends|Shows|Risk|Stop|Chosen|Budget left|Next)\b"
VERDICT = r"^(?:Better than|Worse than|Not distinguishable from|Keep) the default"


@pytest.fixture(autouse=True)
def here(fast_path, monkeypatch):
    """Run in a folder where Tune's results lie, too."""
    monkeypatch.setenv("HOME", str(fast_path))
    with contextlib.chdir(fast_path):
        yield fast_path


@pytest.mark.parametrize(
    ("example", "says"),
    [
        ("choose_ray", "epsilon"),
        ("choose_ray_places", "3 places"),
        ("checkpoints_ray", "epsilon"),
        ("gibo_ray", "epsilon"),
        # nothing but one class and its plan is its own; in Optuna it runs in tests/test_examples.py
        ("own_algorithm", "(12); Gaussian mechanism on the mean clipped linear statistic of the losses (2)"),
    ],
)
def test_a_short_run_of_an_example_prints_its_statement(here, monkeypatch, capfd, example, says):
    run_shorter(example, here, monkeypatch, "ray")
    printed, errors = capfd.readouterr()
    assert says in printed
    assert "NOT PRIVATE" not in printed
    assert "constructor arguments" not in errors  # Ray warns of actors that it could not start again


def test_an_example_runs_as_it_stands_on_a_cluster_of_its_own(here):
    command = [sys.executable, str(ROOT / "examples" / "gibo_ray.py"), str(here)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RAY_ADDRESS": "local"}
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    assert "constructor arguments" not in run.stderr
    assert "epsilon" in run.stdout
    assert "NOT PRIVATE" not in run.stdout


def run_block(number, names, *shorter, page="ray.md"):
    block = (ROOT / "docs" / page).read_text().split("```python\n")[number].split("```")[0]
    for words, shorter_ones in shorter:
        block = block.replace(words, shorter_ones)
    exec(compile(block, page, "exec"), names)


def samples(number):
    """Two samples in the place of so many, in one process."""
    return f"num_samples={number}", "num_samples=2, reuse_actors=True, max_concurrent_trials=1"


def test_the_page_s_public_experiment_and_private_choice_run(capsys):
    rng = np.random.default_rng(0)
    rows = {name: rng.normal(size=(m, 2)) for name, m in (("train", 40), ("stop", 30), ("val", 50))}
    names = {f"X_{name}": X for name, X in rows.items()} | {f"y_{name}": X[:, 0] > 0 for name, X in rows.items()}
    run_block(1, names, samples(50))
    assert names["choice"].params.keys() == {"C", "gamma"}
    assert "one private choice" in capsys.readouterr().out
    assert names["ledger"].count("svm") == 1
    names |= {"X_held": rows["stop"], "y_held": rows["stop"][:, 0] > 0}
    run_block(2, names, samples(50))
    assert names["choice"].params.keys() == {"width", "rate"}
    assert "one private choice" in capsys.readouterr().out
    assert names["ledger"].count("nets") >= 1


def test_the_readme_s_third_script_runs_as_pasted_after_the_first(capsys):
    names = {}
    for number in (1, 3):
        run_block(number, names, samples(20), ("n_iter=60", "n_iter=4"), page="../README.md")
    assert capsys.readouterr().out.count("Chosen: ") == 2


def test_the_tutorial_runs_and_prints_what_it_says(capsys, caplog):
    names = {}
    for number in range(1, 5):
        run_block(number, names, ("num_samples=20", "num_samples=4, reuse_actors=True"), page="tutorial_ray.md")
    assert names["choice"].params.keys() == {"C", "gamma"}
    said = "\n".join(["", capsys.readouterr().out, *caplog.messages])
    assert re.search(VERDICT, said, re.MULTILINE)
    text = (ROOT / "docs" / "tutorial_ray.md").read_text()
    for kind, block in re.findall(r"^```(text|output)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        if kind == "text":
            assert {line for line in block.splitlines() if line not in said.splitlines()} == {"  ..."}
        else:  # of one run: the numbers of another one differ
            assert re.search(KEYS, block, re.MULTILINE)
            assert {key for key in re.findall(KEYS, block, re.MULTILINE) if f"\n{key}" not in said} == set()


def test_the_page_s_private_search_loads_its_rows_where_the_trial_runs(capsys):
    def load_validation_data():
        X = np.random.default_rng(0).normal(size=(N, 3))
        return X, X[:, 0] > 0

    X_train = np.random.default_rng(1).normal(size=(100, 3))
    names = {"X_train": X_train, "y_train": X_train[:, 0] > 0, "load_validation_data": load_validation_data}
    run_block(3, names, ("n_trials=100", "n_trials=4"), ("n=1000", f"n={N}"))
    assert names["search"].vault_run().begin().complete
    assert "'C'" in capsys.readouterr().out


def test_the_page_s_python_of_local_privacy_runs():
    names = {
        **{"dptune": dptune, "tune": tune, "LDPTGPSearch": LDPTGPSearch, "HybridRandomizer": HybridRandomizer},
        **{"users": [f"user {i}" for i in range(1000)], "satisfaction": lambda config: config["x"]},
    }
    run_block(3, names, samples(1000), page="ldp.md")
    assert names["search"].recommend().keys() == {"x"}
    assert sum(account.replies for account in names["ledger"].accounts()) == 2


def test_the_page_s_federation_runs(here):
    settings = FTSSettings(agents=8, d=1, M=20, own_features=20, candidates=64, initial=2)
    plan = SubsampledGaussian(q=1.0, z=1.0, steps=1)
    space = {"x": tune.uniform(0.0, 1.0)}
    names = {"settings": settings, "plan": plan, "space": space, "ledger": PlanLedger("agents.db", plan, n=8)}
    names |= {"objective": lambda agent, config: -((config["x"] - 0.1 * agent) ** 2)}
    names |= {"RayTransport": RayTransport, "Federation": Federation, "DPFTSSearch": DPFTSSearch}
    try:
        run_block(2, names, page="federated.md")
        assert names["federation"].best().keys() == set(range(8))
        names["federation"].stop()  # its hosts hold the CPUs of the cluster
        settings = {"metric": "value", "mode": "max", "num_samples": 4, "param_space": space}
        tuner(lambda config: {"value": config["x"]}, names["search"], here, **settings).fit()
        assert names["search"].recommend()["x"] > 0
    finally:
        names["transport"].stop()
    assert names["ledger"].count() == 1
