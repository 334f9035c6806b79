"""A Gaussian process that is told the noise of every value: BoTorch's, as its authors have it.

`SingleTaskGP` with `train_Yvar` and noisy expected improvement, one point at a time, after ten points of a Sobol
sequence; length-scales are fitted anew at every fourth trial. A space with categories is searched in the unit cube of
`dptune.Space.encode`. Values are standardised, and the noise with them. The recommendation is the smallest posterior
mean among the points tried. Without noise it is an ordinary search by a Gaussian process.

    python -m pip install torch==2.13.0
    python -m pip install botorch==0.18.1
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks.data import Array
from benchmarks.frontier.tasks import FrontierTask, Parameters

FIRST, EVERY = 10, 4
RESTARTS, RAW = 1, 64  # of the search for the next point; more changed nothing
EXACT = 1e-3  # standard deviation, in units of the values' own, where there is no noise


def search(task: FrontierTask, sigma: float, trials: int, seed: int, rng: np.random.Generator) -> Parameters:
    """The recommendation of ``trials`` values with noise of standard deviation ``sigma``."""
    import torch
    from scipy.stats import qmc

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    warnings.simplefilter("ignore")
    sobol = qmc.Sobol(task.space.d, seed=seed).random(16)[: FIRST - 1]
    X, values, model = np.empty((0, task.space.d)), np.empty(0), _Model()
    tried: list[Parameters] = []
    for trial in range(trials):
        if trial == 0:
            tried.append(task.start)
        else:
            tried.append(task.space.decode(sobol[trial - 1] if trial < FIRST else model.ask(X, values, sigma)))
        X = np.vstack([X, task.space.encode(tried[-1])])
        values = np.append(values, task.losses(tried[-1]).mean() + sigma * rng.standard_normal())
    return tried[int(np.argmax(model.means(X, values, sigma)))]


class _Model:
    """Length-scales are kept from one fit to the next."""

    def __init__(self) -> None:
        self._fitted: dict[str, Any] | None = None
        self._asked = 0

    def ask(self, X: Array, values: Array, sigma: float) -> Array:
        import torch
        from botorch.acquisition import qLogNoisyExpectedImprovement
        from botorch.optim import optimize_acqf
        from botorch.sampling import SobolQMCNormalSampler

        gp = self._gp(X, values, sigma, fit=self._asked % EVERY == 0)
        self._asked += 1
        gain = qLogNoisyExpectedImprovement(
            gp,
            gp.train_inputs[0],
            sampler=SobolQMCNormalSampler(torch.Size([64]), seed=self._asked),
            prune_baseline=True,
        )
        cube = torch.tensor([[0.0], [1.0]], dtype=torch.double).repeat(1, X.shape[1])
        found, _ = optimize_acqf(gain, cube, q=1, num_restarts=RESTARTS, raw_samples=RAW, options={"maxiter": 25})
        return found[0].numpy()

    def means(self, X: Array, values: Array, sigma: float) -> Array:
        gp = self._gp(X, values, sigma, fit=True)
        return gp.posterior(gp.train_inputs[0]).mean.detach().numpy()[:, 0]

    def _gp(self, X: Array, values: Array, sigma: float, *, fit: bool) -> Any:
        import torch
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from gpytorch.mlls import ExactMarginalLogLikelihood

        scale = values.std() + 1e-12
        Y = torch.tensor((values.mean() - values) / scale)[:, None]
        noise = torch.full_like(Y, max(sigma / scale, EXACT) ** 2)
        gp = SingleTaskGP(torch.tensor(X), Y, train_Yvar=noise, outcome_transform=None)
        if self._fitted is not None:
            gp.mean_module.load_state_dict(self._fitted["mean"])
            gp.covar_module.load_state_dict(self._fitted["covar"])
        if fit:
            fit_gpytorch_mll(ExactMarginalLogLikelihood(gp.likelihood, gp))
            self._fitted = {"mean": gp.mean_module.state_dict(), "covar": gp.covar_module.state_dict()}
        return gp.eval()
