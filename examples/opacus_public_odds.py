"""Search on public proxy rows, then let private trainings draw their hyperparameters by the odds of that search.

A fifth of the digits: public proxy rows. The others are taken to be people: 40% train with Opacus, 40% score. A
secret number of trainings is made, and the best by a private score is shown. Public odds cost no budget (Papernot and
Steinke 2022: repeats need one law, not a uniform one). Needs torch and opacus (not an extra of dptune).
Run: python examples/opacus_public_odds.py [folder]
"""

import math
import sys
import warnings
from pathlib import Path

import numpy as np
import optuna
import torch
from opacus import PrivacyEngine
from sklearn.datasets import load_digits

from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan, join
from dptune.training.opacus import watched
from dptune_optuna import repeat_and_select

warnings.filterwarnings("ignore", "Secure RNG|Full backward hook")
optuna.logging.set_verbosity(optuna.logging.WARNING)
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
X, y = load_digits(return_X_y=True)
rows = torch.utils.data.TensorDataset(torch.tensor(X / 16, dtype=torch.float32), torch.tensor(y))
order = np.random.default_rng(0).permutation(len(rows))  # the split is public
public, train, score = (torch.utils.data.Subset(rows, part.tolist()) for part in np.split(order, [359, 1078]))
BATCHES, EPOCHS, NOISE = 9, 12, 2.0


def network():
    """Return a small network."""
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))


def fit(model, optimizer, loader):
    """Make EPOCHS passes."""
    for inputs, labels in (batch for _ in range(EPOCHS) for batch in loader):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()


def misread(model, part):
    """Return whether each digit is misread (len(part),)."""
    inputs, labels = rows[part.indices]
    with torch.no_grad():
        return (model(inputs).argmax(1) != labels).numpy()


def sgd(model, trial):
    """Return the optimiser with the trial's rate and momentum."""
    rate, momentum = trial.suggest_float("rate", 0.01, 5.0, log=True), trial.suggest_float("momentum", 0.0, 0.9)
    return torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)


def proxy(trial):
    """Train on half of the public rows, with noise as large as the private trainings'; score on the others."""
    half = torch.utils.data.Subset(rows, public.indices[::2])
    model = network()
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model, optimizer=sgd(model, trial), noise_multiplier=NOISE * len(half) / len(train), max_grad_norm=1.0,
        data_loader=torch.utils.data.DataLoader(half, batch_size=-(-len(half) // BATCHES)),
    )  # fmt: skip
    fit(model, optimizer, loader)
    return misread(model, torch.utils.data.Subset(rows, public.indices[1::2])).mean()


search = optuna.create_study()
search.optimize(proxy, n_trials=20)  # any search: nothing of it is private
candidates = [trial.params for trial in search.trials]
odds = [math.exp(-trial.value / 0.05) for trial in search.trials]  # five points of error: e times less often

law = Repeats.geometric(5)
one = TrainingPlan(NOISE, sample_rate=1 / BATCHES, steps=BATCHES * EPOCHS)
trained = TrainingLedger(
    folder / "odds_train.db",
    SelectionPlan(law, training=one),
    n=len(train),
    unit="one digit",
    dataset="training",
)
scored = TrainingLedger(
    folder / "odds_score.db",
    SelectionPlan(law, score_mu=0.5),
    n=len(score),
    unit="one digit",
    dataset="scoring",
)


def objective(trial):
    """Train privately; return the model and whether each scoring digit is misread."""
    model = network()
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model, optimizer=sgd(model, trial), noise_multiplier=NOISE, max_grad_norm=1.0,
        data_loader=torch.utils.data.DataLoader(train, batch_size=-(-len(train) // BATCHES)),
    )  # fmt: skip
    with watched(one, len(train), optimizer, loader):
        fit(model, optimizer, loader)
    return model, misread(model, score)


best = repeat_and_select(
    optuna.create_study(), objective, [trained, scored], clip=(0.0, 1.0), candidates=candidates, odds=odds, secure=False
)
print(f"best of a secret number of trainings: {best.parameters}, error {best.score:.3f} (with its noise)")
print(join([trained, scored], disjoint=True, delta=1e-5))
