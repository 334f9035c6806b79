"""Audits of the trusted server run its real release path and raise AssertionError if it breaks its promise.

The same functions run on the package (tests/federated/test_audits.py) and on planted bugs, where they must fail. An
audit replaces the noise (off, or canned) or the secret sample (chosen by the adversary), never the path.
"""

import io
import itertools
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom, chi2, kstest, norm

from audit_tools import MISTAKE, dump, run_forked
from dptune.errors import DptuneError, LedgerError
from dptune.federated import FTSServer
from dptune.federated.messages import Message
from dptune.federated.settings import FTSSettings
from dptune.ledger.plan_ledger import PlanLedger
from dptune.ledger.subsampled import SubsampledGaussian
from every_logger import every_logger
from noises import CannedNoise, NoNoise

Array = npt.NDArray[np.float64]
SETTINGS = FTSSettings(agents=7, d=2, M=10, regions=(2, 1), S=3.0, hold=2, decay=2, candidates=16)
PLAN = SubsampledGaussian(q=0.4, z=1.5, steps=6)


class Chosen:
    """The sample that the adversary chooses."""

    def __init__(self, mask: npt.ArrayLike) -> None:
        self.mask, self.drawn = np.array(mask, dtype=bool), 0

    def draw(self, n: int, q: float) -> npt.NDArray[np.bool_]:
        self.drawn += 1
        return self.mask


def server(
    folder: Path,
    name: str,
    settings: FTSSettings = SETTINGS,
    plan: SubsampledGaussian = PLAN,
    **sources: Any,
) -> FTSServer:
    return FTSServer(PlanLedger(folder / f"{name}.db", plan, n=settings.agents), settings, **sources)


def send(to: FTSServer, t: int, messages: Array, absent: int | None = None) -> None:
    for n, weights in enumerate(messages):
        if n != absent:
            to.submit(Message(n, t, weights))


# ---- noise-off sensitivity -------------------------------------------------------------------------------


def noiseless(
    folder: Path,
    name: str,
    rounds: list[Array],
    mask: npt.ArrayLike,
    absent: Sequence[int | None] = (),
    settings: FTSSettings = SETTINGS,
) -> tuple[list[Array], list[float]]:
    """The statistics (P M,) of the rounds and the sigmas their noise would have had, for messages (N, M) a round.

    In round t agent ``absent[t]`` sends nothing.
    """
    noise = NoNoise()
    one = server(folder, name, settings, noise=noise, samples=Chosen(mask))
    statistics, sigmas = [], []
    for t, messages in enumerate(rounds):
        send(one, t, messages, absent[t] if absent else None)
        one.release(t)
        statistics.append(noise.statistic)
        sigmas.append(noise.sigma)
    return statistics, sigmas


def audit_sensitivity(folder: Path, settings: FTSSettings = SETTINGS) -> None:
    """Zeroing out any agent, huge, parallel or opposite, in the worst sample, moves a round by at most sigma / z.

    An agent that sends nothing, or nothing any more, is an agent that sends 0.
    """
    N, M, z = settings.agents, settings.M, PLAN.z
    rng, numbers, closest = np.random.default_rng(0), itertools.count(), 0.0
    directions = rng.standard_normal((N, M))
    for scale, (n, everybody) in itertools.product((1e-3, 1.0, 1e160), ((1, True), (N - 1, False))):
        messages = scale * directions
        messages[n] = scale * 1e3 * directions[0]
        zeroed = messages.copy()
        zeroed[n] = 0.0
        mask = np.ones(N) if everybody else np.arange(N) == n
        number = next(numbers)
        a, sigmas = noiseless(folder, f"{number}a", [messages] * PLAN.steps, mask, settings=settings)
        b, others = noiseless(folder, f"{number}b", [zeroed] * PLAN.steps, mask, settings=settings)
        assert sigmas == others, "the noise scale depends on the messages"
        for silent_from in (0, 1) if everybody and scale == 1 else ():
            absent = [n if t >= silent_from else None for t in range(PLAN.steps)]
            named, rounds = f"{number}c{silent_from}", [messages] * PLAN.steps
            c, sigmas_c = noiseless(folder, named, rounds, mask, absent, settings)
            assert sigmas_c == sigmas, "the noise scale depends on who sends"
            expected = a[:silent_from] + b[silent_from:]
            assert np.array_equal(c, expected), f"silence from round {silent_from} on is not a message of 0"
        for t, (x, y, sigma) in enumerate(zip(a, b, sigmas, strict=True)):
            distance = float(np.linalg.norm(x - y))
            assert distance <= sigma / z, f"round {t}: one agent moves {distance:.6g}, noise covers {sigma / z:.6g}"
            closest = max(closest, distance / (sigma / z))
    assert closest > 1 - 1e-5, f"the noise covers more than the worst agent: {closest:.6g} of it"


# ---- the noise and the sample ----------------------------------------------------------------------------


def audit_empty_sample(folder: Path) -> None:
    """An empty sample is answered by pure noise of the planned size, whatever was sent; so is an empty room."""
    settings, plan = replace(SETTINGS, M=100), SubsampledGaussian(0.4, 1.5, 40)
    for name, messages in (("sent", 1e3 * np.ones((7, 100))), ("silent", np.zeros((0, 100)))):
        one = server(folder, name, settings, plan, samples=Chosen(np.zeros(7)))
        drawn = []
        for t in range(plan.steps):
            send(one, t, messages)
            drawn.append(one.release(t).ravel() / (plan.z * settings.sensitivity(t, plan.q)))
        Z = np.array(drawn)  # (rounds, P M), i.i.d. N(0, 1)
        z = Z.ravel()
        square = float(z @ z)
        tails = min(chi2.cdf(square, z.size), chi2.sf(square, z.size))
        assert tails > MISTAKE, f"variance {square / z.size:.4g}, not 1"
        assert kstest(z, norm.cdf).pvalue > MISTAKE, "not a normal law"
        for a, b in ((Z[1:], Z[:-1]), (Z[:, :100], Z[:, 100:])):  # rounds, and regions, are independent
            assert abs((a * b).sum()) / a.size**0.5 < norm.isf(MISTAKE), "noise is used twice"
        for lag in range(1, Z.shape[1] // 2):  # and so are all coordinates of a round
            together = (Z * np.roll(Z, lag, axis=1)).sum() / Z.size**0.5
            assert abs(together) < norm.isf(MISTAKE / Z.shape[1]), f"coordinates {lag} apart share noise"


def audit_sample(folder: Path) -> None:
    """Seen through the sums: each agent is in a round's sample with probability q, on its own, whoever has sent.

    Counts of independent pairs are binomial; each of three is unusual by chance 2e-8.
    """
    N = 40
    settings = replace(SETTINGS, agents=N, M=N, regions=(), S=1.0)
    plan = SubsampledGaussian(0.3, 1.5, 60)
    noise = NoNoise()
    one = server(folder, "sample", settings, plan, noise=noise)
    drawn = []
    for t in range(plan.steps):
        send(one, t, np.eye(N))  # message n is the n-th unit vector: the sums show who was drawn
        one.release(t)
        drawn.append(noise.statistic > 0)
        present = noise.statistic[noise.statistic > 0]
        assert np.allclose(present, 1 / (N * plan.q)), "the sum was divided by something that depends on the sample"
    count, together = np.sum(drawn), sum((d[::2] & d[1::2]).sum() for d in drawn)
    assert _usual(count, N * plan.steps, plan.q), f"drawn {count / N / plan.steps:.3f} of the time, not {plan.q}"
    assert _usual(together, N // 2 * plan.steps, plan.q**2), "agents are not drawn on their own"
    again = sum((a & b).sum() for a, b in zip(drawn[::2], drawn[1::2], strict=True))
    assert _usual(again, N * plan.steps // 2, plan.q**2), "rounds share samples"


def audit_sample_is_final(folder: Path) -> None:
    """One sample a round, whatever it is: an empty one is not drawn again nor filled, however many have sent."""
    noise, samples = NoNoise(), Chosen(np.zeros(7))
    one = server(folder, "final", noise=noise, samples=samples)
    for t in range(PLAN.steps):
        samples.mask = np.full(7, t % 2 == 1)
        send(one, t, np.ones((7, SETTINGS.M)))
        one.release(t)
        assert samples.drawn == t + 1, f"round {t} drew {samples.drawn - t} samples"
        assert noise.statistic.any() == (t % 2 == 1), f"round {t} released another sample than was drawn"
    settings, plan = replace(SETTINGS, agents=2, regions=()), SubsampledGaussian(0.3, 1.5, 150)
    noise, empty = NoNoise(), 0
    few = server(folder, "few", settings, plan, noise=noise)
    for t in range(plan.steps):
        send(few, t, np.ones((2, settings.M)))
        few.release(t)
        empty += not noise.statistic.any()
    assert _usual(empty, plan.steps, (1 - plan.q) ** 2), f"{empty} of {plan.steps} samples were empty"


def _usual(count: float, trials: int, p: float) -> bool:
    return bool(binom.ppf(MISTAKE, trials, p) <= count <= binom.isf(MISTAKE, trials, p))


# ---- what is written down --------------------------------------------------------------------------------


@contextmanager
def full_disk() -> Iterator[list[list[float]]]:
    """While it is full nothing can be recorded; what should have been."""
    drawn: list[list[float]] = []

    def record(self: PlanLedger, charge: object, value: list[float]) -> None:
        drawn.append(value)
        raise LedgerError("the disk is full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlanLedger, "record", record)
        yield drawn


def audit_transcript(folder: Path) -> None:
    """With canned noise, different messages and samples leave the same traces.

    Traces are broadcasts, ledger, statement, reprs, logs, warnings, output, the released server's attributes, and the
    words and frames of errors, one of them in the middle of a release.
    """
    rng, transcripts = np.random.default_rng(1), []
    for name, scale in (("a", 0.0), ("b", 1.0), ("c", 1e200)):
        with everything_said() as said:
            samples = Chosen(np.ones(7))
            one = server(folder, name, noise=CannedNoise(), samples=samples)
            shown: list[object] = []
            for t in range(PLAN.steps):
                samples.mask = rng.random(7) < 0.5
                messages = scale * rng.standard_normal((7, 10))
                send(one, t, messages)
                shown += [repr(one), sorted(one.sent)]
                shown += [traces(one.submit, bad) for bad in refused(t, messages)]
                with full_disk():
                    shown.append(traces(one.release, t))
                shown += [one.release(t).tolist(), held(one)]
            shown += [str(one.ledger.statement(delta=0.01)), one.ledger.charges(), dump(one.ledger)]
        transcripts.append(repr([shown, said]).replace(str(folder / f"{name}.db"), "ledger"))
    for other in transcripts[1:]:
        at = next((i for i, (x, y) in enumerate(zip(transcripts[0], other, strict=False)) if x != y), 0)
        differs = f"{transcripts[0][at - 99 : at + 99]!r} and {other[at - 99 : at + 99]!r}"
        assert other == transcripts[0], f"what is shown or stored depends on private messages: {differs}"


def refused(t: int, messages: Array) -> list[Message]:
    """Messages that the server must refuse: the others' round, a second one, the arguments in another order, NaN."""
    weights = messages[0]
    return [
        Message(0, t + 1, weights),
        Message(0, t, weights),
        Message(weights, t, 0),
        Message(0, weights, t),
        Message(1, t, np.append(weights[1:], np.nan)),
        Message(1, t, weights[1:]),
        Message(1, t, [str(number) for number in weights]),
    ]


class OutputHere(io.StringIO):
    """Text that this thread writes: a cluster that other tests have started writes from a thread of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    def write(self, text: str) -> int:
        return super().write(text) if threading.get_ident() == self._thread else len(text)


@contextmanager
def everything_said() -> Iterator[list[object]]:
    """Collect what any logger is told, whatever its level, and all warnings and output of this thread."""
    said: list[object] = []
    output = OutputHere()
    with warnings.catch_warnings(record=True) as warned, every_logger(thread=threading.get_ident()) as lines:
        warnings.simplefilter("always")
        with redirect_stdout(output), redirect_stderr(output):
            yield said
    lines = [line for line in lines if not line.startswith("sqlalchemy")]  # its statements are the ledger's rows
    said += [
        lines,
        output.getvalue(),
        *(str(one.message) for one in warned if one.category is not ResourceWarning),  # when garbage was collected
    ]


def traces(call: Callable[[Any], object], argument: object) -> list[object]:
    """What the error of a call that must fail says and keeps alive, in the package's frames."""
    try:
        call(argument)
    except DptuneError as error:
        found: list[object] = []
        chain: BaseException | None = error
        while chain is not None:
            frames = [frame for frame, _ in traceback.walk_tb(chain.__traceback__)]
            mine = [frame for frame in frames if "dptune" in frame.f_globals["__name__"]]
            kept = [{k: v for k, v in frame.f_locals.items() if k != "self"} for frame in mine]
            found += [repr(chain), held(kept)]
            chain = chain.__cause__ or chain.__context__
        return found
    raise AssertionError("a call that must fail did not")


def held(value: object) -> object:
    """All data reachable from attributes and containers of the package's objects, but for the adversary's own tools."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {str(k): held(v) for k, v in value.items() if not str(k).endswith(("_at", "identity", "_opened"))}
    if isinstance(value, list | tuple | set | frozenset):
        return [held(v) for v in value]
    if isinstance(value, str | int | float | np.generic | None):
        return repr(value)
    if type(value).__module__.startswith("dptune"):
        return type(value).__name__, held(vars(value))
    return type(value).__name__


# ---- crashes ---------------------------------------------------------------------------------------------

CRASH_SCRIPT = """
import os, signal, sys
import numpy as np
from dptune.ledger.durable import DurableLedger
from dptune.ledger.plan_ledger import PlanLedger
from dptune.ledger.subsampled import SubsampledGaussian
from dptune.federated.settings import FTSSettings
from dptune.federated import FTSServer
from dptune.federated.messages import Message
from dptune.privacy.noise import OpenDPNoise

folder, where, crash_round = sys.argv[1], sys.argv[2], int(sys.argv[3])
seen = {"round": -1}
def die(now):
    if where == now and seen["round"] == crash_round:
        os.kill(os.getpid(), signal.SIGKILL)

true_noise, true_record, true_release = OpenDPNoise.add_gaussian, DurableLedger.record, FTSServer.release
def draw(self, statistic, sigma):
    die("before draw")
    return true_noise(self, statistic, sigma)
def record(self, charge, value):
    with open(folder + "/drawn", "a") as file:
        file.write(charge.key + chr(10))
    die("before record")
    recorded = true_record(self, charge, value)
    die("before broadcast")
    return recorded
def release(self, t):
    seen["round"] = t
    return true_release(self, t)
OpenDPNoise.add_gaussian, DurableLedger.record, FTSServer.release = draw, record, release

settings = FTSSettings(agents=3, d=1, M=4, regions=())
server = FTSServer(PlanLedger(folder + "/l.db", SubsampledGaussian(0.5, 1.0, 4), n=3), settings)
#PATCH
print("opened at", server.open_round, flush=True)
while server.open_round < 4:
    t = server.open_round
    for n in range(3):
        server.submit(Message(n, t, np.full(4, float(n))))
    server.release(t)
for t in range(4):
    print(server.broadcast(t).tolist())
"""


def audit_crash(folder: Path, where: str, at: int = 2, patch: str = "") -> None:
    """After a kill the server goes on from its ledger: recorded rounds are replayed, none is counted twice or lost."""
    script = CRASH_SCRIPT.replace("#PATCH", patch)  # four rounds; it kills itself ``where`` in round ``at``
    crashed = run_forked(script, str(folder), where, str(at))
    assert crashed.returncode == -9, crashed.stdout
    ledger = PlanLedger(folder / "l.db")
    before = [charge.value for charge in ledger.charges()]
    assert len(before) == at + 1, "the round that was drawn is not counted"
    assert all(value is not None for value in before[:at])
    assert (before[at] is not None) == (where == "before broadcast")
    went_on = run_forked(script, str(folder), "nowhere", "0")
    assert went_on.returncode == 0, went_on.stdout
    lines = went_on.stdout.splitlines()
    assert lines[0] == f"opened at {at + (where == 'before broadcast')}"
    after = [charge.value for charge in ledger.charges()]
    assert len(after) == 4, "a round was counted twice"
    assert all(new == old for new, old in zip(after, before, strict=False) if old is not None), "a broadcast changed"
    assert lines[1:] == [str([list(value)]) for value in after if value is not None], "what is shown is not recorded"
    again = run_forked(script, str(folder), "nowhere", "0")
    assert again.stdout.splitlines()[1:] == lines[1:], "a restart gives other broadcasts"
