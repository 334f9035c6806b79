"""Coverage of a report's 95% intervals: ``python -m benchmarks.report_coverage``, about 10 minutes.

For each family, ``MODELS`` models are trained on 300 public rows each, and asked about 20,000 people. In each of
``DRAWS`` draws, n of them are private, and normal noise of the report's size is added to their table. All draws are
seeded. The table has two shares: of intervals that hold the exact metric of the n people, and of the wider intervals
that hold the metric of the 20,000.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import metrics
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from benchmarks.data import Array
from benchmarks.report import markdown
from dptune.choice import Report
from dptune.choice.report.metric import Metric
from dptune.choice.report.plan import ReportPlan, make_plan
from dptune.choice.report.public_rows import how_to_ask, public_scores
from dptune.privacy.stored_losses import People

PUBLIC, PEOPLE, MODELS, DRAWS = 300, 20_000, 10, 100
UNKNOWN = -7  # a label that no model knows
INSIDE = (0.1, 0.2, 0.6, 0.8)  # thresholds, seldom an edge of the bins


@dataclass(frozen=True)
class Family:
    """Models, and people with two or more labels.

    Attributes:
        train: (X, y) -> model.
        shares: of the labels.
        held_out: whether 300 further public rows are given, which the model scores.
        unknown: people whose label is unknown, in standard deviations of the noise of a count.
    """

    train: Callable[[Array, Array], Any]
    shares: tuple[float, ...] = (0.6, 0.4)
    held_out: bool = False
    unknown: float = 0.0


def by_epochs(X: Array, y: Array) -> Any:
    """Return a network that ``partial_fit`` has trained."""
    model = MLPClassifier((20,), random_state=0)
    for _ in range(30):
        model.partial_fit(X, y, classes=np.unique(y))
    return model


def fitted(model: Any) -> Callable[[Array, Array], Any]:
    return lambda X, y: model.fit(X, y)


LINEAR = fitted(LogisticRegression())
FAMILIES = {
    "linear": Family(LINEAR),
    "forest": Family(fitted(RandomForestClassifier(20, min_samples_leaf=3, random_state=0))),
    "boosting": Family(fitted(HistGradientBoostingClassifier(max_iter=20))),
    "linear, `C=.02`": Family(fitted(LogisticRegression(C=0.02))),
    "linear, `C=.002`": Family(fitted(LogisticRegression(C=0.002))),
    "network by `partial_fit`": Family(by_epochs, held_out=True),
    "3% positive": Family(LINEAR, (0.97, 0.03)),
    "three labels": Family(LINEAR, (0.4, 0.3, 0.3)),
    "four labels": Family(LINEAR, (0.4, 0.3, 0.2, 0.1)),
    **{f"unknown labels: {k} sigma": Family(LINEAR, unknown=k) for k in (2, 3, 4)},
}
BUDGETS = ((1000, 1.0), (400, 0.5))


def people(rng: np.random.Generator, n: int, shares: tuple[float, ...]) -> tuple[Array, Array]:
    """Return rows (n, 8) and labels (n,) that a linear model does not fit quite."""
    y = rng.choice(len(shares), size=n, p=shares)
    X = rng.normal(size=(n, 8))
    X[:, :3] += 1.2 * np.eye(max(len(shares), 3))[y][:, :3]
    X[:, 3] += 0.8 * (X[:, 0] * X[:, 1] > 0) * (y > 0)
    return X, y


def exact(plan: ReportPlan, y: Array, answers: Array) -> dict[str, float]:
    """Return the metrics of people whose label is known."""
    known = y >= 0
    y, answers = y[known], answers[known]
    if len(plan.labels) > 2:
        decided = answers.argmax(axis=1)
        found = {"f1_score (macro)": metrics.f1_score(y, decided, average="macro")}
        found["precision_score (macro)"] = metrics.precision_score(y, decided, average="macro", zero_division=0)
        area = np.mean([metrics.roc_auc_score(y == j, answers[:, j]) for j in range(len(plan.labels))])
        found["roc_auc_score (ovr, macro)"] = float(area)
    else:
        s = answers[:, 1]
        decided = (s > plan.bins[0].threshold).astype(int)
        gaps = np.bincount(plan.bins[0].of(s), y - s)
        found = {"f1_score": metrics.f1_score(y, decided), "roc_auc_score": metrics.roc_auc_score(y, s)}
        found["brier_score_loss"] = float(np.mean((s - y) ** 2))
        found["expected_calibration_error"] = float(np.abs(gaps).sum()) / len(y)
        for threshold in INSIDE:
            found[f"recall_score at {threshold}"] = float(np.mean(s[y == 1] > threshold))
            found[f"specificity at {threshold}"] = float(np.mean(s[y == 0] <= threshold))
    found["accuracy_score"] = float(np.mean(decided == y))
    found["balanced_accuracy_score"] = metrics.balanced_accuracy_score(y, decided)
    return found


def reports(
    family: Family, n: int, mu: float, models: int, draws: int
) -> Iterator[tuple[Report, dict[str, float], dict[str, float]]]:
    """Yield reports, the exact metrics of their people, and those of the population."""
    for seed in range(models):
        rng = np.random.default_rng(seed)
        X, y = people(rng, PUBLIC, family.shares)
        model = family.train(X, y)
        rows = people(rng, PUBLIC, family.shares) if family.held_out else (X, y)
        scores = public_scores(model, how_to_ask(model), rows, None, 5, held_out=family.held_out)
        plan = make_plan(model, scores, mu=mu, n=n, largest_weight=1 / n, threshold=None, by=None, bins=None)
        X, y = people(rng, PEOPLE, family.shares)
        answers = model.predict_proba(X)
        query, truth, sigma = plan.query(), exact(plan, y, answers), plan.query().diameter / (mu * n)
        count = round(family.unknown * sigma * n)
        for _ in range(draws):
            own = rng.choice(PEOPLE, size=n, replace=False)
            labels = np.where(np.arange(n) < count, UNKNOWN, y[own])
            codes = plan.loss()(labels, answers[own], labels=list(plan.labels))
            value = query.mean(People.of(n, None, None), codes)
            found = Report.of(plan, value + rng.normal(0, sigma, query.dimension), sigma)
            yield found, exact(plan, labels, answers[own]), truth


def metrics_of(report: Report) -> dict[str, Metric]:
    """Return a report's metrics, and of two labels the rates at other thresholds."""
    found = dict(report.metrics)
    for threshold in INSIDE if report.plan.two_classes else ():
        decided = report.at(threshold)
        for metric in (decided.recall_score, decided.specificity):
            found[f"{metric.name} at {threshold}"] = metric
    return found


def coverage(
    family: Family, n: int, mu: float, models: int = MODELS, draws: int = DRAWS
) -> dict[str, tuple[float, ...]]:
    """Return the shares of intervals that hold the metric of the people and of the population, and the mean width."""
    held: dict[str, list[tuple[bool, bool, float]]] = {}
    for found, own, truth in reports(family, n, mu, models, draws):
        released = metrics_of(found)
        for name, value in own.items():
            (low, high), (least, most) = released[name].interval, released[name].population
            both = low - 1e-9 <= value <= high + 1e-9, least - 1e-9 <= truth[name] <= most + 1e-9
            held.setdefault(name, []).append((*both, (high - low) / 2))
    return {name: tuple(np.mean(each, axis=0).tolist()) for name, each in held.items()}


COLUMNS = {
    "accuracy": ("accuracy_score",),
    "balanced accuracy": ("balanced_accuracy_score",),
    "F1": ("f1_score", "f1_score (macro)"),
    "AUC": ("roc_auc_score", "roc_auc_score (ovr, macro)"),
    "calibration error": ("expected_calibration_error",),
    "Brier": ("brier_score_loss",),
    "recall at 0.2": ("recall_score at 0.2",),
    "specificity at 0.6": ("specificity at 0.6",),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=MODELS)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--family", choices=list(FAMILIES), help="only this one")
    asked = parser.parse_args()
    rows = []
    for name, family in FAMILIES.items():
        for n, mu in BUDGETS if asked.family in (None, name) else ():
            found = coverage(family, n, mu, asked.models, asked.draws)
            cells = [next((found[each] for each in names if each in found), None) for names in COLUMNS.values()]
            said = ["" if cell is None or math.isnan(cell[0]) else f"{cell[0]:.3f}, {cell[1]:.3f}" for cell in cells]
            rows.append([name, str(n), f"{mu:g}", *said])
            print("|", " | ".join(rows[-1]), "|", flush=True)
    print("\n" + markdown(["family", "n", "μ", *COLUMNS], rows))


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)
    main()
