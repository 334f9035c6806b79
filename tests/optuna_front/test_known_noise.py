"""The recipe of docs/optuna.md for a search that knows the noise; skipped where BoTorch is not installed."""

import re
import warnings
from pathlib import Path

import optuna
import pytest

from dptune_optuna import PrivateObjective
from harness import open_privatizer, people_s_losses

PAGE = (Path(__file__).parents[2] / "docs/optuna.md").read_text()
(RECIPE,) = re.findall(
    r"```python\n(.*?)```", PAGE.partition("\n## A search that knows the noise\n")[2].partition("\n## ")[0], re.DOTALL
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    fit = pytest.importorskip("botorch.fit")


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
def test_the_recipe_runs_and_its_model_has_the_noise_of_the_ledger(tmp_path, monkeypatch):
    models, plain, privatizer = [], fit.fit_gpytorch_mll, open_privatizer(tmp_path)
    monkeypatch.setattr(fit, "fit_gpytorch_mll", lambda mll: models.append(mll.model) or plain(mll))
    known = {"optuna": optuna, "PrivateObjective": PrivateObjective, "losses": people_s_losses}
    exec(RECIPE.replace("n_trials=40", "n_trials=14"), {**known, "privatizer": privatizer})
    assert len(models) == 4  # of the trials after the startup
    values = privatizer.ledger.charges(prefix="value/")
    for i, model in enumerate(models):
        units = model.outcome_transform.stdvs.item()  # of the values: the model standardises them
        noise = units * model.likelihood.noise.detach().sqrt()
        drawn = [charge.description["sigma"] for charge in values[: 10 + i]]
        assert noise.tolist() == pytest.approx(drawn, rel=1e-6)
