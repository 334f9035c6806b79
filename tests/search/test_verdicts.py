"""What a verdict says, by contracts: each is checked on the package, and on the package with one planted bug."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from dptune import CENTRED, Budget, Float, LossPrivatizer, PrivacyLedger, SearchRun, Space
from dptune.privacy.noise import SeededNoise
from dptune.privacy.query import Interval
from dptune.search import SELECTION, VALUES
from dptune.search.answer import Estimate, Recommendation, RunFacts
from dptune.search.final_estimate import FinalEstimate
from dptune.search.view import RunView

Z = NormalDist().inv_cdf(0.975)
N, CLIP = 200, (0.0, 2.0)
SPACE = Space({"a": Float(0.0, 1.0), "b": Float(0.0, 1.0)})
BEST, DEFAULT, OTHER = {"a": 0.1, "b": 0.2}, {"a": 0.9, "b": 0.8}, {"a": 0.5, "b": 0.5}
RANGE = re.compile(r"(\S+) \(95%[^:]*: (\S+) to ([^\s,)]+)")


def a_run(folder: Path, *, seed: int | None = None, losses: tuple[float, float] = (0.4, 1.6)) -> SearchRun:
    """A run of values that has released what its best trial and its default lose."""
    ledger = PrivacyLedger(folder / f"{seed}.db", Budget.gdp(2.0))
    privatizer = LossPrivatizer(ledger, n=N, clip=CLIP, noise=None if seed is None else SeededNoise(seed))
    run = SearchRun(VALUES, privatizer, scope="run", space=None, trials=1, final_share=0.5, default=DEFAULT)
    at_best, at_default = (np.full(N, loss) for loss in losses)
    if not run.complete:
        run.finish("0", BEST, at_best)
    run.estimate(BEST, at_best, default=at_default)
    return run


def released(run: SearchRun) -> tuple[float, float, float]:
    """Loss at the best point, at the default, and the noise of each, from the ledger alone."""
    charge = run.ledger.find("run", "final")
    assert charge is not None
    assert charge.value is not None
    return charge.value[0], charge.value[1], charge.description["sensitivity"] / run.plan.final_mu


def texts(run: SearchRun) -> list[str]:
    best, known = run.recommend(), run.estimated(BEST)
    assert known is not None
    assert known.improvement is not None
    return [str(known), best.summary(), best.renamed({"C": 1}, {"C": 2}).summary(), known.improvement.compared("C = 2")]


# ---- the contracts ---------------------------------------------------------------------------------------


def audit_intervals(folder: Path) -> None:
    """Every printed interval is the release and 1.96 of its noise to either side; of a loss, cut to the clip."""
    for losses in ((0.4, 1.6), (0.001, 1.6), (1.999, 0.5)):
        run = a_run(folder / str(losses[0]), losses=losses)
        best, usual, sigma = released(run)
        wanted = [tuple(min(max(x, CLIP[0]), CLIP[1]) for x in (best, best - Z * sigma, best + Z * sigma))]
        gain = (usual - best, *(usual - best + side * Z * 2**0.5 * sigma for side in (-1, 1)))
        printed = {found for text in texts(run) for found in RANGE.findall(text)}
        in_summary = gain if gain[0] >= 0 else (-gain[0], -gain[2], -gain[1])  # a loss that rises has its own sign
        assert printed == {tuple(f"{x:.4g}" for x in numbers) for numbers in (*wanted, gain)} | {
            tuple(f"{x:.3g}" for x in in_summary)
        }
        known = run.estimated(BEST)
        assert known is not None
        for confidence in (0.5, 0.68, 0.9, 0.95, 0.999):
            half = NormalDist().inv_cdf((1 + confidence) / 2) * sigma
            assert known.interval(confidence) == pytest.approx((best - half, best + half), rel=1e-4)


def audit_borders(folder: Path) -> None:
    """A verdict changes where the 95% interval leaves 0, and nowhere else."""
    for sigma in (1e-6, 0.1, 30.0):
        for far, sure in ((1 + 1e-6, True), (1 - 1e-6, False), (0.5, False), (0.01, False), (3.0, True)):
            for sign, verdict in ((1, "better than"), (-1, "worse than")):
                improvement = Estimate(sign * far * Z * sigma, sigma, True)
                found = Recommendation({"C": 1}, defaults={"C": 2}, improvement=improvement)
                said = verdict if sure else "not distinguishable from"
                assert improvement.verdict == said.rsplit(" ", 1)[0]
                assert improvement.compared("C = 2").startswith(f"{said} C = 2: improvement")
                change = "rises" if sign < 0 else "improves"
                assert found.summary().startswith(f"{said.capitalize()} C = 2: the mean loss {change} by ")
                assert found.distinguishable is (sure and sign > 0)
                assert f"{said} the defaults" in str(Estimate(0.5, sigma, True, improvement))
    assert Estimate(0.0, 1.0, True).verdict == "not distinguishable"


def audit_about(folder: Path) -> None:
    """What was released about one configuration is told of no other."""
    run = a_run(folder)
    best, usual, _ = released(run)
    told = [run.estimated(parameters) for parameters in (BEST, DEFAULT, OTHER)]
    assert [one and one.value for one in told] == [best, usual, None]
    assert [bool(one and one.improvement) for one in told] == [True, False, False]
    view = RunView.of(run.ledger, "run")
    assert view is not None
    assert [(one := view.estimated(parameters)) and one.value for parameters in (BEST, OTHER)] == [best, None]


def audit_stamp(folder: Path) -> None:
    """Wherever a number from seeded noise is printed stands NOT PRIVATE, and nowhere else."""
    assert all("NOT PRIVATE" in text for text in texts(a_run(folder, seed=3)))
    assert not any("NOT PRIVATE" in text for text in texts(a_run(folder)))
    for private in (True, False):
        hint = Estimate(0.1, 0.1, private)
        for known in ({"kept": True}, {}, {"missing": "3 of 4 planned trials are made."}):
            text = Recommendation({"C": 1}, defaults={"C": 1}, hint=hint, **known).summary()  # type: ignore[arg-type]
            assert ("NOT PRIVATE" in text) is not private


AUDITS = {"intervals": audit_intervals, "borders": audit_borders, "about": audit_about, "stamp": audit_stamp}


@pytest.mark.parametrize("audit", AUDITS)
def test_a_verdict_keeps_its_contracts(fast_path: Path, audit: str) -> None:
    for part in ("0.4", "0.001", "1.999"):
        (fast_path / part).mkdir()
    AUDITS[audit](fast_path)


# ---- the bugs --------------------------------------------------------------------------------------------

INTERVAL, VERDICT, COMPARED, SHOWN = Estimate.interval, Estimate.verdict, Estimate.compared, Estimate.shown
ABOUT, SUMMARY = FinalEstimate._about, Recommendation.summary


def interval_of(level: float) -> Callable[[pytest.MonkeyPatch], None]:
    def bug(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(Estimate, "interval", lambda self, confidence=level: INTERVAL(self, confidence))

    return bug


def one_sided(patch: pytest.MonkeyPatch) -> None:
    def interval(self: Estimate, confidence: float = 0.95) -> tuple[float, float]:
        half = float(ndtri(confidence)) * self.sigma
        return self.value - half, self.value + half

    patch.setattr(Estimate, "interval", interval)


def worse_wherever_negative(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Estimate, "verdict", property(lambda self: "worse" if self.value < 0 else VERDICT.fget(self)))  # type: ignore[attr-defined]


def better_wherever_positive(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Estimate, "verdict", property(lambda self: "better" if self.value > 0 else VERDICT.fget(self)))  # type: ignore[attr-defined]


def the_default_s_loss_of_everything(patch: pytest.MonkeyPatch) -> None:
    def about(self: FinalEstimate, made: Any, parameters: Any) -> Any:
        return ABOUT(self, made, parameters) or ABOUT(self, made, self.default or {})

    patch.setattr(FinalEstimate, "_about", about)


def the_improvement_of_the_default(patch: pytest.MonkeyPatch) -> None:
    def about(self: FinalEstimate, made: Any, parameters: Any) -> Any:
        found = ABOUT(self, made, parameters)
        return found and replace(found, improvement=Estimate(0.1, 0.1, True))

    patch.setattr(FinalEstimate, "_about", about)


def no_stamp(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Estimate, "compared", lambda self, defaults: COMPARED(replace(self, private=True), defaults))


def no_stamp_in_summaries(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Recommendation, "summary", lambda self: SUMMARY(self).replace("NOT PRIVATE", ""))


def noise_of_one_loss_for_a_difference(patch: pytest.MonkeyPatch) -> None:
    def about(self: FinalEstimate, made: Any, parameters: Any) -> Any:
        found = ABOUT(self, made, parameters)
        if found is None or found.improvement is None:
            return found
        return replace(found, improvement=replace(found.improvement, sigma=found.sigma))

    patch.setattr(FinalEstimate, "_about", about)


def the_other_sign(patch: pytest.MonkeyPatch) -> None:
    def about(self: FinalEstimate, made: Any, parameters: Any) -> Any:
        found = ABOUT(self, made, parameters)
        if found is None or found.improvement is None:
            return found
        return replace(found, improvement=replace(found.improvement, value=-found.improvement.value))

    patch.setattr(FinalEstimate, "_about", about)


def a_loss_below_its_clip(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Estimate, "shown", lambda self: (self.value, *self.interval()))


BUGS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "68% called 95%": (interval_of(0.68), "intervals"),
    "90% called 95%": (interval_of(0.9), "intervals"),
    "68% decides": (interval_of(0.68), "borders"),
    "90% decides": (interval_of(0.9), "borders"),
    "one-sided": (one_sided, "intervals"),
    "one-sided decides": (one_sided, "borders"),
    "worse wherever negative": (worse_wherever_negative, "borders"),
    "better wherever positive": (better_wherever_positive, "borders"),
    "the default's loss of everything": (the_default_s_loss_of_everything, "about"),
    "an improvement of the default": (the_improvement_of_the_default, "about"),
    "no stamp": (no_stamp, "stamp"),
    "no stamp in summaries": (no_stamp_in_summaries, "stamp"),
    "noise of one loss": (noise_of_one_loss_for_a_difference, "intervals"),
    "the other sign": (the_other_sign, "intervals"),
    "a loss below its clip": (a_loss_below_its_clip, "intervals"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_found(fast_path: Path, monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    plant, audit = BUGS[bug]
    for part in ("0.4", "0.001", "1.999"):
        (fast_path / part).mkdir()
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        AUDITS[audit](fast_path)


# ---- reasons ---------------------------------------------------------------------------------------------


def summary_of(folder: Path, trials: int, **about: Any) -> str:
    about = {"method": CENTRED, "default": DEFAULT, "trials": 24, "space": SPACE, "mu": 20.0, **about}
    privatizer = LossPrivatizer(PrivacyLedger(folder / "ledger.db", Budget.gdp(20.0)), n=N, clip=CLIP)
    run = SearchRun(about.pop("method"), privatizer, scope="run", seed=1, **about)
    for i in range(trials):
        x = run.ask(i)
        run.finish(str(i), x, (x["a"] - 0.3 + np.linspace(-0.1, 0.1, N)) ** 2 + 0.1 * x["b"])
    return run.recommend().summary()


@pytest.mark.filterwarnings("ignore:no answer is released yet")
@pytest.mark.parametrize(
    ("about", "trials", "says"),
    [
        ({}, 24, r"^Better than a = 0.9, b = 0.8: the mean loss improves by"),
        (
            {},
            12,
            r"was released: the final estimate is not made yet(?s:.*)So far: .*, after 12 of 24 planned trials\.\n"
            r"(?s:.*)Next: 12 of 24 planned trials are made, and .* Resume the run",
        ),
        ({"default": None}, 24, r"released: the run has no default=\.(?s:.*)\nNext: give the next"),
        ({"final_share": 0.0}, 24, r"released: final_share=0 reserves no budget for it\.(?s:.*)\nNext: leave"),
        ({"choice_share": 0.0}, 24, r"released: the final estimate is not made yet\.(?s:.*)\nNext: call est"),
        ({"method": SELECTION}, 24, r"^Better than a = 0.9, b = 0.8: the mean loss improves by"),
        (
            {"method": SELECTION},
            23,
            r"So far: .*, after 23 of 24 planned trials\.\n(?s:.*)\nNext: 23 of 24 planned trials are made\. A process",
        ),
        (
            {"method": SELECTION, "default": {"a": 0.3, "b": 0.0}},
            24,
            r"^Keep a = 0.3, b = 0: .*\nChosen: .*, after 24 of 24 planned trials\..*\n(?s:.*)\nNext: keep what",
        ),
    ],
)
def test_a_summary_gives_the_reason_that_holds(fast_path: Path, about: Any, trials: int, says: str) -> None:
    assert re.search(says, summary_of(fast_path, trials, **about)), summary_of(fast_path, 0, **about)


def test_partial_words_stay_out_of_a_complete_summary(fast_path: Path) -> None:
    summary = summary_of(fast_path, 24)
    assert "So far" not in summary
    heads = [line.split(" ")[0] for line in summary.splitlines()]
    assert heads == ["Better", "Chosen:", "Private", "Budget", "Next:"]
    assert summary.endswith(f"It holds for these {N} people; another {N} may differ.")
    assert "Private loss: not released" not in summary


def test_an_incomplete_summary_says_how_the_front_end_continues() -> None:
    facts = RunFacts("40 of 120 planned trials", 300, None, "Budget left: mu=0.5 of 1.")
    missing = "40 of 120 planned trials are made."
    found = Recommendation({"C": 1}, defaults={"C": 2}, reason="it is early", missing=missing, run=facts)
    assert found.resumed("Call fit again.").summary().splitlines() == [
        "No comparison with C = 2 was released: it is early.",
        "So far: C = 1, after 40 of 120 planned trials.",
        "Private loss: not released. Public rows predicted none: this search asks private people throughout.",
        "Budget left: mu=0.5 of 1.",
        "Next: 40 of 120 planned trials are made. Call fit again.",
    ]


def test_a_printed_loss_lies_within_its_clip() -> None:
    of_loss = partial(Estimate.of_loss, sigma=0.1, clip=Interval(*CLIP), private=True)
    assert str(of_loss(-0.15)).startswith("0 (95% interval of the privacy noise: 0 to 0.046)")
    assert of_loss(-0.15).value == -0.15
    assert of_loss(2.5).shown() == (2.0, 2.0, 2.0)
