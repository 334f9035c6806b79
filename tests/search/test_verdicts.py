"""Each contract of a verdict is checked on the package and on the package with one planted bug."""

import re
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from dptune import Budget, Float, LossPrivatizer, PrivacyLedger, SearchRun, Space
from dptune.privacy.noise import SeededNoise
from dptune.results import Estimate
from dptune.search import VALUES
from dptune.search.answer import Recommendation
from dptune.search.final_estimate import FinalEstimate

Z = NormalDist().inv_cdf(0.975)
N, CLIP = 200, (0.0, 2.0)
SPACE = Space({"a": Float(0.0, 1.0), "b": Float(0.0, 1.0)})
BEST, DEFAULT, OTHER = {"a": 0.1, "b": 0.2}, {"a": 0.9, "b": 0.8}, {"a": 0.5, "b": 0.5}
RANGE = re.compile(r"(\S+) \(95%[^:]*: (\S+) to ([^\s,)]+)")


def a_run(folder, *, seed=None, losses=(0.4, 1.6)):
    """A run of values that has released what its best trial and its default lose."""
    ledger = PrivacyLedger(folder / f"{seed} {losses[0]}.db", Budget.gdp(2.0))
    privatizer = LossPrivatizer(ledger, n=N, clip=CLIP, noise=None if seed is None else SeededNoise(seed))
    run = SearchRun(VALUES, privatizer, scope="run", space=None, trials=1, final_share=0.5, default=DEFAULT)
    at_best, at_default = (np.full(N, loss) for loss in losses)
    run.finish("0", BEST, at_best)
    run.estimate(BEST, at_best, default=at_default)
    return run


def released(run):
    """Loss at the best point, at the default, and the noise of each, from the ledger alone."""
    charge = run.ledger.find("run", "final")
    return charge.value[0], charge.value[1], charge.description["sigma"]


def texts(run):
    best, known = run.recommend(), run.estimated(BEST)
    return [str(known), best.summary(), best.renamed({"C": 1}, {"C": 2}).summary(), known.improvement.compared("C = 2")]


# ---- the contracts ---------------------------------------------------------------------------------------


def audit_intervals(folder):
    """Every printed interval is the release and 1.96 of its noise to either side; of a loss, cut to the clip."""
    for losses in ((0.4, 1.6), (0.001, 1.6), (1.999, 0.5)):
        run = a_run(folder, seed=3, losses=losses)  # other noise may put an end at a printed digit
        best, usual, sigma = released(run)
        wanted = [tuple(min(max(x, CLIP[0]), CLIP[1]) for x in (best, best - Z * sigma, best + Z * sigma))]
        gain = (usual - best, *(usual - best + side * Z * 2**0.5 * sigma for side in (-1, 1)))
        printed = {found for text in texts(run) for found in RANGE.findall(text)}
        in_summary = gain if gain[0] >= 0 else (-gain[0], -gain[2], -gain[1])  # a loss that rises has its own sign
        assert printed == {tuple(f"{x:.4g}" for x in numbers) for numbers in (*wanted, gain)} | {
            tuple(f"{x:.3g}" for x in in_summary)
        }
        known = run.estimated(BEST)
        for confidence in (0.5, 0.68, 0.9, 0.95, 0.999):
            half = NormalDist().inv_cdf((1 + confidence) / 2) * sigma
            assert known.interval(confidence) == pytest.approx((best - half, best + half), rel=1e-4)


def audit_borders(folder):
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


def audit_about(folder):
    """What was released about one configuration is told of no other."""
    run = a_run(folder)
    best, usual, _ = released(run)
    told = [run.estimated(parameters) for parameters in (BEST, DEFAULT, OTHER)]
    assert [one and one.value for one in told] == [best, usual, None]
    assert [bool(one and one.improvement) for one in told] == [True, False, False]


def audit_stamp(folder):
    """Wherever a number from seeded noise is printed stands NOT PRIVATE, and nowhere else."""
    for seed in (3, None):
        assert all(("NOT PRIVATE" in text) is (seed is not None) for text in texts(a_run(folder, seed=seed)))
    for private in (True, False):
        hint = Estimate(0.1, 0.1, private)
        for known in ({"kept": True}, {}, {"missing": "3 of 4 planned trials are made."}):
            text = Recommendation({"C": 1}, defaults={"C": 1}, hint=hint, **known).summary()
            assert ("NOT PRIVATE" in text) is not private


@pytest.mark.parametrize("audit", [audit_intervals, audit_borders, audit_about, audit_stamp])
def test_a_verdict_keeps_its_contracts(fast_path, audit):
    audit(fast_path)


# ---- the bugs --------------------------------------------------------------------------------------------

INTERVAL, VERDICT, COMPARED = Estimate.interval, Estimate.verdict.fget, Estimate.compared
ABOUT, SUMMARY = FinalEstimate.recorded, Recommendation.summary


def improvement_with(change):
    """Change the released improvement by the estimate that it belongs to."""

    def about(self, parameters):
        found = ABOUT(self, parameters)
        if found is None or found.improvement is None:
            return found
        return replace(found, improvement=replace(found.improvement, **change(found, found.improvement)))

    return about


def the_default_s_loss_of_everything(self, parameters):
    return ABOUT(self, parameters) or ABOUT(self, self.default or {})


def an_improvement_of_everything(self, parameters):
    found = ABOUT(self, parameters)
    return found and replace(found, improvement=Estimate(0.1, 0.1, True))


def narrow(self, confidence=0.9):
    return INTERVAL(self, confidence)


def no_stamp(self, to):
    return COMPARED(replace(self, private=True), to)


WORSE = property(lambda self: "worse" if self.value < 0 else VERDICT(self))
BETTER = property(lambda self: "better" if self.value > 0 else VERDICT(self))
NOISE_OF_ONE_LOSS = improvement_with(lambda found, _: {"sigma": found.sigma})
OTHER_SIGN = improvement_with(lambda _, improvement: {"value": -improvement.value})
BUGS = {
    "90% called 95%": (Estimate, "interval", narrow, audit_intervals),
    "90% decides": (Estimate, "interval", narrow, audit_borders),
    "worse wherever negative": (Estimate, "verdict", WORSE, audit_borders),
    "better wherever positive": (Estimate, "verdict", BETTER, audit_borders),
    "the default's loss of everything": (FinalEstimate, "recorded", the_default_s_loss_of_everything, audit_about),
    "an improvement of the default": (FinalEstimate, "recorded", an_improvement_of_everything, audit_about),
    "no stamp": (Estimate, "compared", no_stamp, audit_stamp),
    "no stamp in summaries": (Recommendation, "summary", lambda self: SUMMARY(self).replace("NOT", ""), audit_stamp),
    "noise of one loss": (FinalEstimate, "recorded", NOISE_OF_ONE_LOSS, audit_intervals),
    "the other sign": (FinalEstimate, "recorded", OTHER_SIGN, audit_intervals),
    "a loss below its clip": (Estimate, "shown", lambda self: (self.value, *self.interval()), audit_intervals),
}


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_is_found(fast_path, monkeypatch, bug):
    owner, name, planted, audit = BUGS[bug]
    monkeypatch.setattr(owner, name, planted)
    with pytest.raises(AssertionError):
        audit(fast_path)
