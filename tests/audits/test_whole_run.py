"""A whole run as one mechanism: what an adversary proves about mu from everything it released."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from audit_tools import Array, FreeLedger, NoNoise, lower_bound

from dptune import Budget, CentredCMASession, Float, GIBOSession, LossPrivatizer, MeanQuery, Released, Space
from dptune.accounting.ledger import Rest
from dptune.algorithms.centred_plan import plan_centred_cma
from dptune.algorithms.gibo_plan import plan_gibo

CLIP, N, MU = (0.0, 1.0), 4, 2.0


class FactLedger(FreeLedger):
    """The free ledger with what a run asks of one: facts, lists of charges, and a budget that is never passed."""

    def __init__(self) -> None:
        super().__init__()
        self.facts: dict[tuple[str, str], object] = {}
        self.budget = Budget.gdp(MU)

    def fix(self, scope: str, name: str, value: object) -> object:
        return self.facts.setdefault((scope, name), value)

    def fact(self, scope: str, name: str) -> object:
        return self.facts.get((scope, name))

    def fix_plan(self, scope: str, make: Callable[[Rest], object]) -> object:
        return self.fix(scope, "plan", make(self.rest()))

    def rest(self) -> Rest:
        return Rest(MU, MU, ())

    def charges(self, scope: str | None = None, *, prefix: str = "") -> list:
        return [charge for charge in self.paid.values() if charge.key.startswith(prefix)]

    def charge(self, scope: str, key: str, event, *, note=None, **rest):
        charge = super().charge(scope, key, event, **rest)
        charge.key, charge.note, charge.private, charge.description = key, note, True, event.describe()
        return charge

    def check(self, mu: float, *, releases: int = 1) -> None:
        pass


class Adversary(LossPrivatizer):
    """Knows both possible records of person 0 and sums the log-likelihood ratio of all that is released."""

    def __init__(self, record: int) -> None:
        super().__init__(FactLedger(), n=N, clip=CLIP)
        self.worlds = [LossPrivatizer(FreeLedger(), n=N, clip=CLIP) for _ in range(2)]
        for world in self.worlds:
            world._noise = NoNoise()
        self.record, self.ratio, self.squares = record, 0.0, 0.0

    def observe(self, point: str, losses: Array) -> None:
        super().observe(point, losses[self.record])
        for world, row in zip(self.worlds, losses, strict=True):
            world.observe(point, row)

    def release(self, query: MeanQuery, *, scope: str, key: str, **rest) -> Released:
        released = super().release(query, scope=scope, key=key, **rest)
        for world in self.worlds:
            world.release(query, scope=scope, key=key)
        centre = self._centre(query)  # is added after the noise
        a, b = (world._noise.statistic + centre for world in self.worlds)
        self.ratio += float((released.value - (a + b) / 2) @ (b - a)) / released.sigma**2
        self.squares += float((b - a) @ (b - a)) / released.sigma**2
        return released


def whole_run(record: int, seed: int) -> Adversary:
    """Person 0 prefers one end of the first axis or the other; everybody else is indifferent."""
    space = Space({"x": Float(0.0, 1.0), "y": Float(0.0, 1.0)})
    privatizer = Adversary(record)

    def make_plan(mu: float, seed: int):
        return plan_gibo(d=2, n=N, loss_range=1.0, mu=mu, seed=seed, trials=12, clip=0.01, starts=0)

    session = GIBOSession(privatizer, scope="run", space=space, make_plan=make_plan, mu=MU, seed=seed)
    for trial in range(session.plan.trials):
        x = session.ask()
        side = float(x["x"] > session.algorithm.theta[0])
        losses = np.full((2, N), 0.5)
        losses[:, 0] = side, 1.0 - side
        session.finish(str(trial), x, losses)
    session.estimate(session.recommend(), losses)
    assert session.complete
    return privatizer


def whole_centred_run(record: int, seed: int) -> Adversary:
    """Person 0's loss grows along the first axis or falls; everybody else is indifferent."""
    space = Space({"x": Float(0.0, 1.0), "y": Float(0.0, 1.0)})
    privatizer = Adversary(record)

    def make_plan(mu: float, seed: int):
        options = {"trials": 12, "radius": 0.01, "candidates": 1, "references": 0}
        return plan_centred_cma(d=2, loss_range=1.0, mu=mu, seed=seed, **options)

    session = CentredCMASession(privatizer, scope="run", space=space, make_plan=make_plan, mu=MU, seed=seed)
    for trial in range(session.plan.trials):
        x = session.ask()
        losses = np.full((2, N), 0.5)
        losses[:, 0] = x["x"], 1.0 - x["x"]
        session.finish(str(trial), x, losses)
    losses[:, 0] = 0.0, 1.0
    session.estimate(session.recommend(), losses)
    assert session.complete
    return privatizer


@pytest.mark.slow
def test_a_whole_centred_run_proves_no_more_than_the_budget_and_most_of_it() -> None:
    count = 1000
    worlds = [[whole_centred_run(record, seed) for seed in range(count)] for record in (0, 1)]
    a, b = (np.array([run.ratio for run in world]) for world in worlds)
    assert max(run.squares for world in worlds for run in world) <= MU**2
    proven = lower_bound(a, b, 0.0)
    print(f"a whole centred run: claimed mu {MU}, proven {proven:.3f}")
    assert 0.7 * MU < proven <= MU


@pytest.mark.slow
def test_the_whole_transcript_proves_no_more_than_the_budget_and_nearly_all_of_it() -> None:
    count = 3000
    worlds = [[whole_run(record, seed) for seed in range(count)] for record in (0, 1)]
    a, b = (np.array([run.ratio for run in world]) for world in worlds)
    assert max(run.squares for world in worlds for run in world) <= MU**2
    proven = lower_bound(a, b, 0.0)
    print(f"a whole run: claimed mu {MU}, proven {proven:.3f}")
    assert 0.8 * MU < proven <= MU
