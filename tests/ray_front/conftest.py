"""One small Ray cluster on loopback for all tests of a session, and vaults without any cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from dptune_ray import actors

HERE = Path(__file__).parent
ATTEMPTS = 3


@pytest.fixture(scope="session")
def cluster() -> Iterator[Path]:
    """Start Ray; return its session folder, where its logs are."""
    settings = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}  # 15 were 3% of a core that others use
    os.environ.update(settings)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])  # for the workers
    for attempt in range(ATTEMPTS):
        try:
            ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80 * 2**20, _node_ip_address="127.0.0.1")
            break
        except Exception:
            ray.shutdown()
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(5)
    yield Path(ray._private.worker._global_node.get_session_dir_path())
    ray.shutdown()


@pytest.fixture
def local_actors(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Actors in this process: what the searchers and trials do, without a cluster."""
    running: dict[str, Any] = {}

    def launch(self: actors.ActorClient, kind: type, *args: Any) -> Any:
        return running.setdefault(self.name, actors.Actor(*actors.in_parts(kind, *args)))

    monkeypatch.setattr(actors.ActorClient, "launch", launch)
    monkeypatch.setattr(actors.ActorClient, "actor", lambda self: _handle(running[self.name]))
    monkeypatch.setattr(actors.ray, "get", lambda reference: reference)
    return running


def _handle(actor: actors.Actor) -> SimpleNamespace:
    """An actor with the calling convention of Ray's."""
    return SimpleNamespace(call=SimpleNamespace(remote=actor.call))
