"""The loop of a search that trains itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from dptune._checks import function
from dptune.errors import AllTrialsFailed, PlanComplete, TrialFailed
from dptune.privacy.privatizer import Losses
from dptune.search.run import SearchRun

Train = Callable[[Sequence[Mapping[str, Any]]], Iterable[Losses | None]]
Propose = Callable[[str], Mapping[str, Any]]
Tell = Callable[[str, float | None], object]


def drive(run: SearchRun, train: Train, *, ask: Propose | None = None, tell: Tell | None = None) -> None:
    """Try points, a round at a time, until the run is complete.

    A trial that fails counts as the worst loss and the search continues; it costs nothing until one trial has
    succeeded.

    Args:
        run: a new one, or one that is resumed.
        train: points of one round -> for each, in order, its per-example losses (rows,), or None if it failed.
        ask: a trial's name -> the point to try, where another searcher proposes; default the run itself does.
        tell: is given a trial's name and what is released about it; None: it failed, and nothing was released.

    Raises:
        BudgetExhausted: the ledger has not that much left; before a model is trained.
        AllTrialsFailed: as many trials as a round has, and at least four, failed at the very beginning.
        InputError: ``train`` is not a function, or the losses have the wrong shape; nothing was read or spent.

    Example:
        >>> space = dptune.Space({"C": dptune.Float(1e-3, 1e3, log=True)})
        >>> run = dptune.SearchRun(dptune.CENTRED, privatizer, scope="svm", space=space, trials=100)  # doctest: +SKIP
        >>> dptune.search.drive(run, lambda points: map(losses, points))  # doctest: +SKIP
    """
    train = function("train", train)
    ask = function("ask", ask or (lambda name: run.ask(trial=name)))
    tell = function("tell", tell or (lambda name, value: None))
    try:
        while not run.complete:
            _round(run, train, ask, tell)
    except PlanComplete:  # another process was first to complete it
        return


def _round(run: SearchRun, train: Train, ask: Propose, tell: Tell) -> None:
    points = {}
    for _ in range(max(run.algorithm.missing(), 1)):
        run.check(name := uuid4().hex)
        points[name] = ask(name)
    done = list(zip(points.items(), train(list(points.values())), strict=True))
    for (name, point), losses in sorted(done, key=lambda one: one[1] is None):  # failures count once one has succeeded
        try:
            value = run.finish(name, point, losses)
        except AllTrialsFailed:
            raise
        except TrialFailed:
            value = None
        tell(name, value)
