"""The contract of places: what every kind of them passes, in process, in Ray and in Flower."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dptune
from dptune.choice import Report
from dptune.errors import PlaceUnavailable
from dptune.privacy.places import Answer
from noises import NoNoise

SIZES = (40, 1, 73, 20, 66)
RNG = np.random.default_rng(0)
Rows = tuple[np.ndarray, np.ndarray]
Parts = dict[str, tuple[Rows, Any]]  # name -> rows and groups


class Line:
    """A model of two classes without scikit-learn; it refuses rows of another number of columns."""

    classes_ = np.array([0, 1])
    n_features_in_ = 3

    def __init__(self, slope: float) -> None:
        self.slope = slope

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        print("asked")
        p = 1 / (1 + np.exp(-self.slope * X.sum(axis=1)))
        return np.column_stack([1 - p, p])


def rows(n: int) -> Rows:
    X = RNG.normal(size=(n, 3)).round(2)
    return X, (X.sum(axis=1) + RNG.normal(size=n) > 0).astype(int)


PUBLIC = rows(60)
WHOLE = rows(sum(SIZES))
GROUPS = np.arange(sum(SIZES)) // 2  # nobody is at two places: 40, 1, ... leave a person alone
ENDS = np.cumsum(SIZES)
PARTS: Parts = {
    f"place {k}": ((WHOLE[0][end - n : end].copy(), WHOLE[1][end - n : end].copy()), None)
    for k, (n, end) in enumerate(zip(SIZES, ENDS, strict=True))
}
MODELS = [Line(slope) for slope in (0.0, 0.5, 1.0, 2.0, -1.0)]
LOSSES = RNG.uniform(0.4, 0.6, size=(len(MODELS), 60))
SCORES = MODELS[2].predict_proba(PUBLIC[0])


def privatizer(folder: Path, data: Any, noise: Any = None) -> dptune.LossPrivatizer:
    folder.mkdir(parents=True, exist_ok=True)
    ledger = dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(4.0))
    people: Any = {"places": data} if isinstance(data, dptune.Places) else {"n": len(data[1])}
    return dptune.LossPrivatizer(ledger, noise=noise, clip=(0.0, 3.0), **people)


def choice(p: dptune.LossPrivatizer, data: Any, models: Sequence[Any] = MODELS) -> dptune.Selection:
    return dptune.select(
        models, p, data=data, loss="log_loss", public_losses=LOSSES, default_place=0, mu=1.0, even_if_hopeless=True
    )


def single(p: dptune.LossPrivatizer, data: Any) -> dptune.Selection:
    return dptune.select(MODELS, p, data=data, loss="log_loss", name="single", mu=1.0, estimate_share=0.2)


def report(p: dptune.LossPrivatizer, data: Any, **by: Any) -> Report:
    return dptune.report(MODELS[2], p, data=data, public=PUBLIC, scores=SCORES, mu=1.0, name=f"report {len(by)}", **by)


FLOWS: dict[str, Callable[[dptune.LossPrivatizer, Any], Any]] = {"choice": choice, "single": single, "report": report}


def same_release_as_one_place(make: Callable[[Parts], dptune.Places], folder: Path) -> None:
    """Choice, estimate and table of several places are those of one, to the last bit."""
    said = []
    for k, data in enumerate((WHOLE, make(PARTS))):
        noise = NoNoise()
        p = privatizer(folder / str(k), data, noise)
        answers = [flow(p, data) for flow in FLOWS.values()]
        charges = [
            (each.key, each.value, {k: v for k, v in each.description.items() if k != "note"})
            for each in p.ledger.charges()
        ]
        said.append((charges, [statistic.tolist() for statistic, _ in noise.seen], [str(each) for each in answers]))
    assert said[0] == said[1]
    assert len(said[0][1]) == 5


class Broken:
    """A place that stops at the k-th call of a method, or answers it with something else, and works again afterwards.

    Args:
        method: ``ready`` or ``answer``.
        at: which call of it breaks, from 1.
        how: changes the answer; None: it raises what holds a private value.
    """

    def __init__(self, place: Any, method: str, at: int, how: Callable[[Answer], Any] | None = None) -> None:
        self.place, self.name = place, place.name
        self.method, self.at, self.how, self.calls = method, at, how, 0

    def ready(self, recipe: Any, models: Any) -> Any:
        return self._call("ready", self.place.ready(recipe, models))

    def answer(self, asked: Any) -> Any:
        return self._call("answer", self.place.answer(asked))

    def _call(self, method: str, wait: Callable[[], Any]) -> Callable[[], Any]:
        self.calls += method == self.method
        if method != self.method or self.calls != self.at:
            return wait
        if self.how is not None:
            return lambda: self.how(wait())
        raise RuntimeError("SECRET 41.5")


ODD: dict[str, Callable[[Answer], Any]] = {
    "nothing": lambda a: None,
    "a dict": lambda a: vars(a),
    "too short": lambda a: replace(a, sums=a.sums[:-1]),
    "too long": lambda a: replace(a, sums=(*a.sums, 0)),
    "not a number": lambda a: replace(a, sums=(float("nan"), *a.sums[1:])),
    "a float": lambda a: replace(a, sums=(float(a.sums[0]), *a.sums[1:])),
    "a truth": lambda a: replace(a, sums=(True, *a.sums[1:])),
    "outside the clip": lambda a: replace(a, sums=((a.n << 40) * 2, *a.sums[1:])),
    "another question": lambda a: replace(a, digest="0" * 64),
    "other people": lambda a: replace(a, n=a.n + 1),
}


def interrupted(
    make: Callable[[Parts], dptune.Places], folder: Path, flow: str, method: str, at: int, how: Any = None
) -> tuple[str, bool, list[Any], float]:
    """Run a flow whose place breaks once, then again; return the error, whether it was charged, draws and mu."""
    places = make(PARTS)
    places.places = (*places.places[:2], Broken(places.places[2], method, at, how), *places.places[3:])
    noise = NoNoise()
    with pytest.raises(PlaceUnavailable) as caught:
        FLOWS[flow](privatizer(folder, places, noise), places)
    p = privatizer(folder, places, noise)
    before = p.ledger.charges()
    waiting = any(charge.value is None for charge in before)
    FLOWS[flow](p, places)
    assert p.ledger.count() >= len(before)
    error = caught.value
    assert error.__cause__ is error.__context__ is None
    return str(error), waiting, [statistic.tolist() for statistic, _ in noise.seen], p.ledger.spent()


CALLS = {  # flow -> how often a place is called
    "choice": {"ready": 4, "answer": 2},  # people are counted, models tried, and once more before each charge
    "single": {"ready": 4, "answer": 2},
    "report": {"ready": 3, "answer": 1},
}


def waits_and_resumes(make: Callable[[Parts], dptune.Places], folder: Path) -> None:
    """A place that fails at any call: refused before the charge, or charged once, drawn once, and resumed."""
    for flow, calls in CALLS.items():
        expected, data = NoNoise(), make(PARTS)
        whole = privatizer(folder / flow, data, expected)
        FLOWS[flow](whole, data)
        draws = [statistic.tolist() for statistic, _ in expected.seen]
        for method, last in calls.items():
            for at in range(1, last + 1):
                where = folder / f"{flow} {method} {at}"
                error, charged, seen, spent = interrupted(make, where, flow, method, at)
                assert charged == ("waits" in error) == (method == "answer"), where
                assert ("Nothing was charged" in error) == (method == "ready"), where
                assert "SECRET" not in error
                assert seen == draws, where
                assert spent == whole.ledger.spent(), where
            with pytest.raises(pytest.fail.Exception):  # no further call
                interrupted(make, folder / f"{flow} {method} none", flow, method, last + 1)


class Away:
    """A place that nobody can reach."""

    def __init__(self, name: str) -> None:
        self.name = name

    def ready(self, recipe: Any, models: Any) -> Any:
        raise TimeoutError

    answer = ready


def away() -> dptune.Places:
    return dptune.Places([Away(name) for name in PARTS])


def recorded_answers_need_no_place(made: dptune.Places, folder: Path) -> None:
    """Every flow returns its recorded answer while all places are away; another question is refused, unpaid."""
    for name, flow in FLOWS.items():
        first = flow(privatizer(folder / name, made, noise := NoNoise()), made)
        again = flow(p := privatizer(folder / name, data := away(), noise), data)
        assert str(again) == str(first)
        charged, draws = p.ledger.count(), len(noise.seen)
        with pytest.raises(PlaceUnavailable, match="Nothing was charged"):
            dptune.report(MODELS[1], p, data=data, public=PUBLIC, scores=SCORES, mu=1.0, name="another")
        assert (p.ledger.count(), len(noise.seen), p.ledger.fact("another", "plan")) == (charged, draws, None)


class Killed:
    """A place; when its k-th call of a method is sent, ``kill`` ends it or this process."""

    def __init__(self, place: Any, method: str, at: int, kill: Callable[[], None]) -> None:
        self.place, self.name, self._method, self._at, self._kill = place, place.name, method, at, kill
        self.calls = self.kills = 0

    def ready(self, recipe: Any, models: Any) -> Any:
        return self._call("ready", lambda: self.place.ready(recipe, models))

    def answer(self, asked: Any) -> Any:
        return self._call("answer", lambda: self.place.answer(asked))

    def _call(self, method: str, send: Callable[[], Any]) -> Any:
        self.calls += method == self._method
        wait = send()
        if method == self._method and self.calls == self._at:
            self.kills += 1
            self._kill()
        return wait
