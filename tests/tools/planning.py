"""Plans for public facts that most tests do not depend on."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from dptune.search import PublicFacts, RunPlan

FACTS = {"d": 2, "n": 300, "loss_range": 1.0, "mu": 1.0}


def planned(planner: Callable[..., RunPlan], **given: Any) -> RunPlan:
    """Return the plan for these facts and settings."""
    facts = {each.name for each in fields(PublicFacts)}
    known = {**FACTS, **{name: value for name, value in given.items() if name in facts}}
    return planner(PublicFacts(**known), **{name: value for name, value in given.items() if name not in facts})
