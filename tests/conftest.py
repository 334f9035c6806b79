"""Fixtures that all suites share: a ledger, a privatizer, a fast folder and a temporary PostgreSQL server."""

import contextlib
import gc
import itertools
import logging
import os
import random
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from hypothesis import settings

from dptune import Budget, LossPrivatizer, PrivacyLedger
from every_logger import set_level
from ledger_tools import Urls

# The same few examples every time, so that a change and not luck decides; `make audit` looks for new ones.
EXPLORE = "DPTUNE_EXPLORE" in os.environ
settings.register_profile("dptune", deadline=None, derandomize=not EXPLORE, max_examples=200 if EXPLORE else 30)
settings.load_profile("dptune")
SHARED_MEMORY = Path("/dev/shm")

for variable in ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS"):  # typer reads them once, and colours what tests read
    os.environ.pop(variable, None)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker have all tests of Ray, first: they share a cluster, and wait more than they compute.

    And one those of PostgreSQL, which share a server.
    """
    for item in items:
        if item.get_closest_marker("ray"):
            item.add_marker(pytest.mark.xdist_group("ray"))
        elif "postgresql" in item.name or "postgresql_server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("postgresql"))
    items.sort(key=lambda item: item.get_closest_marker("ray") is None)


@pytest.hookimpl(tryfirst=True)  # before fixtures draw, and before logs and streams are captured
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin each test in one state, whichever test was before it.

    Garbage is collected here, and during a test only where it says so: some objects log or warn when they go, and a
    test that reads logs would hear those of an earlier one. What is still alive need not be looked through again.
    Models without a seed draw from the global generators: the test's name seeds them.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    seed = zlib.crc32(item.nodeid.encode())
    random.seed(seed)
    np.random.seed(seed)


@pytest.fixture(autouse=True)
def levels_of_loggers() -> None:
    """Undo what examples and benchmarks, run in this process, set for Optuna's loggers and ours."""
    set_level(logging.getLogger(optuna.__name__), optuna.logging.INFO)
    for name in ("dptune", "optuna.study"):
        set_level(logging.getLogger(name), logging.NOTSET)


@pytest.fixture
def own_folder(tmp_path: Path) -> Iterator[Path]:
    """The test runs in a folder of its own."""
    with contextlib.chdir(tmp_path):
        yield tmp_path


@pytest.fixture
def ledger(request: pytest.FixtureRequest, fast_path: Path) -> PrivacyLedger:
    """One name has one fixture: which of several a test gets may depend on the order in which folders are entered."""
    mu = 4.0 if "search" in request.path.parts else 10.0
    return PrivacyLedger(fast_path / "ledger.db", Budget.gdp(mu))


@pytest.fixture
def privatizer(ledger: PrivacyLedger) -> Callable[..., LossPrivatizer]:
    """Return a factory: privatizer(n=4, clip=(0, 1), ...) on the ledger of this test."""

    def make(**settings: Any) -> LossPrivatizer:
        if "groups" not in settings:
            settings.setdefault("n", 4)
        settings.setdefault("clip", (0.0, 1.0))
        return LossPrivatizer(settings.pop("ledger", ledger), **settings)

    return make


@pytest.fixture
def fast_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, for ledgers with many charges: every charge waits for the disk."""
    if not os.access(SHARED_MEMORY, os.W_OK):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir=SHARED_MEMORY, prefix="dptune-"))
    yield folder
    shutil.rmtree(folder)


class PostgresqlServer:
    """A throw-away server that can be stopped and started."""

    def __init__(self, binaries: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dptune-pg-", dir="/tmp"))  # short: the socket's path is limited
        self.data, self._numbers = self.folder / "data", itertools.count()
        self._options: dict[str, Any] = {"cwd": self.folder, "check": True, "capture_output": True, "timeout": 900}
        if os.geteuid() == 0:  # the server refuses to run as root
            shutil.chown(self.folder, "postgres")
            self._options["user"] = "postgres"
        initdb = [binaries / "initdb", "-D", self.data, "-U", "dptune", "-A", "trust", "--no-sync", "-E", "UTF8"]
        subprocess.run(initdb, **self._options)
        self._control = [binaries / "pg_ctl", "-D", self.data, "-w", "-l", self.folder / "log"]

    def start(self) -> None:
        server = f"-k {self.folder} -h '' -c fsync=off -c timezone=UTC"
        subprocess.run([*self._control, "-o", server, "start"], **self._options)

    def stop(self, mode: str = "immediate") -> None:
        subprocess.run([*self._control, "-m", mode, "stop"], **self._options)

    def run(self, statement: str) -> list[Any]:
        """Return the rows of a statement of the owner."""
        with self.connect() as connection:
            found = connection.execute(statement)
            return found.fetchall() if found.description else []

    def connect(self) -> Any:
        """Return a connection of the owner; a server that recovers from a kill is waited for."""
        import psycopg

        while True:
            try:
                return psycopg.connect(host=str(self.folder), user="dptune", dbname="postgres", autocommit=True)
            except psycopg.OperationalError as error:
                if "the database system is" not in str(error):
                    raise

    def url(self, *, user: str = "dptune", database: str = "postgres", schema: str | None = None) -> str:
        """Return the URL of a new, empty schema, or of one that is given."""
        if schema is None:
            schema = f"ledger{next(self._numbers)}"
            self.run(f"CREATE SCHEMA {schema}")
        return f"postgresql://{user}@/{database}?host={self.folder}&options=-csearch_path%3D{schema}"


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """Start a throw-away server.

    With DPTUNE_POSTGRESQL=1, as CI sets it, a machine without a server fails instead of skipping.
    """
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found and not os.environ.get("DPTUNE_POSTGRESQL"):
        pytest.skip("no PostgreSQL server in /usr/lib/postgresql: apt-get install postgresql")
    assert found, "DPTUNE_POSTGRESQL is set, and there is no server in /usr/lib/postgresql"
    server = PostgresqlServer(found[-1].parent)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(server.folder)


@pytest.fixture
def postgresql(postgresql_server: PostgresqlServer) -> Callable[[], str]:
    """Return a factory of URLs, each of an empty schema of its own."""
    return postgresql_server.url


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, fast_path: Path) -> Urls:
    """Return a factory of places for a new ledger: the contract of a ledger holds on SQLite and on PostgreSQL."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql")
    names = iter(range(10_000))
    return lambda: str(fast_path / f"ledger{next(names)}.db")


@pytest.fixture
def url(new_url: Urls) -> str:
    return new_url()
