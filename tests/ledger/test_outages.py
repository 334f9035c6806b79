"""Work waits for a server that restarts, dies or loses a connection, and each query is charged and answered once."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from audit_tools import start_forked
from dptune import Budget, LedgerError, PrivacyLedger
from dptune.ledger import schema, server
from ledger_tools import KINDS, Urls, listening, pay
from refusals import refused

if TYPE_CHECKING:
    from conftest import PostgresqlServer as Server


RELEASES = """
import json, sys, time
import numpy as np
from dptune import LossPrivatizer, PrivacyLedger
from dptune.ledger import server
from dptune.privacy.noise import OpenDPNoise

server.RETRY_SECONDS = 600.0  # a busy machine starts a server slowly
draws, true_noise = [], OpenDPNoise.add_gaussian
def draw(self, statistic, sigma):
    draws.append(sigma)
    return true_noise(self, statistic, sigma)
OpenDPNoise.add_gaussian = draw

url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
privatizer = LossPrivatizer(PrivacyLedger(url), n=100, clip=(0.0, 1.0))
privatizer.observe("x", np.full(100, 0.3))
query, released = privatizer.mean_query("x", 0.01), {}
for i in range(count):
    released[str(i)] = privatizer.release(query, scope=name, key=str(i)).scalar
    time.sleep(0.05)
print(json.dumps({"released": released, "draws": len(draws)}))
"""


def restart(server: Server, mode: str) -> None:
    server.stop(mode)
    time.sleep(0.2)
    server.start()


CLIENTS = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


def kill_a_backend(server: Server) -> None:
    """The server ends all connections then, and recovers from its log."""
    witness = server.connect()
    ((pid,),) = witness.execute(f"SELECT pid {CLIENTS} LIMIT 1").fetchall()
    os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(psycopg.OperationalError):
        while True:
            witness.execute("SELECT 1")


def test_processes_outlive_restarts_kills_and_lost_connections(postgresql_server: Server) -> None:
    url, count, names = postgresql_server.url(), 15, ("a", "b")
    ledger = PrivacyLedger(url, Budget.gdp(2.0))
    ledger.bind_people(100)
    workers = {name: start_forked(RELEASES, url, name, str(count)) for name in names}
    acts: list[Callable[[], object]] = [
        lambda: restart(postgresql_server, "fast"),
        lambda: kill_a_backend(postgresql_server),
        lambda: postgresql_server.run(f"SELECT pg_terminate_backend(pid) {CLIENTS}"),
        lambda: restart(postgresql_server, "immediate"),
    ]
    for part, act in enumerate(acts, start=1):
        run = True
        while min(map(ledger.count, names)) < part * count // (len(acts) + 1):
            assert run, "nothing goes on"
            run = any(worker.runs() for worker in workers.values())
        act()
    for name, worker in workers.items():
        found = json.loads(worker.wait().stdout.splitlines()[-1])
        assert found["draws"] == count, "one draw for each charge"
        stored = {charge.key: charge.value for charge in ledger.charges(name)}
        assert stored == {key: (value,) for key, value in found["released"].items()}
    assert PrivacyLedger(url).count() == 2 * count
    assert ledger.spent() == pytest.approx(0.01 * (2 * count) ** 0.5, rel=1e-9)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "RETRY_SECONDS", 0.2)


def test_a_server_that_stays_away_is_tried_for_a_stated_time(
    postgresql_server: Server, impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = PrivacyLedger(postgresql_server.url(), Budget.gdp(1.0))
    pickled = pickle.dumps(ledger)
    postgresql_server.stop("fast")
    try:
        for act in (lambda: pay(ledger, "a", 0.1), lambda: pickle.loads(pickled)):
            caplog.clear()
            refused(LedgerError, r"Check that the server runs.*\(tried for 0\.2 seconds\)", act)
            assert len(caplog.records) == 1
            assert "trying again for 0.2 seconds" in caplog.text
        caplog.clear()
        with pytest.raises(LedgerError, match="Check that the server runs") as refusal:  # never met: perhaps a typo
            PrivacyLedger(postgresql_server.url(schema="ledger0"))
        assert "tried" not in str(refusal.value) + caplog.text
    finally:
        postgresql_server.start()
    assert pay(ledger, "a", 0.1).seq == 1
    assert pickle.loads(pickled).count() == 1


# ---- a commit whose outcome is not known ------------------------------------------------------------------


OUTCOMES = ("committed", "rolled back", "committed later")
ACTS: dict[str, tuple[Callable[[Any], Any], Any, str]] = {  # what is done, what it returns, the table that gets a row
    "charge": (lambda ledger: pay(ledger, "a", 0.3).seq, 2, "charges"),
    "record": (lambda ledger: ledger.record(ledger.find("study", "first"), [0.25]).value, (0.25,), "releases"),
    "raise": (lambda ledger: ledger.raise_budget(Budget.gdp(2.0)), None, "facts"),
    "plan": (lambda ledger: ledger.fix_plan("run", lambda rest: {"mu": 0.1}), {"mu": 0.1}, "facts"),
    "read": (lambda ledger: round(ledger.spent(), 9), 0.5, ""),
}


LOST_ACTS = [(name, outcome) for name in ("charge", "record") for outcome in OUTCOMES]
LOST_ACTS += [(name, OUTCOMES[i % 2]) for i, name in enumerate([*ACTS][2:])]


@pytest.fixture
def lost(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The next commit's answer is lost; the list holds what became of commits."""
    seen: list[str] = []
    real = PGDialect_psycopg.do_commit
    later: list[threading.Thread] = []

    def commit(dialect: Any, connection: Any) -> None:
        driver = getattr(connection, "driver_connection", connection)
        if seen:
            return real(dialect, connection)
        seen.append(request.param)
        if request.param == "committed later":  # the server has the commit still before it
            alive = driver.pgconn

            def finish() -> None:
                time.sleep(0.3)
                alive.exec_(b"COMMIT")
                alive.finish()

            later.append(threading.Thread(target=finish))
            later[-1].start()
            driver.pgconn = psycopg.pq.PGconn.connect(b"host=/nowhere")  # one that is lost
        else:
            if request.param == "committed":
                real(dialect, connection)
            driver.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(PGDialect_psycopg, "do_commit", commit)
    seen.append("not yet")
    yield seen
    for thread in later:
        thread.join()


@pytest.mark.parametrize(("name", "lost"), LOST_ACTS, indirect=["lost"])
def test_a_lost_commit_is_looked_up_and_made_once(postgresql: Urls, name: str, lost: list[str]) -> None:
    url, (act, wanted, grown) = postgresql(), ACTS[name]
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    pay(ledger, "first", 0.5)
    before = rows(ledger)
    lost.clear()
    assert act(ledger) == wanted
    assert lost, "it committed nothing"
    assert PrivacyLedger(url).mark() == ledger.mark()
    assert rows(ledger) == {table: count + (table == grown) for table, count in before.items()}


def rows(ledger: PrivacyLedger) -> dict[str, int]:
    with schema.connect(ledger.url).connect() as connection:
        tables = ("charges", "releases", "facts", "ledger")
        return {t: connection.exec_driver_sql(f"SELECT count(*) FROM dptune_{t}").scalar_one() for t in tables}


@pytest.mark.parametrize(("kind", "lost"), [*zip(KINDS, (*OUTCOMES, OUTCOMES[1]), strict=True)], indirect=["lost"])
def test_a_ledger_is_made_and_charged_once_where_the_commit_was_lost(
    postgresql: Urls, kind: str, lost: list[str]
) -> None:
    url = postgresql()
    lost.clear()
    ledger = KINDS[kind].new(url)
    assert KINDS[kind].opener(url).identity == ledger.identity
    lost.clear()
    assert KINDS[kind].charge(ledger, 0).seq == 1, "the key of a training is drawn once a call, not once a try"
    assert (rows(ledger)["ledger"], rows(ledger)["charges"]) == (1, 1)


# ---- time limits ------------------------------------------------------------------------------------------


def test_connecting_to_an_unresponsive_server_times_out() -> None:
    assert server.CONNECT["connect_timeout"] == 10
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"postgresql://user:hunter2@127.0.0.1:{deaf.getsockname()[1]}/db?connect_timeout=2"  # libpq's least
        with pytest.raises(LedgerError, match=r"timeout expired.*Check that the server runs") as refusal:
            PrivacyLedger(url)
    assert "hunter2" not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_waiting_for_a_locked_ledger_times_out(postgresql: Urls, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = PrivacyLedger(postgresql(), Budget.gdp(1.0))
    held: list[list[Any]] = []

    def look(connection: sa.Connection) -> None:
        names = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
        held.append([connection.exec_driver_sql(f"SHOW {name}").scalar() for name in names])

    with listening("commit", look):
        pay(ledger, "a", 0.1)
    assert held == [["1min", "90s", "5min"]]
    monkeypatch.setattr(server, "BEGIN", server.BEGIN.replace("'60s'", "'200ms'"))
    with schema.connect(ledger.url).connect() as other:
        other.execute(sa.select(schema.ledger.c.identity).with_for_update())
        words = r"lock timeout\. Another process has held.*nothing was charged"
        refused(LedgerError, words, lambda: pay(ledger, "b", 0.1))
        assert ledger.count() == 1, "reading needs no lock"
    assert pay(ledger, "b", 0.1).seq == 2


# ---- remedies ---------------------------------------------------------------------------------------------


def test_an_error_of_the_server_names_a_remedy_and_no_password(postgresql_server: Server, impatient: None) -> None:
    made = postgresql_server.url()
    ledger = PrivacyLedger(made, Budget.gdp(1.0))
    name = made.rpartition("%3D")[2]
    postgresql_server.run(
        "CREATE ROLE looker LOGIN; CREATE ROLE stranger LOGIN; CREATE ROLE standby LOGIN;"
        f"GRANT USAGE ON SCHEMA {name} TO looker, standby;"
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {name} TO looker, standby;"
        f"GRANT INSERT ON ALL TABLES IN SCHEMA {name} TO standby; GRANT UPDATE ON {name}.dptune_ledger TO standby;"
        "ALTER ROLE standby SET default_transaction_read_only = on;"
        "CREATE ROLE crowded LOGIN CONNECTION LIMIT 0; CREATE ROLE locked LOGIN PASSWORD 'hunter1'"
    )
    rules = postgresql_server.data / "pg_hba.conf"
    rules.write_text("local all locked scram-sha-256\nlocal all banned reject\n" + rules.read_text())
    postgresql_server.run("SELECT pg_reload_conf()")
    url = postgresql_server.url
    for place, remedy in {
        url(user="locked:hunter2", schema=name): "Check the user and the password",
        url(user="nobody", schema=name): "the user and the database must exist",
        url(user="banned", schema=name): "pg_hba.conf",
        url(user="stranger", schema=name): "search_path",
        url(user="crowded", schema=name): "End other clients",
        url(database="none", schema=name): "the database must exist",
        url(schema="none"): "Create the schema",
        "postgresql://user:hunter2@host.invalid/db": "Check the host",
    }.items():
        with pytest.raises(LedgerError, match=remedy) as refusal:
            PrivacyLedger(place, Budget.gdp(1.0))
        assert "hunter" not in str(refusal.value)
    for user, remedy in {"looker": "Grant the user SELECT and INSERT", "standby": "Connect to the primary"}.items():
        seen = PrivacyLedger(url(user=user, schema=name))
        assert seen.spent() == 0.0
        refused(LedgerError, remedy, partial(pay, seen, "a", 0.1))
    assert ledger.count() == 0
