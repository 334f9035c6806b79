"""A record for the public registry of deployments (registry.opendp.org, proposed to be hosted by NIST).

A ledger knows the guarantee, the mechanisms, the accounting, and how hyperparameters were tuned at which cost. The user
writes into a small TOML file (:class:`About`) who publishes what, and why.
"""

from __future__ import annotations

import datetime
import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from dptune._checks import shown, text
from dptune._numbers import rounded_up
from dptune._statement import Statement, counted
from dptune.errors import InputError
from dptune.ledger.gdp import Budget
from dptune.ledger.plan_ledger import TRUSTED_SERVER
from dptune.ledger.risk import Risk
from dptune.ledger.statement import BudgetStatement

CHOICES = {
    "curator_type": ("Government", "Industry", "Nonprofit"),
    "product_type": (
        "Summary statistics",
        "Machine learning model",
        "Dataset",
        "Synthetic data",
        "Interactive API",
        "SQL queries",
    ),
    "sector": ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance"),
}


@dataclass(frozen=True, kw_only=True)
class About:
    """Facts about a deployment that a ledger cannot know.

    Attributes:
        name: of what is published.
        curator: who publishes it.
        curator_type: "Government", "Industry" or "Nonprofit".
        description: what it is, in a sentence.
        intended_use: what it is for.
        region: which the data describe, or whose law applies.
        sector: "Technology", "Healthcare", "Education", "Government", "Energy" or "Finance".
        publication_date: YYYY-MM-DD; a date in TOML.
        authors: who writes the record.
        preparation: how the rows were prepared, and how search space, clipping bounds and settings were chosen.
        justification: why this budget and this unit.
        product_type: one of the registry's types.
        utility: how good the result is, if that is known.

    Raises:
        InputError: an entry is missing, empty, unknown or not one of the registry's.
    """

    name: str
    curator: str
    curator_type: str
    description: str
    intended_use: str
    region: str
    sector: str
    publication_date: str | datetime.date
    authors: Sequence[str]
    preparation: str
    justification: str
    product_type: str = "Machine learning model"
    utility: str = "not stated"

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise InputError(f"{name} must be one of {', '.join(allowed)}; got {shown(getattr(self, name))}.")
        if not (isinstance(self.authors, Sequence) and self.authors and not isinstance(self.authors, str)):
            raise InputError(f'authors must be a list of names, e.g. ["Ann Lee"]; got {shown(self.authors)}.')
        try:
            date = datetime.date.fromisoformat(str(self.publication_date))
        except ValueError:
            published = shown(self.publication_date)
            raise InputError(f"publication_date must be a date, e.g. 2026-11-22; got {published}.") from None
        object.__setattr__(self, "publication_date", date.isoformat())
        for each in fields(self):
            if each.name != "authors":
                text(each.name, getattr(self, each.name))

    @classmethod
    def read(cls, path: str | Path) -> About:
        """Read a TOML file with an entry for each attribute.

        Raises:
            InputError: it cannot be read, or an entry is missing, unknown or wrong.
        """
        try:
            table = tomllib.loads(Path(path).read_text())
        except (OSError, ValueError) as error:
            raise InputError(
                f"{path} cannot be read as TOML: {error}. A file about the project is wanted, such as "
                "examples/about.toml of dptune's repository."
            ) from None
        names = {each.name for each in fields(cls)}
        wrong = [f"it lacks {name}" for name in sorted(names - table.keys() - {"product_type", "utility"})]
        wrong += [f"it has an unknown entry {name}" for name in sorted(table.keys() - names)]
        if wrong:
            raise InputError(f"{path} does not say what the registry asks: {'; '.join(wrong)}.")
        return cls(**table)


def record(statement: Statement, project: About) -> dict[str, Any]:
    """Return the registry's record of a deployment, as plain data of its schema.

    Raises:
        InputError: the ledger holds seeded noise, or no epsilon is finite: nothing can be registered.
    """
    if not math.isfinite(statement.epsilon) and statement.private:
        raise InputError(f"no finite epsilon is known at delta = {statement.delta:g}. Give a larger delta.")
    if not statement.private:
        raise InputError("this ledger was charged with seeded noise: it promises nothing that could be registered.")
    return {
        "url_slug": "-".join("".join(c if c.isalnum() else " " for c in project.name.lower()).split()),
        "deployment": {
            "basic": _basic(project),
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": f"Data sets that hold records of: {statement.protects}.",
                "unprotected_quantities": "The number of units, the search space, the clipping bounds, the "
                "configurations that were tried, and how many evaluations failed."
                + "".join(f" {name}: {said}." for name, said in statement.unprotected),
            },
            "privacy_loss": _privacy_loss(statement),
            "deployment_model": {
                "model_name": "Federated" if statement.trust_model == TRUSTED_SERVER else "Central",
                "trust_assumptions": f"{statement.trust_model}.",
                "actors": "The curator, who holds the rows and the ledger; everybody who sees released values or the "
                "configuration that was chosen from them, who may be an adversary with any outside knowledge.",
                "release_type": "One release",
                "release_type_details": f"{statement.releases} noisy answer{'s' * (statement.releases != 1)} and "
                "what was chosen from them, within a budget that the ledger enforces and never refunds.",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "implementation": _implementation(statement, project),
            "administrative": {"status": "Draft", "registry_authors": list(project.authors), "tier": 3},
        },
    }


def _basic(project: About) -> dict[str, Any]:
    return {
        "name": project.name,
        "data_curators": [{"data_curator_name": project.curator, "data_curator_type": project.curator_type}],
        "description": project.description,
        "intended_use": project.intended_use,
        "data_product_type": project.product_type,
        "data_product_region": project.region,
        "data_product_sector": project.sector,
        "publication_date": project.publication_date,
    }


def _privacy_loss(statement: Statement) -> dict[str, Any]:
    units = {} if statement.n is None else {"number_of_privacy_units": statement.n}
    budget = ""
    if isinstance(statement, BudgetStatement):
        mu, spent = statement.exposure.gdp, rounded_up(statement.spent_mu)
        sharper = statement.epsilon < Budget.gdp(mu).epsilon(statement.delta) * (1 - 1e-6)
        than = ", less sharply than the parameters above" if sharper else ""
        budget = (
            f"All releases are within mu = {rounded_up(mu)} in Gaussian differential privacy, which bounds epsilon at "
            f"every delta{than}; mu = {spent} of it was spent. "
        )
    return {
        "privacy_unit": statement.unit,
        "privacy_unit_details": f"Neighbouring data sets: {statement.adjacency}.",
        **units,
        "privacy_parameters": {"epsilon": float(rounded_up(statement.epsilon, 6)), "delta": statement.delta},
        "privacy_parameters_details": " ".join([*statement.caveats, f"{budget}{Risk.of_statement(statement)}"]),
    }


def _implementation(statement: Statement, project: About) -> dict[str, Any]:
    used = "; ".join(f"{name} ({counted(count)})" for name, count in statement.mechanisms) or "none so far"
    epsilon = rounded_up(statement.epsilon)
    delta = rounded_up(statement.delta, 6)
    return {
        "preprocessing_and_hyperparameter_tuning": f"Hyperparameters were tuned under differential privacy, and the "
        f"tuning is accounted for in full: the ledger's {counted(statement.releases)}, and what was "
        f"chosen from them, cost together at most epsilon = {epsilon} at delta = {delta}, the parameters above. Each "
        f"was charged durably before private rows were read for it. Preparation and settings: {project.preparation}",
        "mechanisms": f"{used}. Noise: {statement.noise}. Software: dptune {statement.versions.get('dptune', '')}. "
        "No measure against timing and other side channels.",
        "composition": f"{statement.accountant}.",
        "post_processing": "Proposing configurations, models of the loss, recommendations and intervals are computed "
        "from released values only.",
        "justification": project.justification,
        "utility": project.utility,
        "additional_information": f"Not covered: {'; '.join(statement.uncovered)}.",
    }


def to_yaml(data: Mapping[str, Any]) -> str:
    """Return a record as YAML. Texts are quoted as in JSON, and numbers have a point: YAML reads both."""
    return "\n".join(_lines(data, "")) + "\n"


def _lines(data: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield f"{indent}{name}:"
            yield from _lines(value, indent + "  ")
        else:
            plain = json.dumps(value, ensure_ascii=False)
            with_point = plain.replace("e", ".0e") if isinstance(value, float) and "." not in plain else plain
            yield f"{indent}{name}: {with_point}"
