"""Every reader of a ledger counts what was charged and never recorded; every epsilon belongs to its delta."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from federated_audits import server
from matplotlib.figure import Figure
from scipy.stats import norm
from typer.testing import CliRunner

from dptune import Budget, BudgetExhausted, LossPrivatizer, PrivacyLedger, SearchRun
from dptune.cli import app
from dptune.errors import CapReached
from dptune.figures import draw_budget
from dptune.ledger.plan_ledger import PlanLedger
from dptune.local import LocalRandomizer, UserLedger
from dptune.search import VALUES

PEOPLE = np.linspace(0.1, 0.9, 10)


def dptune(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


# ---- charged, never recorded: one fixture, every reader ------------------------------------------------------


def central(path: Path, *, crash: bool) -> None:
    """Three values, of which the last one's record is lost if ``crash``; budget mu = 2, 1 for a run of four values."""
    privatizer = LossPrivatizer(PrivacyLedger(path, Budget.gdp(2.0)), n=10, clip=(0.0, 1.0))
    run = SearchRun(VALUES, privatizer, scope="run", space=None, mu=1.0, trials=4, final_share=0.0)
    for i in range(3):
        if crash and i == 2:
            privatizer.ledger.record = interrupted
            with pytest.raises(KeyboardInterrupt):
                run.finish(str(i), {"x": i}, PEOPLE)
        else:
            run.finish(str(i), {"x": i}, PEOPLE)


def users(path: Path, *, crash: bool) -> None:
    """Two replies of ann, of which the last one's record is lost if ``crash``."""
    ledger, randomizer = UserLedger(path, cap=1.5), LocalRandomizer(0.75, 1.0)
    ledger.reply(randomizer, 0.3, user="ann", key="1")
    with pytest.MonkeyPatch.context() as patch:
        if crash:
            patch.setattr(UserLedger, "_record", interrupted)
            with pytest.raises(KeyboardInterrupt):
                ledger.reply(randomizer, 0.3, user="ann", key="2")
        else:
            ledger.reply(randomizer, 0.3, user="ann", key="2")


def plan(path: Path, *, crash: bool) -> None:
    """Two rounds, of which the last one's record is lost if ``crash``."""
    one = server(path.parent, path.stem)
    one.release(0)
    with pytest.MonkeyPatch.context() as patch:
        if crash:
            patch.setattr(PlanLedger, "record", interrupted)
            with pytest.raises(KeyboardInterrupt):
                one.release(1)
        else:
            one.release(1)


def staircase(path: Path) -> list[float]:
    """What the figure of the budget shows."""
    ledger = PrivacyLedger(path)
    axes = Figure().subplots()
    draw_budget(axes, ledger.charges("run"), ledger, 1e-5)
    return [float(y) for y in axes.lines[0].get_ydata()]


Reader = Callable[[Path], object]
EVERYWHERE: dict[str, Reader] = {
    "show as text": lambda path: dptune("show", path),
    "show as JSON": lambda path: json.loads(dptune("show", path, "--format", "json")),
    "statement as text": lambda path: dptune("statement", path),
    "statement as JSON": lambda path: json.loads(dptune("statement", path, "--format", "json")),
    "statement as Markdown": lambda path: dptune("statement", path, "--format", "markdown"),
}
READERS: dict[Callable[..., None], dict[str, Reader]] = {
    central: {
        **EVERYWHERE,
        "rest": lambda path: PrivacyLedger(path).allowance(),
        "spent": lambda path: (PrivacyLedger(path).spent(), PrivacyLedger(path).remaining()),
        "figures": staircase,
        "news": lambda path: PrivacyLedger(path).news("run", after=0).spent,
    },
    users: {
        **EVERYWHERE,
        "accounts": lambda path: UserLedger(path).accounts(),
        "spent": lambda path: (UserLedger(path).spent("ann"), UserLedger(path).remaining("ann")),
    },
    plan: {
        **{name: EVERYWHERE[name] for name in ("show as JSON", "statement as text")},
        "count": lambda path: PlanLedger(path).count(),
    },
}


@pytest.mark.parametrize("make", READERS, ids=lambda make: make.__name__)
def test_every_reader_counts_a_charge_whose_answer_was_lost(fast_path: Path, make: Callable[..., None]) -> None:
    crashed, whole, less = (fast_path / f"{name}.db" for name in ("crashed", "whole", "less"))
    make(crashed, crash=True)
    make(whole, crash=False)
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((PrivacyLedger, "_pay"), (UserLedger, "_charge"), (PlanLedger, "_pay")):
            patch.setattr(owner, name, _stops_at_the_last(getattr(owner, name), 3 if make is central else 2))
        make(less, crash=True)
    for name, reader in READERS[make].items():
        found = reader(crashed)
        assert found == reader(whole), f"{name} does not count a charge without a value"
        assert found != reader(less), f"{name} is blind: it says the same with one charge less"


def _stops_at_the_last(true: Callable[..., Any], count: int) -> Callable[..., Any]:
    made: list[None] = []

    def pay(*args: Any, **options: Any) -> Any:
        made.append(None)
        if len(made) == count:
            raise KeyboardInterrupt
        return true(*args, **options)

    return pay


def test_what_the_readers_of_the_crashed_ledger_say_is_right(fast_path: Path) -> None:
    """Against the arithmetic: three of four equal values of mu = 1 are mu = sqrt(3)/2."""
    path, spent = fast_path / "c.db", 0.75**0.5
    central(path, crash=True)
    ledger = PrivacyLedger(path)
    assert [c.value is None for c in ledger.charges("run")] == [False, False, True]
    assert ledger.spent() == pytest.approx(spent, rel=1e-12)
    assert ledger.allowance().left == pytest.approx((4 - 0.75) ** 0.5, rel=1e-12)
    assert ledger.allowance().unplanned == pytest.approx(3**0.5, rel=1e-12)
    assert staircase(path)[-1] == pytest.approx(spent, rel=1e-12)
    shown = json.loads(dptune("show", path, "--format", "json"))
    assert shown["spent"]["mu_in_gdp"] == shown["studies"][0]["mu_in_gdp"] == pytest.approx(spent, rel=1e-12)
    assert (shown["studies"][0]["releases"], ledger.statement(delta=1e-5).releases) == (3, 3)
    with pytest.raises(BudgetExhausted):
        ledger.check(1.81)
    users(fast_path / "u.db", crash=True)
    with pytest.raises(CapReached):
        UserLedger(fast_path / "u.db").reply(LocalRandomizer(0.75, 1.0), 0.3, user="ann", key="3")


# ---- a statement at another delta --------------------------------------------------------------------------------


def delta_of(epsilon: float, mu: float) -> float:
    """The smallest delta of a mu-GDP mechanism at epsilon (Dong, Roth and Su, corollary 1)."""
    return float(norm.cdf(-epsilon / mu + mu / 2) - np.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2))


@pytest.mark.parametrize("delta", [1e-9, 1e-5])
def test_every_epsilon_of_a_statement_belongs_to_the_delta_beside_it(fast_path: Path, delta: float) -> None:
    ledger = PrivacyLedger(fast_path / "c.db", Budget.approximate_dp(4.0, 1e-6))
    privatizer = LossPrivatizer(ledger, n=500, clip=(0.0, 1.0))
    privatizer.observe("x", np.zeros(500))
    privatizer.release(privatizer.mean_query("x", 0.4), scope="s", key="k")
    mus = (ledger.budget.mu, ledger.spent())
    told = ledger.statement(delta=delta).to_dict()
    pairs = [
        (told["budget"]["epsilon"], told["delta"], mus[0]),
        (told["spent"]["epsilon"], told["delta"], mus[1]),
        (told["stated"]["epsilon"], told["stated"]["delta"], mus[0]),
        (told["stated"]["spent_epsilon"], told["stated"]["delta"], mus[1]),
    ]
    assert told["delta"] == delta
    assert told["stated"]["delta"] == 1e-6
    for epsilon, beside, mu in pairs:
        assert delta_of(epsilon, mu) == pytest.approx(beside, rel=1e-6)
    text = ledger.statement(delta=delta).to_text()
    printed = re.findall(r"epsilon = ([\d.]+) at delta = ([\d.e-]+\d)", text)
    assert len(printed) == 3, text
    for (epsilon, beside), mu in zip(printed, (mus[0], mus[0], mus[1]), strict=True):
        assert delta_of(float(epsilon), mu) <= float(beside) * (1 + 1e-9), f"{epsilon} at {beside} is too small"
        assert delta_of(float(epsilon) - 0.01, mu) > float(beside), f"{epsilon} at {beside} is of another delta"
