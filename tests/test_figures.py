"""A figure of a run has its labels, a legend and a title of what it shows, and a refused one says what to change."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import dptune
from dptune._style import _DRAWING, drawing
from dptune.figures import save_figure
from dptune.privacy.noise import SeededNoise
from dptune.search import VALUES
from report_tools import MODEL, PRIVATE, PUBLIC
from report_tools import report as reported

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that would be written."""
    figures: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *to, **how: figures.append(self))
    return figures


def of_values(scopes: tuple[str, ...] = ("one",), **options: Any) -> dptune.PrivacyLedger:
    ledger = dptune.PrivacyLedger("ledger.db", dptune.Budget.gdp(2.0))
    people = dptune.LossPrivatizer(ledger, n=400, clip=(0.0, 1.0), **options)
    for scope in scopes:
        run = dptune.SearchRun(VALUES, people, scope=scope, space=None, trials=2, mu=0.5)
        for trial in range(2):
            run.finish(str(trial), {"x": trial}, np.full(400, 0.5))
    return ledger


def words(figure: Figure) -> list[tuple[Any, ...]]:
    return [
        (a.get_title(), a.get_xlabel(), a.get_ylabel(), *(t.get_text() for t in a.get_legend().get_texts()))
        for a in figure.axes
        if a.get_legend()
    ]


def budget(what: str, line: str) -> tuple[str, ...]:
    return "Privacy budget", what, "mu (GDP)", "spent (odometer)", f"budget: {line}"


LOSSES = "Released loss", "trial", "mean clipped loss", "released value of a trial", "mean of the last 1"


def test_a_figure_of_values_has_its_words(drawn: list[Figure]) -> None:
    """The name of the only study is not needed, whether or not there is a report."""
    ledger = of_values()
    reported(dptune.LossPrivatizer(ledger, n=400, clip=(0, 1)), MODEL, PRIVATE, held_out=PUBLIC)
    assert save_figure(ledger, "a.png") == Path("a.png")
    line = budget("trial", "eps = 9.998 at delta = 1e-05\n(all runs; mu within 2)")
    assert words(drawn[0]) == [(*LOSSES, "95% noise band"), line]
    assert tuple(drawn[0].get_size_inches()) == (9.0, 3.4)
    assert drawn[0]._suptitle is None
    assert list(drawn[0].axes[1].lines[0].get_xdata()) == [1, 2]
    with pytest.raises(dptune.InputError, match=r"^name the study to draw .* one of \['one'\]; got 'x'\.$"):
        save_figure(ledger, "a.png", scope="x")


def test_seeded_noise_is_the_title_of_a_figure(drawn: list[Figure]) -> None:
    save_figure(of_values(noise=SeededNoise(0)), "a.svg", delta=1e-3)
    assert drawn[0]._suptitle.get_text() == "NOT PRIVATE: seeded noise"
    assert words(drawn[0])[1] == budget("trial", "NOT PRIVATE\n(all runs; mu within 2)")


def test_a_figure_of_differences_has_its_words_and_the_recommended_loss(drawn: list[Figure]) -> None:
    ledger = dptune.PrivacyLedger("ledger.db", dptune.Budget.approximate_dp(8.0, 1e-6))
    people = dptune.LossPrivatizer(ledger, n=400, clip=(0, 1))
    space = dptune.Space({"a": dptune.Float(0.0, 1.0)})
    run = dptune.SearchRun(dptune.CENTRED, people, scope="s", space=space, trials=8, mu=0.5, final_share=0.3)
    for trial in range(8):
        x = run.ask(trial)
        run.finish(str(trial), x, np.full(400, x["a"] ** 2))
    found = run.estimate({"a": 0.1}, np.full(400, 0.3))
    save_figure(ledger, "a.png")
    mean, low, high = found.shown()
    losses, line = words(drawn[0])
    assert losses == (
        "What the released differences say", "trial", "mean loss less that at the centre", "mean of a generation",
        f"recommended: {mean:.3g}, 95% {low:.3g} to {high:.3g}", "posterior mean, 1.96 deviations",
    )  # fmt: skip
    assert line == budget("trial", "eps = 8 at delta = 1e-06\n(all runs; mu within 1.532)")
    left, right = drawn[0].axes
    new = [charge.note.get("new", 0) for charge in ledger.charges()]
    assert list(right.lines[0].get_xdata()) == list(np.cumsum(new))
    means = left.containers[0].lines[0].get_ydata()
    parts = np.split(np.arange(len(means)), np.cumsum([each for each in new if each])[:-1])
    averages = next(each for each in left.lines if each.get_label() == "mean of a generation")
    assert list(averages.get_xdata()) == [part.mean() for part in parts]
    assert list(averages.get_ydata()) == pytest.approx([means[part].mean() for part in parts])


def test_a_figure_of_a_choice_has_the_budget_of_all_runs(drawn: list[Figure]) -> None:
    ledger = of_values()
    losses = np.random.default_rng(0).uniform(size=(3, 440))
    people = dptune.LossPrivatizer(ledger, n=400)
    dptune.select(losses[:, 40:], people, name="svc", public_losses=losses[:, :40], default_place=1, mu=0.5)
    save_figure(ledger, "a.png", scope="svc")
    *_, right = drawn[0].axes
    assert [each[:3] for each in words(drawn[0])][1:] == [("Privacy budget", "release", "mu (GDP)")]
    assert tuple(drawn[0].get_size_inches()) == (12.0, 3.4)
    count = ledger.count()
    assert count > 2  # those of the other run, too
    assert list(right.lines[0].get_xdata()) == list(right.get_xticks()) == list(range(count + 1))
    assert right.lines[0].get_ydata()[0] == 0.0
    assert right.lines[0].get_ydata()[-1] == pytest.approx(ledger.spent())


def test_a_refused_figure_says_what_to_change() -> None:
    empty = dptune.PrivacyLedger("empty.db", dptune.Budget.gdp(1.0))
    ledger = of_values(("two", "one"))
    of_scope = "name the study to draw (scope=, or --study), one of ['one', 'two']"
    only, by_report = (dptune.PrivacyLedger("only.db", dptune.Budget.gdp(1.0)), "Draw a report by `dptune report ")
    for payer in (ledger, only):
        people = dptune.LossPrivatizer(payer, n=400, clip=(0, 1))
        reported(people, MODEL, PRIVATE, held_out=PUBLIC, mu=0.3)
    cases: list[tuple[Any, str, str | None, str]] = [
        (empty, "a.png", None, "the ledger has no releases, so there is nothing to draw."),
        (ledger, "a.png", None, f"{of_scope}."),
        (ledger, "a.png", "three", f"{of_scope}; got 'three'."),
        (ledger, "a.png", "report", f"'report' is a report. {by_report}"),
        (only, "a.png", None, f"the ledger has reports only: ['report']. {by_report}"),
        (only, "a.png", "three", f"the ledger has reports only: ['report']. {by_report}"),
        (only, "a.png", "report", f"the ledger has reports only: ['report']. {by_report}"),
        (ledger, "none/a.png", "one", "cannot write none/a.png: No such file or directory."),
        (ledger, "a.xyz", "one", "a.xyz must end in one of avif, eps, gif, "),
        (ledger, "a", "one", "a must end in one of avif, eps, gif, "),
    ]
    for payer, path, scope, message in cases:
        with pytest.raises(dptune.InputError) as refused:
            save_figure(payer, path, scope=scope)
        assert str(refused.value).startswith(message)
    save_figure(ledger, "A.PNG", scope="two")


def test_figures_of_two_threads_are_drawn_one_after_the_other() -> None:
    """Each would restore matplotlib's settings as it has found them, perhaps those of the other."""
    with drawing(), ThreadPoolExecutor(1) as another:
        assert not another.submit(_DRAWING._lock.acquire, blocking=False).result()
