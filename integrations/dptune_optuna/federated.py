"""DP-FTS-DE in Optuna: one study per agent. Rounds, messages and accounting are in :mod:`dptune.federated`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

import dptune
from dptune._store import ForkSafeLock
from dptune.federated.agent import FTSAgent, FTSModel
from dptune.federated.domain import domain_of
from dptune.federated.settings import FTSSettings
from dptune.federated.transport import Participant, Transport, larger_is_better
from dptune.space import Value
from dptune_optuna.spaces import Distributions, SpaceSampler, logger, to_space


class DPFTSSampler(SpaceSampler):
    """One agent of a federation that tunes together through noisy joint vectors.

    Every agent has a study and a sampler of its own, and tunes its own objective. After a trial the sampler sends one
    message to the trusted server; before the next it waits for the round's broadcast, no longer than the transport's
    time-out. The server's ledger bounds what the broadcasts reveal about an agent. **The study itself, its values and
    its parameters, is not protected**: keep it with the agent. Sharing that is lost is logged as a warning.

    Args:
        transport: the way to the server, e.g. :class:`dptune.federated.InProcess`.
        settings: the same for all agents and the server; ``d`` is the number of parameters.
        space: name -> float or int distribution; the same for all agents.
        agent: this agent's number, from 0.
        seed: of this agent's own choices; without it an agent that restarts may choose other points.

    Raises:
        InputError: space, settings and agent do not fit together.
    """

    _categories = ""

    def __init__(
        self,
        transport: Transport,
        settings: FTSSettings,
        space: Mapping[str, BaseDistribution],
        *,
        agent: int,
        seed: int | None = None,
        warn_independent_sampling: bool = True,
    ) -> None:
        if not isinstance(settings, FTSSettings):
            raise dptune.InputError(
                "DPFTSSampler needs settings: DPFTSSampler(transport, FTSSettings(...), space, agent=0)."
            )
        super().__init__(seed=seed, warn_independent_sampling=warn_independent_sampling)
        converted = to_space(space)
        if converted is None or set(converted) != set(space):
            raise dptune.InputError("space must hold float and int parameters with more than one value, and no others.")
        if len(converted) != settings.d:
            raise dptune.InputError(f"the settings are for d={settings.d} parameters; space has {len(converted)}.")
        self._space, self._transport, self._settings, self._agent = converted, transport, settings, agent
        self._model = FTSModel(settings, domain_of(converted, settings))
        self._lock = ForkSafeLock()
        self._new_participant()  # refuse early

    def _new_participant(self) -> None:
        agent = FTSAgent(self._model, self._agent, seed=self._seed)
        self._participant = Participant(agent, self._transport, notice=logger.warning)
        self._study: str | None = None
        self._told: set[int] = set()  # numbers of the trials that the agent knows

    def _follow(self, study: optuna.Study, asked: int) -> None:
        """Give the agent the study's stored trials, after a restart or from other processes."""
        self._study = self._study or study.study_name
        if self._study != study.study_name:
            raise dptune.InputError(
                f"this sampler is agent {self._agent} in the study {self._study!r}; an agent has one study. Make "
                "another sampler with another agent number."
            )
        trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        new = [t for t in trials if t.number not in self._told and self._space.contains(t.params)]
        usable = [(t, y) for t in new if (y := _larger_is_better(study, t.values)) is not None]
        self._told |= {t.number for t in new}
        self._participant.restore([(self._space.encode(t.params), y) for t, y in usable], asked=asked)

    def join(self, study: optuna.Study) -> None:
        """Send the message of the open round now, for example after a restart, without waiting.

        Only needed where one thread drives several agents: let all of them join, then continue with their trials.
        """
        asked = len(study.get_trials(deepcopy=False))
        with self._lock:
            self._follow(study, asked)
            if asked >= self._settings.initial:
                self._participant.send()

    def _space_of(self, study: optuna.Study) -> dptune.Space:
        return self._space

    def _propose(self, study: optuna.Study, number: int, suggested: Distributions) -> Mapping[str, Value]:
        with self._lock:
            self._follow(study, number)
            return self._space.decode(self._participant.ask())

    def after_trial(self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Any) -> None:
        """Tell the agent, and send its message of the open round; a failed trial sends one, too."""
        with self._lock:
            self._follow(study, trial.number + 1)
            fits = state == TrialState.COMPLETE and self._space.contains(trial.params)
            y = _larger_is_better(study, values) if fits and trial.number not in self._told else None
            self._told.add(trial.number)
            self._participant.tell(self._space.encode(trial.params) if y is not None else (), y)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in {"_participant", "_study", "_told"}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._new_participant()


def _larger_is_better(study: optuna.Study, values: Any) -> float | None:
    return larger_is_better(values and values[0], maximize=study.direction == StudyDirection.MAXIMIZE)
