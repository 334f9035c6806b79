"""A whole search through Opacus, its trainings and its private choice: what outputs alone prove about either half."""

from __future__ import annotations

import logging
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from proofs import proved

from dptune import LossPrivatizer
from dptune.accounting.gdp import epsilon_from_mu
from dptune.audit.free import FreeLedger
from dptune.privacy.noisy_min import noisy_min
from dptune.training import TrainingPlan
from dptune.training.profiles import epsilon_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")
    opacus = pytest.importorskip("opacus")
    from dptune.training import opacus as implementation

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # a minute or two
N, TRIALS, COUNT, DELTA, MU = 8, 2, 2000, 0.01, 2.0
PLAN = TrainingPlan(noise_multiplier=1.0, sample_rate=0.5, steps=1, trainings=TRIALS)


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
    return sum(models), privatizer.release(query, scope="search", key="choice", mechanism=noisy_min).scalar


def train(canary: float, noise: float) -> float:
    rows = torch.utils.data.TensorDataset(torch.tensor([[canary], *[[0.0]] * (N - 1)]))
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    model, optimizer, loader = opacus.PrivacyEngine().make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), noise_multiplier=noise,
        max_grad_norm=1.0, data_loader=torch.utils.data.DataLoader(rows, batch_size=N // 2),
    )  # fmt: skip
    with implementation.training(LEDGER, optimizer, loader):
        (x,) = next(iter(loader))
        model(x).sum().backward()
        optimizer.step()
    return float(model._module.weight)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opacus warns of each empty batch, which its own sampling makes."""
    monkeypatch.setattr(logging.getLogger("opacus.data_loader"), "disabled", True)


LEDGER: Any = SimpleNamespace(plan=PLAN, n=N, begin=lambda **_: None)


def searches(canary: float, person: int, noise: float = 1.0) -> np.ndarray:
    return np.array([search(canary, person, noise) for _ in range(COUNT)])


TRAINING, CHOICE = epsilon_of([PLAN], DELTA), epsilon_from_mu(MU, DELTA)


def test_both_halves_of_a_search_keep_their_claim() -> None:
    base, canary, person = searches(0.0, 0), searches(1e6, 0), searches(0.0, 1)
    train, val = proved(base[:, 0], canary[:, 0], DELTA), proved(base[:, 1], person[:, 1], DELTA)
    print(f"training: {train:.2f} of {TRAINING:.2f} proved; validation: {val:.2f} of {CHOICE:.2f}")
    assert 0.05 * TRAINING < train <= TRAINING
    assert 0.05 * CHOICE < val <= CHOICE


def test_a_fifth_of_the_noise_that_is_not_compared_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(implementation, "_at_most", lambda *_: None)
    assert proved(searches(0.0, 0, 0.2)[:, 0], searches(1e6, 0, 0.2)[:, 0], DELTA) > TRAINING
