"""A grid of PyTorch networks as scikit-learn estimators (skorch): public rows propose, private people decide."""

import sys

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from skorch import NeuralNetClassifier

import dptune
from dptune_sklearn import PrivateSearch

folder = sys.argv[1] if len(sys.argv) > 1 else "."
X, y = load_digits(return_X_y=True)
rows = (X / 16).astype(np.float32)
X_train, X_val, y_train, y_val = train_test_split(rows, y, train_size=800, random_state=0)


class Network(torch.nn.Sequential):
    def __init__(self, width=16):
        super().__init__(torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 10))


torch.manual_seed(0)
net = NeuralNetClassifier(Network, criterion=torch.nn.CrossEntropyLoss, max_epochs=10, train_split=None, verbose=0)
ledger = dptune.PrivacyLedger(f"{folder}/skorch_grid.db", dptune.Budget.gdp(mu=1.0), unit="one image")
grid = {"module__width": [16, 64], "lr": [0.01, 0.1, 1.0], "batch_size": [32, 128]}
search = PrivateSearch(GridSearchCV(net, grid, cv=3), ledger=ledger, loss="log_loss")
search.fit(X_train, y_train, X_val=X_val, y_val=y_val)
print("Best parameters:", search.best_params_, search.summary(), sep="\n")
print(search.statement(delta=1e-5))
