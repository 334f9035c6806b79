"""Every setting that decides an answer is part of the answer's key: a changed setting never returns an old answer.

The test reads settings from signatures and dataclasses, so a new setting without a case here fails.
"""

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

import dptune
from dptune import CENTRED, Budget, Float, LossPrivatizer, PrivacyLedger, SearchRun, Space
from dptune.choice.proposals import ChoiceOptions
from dptune.errors import BudgetMismatch, KeyConflict, LedgerError
from dptune.losses.named import NamedLoss
from dptune.privacy.noise import SeededNoise
from dptune.training import Repeats, SelectionPlan, TrainingLedger
from dptune.training.repeats import repeat_and_select
from dptune_optuna import choose
from dptune_optuna import repeat_and_select as in_optuna

N = 40
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 2)), RNG.integers(2, size=60)
PRIVATE = RNG.normal(size=(N, 2)), RNG.integers(2, size=N)
LOSSES, PUBLIC = RNG.uniform(size=(4, N)), RNG.uniform(size=(4, 30))
SPACE = Space({"a": Float(0.0, 1.0), "b": Float(0.0, 1.0)})
OWN = NamedLoss("own", lambda y, p: np.abs(y - p))
Settings = dict[str, Any]


@dataclass(frozen=True)
class Surface:
    """A function whose answers a ledger keeps: the first call, with ``base``, pays for the answer.

    ``changed`` has what is changed for each setting that decides the answer, and ``free`` why others may be any.
    """

    answer: Callable[[Path, Settings], Any]
    fields: tuple[str, ...]
    base: Settings
    changed: Mapping[str, Settings]
    free: Mapping[str, str]


def parameters(function: Callable[..., Any], *without: str) -> tuple[str, ...]:
    return tuple(name for name in inspect.signature(function).parameters if name not in without)


def each(**changed: Any) -> dict[str, Settings]:
    """Each setting changed by itself."""
    return {name: {name: value} for name, value in changed.items()}


NAME = "it is the name"
CONSENT = "it allows what is refused without it"
PAYER = ("groups", "n", "clip", "budget")  # of a privatizer that a ledger is filled with: see LossPrivatizer
PEOPLE = "private: no ledger keeps a digest of it"


def people(folder: Path, **changed: Any) -> LossPrivatizer:
    ledger = PrivacyLedger(folder / "ledger.db", Budget.gdp(2.0))
    return LossPrivatizer(ledger, **{"n": N, "clip": (0.0, 1.0), **changed})


# ---- choices -------------------------------------------------------------------------------------------


def models(*strengths: float) -> list[LogisticRegression]:
    return [LogisticRegression(C=C).fit(X, Y) for C in strengths]


def selected(folder: Path, given: Settings) -> Any:
    settings = dict(given)
    who = people(folder, **settings.pop("ledger", {}))
    return dptune.select(settings.pop("candidates"), who, name="x", **settings)


OF_MODELS = Surface(
    selected,
    parameters(dptune.select, *PAYER, "public_losses", "public_weight", "finalists", "report_share"),
    {"candidates": models(0.1, 1.0, 9.0), "mu": 0.5, "loss": "zero_one", "data": PRIVATE, "default_place": 0,
     "estimate_share": 0.2},
    each(candidates=models(0.1, 2.0, 9.0), ledger={"clip": (0.0, 2.0)}, mu=0.6, loss=OWN, default_place=1,
         estimate_share=0.3),
    {"name": NAME, "data": PEOPLE, "even_if_hopeless": CONSENT},
)  # fmt: skip
OF_PUBLIC_LOSSES = Surface(
    selected,
    parameters(dptune.select, *PAYER),
    {
        "candidates": LOSSES,
        "public_losses": PUBLIC,
        "mu": 0.5,
        "default_place": 0,
        "estimate_share": 0.2,
        "finalists": 3,
    },
    {
        **each(public_losses=PUBLIC[:, ::-1], ledger={"clip": (0.0, 2.0)}, mu=0.6, default_place=1, estimate_share=0.3),
        **each(public_weight=0.5, finalists=2, estimate_share=0.3),
        "loss": {"candidates": models(0.1, 1.0, 2.0, 9.0), "loss": "brier", "data": PRIVATE},
        "report_share": {"mu": None, "report_share": 0.2},
    },
    {"name": NAME, "data": PEOPLE, "candidates": "their public losses stand for them", "even_if_hopeless": CONSENT},
)


@cache
def study(trials: int = 4) -> optuna.Study:
    found = optuna.create_study(study_name="s", sampler=optuna.samplers.RandomSampler(seed=0))
    found.optimize(lambda trial: trial.suggest_float("C", 1e-3, 1e3, log=True), trials)
    return found


def trained(trial: Any, A: Any, b: Any) -> Any:
    return LogisticRegression(**trial.params).fit(A, b)


def other(trial: Any, A: Any, b: Any) -> Any:
    return LogisticRegression(fit_intercept=False, **trial.params).fit(A, b)


def chosen(folder: Path, given: Settings) -> Any:
    settings = dict(given)
    proposing, train = study(settings.pop("study", 4)), settings.pop("train", trained)
    return choose(proposing, train, progress=False, **{"ledger": people(folder), **settings}).selection


OF_A_STUDY = Surface(
    chosen,
    ("study", "train", *(name for name in ChoiceOptions.__annotations__ if name not in ("ledger", *PAYER))),
    {"loss": "brier", "data": PRIVATE, "public": (X, Y), "default": {"C": 1.0}, "mu": 0.5, "name": "x",
     "cv": KFold(3), "finalists": 3},
    {
        **each(study=5, train=other, public=(X, Y[::-1]), cv=KFold(4), default={"C": 7.0}, candidates=3, averages=True),
        "public_losses": {"public_losses": PUBLIC, "default": None},
        "report_share": {"mu": None, "report_share": 0.2},
    },
    {
        "name": NAME,
        "data": PEOPLE,
        "even_if_hopeless": CONSENT,
        "dry_run": "it makes no choice",
        **dict.fromkeys(("loss", "mu", "public_weight", "estimate_share", "finalists"), "as in select"),
    },
)  # fmt: skip

# ---- runs ----------------------------------------------------------------------------------------------


def begun(folder: Path, given: Settings) -> Any:
    """A run's answer is its recommendation; it begins with the agreement on its plan."""
    settings = dict(given)
    method, who = settings.pop("method", CENTRED), people(folder, **settings.pop("privatizer", {}))
    run = SearchRun(method, who, scope="x", **settings)
    if settings == BEGUN:
        for i in range(run.plan.trials):
            at = run.ask(i)
            run.finish(str(i), at, np.full(N, at["a"]))
    return run.recommend()


BEGUN = {"space": SPACE, "mu": 0.5, "seed": 1, "default": {"a": 0.5, "b": 0.5}, "trials": 16}
OF_A_RUN = Surface(
    begun,
    (*parameters(SearchRun, "settings"), "trials", *CENTRED.options),
    BEGUN,
    {
        **each(method=dptune.GIBO, privatizer={"clip": (0.0, 2.0)}, mu=0.6, seed=2, trials=24, population=5),
        **each(space=Space({"a": Float(0.0, 2.0), "b": Float(0.0, 1.0)}), default={"a": 0.5, "b": 0.4}),
        **each(radius=0.3, final_share=0.2, tuning={"sigma": 0.3}),
    },
    {"scope": NAME},
)
OTHER_PEOPLE = each(n=N - 1, clip=(0.0, 2.0), dtype=np.float64, noise=SeededNoise(0))
OTHER_PEOPLE["person_weights"] = {"person_weights": np.arange(1, N + 1)}
OTHER_PEOPLE["groups"] = {"n": None, "groups": np.arange(2 * N) // 2}
OF_PEOPLE = Surface(
    begun,
    parameters(LossPrivatizer),
    BEGUN,
    {name: {"privatizer": changed} for name, changed in OTHER_PEOPLE.items()},
    {"ledger": "it holds the answers", "places": "they give n"},
)

# ---- reports, repeats ----------------------------------------------------------------------------------


def reported(folder: Path, given: Settings) -> Any:
    settings = dict(given)
    who = people(folder, **settings.pop("ledger", {}))
    return dptune.report(settings.pop("model"), who, **settings)


KINDS = RNG.integers(2, size=60)
WITH_KINDS = np.column_stack([X, KINDS])
OF_A_REPORT = Surface(
    reported,
    parameters(dptune.report, *PAYER),
    {"model": LogisticRegression().fit(WITH_KINDS, Y), "data": (WITH_KINDS[:N].copy(), Y[:N].copy()),
     "public": (WITH_KINDS, Y), "mu": 0.5, "bins": 3},
    {
        **each(model=LogisticRegression(C=0.01).fit(WITH_KINDS, Y), ledger={"person_weights": np.arange(1, N + 1)}),
        **each(public=(WITH_KINDS[::-1], Y[::-1]), mu=0.6, by=2, positive=0, threshold=0.6, bins=6),
    },
    {
        "name": NAME,
        "data": PEOPLE,
        "held_out": "instead of public=",
        "scores": "they place the bins, which the first call has fixed",
        "cv": "as scores",
        "fit_params": "as scores: refits alone get them",
    },
)  # fmt: skip


def repeated(folder: Path, given: Settings) -> Any:
    plan = SelectionPlan(Repeats.geometric(3), score_mu=0.5)
    ledgers = [TrainingLedger(folder / f"{name}.db", plan, n=N) for name in given.pop("ledgers", ["score"])]
    if "study" in given:
        return in_optuna(given.pop("study"), lambda trial: ("model", np.full(N, 0.5)), ledgers, **given)
    return repeat_and_select(lambda: ({"a": 1}, "model", np.full(N, 0.5)), ledgers, **given)


OF_REPEATS = Surface(
    lambda folder, given: repeated(folder, dict(given)),
    (*parameters(repeat_and_select), *parameters(in_optuna, *parameters(repeat_and_select))),
    {"clip": (0.0, 1.0)},
    each(clip=(0.0, 2.0), noise=SeededNoise(0)),
    {
        "secure": "the ledger says how the trainings that were paid for drew their noise",
        "once": "a ledger pays for one selection, whatever it repeats",
        "ledgers": "they hold the answer",
        "study": "as once",
        "objective": "as once",
        "candidates": "as once",
        "odds": "as once",
    },
)

SURFACES = {
    "select": OF_MODELS,
    "select with public_losses=": OF_PUBLIC_LOSSES,
    "choose": OF_A_STUDY,
    "SearchRun": OF_A_RUN,
    "LossPrivatizer": OF_PEOPLE,
    "report": OF_A_REPORT,
    "repeat_and_select": OF_REPEATS,
}


def test_every_setting_has_a_case() -> None:
    for name, surface in SURFACES.items():
        assert sorted([*surface.changed, *surface.free]) == sorted(surface.fields), name


def charges(folder: Path) -> list[Any]:
    opened: list[Any] = []
    for path in sorted(folder.glob("*.db")):
        opened.append(PrivacyLedger(path) if path.stem == "ledger" else TrainingLedger(path))
    return [charge for ledger in opened for charge in ledger.charges()]


@pytest.mark.parametrize("name", SURFACES)
def test_only_the_same_settings_return_the_same_answer_at_no_cost(fast_path: Path, name: str) -> None:
    surface = SURFACES[name]
    answer = surface.answer(fast_path, surface.base)
    paid = charges(fast_path)
    again = surface.answer(fast_path, surface.base)
    assert charges(fast_path) == paid != []
    if name == "repeat_and_select":  # the model is not kept
        again, answer = (dataclasses.replace(one, model=None) for one in (again, answer))
    assert str(again) == str(answer)
    for field, changed in surface.changed.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                returned = surface.answer(fast_path, {**surface.base, **changed})
            except (BudgetMismatch, KeyConflict, LedgerError):
                returned = None
        assert returned is None, f"with another {field} the old answer is returned"
        assert charges(fast_path) == paid, field
