"""Every method with its small run, what the tests do to a run, and a short method that the package does not have."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dptune import CENTRED, GIBO, Float, LossPrivatizer, PrivacyLedger, SearchRun, Space
from dptune.privacy import Ball, MeanQuery, Question
from dptune.search import VALUES, Method, Rounds, RoundSettings, RunPlan

SPACE = Space({"a": Float(0.0, 1.0), "b": Float(1e-2, 1e2, log=True)})


class RandomPoints(Rounds):
    """Ends with the mean of the points that won a round, so that the contract of all methods is not one of two."""

    def __init__(self, settings):
        super().__init__(settings)
        self.winners = []

    def ask(self, slot):
        return np.random.default_rng([self.settings.seed, self.t, slot]).random(self.settings.d)

    def next_question(self):
        names = self.waiting()
        query = MeanQuery(names, np.eye(self.batch) - 1 / self.batch, Ball(self.settings.clip), self.settings.round_mu)
        return Question(f"round/{self.t + 1}", query, {"points": self.points_at(names).tolist()})

    def learn(self, key, note, answer, sigma, *, own):
        self.used_up(own=own, forget=True)
        if answer is not None:
            self.winners.append(note["points"][int(np.argmin(answer))])

    def recommend(self):
        return np.mean(self.winners or [[0.5] * self.settings.d], axis=0)


def plan_toy(facts, *, trials=12, clip=0.4):
    mu, radius = facts.mu * math.sqrt(0.85), clip * facts.loss_range
    settings = RoundSettings(facts.d, trials // 3, 3, mu, radius, seed=facts.seed)
    return RunPlan("toy", facts.mu, settings, trials, monitor_share=0.1, final_share=0.05, spare=6)


class WatchedLedger(PrivacyLedger):
    """A process's own ledger: ``meets(step, key)`` is called before and after each charge and record."""

    def meets(self, step, key):
        """Do nothing, unless :func:`at` puts something here."""

    def charge(self, scope, key, *asked, **options):
        self.meets("before the charge", key)
        paid = super().charge(scope, key, *asked, **options)
        self.meets("charged", key)
        return paid

    def record(self, charge, value):
        self.meets("drawn", charge.key)
        recorded = super().record(charge, value)
        self.meets("recorded", charge.key)
        return recorded


def at(ledger, step, key, does):
    """Let ``does`` happen once, or an error be raised, at a step of this process's release of ``key``."""

    def meets(now, name):
        if (now, name) == (step, key):
            del ledger.meets
            if isinstance(does, BaseException):
                raise does
            does()

    ledger.meets = meets


@dataclass(frozen=True)
class Kind:
    """One method and its small run."""

    name: str
    method: Method
    settings: dict[str, Any]
    n: int
    trials: int
    batch: int
    rounds: int
    last_question: str  # of each round
    state: Callable[[Any], Any]  # what every answer changes, such as all proposals so far; JSON data
    first: int  # points of the first question
    first_round: int  # after how many trials it is made
    space: Space | None = field(default_factory=lambda: SPACE)
    first_question: str = ""  # of each round, if it is not the last

    @property
    def questions(self):
        """Keys of the charges that make the rounds."""
        return [f"{self.last_question}/{t}" for t in range(1, self.rounds + 1)]

    def start(self, ledger, *, noise=None, **change):
        """Return the run with a ledger and a privatizer of its own, as another process would have."""
        own = WatchedLedger(ledger.url.database)
        privatizer = LossPrivatizer(own, n=self.n, clip=(0.0, 1.0), noise=noise)
        settings = {"scope": "run", "space": self.space, **self.settings, **change}
        return SearchRun(self.method, privatizer, **settings)


GIBO_SETTINGS = {"steps": 4, "batch": 3, "starts": 4, "start_clip": 1.0, "clip": 0.5, "lengthscale": 0.3}


def path(run):
    return np.array(run.algorithm.path).tolist()


GIBO_RUN = Kind("gibo", GIBO, GIBO_SETTINGS, 20, 16, 3, 4, "step", path, first=4, first_round=7)
CENTRED_RUN = Kind(
    "centred",
    CENTRED,
    {"trials": 20, "population": 5},
    n=50,
    trials=20,
    batch=5,
    rounds=4,
    last_question="generation",
    state=lambda run: np.array(run.algorithm.means).tolist(),
    first=5,
    first_round=5,
    first_question="share",
)
TOY = Method("toy", plan_toy, RandomPoints, shared_slots=True)
TOY_RUN = Kind("toy", TOY, {}, 30, 12, 3, 4, "round", lambda run: run.algorithm.winners, first=3, first_round=3)
KINDS = [GIBO_RUN, CENTRED_RUN, TOY_RUN]

# what asks nothing has no rounds: it passes what is about runs of all kinds
VALUES_RUN = replace(GIBO_RUN, name="values", method=VALUES, settings={"trials": 6}, trials=6, space=None)


def readable(value):
    """Return the id of a kind or of a changed option."""
    if isinstance(value, Kind):
        return value.name
    return next(iter(value)) if isinstance(value, dict) else None


def losses_of(x, n):
    """Return the loss at x of each of n people, (n,)."""
    return np.asarray((x["a"] - np.linspace(0.2, 0.6, n)) ** 2 + 0.02 * math.log10(x["b"]) ** 2)


def trial(run, name, *, fails=False):
    run.check(name)
    x = run.ask()
    return run.finish(name, x, None if fails else losses_of(x, run.privatizer.n))


def trials(run, count, name=""):
    return [trial(run, f"{name}{i}") for i in range(count)]


def to_the_end(run, name="more "):
    """Go on until the run is complete; of the plan's trials some may have been lost."""
    for i in range(3 * run.plan.trials):
        if run.complete:
            break
        trial(run, f"{name}{i}")
    assert run.complete
    return run


def keys(ledger, prefix="", scope="run"):
    return [c.key for c in ledger.charges(scope, prefix=prefix)]


def spend_elsewhere(run, mu):
    """Another study of the ledger spends so much."""
    run.privatizer.observe("x", np.zeros(run.privatizer.n))
    run.privatizer.release(run.privatizer.mean_query("x", mu), scope="another study", key="1")
