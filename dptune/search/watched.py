"""A run as its ledger tells it, for whoever has nothing else: what it recommends now, and how sure that is.

A run's state is a fold over the answers in its ledger (:mod:`dptune.search.learned`), and its plan and search space are
facts of the ledger. So anybody may work out the recommendation from released values and public facts: this costs
nothing, reads no private row, and asks nothing. ::

    watched = Watched.found(PrivacyLedger("ledger.db"), "svm")
    print(watched.so_far())
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dptune.accounting.ledger import PrivacyLedger
from dptune.algorithms.centred_plan import CENTRED
from dptune.algorithms.gibo_plan import GIBO
from dptune.algorithms.method import Method, Plan
from dptune.algorithms.one_choice import SELECTION
from dptune.privacy.privatizer import LossPrivatizer
from dptune.search.agreement import PRIVATIZER, described, stored_plan, stored_space
from dptune.search.shown import Shown
from dptune.search.values import VALUES
from dptune.space import Space, Value

METHODS = {method.name: method for method in (CENTRED, GIBO, SELECTION, VALUES)}


class Watched(Shown):
    """The part of a run that only looks, made from the ledger; see :meth:`dptune.search.shown.Shown.so_far`.

    Args:
        method: of the run.
        privatizer: one without losses, for the ledger and the public facts about the people.
        scope: the run's name.
        plan: of the run.
        space: as it was when the run began; None for released values.
    """

    def __init__(self, method: Method, privatizer: LossPrivatizer, scope: str, plan: Plan, space: Space | None) -> None:
        self.method, self.privatizer, self.scope, self.plan, self._began = method, privatizer, scope, plan, space
        point = getattr(plan.settings, "default", None)
        self.default = None if point is None or space is None else _active(space, space.decode(np.array(point)))
        self._look()

    @classmethod
    def found(cls, ledger: PrivacyLedger, scope: str) -> Watched | None:
        """Return the run of this name.

        None for a method or a setting of the user's own, for a plan of a version that had other settings, and for what
        is not a run.
        """
        stored, people = stored_plan(ledger, scope), ledger.fact(scope, PRIVATIZER)
        if stored is None or not isinstance(people, dict) or (method := METHODS.get(stored["algorithm"])) is None:
            return None
        space = stored_space(ledger, scope)
        plan = _plan(method, stored, space)
        if plan is None or described(plan, space, stored.get("start_from")) != stored:
            return None
        return cls(method, LossPrivatizer(ledger, n=people["n"], clip=tuple(people["clip"])), scope, plan, space)


def _plan(method: Method, stored: Mapping[str, Any], space: Space | None) -> Plan | None:
    try:
        settings = None if method.restored is None else method.restored(stored["settings"], space)
        return None if settings is None else Plan.from_description(stored, settings)
    except (KeyError, TypeError):  # another version's
        return None


def _active(space: Space, parameters: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in parameters.items() if space.active(name, parameters)}
