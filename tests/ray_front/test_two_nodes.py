"""A cluster of two nodes on this machine uses token authentication and survives the loss of a node in mid-round."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import dptune
from federation_harness import SECRET
from ray_harness import descendants, folder_bytes, found, wait_until

pytestmark = [pytest.mark.ray, pytest.mark.slow]
ROOT = Path(__file__).parent.parent.parent
MEMORY = f"--object-store-memory={80 * 2**20}"
NODES = "import ray; ray.init(log_to_driver=False); print(sum(node['Alive'] for node in ray.nodes()))"


def free_ports(count):
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def start(environment, *options):
    ports = free_ports(3)
    names = ("dashboard-agent-grpc-port", "dashboard-agent-listen-port", "metrics-export-port")
    ray = [str(Path(sys.executable).parent / "ray"), "start", "--block", "--node-ip-address=127.0.0.1"]
    own = [f"--{name}={port}" for name, port in zip(names, ports, strict=True)]
    return subprocess.Popen([*ray, *own, *options], env=environment, stdout=subprocess.DEVNULL)


@dataclass
class Cluster:
    """A head without CPUs, and nodes that can be lost: the ``ray start`` processes, head first."""

    folder: Path  # of the session, with its logs
    environment: dict[str, str]  # of the drivers
    nodes: list[subprocess.Popen[bytes]]

    def add(self):
        environment = {name: value for name, value in self.environment.items() if name != "RAY_ADDRESS"}
        self.nodes.append(start(environment, f"--address={self.environment['RAY_ADDRESS']}", "--num-cpus=2", MEMORY))

    def lose(self):
        """kill -9 of the youngest node and everything that it started."""
        lost = self.nodes.pop()
        for pid in [*descendants(lost.pid), lost.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        lost.wait(600)


@pytest.fixture(scope="module")
def two_nodes():
    """Start a head without CPUs and a node with two."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="dptune-ray-"))  # short: the paths of sockets are limited
    token = folder / "token"
    token.write_text("0123456789abcdef" * 4)
    port = free_ports(1)[0]
    own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_USAGE_STATS_ENABLED": "0"}
    tests = Path(__file__).parents[1]
    modules = os.pathsep.join([str(tests / "ray_front"), str(tests / "tools"), os.environ.get("PYTHONPATH", "")])
    bare = {**os.environ, **own, "OMP_NUM_THREADS": "1", "PYTHONPATH": modules}
    bare.pop("RAY_ADDRESS", None)
    head = f"--port={port}", "--head", "--num-cpus=0", "--include-dashboard=false", f"--temp-dir={folder}", MEMORY
    cluster = Cluster(folder, {**bare, "RAY_ADDRESS": f"127.0.0.1:{port}"}, [start(bare, *head)])
    try:
        wait_until(lambda: answers(port))
        cluster.add()
        wait_until(lambda: python(cluster.environment, "-c", NODES).stdout.strip().endswith("2"))
        yield cluster
    finally:
        for node in reversed(cluster.nodes):
            node.terminate()
        for node in cluster.nodes:
            node.wait(600)
        shutil.rmtree(folder, ignore_errors=True)


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def python(environment, *command):
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, timeout=900)


def test_the_example_runs_on_two_nodes(two_nodes, tmp_path):
    run = python(two_nodes.environment, str(ROOT / "examples" / "gibo_ray.py"), str(tmp_path))
    assert run.returncode == 0, run.stderr[-3000:]
    assert "epsilon" in run.stdout
    ledger = dptune.PrivacyLedger(tmp_path / "gibo_ray.db")
    assert len(ledger.charges(prefix="step/")) == 11
    assert ledger.private


FEDERATION = """
    import time, ray
    from pathlib import Path
    from dptune_ray import Federation
    from federation_harness import SECRET, SETTINGS, SPACE, serve, value

    folder = Path({folder!r})
    ray.init(log_to_driver=False)

    def slow(agent, config):
        (folder / f"seen-{{agent}}-{{time.time_ns()}}").touch()
        print("an agent's", SECRET, flush=True)
        time.sleep(0.2)
        return value(agent, config)

    transport = serve(folder)
    federation = Federation(slow, SPACE, transport, SETTINGS, hosts=2, mode="min", seed=1)
    federation.advance(SETTINGS.initial + 1)
    running = [host.call.remote("advance", SETTINGS.initial + 4) for host in federation.hosts]
    ray.kill(transport._client.actor(), no_restart=False)  # the server, in mid-round
    federation.advance(SETTINGS.initial + 4)
    print(sorted(federation.best()))
"""


def test_a_federation_survives_the_loss_of_its_server_and_a_node(two_nodes, tmp_path):
    """A client without the cluster's token is refused."""
    code = textwrap.dedent(FEDERATION).format(folder=str(tmp_path))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    driver = subprocess.Popen([sys.executable, "-c", code], env=two_nodes.environment, **pipes)
    ledger = tmp_path / "agents.db"
    wait_until(lambda: driver.poll() is not None or rounds_of(ledger) == 2)
    if driver.poll() is not None:
        pytest.fail(driver.communicate()[1][-2000:])
    seen = len(list(tmp_path.glob("seen-*")))
    two_nodes.lose()
    two_nodes.add()
    output, errors = driver.communicate(timeout=900)  # the server's time-out is ten minutes
    assert driver.returncode == 0, errors[-3000:]
    assert "[0, 1, 2, 3]" in output.splitlines()  # Ray writes there, too
    charges = dptune.ledger.PlanLedger(ledger).charges()
    assert [charge.key for charge in charges] == [f"round/{t}" for t in range(4)]
    assert all(charge.value is not None for charge in charges)
    assert len(list(tmp_path.glob("seen-*"))) >= seen + 4 * (3 + 2)  # the agents began again on the new node
    assert found([SECRET], folder_bytes(two_nodes.folder)) == []
    stranger = {**two_nodes.environment, "RAY_AUTH_TOKEN": "f" * 64}
    del stranger["RAY_AUTH_TOKEN_PATH"]
    refused = python(stranger, "-c", NODES)
    assert refused.returncode != 0
    assert "uthenticat" in refused.stderr


def rounds_of(ledger):
    """How many rounds are charged; none before the ledger is made, which takes more than one write."""
    try:
        return len(dptune.ledger.PlanLedger(ledger).charges())
    except dptune.LedgerError:
        return 0
