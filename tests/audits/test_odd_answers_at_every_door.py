"""One person's odd answer, or a failing loss of one person, changes only that person's loss in every front end.

No call raises, the ledger stores the same entries under canned noise, and all other losses and cells keep every byte.
tests/losses/test_one_odd_answer.py tests the readers and containers below the front ends.
"""

import functools
import itertools
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV

import dptune
import dptune_optuna
from dptune.losses import examples
from dptune.losses.functions import label_codes
from dptune.losses.named import NamedLoss
from dptune.privacy.noise import OpenDPNoise
from dptune.privacy.observed import ObservedLosses
from dptune.privacy.seal.private import reveal
from dptune_sklearn import PrivateSearch

N = 40
RNG = np.random.default_rng(3)


class Word(str):
    """A text that refuses to be compared."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("secret")

    __hash__ = None


class Refuses:
    """An object that refuses to be looked at."""

    def refuse(self, *args: Any) -> Any:
        raise SystemExit("secret")

    __array__ = __len__ = __getitem__ = __float__ = __eq__ = __bool__ = __hash__ = refuse


ODD: list[Any] = [None, np.nan, [0, 1], [[0]], {}, {"a": 1}, np.array([0, 1]), np.array(1j), 10**400, Decimal("NaN")]
ODD += [Decimal("0.5"), b"\xff", b"x", "?", "", Word("x"), 1j, np.ma.masked, np.datetime64("NaT"), pd.NaT, pd.NA]
ODD += [np.timedelta64(3, "D"), range(3), pd.Series([1]), Refuses(), Refuses, "cut \ud83d", 9]


def people(n: int) -> tuple[np.ndarray, np.ndarray]:
    X = RNG.normal(size=(n, 3))
    X[:, 2] = RNG.integers(0, 2, n)
    return X, (X[:, 0] + 0.5 * RNG.normal(size=n) > 0).astype(int)


PUBLIC, PRIVATE = people(60), people(N)
COST = np.array([[0.0, 0.2], [1.0, 0.0]])


def strict(y: Any, prediction: Any) -> Any:
    """A loss that fails if one answer is missing."""
    if np.isnan(y).any():
        raise SystemExit("secret")
    return np.abs(y - prediction)


def says(odd: Any) -> Callable[[Any, Any], Any]:
    """Return a loss that is `odd` where an answer is missing."""
    return lambda y, p: [odd if np.isnan(a) else abs(a - b) for a, b in zip(y, p, strict=True)]


def own(function: Any, **settings: Any) -> NamedLoss:
    return NamedLoss("own", function, most=1.0, known_clip=True, **settings)


LOSSES: dict[str, Any] = {
    "log_loss": "log_loss",
    "zero_one": "zero_one",
    "costs": own(lambda y, p, labels: COST[y, p], uses_labels=True),
    "costs of whole numbers": own(lambda y, p, labels: COST[y.astype(int), p.astype(int)], uses_labels=True),
    "mse": "mse",
    "strict": own(strict),
    "int": own(lambda y, p: np.array([abs(int(a) - b) for a, b in zip(y, p, strict=True)])),
    "too short": own(lambda y, p: np.abs(y - p)[~np.isnan(y)]),
    "too wide": own(lambda y, p: np.ones((len(y), 2)) if np.isnan(y).any() else np.abs(y - p)),
    **{f"says {type(odd).__name__}": own(says(odd)) for odd in (None, 1j, "x", [1.0], {}, 10**400, Refuses())},
}
OF_NUMBERS = list(LOSSES)[4:]


def model_of(loss: str, C: float) -> Any:
    return Ridge(alpha=1 / C) if loss in OF_NUMBERS else LogisticRegression(C=C)


def select(ledger: Any, loss: str, y: Any) -> None:
    models = [model_of(loss, C).fit(*PUBLIC) for C in (0.01, 1.0)]
    dptune.select(models, ledger, data=(PRIVATE[0], y), loss=LOSSES[loss], mu=0.5, clip=(0, 1))


def select_by_public_losses(ledger: Any, loss: str, y: Any) -> None:
    models = [model_of(loss, C).fit(*PUBLIC) for C in (0.01, 1.0)]
    V = np.random.default_rng(0).uniform(size=(2, 60))
    dptune.select(
        models,
        ledger,
        data=dptune.Rows(PRIVATE[0], y, like=PUBLIC[0]),
        loss=LOSSES[loss],
        public_losses=V,
        even_if_hopeless=True,
    )


def report(ledger: Any, loss: str, y: Any, **settings: Any) -> None:
    model = model_of(loss, 1.0).fit(*PUBLIC)
    dptune.report(model, ledger, data=(PRIVATE[0], y), public=PUBLIC, mu=0.5, **settings)


def search(ledger: Any, loss: str, y: Any) -> None:
    model = model_of(loss, 1.0)
    name = "alpha" if loss in OF_NUMBERS else "C"
    inner = GridSearchCV(model, {name: [0.01, 1.0, 100.0]}, cv=2)
    found = PrivateSearch(inner, ledger=ledger, loss=LOSSES[loss], report_share=0.3, even_if_hopeless=True)
    private = {"X_val": PRIVATE[0], "y_val": y}
    found.fit(*PUBLIC, **private).report(*PUBLIC, **private, by=2)


def choose(ledger: Any, loss: str, y: Any) -> None:
    study = optuna.create_study()
    space = {"C": optuna.distributions.FloatDistribution(1e-3, 1e3)}
    for value, C in enumerate((1.0, 0.01, 100.0)):
        study.add_trial(optuna.trial.create_trial(params={"C": C}, distributions=space, value=value))

    def train(trial: Any, X: Any, y: Any) -> Any:
        return model_of(loss, trial.suggest_float("C", 1e-3, 1e3)).fit(X, y)

    data = PRIVATE[0], y
    dptune_optuna.choose(
        study,
        train,
        ledger=ledger,
        loss=LOSSES[loss],
        data=data,
        public=PUBLIC,
        cv=2,
        even_if_hopeless=True,
        progress=False,
    )


def objective(ledger: Any, loss: str, y: Any) -> None:
    privatizer = dptune.LossPrivatizer(ledger, n=N, clip=(0.0, 1.0))
    sampler = dptune_optuna.DPGIBOSampler(
        privatizer, {"C": optuna.distributions.FloatDistribution(1e-2, 1e2, log=True)}, n_trials=12, seed=1
    )

    @sampler.objective(loss=LOSSES[loss], data=(PRIVATE[0], y))
    def train(trial: Any) -> Any:
        return model_of(loss, trial.suggest_float("C", 1e-2, 1e2, log=True)).fit(*PUBLIC)

    optuna.create_study(sampler=sampler, study_name="study").optimize(train, n_trials=2)


DOORS = {each.__name__: each for each in (select_by_public_losses, report, search, choose, objective)}
DOORS["report by"] = functools.partial(report, by=2)


def through(door: Any, folder: Path, loss: str, y: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], Any]:
    """Return the ledger's entries, and all that the privatizer was handed, (..., N)."""
    handed: list[np.ndarray] = []
    true = ObservedLosses.checked

    def checked(self: Any, losses: Any) -> Any:
        wrapped = true(self, losses)
        handed.append(reveal(wrapped).copy())
        return wrapped

    with monkeypatch.context() as patch:
        patch.setattr(ObservedLosses, "checked", checked)
        patch.setattr(OpenDPNoise, "add_gaussian", lambda self, statistic, sigma: np.full(len(statistic), 0.25))
        patch.setattr(OpenDPNoise, "noisy_argmin", lambda self, statistic, scale: 1)
        ledger = dptune.PrivacyLedger(folder, dptune.Budget.gdp(mu=2.0))
        door(ledger, loss, y)
    entries = [(c.scope, c.key, c.value, c.description) for c in ledger.charges()]
    return entries, np.array(handed)


def assert_alone(
    door: Any, folder: Path, loss: str, odd: list[list[Any]], monkeypatch: pytest.MonkeyPatch, usual: Any = PRIVATE[1]
) -> None:
    """Whoever is odd, at the first places of the people, moves nobody else."""
    usual = usual.tolist()
    ledgers = (folder / f"{number}.db" for number in itertools.count())
    entries, handed = through(door, next(ledgers), loss, usual, monkeypatch)
    assert len(entries) > 0
    assert np.isfinite(handed).all()
    for each in odd:
        found, theirs = through(door, next(ledgers), loss, [*each, *usual[len(each) :]], monkeypatch)
        assert found == entries, each
        assert theirs.shape == handed.shape
        assert theirs[:, len(each) :].tobytes() == handed[:, len(each) :].tobytes(), each


@pytest.mark.parametrize("loss", ["zero_one", "mse"])
def test_one_odd_answer_at_a_time(fast_path, monkeypatch, loss):
    assert_alone(select, fast_path, loss, [[each] for each in ODD], monkeypatch)


@pytest.mark.parametrize("loss", ["log_loss", "mse"])
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_many_odd_answers_at_once(fast_path, monkeypatch, door, loss):
    assert_alone(door, fast_path, loss, [ODD, [[0, 1]]], monkeypatch)


@pytest.mark.parametrize("hold", [list, lambda rows: pd.Series(rows, dtype=object).to_numpy()], ids=["list", "objects"])
def test_odd_rows_and_cells_in_the_column_of_groups(fast_path, monkeypatch, hold):
    def door(ledger: Any, loss: str, rows: Any) -> None:
        model = model_of(loss, 1.0).fit(*PUBLIC)
        dptune.report(model, ledger, data=(hold(rows), PRIVATE[1]), public=PUBLIC, mu=0.5, by=2)

    odd = [None, 1.0, Refuses(), *([0.5, 0.5, each] for each in ODD)]
    assert_alone(door, fast_path, "zero_one", [odd], monkeypatch, PRIVATE[0])


ASKS_LOSS = [(door, loss) for door in (select_by_public_losses, search, choose, objective) for loss in ("costs", "int")]


@pytest.mark.parametrize(("door", "loss"), [*((select, loss) for loss in LOSSES), *ASKS_LOSS])
def test_a_loss_that_fails_for_one_person(fast_path, monkeypatch, door, loss):
    assert_alone(door, fast_path, loss, [["?"]], monkeypatch)


# ---- what is refused before the charge -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda y, p: y.undefined, "fails .AttributeError: .* for every public pair"),
        (lambda y, p: [COST[a, int(b)] for a, b in zip(y, p, strict=True)], "fails .IndexError"),
        (lambda y, p: ["x"] * len(y), "gives no number"),
        (lambda y, p: 0.5, "must be a vector"),
        (lambda y, p: np.abs(y - p) if len(y) == 1 else None, "several rows, and not on one"),
        (lambda y, p: np.abs(y - p) - np.abs(y - p).mean(), "another loss when other rows"),
        (lambda y, p: np.sort(np.abs(y - p)), "another loss when other rows"),
        (lambda y, p: np.argsort(np.argsort(np.abs(y - p))) / len(y), "another loss when other rows"),
        (lambda y, p: np.abs(np.nan_to_num(y, nan=np.nanmax(y, initial=0)) - p), "another loss when other rows"),
        (lambda y, p: np.random.uniform(size=len(y)), "another loss when other rows"),  # chance of equal draws: 0
    ],
)
@pytest.mark.parametrize("door", [select, objective], ids=["select", "objective"])
def test_a_loss_that_fails_for_everybody_or_looks_at_others(fast_path, monkeypatch, function, words, door):
    monkeypatch.setitem(LOSSES, "strict", own(function))
    ledger = dptune.PrivacyLedger(fast_path / "l.db", dptune.Budget.gdp(mu=2.0))
    with pytest.raises(dptune.InputError, match=f"(?s){words}.*Nothing was charged"):
        door(ledger, "strict", PRIVATE[1])
    assert ledger.count() == 0


def test_public_answers_have_the_type_of_private_ones(fast_path, monkeypatch):
    """Whole numbers are float64 for a loss without labels, in cross-validation too."""
    monkeypatch.setitem(LOSSES, "log_loss", own(lambda y, p: COST[y, p]))
    ledger = dptune.PrivacyLedger(fast_path / "l.db", dptune.Budget.gdp(mu=2.0))
    for door in (search, choose):
        with pytest.raises((IndexError, ValueError, dptune.InputError)):
            door(ledger, "log_loss", PRIVATE[1])
    assert ledger.count() == 0


def test_labels_of_text_need_a_loss_that_uses_labels(fast_path):
    model = LogisticRegression().fit(PUBLIC[0], np.where(PUBLIC[1], "yes", "no"))
    ledger = dptune.PrivacyLedger(fast_path / "l.db", dptune.Budget.gdp(mu=2.0))
    with pytest.raises(dptune.InputError, match="uses_labels=True"):
        dptune.select([model] * 2, ledger, data=(PRIVATE[0], PRIVATE[1]), loss=own(lambda y, p: y * 0.5), clip=(0, 1))


def test_answers_are_read_once_for_all_models(fast_path, monkeypatch):
    read = []
    monkeypatch.setattr(examples, "label_codes", lambda y, labels: read.append(len(y)) or label_codes(y, labels))
    select(dptune.PrivacyLedger(fast_path / "l.db", dptune.Budget.gdp(mu=2.0)), "zero_one", PRIVATE[1])
    assert read == [N]
