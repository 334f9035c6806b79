"""docs/postgresql.md runs on a server, with the rights that it grants, and states the limits that hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from page_tools import blocks, page

from dptune import Budget, LedgerError, LossPrivatizer, PrivacyLedger
from dptune.ledger import schema

if TYPE_CHECKING:
    from conftest import PostgresqlServer


def test_the_page_sets_up_a_ledger_with_the_least_rights(postgresql_server: PostgresqlServer) -> None:
    names: dict[str, Any] = {}
    for language, code in blocks(page("docs/postgresql.md#set-up"), "sql", "python"):
        if language == "sql":
            postgresql_server.run(code)
            continue
        here = f"@/postgres?host={postgresql_server.folder}&options"
        exec(code.replace("@db.example.org/dptune?options", here), names)
    made = names["ledger"]
    assert (made.dataset, made.budget) == ("patients 2025", Budget.gdp(1.0))
    privatizer = LossPrivatizer(made, n=2, clip=(0.0, 1.0))
    privatizer.observe("x", [0.0, 1.0])
    released = privatizer.release(privatizer.mean_query("x", 0.5), scope="s", key="1")
    made.raise_budget(Budget.gdp(2.0))
    reader = PrivacyLedger(postgresql_server.url(user="reader", schema="patients"))
    assert reader.find("s", "1").value == (released.scalar,)
    with pytest.raises(LedgerError, match="permission denied"):
        reader.fix("s", "name", 1)
    for statement in ("UPDATE dptune_ledger SET mu = 9", "DELETE FROM dptune_charges", "TRUNCATE dptune_facts"):
        with schema.connect(made.url).connect() as connection, pytest.raises(sa.exc.DBAPIError, match=r"only|denied"):
            connection.exec_driver_sql(statement)
