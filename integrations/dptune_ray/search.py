"""Searchers whose trials a vault charges: it gets the losses, and released values come from it or from the ledger.

Guarantee: mu-GDP under replacing one person's record, n public, for a trusted curator, as the ledger's statement says.
Tune, its files and its dashboards see released values, public parameters, and times.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, TypeVar, Unpack

from ray.tune.search.sample import Categorical
from ray.tune.utils import merge_dicts

import dptune
from dptune.losses.user_function import Function
from dptune.privacy.seal.uninitialised import write_memory_of_cmaes
from dptune.search.answer import Recommendation
from dptune.search.asked_loss import UNNAMED, AskedLoss
from dptune.search.objective import Objective, ObjectiveOptions, allows_unprotected
from dptune.search.request import SearchRequest
from dptune.space import OTHER_SPACES
from dptune_ray.base import RunSearch
from dptune_ray.reports import PUBLIC
from dptune_ray.spaces import constants, flat, lacking, nested, rounded, to_space, without
from dptune_ray.vault import Vault
from dptune_ray.vault_client import VaultClient
from dptune_ray.vault_run import MODE, VaultRun
from dptune_ray.worker import PrivateTrainable, estimated, in_own_process, made_trainable, resources

METRIC = "loss"
_logger = logging.getLogger(__name__)
T = TypeVar("T")
write_memory_of_cmaes()  # here: a driver imports this before Tune pickles a search; workers do not need cmaes


class SpaceSearch(RunSearch):
    """A Tune searcher with a vault.

    Uniform and log-uniform floats and integers, quantised or not, are searched; ``choice`` and ``sample_from`` are
    drawn. With categories or conditions use :func:`dptune_ray.choose`.

    Args:
        privatizer: holds the losses and pays, in the vault; here it holds settings only.
        param_space: Tune search space; default that of the Tuner. :attr:`n_trials` needs it.
        name: the run's name in the ledger. The same name continues the run.
        method: a :class:`dptune.search.Method`; a subclass such as :class:`CentredSearch` has its own.
        mu: GDP budget of the run; default what is neither spent nor planned by other runs when the run begins.
        n_trials: wished number of trials; the number planned is :attr:`n_trials`.
        default: your default configuration, with every searched parameter. It is tried first, and the recommendation is
            compared with it. :meth:`estimate` releases both losses. Default: the centre of the search space is compared
            with.
        seed: of the searcher's own randomness (not of the noise, which has none).
        metric: the name under which trials report.
        mode: "min": the function returns losses; "max": it returns scores in the clipping range. Default the Tuner's.
        unprotected: "allow": a trial may report a value that no release paid for, for public objectives.
        settings: further keyword arguments of the method's planner.
    """

    _method: ClassVar[dptune.search.Method | None] = None

    def __init__(
        self,
        privatizer: dptune.LossPrivatizer,
        param_space: Mapping[str, Any] | None = None,
        *,
        name: str = "tune",
        method: dptune.search.Method | None = None,
        mu: float | None = None,
        n_trials: int | None = None,
        default: Mapping[str, Any] | None = None,
        seed: int | None = None,
        metric: str = METRIC,
        mode: str | None = None,
        unprotected: str = "refuse",
        **settings: Any,
    ) -> None:
        super().__init__(name=name, param_space=param_space, metric=metric, mode=mode, seed=seed)
        self._allows = allows_unprotected(unprotected)
        front_end = type(self).__name__
        method = dptune.search.Method.chosen(self._method, method, front_end=front_end)
        method.refuse_unknown(settings, front_end=front_end)  # "trials", too: its name is n_trials here
        self._request = SearchRequest(
            method,
            privatizer,
            mu=mu,
            seed=seed,
            settings={"trials": n_trials, **settings},
            default=flat(default) if isinstance(default, Mapping) else default,
            front_end=front_end,
        )
        self._default = default
        if (space := self._known_space()) is not None:
            self._request.plan(space)  # early check of settings against the space
        self._named_loss = False  # whether any trainable names its loss
        self._loss = AskedLoss(UNNAMED, math.inf)  # the last trainable's loss
        self._made: type[PrivateTrainable] | None = None  # the last trainable
        self._client: VaultClient = VaultClient.of("vault", self._request.ledger, name)

    def _known_space(self) -> dptune.Space | None:
        return to_space(self._domains)

    def _space(self) -> dptune.Space | None:
        space = self._known_space() or self._request.stored_space(self._name)
        if space is None:
            raise dptune.InputError(
                f"the search space has no numerical parameter with more than one value to search. {OTHER_SPACES}"
            )
        return space

    def vault_run(self) -> VaultRun:
        """Return what the vault is to run."""
        return VaultRun(self._request, self._name, self._space(), self.mode)

    @property
    def vault(self) -> VaultClient:
        """Return the vault; start it on this node if it does not run."""
        if self._handle is None or not self._client.runs():
            self._begin()
        return self._client

    def _begin(self) -> None:
        self._refuse_maximised_loss()
        run = self.vault_run()
        _ = self._request.privatizer.interval  # refuses an unknown clip before the vault is started
        self._serve(Vault, run)
        spends, warning = self._client.call(Vault.begin, run.described())
        if drawn := [path for path, domain in self._domains.items() if isinstance(domain, Categorical)]:
            _logger.warning(f"Drawn at random, and not searched: {', '.join(map(repr, drawn))}. {OTHER_SPACES}")
        self._loss.keep(self._request.ledger, self._name)
        _logger.log(logging.INFO if self._request.privatizer.private else logging.WARNING, spends)
        if warning:
            _logger.warning(warning)

    def _propose(self, trial: str) -> Mapping[str, Any] | None:
        return self._ask_vault(Vault.ask, trial)

    def _ask_vault(self, method: Callable[[Vault, str], T], trial: str) -> T:
        try:
            return self.vault.call(method, trial)
        except dptune.DptuneError:
            self._begun = False  # a second fit begins again, even if Tune does not notify us
            raise

    def _stored_mode(self) -> str:
        return str(self._request.ledger.fact(self._name, MODE) or "min")

    def _mode_without_tuner(self) -> str:
        return "min" if self._named_loss else super()._mode_without_tuner()

    def _refuse_maximised_loss(self) -> None:
        if self.mode == "max" and self._named_loss:
            raise dptune.InputError('loss= is minimised: set TuneConfig(mode="min"), or return scores yourself.')

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """End the experiment if the value is not the one that the vault returned to the trial."""
        self._refuse_untold(trial_id, result)

    def _refuse_untold(self, trial: str, result: Mapping[str, Any]) -> None:
        if not self._allows and not math.isnan(result.get(self.metric, math.nan)):
            self._refuse_unpaid(trial, result, self.vault.call(Vault.reported, trial))

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Likewise; nothing is learned from Tune. May come twice, or never."""
        self._refuse_untold(trial_id, result or {})
        if error:
            self._ask_vault(Vault.failed, trial_id)
        if error or not result or not math.isnan(result.get(self.metric, 0.0)):
            return
        if not math.isnan(result.get(PUBLIC, math.nan)):
            if ended := self.vault.call(Vault.stopped, trial_id):
                _logger.warning(f"No more trials are proposed: {ended}")
            return
        why, is_mistake = self.vault.call(Vault.unpaid, trial_id)
        _logger.log(
            logging.WARNING if is_mistake else logging.INFO,
            f"The trial {trial_id!r} reports NaN and nothing was charged for it: {why}",
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_made": None}  # Tune writes searchers to files; a function holds data

    # ---- the user's interface --------------------------------------------------------------------------

    def trainable(
        self, function: Function | None = None, *, silent: bool = True, **options: Unpack[ObjectiveOptions]
    ) -> Any:
        """Return a :class:`PrivateTrainable` for the Tuner, or without ``function`` what decorates one to be that.

        Exceptions of such a function become the upper clip for everybody; use ``try_out`` to find bugs. With ``loss``
        and ``data`` the function trains on public data and returns a fitted scikit-learn estimator instead.

        Args:
            function: configuration -> per-example losses (rows,).
            silent: swallow what the worker prints. False: you say that whatever the function prints is public.
            options: ``loss``, ``data``, ``training``, ``public``: see
                :class:`dptune.search.objective.ObjectiveOptions`. Data travel through Ray with the function.
        """
        if function is None:
            return partial(self.trainable, silent=silent, **options)
        objective = Objective(function, self._request, _logger.warning, **options)
        ledger = self._request.ledger
        self._named_loss = self._named_loss or options.get("loss") is not None  # any of them may be passed to the Tuner
        self._refuse_maximised_loss()
        objective.loss.refuse_other(ledger, self._name)
        objective.declare(ledger, self._name)
        taken, public, self._loss = objective.losses, objective.public, objective.loss
        members = {"vault": self._client, "metric": self.metric, "public": public}
        self._made = made_trainable(PrivateTrainable, function, taken, self._client, silent=silent, **members)
        return self._made

    @property
    def n_trials(self) -> int:
        """Return the number of trials of a complete run: the Tuner's ``num_samples``.

        -1 is fine too: the run ends when its plan is complete.

        Raises:
            InputError: the searcher was made without a search space, and no run has fixed one yet.
        """
        return self._request.trials(self._name, self._space())

    def recommend(self) -> Recommendation:
        """Return what the run ends with, and how much better than the default it is; never the best noisy value.

        The constants of the search space are in it, so that it rebuilds the model. What is
        drawn instead of searched is in it as ``default`` has it, or not at all. Works without a cluster. A release that
        an error has kept from being made is made first, if the vault runs and has the losses for it.
        """
        if self._handle is not None and self._client.runs():
            self._client.call(Vault.make_up)
        run = self._read()
        recommendation = run.recommend()
        if not run.complete:
            _logger.warning(f"The run {self._name!r} is not complete. {run.missing()} {self._how_to_resume}")
        best = self._nested(recommendation)
        others = without(self._default or {}, self._space() or ())
        whole = merge_dicts(merge_dicts(constants(self._param_space), others), best)
        return recommendation.renamed(whole, self._default or self._nested(recommendation.defaults)).resumed(
            self._how_to_resume
        )

    @property
    def _how_to_resume(self) -> str:
        return f"To resume, fit a Tuner with num_samples=-1 and a searcher named {self._name!r}."

    def _nested(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return a point of the search space in the form of a trial's configuration."""
        values = {path: rounded(self._domains[path], point[path]) for path in point if path in self._domains}
        return nested({**point, **values})

    def estimate(
        self, trainable: type[PrivateTrainable], config: Mapping[str, Any], *, early: bool = False
    ) -> dptune.results.Estimate:
        """Release, once per run, the mean clipped loss (or score) at ``config``, from the share kept for it.

        With ``default`` the function is trained there, too, and the estimate has the improvement over it.

        Args:
            trainable: of this searcher; it is run once more, on the cluster.
            config: usually that of :meth:`recommend`, with the choices that the function needs.
            early: the run is to end here, though it is not complete.

        Raises:
            InputError: nothing was kept for it, the run is not complete, or a key of the search space is missing.
            BudgetExhausted: it does not fit.
            KeyConflict: it was made at other parameters.
        """
        parameters = flat(config)
        if missing := lacking(config, self._param_space):
            raise dptune.InputError(
                f"the configuration has no value for {', '.join(map(repr, missing))} of the search space; nothing was "
                "trained or spent. Add what the run did not search: {**search.recommend(), name: value}."
            )
        self._mode = self._stored_mode()
        if (made := self.vault.call(Vault.estimated, parameters, early)) is not None:
            return made
        others = [] if self._default is None else [merge_dicts(dict(config), self._default)]
        return _on_the_cluster(trainable, config, partial(estimated, trainable, [config, *others]))

    def progress(self) -> dict[str, object]:
        """Return released facts only, for a dashboard."""
        return self._read().progress()

    def _read(self) -> dptune.SearchRun:
        self._mode = self._stored_mode()
        return self.vault_run().begin()


def _on_the_cluster(trainable: type[PrivateTrainable], config: Mapping[str, Any], call: Callable[[], T]) -> T:
    wanted = resources(trainable.default_resource_request(dict(config)))
    return in_own_process(call, silent=trainable.silent, options=wanted)


class CentredSearch(SpaceSearch):
    """Differentially private CMA-ES on centred joint releases (needs ``dptune[ray,cmaes]``); arguments: SpaceSearch.

    A generation is two releases and no trial has one of its own. A trial reports a careful estimate of its mean loss
    *less that at the centre of the search space*, from what is released when it ends.
    It is infinity while nothing is released.
    The answer is :meth:`recommend`. Settings are those of :func:`dptune.search.algorithms.centred_plan.plan_centred`.

    Raises:
        MissingExtra: cmaes is not installed; when the run begins.
    """

    _method = dptune.CENTRED


class DPGIBOSearch(SpaceSearch):
    """Differentially private, gradient-informative Bayesian optimisation; arguments: SpaceSearch.

    Trials are proposed in batches around an iterate that moves by one released gradient a batch. Each trial reports a
    release of its own, paid from ``monitor_share``. Settings are those of
    :func:`dptune.search.algorithms.gibo_plan.plan_gibo`.
    """

    _method = dptune.GIBO
