"""The ledger's tables: plain typed columns, append-only by trigger, readable with any SQL client.

    dptune_ledger    one row: the budget (mu, or a fixed plan) and what it protects, written once
    dptune_facts     public facts fixed once per scope (n, a study's plan); the first writer wins
    dptune_charges   one row per charge, committed before any data is read, with a hash of all before it
    dptune_releases  the released value of a charge, written once after the noise was drawn
    dptune_spending  a view for people: every charge with the running sum of mu^2

A choice that counts towards the limit of choices has no ``mu``; its description has its bounded range, ``eta``.
Likewise, a release that counts towards the limit of pure releases has ``epsilon`` instead.
"""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import NullPool

from dptune._checks import at_home, place
from dptune._store import append_only
from dptune.errors import InputError

_MISSING = "not installed as a package"
VERSION = 4  # version of these tables and their contents
metadata = sa.MetaData()

ledger = sa.Table(
    "dptune_ledger",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("identity", sa.Text, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("mu", sa.Double),
    sa.Column("plan", sa.JSON(none_as_null=True)),
    sa.Column("stated_epsilon", sa.Double),
    sa.Column("stated_delta", sa.Double),
    sa.Column("pair", sa.Boolean, nullable=False),  # the budget is kept in (epsilon, delta): choices may have a limit
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("unit", sa.Text, nullable=False),
    sa.Column("adjacency", sa.Text, nullable=False),
    sa.Column("trust_model", sa.Text, nullable=False),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("versions", sa.JSON, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),  # "budget", "rounds" or "trainings"
)
facts = sa.Table(
    "dptune_facts",
    metadata,
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.JSON, nullable=False),
)
charges = sa.Table(
    "dptune_charges",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),  # from 1 without gaps: the running count
    sa.Column("scope", sa.Text, nullable=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),  # the part of key before its first "/"
    sa.Column("nth", sa.Integer, nullable=False),  # number among the charges of this scope and kind, from 1
    sa.Column("mu", sa.Double),
    sa.Column("mechanism", sa.Text, nullable=False),
    sa.Column("private", sa.Boolean, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("description", sa.JSON, nullable=False),
    sa.Column("mu_squared_so_far", sa.Text, nullable=False),  # decimal, exact to fifty digits
    sa.Column("seeded_so_far", sa.Integer, nullable=False),  # number of charges with seeded noise
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("charged_at", sa.Text, nullable=False),
    sa.UniqueConstraint("scope", "key"),
    sa.UniqueConstraint("scope", "kind", "nth"),
    sa.UniqueConstraint("scope", "seq"),  # a run reads what is new in its scope
)
releases = sa.Table(
    "dptune_releases",
    metadata,
    sa.Column("charge", sa.Integer, sa.ForeignKey("dptune_charges.seq"), primary_key=True),
    sa.Column("value", sa.JSON, nullable=False),
    sa.Column("released_at", sa.Text, nullable=False),
)

_VIEW = """{create} dptune_spending AS
SELECT c.seq, c.scope, c.key, c.mu, CAST(c.mu_squared_so_far AS DOUBLE PRECISION) AS mu_squared_so_far,
       c.mechanism, c.private, c.charged_at, r.released_at
FROM dptune_charges c LEFT JOIN dptune_releases r ON r.charge = c.seq"""
_POSTGRES_FUNCTION = """CREATE OR REPLACE FUNCTION dptune_append_only() RETURNS trigger AS
$$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$ LANGUAGE plpgsql"""
_POSTGRES_GUARD = """CREATE OR REPLACE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table}
FOR EACH ROW EXECUTE FUNCTION dptune_append_only()"""
_POSTGRES_NO_TRUNCATE = """CREATE OR REPLACE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}
FOR EACH STATEMENT EXECUTE FUNCTION dptune_append_only()"""


def create(connection: sa.Connection) -> None:
    """Create missing tables, views and append-only triggers."""
    metadata.create_all(connection)
    sqlite = connection.dialect.name == "sqlite"
    connection.exec_driver_sql(_VIEW.format(create="CREATE VIEW IF NOT EXISTS" if sqlite else "CREATE OR REPLACE VIEW"))
    if not sqlite:
        connection.exec_driver_sql(_POSTGRES_FUNCTION)
    for name, table in metadata.tables.items():
        for statement in _sqlite_guards(table) if sqlite else (_POSTGRES_GUARD, _POSTGRES_NO_TRUNCATE):
            connection.exec_driver_sql(statement.format(table=name))


def _sqlite_guards(table: sa.Table) -> list[str]:
    keys = [c.columns.keys() for c in table.constraints if isinstance(c, sa.PrimaryKeyConstraint | sa.UniqueConstraint)]
    return append_only(table.name, keys)


_DRIVERS = {  # scheme of a URL -> SQLAlchemy's driver
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
_ALLOWED = "a file path, sqlite:///path or postgresql://user@host:port/database"


def normalise_url(url: str | Path) -> sa.URL:
    """Return the SQLAlchemy URL of ``url``: a URL as it is, anything else as the path of an SQLite file.

    Raises:
        InputError: ``url`` is not text or a path, or the database is in memory or is not SQLite or PostgreSQL.
    """
    text = place("the ledger's path or URL", url)
    try:
        parsed = sa.make_url(text) if "://" in text else sa.URL.create("sqlite", database=text)
    except (sa.exc.ArgumentError, ValueError):  # ValueError: a port that is not a number
        raise InputError(f"the ledger's URL cannot be read; give {_ALLOWED}.") from None
    if parsed.drivername not in _DRIVERS:
        raise InputError(f"a ledger is kept in SQLite or PostgreSQL, not in {parsed.drivername}; give {_ALLOWED}.")
    if not 0 <= (parsed.port or 0) < 2**16:
        raise InputError(f"the port in the ledger's URL must lie in [0, 65535]; got {parsed.port}.")
    parsed = parsed.set(drivername=_DRIVERS[parsed.drivername])
    return _absolute(parsed, text) if parsed.drivername == "sqlite" else parsed


def _absolute(url: sa.URL, text: str) -> sa.URL:
    if not url.database or Path(url.database).name == ":memory:" or "mode=memory" in text:
        raise InputError("a ledger must outlive its process; give a file path instead of an in-memory URL.")
    if url.query:
        raise InputError(f"the URL of a ledger in SQLite has no settings; got {', '.join(url.query)}.")
    try:
        return url.set(database=str(at_home(url.database).resolve()))
    except RuntimeError as error:  # up to Python 3.12: a loop of links
        raise InputError(f"the ledger's path cannot be used: {error}.") from None


_SQLITE = {"timeout": 60, "check_same_thread": False}  # threads take turns
# Each file has its own engine. Engines share one dialect, so each statement is compiled once per process.
_SQLITE_DIALECT = sa.create_engine("sqlite://").dialect
_COMPILED: dict[Any, Any] = {}


def connect(url: sa.URL) -> sa.Engine:
    """Return an engine without a pool: :mod:`dptune.ledger.connection` holds its one connection."""
    if url.get_backend_name() != "sqlite":
        from dptune.ledger.server import engine_of  # a file needs none of it

        return engine_of(url)
    engine = sa.create_engine(
        url,
        poolclass=NullPool,
        hide_parameters=True,
        connect_args=_SQLITE,
        execution_options={"compiled_cache": _COMPILED},
    )
    engine.dialect = _SQLITE_DIALECT
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _configure_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # we emit BEGIN ourselves: see _begin_sqlite
    connection.execute("PRAGMA synchronous=EXTRA")  # a commit has reached the disk, directory included
    connection.execute("PRAGMA fullfsync=ON")  # macOS: through the disk's own cache, too
    connection.execute("PRAGMA foreign_keys=ON")


def _begin_sqlite(connection: sa.Connection) -> None:
    # A writer takes the lock before it reads, so that check and insert are one step.
    write = connection.get_execution_options().get("dptune_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries on which the guarantee depends."""
    versions = {name: _version(name) for name in ("dptune", "opendp", "sqlalchemy", "numpy", "scipy", "dp-accounting")}
    if versions["dp-accounting"] == _MISSING:  # only plans of subsampled releases need it
        del versions["dp-accounting"]
    return {"python": platform.python_version(), **versions}


@cache  # every new ledger calls it, and it reads packages' files
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return _MISSING
