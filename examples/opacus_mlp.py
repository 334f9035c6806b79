"""Train a small network privately, tune its learning rate privately, and print one statement for both halves.

Training digits and validation digits are taken to be people, and all of them private. Needs torch and opacus (not an
extra of dptune). Run: python examples/opacus_mlp.py [folder]
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from opacus import PrivacyEngine
from scipy.stats import loguniform
from sklearn.datasets import load_digits
from sklearn.model_selection import ParameterSampler

import dptune
from dptune.training import TrainingLedger, TrainingPlan, join, noise_multipliers
from dptune.training.opacus import training

warnings.filterwarnings("ignore", "Secure RNG|Full backward hook")
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
X, y = load_digits(return_X_y=True)
rows = torch.utils.data.TensorDataset(torch.tensor(X / 16, dtype=torch.float32), torch.tensor(y))
halves = np.random.default_rng(0).permutation(len(rows))  # the split is public
train, val = (torch.utils.data.Subset(rows, half.tolist()) for half in np.array_split(halves, 2))

TRIALS, BATCHES, EPOCHS, DELTA = 6, 9, 12, 1e-5
steps = {"sample_rate": 1 / BATCHES, "steps": BATCHES * EPOCHS, "trainings": TRIALS}
noise = noise_multipliers(epsilon=8.0, delta=DELTA, **steps, ways=["composition"])["composition"]
people = TrainingLedger(folder / "train.db", TrainingPlan(noise, **steps), n=len(train), unit="one digit")
tuning = dptune.PrivacyLedger(folder / "val.db", dptune.Budget.gdp(mu=1.0), unit="one digit")
privatizer = dptune.LossPrivatizer(tuning, n=len(val), clip=(0.0, 1.0))


def losses(rate):
    """Return whether each validation digit is misread."""
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=rate), noise_multiplier=noise, max_grad_norm=1.0,
        data_loader=torch.utils.data.DataLoader(train, batch_size=-(-len(train) // BATCHES)),
    )  # fmt: skip
    with training(people, optimizer, loader, note={"rate": rate}):
        for inputs, labels in (batch for _ in range(EPOCHS) for batch in loader):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    inputs, labels = rows[val.indices]
    return (model(inputs).argmax(1) != labels).numpy()


rates = [drawn["rate"] for drawn in ParameterSampler({"rate": loguniform(0.05, 5.0)}, TRIALS)]
chosen = dptune.select(map(losses, rates), privatizer, name="rate", mu=1.0, estimate_share=0.2)
print(rates[chosen.index], chosen.estimate)
print(join([people, tuning], disjoint=True, delta=DELTA))
