"""The privacy statement: what may be claimed, about whom, and what is not covered."""

from __future__ import annotations

import platform
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

from dptune._numbers import finite, rounded_up
from dptune._statement import Printable
from dptune.accounting.gdp import Budget, epsilon_from_mu, probability
from dptune.errors import LedgerError

NOT_COVERED = (
    "losses that do not depend on one person each: a function that lets one record decide whether it raises, how many "
    "losses it returns, or what another person's loss is",
    "the training data (train privately, and join both ledgers: dptune statement train.db val.db, docs/training.md)",
    "the choice of the search space, of the clipping bounds and of the settings, if made by looking at the data",
    "timing, memory use and other side channels",
    "other releases about the same people that this ledger did not see",
)
RAISED = (
    "The guarantee is that of the present budget, for all releases, if no released value could have led to a larger one"
)
TRAINED = (
    "The people who are trained on are NOT protected by this ledger but by a plan of trainings, under removing one "
    "person (add-or-remove) and not replace-one: join both, as `dptune statement train.db val.db` does, with "
    "--disjoint if nobody is in both. What a training raises is sealed. Assumed: how long it takes, which front ends "
    "record, says nothing about one person"
)
ACCOUNTANT = (
    "Gaussian differential privacy (Dong, Roth, Su 2022); adaptive composition mu^2 = sum of mu_t^2 with a "
    "filter {} (Smith & Thakurta, arXiv 2210.17520)"
)
_MISSING = "not installed as a package"
_ROUNDING = 1e-12  # of mu; the filter forgives half of it


def library_versions() -> dict[str, str]:
    """Return the versions of what the guarantee rests on."""
    found = {name: _version(name) for name in ("dptune", "opendp", "sqlalchemy", "numpy", "scipy", "dp-accounting")}
    if found["dp-accounting"] == _MISSING:  # plans of subsampled releases alone rest on it, and need it
        del found["dp-accounting"]
    return {"python": platform.python_version(), **found}


@cache  # every new ledger asks, and a version is looked for in a package's files
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return _MISSING


class LedgerStatement(Printable):
    """The part of a ledger's statement that does not depend on its rule."""

    dataset: str
    unit: str
    adjacency: str
    trust_model: str
    n: int | None
    delta: float
    mechanisms: tuple[tuple[str, int], ...]
    private: bool
    versions: dict[str, str]
    not_covered: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", probability("delta", self.delta))

    @property
    @abstractmethod
    def epsilon(self) -> float:
        """Epsilon at ``delta`` of everything that the ledger may spend; infinite if any noise was seeded."""

    @property
    @abstractmethod
    def accountant(self) -> str:
        """How epsilon was computed."""

    @property
    def noise(self) -> str:
        """How noise is drawn."""
        number = self.versions.get("opendp", "of an unknown version")
        unseeded = f"OpenDP {number}, discrete, unseeded, on a grid (no floating-point noise)"
        return unseeded if self.private else "A SEEDED GENERATOR"

    @property
    def unprotected(self) -> tuple[tuple[str, str], ...]:
        """Rows (name, text) of what no release protects, because the user said that it need not."""
        return ()

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """Rows (name, text) that belong to the numbers wherever these are shown."""
        return self.unprotected

    @property
    def caveats(self) -> tuple[str, ...]:
        """Warnings and remarks in sentences, for whoever shows the numbers without the statement."""
        return (*self.warnings, *(f"{name}: {text}." for name, text in self.remarks))

    @abstractmethod
    def _numbers(self) -> dict[str, object]:
        """Return what the ledger's rule promises, as JSON data."""

    @abstractmethod
    def _promises(self) -> list[tuple[str, str]]:
        """Return the rows that say the same to people."""

    @property
    def releases(self) -> int:
        """Number of charges so far."""
        return sum(count for _, count in self.mechanisms)

    @property
    def protects(self) -> str:
        """Who is protected, in words."""
        return f"{self.unit} in {self.dataset!r}" + (f", n = {self.n}" if self.n else "")

    def to_dict(self) -> dict[str, object]:
        """Return the statement as plain JSON data (an infinite epsilon is the string "infinity")."""
        return {
            "private": self.private,
            "warnings": list(self.warnings),
            "remarks": dict(self.remarks),
            "dataset": self.dataset,
            "unit": self.unit,
            "n": self.n,
            "adjacency": self.adjacency,
            "trust_model": self.trust_model,
            "accountant": self.accountant,
            "mechanisms": [{"mechanism": name, "releases": count} for name, count in self.mechanisms],
            "releases": self.releases,
            "delta": self.delta,
            **self._numbers(),
            "not_covered": list(self.not_covered),
            "versions": self.versions,
        }

    def _rows(self) -> list[tuple[str, str]]:
        return [
            ("Protects", self.protects),
            ("Adjacency", self.adjacency),
            ("Trust model", self.trust_model),
            *self._promises(),
            *self.remarks,
            ("Mechanisms", "; ".join(f"{name} ({count})" for name, count in self.mechanisms) or "none so far"),
            ("Accountant", self.accountant),
            ("Not covered", "; ".join(self.not_covered)),
            ("Versions", ", ".join(f"{name} {number}" for name, number in self.versions.items())),
        ]


@dataclass(frozen=True)
class Statement(LedgerStatement):
    """Everything a sceptical reader needs; print it, or use one of the three renderings.

    Attributes:
        spent_mu: odometer reading; the guarantee to report is the budget.
        delta: the delta at which epsilons are given.
        mechanisms: pairs (mechanism, number of charges).
        private: False if any noise was seeded; then nothing is guaranteed.
        versions: library versions when the ledger was created.
        raises: when the budget was raised, from what to what, as plain JSON data.
        failures: evaluations that failed; public, and no loss of privacy as long as no record decides about them.
        public: pairs (quantity, run): what trials show without a release, which is public by the user's word alone.
        trained: runs that the user said to train on private people, too.

    Raises:
        LedgerError: more was spent than the budget, so that the guarantee would be false.
    """

    dataset: str
    unit: str
    adjacency: str
    trust_model: str
    n: int | None
    budget: Budget
    spent_mu: float
    delta: float
    mechanisms: tuple[tuple[str, int], ...]
    private: bool
    versions: dict[str, str]
    failures: int = 0
    public: tuple[tuple[str, str], ...] = ()
    trained: tuple[str, ...] = ()
    raises: tuple[Mapping[str, Any], ...] = ()

    not_covered = NOT_COVERED

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.spent_mu > self.budget.mu * (1 + _ROUNDING):
            raise LedgerError(
                f"the ledger of {self.dataset!r} was changed from outside: its charges are mu = {self.spent_mu!r} in "
                f"all, more than its budget of mu = {self.budget.mu!r}. No guarantee holds; `dptune verify` holds it "
                "against a receipt."
            )

    @property
    def accountant(self) -> str:
        """How epsilon was computed."""
        return ACCOUNTANT.format("that was raised after it was fixed" if self.raises else "fixed in advance")

    @property
    def epsilon(self) -> float:
        """Epsilon of the budget at ``delta``; infinite if any noise was seeded."""
        return self.budget.epsilon(self.delta) if self.private else float("inf")

    @property
    def spent_epsilon(self) -> float:
        """Epsilon of what was spent so far at ``delta``; infinite if any noise was seeded."""
        return self._spent_epsilon(self.delta)

    def _spent_epsilon(self, delta: float) -> float:
        if not self.private:
            return float("inf")
        return epsilon_from_mu(self.spent_mu, delta) if self.spent_mu > 0 else 0.0

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader must see before the numbers."""
        found = []
        if not self.private:
            found.append("NOT PRIVATE: noise was drawn from a seeded generator (insecure_seed); epsilon = infinity.")
        delta = max(self.delta, self.budget.stated_delta or 0.0)
        if self.n is not None and delta >= 1 / self.n:
            found.append(f"delta = {delta:g} is not below 1/n = {1 / self.n:g}: choose a smaller delta.")
        return tuple(found)

    def _numbers(self) -> dict[str, object]:
        return {
            "failed_evaluations": self.failures,
            "private_trainings": list(self.trained),
            "declared_public": [{"quantity": quantity, "run": run} for quantity, run in self.public],
            "stated": self._stated(),
            "raises": list(self.raises),
            "budget": {"mu": self.budget.mu if self.private else "infinity", "epsilon": finite(self.epsilon)},
            "spent": {"mu": self.spent_mu if self.private else "infinity", "epsilon": finite(self.spent_epsilon)},
        }

    def _stated(self) -> dict[str, object] | None:
        """The (epsilon, delta) that the budget was made from, and what is spent of it; None if it was made from mu."""
        epsilon, delta = self.budget.stated_epsilon, self.budget.stated_delta
        if epsilon is None or delta is None:
            return None
        held = epsilon if self.private else float("inf")
        return {"epsilon": finite(held), "delta": delta, "spent_epsilon": finite(self._spent_epsilon(delta))}

    def _promises(self) -> list[tuple[str, str]]:
        return [
            *self._promise(),
            ("Guarantee", self._cost(self.budget.mu, self.epsilon)),
            ("Spent so far", f"{self._cost(self.spent_mu, self.spent_epsilon)} in {self.releases} releases"),
        ]

    @property
    def unprotected(self) -> tuple[tuple[str, str], ...]:
        """Rows (name, text): whom runs train on, and what trials show without a release."""
        shown = "; ".join(f"{quantity} (run {run!r})" for quantity, run in self.public)
        word = f"by the user's word alone, shown by trials without a release: {shown}"
        trained = f"private, in the runs {', '.join(map(repr, self.trained))}. {TRAINED}"
        return (*((("Training", trained),) if self.trained else ()), *((("Public", word),) if shown else ()))

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """Rows (name, text): when the budget was raised, failures, and what is unprotected."""
        acts = "; ".join(
            f"from mu = {rounded_up(each['from']['mu'])} at {each['at']}, after {each['releases']} releases"
            for each in self.raises
        )
        raised = (("Raised", f"{acts}. {RAISED}"),) if acts else ()
        failed = (("Failures", f"{self.failures} evaluations failed, for everybody"),) if self.failures else ()
        return (*raised, *failed, *self.unprotected)

    def _promise(self) -> list[tuple[str, str]]:
        epsilon, delta = self.budget.stated_epsilon, self.budget.stated_delta
        if epsilon is None or delta is None:
            return []
        if not self.private:
            return [("Promised", "NONE (epsilon = infinity)")]
        at = f"at delta = {rounded_up(delta, 6)}, as the budget was stated"
        spent = f"spent so far: epsilon = {rounded_up(self._spent_epsilon(delta))} at that delta"
        return [("Promised", f"epsilon = {rounded_up(epsilon, 6)} {at}; {spent}")]

    def _cost(self, mu: float, epsilon: float) -> str:
        if not self.private:
            return "NONE (epsilon = infinity)"
        return (
            f"mu = {rounded_up(mu)} GDP, that is epsilon = {rounded_up(epsilon)} at delta = {rounded_up(self.delta, 6)}"
        )
