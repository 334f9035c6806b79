"""kill -9 at every point of a release and in the middle of a run; races for the last of a budget and for one fact."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from audit_tools import audit_crash, run_forked, start_forked
from ledger_tools import Urls, pay

from dptune import Budget, BudgetExhausted, PrivacyLedger
from dptune.ledger import Charge, schema

KILLS = [("sqlite", "before draw"), ("sqlite", "before record"), ("sqlite", "after record")]


@pytest.mark.parametrize(("new_url", "where"), [*KILLS, ("postgresql", "before record")], indirect=["new_url"])
def test_a_killed_release_is_paid_once_and_answered_once(where: str, fast_path: Path, url: str) -> None:
    audit_crash(fast_path, where, url=url)


RUN = """
import os, signal, sys
import numpy as np
from dptune import GIBO, Budget, Float, LossPrivatizer, PrivacyLedger, SearchRun, Space
from dptune.privacy.noise import OpenDPNoise

folder, kill_at, url = sys.argv[1], int(sys.argv[2]), sys.argv[3]  # number of the draw at which the process dies
class Mortal(OpenDPNoise):
    draws = 0
    def add_gaussian(self, statistic, sigma):
        noisy = super().add_gaussian(statistic, sigma)
        with open(folder + "/drawn", "a") as file:
            file.write("draw" + chr(10))
        self.draws += 1
        if self.draws == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return noisy

ledger = PrivacyLedger(url, Budget.gdp(mu=2.0))
privatizer = LossPrivatizer(ledger, n=40, clip=(0.0, 1.0), noise=Mortal())
space = Space({"a": Float(0.0, 1.0), "b": Float(1e-3, 1e3, log=True)})
run = SearchRun(GIBO, privatizer, scope="run", space=space, steps=5, batch=3, starts=4, clip=0.5)
print(run.progress()["steps_done"], flush=True)
people = np.linspace(0.1, 0.9, 40)
done = sum(c.key.startswith("value/") for c in ledger.charges("run"))
for trial in range(done, 200):  # a trial that was lost is not made again: its name is used up
    if run.complete:
        break
    run.check(str(trial))
    x = run.ask()
    run.finish(str(trial), x, (x["a"] - people) ** 2)
print(run.progress()["steps_done"], run.algorithm.theta.tolist())
"""


def test_a_run_killed_again_and_again_resumes_where_it_was(fast_path: Path) -> None:
    url, recorded, by_key, spent = str(fast_path / "ledger.db"), dict[str, object](), dict[str, Charge](), 0.0
    for kill_at in (1, 9, 5, 10_000):
        done = run_forked(RUN, str(fast_path), str(kill_at), url)
        assert done.returncode == (0 if kill_at == 10_000 else -9), done.stdout
        lines = done.stdout.splitlines()
        assert int(lines[0]) == sum(key.startswith("step/") for key in recorded), "it did not continue where it was"
        ledger = PrivacyLedger(url)
        by_key = {c.key: c for c in ledger.charges("run")}
        assert all(by_key[key].value == value for key, value in recorded.items()), "a recorded value changed"
        recorded = {key: c.value for key, c in by_key.items() if c.value is not None}
        assert len((fast_path / "drawn").read_text().split()) == len(by_key), "draws and charges differ"
        assert spent < ledger.spent() <= 2.0
        spent = ledger.spent()
    assert len(by_key) - len(recorded) == 3, "each kill left one paid charge without a value"
    lost = [key for key, charge in by_key.items() if key.startswith("step/") and charge.value is None]
    assert int(lines[-1].split()[0]) == 5 - len(lost)
    again = run_forked(RUN, str(fast_path), "10000", url)
    assert again.stdout.splitlines()[-1] == lines[-1], "a finished run is finished"
    assert ledger.spent() == spent


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
