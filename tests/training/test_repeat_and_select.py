"""Repeat and select shows only its choice, and audits find planted bugs."""

import contextlib
import itertools
import logging
import math
import os
import signal
import sqlite3
import sys
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from ray import tune

from audit_tools import dump, run_forked
from dptune import Float, InputError, Int, PlanComplete, Space
from dptune.errors import KeyConflict
from dptune.privacy.noise import NoiseSource, OpenDPNoise
from dptune.training import Repeats, SelectionPlan, TrainingLedger, quasi_random
from dptune.training import repeats as implementation
from dptune.training.repeats import Selected, one_of, repeat_and_select
from dptune_optuna import repeat_and_select as in_optuna
from dptune_ray import repeats as on_ray
from every_logger import without_clocks
from noises import NoNoise
from training_tools import LAW, ONE, N, certain, ledgers, selections

CLIP = (0.0, 1.0)


def countdown(start: int = 9) -> Callable[[], tuple[dict[str, Any], str, np.ndarray]]:
    left = iter(range(start, 0, -1))

    def once() -> tuple[dict[str, Any], str, np.ndarray]:
        i = next(left)
        return {"i": i}, f"model {i}", np.full(N, i / 10)

    return once


def test_the_best_repeat_is_returned_and_kept(fast_path: Path) -> None:
    best = repeat_and_select(countdown(), ledgers(fast_path, times=4), clip=CLIP, noise=NoNoise())
    assert best == Selected({"i": 6}, pytest.approx(0.6), "model 6", False)
    again = repeat_and_select(countdown(3), ledgers(fast_path), clip=CLIP, noise=NoNoise())
    assert (again.parameters, again.score, again.model) == ({"i": 6}, best.score, None)
    for ledger in ledgers(fast_path):
        assert [charge.value for charge in ledger.charges()] == [(best.score,)]
    with pytest.raises(KeyConflict):
        repeat_and_select(countdown(), ledgers(fast_path), clip=(0.0, 2.0))


KILLED = """
import os, signal, sys
from dptune.training import TrainingLedger
from dptune.training.repeats import repeat_and_select
opened = [TrainingLedger(path) for path in sys.argv[1:]]
repeat_and_select(lambda: os.kill(os.getpid(), signal.SIGKILL), opened, clip=(0.0, 1.0))
"""


def audit_nothing_is_drawn_again(folder: Path, **how: Any) -> None:
    """A crash may depend on the data, so that a second draw would be one on the condition that nothing crashed."""
    trained = []

    def once() -> Any:
        trained.append(1)

    with contextlib.suppress(PlanComplete):
        repeat_and_select(once, list(reversed(ledgers(folder, **how))), clip=CLIP)
    assert trained == []


class Forgets(TrainingLedger):
    """A planted bug."""

    def fix(self, scope: str, name: str, value: object) -> object:
        return value


def test_a_killed_selection_is_spent(tmp_path: Path) -> None:
    ledgers(tmp_path)
    killed = run_forked(KILLED, str(tmp_path / "train.db"), str(tmp_path / "val.db"))
    assert killed.returncode == -signal.SIGKILL
    audit_nothing_is_drawn_again(tmp_path)
    with pytest.raises(PlanComplete, match="new ledgers"):
        repeat_and_select(countdown(), ledgers(tmp_path), clip=CLIP)
    with pytest.raises(AssertionError):
        audit_nothing_is_drawn_again(tmp_path, kind=Forgets)


class Breaks(TrainingLedger):
    """Loses its file after the charge."""

    def fix(self, scope: str, name: str, value: object) -> object:
        raise ConnectionError


def test_a_crash_between_charge_and_draw_costs_nothing_more(fast_path: Path) -> None:
    with pytest.raises(ConnectionError):
        repeat_and_select(countdown(), ledgers(fast_path, kind=Breaks), clip=CLIP)
    assert [ledger.count() for ledger in ledgers(fast_path)] == [1, 1]
    best = repeat_and_select(countdown(200), ledgers(fast_path), clip=CLIP)
    assert best.parameters is not None
    assert best.private
    assert [ledger.count() for ledger in ledgers(fast_path)] == [1, 1]


def test_people_who_scored_once_do_not_score_for_another_selection(fast_path: Path) -> None:
    _, val = ledgers(fast_path)
    repeat_and_select(countdown(200), ledgers(fast_path), clip=CLIP)
    other = TrainingLedger(fast_path / "others.db", SelectionPlan(LAW, ONE), n=90)
    with pytest.raises(KeyConflict):
        repeat_and_select(countdown(), [other, val], clip=CLIP)
    assert (other.count(), val.count()) == (0, 1), "what is refused costs nobody"


def fails() -> Any:
    raise RuntimeError("row 7 has 'Smith'")


@pytest.mark.parametrize("once", [fails, lambda: ({"i": 1}, "model", np.zeros(N - 1))], ids=["fails", "short"])
def test_failures_and_repeats_of_a_wrong_shape_are_sealed_and_never_chosen(once: Any, fast_path: Path) -> None:
    best = repeat_and_select(once, ledgers(fast_path, times=3), clip=CLIP)
    assert (best.parameters, best.model) == (None, None)
    assert math.isnan(best.score)
    assert math.isnan(repeat_and_select(countdown(), ledgers(fast_path), clip=CLIP).score)


@pytest.mark.parametrize(("odd", "counts_as"), [(math.nan, 1.0), (math.inf, 1.0), (-math.inf, 0.0)])
def test_a_loss_that_is_no_number_never_makes_a_repeat_look_good(odd: float, counts_as: float, fast_path: Path) -> None:
    losses, counted = (np.where(np.arange(N) % 2, each, 0.5) for each in (odd, counts_as))
    best = repeat_and_select(lambda: ({}, "m", losses), ledgers(fast_path, times=2), clip=CLIP, noise=NoNoise())
    assert best.score == pytest.approx(counted.mean())


def test_ledgers_that_do_not_fit_together_are_refused(fast_path: Path) -> None:
    train, val = ledgers(fast_path)
    other = TrainingLedger(fast_path / "o.db", SelectionPlan(Repeats.poisson(5), score_mu=0.5), n=N)
    composed = TrainingLedger(fast_path / "c.db", ONE, n=N)
    for wrong in ([train], [val, other], [train, other], [train, val, composed], []):
        with pytest.raises(InputError, match="same repeats"):
            repeat_and_select(countdown(), wrong, clip=CLIP)
    assert (train.count(), val.count()) == (0, 0)


def test_charges_precede_training_and_a_second_process_draws_nothing(fast_path: Path) -> None:
    def once() -> tuple[dict[str, Any], str, np.ndarray]:
        assert [ledger.count() for ledger in ledgers(fast_path)] == [1, 1]
        audit_nothing_is_drawn_again(fast_path)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repeat_and_select(once, ledgers(fast_path), clip=CLIP)
    audit_nothing_is_drawn_again(fast_path)
    assert [ledger.count() for ledger in ledgers(fast_path)] == [1, 1]


def test_nothing_that_is_kept_tells_how_long_it_took(fast_path: Path) -> None:
    """Neither the ledgers nor the study's trial bears a time of the end."""
    study, trained = optuna.create_study(), list[datetime]()

    def objective(trial: Any) -> tuple[str, np.ndarray]:
        trained.append(datetime.now())
        return "model", np.zeros(N)

    in_optuna(study, objective, ledgers(fast_path, times=1), clip=CLIP)
    assert study.trials[0].datetime_start == study.trials[0].datetime_complete < trained[0]
    for name in ("train", "val"):
        with contextlib.closing(sqlite3.connect(fast_path / f"{name}.db")) as ledger:
            ((charged, released),) = ledger.execute("SELECT charged_at, released_at FROM dptune_spending").fetchall()
        assert charged == released < trained[0].astimezone(UTC).isoformat(timespec="microseconds")


@pytest.mark.parametrize("low", [-1.0, 1e9, 1e15])
def test_the_noise_covers_what_removing_a_person_moves_a_score(low: float) -> None:
    """The clip may be anywhere."""
    rng, n, heard = np.random.default_rng(7), 1000, NoNoise()

    def score(losses: np.ndarray) -> float:
        how = {"law": certain(1), "n": n, "score_mu": 1.0, "clip": (low, low + 1), "noise": heard}
        return selections(lambda: ({}, "", losses), 1, **how)[0].score

    for i in range(10):
        losses = low + rng.choice([0.0, 1.0, rng.uniform()], n)
        assert score(losses) == pytest.approx(np.mean(losses - low) + low, rel=1e-15, abs=1e-12)
        before = heard.statistic
        losses[i] = rng.choice([low, low + 1, np.inf, -np.inf, np.nan])
        score(losses)
        assert abs(heard.statistic - before) <= 2 * heard.sigma, "replacing is two removals"
        with_them, losses[i] = heard.statistic, low + 0.5  # the middle: what a removed person counts as
        score(losses)
        assert abs(heard.statistic - with_them) <= heard.sigma
    losses[:] = low + 0.5
    score(losses)
    without, losses[0] = heard.statistic, np.nan
    score(losses)
    assert abs(heard.statistic - without) / heard.sigma == pytest.approx(1, abs=1e-5), "no more noise than it takes"


# ---- audits, and bugs that they must find -----------------------------------------------------------------

LEAKS: dict[str, Callable[[optuna.Study, TrainingLedger], Any]] = {  # of each repeat, past what must hide it
    "nothing": lambda study, ledger: None,
    "silence is broken": lambda study, ledger: None,
    "stored": lambda study, ledger: ledger.fix("trainings", f"repeat {next(NUMBERS)}", 0),
    "in the study": lambda study, ledger: study.add_trial(optuna.trial.create_trial(value=0.5)),
}
NUMBERS = itertools.count()


def transcript(folder: Path, times: int, leak: str, caplog: Any, capfd: Any) -> list[object]:
    """Everything that may be seen of a selection whose repeats are all alike, but for times and random names."""
    folder.mkdir()
    optuna.logging.enable_propagation()
    study, both = optuna.create_study(study_name="s"), ledgers(folder, times=times)
    caplog.clear()
    capfd.readouterr()

    def objective(trial: Any) -> tuple[str, np.ndarray]:
        trial.suggest_categorical("kind", ["a"])
        print("training")  # and whatever else tells of a repeat
        print("training", file=sys.__stderr__)
        os.write(1, b"training")
        logging.getLogger("user").log(logging.CRITICAL + 10, "training")
        warnings.warn("training", stacklevel=1)
        LEAKS[leak](study, both[0])
        return "model", np.full(N, 0.5)

    with caplog.at_level(logging.DEBUG):
        in_optuna(study, objective, both, clip=CLIP, noise=NoNoise())
    seen = [record.getMessage() for record in caplog.records]
    trials = [(trial.number, trial.params, trial.user_attrs) for trial in study.trials]
    optuna.logging.disable_propagation()
    stored = [repr(row) for each in both for row in dump(each)]
    told = without_clocks([*seen, *map(repr, trials), *capfd.readouterr()], folder)
    return [*told, *sorted(without_clocks(stored, folder))]


@pytest.mark.parametrize("leak", LEAKS)
def test_the_number_of_repeats_is_secret_and_one_that_shows_is_found(
    leak: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any, capfd: Any
) -> None:
    if leak == "silence is broken":
        monkeypatch.setattr(implementation, "silence", lambda **_: contextlib.nullcontext())
    few, many = (transcript(tmp_path / str(times), times, leak, caplog, capfd) for times in (2, 7))
    assert (few == many) == (leak == "nothing")


def audit_the_score_is_noisy(noise: NoiseSource) -> None:
    """A score has the noise of mu = .5 at n = 40: sigma = .025."""
    how = {"law": certain(1), "n": N, "score_mu": 0.5, "noise": noise}
    scores = [best.score for best in selections(lambda: ({}, "", np.full(N, 0.5)), 400, **how)]
    assert abs(np.std(scores) / 0.025 - 1) < 0.25  # beyond by chance 3e-12
    assert abs(np.mean(scores) - 0.5) < 0.01


def test_a_best_that_is_shown_with_its_own_score_is_found() -> None:
    audit_the_score_is_noisy(OpenDPNoise())
    with pytest.raises(AssertionError):
        audit_the_score_is_noisy(NoNoise())


@pytest.mark.parametrize("secure", [True, False])
def test_ordinary_generators_of_a_repeat_are_stated(fast_path: Path, secure: bool) -> None:
    """By the core and by Optuna."""
    for name, select in (("core", repeat_and_select), ("optuna", partial(in_optuna, optuna.create_study()))):
        folder = fast_path / name
        folder.mkdir()
        both = ledgers(folder, times=2)
        once: Any = countdown() if name == "core" else lambda trial: ("model", np.full(N, 0.5))
        select(once, both, clip=CLIP, secure=secure)
        said = [any("ordinary generator" in each for each in one.statement(delta=1e-5).warnings) for one in both]
        assert said[0] is not secure


def test_the_laws_of_repeats_have_their_names() -> None:
    """Half of a geometric number of mean 2 are 1, and three quarters at most 2."""
    laws = {"geometric": Repeats.geometric(3), "logarithmic": Repeats.logarithmic(3), "Poisson": Repeats.poisson(3)}
    for name, law in laws.items():
        assert str(law) == f"a {name} number of repeats of mean 3"
    assert [Repeats.geometric(2).quantile(u) for u in (0.499, 0.501, 0.749, 0.751)] == [1, 2, 2, 3]


# ---- what a repeat draws ----------------------------------------------------------------------------------

SPACE = Space({"rate": Float(1e-3, 1.0, log=True), "model/kind": Int(1, 2)})
MANY = Repeats.poisson(30)
TUNE = {
    "rate": tune.loguniform(1e-3, 1.0),
    "model": {"kind": tune.choice([1, 2]), "depth": tune.randint(1, 9)},
    "k": 5,
}


def test_a_list_fills_the_space_evenly_and_is_the_same_for_everybody() -> None:
    listed = quasi_random(SPACE, 64)
    assert listed == quasi_random(SPACE, 64) != quasi_random(SPACE, 64, seed=1)
    decades = np.floor(np.log10([each["rate"] for each in listed]))
    assert max(np.unique(decades, return_counts=True)[1]) <= 22
    assert {each["model/kind"] for each in listed} == {1, 2}


def test_each_repeat_is_one_of_the_candidates_in_optuna_and_in_ray(fast_path: Path) -> None:
    study, seen, candidates = optuna.create_study(), [], quasi_random(SPACE, 8)

    def objective(trial: Any) -> tuple[str, np.ndarray]:
        rate = trial.suggest_float("rate", 1e-3, 1.0, log=True)
        seen.append((rate, trial.suggest_categorical("model/kind", [1, 2]), trial.suggest_int("depth", 1, 9)))
        return "model", np.full(N, rate)

    both = ledgers(fast_path, law=MANY)
    best = in_optuna(study, objective, both, clip=CLIP, candidates=candidates)
    assert study.trials[0].params == best.parameters
    configs = [on_ray.drawn(TUNE, candidates) for _ in range(30)]
    assert {config["k"] for config in configs} == {5}
    for drawn in (seen, [(c["rate"], c["model"]["kind"], c["model"]["depth"]) for c in configs]):
        assert len({depth for _, _, depth in drawn}) > 1, "what no candidate names is drawn"
        pairs = {(rate, kind) for rate, kind, _ in drawn}
        assert len(pairs) > 1
        assert pairs <= {(each["rate"], each["model/kind"]) for each in candidates}


def test_an_empty_list_is_refused_before_anything_is_paid(fast_path: Path) -> None:
    both = ledgers(fast_path, law=MANY)
    for call in (partial(in_optuna, optuna.create_study()), partial(on_ray.repeat_and_select, param_space=TUNE)):
        with pytest.raises(InputError, match="candidates is empty"):
            call(lambda _: ("", []), ledgers=both, clip=CLIP, candidates=[])
    assert [ledger.count() for ledger in both] == [0, 0]


def test_a_process_of_ray_seals_what_the_function_raises(fast_path: Path) -> None:
    def fails(config: dict[str, Any]) -> Any:
        raise KeyboardInterrupt("row 7 has 'Smith'")

    carried, settings = on_ray.PickledFunction(fails), {"clip": CLIP, "secure": True, "noise": None}
    answer = on_ray.select_here(carried, TUNE, ledgers(fast_path, law=MANY), None, settings)
    assert answer.parameters is None
    again = repeat_and_select(lambda: ({}, "", np.zeros(N)), ledgers(fast_path, law=MANY), clip=CLIP)
    assert again.parameters is None


def test_odds_of_candidates_are_the_law_of_a_repeat():
    drawn = [one_of([{"C": 1}, {"C": 2}, {"C": 3}], [6.0, 3.0, 1.0])["C"] for _ in range(4000)]
    shares = np.bincount(drawn, minlength=4)[1:] / 4000
    assert np.abs(shares - [0.6, 0.3, 0.1]).max() < 0.05  # six standard deviations


@pytest.mark.parametrize(("candidates", "odds"), [(None, [1.0]), ([{}, {}], [1.0]), ([{}], [0.0]), ([{}], [np.nan])])
def test_odds_that_are_not_usable_are_refused(candidates, odds):
    with pytest.raises(InputError, match="odds"):
        one_of(candidates, odds)
