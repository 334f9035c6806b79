"""Train PyTorch networks any way you like; choose one of them by its loss on private people, paid once."""

import sys

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import dptune
from dptune.losses.models import TorchModel

folder = sys.argv[1] if len(sys.argv) > 1 else "."
X, y = load_digits(return_X_y=True)
X_train, X_val, y_train, y_val = train_test_split(X / 16, y, train_size=800, random_state=0)


def trained(width, rate, decay, epochs):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 10))
    optimizer = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=decay)
    rows, labels = torch.as_tensor(X_train, dtype=torch.float32), torch.as_tensor(y_train)
    for _ in range(epochs):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(rows), labels).backward()
        optimizer.step()
    return TorchModel(net, labels=range(10))  # asked in batches, in evaluation mode, where its parameters are


rng = np.random.default_rng(0)
settings = [(int(rng.integers(8, 65)), 10 ** rng.uniform(-4, -1), 10 ** rng.uniform(-4, 0), 60) for _ in range(40)]
ledger = dptune.PrivacyLedger(f"{folder}/torch_mlp.db", dptune.Budget.gdp(mu=1.0), unit="one image")
privatizer = dptune.LossPrivatizer(ledger, n=len(y_val), clip=(0.0, 3.0))
models = (trained(*setting) for setting in settings)
chosen = dptune.select(models, privatizer, mu=1.0, name="mlp", loss="log_loss", data=(X_val, y_val), estimate_share=0.1)
print("Best of 40:", dict(zip(("width", "rate", "decay", "epochs"), settings[chosen.index], strict=True)), chosen)
print(ledger.statement(delta=1e-5))
