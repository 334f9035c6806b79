"""Races: processes and threads for the last of a budget, for one key and for one fact."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from ledger_tools import Urls, pay

from dptune import Budget, BudgetExhausted, PrivacyLedger
from dptune.ledger import schema


def race(url: str, budget: float, mu: float, meet: Callable[[], object], keys: list[str]) -> list[str]:
    """Pay for the keys one after the other; return those that were paid."""
    ledger = PrivacyLedger(url, Budget.gdp(budget))
    meet()
    paid = []
    for key in keys:
        try:
            pay(ledger, key, mu)
        except BudgetExhausted:
            continue
        paid.append(key)
    return paid


def racer(name: str, barrier: Any, tasks: Any, results: Any) -> None:
    for url in iter(tasks.get, None):
        try:
            results.put((name, race(url, 1.0, 0.9, barrier.wait, [name])))
        except BaseException as error:  # noqa: BLE001 - the parent must hear of it, not wait for it
            results.put((name, repr(error)))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # 3.12, of forks
def test_two_processes_race_for_the_last_of_a_budget(new_url: Urls) -> None:
    context = multiprocessing.get_context("fork")  # of this process, which has imported what the racers need
    barrier, results = context.Barrier(2), context.Queue()
    queues = [context.Queue(), context.Queue()]
    workers = [
        context.Process(target=racer, args=(name, barrier, queue, results), daemon=True)
        for name, queue in zip("ab", queues, strict=True)
    ]
    for worker in workers:
        worker.start()
    wins = {"a": 0, "b": 0}
    try:
        for number in range(10):
            url = new_url()
            if number % 2:  # every other ledger is created in the race as well
                PrivacyLedger(url, Budget.gdp(1.0))
            for queue in queues:
                queue.put(url)
            outcome = dict(results.get(timeout=900) for _ in workers)
            winners = [name for name, paid in outcome.items() if paid == [name]]
            assert len(winners) == 1, outcome
            assert [c.key for c in PrivacyLedger(url).charges()] == winners
            wins[winners[0]] += 1
    finally:
        for queue in queues:
            queue.put(None)
        for worker in workers:
            worker.join(600)
    assert min(wins.values()) > 0, f"not a race: {wins}"


def test_threads_race_for_a_budget(url: str) -> None:
    ledger, barrier = PrivacyLedger(url, Budget.gdp(1.0)), threading.Barrier(4)
    with ThreadPoolExecutor(4) as pool:
        paid = list(pool.map(lambda i: race(url, 1.0, 0.25, barrier.wait, [f"{i}/{k}" for k in range(5)]), range(4)))
    assert sum(map(len, paid)) == 16  # 16 * 0.25^2 = 1
    assert ledger.spent() == 1.0


def test_threads_fix_one_fact(url: str) -> None:
    ledger, barrier = PrivacyLedger(url, Budget.gdp(1.0)), threading.Barrier(4)

    def fix(i: int) -> object:
        barrier.wait()
        return ledger.fix("s", "plan", i)

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(fix, range(4)))) == 1


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_the_server_s_default_isolation_cannot_overspend(postgresql: Urls, level: str) -> None:
    url, barrier = postgresql(), threading.Barrier(4)
    with schema.connect(PrivacyLedger(url, Budget.gdp(1.0)).url).connect() as connection:
        role = connection.exec_driver_sql("SELECT current_user").scalar_one()
        connection.exec_driver_sql(f"ALTER ROLE \"{role}\" SET default_transaction_isolation = '{level}'")
        connection.commit()
    with ThreadPoolExecutor(4) as pool:
        paid = list(pool.map(lambda i: race(url, 1.0, 0.9, barrier.wait, [str(i)]), range(4)))
    assert sum(map(len, paid)) == 1
    assert PrivacyLedger(url).spent() == 0.9
