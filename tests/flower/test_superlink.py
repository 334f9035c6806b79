"""The examples run over a real SuperLink with three SuperNodes, which are processes on this machine's loopback."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

pytest.importorskip("flwr")
from dptune import PrivacyLedger
from dptune.ledger import PlanLedger

BIN = Path(sys.executable).parent
APPS = Path(__file__).parents[2] / "examples"
AGENTS, ROUNDS, PATIENCE = 3, 2, 600.0  # each question starts a Python process at each node


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def process(folder: Path, name: str, program: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program of Flower's and all that it starts, which end with the block."""
    own = {"FLWR_HOME": str(folder), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    environment = {**os.environ, **own, "PATH": f"{BIN}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    with (folder / f"{name}.log").open("wb") as log:
        started = subprocess.Popen(
            [BIN / program, *options], cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield started
    finally:
        for signal_, seconds in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 60.0)):
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal_)
            with suppress(subprocess.TimeoutExpired):
                started.wait(seconds)


def wait_for(port: int) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5.0):
            return
        time.sleep(0.2)
    pytest.fail("the SuperLink does not answer")


def run_app(tmp_path: Path, app: str, node_config: str) -> str:
    """Run an app with three nodes; return what its server printed."""
    port, loopback = free_port(), ("--insecure", "--host", "127.0.0.1", "--port")
    (tmp_path / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    shutil.copytree(APPS / app, tmp_path / "app")
    config = f'folder="{tmp_path}" timeout={PATIENCE}'
    with ExitStack() as stack:
        link = ("flower-superlink", *loopback, str(port), "--disable-runtime-dependency-installation")
        stack.enter_context(process(tmp_path, "link", *link))
        wait_for(port)
        run = stack.enter_context(process(tmp_path, "run", "flwr", "run", "app", "--stream", "--run-config", config))
        for agent in range(AGENTS):  # after the app was sent: it waits for them
            node = ("flower-supernode", *loopback, str(free_port()), "--superlink", f"127.0.0.1:{port}")
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
