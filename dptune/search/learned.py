"""What a run has learned from its ledger: the state of its algorithm, and the search space as it is by now.

The ledger is a run's only memory. An algorithm's state is a fold over the answers in it, so a restart, a second process
or a copy comes to the same state. ::

    learned = Learned(CENTRED, privatizer, "svm", plan, space)
    learned.sync()                      # reads what is new
    learned.algorithm.ask(0)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dptune.accounting.ledger import Charge
from dptune.algorithms.method import Method, Plan
from dptune.algorithms.rounds import Rounds
from dptune.privacy.privatizer import LossPrivatizer
from dptune.search.history import History
from dptune.space import Space


class Learned:
    """The fold of one scope's answers, and of those that its run starts from.

    Attributes:
        algorithm: in the state that the answers lead to.
        history: the charges that were read.
        space: search space, with the parameters that have joined it; None where another searcher proposes.
        asked: points of the present round that this process has asked for.
    """

    def __init__(
        self,
        method: Method,
        privatizer: LossPrivatizer,
        scope: str,
        plan: Plan,
        space: Space | None,
        earlier: Sequence[Charge] = (),
    ) -> None:
        self._method, self._scope, self._began = method, scope, space
        self.algorithm: Rounds = method.algorithm(plan.settings)
        self.history = History(privatizer, scope, earlier)
        self.space = space
        self.asked = 0

    def sync(self, *, write: bool = False) -> bool:
        """Learn what the ledger holds and this process does not know; return whether there was any such thing.

        An answer that was recorded late changes what came after it: then all are learned again, in their order.

        Args:
            write: whether to make sure that the ledger can be written.
        """
        news = self.history.read(write=write)
        if news.rewrites:
            self.algorithm = self.algorithm.restarted()
        for charge in news.charges:
            self.learn(charge, own=charge.seq in news.drawn)
        return bool(news.charges)

    def learn(self, charge: Charge, *, own: bool) -> None:
        """Learn one answer.

        Args:
            charge: of a question of the algorithm.
            own: whether this process drew its noise.
        """
        if self.space is not None and "space" in charge.note:
            self.join(Space.from_description(charge.note["space"]).joined(self.space))
        self.history.add(charge)
        self.asked = 0
        answer = None if charge.value is None else np.array(charge.value)
        sigma = float(charge.description["sigma"])
        if charge.scope == self._scope:
            self.algorithm.learn(charge.key, charge.note, answer, sigma, own=own)
        else:
            self.algorithm.recall(charge.key, charge.note, answer, sigma)

    def join(self, space: Space) -> None:
        """Search a wider space from now on; earlier points lie in it, with the new parameters inactive."""
        if self.space is None or self._method.joined is None or space == self.space:
            return
        self.algorithm = self._method.joined(self.algorithm, space, now=self.space, began=self._began)
        self.space = space
        for charge in self.history.learned:
            self.learn(charge, own=False)

    def space_note(self) -> dict[str, object]:
        """Return where the points of a question lie, if parameters have joined the space of the plan."""
        return {} if self.space is None or self.space == self._began else {"space": self.space.describe()}
