"""A running search is killed with SIGKILL many times on a disk, and a witness records every draw.

A child runs ``SearchRun`` again and again on one ledger, in a file or in PostgreSQL. Its source of noise writes every
draw to a witness file (append, fsync) before the draw is used. Every second kill is aimed at the time between a charge
and its record; the others come at any time. After each kill the witness and the ledger must agree. Each draw has a
charge, and each recorded value is the last draw of its charge, so nothing was drawn after it.

``DPTUNE_KILLS=1000 pytest -m slow tests/audits/test_kill_minus_nine.py`` sets the number of kills.
"""

import json
import os
import random
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dptune import CENTRED, GIBO, Budget, Float, LedgerError, LossPrivatizer, PrivacyLedger, SearchRun, Space
from dptune.privacy.noise import OpenDPNoise

KILLS = int(os.environ.get("DPTUNE_KILLS", "120"))
PER_LEDGER = 40
LONGEST = 0.3  # seconds that a child lives
SPACE = Space({"a": Float(0.0, 1.0), "b": Float(0.0, 1.0)})
CENTRED_PLAN = {"trials": 4000, "population": 4, "tuning": {"average": 2, "candidates": 16}}
METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    "gibo": (GIBO, {"steps": 1000, "batch": 3, "starts": 4, "clip": 0.5}),
    "centred": (CENTRED, CENTRED_PLAN),
}
KINDS = tuple(METHODS)
PEOPLE = np.linspace(0.1, 0.9, 30)


class Witnessed(OpenDPNoise):
    """Notes each charge, and writes each draw to the witness before it is used."""

    def __init__(self, folder: Path, paying: list[Any]) -> None:
        self.paying, flags = paying, os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self.file = os.open(folder / "witness", flags, 0o600)

    def add_gaussian(self, statistic: Any, sigma: float) -> Any:
        noisy, charge = super().add_gaussian(statistic, sigma), self.paying[-1]
        line = [charge.scope, charge.key, charge.seq, noisy.tolist()]
        os.write(self.file, (json.dumps(line) + "\n").encode())
        os.fsync(self.file)
        return noisy


def search(folder: Path, url: str, method: str, number: int, charging: int, trials: int = 100_000) -> None:
    """Search, and write a byte to ``charging`` before each charge."""
    paying: list[Any] = []

    class Watched(PrivacyLedger):
        def charge(self, *asked: Any, **options: Any) -> Any:
            os.write(charging, b".")
            paying.append(super().charge(*asked, **options))
            return paying[-1]

        def record(self, charge: Any, value: Any) -> Any:
            if number % 8 in (3, 5) and len(paying) > 1:  # drawn and not recorded: it waits there to be killed
                os.write(charging, b"!")
                signal.pause()
            return super().record(charge, value)

    ledger, noise = Watched(url, Budget.gdp(mu=2.0)), Witnessed(folder, paying)
    privatizer = LossPrivatizer(ledger, n=30, clip=(-1.0, 1.0), noise=noise)
    chosen, settings = METHODS[method]
    run = SearchRun(chosen, privatizer, scope=method, space=SPACE, mu=1.0, seed=1, **settings)
    first = sum(c.value is not None for c in ledger.charges(method, prefix="value/"))
    for trial in range(first, trials):
        name = str(trial) if method == "gibo" else f"{number}:{trial}"  # a lost value is asked for again
        run.check(name)
        charge = run.charge_of(name)
        x = run.ask() if charge is None else charge.note["parameters"]
        run.finish(name, x, (x["a"] - PEOPLE) ** 2)


def born(folder: Path, url: str, method: str, number: int, charging: int) -> int:
    """Let a fork of this process search until it is killed; return its number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forking with threads
        child = os.fork()
    if child == 0:
        try:
            search(folder, url, method, number, charging)
        except BaseException:  # noqa: BLE001 - the parent must hear of it
            traceback.print_exc()
        finally:
            os._exit(1)  # it was to be killed
    return child


def ended(child: int) -> None:
    assert os.waitpid(child, 0)[1] == signal.SIGKILL, "the search ended before it was killed"


def kill_one(folder: Path, url: str, method: str, number: int, rng: random.Random) -> None:
    """Kill a search: each fourth one before it records its second draw, each fourth one after its second charge.

    The others are killed at any time. Wherever a kill comes, what is compared holds.
    """
    heard, charging = os.pipe()
    child = born(folder, url, method, number, charging)
    os.close(charging)
    if number % 8 in (3, 5):
        while os.read(heard, 1) != b"!":
            pass
    elif number % 2:
        os.read(heard, 1)
        first = time.monotonic()
        os.read(heard, 1)
        time.sleep(rng.uniform(0, time.monotonic() - first))  # until about the third charge
    else:
        time.sleep(rng.uniform(0.02, LONGEST))
    os.kill(child, signal.SIGKILL)  # until it is waited for, nobody else has its number
    ended(child)
    os.close(heard)


def audit_kills(folder: Path, kills: int, new_url: Callable[[Path], str]) -> Counter[str]:
    """Kill ``kills`` times; return what was counted, and how many kills came between a charge and its record."""
    rng, found, last, hits = random.Random(), Counter[str](), Counter[str](), 0
    for number in range(kills):
        if number % PER_LEDGER == 0:
            found, last = found + last, Counter()
            part = folder / str(number)
            part.mkdir()
            url = new_url(part)
        kill_one(part, url, KINDS[number // 2 % 2], number, rng)
        now = compare(part, url)
        hits += now["charges"] - now["recorded"] > last["charges"] - last["recorded"] or now["lost"] > last["lost"]
        last = now
    return found + last + Counter(hits=hits)


def compare(folder: Path, url: str) -> Counter[str]:
    """Compare the witness with the ledger; return the numbers of draws, charges, and draws that were lost."""
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


def in_folder(folder: Path) -> str:
    return str(folder / "ledger.db")


def report(kills: int, new_url: Callable[[Path], str] = in_folder) -> None:
    on_disk = "/var/tmp" if os.access("/var/tmp", os.W_OK) else None  # the usual one may be in memory
    with tempfile.TemporaryDirectory(dir=on_disk, prefix="dptune-kills-") as folder:
        found = audit_kills(Path(folder), kills, new_url)
    print(f"{kills} kills: " + ", ".join(f"{count} {name}" for name, count in found.items()))
    assert found["hits"] >= kills // 4, "few kills came between a charge and its record: the audit is blind"


@pytest.fixture(scope="module")
def warm() -> None:
    """Children do not begin by importing and filling caches."""
    nobody = os.open(os.devnull, os.O_WRONLY)
    with tempfile.TemporaryDirectory() as folder:
        for method in METHODS:
            search(Path(folder), in_folder(Path(folder)), method, 0, nobody, trials=6)


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_many_kills_leave_no_draw_unpaid_and_none_drawn_twice() -> None:
    report(KILLS)


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_after_many_kills_on_a_server_each_draw_is_paid_and_drawn_once(postgresql: Callable[[], str]) -> None:
    report(KILLS // 3, lambda folder: postgresql())


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
