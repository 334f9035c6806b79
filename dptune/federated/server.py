"""The trusted server of DP-FTS-DE: charge, read, sample, clip, sum, noise, record, broadcast.

Source: Dai, Low, Jaillet (NeurIPS 2021), Algorithm 1, with the corrections of docs/federated.md.

**Promise.** All broadcasts of a plan (q, z, T) together are (epsilon, delta)-DP under *zeroing out one agent* (all its
messages become 0), accounted by PLD. N, the regions, their weights, q and the plan are public. The server is trusted:
it keeps the samples secret, and counts an agent that sends nothing in a round as 0.
"""

from __future__ import annotations

import hashlib
import json
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from dptune._arrays import Mask
from dptune._checks import at_least
from dptune._store import ForkSafeLock
from dptune.errors import AlreadySent, BudgetMismatch, InputError, MessageRefused, PlanComplete, RoundClosed
from dptune.federated.messages import Message, checked_message
from dptune.federated.settings import FTSSettings
from dptune.ledger.entries import Charge
from dptune.ledger.events import SubsampledGaussianRelease
from dptune.ledger.plan_ledger import PlanLedger
from dptune.privacy.noise import (
    NoiseSource,
    SampleSource,
    SecretSample,
    is_private,
    is_secret,
    noise_scale,
    noise_source,
)
from dptune.privacy.seal.private import without_frames
from dptune.search.gp.points import FloatArray

_LARGEST_SIGMA = 1e100  # sums of such noise are far from overflow
_MOST_AGENTS = 50_000  # rounding of the sums stays below noise.SLACK: N^2 2^-53 < 1e-6


class FTSServer:
    """Collects the messages of the open round, and releases one noisy joint vector a round.

    A new server on the same ledger resumes. It reads released rounds from the ledger, and
    agents send their messages of the open round again. Two servers on one ledger publish the same broadcasts.

    Args:
        ledger: the plan, and the record of every broadcast.
        settings: agreed on with the agents; fixed in the ledger when the first server starts.
        noise, samples: NOT PRIVATE. Other noise and samples, such as ``SeededNoise(0)`` and ``SeededSample(0)``, for
            tests; they stamp ledger and statement.

    Raises:
        BudgetMismatch: the ledger protects another number of agents, or was used with other settings.
        InputError: the ledger is not a plan's, the plan's noise cannot be drawn, or there are too many agents.
    """

    def __init__(
        self,
        ledger: PlanLedger,
        settings: FTSSettings,
        *,
        noise: NoiseSource | None = None,
        samples: SampleSource | None = None,
    ) -> None:
        if not isinstance(ledger, PlanLedger):
            raise InputError("FTSServer needs a PlanLedger: PlanLedger(url, SubsampledGaussian(q, z, T), n=N).")
        if settings.agents > _MOST_AGENTS:
            raise InputError(f"at most {_MOST_AGENTS} agents; got {settings.agents}.")
        self.ledger = ledger
        self.settings = settings
        self.plan = ledger.plan
        self.event(0)  # refuse early
        ledger.bind_people(settings.agents)
        wanted = json.loads(json.dumps(settings.describe()))
        if ledger.fix("federation", "settings", wanted) != wanted:
            raise BudgetMismatch(
                "this ledger's plan was started with other settings; they fix the weights and so the noise, for good. "
                "Continue with them, or make a ledger of its own for other agents."
            )
        self._noise = noise_source(noise)
        self._samples = SecretSample() if samples is None else samples
        self._lock = ForkSafeLock()
        released = [charge.value for charge in ledger.charges()]  # in order of the rounds
        self._broadcasts = {t: self._matrix(value) for t, value in enumerate(released) if value is not None}  # (P, M)
        self._messages: dict[int, FloatArray] = {}  # agent -> omega of the open round
        self._unrecorded: dict[int, FloatArray] = {}  # round -> a draw that could not be recorded and was not shown

    # ---- private messages in -------------------------------------------------------------------------

    @property
    def private(self) -> bool:
        """False if the noise is not OpenDP's or the samples are not secret: then nothing is protected."""
        return is_private(self._noise) and is_secret(self._samples)

    @property
    def open_round(self) -> int:
        """Return the round whose messages are taken now; T when the plan is complete."""
        with self._lock:
            return len(self._broadcasts)

    @property
    def sent(self) -> frozenset[int]:
        """Return the agents whose messages of the open round have arrived."""
        with self._lock:
            return frozenset(self._messages)

    @without_frames
    def submit(self, message: Message) -> None:
        """Take a message of the open round; a refused one changes nothing.

        Raises:
            MessageRefused: it is not valid by itself, its round is still to come, or it is a second one (AlreadySent).
            RoundClosed: the round was released or drawn without this message, which counted as 0.
            PlanComplete: all rounds are released.
        """
        agent, t, weights = checked_message(message, agents=self.settings.agents, M=self.settings.M)
        with self._lock:
            self._refuse_other_round(t)
            if agent in self._messages:
                raise AlreadySent(f"agent {agent} has sent its message of round {t} already.")
            self._messages[agent] = weights

    def _refuse_other_round(self, t: int) -> None:
        now = self.open_round
        if now >= self.plan.steps:
            raise PlanComplete(f"all {self.plan.steps} rounds of the plan are released; no message is taken.")
        if t < now:
            raise RoundClosed(f"round {t} is released; a late message counts as 0. The open round is {now}.")
        if t > now:
            raise MessageRefused(f"the open round is {now}; this message is of a round to come.")
        if t in self._unrecorded:
            raise RoundClosed(f"round {t} is drawn and waits to be recorded; a late message counts as 0.")

    # ---- released vectors out ------------------------------------------------------------------------

    def broadcast(self, t: int) -> FloatArray | None:
        """Return the released vectors (P, M) of round ``t``, or None if it is not released yet."""
        with self._lock:
            return self._broadcasts.get(at_least("a round", t, 0))

    def release(self, t: int) -> FloatArray:
        """Release round ``t`` with the messages that have arrived; a released round is returned as it is.

        Charge, then read, then draw, then record. A missing message counts as 0; an empty sample is released as noise.

        Raises:
            PlanComplete: ``t`` is beyond the plan; nothing was read.
            InputError: ``t`` is not a whole number from 0, or an earlier round is not released yet.
        """
        t = at_least("a round", t, 0)
        with self._lock:
            if t not in self._broadcasts:
                self._release(t)
            return self._broadcasts[t]

    def _release(self, t: int) -> None:
        if self.open_round < t < self.plan.steps:
            raise InputError(f"rounds are released in order; the next is {self.open_round}, not {t}.")
        event = self.event(t)
        charge = self.ledger.charge(t, event, digest=self._digest(event), private=self.private)
        if charge.value is None:
            charge = self._draw_and_record(t, charge, event)
        self._broadcasts[t] = self._matrix(charge.value or ())
        self._messages = {}

    def event(self, t: int) -> SubsampledGaussianRelease:
        """Return what round ``t`` releases and how much noise it gets; public."""
        q = self.plan.q
        z = self.plan.z
        s = self.settings
        sensitivity = s.sensitivity(t, q)
        dimension = s.P * s.M
        sigma = noise_scale(sensitivity=sensitivity, mu=1 / z, dimension=dimension)  # z sensitivity, and rounding
        if not sigma <= _LARGEST_SIGMA:
            raise InputError(f"S={s.S:g}, q={q:g} and z={z:g} ask for noise of size {sigma:g}; no sum survives that.")
        return SubsampledGaussianRelease(q, z, sensitivity, sigma, dimension, "weighted sums of clipped messages")

    @without_frames
    def _draw_and_record(self, t: int, charge: Charge, event: SubsampledGaussianRelease) -> Charge:
        """Read and draw once per charge, and record; a draw that cannot be recorded is kept but not shown."""
        if t not in self._unrecorded:
            sums = self._sums(t)  # (P, M)
            self._unrecorded[t] = self._noise.add_gaussian(sums.ravel(), event.sigma)
        recorded = self.ledger.record(charge, self._unrecorded[t].tolist())
        self._unrecorded.pop(t, None)
        return recorded

    def _sums(self, t: int) -> FloatArray:
        """Return the private sums (P, M) of lines 3-7 of Algorithm 1, without the noise."""
        s = self.settings
        q = self.plan.q
        sample = self._samples.draw(s.agents, q)
        messages = np.zeros((s.agents, s.M))
        for n, weights in self._messages.items():
            messages[n] = weights
        with np.errstate(all="ignore"):  # a floating-point warning would depend on the messages
            return weighted_sums(messages, sample, s.weights(t), clip=s.clip, q=q)

    def _matrix(self, value: npt.ArrayLike) -> FloatArray:
        matrix = np.array(value, dtype=np.float64).reshape(self.settings.P, self.settings.M)
        matrix.setflags(write=False)
        return matrix

    def _digest(self, event: SubsampledGaussianRelease) -> str:
        asked = json.dumps([event.describe(), self.settings.describe()], sort_keys=True)
        return hashlib.sha256(asked.encode()).hexdigest()

    def __reduce__(self) -> NoReturn:
        raise InputError("a server holds private messages and is not copied; make one from the same ledger.")

    def __repr__(self) -> str:
        warning = "" if self.private else ", NOT PRIVATE"
        return f"FTSServer(agents={self.settings.agents}, round={self.open_round} of {self.plan.steps}{warning})"


def clipped(messages: FloatArray, clip: float) -> FloatArray:
    """Scale every row of (N, M) finite messages back to norm <= clip; shorter rows stay as they are.

    Dividing by the largest entry first keeps the squares of huge and tiny entries from overflowing or vanishing.
    """
    largest = np.abs(messages).max(axis=1)  # (N,)
    unit = messages / np.where(largest > 0, largest, 1.0)[:, None]
    norms = np.sqrt(np.einsum("nm,nm->n", unit, unit))  # (N,) between 1 and sqrt(M), or 0
    return np.asarray(unit * np.minimum(largest, clip / np.maximum(norms, 1.0))[:, None])


def weighted_sums(messages: FloatArray, sample: Mask, weights: FloatArray, *, clip: float, q: float) -> FloatArray:
    """Return (P, M), with row i the sum over the sampled n of (phi_n^(i) / q) times the clipped message of n.

    A sum over an empty sample is 0. Sums are never divided by the number of sampled agents or of messages (N, M); a
    missing message is 0. The sample S_t (N,) is secret, the weights phi (N, P) are public; clip is S / sqrt(P).
    """
    chosen = np.where(sample[:, None], weights, 0.0) / q  # (N, P)
    return np.asarray(chosen.T @ clipped(messages, clip))
