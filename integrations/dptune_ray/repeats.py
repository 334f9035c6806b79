"""Repeat and select on a Ray search space: many private trainings in one silent process, of which the best comes back.

Example::

    def train(config):                          # one repeat
        model = train_privately(config["rate"])
        return model, losses_of(model)          # one loss for each scoring person

    space = {"rate": tune.loguniform(1e-3, 1.0)}
    best = repeat_and_select(train, space, [train_ledger, val_ledger], clip=(0.0, 1.0))

Guarantee: the cluster sees one actor and one call for any number of repeats. This is not a Tune experiment, because
    Tune stores and shows every trial. The duration of the call is visible and not covered
    (:func:`dptune.training.repeats.repeat_and_select` has the guarantee).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from ray.tune.utils import merge_dicts

import dptune
from dptune.privacy.noise import NoiseSource
from dptune.training import TrainingLedger
from dptune.training.repeats import Selected, one_of
from dptune.training.repeats import repeat_and_select as _repeat_and_select
from dptune_ray.actors import on_this_node
from dptune_ray.spaces import constants, domains_of, flat, leaves, nested, resolve
from dptune_ray.worker import PickledFunction, called_in_worker, in_own_process

Candidates = Sequence[Mapping[str, Any]] | None


def repeat_and_select(
    function: Callable[[dict[str, Any]], tuple[Any, Any]],
    param_space: Mapping[str, Any],
    ledgers: Sequence[TrainingLedger],
    *,
    clip: tuple[float, float],
    candidates: Candidates = None,
    secure: bool = True,
    noise: NoiseSource | None = None,
    options: Mapping[str, Any] | None = None,
) -> Selected:
    """Make a secret number of repeats, one after the other in a process of their own, and return the best.

    Args:
        function: configuration -> (model, losses (n,) of the scoring people). The model is sent back: it must pickle.
        param_space: Tune search space; every repeat draws its own configuration, without a seed.
        ledgers: see :func:`dptune.training.repeats.repeat_and_select`; so for ``clip``, ``secure``, ``noise``.
        candidates: a public list of configurations, such as :func:`dptune.training.quasi_random` makes (names are
            paths): each repeat draws one of them, with replacement. What a candidate does not name is drawn as usual.
        options: Ray's options of the process, such as ``num_gpus``; default one CPU of this node, where an SQLite
            ledger lies.

    Returns:
        The best: its configuration, as far as it is plain data, noisy score and model.

    Raises:
        InputError: the search space holds what cannot be drawn, or candidates is empty or names what the search space
            does not have; nothing is charged.
        DptuneError: as the selection in one process.
    """
    _refuse_other_names(param_space, candidates)
    settings = {"clip": clip, "secure": secure, "noise": noise}
    call = partial(select_here, PickledFunction(function), param_space, [*ledgers], candidates, settings)
    usual = {"num_cpus": 1, "scheduling_strategy": on_this_node()}
    return in_own_process(call, silent=True, options={**usual, **(options or {})})


def _refuse_other_names(param_space: Mapping[str, Any], candidates: Candidates) -> None:
    """Refuse, before anything is charged, candidates that name what the search space does not have."""
    domains_of(param_space)
    one_of(candidates)
    known = {path for path, _ in leaves(param_space)}
    if other := sorted({str(path) for each in candidates or () for path in flat(each)} - known):
        raise dptune.InputError(
            f"candidates name {', '.join(map(repr, other))}, which param_space does not have. Its names are "
            f"{', '.join(map(repr, sorted(known)))}. Nothing was charged."
        )


def select_here(
    function: PickledFunction,
    param_space: Mapping[str, Any],
    ledgers: Sequence[TrainingLedger],
    candidates: Candidates,
    settings: Mapping[str, Any],
) -> Selected:
    """Make all repeats in this process and discard its output: a line for each would reveal their number."""
    function.load()  # fails, if at all, before anything is charged

    def once() -> tuple[dict[str, Any], Any, Any]:
        config = drawn(param_space, candidates)
        model, losses = called_in_worker(function, config, tuple) or ()
        return nested(flat(config)), model, losses

    return _repeat_and_select(once, ledgers, **settings)


def drawn(param_space: Mapping[str, Any], candidates: Candidates) -> dict[str, Any]:
    """Return a configuration of the search space, at a random candidate if there are candidates."""
    config = resolve(domains_of(param_space), flat(one_of(candidates)), param_space, np.random.default_rng())
    merged: dict[str, Any] = merge_dicts(constants(param_space), config)
    return merged
