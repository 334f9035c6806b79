"""Time per round against t, the number of candidates and the dictionary, beside the word-for-word forms.

A round is one `ask` and one `tell`. The state after t replies is made by replaying t replies; the literal forms get
the very plays, replies, features and thresholds of the core, and are timed on one round's work. Times are CPU time of
the process, so that other jobs on the machine count less; set OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.ldp import literal
from benchmarks.ldp.problems import Problem, R, _uniform
from benchmarks.ldp.runs import ALGORITHMS, DEFAULT, save, table
from dptune.local.bandits.ata import LDPATA
from dptune.local.bandits.bandit import LDPSettings, LocalBandit
from dptune.local.bandits.replies import LaplaceReplies
from dptune.search.gp.kernels import RBF, Kernel, Matern52

HORIZONS = (1_000, 10_000, 100_000)
LITERAL_TGP = 3_000  # rounds; a refit is O(t^3)
TOLD: weakref.WeakKeyDictionary[LocalBandit, list[tuple[int, float]]] = weakref.WeakKeyDictionary()


def problem(kernel: Kernel, M: int, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    X = np.linspace(0, 1, M)[:, None]
    f = kernel(X, rng.random((100, 1))) @ rng.uniform(-1, 1, 100)
    return Problem("speed", X, f, kernel, _uniform)


def grown(algorithm: str, p: Problem, t: int, **more: Any) -> tuple[LocalBandit, Any]:
    """The core after t rounds of its own choice (cheap points first: every candidate is played at least once)."""
    replies, rng = LaplaceReplies(1.0, p.B, R), np.random.default_rng(1)
    plain = LDPSettings(replies, p.kernel, horizon=100_000, **more)
    bandit = ALGORITHMS[algorithm](p.points, DEFAULT.settings(algorithm, plain))
    laplace = rng.laplace(0, replies.L, 2 * t + 4000)
    order = rng.permutation(np.repeat(np.arange(len(p.points)), -(-(t // 2) // len(p.points))))[: t // 2]
    for s, j in enumerate(order):
        tell(bandit, int(j), float(p.f[j] + laplace[s]))
    for s in range(len(order), t):
        j = bandit.ask() if s % 50 == 0 or algorithm != "ATA" else j
        tell(bandit, int(j), float(p.f[j] + laplace[s]))
    return bandit, iter(laplace[t:])


def tell(bandit: LocalBandit, j: int, reply: float) -> None:
    bandit.tell(j, reply)
    TOLD.setdefault(bandit, []).append((j, reply))


def round_time(bandit: LocalBandit, p: Problem, noise: Any, rounds: int = 2000) -> float:
    """CPU seconds of a round, the mean over ``rounds`` of them, redraws and refreshes included."""
    began = time.process_time()
    for _ in range(rounds):
        j = bandit.ask()
        tell(bandit, j, float(p.f[j]) + next(noise))
    return (time.process_time() - began) / rounds


def literal_time(work: Callable[[], Any], repeats: int) -> float:
    """CPU seconds of one repetition, the least of several."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def replies_of(bandit: LocalBandit) -> tuple[np.ndarray, np.ndarray]:
    points, replies = zip(*TOLD[bandit], strict=True)
    return np.array(points), np.array(replies)


def features_of(bandit: LocalBandit) -> np.ndarray:
    K = bandit.settings.kernel(bandit.points, bandit.points)
    return literal.features(K, bandit.dictionary.tolist())


def literal_ata(bandit: LocalBandit, t: int) -> float:
    assert isinstance(bandit, LDPATA)
    x, y = replies_of(bandit)
    phi, b = features_of(bandit), bandit.truncation(len(bandit.dictionary))
    mean = literal.ata_estimate(phi, x, y, b, bandit.lam)
    x, y = x[:t], y[:t]
    assert np.allclose(mean, bandit.mean(), atol=1e-6 * max(1.0, float(np.abs(mean).max()))), "not the same estimate"
    return literal_time(lambda: literal.ata_estimate(phi, x, y, b, bandit.lam), 3)


def literal_tgp(p: Problem, bandit: LocalBandit, t: int) -> float:
    x, y = (column[:t].tolist() for column in replies_of(bandit))
    K = p.kernel(p.points, p.points)
    b = [bandit.settings.replies.truncation(s) for s in range(1, t + 1)]
    return literal_time(lambda: literal.tgp(K, x, y, b, bandit.lam), 1)


def literal_moma(bandit: LocalBandit, t: int) -> float:
    """One epoch's estimate from all epochs, shared by its k rounds."""
    k, phi, (x, y) = bandit.settings.plays, features_of(bandit), replies_of(bandit)
    x, y = x[: t // k * k : k], y[: t // k * k].reshape(-1, k)
    return literal_time(lambda: literal.moma_estimate(phi, x.tolist(), y, bandit.lam), 3) / k


def against_t(data: dict[str, Any]) -> None:
    rows: list[dict[str, Any]] = []
    for name, kernel in (("SE", RBF(0.2)), ("Matern 2.5", Matern52(0.2))):
        p = problem(kernel, 100)
        for algorithm in ALGORITHMS:
            for t in HORIZONS:
                bandit, noise = grown(algorithm, p, t)
                own = round_time(bandit, p, noise)
                word = None
                if algorithm == "ATA":
                    word = literal_ata(bandit, t)
                elif algorithm == "MoMA":
                    word = literal_moma(bandit, t)
                elif t <= LITERAL_TGP:
                    word = literal_tgp(p, bandit, t)
                m = getattr(bandit, "m", None)
                row = {"kernel": name, "algorithm": algorithm, "t": t, "us": own * 1e6, "m": m, "literal_us": None}
                if word is not None:
                    row["literal_us"] = word * 1e6
                rows.append(row)
                save("ldp_speed", data | {"against t": rows})
    data["against t"] = rows
    print("\n**Time per round against t**, 100 candidates, one thread\n")
    print(
        table(
            ["kernel", "algorithm", "t", "us a round", "literal form, us", "ratio", "m"],
            [
                [r["kernel"], r["algorithm"], f"{r['t']:,}", f"{r['us']:.1f}", *_ratio(r), str(r["m"] or "")]
                for r in rows
            ],
        )
    )


def _ratio(row: dict[str, Any]) -> list[str]:
    word = row["literal_us"]
    return ["", ""] if word is None else [f"{word:,.0f}", f"{word / row['us']:,.0f}"]


def against_sizes(data: dict[str, Any]) -> None:
    rows: list[dict[str, Any]] = []
    for M in (25, 50, 100, 200, 400, 800):
        p = problem(Matern52(0.2), M)
        for algorithm in ALGORITHMS:
            bandit, noise = grown(algorithm, p, 10_000)
            us = round_time(bandit, p, noise, 1000) * 1e6
            rows.append({"algorithm": algorithm, "M": M, "us": us, "m": getattr(bandit, "m", None)})
    dictionary: list[dict[str, Any]] = []
    p = problem(Matern52(0.2), 100)
    for q in (0.1, 0.5, 2.0, 10.0, 100.0):
        for algorithm in ("ATA", "MoMA"):
            bandit, noise = grown(algorithm, p, 10_000, q=q)
            us = round_time(bandit, p, noise, 1000) * 1e6
            dictionary.append({"algorithm": algorithm, "q": q, "us": us, "m": len(bandit.dictionary)})
    data["against candidates"], data["against dictionary"] = rows, dictionary
    print("\n**Time per round against the candidates M**, Matern 2.5, t=10,000\n")
    cell = [[r["algorithm"], str(r["M"]), f"{r['us']:.1f}", str(r["m"] or "")] for r in rows]
    print(table(["algorithm", "M", "us a round", "m"], cell))
    print("\n**Time per round against the dictionary m**, Matern 2.5, 100 candidates, t=10,000\n")
    cell = [[r["algorithm"], f"{r['q']:g}", str(r["m"]), f"{r['us']:.1f}"] for r in dictionary]
    print(table(["algorithm", "q", "m", "us a round"], cell))


def naive_refit(data: dict[str, Any]) -> None:
    p = problem(RBF(0.2), 100)
    bandit, noise = grown("TGP", p, LITERAL_TGP)
    own, word = round_time(bandit, p, noise), literal_tgp(p, bandit, LITERAL_TGP)
    data["naive refit"] = {"t": LITERAL_TGP, "us": own * 1e6, "literal_us": word * 1e6}
    print(f"\nTGP at t={LITERAL_TGP}: {own * 1e6:.1f} us a round; a naive refit {word:.2f} s, {word / own:,.0f} times.")


def main() -> None:
    data: dict[str, Any] = {}
    against_t(data)
    naive_refit(data)
    against_sizes(data)
    save("ldp_speed", data)
