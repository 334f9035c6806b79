"""What is PostgreSQL's own; the contract itself is test_ledger_*.py, which run on both backends."""

from __future__ import annotations

import pickle

from ledger_tools import Urls

from dptune import Budget, LossPrivatizer, PrivacyLedger


def test_two_ledgers_in_two_schemas_are_two_budgets(postgresql: Urls) -> None:
    one, two = (PrivacyLedger(postgresql(), Budget.gdp(1.0)) for _ in range(2))
    for ledger in (one, two):
        privatizer = LossPrivatizer(ledger, n=2, clip=(0.0, 1.0))
        privatizer.observe("x", [0.0, 1.0])
        released = privatizer.release(privatizer.mean_query("x", 1.0), scope="s", key="1")
        assert PrivacyLedger(ledger.url.render_as_string()).find("s", "1").value == (released.scalar,)
    assert one != two


def test_the_password_is_not_shown_but_travels_with_a_pickle(postgresql: Urls) -> None:
    url = postgresql().replace("dptune@", "dptune:hunter2@")
    assert url.startswith("postgresql://")
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    assert "hunter2" not in repr(ledger)
    assert pickle.loads(pickle.dumps(ledger)) == ledger
    assert PrivacyLedger(url.replace("postgresql://", "postgresql+psycopg://")) == ledger
