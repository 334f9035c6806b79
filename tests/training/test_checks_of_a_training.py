"""The checks of a training with Opacus, on stand-ins for PyTorch and Opacus, which need not be installed."""

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dptune import InputError, PlanComplete, PrivacyError
from dptune.training import Repeats, SelectionPlan, TrainingLedger, TrainingPlan

PLAN = TrainingPlan(noise_multiplier=1.5, sample_rate=0.25, steps=3, trainings=2)


class DPOptimizer:
    """Opacus's, as far as it is read: each step calls the hook first."""

    def __init__(self) -> None:
        self.noise_multiplier, self.max_grad_norm, self.generator, self.secure_mode = 1.5, 1.0, None, False
        self.accumulated_iterations, self.steps = 1, 0
        self.step_hook: Any = None

    def attach_step_hook(self, hook: Any) -> None:
        self.step_hook = hook

    def step(self) -> None:
        self.step_hook(self)
        self.steps += 1


class UniformWithReplacementSampler:
    """Opacus's, as far as it is read."""

    def __init__(self) -> None:
        self.num_samples, self.sample_rate, self.generator = 40, 0.25, None


class DPDataLoader:
    """Opacus's, as far as it is read."""

    def __init__(self) -> None:
        self.batch_sampler, self.dataset = UniformWithReplacementSampler(), range(40)


class Seeded:
    """A generator that has a seed."""

    def initial_seed(self) -> int:
        return 3


class Csprng:
    """A generator that has none."""

    def initial_seed(self) -> int:
        raise RuntimeError("not implemented")


SEEDS = SimpleNamespace(now=0)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module, imported on the stand-ins; PyTorch's seed is what the operating system gave, 7."""
    parts: dict[str, dict[str, Any]] = {
        "torch": {"seed": lambda: setattr(SEEDS, "now", 7) or 7, "initial_seed": lambda: SEEDS.now},
        "opacus": {},
        "opacus.data_loader": {"DPDataLoader": DPDataLoader},
        "opacus.optimizers": {"DPOptimizer": DPOptimizer},
        "opacus.utils": {},
        "opacus.utils.uniform_sampler": {"UniformWithReplacementSampler": UniformWithReplacementSampler},
    }
    for name, members in parts.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)
    name = "dptune.training.opacus"
    kept = sys.modules.pop(name, None)
    yield importlib.import_module(name)
    del sys.modules[name]
    if kept is not None:
        sys.modules[name] = kept


@pytest.fixture
def trained(fast_path: Path) -> TrainingLedger:
    return TrainingLedger(fast_path / "train.db", PLAN, n=40)


def changed(**change: Any) -> tuple[DPOptimizer, DPDataLoader]:
    """Return what Opacus makes, with other attributes: of the sampler those whose names begin so."""
    optimizer, loader = DPOptimizer(), DPDataLoader()
    for name, value in change.items():
        at: Any = loader.batch_sampler if name.startswith("sampler_") else optimizer
        setattr(at, name.removeprefix("sampler_"), value)
    return optimizer, loader


AGREE = "the {} is {}, above {}, which is what the plan and the training agree on."
SECURE = "secure_mode is on, but noise or samples come from a generator with a seed, not torchcsprng's."
OWN = "a generator of your own (noise_generator=) may be seeded: leave it out, or use secure_mode."
ROWS = "the ledger protects n = 40 people, the loader has {} rows, and its sampler draws from {}."
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"sampler_sample_rate": 0.26}, AGREE.format("sampling rate", 0.26, 0.25)),
    ({"noise_multiplier": 1.4}, AGREE.format("planned noise multiplier", 1.5, 1.4)),
    ({"sampler_num_samples": 41}, ROWS.format(40, 41)),
    ({"max_grad_norm": 0.0}, "max_grad_norm must be positive: without clipping one person's gradient has no bound."),
    ({"generator": Seeded()}, OWN),
    ({"sampler_generator": Csprng()}, OWN),
    ({"secure_mode": True}, SECURE),
    ({"secure_mode": True, "generator": Csprng(), "sampler_generator": Seeded()}, SECURE),
    ({"secure_mode": True, "generator": Seeded(), "sampler_generator": Csprng()}, SECURE),
]


def test_what_deviates_from_the_plan_is_refused_with_its_numbers(checks: Any, trained: TrainingLedger) -> None:
    def refusal(optimizer: Any, loader: Any) -> str:
        with pytest.raises(InputError) as said, checks.training(trained, optimizer, loader):
            pass
        return str(said.value)

    for change, text in REFUSED:
        assert refusal(*changed(**change)) == text
    plain, (optimizer, loader) = type("Adam", (), {})(), changed()
    assert refusal(plain, loader) == (
        "the optimizer must be Opacus's DPOptimizer (flat clipping), got Adam: wrap it with "
        'PrivacyEngine.make_private(..., clipping="flat").'
    )
    assert refusal(optimizer, [loader]).startswith(
        "batches must be Poisson samples: use the loader that PrivacyEngine.make_private(poisson_sampling=True) re"
    )
    loader.dataset = range(39)
    assert refusal(optimizer, loader) == ROWS.format(39, 40)
    assert trained.count() == 0


def test_a_training_within_its_plan_is_charged_and_stopped_after_it(checks: Any, trained: TrainingLedger) -> None:
    optimizer, loader = changed(noise_multiplier=1.6, sampler_sample_rate=0.25 * (1 + 1e-10))
    theirs: list[object] = []
    optimizer.step_hook = theirs.append
    with checks.training(trained, optimizer, loader, note={"rate": 0.1}):
        assert trained.charges()[0].note == {"rate": 0.1, "ordinary generator": True}
        for _ in range(3):
            optimizer.step()
        with pytest.raises(PlanComplete, match=r"^this training has 3 steps by its plan; one more is refused\.$"):
            optimizer.step()
    with pytest.raises(PrivacyError, match=r"^this training has ended: a further step is not in its plan\.$"):
        optimizer.step()
    assert (optimizer.steps, theirs) == (3, [optimizer] * 3)
    secure = changed(secure_mode=True, generator=Csprng(), sampler_generator=Csprng())
    with checks.training(trained, *secure):
        secure[0].step()
    assert trained.charges()[1].note == {}


def test_a_step_after_a_change_is_refused(checks: Any, trained: TrainingLedger) -> None:
    seeded = "PyTorch was seeded during a private training: the seed reveals the noise."
    several = "gradients of several Poisson samples were added up in one step, which is not planned."
    since = f"the training has changed since it began: {AGREE.format('planned noise multiplier', 1.5, 0.5)}"
    for name, value, text in (
        ("accumulated_iterations", 2, several),
        ("noise_multiplier", 0.5, since),
        ("", 3, seeded),
    ):
        optimizer, loader = changed()
        with checks.watched(PLAN, 40, optimizer, loader):
            optimizer.step()
            setattr(optimizer, name, value) if name else setattr(SEEDS, "now", value)
            with pytest.raises(PrivacyError, match=f"^{re.escape(text)}$"):
                optimizer.step()
        assert optimizer.steps == 1
    assert trained.count() == 0


def test_a_ledger_of_a_selection_has_no_training_of_its_own(checks: Any, fast_path: Path) -> None:
    ledger = TrainingLedger(fast_path / "s.db", SelectionPlan(Repeats.geometric(3), score_mu=0.5), n=40)
    said = r"^this ledger plans a selection: use watched\(\) inside repeat_and_select\.$"
    with pytest.raises(InputError, match=said), checks.training(ledger, *changed()):
        pass
