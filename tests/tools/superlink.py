"""Flower's programs as processes on this machine's loopback."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

BIN, LOOPBACK = Path(sys.executable).parent, ("--insecure", "--host", "127.0.0.1", "--port")
PATIENCE = 1800.0  # seconds: each question starts a Python process at each node


def free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def process(folder: Path, name: str, program: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program of Flower's and all that it starts, which end with the block."""
    own = {"FLWR_HOME": str(folder), "FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    environment = {**os.environ, **own, "PATH": f"{BIN}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    with (folder / f"{name}.log").open("ab") as log:
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
    raise TimeoutError("the SuperLink does not answer")


@contextmanager
def superlink(folder: Path) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A SuperLink, and the configuration with which `flwr run` finds it; yields its port and process."""
    port = free_port()
    (folder / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    link = ("flower-superlink", *LOOPBACK, str(port), "--disable-runtime-dependency-installation")
    with process(folder, "link", *link) as started:
        wait_for(port)
        yield port, started


def sweep(folder: Path) -> None:
    """Kill what programs of this folder have started in sessions of their own, and left behind."""
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"FLWR_HOME={folder}".encode() in (each / "environ").read_bytes().split(b"\0"):
                os.kill(int(each.name), signal.SIGKILL)
