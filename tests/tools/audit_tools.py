"""Audits run the real release path and raise AssertionError if it breaks its promise.

The same functions run on the package (tests/audits, tests/promises) and on planted bugs
(tests/audits/test_planted_bugs.py), where they must fail. ``LossPrivatizer.release`` always makes the release. An audit
replaces only the noise (off) or the ledger (in memory, for speed).
"""

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pytest
import sqlalchemy as sa
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import norm

from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.audit.evidence import MISTAKE, complaints, lower_bound
from dptune.audit.own import FreeLedger
from dptune.ledger import schema
from dptune.privacy import Ball, MeanQuery
from dptune.privacy.mechanism import GaussianMechanism, Mechanism
from dptune.privacy.noise import NoiseSource, OpenDPNoise
from noises import CannedNoise, NoNoise

Array = npt.NDArray[np.float64]


Bug = Callable[[pytest.MonkeyPatch], None]


def planted(owner: Any, name: str, by: Callable[[Any], Any]) -> Bug:
    """Return a bug: ``by(what is there)`` stands in the place of ``owner.name``."""
    return lambda patch: patch.setattr(owner, name, by(getattr(owner, name)))


def noisy(by: Callable[[Callable[..., Array], Array, float], Any]) -> Bug:
    """Return a bug in the noise: ``by(draw, statistic, sigma)`` is released, and draw(p) is a new z ~ N(0, I)."""
    true, one = OpenDPNoise.add_gaussian, OpenDPNoise()

    def add(self: OpenDPNoise, statistic: Array, sigma: float) -> Any:
        return by(lambda p: true(one, np.zeros(p), 1.0), statistic, sigma)

    return planted(OpenDPNoise, "add_gaussian", lambda _: add)


def small_sensitivity(prefix: str, factor: Callable[[LossPrivatizer], float]) -> Bug:
    """The sensitivity of the releases of one kind is ``factor(privatizer)`` times what it must be."""

    def bug(patch: pytest.MonkeyPatch) -> None:
        release, sensitivity, now = LossPrivatizer.release, LossPrivatizer.sensitivity, [""]

        def named(self: LossPrivatizer, query: Any, *, key: str, **options: Any) -> Any:
            now[0] = key
            return release(self, query, key=key, **options)

        def smaller(self: LossPrivatizer, query: Any) -> float:
            return sensitivity(self, query) * (factor(self) if now[0].startswith(prefix) else 1.0)

        patch.setattr(LossPrivatizer, "release", named)
        patch.setattr(LossPrivatizer, "sensitivity", smaller)

    return bug


# ---- noise-off sensitivity ---------------------------------------------------------------------------


ANY_LOSS = st.one_of(
    st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, -1e300, 5e-324]),
    st.floats(-10, 10),
    st.floats(width=64),
)


@st.composite
def neighbours(draw: st.DrawFn, points: st.SearchStrategy[int]) -> tuple[Array, Array, dict[str, Any]]:
    """Losses (m, rows) at "a", "b", ..., the same with one person replaced, and what ``noiseless`` takes of them."""
    rows, m, low = draw(st.integers(1, 9)), draw(points), draw(st.floats(-1e3, 1e3))
    chosen: dict[str, Any] = {"clip": (low, low + draw(st.floats(1e-2, 1e4)))}
    chosen["dtype"] = draw(st.sampled_from([np.float32, np.float64]))
    groups = np.arange(rows)
    people = draw(st.sampled_from(["rows", "groups", "weights"]))
    if people == "groups":
        groups = chosen["groups"] = draw(arrays(np.int64, rows, elements=st.integers(0, 3)))
    elif people == "weights":
        chosen["person_weights"] = draw(arrays(np.float64, rows, elements=st.floats(1e-3, 1e3)))
    chosen["failed"] = draw(st.lists(st.sampled_from("abcdefgh"[:m]), unique=True))
    losses = draw(arrays(np.float64, (m, rows), elements=ANY_LOSS))
    replaced = groups == draw(st.sampled_from(sorted(set(groups.tolist()))))
    return losses, np.where(replaced, draw(arrays(np.float64, (m, rows), elements=ANY_LOSS)), losses), chosen


def noiseless(
    query: MeanQuery, losses: Array, *, failed: Sequence[str] = (), mechanism: Any = GaussianMechanism, **settings: Any
) -> tuple[Array, float]:
    """Return the statistic of one release and the sigma its noise would have had; losses are (m, rows).

    Points in ``failed`` are observed as failures, whatever their losses.
    The statistic is what the noise is added to: what follows the noise cannot cost privacy.
    """
    if "groups" not in settings:
        settings.setdefault("n", losses.shape[1])
    noise = NoNoise()
    privatizer = LossPrivatizer(FreeLedger(), noise=noise, **settings)
    for name, row in zip(query.points, losses, strict=True):
        if name in failed:
            privatizer.submit(name, None)
        else:
            privatizer.observe(name, row)
    privatizer.release(query, scope="audit", key="1", mechanism=mechanism)
    return noise.statistic, noise.sigma


def audit_pair(query: MeanQuery, losses: Array, neighbour: Array, **settings: Any) -> float:
    """Return the distance of two neighbours' statistics; it must be covered by the noise that was asked for."""
    (a, sigma), (b, sigma_b) = noiseless(query, losses, **settings), noiseless(query, neighbour, **settings)
    assert sigma == sigma_b, "the noise scale depends on the data"
    distance = float(np.linalg.norm(a - b))
    assert distance <= query.mu * sigma, f"neighbours differ by {distance:.6g}, noise covers {query.mu * sigma:.6g}"
    return distance


def audit_reaches(query: MeanQuery, losses: Array, neighbour: Array, sensitivity: float, **settings: Any) -> None:
    """The worst-case pair reaches the sensitivity, and the noise is calibrated to it and to nothing larger."""
    distance = audit_pair(query, losses, neighbour, **settings)
    assert abs(distance / sensitivity - 1) < 1e-6, f"reached {distance:.6g} of {sensitivity:.6g}"
    sigma = noiseless(query, losses, **settings)[1]
    assert abs(sigma * query.mu / sensitivity - 1) < 1e-5, f"sigma {sigma:.6g} is not {sensitivity / query.mu:.6g}"


def scalar_worst_case(n: int, background: float) -> tuple[Array, Array]:
    """Person 0 goes from -inf to +inf; everybody else has the loss ``background``."""
    losses = np.full((1, n), background)
    losses[0, 0] = -np.inf
    neighbour = losses.copy()
    neighbour[0, 0] = np.inf
    return losses, neighbour


def audit_scalar_sensitivity(clip: tuple[float, float] = (-0.5, 2.5), n: int = 20, mu: float = 0.7) -> None:
    """(high - low)/n whoever the others are: inside the range, outside, or without a finite loss."""
    query = MeanQuery(("x",), np.ones((1, 1)), LossPrivatizer(FreeLedger(), n=n, clip=clip).interval, mu)
    for background in (0.0, 1e300, np.nan, -np.inf):
        audit_reaches(query, *scalar_worst_case(n, background), (clip[1] - clip[0]) / n, clip=clip)


def audit_vector_sensitivity(p: int = 4, n: int = 20, mu: float = 0.7, radius: float = 1.0) -> None:
    """2C/n by antipodal people: along an axis, along the diagonal (a corner of the cube), others anything."""
    clip = (-50.0, 50.0)
    query = MeanQuery(tuple(f"x{j}" for j in range(p)), np.eye(p), Ball(radius), mu)
    for background, direction in itertools.product((0.0, 30.0, np.nan), (np.eye(p)[0], np.ones(p))):
        losses = np.full((p, n), background)
        losses[:, 0] = 50.0 * direction
        neighbour = losses.copy()
        neighbour[:, 0] = -losses[:, 0]
        audit_reaches(query, losses, neighbour, 2 * radius / n, clip=clip)


# ---- the law of the noise ----------------------------------------------------------------------------


def audit_noise_law(*, radius: float, releases: int = 400, p: int = 12, n: int = 100, mu: float = 1.0) -> None:
    """Null answers are N(0, (2C/(n mu))^2 I): variance, shape, independence across steps and coordinates."""
    query = MeanQuery(tuple(f"x{j}" for j in range(p)), np.eye(p), Ball(radius), mu)
    found = answers(query, np.zeros((p, n)), releases, (-1.0, 1.0))  # everybody's losses are 0
    Z = found / (2 * radius / (n * mu))  # (T, p), i.i.d. N(0, 1)
    assert complaints(Z.ravel()) == []
    for lag in (1, 2, 3):
        _standard(float((Z[lag:] * Z[:-lag]).sum()) / Z[lag:].size ** 0.5, f"correlation of answers at lag {lag}")
    for i, j in itertools.combinations(range(p), 2):
        audit_uncorrelated(Z[:, i], Z[:, j], f"correlation of coordinates {i} and {j}")


def audit_uncorrelated(a: Array, b: Array, name: str) -> None:
    """Two sequences (T,) of standard normal noise have nothing in common."""
    _standard(float(a @ b) / len(a) ** 0.5, name)


def _standard(statistic: float, name: str) -> None:
    assert abs(statistic) < norm.isf(MISTAKE / 100), f"{name}: {statistic:.2f} standard deviations"


def audit_fork(children: int = 3) -> None:
    """A parent and its forked children draw different noise."""
    privatizer = LossPrivatizer(FreeLedger(), n=1, clip=(0.0, 1.0))
    privatizer.observe("x", [0.0])
    query = privatizer.mean_query("x", 1.0)
    privatizer.release(query, scope="parent", key="warm-up")
    drawn = [_in_child(lambda: privatizer.release(query, scope="child", key="1").scalar) for _ in range(children)]
    drawn.append(privatizer.release(query, scope="parent", key="1").scalar)
    assert len(set(drawn)) == len(drawn), "forked processes share noise"


def _in_child(work: Callable[[], float]) -> float:
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=lambda: there.send(work()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forking with threads
        child.start()
    assert here.poll(600), "the child did not answer"
    found = here.recv()
    child.join()
    return float(found)


# ---- a lower bound on mu, from outside -----------------------------------------------------------------


def answers(
    query: MeanQuery,
    losses: Array,
    count: int,
    clip: tuple[float, float],
    mechanism: Callable[[NoiseSource], Mechanism] = GaussianMechanism,
) -> Array:
    """Return ``count`` answers (count, p) about the same people."""
    privatizer = LossPrivatizer(FreeLedger(), n=losses.shape[1], clip=clip)
    for name, row in zip(query.points, losses, strict=True):
        privatizer.observe(name, row)
    released = (privatizer.release(query, scope="box", key=str(t), mechanism=mechanism) for t in range(count))
    return np.array([each.value for each in released])


def audit_lower_bound(kind: str, *, mu: float, count: int) -> float:
    """What an adversary proves about the worst pair is at most the claimed mu, and more than 0.7 of it."""
    if kind == "scalar":
        n, clip = 5, (0.0, 3.0)
        query = MeanQuery(("x",), np.ones((1, 1)), LossPrivatizer(FreeLedger(), n=n, clip=clip).interval, mu)
        pair, direction, middle = scalar_worst_case(n, 1.0), np.ones(1), (4 + 1.5) / n
    else:
        n, p, clip = 5, 4, (-50.0, 50.0)
        query = MeanQuery(tuple(f"x{j}" for j in range(p)), np.eye(p), Ball(1.0), mu)
        people = np.zeros((p, n))
        people[:, 0] = -50.0
        pair, direction, middle = (people, -people), np.full(p, p**-0.5), 0.0
    a, b = (answers(query, losses, count, clip) @ direction for losses in pair)
    bound = lower_bound(a, b, middle)
    assert bound <= mu, f"an adversary proves mu >= {bound:.3f}, but only {mu:.3f} was paid"
    assert bound > 0.7 * mu, f"the audit proves only mu >= {bound:.3f} of {mu:.3f}: it is blind or the noise too large"
    return bound


# ---- what is written down --------------------------------------------------------------------------------


def dump(ledger: PrivacyLedger) -> list[tuple[object, ...]]:
    """Return all rows of all tables of a ledger but the times and its random identity."""
    rows: list[tuple[object, ...]] = []
    with schema.connect(ledger.url).connect() as connection:
        for table in sorted(sa.inspect(connection).get_table_names()):
            found = connection.execute(sa.text(f"SELECT * FROM {table}")).mappings().all()
            rows += sorted(
                (table, *(str(v) for k, v in row.items() if not k.endswith("_at") and k != "identity")) for row in found
            )
    return rows


def audit_transcript(folder: Path) -> None:
    """With canned answers, neighbours (one with NaN and inf) leave the same ledger, values and reprs."""
    rng, transcripts = np.random.default_rng(1), []
    people = rng.random((3, 6))
    neighbour = people.copy()
    neighbour[:, 2] = [np.nan, np.inf, -7.0]
    for name, losses in (("a", people), ("b", neighbour)):
        ledger = PrivacyLedger(folder / f"{name}.db", Budget.gdp(5.0))
        privatizer = LossPrivatizer(ledger, n=6, clip=(0.0, 1.0), noise=CannedNoise())
        shown: list[object] = []
        for j, row in enumerate(losses):
            privatizer.observe(f"x{j}", row)
            shown.append(privatizer.release(privatizer.mean_query(f"x{j}", 0.5), scope="s", key=f"value/{j}").scalar)
        query = MeanQuery(("x0", "x1", "x2"), np.eye(3), Ball(0.5), 0.5)
        shown.append(privatizer.release(query, scope="s", key="step/1").value.tolist())
        transcripts.append((shown, repr(privatizer), ledger.statement(delta=1e-3).to_json(), dump(ledger)))
    assert transcripts[0] == transcripts[1], "what is shown or stored depends on private data"


# ---- crashes ---------------------------------------------------------------------------------------------

CRASH_SCRIPT = """
import os, signal, sys
import numpy as np
from dptune import Budget, LossPrivatizer, PrivacyLedger
from dptune.privacy.noise import OpenDPNoise

folder, where, url = sys.argv[1:4]
def die():
    os.kill(os.getpid(), signal.SIGKILL)

true_noise, true_record = OpenDPNoise.add_gaussian, PrivacyLedger.record
def draw(self, statistic, sigma):
    if where == "before draw":
        die()
    noisy = true_noise(self, statistic, sigma)
    with open(folder + "/drawn", "a") as file:  # the adversary saw it: draws can never be taken back
        file.write(repr(float(noisy[0])) + chr(10))
    return noisy
def record(self, charge, value):
    if where == "before record":
        die()
    recorded = true_record(self, charge, value)
    if where == "after record":
        die()
    return recorded
OpenDPNoise.add_gaussian, PrivacyLedger.record = draw, record

ledger = PrivacyLedger(url, Budget.gdp(mu=1.0))
privatizer = LossPrivatizer(ledger, n=3, clip=(0.0, 1.0))
#PATCH
privatizer.observe("x", [0.1, 0.2, 0.3])
released = privatizer.release(privatizer.mean_query("x", 0.6), scope="s", key="1")
print(repr(released.scalar))
"""


@dataclass
class Forked:
    """A script that runs in a fork of this process, which has imported what it needs: a fresh one takes seconds."""

    pid: int
    out: IO[str]
    arguments: tuple[str, ...]

    def runs(self) -> bool:
        """Return whether it has not ended."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def wait(self) -> subprocess.CompletedProcess[str]:
        """Wait for its end; what it printed, and the traceback it died with, are its output."""
        code_of_end = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        with self.out:
            self.out.seek(0)
            return subprocess.CompletedProcess(["-c", *self.arguments], code_of_end, self.out.read())


def start_forked(code: str, *arguments: str) -> Forked:
    """Start a script in a fork of this process."""
    out = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by wait
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forking with threads
        child = os.fork()
    if child == 0:
        sys.argv, sys.stdout, sys.stderr = ["-c", *arguments], out, out
        signal.alarm(900)
        warnings.resetwarnings()  # a script of its own: they are no errors
        done = 1
        try:
            exec(code, {"__name__": "__main__"})
            done = 0
        except BaseException:  # noqa: BLE001 - the parent must hear of it
            traceback.print_exc()
        finally:
            out.flush()
            os._exit(done)
    return Forked(child, out, arguments)


def run_forked(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a fork of this process to its end."""
    return start_forked(code, *arguments).wait()


def audit_crash(folder: Path, where: str, patch: str = "", *, url: str | None = None) -> None:
    """After a kill, everything drawn is paid; the retry costs nothing more and repeats what was recorded."""
    url, script = url or str(folder / "ledger.db"), CRASH_SCRIPT.replace("#PATCH", patch)
    crashed = run_forked(script, str(folder), where, url)
    assert crashed.returncode == -9, crashed.stdout
    ledger = PrivacyLedger(url)
    drawn = folder / "drawn"
    draws = len(drawn.read_text().split()) if drawn.exists() else 0
    assert len(ledger.charges()) == 1, f"{draws} draws, {len(ledger.charges())} charges"
    assert ledger.spent() == 0.6, f"{draws} draws, but the ledger says mu={ledger.spent()}"
    recorded = ledger.charges()[0].value
    assert (recorded is not None) == (where == "after record"), "a recorded value is missing or came from nowhere"
    retried = run_forked(script, str(folder), "nowhere", url)
    assert retried.returncode == 0, retried.stdout
    charges = ledger.charges()
    assert ledger.spent() == 0.6
    assert [c.value for c in charges] == [(float(retried.stdout),)]
    assert recorded in (None, charges[0].value), "a recorded value was changed"
    again = run_forked(script, str(folder), "nowhere", url)
    assert again.stdout == retried.stdout, "a replay gave another value"
    assert ledger.spent() == 0.6
