"""What the searchers with a vault share: losses go there, released values come from there or from the ledger."""

from __future__ import annotations

import abc
import logging
from collections.abc import Callable, Mapping
from typing import Any, overload

import dptune
from dptune.losses.named import NamedLoss
from dptune.losses.user_function import Data, Function, losses_function
from dptune_ray.base import RunSearch
from dptune_ray.client import VaultClient
from dptune_ray.runs import RunSettings, mode_of
from dptune_ray.spaces import flat
from dptune_ray.trainable import PrivateTrainable, final_estimate, made_trainable

METRIC = "loss"
_logger = logging.getLogger(__name__)


class VaultSearch(RunSearch):
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
        super().__init__(name=name, param_space=param_space, metric=metric, mode=mode, seed=seed)
        self._privatizer = privatizer
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

    def _run(self) -> dptune.SearchRun:
        """The run as the ledger has it, to read from in this process."""
        return self.run_settings().begin(self._privatizer)

    @property
    def vault(self) -> VaultClient:
        """The vault, which is started on this node if it does not run, or runs no more."""
        if self._handle is None or not self._client.runs():
            if not self._privatizer.private:
                _logger.warning(f"The run {self._name!r} is NOT PRIVATE: {self._privatizer!r}.")
            self._handle = self._client.start(self._privatizer, self.run_settings())
        return self._client

    def _begin(self) -> None:
        _ = self.vault

    def _propose(self, trial: str) -> Mapping[str, Any] | None:
        return self.vault.ask(trial)

    def _stored_mode(self) -> str | None:
        return mode_of(self._privatizer.ledger, self._name)

    def _take_mode(self, mode: str | None) -> None:
        super()._take_mode(mode)
        if self._mode == "max" and self._named_loss:
            raise dptune.InputError('loss= is minimised: set TuneConfig(mode="min"), or return scores yourself.')

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
        which travels through Ray with the function, or a function that loads them where the trial runs; if that
        fails, the trial fails before anything is trained or paid, and tells the error's type.
        Exceptions of the function become the upper clip for everybody; use ``try_out`` to find bugs.
        """
        if function is None:
            return lambda decorated: self._trainable(decorated, loss, data)
        return self._trainable(function, loss, data)

    def _trainable(
        self, function: Function, loss: str | NamedLoss | None, data: Data | Callable[[], Data] | None
    ) -> type[PrivateTrainable]:
        self._named_loss = self._named_loss or loss is not None  # of any trainable: each may be given to the Tuner
        if loss is not None and self.mode == "max":
            raise dptune.InputError('loss= is minimised: use mode="min", or return scores yourself.')
        taken = losses_function(function, loss, data, rows=self._privatizer.rows)
        members = {"vault": self._client, "metric": self.metric}
        return made_trainable(PrivateTrainable, function, function=taken, run=self._client, **members)

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
            KeyConflict: it was made at other parameters.
        """
        self._mode = mode_of(self._privatizer.ledger, self._name)
        self.vault.check_estimate(flat(config))
        return final_estimate(trainable, config)

    def progress(self) -> dict[str, object]:
        """Return released facts only, for a dashboard."""
        self._mode = mode_of(self._privatizer.ledger, self._name)
        return self._run().progress()
