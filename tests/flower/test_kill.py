"""Flower's processes are killed by kill -9 at each border of a choice: clients, the server app, the SuperLink.

`make test-flower` kills one server app. `make audit-flower` kills twenty of each, which takes most of an hour.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import cycle, islice
from pathlib import Path

import pytest

pytest.importorskip("flwr")
from dptune import PrivacyLedger
from superlink import LOOPBACK, PATIENCE, free_port, process, superlink, sweep

KILLS = int(os.environ.get("DPTUNE_KILLS", "0"))
APP = Path(__file__).parent / "killed"
OF_CLIENTS = [
    f"{act} {when}" for act in ("answer", "ready", "who") for when in ("arrives", "is asked", "is answered")
    if (act, when) != ("who", "is asked")
]  # fmt: skip
OF_SERVER = [  # of a choice, in order: models are tried out, and the places asked once more before the charge
    "begins 1", "has its places 1", "ready is sent 1", "ready has a reply 1", "ready is sent 2", "ready has a reply 2",
    "is charged 1", "was charged 1", "answer is sent 1", "answer has a reply 1", "is recorded 1", "was recorded 1",
]  # fmt: skip
FIRST = OF_SERVER.index("was charged 1")
KILLED = [*enumerate(islice(cycle((*OF_SERVER[FIRST:], *OF_SERVER[:FIRST])), max(KILLS, 1)))]  # a choice each
SECRET = b"7531.25"  # digits alone are in names of runs, too


class Deployment:
    """A SuperLink and two nodes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(APP, folder / "app", dirs_exist_ok=True)

    @contextmanager
    def up(self) -> Iterator[int]:
        """Start it, and yield the process of the SuperLink; nothing of it is left afterwards."""
        with ExitStack() as stack:
            stack.callback(sweep, self.folder)
            port, link = stack.enter_context(superlink(self.folder))
            for place in range(2):
                config = f'place={place} folder="{self.folder}"'
                node = ("flower-supernode", *LOOPBACK, str(free_port()), "--superlink", f"127.0.0.1:{port}")
                stack.enter_context(process(self.folder, f"node{place}", *node, "--node-config", config))
            yield link.pid

    def run(self, *names: int, link: int = 0) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """Run the app, with choices of these names, or of 0, 1, ... until a file ends it."""
        config = f'folder="{self.folder}" names="{" ".join(map(str, names))}" link={link}'
        return process(self.folder, "run", "flwr", "run", "app", "--stream", "--run-config", config)

    def arm(self, *borders: str) -> None:
        for border in borders:
            (self.folder / f"kill {border}").touch()

    def wait(self, *names: str) -> None:
        """Wait for files."""
        until = time.monotonic() + PATIENCE
        while not all((self.folder / name).exists() for name in names):
            assert time.monotonic() < until, (self.folder / "run.log").read_text()
            time.sleep(0.2)

    def check(self, killed: int) -> None:
        """Each choice was charged once and has one answer, which each run got; no log has a private value."""
        charges = PrivacyLedger(self.folder / "ledger.db").charges()
        answers = {charge.scope: charge.value for charge in charges}
        assert len(answers) == len(charges) > 0
        chosen = [line.split() for line in (self.folder / "chosen").read_text().splitlines()]
        assert {name for name, _ in chosen} == set(answers)
        assert all(answers[name] == (float(index),) for name, index in chosen)
        drawn = [line.split(maxsplit=1) for line in (self.folder / "draws").read_text().splitlines()]
        assert {name: str(list(value)) for name, value in answers.items()} == dict(drawn)  # the last draw is recorded
        assert len(drawn) - len(answers) <= killed, drawn  # others were killed before they were recorded, and not shown
        for file in self.folder.glob("*.log"):
            assert SECRET not in file.read_bytes(), file


@pytest.mark.skipif(KILLS == 0, reason="make audit-flower")
def test_clients_that_are_killed_leave_one_charge_and_one_answer(tmp_path: Path) -> None:
    """Flower reports a dead client after a minute, and the server app repeats its call."""
    flower = Deployment(tmp_path)
    with flower.up(), flower.run() as app:
        for border in islice(cycle(OF_CLIENTS), KILLS // 2):
            both = [f"{border} {place}" for place in range(2)]
            flower.arm(*both)
            flower.wait(*(f"killed {each}" for each in both))
            for each in both:
                (tmp_path / f"killed {each}").unlink()
        (tmp_path / "end").touch()
        assert app.wait(PATIENCE) == 0
    flower.check(killed=0)


def test_a_server_app_that_is_killed_resumes_its_choice(tmp_path: Path) -> None:
    flower = Deployment(tmp_path)
    with flower.up():
        for name, border in KILLED:
            flower.arm(f"{name} {border}")
            with flower.run(*range(max(name - 1, 0), name + 1)):  # resumes the one that was killed before
                flower.wait(f"killed {name} {border}")
        with flower.run(*range(len(KILLED) + 1)) as app:  # nothing kills the last one
            assert app.wait(PATIENCE) == 0
    seen = [line.partition(" ") for line in (tmp_path / "borders").read_text().splitlines()]
    last = dict.fromkeys(border for name, _, border in seen if name == str(len(KILLED)))  # a slow call is repeated
    assert [border for border in last if border in OF_SERVER] == OF_SERVER
    flower.check(killed=sum(border == "is recorded 1" for _, border in KILLED))


@pytest.mark.skipif(KILLS == 0, reason="make audit-flower")
def test_a_superlink_that_is_killed_loses_its_run_and_no_answer(tmp_path: Path) -> None:
    """The SuperLink's memory is lost: it, its nodes and the app start again."""
    flower = Deployment(tmp_path)
    for name, border in KILLED:
        flower.arm(f"{name} {border}")
        with flower.up() as link, flower.run(*range(max(name - 1, 0), name + 1), link=link):
            flower.wait(f"killed {name} {border}")
    with flower.up(), flower.run(*range(len(KILLED))) as app:
        assert app.wait(PATIENCE) == 0
    flower.check(killed=len(KILLED))  # the server app runs until it is stopped
