"""One small Ray cluster on loopback for all tests of a session, and vaults without any cluster."""

import contextlib
import gc
import os
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from dptune_ray import actors, federated, worker

HERE = Path(__file__).parent
ATTEMPTS = 9
CLUSTER = {
    "num_cpus": 2,
    "include_dashboard": False,
    "object_store_memory": 80 * 2**20,
    "_node_ip_address": "127.0.0.1",
}


@pytest.fixture(scope="session")
def cluster() -> Iterator[Path]:
    """Start Ray; return its session folder, where its logs are."""
    settings = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}  # 15 were 3% of a core that others use
    os.environ.update(settings)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(HERE), str(HERE.parent / "tools"), os.environ.get("PYTHONPATH", "")]
    )  # for the workers
    if not any(ray_starts() for _ in range(ATTEMPTS)):
        ray.init(**CLUSTER)  # raises what is wrong
    yield Path(ray._private.worker._global_node.get_session_dir_path())
    ray.shutdown()


def ray_starts() -> bool:
    """Return whether Ray has started: on a busy machine its processes may not answer within the 30 s that it waits.

    What is left of those processes warns when it is collected, so it is collected here.
    """
    with contextlib.suppress(Exception):
        ray.init(**CLUSTER)
        return True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        ray.shutdown()
        gc.collect()
    return False


class LocalRay:
    """What dptune uses of Ray for actors, with actors in this process."""

    exceptions = ray.exceptions

    def __init__(self) -> None:
        self.running: dict[str, actors.Actor] = {}  # by name

    def remote(self, kind: type) -> SimpleNamespace:
        return SimpleNamespace(options=lambda **options: SimpleNamespace(remote=partial(self._start, kind, options)))

    def _start(self, kind: type, options: dict[str, Any], *parts: bytes) -> SimpleNamespace:
        name = options.setdefault("name", f"unnamed {len(self.running)}")
        self.running.setdefault(name, kind(*parts))
        return SimpleNamespace(options=options, **vars(self.get_actor(name)))

    def get_actor(self, name: str) -> SimpleNamespace:
        if name not in self.running:
            raise ValueError(name)
        return SimpleNamespace(name=name, call=SimpleNamespace(remote=self.running[name].call))

    def get(self, reference: Any, timeout: float | None = None) -> Any:
        return reference

    def kill(self, actor: SimpleNamespace) -> None:
        del self.running[actor.name]

    def get_runtime_context(self) -> SimpleNamespace:
        return SimpleNamespace(get_node_id=lambda: "ab" * 28)


@pytest.fixture
def local_actors(monkeypatch: pytest.MonkeyPatch) -> dict[str, actors.Actor]:
    """Return the actors that run, by name: what the searchers and trials do, without a cluster."""
    local = LocalRay()
    for module in (actors, federated, worker):
        monkeypatch.setattr(module, "ray", local)
    return local.running
