"""The mechanism seam: another mechanism is charged at its own price, after the charge, once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from noises import NoNoise

from dptune import BudgetExhausted, LossPrivatizer
from dptune._arrays import Vector
from dptune.errors import KeyConflict
from dptune.ledger.events import GaussianRelease
from dptune.privacy.mechanism import AnyQuery, GaussianMechanism, NoisyMin


def doubled(order: list[str]) -> type[GaussianMechanism]:
    """A Gaussian mechanism of twice the noise at a quarter of the price; notes when it draws."""

    class Doubled(GaussianMechanism):
        def event(self, query: AnyQuery, sensitivity: float, scale: float) -> GaussianRelease:
            return GaussianRelease(query.mu / 4, sensitivity, scale, query.dimension, "doubled " + query.statistic)

        def scale(self, query: AnyQuery, sensitivity: float) -> float:
            return 2 * super().scale(query, sensitivity)

        def draw(self, statistic: Vector, scale: float) -> Vector:
            order.append("draw")
            return super().draw(statistic, scale)

    return Doubled


def test_another_mechanism_pays_its_own_price_and_adds_its_own_noise(privatizer: Callable[..., LossPrivatizer]) -> None:
    mine, order = privatizer(), list[str]()
    mine.observe("x", np.zeros(4))
    with pytest.raises(BudgetExhausted):  # before it draws
        mine.release(mine.mean_query("x", 41.0), scope="s", key="k", mechanism=doubled(order))
    assert order == []
    query = mine.mean_query("x", 0.4)
    released = mine.release(query, scope="s", key="k", mechanism=doubled(order))
    assert released.charge.mu == pytest.approx(0.1)
    assert released.sigma == pytest.approx(2 * mine.sigma(query))
    again = mine.release(query, scope="s", key="k", mechanism=doubled(order))
    assert again.value == released.value
    assert order == ["draw"]
    mine.release(query, scope="s", key="default")
    names = [name for name, *_ in mine.ledger.statement(delta=1e-5).mechanisms]
    assert sorted(name.split(" on ")[0] for name in names) == ["Gaussian mechanism", "Gaussian mechanism"]
    assert sum("doubled" in name for name in names) == 1


def test_a_retry_with_another_prior_is_another_question(privatizer: Callable[..., LossPrivatizer]) -> None:
    mine = privatizer()
    for name in "xy":
        mine.observe(name, np.zeros(4))
    query = mine.means_query("xy", 1.0)
    for prior in ((), (1.0, 3.0)):
        mine.release(query, scope="s", key=str(prior), mechanism=partial(NoisyMin, prior=prior))
        for other in {(), (1.0, 3.0), (3.0, 1.0)} - {prior}:
            with pytest.raises(KeyConflict):
                mine.release(query, scope="s", key=str(prior), mechanism=partial(NoisyMin, prior=other))


def test_a_box_of_several_means_has_the_l2_sensitivity_of_all_of_them(
    privatizer: Callable[..., LossPrivatizer],
) -> None:
    mine = privatizer(clip=(1.0, 3.0), noise=NoNoise())
    query = mine.means_query(["x", "y", "z"], 1.0)
    assert mine.sensitivity(query) == pytest.approx(3**0.5 * 2.0 / 4)
    for name in ("x", "y", "z"):
        mine.observe(name, np.full(4, 2.5))
    assert mine.release(query, scope="s", key="k").value.tolist() == [2.5] * 3
