"""The examples run over a real SuperLink with three SuperNodes, which are processes on this machine's loopback."""

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("flwr")
from dptune import PrivacyLedger
from dptune.ledger import PlanLedger
from superlink import LOOPBACK, PATIENCE, free_port, process, superlink

APPS = Path(__file__).parents[2] / "examples"
AGENTS, ROUNDS = 3, 2


def run_app(tmp_path: Path, app: str, node_config: str) -> str:
    """Run an app with three nodes; return what its server printed."""
    shutil.copytree(APPS / app, tmp_path / "app")
    config = f'folder="{tmp_path}" timeout={PATIENCE}'
    with ExitStack() as stack:
        port, _ = stack.enter_context(superlink(tmp_path))
        run = stack.enter_context(process(tmp_path, "run", "flwr", "run", "app", "--stream", "--run-config", config))
        for agent in range(AGENTS):  # after the app was sent: it waits for them
            node = ("flower-supernode", *LOOPBACK, str(free_port()), "--superlink", f"127.0.0.1:{port}")
            stack.enter_context(process(tmp_path, f"node{agent}", *node, "--node-config", f"{node_config}={agent}"))
        assert run.wait(PATIENCE) == 0, (tmp_path / "run.log").read_text()
    return (tmp_path / "run.log").read_text()


def test_patients_at_three_places_choose_over_a_superlink(tmp_path: Path) -> None:
    said = run_app(tmp_path, "flower_places", "place")
    assert all(words in said for words in ("one private choice", "3 places", "one patient", "n = 1500")), said
    assert "NOT PRIVATE" not in said
    assert [charge.value is not None for charge in PrivacyLedger(tmp_path / "patients.db").charges()] == [True, True]


def test_the_example_makes_its_rounds_over_a_superlink(tmp_path: Path) -> None:
    said = run_app(tmp_path, "flower", "agent")
    assert f"{ROUNDS} of {ROUNDS} releases" in said, said
    assert "NOT PRIVATE" not in said
    assert PlanLedger(tmp_path / "hospitals.db").count() == ROUNDS
    for agent in range(AGENTS):
        told = (tmp_path / f"node{agent}.log").read_text()
        assert told.count(f"the best of agent {agent} so far: {{'alpha': ") == ROUNDS + 1, told
