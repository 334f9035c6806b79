"""The example on a cluster of two nodes on this machine, with token authentication."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import dptune

pytestmark = [pytest.mark.ray, pytest.mark.slow]
ROOT = Path(__file__).parent.parent.parent
NODES = "import ray; ray.init(log_to_driver=False); print(sum(node['Alive'] for node in ray.nodes()))"


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def start(environment: dict[str, str], *options: str) -> subprocess.Popen[bytes]:
    ports = free_ports(3)
    names = ("dashboard-agent-grpc-port", "dashboard-agent-listen-port", "metrics-export-port")
    ray = [str(Path(sys.executable).parent / "ray"), "start", "--block", "--node-ip-address=127.0.0.1"]
    own = [f"--{name}={port}" for name, port in zip(names, ports, strict=True)]
    return subprocess.Popen([*ray, *own, *options], env=environment, stdout=subprocess.DEVNULL)


@pytest.fixture
def two_nodes() -> Iterator[dict[str, str]]:
    """Start a head without CPUs and a node with two; yield the environment of their drivers."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="dptune-ray-"))  # short: the paths of sockets are limited
    token = folder / "token"
    token.write_text("0123456789abcdef" * 4)
    port = free_ports(1)[0]
    address = f"127.0.0.1:{port}"
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_USAGE_STATS_ENABLED": "0"}
    environment = {**os.environ, **own, "RAY_ADDRESS": address, "OMP_NUM_THREADS": "1"}
    bare = {name: value for name, value in environment.items() if name != "RAY_ADDRESS"}
    memory = f"--object-store-memory={80 * 2**20}"
    head = f"--port={port}", "--head", "--num-cpus=0", "--include-dashboard=false", f"--temp-dir={folder}", memory
    nodes = [start(bare, *head)]
    try:
        wait_for(port)
        nodes.append(start(bare, f"--address={address}", "--num-cpus=2", memory))
        yield environment
    finally:
        for node in reversed(nodes):
            node.terminate()
        for node in nodes:
            node.wait(30)


def wait_for(port: int) -> None:
    for _ in range(120):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    raise TimeoutError("the head did not start")


def python(environment: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, timeout=200)


def test_the_example_runs_on_two_nodes(two_nodes, tmp_path):
    for _ in range(30):
        if python(two_nodes, "-c", NODES).stdout.strip().endswith("2"):
            break
        time.sleep(1)
    else:
        pytest.fail("the second node did not join")
    run = python(two_nodes, str(ROOT / "examples" / "ray_tune_svm.py"), str(tmp_path))
    assert run.returncode == 0, run.stderr[-3000:]
    assert "epsilon" in run.stdout
    ledger = dptune.PrivacyLedger(tmp_path / "ledger.db")
    assert len(ledger.charges(prefix="value/")) >= 20
    assert ledger.private

    stranger = {**two_nodes, "RAY_AUTH_TOKEN_PATH": str(tmp_path / "other"), "RAY_AUTH_TOKEN": "f" * 64}
    del stranger["RAY_AUTH_TOKEN_PATH"]
    refused = python(stranger, "-c", NODES)
    assert refused.returncode != 0
    assert "uthenticat" in refused.stderr
