"""kill -9 of a running search, many times, on a disk, with a witness of every draw.

A child runs ``SearchRun`` again and again on one ledger, in a file or in PostgreSQL. Its source of noise writes every
draw to a witness file (append, fsync) before the draw is used; it is killed at a random time. After each kill the
witness and the ledger must agree: no draw without a charge, and what is recorded is the last draw of its charge, so
nothing was drawn after it.

``DPTUNE_KILLS=1000 pytest -m slow tests/audits/test_kill_minus_nine.py`` says how many kills.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from dptune import Budget, LedgerError, LossPrivatizer, PrivacyLedger

KILLS = int(os.environ.get("DPTUNE_KILLS", "300"))
KINDS = ("gibo", "centred", "preempted")
PER_LEDGER = 50
LONGEST = 0.4  # seconds that a child lives

NURSERY = """
import json, os, signal, sys, tempfile
import numpy as np
from dptune import *
from dptune.privacy import PendingLosses
from dptune.privacy.noise import OpenDPNoise

KEY = "sGsGd7yWm0GHbqZXbkJyTUkVMDmbF3kZL0Lx3cCJm0E="
SPACE = Space({"a": Float(0.0, 1.0), "b": Float(0.0, 1.0)})
METHODS = {
    "gibo": (GIBO, {"steps": 1000, "batch": 3, "starts": 4, "clip": 0.5}),
    "centred": (CENTRED, {"trials": 4000, "population": 4, "tuning": {"average": 2, "candidates": 16}}),
}
METHODS["preempted"] = METHODS["centred"]  # with its losses in an encrypted file
PEOPLE = np.linspace(0.1, 0.9, 30)

def search(folder, url, method, number, trials=100_000):
    witness, paying = os.open(folder + "/witness", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), []
    class Watched(PrivacyLedger):
        def charge(self, *asked, **options):
            paying.append(super().charge(*asked, **options))
            return paying[-1]
    pending = PendingLosses(folder + "/pending.db", KEY) if method == "preempted" else None
    class Witnessed(OpenDPNoise):
        def add_gaussian(self, statistic, sigma):
            noisy = super().add_gaussian(statistic, sigma)
            line = [paying[-1].scope, paying[-1].key, paying[-1].seq, noisy.tolist()]
            os.write(witness, (json.dumps(line) + chr(10)).encode())
            os.fsync(witness)
            return noisy
    ledger = Watched(url, Budget.gdp(mu=2.0))
    privatizer = LossPrivatizer(ledger, n=30, clip=(-1.0, 1.0), pending=pending, noise=Witnessed())
    chosen, settings = METHODS[method]
    run = SearchRun(chosen, privatizer, scope=method, space=SPACE, mu=1.0, seed=1, **settings)
    first = sum(c.value is not None for c in privatizer.ledger.charges(method, prefix="value/"))
    for trial in range(first, trials):
        name = str(trial) if method == "gibo" else f"{number}:{trial}"  # a lost value is asked for again
        run.check(name)
        x = run.recorded_parameters(name) or run.ask()
        run.finish(name, x, (x["a"] - PEOPLE) ** 2)

with tempfile.TemporaryDirectory() as folder:
    for method in METHODS:
        search(folder, folder + "/ledger.db", method, 0, trials=6)  # so that children do not begin by filling caches
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            search(*json.loads(line))
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)  # it was to be killed
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


class Nursery:
    """A process that has imported everything and forks one child after another."""

    def __init__(self) -> None:
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", NURSERY]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def kill_one(self, folder: Path, url: str, method: str, number: int, delay: float) -> None:
        """Let a child search for ``delay`` seconds, then kill it; every tenth makes a draw first, however slowly."""
        before = size(folder / "witness")
        child = self._born(str(folder), url, method, number)
        while number % 10 == 0 and size(folder / "witness") == before:
            time.sleep(0.01)
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)  # until it is waited for, nobody else has its number
        assert int(self._line()) == signal.SIGKILL, "the search ended before it was killed"

    def live_shortly(self, folder: Path, url: str, method: str, number: int, trials: int) -> None:
        """Let a child make a few trials and kill itself."""
        self._born(str(folder), url, method, number, trials)
        assert int(self._line()) == signal.SIGKILL, "the search failed"

    def _born(self, *arguments: object) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        return int(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def close(self) -> None:
        self._process.communicate(timeout=900)


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def audit_kills(folder: Path, kills: int, new_url: Callable[[Path], str]) -> Counter[str]:
    """Kill ``kills`` times; return what was counted."""
    rng, found, last = random.Random(), Counter[str](), Counter[str]()
    with closing(Nursery()) as nursery:
        for number in range(kills):
            if number % PER_LEDGER == 0:
                found, last = found + last, Counter()
                part = folder / str(number)
                part.mkdir()
                url = new_url(part)
            nursery.kill_one(part, url, KINDS[number % 3], number, rng.uniform(0.02, LONGEST))
            last = compare(part, url)
    return found + last


def compare(folder: Path, url: str) -> Counter[str]:
    """Compare the witness with the ledger; return the numbers of draws, charges, and charges without an answer."""
    witness = folder / "witness"
    lines = [json.loads(line) for line in witness.read_text().splitlines()] if witness.exists() else []
    try:
        ledger = PrivacyLedger(url)
    except LedgerError:  # killed before it was made
        assert not lines, "draws without a ledger"
        return Counter()
    charges = {(c.scope, c.key, c.seq): c for c in ledger.charges()}
    draws: dict[tuple[str, str, int], list[list[float]]] = {}
    for scope, key, seq, value in lines:
        draws.setdefault((scope, key, seq), []).append(value)
    assert draws.keys() <= charges.keys(), f"draws without a charge: {sorted(draws.keys() - charges.keys())}"
    recorded = [named for named, charge in charges.items() if charge.value is not None]
    for named in recorded:
        centre, drawn = 0.5 if named[1].startswith("share/") else 0.0, draws.get(named, [[]])
        assert charges[named].value == tuple(x + centre for x in drawn[-1]), f"{named} was drawn after its record"
    assert ledger.spent() <= 1.0
    lost = len(lines) - len(recorded)  # drawn, seen by nobody, and drawn again or not
    return Counter(draws=len(lines), charges=len(charges), recorded=len(recorded), lost=lost)


def on_disk() -> str | None:
    """Return a folder on a disk, if the usual one is in memory."""
    return "/var/tmp" if os.access("/var/tmp", os.W_OK) else None


def in_folder(folder: Path) -> str:
    return str(folder / "ledger.db")


def report(kills: int, new_url: Callable[[Path], str] = in_folder) -> Counter[str]:
    with tempfile.TemporaryDirectory(dir=on_disk(), prefix="dptune-kills-") as folder:
        found = audit_kills(Path(folder), kills, new_url)
    print(f"{kills} kills: " + ", ".join(f"{count} {name}" for name, count in found.items()))
    assert found["draws"] > 0, "the children were killed before they did anything"
    return found


def test_a_run_killed_faster_than_a_generation_makes_progress_with_its_losses_in_a_file(fast_path: Path) -> None:
    url = in_folder(fast_path)
    with closing(Nursery()) as nursery:
        for number in range(8):  # three trials each, and a generation has four
            nursery.live_shortly(fast_path, url, ("preempted", "centred")[number < 2], number, 3)
            compare(fast_path, url)
    generations = {method: PrivacyLedger(url).count(method, prefix="generation/") for method in KINDS}
    assert generations == {"gibo": 0, "centred": 0, "preempted": 6 * 3 // 4}


@pytest.mark.slow
def test_many_kills_leave_no_draw_unpaid_and_none_drawn_twice() -> None:
    report(KILLS)


@pytest.mark.slow
def test_many_kills_beside_a_server_leave_no_draw_unpaid_and_none_drawn_twice(postgresql: Callable[[], str]) -> None:
    report(KILLS // 4, lambda folder: postgresql())


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (["s", "another", 2, [0.5]], "draws without a charge"),
        (["s", "k", 1, [0.75]], "drawn after its record"),
    ],
)
def test_the_comparison_finds_unpaid_and_second_draws(fast_path: Path, more: list[object], complaint: str) -> None:
    privatizer = LossPrivatizer(PrivacyLedger(fast_path / "ledger.db", Budget.gdp(1.0)), n=1, clip=(-1.0, 1.0))
    privatizer.observe("x", [0.0])
    drawn = privatizer.release(privatizer.mean_query("x", 0.5), scope="s", key="k").value.tolist()
    witness = fast_path / "witness"
    witness.write_text(json.dumps(["s", "k", 1, drawn]) + "\n")
    assert compare(fast_path, in_folder(fast_path)) == Counter(draws=1, charges=1, recorded=1)
    with witness.open("a") as file:
        file.write(json.dumps(more) + "\n")
    with pytest.raises(AssertionError, match=complaint):
        compare(fast_path, in_folder(fast_path))
