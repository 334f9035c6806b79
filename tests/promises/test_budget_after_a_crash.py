"""The budget survives SIGKILL at every point of a release, and races for its rest or for one fact."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from audit_tools import audit_crash, start_forked
from dptune import Budget, BudgetExhausted, PrivacyLedger
from dptune.ledger import schema
from ledger_tools import Urls, pay

KILLS = [("sqlite", "before draw"), ("sqlite", "before record"), ("sqlite", "after record")]


@pytest.mark.parametrize(("new_url", "where"), [*KILLS, ("postgresql", "before record")], indirect=["new_url"])
def test_a_killed_release_is_paid_once_and_answered_once(where: str, fast_path: Path, url: str) -> None:
    audit_crash(fast_path, where, url=url)


# ---- races -----------------------------------------------------------------------------------------------


RACER = """
import os, sys
from ledger_tools import pay
from dptune import Budget, BudgetExhausted, PrivacyLedger

os.read(int(sys.argv[1]), 1)
for url in sys.argv[3:]:
    ledger = PrivacyLedger(url, Budget.gdp(1.0))
    try:
        pay(ledger, sys.argv[2], 0.9)
        print(url)
    except BudgetExhausted:
        pass
"""


def test_two_processes_race_for_the_last_of_a_budget(new_url: Urls) -> None:
    urls, (here, there) = [new_url() for _ in range(8)], os.pipe()
    for url in urls[::2]:  # every other ledger is created in the race as well
        PrivacyLedger(url, Budget.gdp(1.0))
    racers = {name: start_forked(RACER, str(here), name, *urls) for name in "ab"}
    os.write(there, b"go")  # a letter for each
    won = {name: racer.wait().stdout.split() for name, racer in racers.items()}
    assert sorted([*won["a"], *won["b"]]) == sorted(urls), "each ledger is won once"
    for name, theirs in won.items():
        for url in theirs:
            assert [charge.key for charge in PrivacyLedger(url).charges()] == [name]


def race(url: str, mu: float, barrier: threading.Barrier, keys: list[str]) -> list[str]:
    """Pay for the keys one after the other; return those that were paid."""
    ledger, paid = PrivacyLedger(url, Budget.gdp(1.0)), []
    barrier.wait()
    for key in keys:
        try:
            pay(ledger, key, mu)
        except BudgetExhausted:
            continue
        paid.append(key)
    return paid


def fix(ledger: PrivacyLedger, barrier: threading.Barrier, value: int) -> object:
    barrier.wait()
    return ledger.fix("s", "plan", value)


def test_threads_race_for_a_budget_and_for_one_fact(url: str) -> None:
    ledger, barrier = PrivacyLedger(url, Budget.gdp(1.0)), threading.Barrier(4)
    with ThreadPoolExecutor(4) as pool:
        paid = list(pool.map(lambda i: race(url, 0.25, barrier, [f"{i}/{k}" for k in range(5)]), range(4)))
        assert len(set(pool.map(lambda i: fix(ledger, barrier, i), range(4)))) == 1
    assert sum(map(len, paid)) == 16  # 16 * 0.25^2 = 1
    assert ledger.spent() == 1.0


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_the_server_s_default_isolation_cannot_overspend(postgresql: Urls, level: str) -> None:
    url, barrier = postgresql(), threading.Barrier(4)
    with schema.connect(PrivacyLedger(url, Budget.gdp(1.0)).url).connect() as connection:
        role = connection.exec_driver_sql("SELECT current_user").scalar_one()
        connection.exec_driver_sql(f"ALTER ROLE \"{role}\" SET default_transaction_isolation = '{level}'")
        connection.commit()
    with ThreadPoolExecutor(4) as pool:
        paid = list(pool.map(lambda i: race(url, 0.9, barrier, [str(i)]), range(4)))
    assert sum(map(len, paid)) == 1
    assert PrivacyLedger(url).spent() == 0.9
