"""Private people at several places: `python -m benchmarks.measurements.places [cost|gain]`.

*cost*: a choice and a report of 100,000 people in one process, and at 20 places in one process; CPU time of everything
after the training, and what leaves a place. *gain*: ten tables of people, cut into five hospitals of unlike sizes by
age: what a hospital gains if it chooses with the others. Five draws of noise in one split of each.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

import dptune
from benchmarks.data import Array
from benchmarks.frontier.people import (
    ADULT,
    BENEFITS,
    CRASHES,
    FLCHAIN,
    INSURANCE,
    LOANS,
    MONICA,
    PENSIONS,
    RECIDIVISM,
    WILMS,
    People,
    frame,
)
from benchmarks.report import machine, markdown

Rows = tuple[Array, Array]
PLACES, PEOPLE, FINALISTS = 20, 100_000, 40
SIZES = np.array([100, 150, 200, 250, 300])  # people of each hospital, the youngest first
PUBLIC, CONFIGURATIONS, SPLITS, DRAWS, EPSILON = 300, 20, 1, 5, 1.0
BY_AGE = (ADULT, BENEFITS, FLCHAIN, INSURANCE, MONICA, PENSIONS, RECIDIVISM, WILMS)
TABLES: tuple[tuple[People, str], ...] = (
    *((people, "age") for people in BY_AGE),
    (CRASHES, "ageOFocc"),
    (LOANS, "annual_income"),
)
CV, ALONE, ALL, OWN, EXACT = (
    "cross-validation of public rows alone (epsilon 0)",
    "each hospital alone, epsilon 1",
    "all five together, epsilon 1",
    "each hospital trains and cross-validates on its own and the public rows, nothing published",
    "exact choice of all five",
)


# ---- cost ----------------------------------------------------------------------------------------------


class Weighed:
    """A place that counts the bytes of what leaves it."""

    def __init__(self, place: dptune.Place) -> None:
        self.place, self.name, self.bytes = place, place.name, list[int]()

    def ready(self, recipe: Any, models: Any) -> Any:
        return self.place.ready(recipe, models)

    def answer(self, asked: Any) -> Any:
        wait = self.place.answer(asked)

        def weighed() -> Any:
            answer = wait()
            self.bytes.append(len(pickle.dumps(answer)))
            return answer

        return weighed


@contextmanager
def privatizer(people: dict[str, Any]) -> Iterator[dptune.LossPrivatizer]:
    with tempfile.TemporaryDirectory() as folder:
        budget = dptune.Budget.approximate_dp(EPSILON, 1e-5)
        yield dptune.LossPrivatizer(dptune.PrivacyLedger(Path(folder) / "ledger.db", budget), **people)


def cost() -> None:
    """Print CPU seconds of a choice and of a report, and bytes."""
    rng = np.random.default_rng(0)

    def rows(n: int) -> Rows:
        X = rng.normal(size=(n, 20))
        return X, (X[:, :5].sum(axis=1) + rng.normal(size=n) > 0).astype(int)

    public, private = rows(2000), rows(PEOPLE)
    models = [LogisticRegression(C=C).fit(*public) for C in np.logspace(-4, 2, FINALISTS)]
    chances = [model.predict_proba(public[0])[np.arange(2000), public[1]] for model in models]
    losses = -np.log(np.clip(chances, 1e-12, 1.0))
    parts = zip(np.array_split(private[0], PLACES), np.array_split(private[1], PLACES), strict=True)
    made = [Weighed(dptune.Place(f"place {k}", (X.copy(), y.copy()))) for k, (X, y) in enumerate(parts)]
    table = []
    for name, data in (("one process", private), (f"{PLACES} places", dptune.Places(made))):
        with privatizer({"places": data} if isinstance(data, dptune.Places) else {"n": PEOPLE}) as p:
            began = time.process_time()
            dptune.select(models, p, data=data, loss="log_loss", public_losses=losses, default_place=0,
                          finalists=FINALISTS, report_share=0.3)  # fmt: skip
            chosen = time.process_time()
            dptune.report(models[20], p, data=data, public=public)
            ended = time.process_time()
        table.append([name, f"{chosen - began:.1f} s", f"{ended - chosen:.1f} s"])
    print(markdown(["100,000 people, 40 finalists", "choice", "report"], table))
    print(f"Bytes that leave a place, of each answer: {made[0].bytes}.")


# ---- gain ----------------------------------------------------------------------------------------------


def configurations() -> list[dict[str, Any]]:
    """Return scikit-learn's defaults, and random ones."""
    rng = np.random.default_rng(1)
    drawn = [
        {
            "learning_rate": float(10 ** rng.uniform(-2, 0)),
            "max_leaf_nodes": int(rng.integers(2, 32)),
            "min_samples_leaf": int(rng.integers(2, 60)),
            "l2_regularization": float(10 ** rng.uniform(-3, 2)),
        }
        for _ in range(CONFIGURATIONS)
    ]
    return [{}, *drawn]


def losses_of(settings: dict[str, Any], train: Rows, X: Array) -> Array:
    """Return log losses (rows, 2) of both answers."""
    model = HistGradientBoostingClassifier(max_iter=40, early_stopping=False, random_state=0, **settings).fit(*train)
    return np.asarray(-np.log(np.clip(model.predict_proba(X), 1e-3, 1.0)))


def cross_validated(settings: dict[str, Any], X: Array, y: Array) -> Array:
    losses = np.empty(len(y))
    for fit, held in KFold(3, shuffle=True, random_state=0).split(X):
        losses[held] = losses_of(settings, (X[fit], y[fit]), X[held])[np.arange(len(held)), y[held]]
    return losses


def chosen(private: Array, public: Array) -> tuple[int, str]:
    """Return the index that these people choose, and the verdict on the default."""
    with privatizer({"n": private.shape[1]}) as p:
        found = dptune.select(private, p, public_losses=public, default_place=0, even_if_hopeless=True)
        return found.index, found.verdict


def split_of(people: People, by: str, split: int) -> dict[str, tuple[float, float]]:
    """Return for each way the judges' mean loss, and how often "better" was said."""
    inputs, target = frame(people)
    order = np.random.default_rng([split, 7]).permutation(len(target))[: PUBLIC + SIZES.sum() + 2000]
    X = inputs.iloc[order].apply(lambda c: c.cat.codes if c.dtype == "category" else c)
    X = X[list(people.inputs)].to_numpy(dtype=float)
    y, age = target[order].astype(int), inputs.iloc[order][by].to_numpy()
    train = X[:PUBLIC], y[:PUBLIC]
    rest = np.arange(PUBLIC, PUBLIC + SIZES.sum())
    hospitals = np.split(rest[np.argsort(age[rest], kind="stable")], np.cumsum(SIZES)[:-1])
    judges = np.arange(PUBLIC + SIZES.sum(), len(y))
    edges = [age[each].max() for each in hospitals[:-1]]
    where = np.searchsorted(edges, age[judges], side="left")  # a judge's hospital
    weights = SIZES / SIZES.sum()
    every = configurations()
    public = np.array([cross_validated(settings, *train) for settings in every])
    both = np.array([losses_of(settings, train, X) for settings in every])
    losses = np.take_along_axis(both, y[None, :, None], axis=2)[:, :, 0]  # (m, rows)
    judged = np.array([[losses[j, judges[where == k]].mean() for k in range(5)] for j in range(len(every))])  # (m, 5)
    found = {CV: (float(judged[public.mean(axis=1).argmin()] @ weights), 0.0)}
    found[EXACT] = (float(judged[losses[:, rest].mean(axis=1).argmin()] @ weights), 0.0)
    draws = [chosen(losses[:, rest], public) for _ in range(DRAWS)]
    found[ALL] = (
        float(np.mean([judged[j] @ weights for j, _ in draws])),
        float(np.mean([verdict == "better" for _, verdict in draws])),
    )
    alone = [[chosen(losses[:, each], public) for each in hospitals] for _ in range(DRAWS)]
    found[ALONE] = (
        float(np.mean([[judged[j, k] for k, (j, _) in enumerate(each)] @ weights for each in alone])),
        float(np.mean([verdict == "better" for each in alone for _, verdict in each])),
    )
    own = 0.0
    for k, each in enumerate(hospitals):
        mine = np.concatenate([np.arange(PUBLIC), each])
        scores = [cross_validated(settings, X[mine], y[mine])[PUBLIC:].mean() for settings in every]
        at = judges[where == k]
        mean = losses_of(every[int(np.argmin(scores))], (X[mine], y[mine]), X[at])[np.arange(len(at)), y[at]].mean()
        own += weights[k] * float(mean)
    found[OWN] = (own, 0.0)
    return found


def gain() -> None:
    """Print the ways' losses over that of the exact choice, and how often they say "better"."""
    ratios, better = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for people, by in TABLES:
        for split in range(SPLITS):
            found = split_of(people, by, split)
            for way, (loss, said) in found.items():
                ratios[way].append(loss / found[EXACT][0])
                better[way].append(said)
    table = [
        [
            way,
            f"{np.exp(np.mean(np.log(ratios[way]))):.3f}",
            f"{100 * np.mean(better[way]):.0f}%" if way in (ALL, ALONE) else "",
        ]
        for way in (CV, ALONE, ALL, EXACT, OWN)
    ]
    print(markdown(["way", "loss over the exact choice's", "says better than the default"], table))


if __name__ == "__main__":
    print(machine())
    for part in sys.argv[1:] or ("cost", "gain"):
        {"cost": cost, "gain": gain}[part]()
