"""A whole search through Opacus, its trainings and its private choice: what outputs alone prove about either half."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from training_tools import proved

from dptune import LossPrivatizer
from dptune.audit.own import FreeLedger
from dptune.ledger.gdp import epsilon_from_mu
from dptune.privacy.mechanism import NoisyMin
from dptune.training import TrainingPlan
from dptune.training.profiles import epsilon_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")
    opacus = pytest.importorskip("opacus")
    from dptune.training import opacus as implementation

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # half a minute
N, TRIALS, DELTA, MU = 8, 2, 0.01, 2.0


def planned(noise: float) -> TrainingPlan:
    return TrainingPlan(noise, sample_rate=0.5, steps=1, trainings=TRIALS)


def search(canary: float, person: int, noise: float) -> tuple[float, float]:
    """Train ``TRIALS`` models of which all are shown, choose one in private; return a statistic of each half.

    Training half: everybody's gradient is 0 but the canary's, which is clipped. Validation half: all people but one
    like the models alike, and this one has the loss 0 on model ``person`` and 1 on the others.
    """
    models = [train(canary, noise) for _ in range(TRIALS)]
    privatizer = LossPrivatizer(FreeLedger(), n=N, clip=(0.0, 1.0))
    for i in range(TRIALS):
        privatizer.observe(str(i), [float(i != person), *[0.5] * (N - 1)])
    query = privatizer.means_query([str(i) for i in range(TRIALS)], MU)
    return sum(models), privatizer.release(query, scope="search", key="choice", mechanism=NoisyMin).scalar


def train(canary: float, noise: float) -> float:
    rows = torch.utils.data.TensorDataset(torch.tensor([[canary], *[[0.0]] * (N - 1)]))
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    model, optimizer, loader = opacus.PrivacyEngine().make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), noise_multiplier=noise,
        max_grad_norm=1.0, data_loader=torch.utils.data.DataLoader(rows, batch_size=N // 2),
    )  # fmt: skip
    ledger: Any = SimpleNamespace(plan=planned(noise), n=N, begin=lambda **_: None)
    with implementation.training(ledger, optimizer, loader):
        (x,) = next(iter(loader))
        model(x).sum().backward()
        optimizer.step()
    return float(model._module.weight)


def searches(count: int, canary: float, person: int, noise: float = 0.4) -> np.ndarray:
    return np.array([search(canary, person, noise) for _ in range(count)])


def test_both_halves_of_a_search_keep_their_claim() -> None:
    training, choice = epsilon_of([planned(0.4)], DELTA), epsilon_from_mu(MU, DELTA)
    base, other = searches(500, 0.0, 0), searches(500, 1e6, 1)  # no half depends on the other's neighbour
    train, val = proved(base[:, 0], other[:, 0], DELTA), proved(base[:, 1], other[:, 1], DELTA)
    print(f"training: {train:.2f} of {training:.2f} proved; validation: {val:.2f} of {choice:.2f}")
    assert 0 < train <= training
    assert 0 < val <= choice


def test_a_twentieth_of_the_noise_is_found() -> None:
    """Opacus is told a twentieth of the plan's noise, and nobody compares."""
    found = proved(searches(240, 0.0, 0, 0.1)[:, 0], searches(240, 1e6, 0, 0.1)[:, 0], DELTA)
    assert found > epsilon_of([planned(2.0)], DELTA)
