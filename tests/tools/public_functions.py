"""How each public function is called, and which of its arguments hold private values."""

import itertools
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import optuna
import pandas as pd
import polars as pl
import pyarrow as pa
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

import dptune
import dptune_optuna
from dptune import Budget, LossPrivatizer, Place, Places, PrivacyLedger, Rows, SearchRun, training
from dptune.audit import Audit
from dptune.choice.public import clip_from
from dptune.federated.agent import FTSAgent, FTSModel
from dptune.federated.messages import Message
from dptune.federated.server import FTSServer
from dptune.federated.settings import FTSSettings
from dptune.federated.transport import InProcess, Participant
from dptune.ledger import PlanLedger, SubsampledGaussian
from dptune.local import HybridRandomizer, HybridReplies, LDPSettings, LocalRandomizer, UserLedger
from dptune.losses.estimator import estimator_losses
from dptune.losses.functions import log_loss
from dptune.losses.named import NamedLoss
from dptune.outsourced import Exchange, OutsourcedCurator
from dptune.outsourced.outputs import PublicOutputs
from dptune.privacy.query import Ball, Box, Interval, MeanQuery, NormQuery
from dptune.privacy.seal.private import PerExampleLosses
from dptune.search import VALUES
from dptune_sklearn import PrivateSearch
from noises import CannedNoise

N = 12  # private people
RNG = np.random.default_rng(0)
X_TRAIN, Y_TRAIN = RNG.normal(size=(40, 2)), np.arange(40) % 2
X, Y, LOSSES = RNG.normal(size=(N, 2)), np.arange(N) % 2, np.full(N, 0.5)
MODELS = [LogisticRegression(C=C).fit(X_TRAIN, Y_TRAIN) for C in (0.1, 1.0)]
PUBLIC_LOSSES = RNG.uniform(size=(2, 40))
FTS = FTSSettings(agents=3, d=2, M=20, own_features=20, candidates=64, initial=2)
NAMES = (f"run {i}" for i in itertools.count())


class Case(NamedTuple):
    """A public function, a call of it that works, and which of the arguments hold private values."""

    call: Callable[..., object]
    given: dict[str, Any]
    private: str = ""  # names, with spaces between
    slow: bool = False  # each call trains models: fewer containers
    works: bool = True  # False: the call is refused, whatever it is given


def cases(folder: Path) -> dict[str, Case]:
    """The table: name of the public function, then after a colon what of it is called."""
    number = itertools.count()

    def ledger() -> PrivacyLedger:
        return PrivacyLedger(folder / f"{next(number)}.db", Budget.gdp(50.0))

    def privatizer(clip: Any = (0.0, 1.0), **people: Any) -> LossPrivatizer:
        return LossPrivatizer(ledger(), clip=clip, noise=CannedNoise(), **(people or {"n": N}))

    shared, users = privatizer(), UserLedger(folder / "users.db", cap=1e6)
    laplace, hybrid = LocalRandomizer(1.0, 1.0), HybridRandomizer(1.0, 1.0)
    server = FTSServer(PlanLedger(folder / "agents.db", SubsampledGaussian(0.5, 1.0, 4), n=3), FTS)
    agent = FTSAgent(FTSModel(FTS), 0, seed=0)

    def chosen(candidates: Any, **options: Any) -> object:
        return dptune.select(candidates, shared, mu=0.01, name=next(NAMES), **options)

    def reported(X: Any, y: Any, like: Any = None, groups: Any = None, **options: Any) -> object:
        pays = shared if groups is None else privatizer(groups=groups)
        data = (X, y) if like is None else Rows(X, y, like=like)
        public = (X_TRAIN, Y_TRAIN)
        return dptune.report(MODELS[0], pays, data=data, public=public, mu=0.01, name=next(NAMES), **options)

    def at_a_place(X: Any, y: Any, groups: Any) -> object:
        places = Places([Place("north", (X, y), groups=groups), Place("south", (X_TRAIN, Y_TRAIN))])
        pays = LossPrivatizer(ledger(), places=places, clip=(0.0, 1.0), noise=CannedNoise())
        return dptune.select(MODELS, pays, data=places, loss="log_loss", mu=0.01)

    def study() -> optuna.Study:
        made = optuna.create_study()
        for C in (0.1, 1.0):
            trial = made.ask({"C": optuna.distributions.FloatDistribution(0.01, 10.0)})
            made.tell(trial, C)
        return made

    def of_study(X: Any, y: Any, **options: Any) -> object:
        return dptune_optuna.choose(
            study(), LogisticRegression(), data=(X, y), loss="log_loss", ledger=shared, mu=0.01, name=next(NAMES),
            public=(X_TRAIN, Y_TRAIN), progress=False, estimate_share=0.0, **options,
        )  # fmt: skip

    def search_of(**settings: Any) -> PrivateSearch:
        search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]})
        return PrivateSearch(
            search, **{"ledger": ledger(), "loss": "log_loss", "mu": 0.1, "estimate_share": 0.0, **settings}
        )

    def searching(**settings: Any) -> PrivateSearch:
        return search_of(**settings).fit(X_TRAIN, Y_TRAIN, X_val=X, y_val=Y)

    def searched(X_val: Any, y_val: Any, groups: Any, **options: Any) -> PrivateSearch:
        search = search_of()
        return search.fit(options.pop("X", X_TRAIN), Y_TRAIN, X_val=X_val, y_val=y_val, groups=groups, **options)

    @cache
    def fitted() -> PrivateSearch:
        return searched(X, Y, None)

    def optimized(losses: Any, **options: Any) -> object:
        objective = dptune_optuna.PrivateObjective(lambda trial: losses, shared, n_trials=1, mu=0.01, **options)
        return optuna.create_study(study_name=next(NAMES)).optimize(objective, n_trials=1)

    def of_model(X: Any, y: Any, **options: Any) -> object:
        def train(trial: Any) -> Any:
            return MODELS[0]

        objective = dptune_optuna.PrivateObjective(
            train, shared, n_trials=1, mu=0.01, loss="log_loss", data=(X, y), **options
        )
        return optuna.create_study(study_name=next(NAMES)).optimize(objective, n_trials=1)

    def on_device(value: Any, user: Any) -> object:
        asked = (lambda trial: user()) if callable(user) else user
        objective = dptune_optuna.LocalObjective(lambda trial: value, laplace, ledger=users, user=asked)
        return optuna.create_study(direction="maximize").optimize(objective, n_trials=1)

    def run(losses: Any) -> object:
        made = SearchRun(VALUES, shared, scope=next(NAMES), space=None, mu=0.01, trials=4, final_share=0.0)
        return made.finish("a", {"x": 1}, losses)

    def selected(losses: Any) -> object:
        plan = training.SelectionPlan(training.Repeats.poisson(3), score_mu=0.5)
        people = training.TrainingLedger(folder / f"{next(number)}.db", plan, n=N)
        return dptune_optuna.repeat_and_select(
            optuna.create_study(), lambda trial: (None, losses), [people], clip=(0, 1)
        )

    def curator(table: Any, **settings: Any) -> object:
        outputs = PublicOutputs(lambda row: 0.5, because="they are in a yearbook")
        made = OutsourcedCurator(
            ledger(), table, outputs=outputs, folder=folder / f"own {next(number)}", noise=CannedNoise(), **settings
        )
        return made.export(folder / f"shared {next(number)}", mu=0.1)

    bounds = {"epsilon": 1.0, "bound": 1.0, "invalid": None}
    ends = {"low": 0.0, "high": 1.0, "log": False, "step": None}
    people = {"n": N, "clip": (0.0, 1.0), "person_weights": np.ones(N), "dtype": np.float32}
    query = {"points": ["a"], "weights": [[1.0]], "mu": 0.1}
    rows = {"X": X, "y": Y}
    return {
        "dptune.LossPrivatizer": Case(lambda **of: LossPrivatizer(ledger(), **of), people, "person_weights"),
        "dptune.LossPrivatizer: of groups": Case(lambda groups: privatizer(groups=groups), {"groups": Y}, "groups"),
        "dptune.LossPrivatizer.observe": Case(
            lambda losses, point: (point, shared.observe(next(NAMES), losses)),
            {"losses": LOSSES, "point": "a"},
            "losses",
        ),
        "dptune.LossPrivatizer.submit": Case(
            lambda losses: shared.submit(next(NAMES), losses), {"losses": LOSSES}, "losses"
        ),
        "dptune.LossPrivatizer.checked": Case(shared.checked, {"losses": LOSSES}, "losses"),
        "dptune.LossPrivatizer.means_query": Case(shared.means_query, {"points": ["a", "b"], "mu": 0.1}),
        "dptune.privacy.PerExampleLosses": Case(PerExampleLosses, {"values": LOSSES}, "values"),
        "dptune.select": Case(chosen, {"candidates": np.stack([LOSSES, LOSSES])}, "candidates"),
        "dptune.select: a list": Case(lambda one: chosen([LOSSES, one]), {"one": LOSSES}, "one"),
        "dptune.select: public_losses": Case(
            lambda one, **o: chosen([LOSSES, one], **o),
            {"one": LOSSES, "public_losses": PUBLIC_LOSSES, "default_place": 0, "estimate_share": 0.0},
            "one",
        ),
        "dptune.select: models": Case(
            lambda X, y, **o: chosen(MODELS, data=(X, y), **o), {**rows, "loss": "log_loss"}, "X y"
        ),
        "dptune.select: Rows": Case(
            lambda X, y, like: chosen(MODELS, data=Rows(X, y, like=like), loss="log_loss"),
            {**rows, "like": X_TRAIN},
            "X y like",
        ),
        "dptune.select: a price": Case(
            lambda **o: chosen([LOSSES, LOSSES], **o), {"estimate_share": 0.0, "public_weight": 1.0, "default_place": 0}
        ),
        "dptune.select: data": Case(lambda data: chosen(MODELS, data=data, loss="log_loss"), {"data": (X, Y)}, "data"),
        "dptune.select: its people": Case(
            lambda candidates, groups, n: dptune.select(candidates, ledger(), groups=groups, n=n, clip=(0, 1)),
            {"candidates": np.stack([LOSSES, LOSSES]), "groups": Y, "n": None},
            "candidates groups",
        ),
        "dptune.clip_from": Case(clip_from, {"losses": LOSSES}, "losses"),
        "dptune.PublicChoice": Case(
            lambda **o: dptune.PublicChoice(privatizer=shared, **o),
            {
                "public_losses": PUBLIC_LOSSES,
                "name": "choice",
                "default_place": 0,
                "estimate_share": 0.0,
                "public_weight": 1.0,
                "finalists": 2,
                "loss": "log_loss",
            },
        ),
        "dptune.PublicChoice.choose": Case(
            lambda losses: dptune.PublicChoice(PUBLIC_LOSSES, shared, name=next(NAMES), mu=0.01).choose(losses),
            {"losses": {0: LOSSES, 1: LOSSES}},
            "losses",
        ),
        "dptune.PublicChoice.choose: one": Case(
            lambda one: dptune.PublicChoice(PUBLIC_LOSSES, shared, name=next(NAMES), mu=0.01).choose(
                {0: LOSSES, 1: one}
            ),
            {"one": LOSSES},
            "one",
        ),
        "dptune.PublicChoice.choose_each": Case(
            lambda one: dptune.PublicChoice(PUBLIC_LOSSES, shared, name=next(NAMES), mu=0.01).choose_each(
                [(0, LOSSES), (1, one)]
            ),
            {"one": LOSSES},
            "one",
        ),
        "dptune.report": Case(reported, {**rows, "like": X_TRAIN, "by": None}, "X y like by", slow=True),
        "dptune.report: its settings": Case(
            lambda **o: reported(X, Y, **o),
            {"groups": Y, "positive": 1, "threshold": 0.5, "bins": 4, "cv": 5, "scores": None},
            "groups",
            slow=True,
        ),
        "dptune.Place": Case(at_a_place, {**rows, "groups": np.arange(N)}, "X y groups"),
        "dptune.Places": Case(Places, {"places": [Place("north", (X, Y))]}),
        "dptune.Rows": Case(
            lambda X, y, like: estimator_losses("log_loss", MODELS[0], X, y, like=like),
            {**rows, "like": X_TRAIN},
            "X y like",
        ),
        "dptune.losses.functions": Case(
            partial(log_loss, labels=[0, 1]), {"y": Y, "proba": np.full((N, 2), 0.5)}, "y proba"
        ),
        "dptune.losses.NamedLoss": Case(
            lambda **o: NamedLoss(function=abs, **o),
            {"name": "own", "output": "predict", "note": "", "most": 1.0, "uses_labels": False, "known_clip": True},
        ),
        "dptune.SearchRun.finish": Case(run, {"losses": LOSSES}, "losses"),
        "dptune.SearchRun.estimate": Case(
            lambda losses: SearchRun(
                VALUES, shared, scope=next(NAMES), space=None, mu=0.01, trials=1, final_share=0.5
            ).estimate({"x": 1}, losses, early=True),
            {"losses": LOSSES},
            "losses",
        ),
        "dptune.drive": Case(
            lambda losses: dptune.drive(
                SearchRun(VALUES, shared, scope=next(NAMES), space=None, mu=0.01, trials=1, final_share=0.0),
                lambda points: [losses],
                ask=lambda run: {"x": 1},
            ),
            {"losses": LOSSES},
            "losses",
        ),
        "dptune.audit.Audit": Case(
            lambda X, y, **o: Audit(lambda X, y: LOSSES, X, y, **o), {**rows, "clip": (0.0, 1.0), "mu": 1.0}, "X y"
        ),
        "dptune.local.UserLedger.reply": Case(
            lambda value, user, key: users.reply(laplace, value, user=user, key=key),
            {"value": 0.5, "user": "ann", "key": "a"},
            "value user",
        ),
        "dptune.local.UserLedger.spent": Case(users.spent, {"user": "ann"}, "user"),
        "dptune.local.UserLedger.remaining": Case(users.remaining, {"user": "ann"}, "user"),
        "dptune.local.UserLedger.private": Case(users.private, {"user": "ann"}, "user"),
        "dptune.local.LocalRandomizer": Case(LocalRandomizer, bounds),
        "dptune.local.HybridRandomizer": Case(HybridRandomizer, bounds),
        "dptune.local.LocalRandomizer.randomize": Case(laplace.randomize, {"value": 0.5}, "value"),
        "dptune.local.HybridRandomizer.randomize": Case(hybrid.randomize, {"value": 0.5}, "value"),
        "dptune.local.LocalRandomizer.clamp": Case(laplace.clamp, {"value": 0.5}, "value"),
        "dptune.local.LocalRandomizer.standardised": Case(laplace.standardised, {"value": 0.5}, "value"),
        "dptune.local.LDPSettings": Case(
            LDPSettings, {"replies": HybridReplies(1.0, 1.0, 1.0), "lam": 1.0, "delta": 0.1, "horizon": 10, "plays": 1}
        ),
        "dptune.outsourced.OutsourcedCurator": Case(
            curator, {"table": X, "scale": 1.0, "row_norm": 1.0, "middle": 0.0, "projection": np.eye(2)}, "table"
        ),
        "dptune.outsourced.Exchange": Case(Exchange, {"folder": folder / "exchange"}),
        "dptune.outsourced.Exchange.answer": Case(
            Exchange(folder / "answers").answer, {"t": 1, "row": 0, "y": 0.5}, "y"
        ),
        "dptune.federated.FTSAgent.tell": Case(agent.tell, {"x": [0.5, 0.5], "y": 0.5}, "x y"),
        "dptune.federated.Participant.tell": Case(
            lambda x, y: Participant(FTSAgent(FTSModel(FTS), 0, seed=0), InProcess(server, timeout=1.0)).tell(x, y),
            {"x": [0.5, 0.5], "y": 0.5},
            "x y",
        ),
        "dptune.federated.Message": Case(lambda weights: Message(0, 0, weights), {"weights": np.zeros(20)}, "weights"),
        "dptune.training.TrainingLedger": Case(selected, {"losses": LOSSES}, "losses"),
        "dptune_optuna.choose": Case(
            of_study,
            {**rows, "groups": None, "cv": 5, "public_losses": None, "public_weight": 1.0},
            "X y groups",
            slow=True,
        ),
        "dptune_optuna.candidate": Case(
            lambda held_out: dptune_optuna.candidate(None, MODELS[0], held_out=held_out),
            {"held_out": (X, Y)},
            "held_out",
        ),
        "dptune_optuna.PrivateObjective": Case(optimized, {"losses": LOSSES}, "losses"),
        "dptune_optuna.PrivateObjective: data": Case(of_model, rows, "X y"),
        "dptune_optuna.LocalObjective": Case(on_device, {"value": 0.5, "user": "ann"}, "value user"),
        "dptune_optuna.repeat_and_select": Case(selected, {"losses": LOSSES}, "losses"),
        "dptune_sklearn.PrivateSearch.fit": Case(
            searched, {"X_val": X, "y_val": Y, "groups": None}, "X_val y_val groups", slow=True
        ),
        **{
            f"dptune_sklearn.PrivateSearch.fit: {each.__module__}": Case(
                lambda X_val, made=each: searched(X_val, Y, None, X=made({"a": X_TRAIN[:, 0], "b": X_TRAIN[:, 1]})),
                {"X_val": each({"a": X[:, 0], "b": X[:, 1]})},
                "X_val",
                slow=True,
                works=each is pd.DataFrame,
            )
            for each in (pd.DataFrame, pl.DataFrame, pa.table)
        },
        "dptune_sklearn.PrivateSearch.report": Case(
            lambda **of: fitted().report(X_TRAIN, Y_TRAIN, **of),
            {"X_val": X, "y_val": Y, "groups": None},
            "X_val y_val groups",
            slow=True,
        ),
        "dptune_sklearn.PrivateSearch: its settings": Case(
            searching, {"random_state": 0, "verbose": 0, "public_weight": 1.0, "estimate_share": 0.0}, slow=True
        ),
        "dptune_sklearn.PrivateSearch.plan": Case(lambda n: fitted().plan(X_TRAIN, Y_TRAIN, n=n), {"n": N}, slow=True),
        "dptune.Float": Case(dptune.Float, ends),
        "dptune.Int": Case(dptune.Int, {"low": 0, "high": 9, "log": False, "step": 1}),
        "dptune.Space": Case(dptune.Space, {"parameters": {"a": dptune.Float(0.0, 1.0)}}),
        "dptune.Budget": Case(Budget, {"mu": 0.1, "stated_epsilon": 1.0, "stated_delta": 1e-5}),
        "dptune.Budget.approximate_dp": Case(Budget.approximate_dp, {"epsilon": 1.0, "delta": 1e-5}),
        "dptune.PrivacyLedger": Case(
            lambda dataset, unit: PrivacyLedger(
                folder / f"{next(number)}.db", Budget.gdp(1.0), dataset=dataset, unit=unit
            ),
            {"dataset": "people", "unit": "person"},
        ),
        "dptune.PrivacyLedger: url": Case(PrivacyLedger, {"url": folder / "of_settings.db", "budget": Budget.gdp(1.0)}),
        "dptune.privacy.Interval": Case(Interval, {"low": 0.0, "high": 1.0}),
        "dptune.privacy.Interval.of": Case(Interval.of, {"clip": (0.0, 1.0)}),
        "dptune.privacy.Box": Case(Box, {"low": 0.0, "high": 1.0, "dimension": 2}),
        "dptune.privacy.Ball": Case(Ball, {"radius": 1.0}),
        "dptune.privacy.MeanQuery": Case(MeanQuery, {**query, "clip": Interval(0.0, 1.0)}),
        "dptune.privacy.NormQuery": Case(NormQuery, {**query, "radius": 1.0}),
        "dptune.training.Repeats": Case(training.Repeats, {"mean": 3.0, "shape": None}),
        "dptune.training.TrainingPlan": Case(
            training.TrainingPlan, {"noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 10, "trainings": 1}
        ),
    }
