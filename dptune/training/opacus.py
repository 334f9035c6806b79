"""Trainings with Opacus, compared with their plan step by step.

Example::

    model, optimizer, loader = PrivacyEngine().make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=3.0, max_grad_norm=1.0
    )
    with training(ledger, optimizer, loader, note={"rate": 0.1}):     # charged here
        for x, y in loader: ...

Guarantee: the ledger's :class:`TrainingPlan`, by dptune's own accounting; Opacus's ``get_epsilon`` is not used. Checked
are Poisson sampling and its rate, the number of rows, flat clipping, noise, and number of steps. With ``secure_mode``,
noise and samples must come from a generator without a seed. Otherwise PyTorch's own must keep the seed that it gets
here from the operating system. The code's use of a batch is not checked. The wrapped model must get the rows from the
loader unchanged, one gradient per person, and no statistics of the data. A batch is for one step only
(``signal_skip_step`` is for parts of one batch, with ``BatchMemoryManager``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from opacus.data_loader import DPDataLoader
from opacus.optimizers import DPOptimizer
from opacus.utils.uniform_sampler import UniformWithReplacementSampler

from dptune.errors import InputError, PlanComplete, PrivacyError
from dptune.training.ledger import TrainingLedger
from dptune.training.plans import TrainingPlan

_ROUNDING = 1e-9


@contextmanager
def training(
    ledger: TrainingLedger, optimizer: DPOptimizer, loader: DPDataLoader, *, note: Mapping[str, object] | None = None
) -> Iterator[None]:
    """Charge one training of the ledger's plan, and stop it at the first step that is not planned.

    Args:
        ledger: of the people who are trained on; its n must be the number of rows.
        optimizer, loader: as ``PrivacyEngine.make_private`` returned them, not yet used.
        note: public JSON data to keep with the charge, such as the hyperparameters.

    Raises:
        InputError: they are not what was planned; nothing is charged.
        PlanComplete: all trainings were begun; or, at a step, the training has more steps than planned.
        PrivacyError: at a step, noise, rate or seed have changed since. The step is not made.
    """
    plan = ledger.plan
    if not isinstance(plan, TrainingPlan):
        raise InputError("this ledger plans a selection: use watched() inside repeat_and_select.")
    _check(plan, ledger.n, optimizer, loader)
    ledger.begin(secure=optimizer.secure_mode, note=note)
    with watched(plan, ledger.n, optimizer, loader):
        yield


@contextmanager
def watched(plan: TrainingPlan, n: int | None, optimizer: DPOptimizer, loader: DPDataLoader) -> Iterator[None]:
    """Check one training against its plan without a charge, for a repeat of :func:`repeat_and_select`."""
    _check(plan, n, optimizer, loader)
    seed = None if optimizer.secure_mode else torch.seed()  # from the operating system, whatever seed the user set
    theirs = optimizer.step_hook
    made = 0

    def at_step(stepping: DPOptimizer) -> None:
        nonlocal made
        made += 1
        if made > plan.steps:
            raise PlanComplete(f"this training has {plan.steps} steps by its plan; one more is refused.")
        _check_step(plan, n, stepping, loader, seed)
        if theirs is not None:
            theirs(stepping)

    optimizer.attach_step_hook(at_step)
    try:
        yield
    finally:
        optimizer.attach_step_hook(_ended)


def _ended(_: DPOptimizer) -> None:
    raise PrivacyError("this training has ended: a further step is not in its plan.")


def _check_step(
    plan: TrainingPlan, n: int | None, optimizer: DPOptimizer, loader: DPDataLoader, seed: int | None
) -> None:
    """Refuse a step that deviates from the plan, before it changes the model."""
    try:
        _check(plan, n, optimizer, loader)
    except InputError as error:
        raise PrivacyError(f"the training has changed since it began: {error}") from None
    if seed is not None and torch.initial_seed() != seed:
        raise PrivacyError("PyTorch was seeded during a private training: the seed reveals the noise.")
    if optimizer.accumulated_iterations != 1:
        raise PrivacyError("gradients of several Poisson samples were added up in one step, which is not planned.")


def _check(plan: TrainingPlan, n: int | None, optimizer: Any, loader: Any) -> None:
    """Refuse a training that deviates from its plan."""
    if type(optimizer) is not DPOptimizer:
        raise InputError(
            f"the optimizer must be Opacus's DPOptimizer (flat clipping), got {type(optimizer).__name__}: wrap it with "
            'PrivacyEngine.make_private(..., clipping="flat").'
        )
    sampler: Any = getattr(loader, "batch_sampler", None)
    if not isinstance(loader, DPDataLoader) or type(sampler) is not UniformWithReplacementSampler:
        raise InputError(
            "batches must be Poisson samples: use the loader that PrivacyEngine.make_private(poisson_sampling=True) "
            "returned. Shuffled batches are not amplified by sampling, whatever the engine's epsilon says."
        )
    if n != sampler.num_samples or n != len(loader.dataset):
        raise InputError(
            f"the ledger protects n = {n} people, the loader has {len(loader.dataset)} rows, and its sampler draws "
            f"from {sampler.num_samples}."
        )
    _at_most("sampling rate", float(sampler.sample_rate), plan.sample_rate)
    _at_most("planned noise multiplier", plan.noise_multiplier, float(optimizer.noise_multiplier))
    if not optimizer.max_grad_norm > 0:
        raise InputError("max_grad_norm must be positive: without clipping one person's gradient has no bound.")
    generators = (optimizer.generator, sampler.generator)
    if optimizer.secure_mode and any(generator is None or _has_seed(generator) for generator in generators):
        raise InputError(
            "secure_mode is on, but noise or samples come from a generator with a seed, not torchcsprng's."
        )
    if not optimizer.secure_mode and any(generator is not None for generator in generators):
        raise InputError("a generator of your own (noise_generator=) may be seeded: leave it out, or use secure_mode.")


def _has_seed(generator: Any) -> bool:
    """Return whether a generator has a seed; torchcsprng's, which reads /dev/urandom, raises instead."""
    try:
        generator.initial_seed()
    except RuntimeError:
        return False
    return True


def _at_most(name: str, value: float, most: float) -> None:
    if value > most * (1 + _ROUNDING):
        raise InputError(f"the {name} is {value:g}, above {most:g}, which is what the plan and the training agree on.")
