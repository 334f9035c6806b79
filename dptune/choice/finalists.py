"""The models of finalists, one in memory at a time: each leaves when it was asked, and the chosen one returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from dptune.choice.averages import BASE, Group, averaged
from dptune.choice.kept_models import KeptModels
from dptune.choice.workers import told
from dptune.losses.named import NamedLoss
from dptune.privacy.observed import Losses


class Finalists:
    """Trains finalists, and asks each before the next one is trained.

    Args:
        train: places of configurations -> their models in this order; of a failed training its exception.
        groups: the configurations of each candidate, and their weights.
        loss: what averages are for.
        lasting: whether ``train`` returns the same model again, such as that of a checkpoint.
    """

    def __init__(
        self,
        train: Callable[[Sequence[int]], Iterable[Any]],
        groups: Sequence[Group],
        loss: NamedLoss,
        *,
        lasting: bool,
    ) -> None:
        self._train, self._groups, self._loss = train, groups, loss
        self._lasting, self._kept, self._failed = lasting, KeptModels(), list[str]()
        self._member = lru_cache(BASE + 1)(self._single)  # averages of single configurations share BASE members

    def asked(self, places: Sequence[int], ask: Callable[[Any], Losses | None]) -> Iterator[tuple[int, Losses | None]]:
        """Yield each place and its private losses; None where the training failed, which is public."""
        averages = [place for place in places if len(self._groups[place]) > 1]
        alone = {j: place for place in places if place not in averages for j in self._groups[place]}
        others = () if self._lasting else (j for place in averages for j in self._groups[place])
        singles = list(dict.fromkeys((*alone, *others)))
        models = iter(self._train(singles)) if singles else iter(())
        for j in singles:
            losses = self._next(j, models, ask if j in alone else None)
            if j in alone:
                yield alone[j], losses
        for place in averages:
            yield place, self._losses(self.model(place), ask)

    def model(self, place: int) -> Any:
        """Return a candidate's model, or the exception of its training."""
        group = self._groups[place]
        return averaged([self._member(j) for j in group], list(group.values()), self._loss)

    def warn_of_failures(self, warn: Callable[[str], object]) -> None:
        """Print a public line if finalists failed."""
        if self._failed:
            warn(f"{len(self._failed)} finalists failed on public rows and drop out: {self._failed[0]}")

    def _single(self, j: int) -> Any:
        if j in self._kept:
            return self._kept.get(j)
        (model,) = self._train([j])
        return model

    def _next(self, j: int, models: Iterator[Any], ask: Callable[[Any], Losses | None] | None) -> Any:
        """Train, keep and ask one model, which no name holds afterwards."""
        model = next(models)
        if isinstance(model, Exception):
            self._failed.append(told(model))
        if not self._lasting:
            self._kept.put(j, model)
        return None if ask is None else self._losses(model, ask)

    @staticmethod
    def _losses(model: Any, ask: Callable[[Any], Losses | None]) -> Losses | None:
        return None if isinstance(model, Exception) else ask(model)
