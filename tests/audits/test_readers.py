"""Every reader of a ledger counts charges that were never recorded."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

from dptune import Budget, BudgetExhausted, LossPrivatizer, PrivacyLedger, SearchRun
from dptune.cli import app
from dptune.errors import CapReached
from dptune.figures import draw_budget
from dptune.ledger.plan_ledger import PlanLedger
from dptune.local import LocalRandomizer, UserLedger
from dptune.search import VALUES
from federated_audits import server

PEOPLE = np.linspace(0.1, 0.9, 10)


def dptune(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == 0, result.output
    return result.output


# ---- charged, never recorded: one fixture, every reader ------------------------------------------------------


def central(path: Path) -> None:
    """Three values; budget mu = 2, 1 for a run of four values."""
    privatizer = LossPrivatizer(PrivacyLedger(path, Budget.gdp(2.0)), n=10, clip=(0.0, 1.0))
    run = SearchRun(VALUES, privatizer, scope="run", space=None, mu=1.0, trials=4, final_share=0.0)
    for i in range(3):
        run.finish(str(i), {"x": i}, PEOPLE)


def users(path: Path) -> None:
    """Two replies of ann."""
    ledger = UserLedger(path, cap=1.5)
    for key in "12":
        ledger.reply(LocalRandomizer(0.75, 1.0), 0.3, user="ann", key=key)


def plan(path: Path) -> None:
    """Two rounds."""
    one = server(path.parent, path.stem)
    for round_ in (0, 1):
        one.release(round_)


STAGES: dict[
    Callable[[Path], None], tuple[type[Any], str, str, int]
] = {  # what charges and what records, and how often
    central: (PrivacyLedger, "_pay", "record", 3),
    users: (UserLedger, "_charge", "_record", 2),
    plan: (PlanLedger, "_pay", "record", 2),
}


def killed(make: Callable[[Path], None], path: Path, *, charged: bool) -> None:
    """The last charge is made and its record is lost, or it is not even made."""
    owner, pays, records, count = STAGES[make]
    name = records if charged else pays
    true, made = getattr(owner, name), list[None]()

    def stops_at_the_last(*given: Any, **options: Any) -> Any:
        made.append(None)
        if len(made) == count:
            raise KeyboardInterrupt
        return true(*given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, stops_at_the_last)
        with pytest.raises(KeyboardInterrupt):
            make(path)


def staircase(path: Path) -> list[float]:
    """What the figure of the budget shows."""
    ledger = PrivacyLedger(path)
    axes = Figure().subplots()
    draw_budget(axes, ledger.charges("run"), ledger, 1e-5)
    return [float(y) for y in axes.lines[0].get_ydata()]


Reader = Callable[[Path], object]
EVERYWHERE: dict[str, Reader] = {
    "show as JSON": lambda path: json.loads(dptune("show", path, "--format", "json")),
    "statement as text": lambda path: dptune("statement", path),
}
READERS: dict[Callable[[Path], None], dict[str, Reader]] = {
    central: {
        **EVERYWHERE,
        "show as text": lambda path: dptune("show", path),
        "statement as JSON": lambda path: json.loads(dptune("statement", path, "--format", "json")),
        "statement as Markdown": lambda path: dptune("statement", path, "--format", "markdown"),
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
        **EVERYWHERE,
        "count": lambda path: PlanLedger(path).count(),
    },
}


@pytest.mark.parametrize("make", READERS, ids=lambda make: make.__name__)
def test_every_reader_counts_a_charge_whose_answer_was_lost(fast_path: Path, make: Callable[[Path], None]) -> None:
    crashed, whole, less = (fast_path / f"{name}.db" for name in ("crashed", "whole", "less"))
    make(whole)
    killed(make, crashed, charged=True)
    killed(make, less, charged=False)
    for name, reader in READERS[make].items():
        found = reader(crashed)
        assert found == reader(whole), f"{name} does not count a charge without a value"
        assert found != reader(less), f"{name} is blind: it says the same with one charge less"


def test_what_the_readers_of_the_crashed_ledger_say_is_right(fast_path: Path) -> None:
    """Against the arithmetic: three of four equal values of mu = 1 are mu = sqrt(3)/2."""
    path, spent = fast_path / "c.db", pytest.approx(0.75**0.5, rel=1e-12)
    killed(central, path, charged=True)
    ledger = PrivacyLedger(path)
    assert [c.value is None for c in ledger.charges("run")] == [False, False, True]
    assert ledger.spent() == staircase(path)[-1] == spent
    assert ledger.allowance().left == pytest.approx((4 - 0.75) ** 0.5, rel=1e-12)
    assert ledger.allowance().unplanned == pytest.approx(3**0.5, rel=1e-12)
    shown = json.loads(dptune("show", path, "--format", "json"))
    assert shown["spent"]["mu_in_gdp"] == shown["studies"][0]["mu_in_gdp"] == spent
    assert (shown["studies"][0]["releases"], ledger.statement(delta=1e-5).releases) == (3, 3)
    with pytest.raises(BudgetExhausted):
        ledger.check(1.81)
    killed(users, fast_path / "u.db", charged=True)
    with pytest.raises(CapReached):
        UserLedger(fast_path / "u.db").reply(LocalRandomizer(0.75, 1.0), 0.3, user="ann", key="3")
