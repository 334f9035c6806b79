"""What the searchers share: a vault, a metric, and nothing that may not be written to disk.

Tune pickles a searcher into ``tuner.pkl``: it holds settings and the ledger's URL. What it knows of the run it reads
from the vault or the ledger, so that a restore, however stale, and a fresh start under the same name go on alike.
"""

from __future__ import annotations

import abc
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, overload

import numpy as np
import ray
from ray.tune.search import Searcher

import dptune
from dptune.objective import Data, Function, losses_function
from dptune.privacy.losses import NamedLoss
from dptune_ray.client import VaultClient
from dptune_ray.runs import RunSettings, TrialRun, mode_of
from dptune_ray.spaces import Domains, describe, domains_of, from_description, resolve
from dptune_ray.trainable import PrivateTrainable, final_estimate

METRIC = "loss"


class VaultSearch(Searcher, abc.ABC):  # type: ignore[misc]
    """A Tune searcher whose trials are paid by a vault.

    Args:
        privatizer: settings of the vault: ledger, clipping range, people. It holds no losses here.
        name: the run's name in the ledger. The same name continues the run.
        param_space: Tune search space; default that of the Tuner.
        metric: the name under which trials report.
        mode: "min": the function returns losses; "max": it returns scores. Default the Tuner's.
        seed: of what is drawn independently.
    """

    def __init__(
        self,
        privatizer: dptune.LossPrivatizer,
        *,
        name: str,
        param_space: Mapping[str, Any] | None,
        metric: str,
        mode: str | None,
        seed: int | None,
    ) -> None:
        if not isinstance(privatizer, dptune.LossPrivatizer):
            raise dptune.InputError(f"{type(self).__name__} needs a LossPrivatizer as its privatizer.")
        _check_mode(mode)
        super().__init__(metric=metric, mode=mode or "min")
        self._privatizer, self._name, self._seed = privatizer, name, seed
        self._given_mode = mode
        self._param_space: Mapping[str, Any] = dict(param_space or {})
        self._domains: Domains = domains_of(self._param_space)
        self._named_loss = False
        self._client = VaultClient.of(privatizer.ledger, name)
        self._handle: Any = None  # the vault lives as long as this is held

    # ---- the run -----------------------------------------------------------------------------------

    @abc.abstractmethod
    def run_settings(self) -> RunSettings:
        """Return what the vault is to run.

        Raises:
            InputError: there is nothing to search.
        """

    def _run(self) -> TrialRun:
        """The run as the ledger has it, to read from in this process."""
        return self.run_settings().begin(self._privatizer)

    @property
    def vault(self) -> VaultClient:
        """The vault, which is started on this node if it does not run."""
        if self._handle is None:
            self._handle = self._client.start(self._privatizer, self.run_settings())
        return self._client

    # ---- Tune's interface --------------------------------------------------------------------------

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Take the Tuner's metric, mode and search space, and begin the run.

        Raises:
            InputError: they do not fit the searcher or are not supported; says how.
            BudgetExhausted: the run cannot be paid; before a trial begins.
        """
        if metric is not None and metric != self.metric:
            raise dptune.InputError(
                f"the trials report {self.metric!r}, not {metric!r}: set TuneConfig(metric={self.metric!r}), or give "
                "the searcher metric=."
            )
        self._take_mode(mode)
        domains = domains_of(config)
        if self._domains and domains and _described(domains) != _described(self._domains):
            return False
        self._param_space = config if domains or not self._domains else self._param_space
        self._domains = domains or self._domains
        _ = self.vault
        return True

    def _take_mode(self, mode: str | None) -> None:
        _check_mode(mode)
        if mode is not None and mode != (self._given_mode or mode):
            raise dptune.InputError(f"the searcher was made with mode={self._given_mode!r}, the Tuner with {mode!r}.")
        self._mode = mode or self._given_mode or "min"
        if self._mode == "max" and self._named_loss:
            raise dptune.InputError('loss= is minimised: set TuneConfig(mode="min"), or return scores yourself.')

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        """Return the next configuration, or that the run is over. Every key of the search space is in it."""
        proposed = self.vault.ask(trial_id)
        if proposed is None:
            return str(Searcher.FINISHED)
        return resolve(self._domains, proposed, self._param_space, self._generator(trial_id))

    def _generator(self, trial: str) -> np.random.Generator:
        """For what is drawn for a trial: with a seed the same whenever it is asked for, and not the same as before."""
        if self._seed is None:
            return np.random.default_rng()
        return np.random.default_rng([self._seed, *hashlib.sha256(trial.encode()).digest()])

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Nothing is learned from Tune: released values are in the ledger. May come twice, or never."""

    def save(self, checkpoint_path: str) -> None:
        """Write the run's name and its search space; its state is in the ledger."""
        state = {"name": self._name, "space": describe(self._domains)}
        Path(checkpoint_path).write_text(json.dumps(state))

    def restore(self, checkpoint_path: str) -> None:
        """Check that the state is this run's, and go on with it: Tune does not give the search space again.

        Raises:
            InputError: it is another run's, or its search space holds what cannot be stored.
        """
        state = json.loads(Path(checkpoint_path).read_text())
        if not self._domains and state["space"] is None:
            raise dptune.InputError(
                "the search space has a sample_from or objects to choose from, which are not stored: give it to the "
                "searcher, or again to Tuner.restore(param_space=...)."
            )
        self._go_on(state["name"], self._domains or from_description(state["space"]), self._param_space)

    def _go_on(self, name: str, domains: Domains, param_space: Mapping[str, Any]) -> None:
        """Continue a run that another process has begun; trials may start before the next suggestion."""
        if name != self._name:
            raise dptune.InputError(f"the saved state is of the run {name!r}, not of {self._name!r}.")
        self._domains, self._param_space = domains, param_space
        self._mode = mode_of(self._privatizer.ledger, self._name)
        if ray.is_initialized():
            _ = self.vault

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_handle": None}

    # ---- the user's interface --------------------------------------------------------------------------

    @overload
    def trainable(self, function: Function) -> type[PrivateTrainable]: ...

    @overload
    def trainable(
        self, *, loss: str | NamedLoss | None = None, data: Data | Callable[[], Data] | None = None
    ) -> Callable[[Function], type[PrivateTrainable]]: ...

    def trainable(
        self,
        function: Function | None = None,
        *,
        loss: str | NamedLoss | None = None,
        data: Data | Callable[[], Data] | None = None,
    ) -> Any:
        """Decorate a function of a configuration that returns per-example losses (rows,); give it to the Tuner.

        With ``loss`` and ``data`` the function returns a fitted scikit-learn estimator instead. ``data`` is (X, y),
        which travels through Ray with the function, or a function that loads them where the trial runs.
        Exceptions of the function become the upper clip for everybody; use ``try_out`` to find bugs.
        """
        if function is None:
            return lambda decorated: self._trainable(decorated, loss, data)
        return self._trainable(function, loss, data)

    def _trainable(
        self, function: Function, loss: str | NamedLoss | None, data: Data | Callable[[], Data] | None
    ) -> type[PrivateTrainable]:
        self._named_loss = loss is not None
        if self._named_loss and self.mode == "max":
            raise dptune.InputError('loss= is minimised: use mode="min", or return scores yourself.')
        members = {
            "function": staticmethod(losses_function(function, loss, data)),
            "vault": self._client,
            "metric": self.metric,
            "__doc__": function.__doc__,
            "__module__": function.__module__,
        }
        return type(function.__name__, (PrivateTrainable,), members)

    @abc.abstractmethod
    def recommend(self) -> dict[str, Any]:
        """Return the parameters to use, as a configuration without constants; works without a cluster."""

    def estimate(self, trainable: type[PrivateTrainable], config: Mapping[str, Any]) -> dptune.Estimate:
        """Release, once per run, the mean clipped loss (or score) at ``config``, from the share kept for it.

        Args:
            trainable: of this searcher; it is run once more, on the cluster.
            config: usually that of :meth:`recommend`, with the constants the function needs.

        Raises:
            InputError: nothing was kept for it.
            BudgetExhausted: it does not fit.
        """
        self._mode = mode_of(self._privatizer.ledger, self._name)
        self.vault.check_estimate()
        return final_estimate(trainable, config)

    def progress(self) -> dict[str, object]:
        """Return released facts only, for a dashboard."""
        self._mode = mode_of(self._privatizer.ledger, self._name)
        return self._run().progress()


def _check_mode(mode: object) -> None:
    if mode not in (None, "min", "max"):
        raise dptune.InputError(f'mode must be "min" or "max", for one metric; got {mode!r}.')


def _described(domains: Domains) -> dict[str, tuple[str, str, str]]:
    """What makes two search spaces the same."""
    return {
        path: (type(d).__name__, d.domain_str if not d.is_function() else "", _sampler(d))
        for path, d in domains.items()
    }


def _sampler(domain: Any) -> str:
    sampler = domain.get_sampler()
    return f"{type(sampler).__name__} {getattr(sampler, 'q', '')} {getattr(sampler, 'sampler', '')}"
