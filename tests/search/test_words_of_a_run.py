"""A run announces itself, says what is missing, and sums up its result: the words are read back whole."""

import numpy as np
import pytest

from dptune import CENTRED, GIBO, Float, Int, LossPrivatizer, Space
from dptune.privacy.noise import SeededNoise
from dptune.results import Estimate
from dptune.search import VALUES
from dptune.search.answer import Recommendation, RunFacts
from dptune.search.request import SearchRequest
from noises import NoNoise
from runs import CENTRED_RUN, GIBO_RUN, VALUES_RUN, at, spend_elsewhere, trials

N, SPACE = 50, Space({"a": Float(0.0, 1.0), "b": Float(1e-2, 1e2, log=True), "k": Int(1, 6)})
DEFAULT = {"a": 0.2, "b": 1.0, "k": 2}
STOP = "Stop: at any time; what was charged stays charged. Resume with the same ledger and name."
RISK = (
    "Risk: an attacker who sees every release picks the right one of two records at most 98 times in 100 (50 by "
    "chance)."
)
NO_COMPARISON = "Shows: no comparison, as default= is not given."
REMEDY = "Plan fewer trials, a larger mu, a tighter clip, or more people."


def people(ledger, **about):
    return LossPrivatizer(ledger, **{"n": N, "clip": (0.0, 4.0), **about})


# method, noise, request -> lines, warning. By hand: a value's noise is 4 / (50 * 2 sqrt(.95 / 20)); and so on
ANNOUNCED = {
    "values": (
        (VALUES, None, {"mu": 2.0}),
        [
            "Plan: the run 'svm' makes 20 trials (the default for n and mu).",
            "Spends: mu=2 of the ledger's mu=4. Noise: a trial's value 0.184; the final estimate 0.179.",
            *(NO_COMPARISON, RISK, STOP),
        ],
        f"trials must differ by 13% of the clip's width to be told apart by their values. {REMEDY}",
    ),
    "centred": (
        (CENTRED, SeededNoise(3), {"settings": {"trials": 25, "population": 6}, "default": DEFAULT, "mu": 0.02}),
        [
            "Plan: the run 'svm' makes 24 trials (not 25: rounds have equal size).",
            "Spends: mu=0.02 of the ledger's mu=4, and is NOT PRIVATE: LossPrivatizer(n=50, clip=(0.0, 4.0), NOT "
            "PRIVATE). Noise: a mean loss within a generation, at first, 6.74; each of the two losses of the final "
            "estimate 25.3.",
            "Shows: an improvement over the default of 129 in 95% of runs, and half of it in 44%.",
            STOP,
        ],
        "the noise of a mean loss within a generation, at first, is 12 of the largest signal that the clip lets "
        f"through. {REMEDY}",
    ),
    "gibo": (
        (GIBO, None, {"settings": {"trials": 30, "final_share": 0.1}, "default": DEFAULT, "mu": 0.5}),
        [
            "Plan: the run 'svm' makes 28 trials (not 30: rounds have equal size).",
            "Spends: mu=0.5 of the ledger's mu=4. Noise: a trial's value 3.04; a gradient's coordinate 0.189; each of "
            "the two losses of the final estimate 0.716.",
            "Shows: an improvement over the default of 3.65 in 95% of runs, and half of it in 44%.",
            *(RISK, STOP),
        ],
        "",
    ),
    "no estimate": (
        (VALUES, None, {"settings": {"trials": 7, "final_share": 0.0}, "default": DEFAULT}),
        [
            "Plan: the run 'svm' makes 7 trials.",
            "Spends: all of the ledger's mu=4. Noise: a trial's value 0.0529.",
            *(RISK, STOP),
        ],
        "",
    ),
    "coordinates": (
        (CENTRED, None, {"settings": {"final_share": 0.2}}),
        [
            "Plan: the run 'svm' makes 77 trials (the default for 3 coordinates).",
            "Spends: all of the ledger's mu=4. Noise: a mean loss within a generation, at first, 0.0609; the final "
            "estimate 0.0447.",
            *(NO_COMPARISON, RISK, STOP),
        ],
        "",
    ),
}


@pytest.mark.parametrize("case", ANNOUNCED)
def test_a_request_announces_its_run(ledger, case):
    (method, noise, about), lines, warning = ANNOUNCED[case]
    request = SearchRequest(method, people(ledger, noise=noise), **about)
    run = request.begin("svm", None if method is VALUES else SPACE)
    assert request.announcement(run).splitlines() == lines
    assert request.warning(run) == warning


# ---- what is missing -----------------------------------------------------------------------------------------

TOO_FEW = "Resume the run with more trials; with several processes use threads (n_jobs) or fewer processes."


def test_a_run_of_values_counts_those_that_it_has(ledger):
    run, zeros = VALUES_RUN.start(ledger), np.zeros(VALUES_RUN.n)
    at(run.ledger, "charged", "value/1", KeyboardInterrupt())
    run.finish("0", {"C": 1}, zeros)
    with pytest.raises(KeyboardInterrupt):
        run.finish("1", {"C": 2}, zeros)
    assert run.missing() == "1 of 6 planned trials have a value. Resume the run with more trials."
    assert run.progress()["values_done"] == run.progress()["values_lost"] == run.values - 1 == 1


def test_a_run_without_values_says_what_is_missing_and_unpaid(ledger):
    outside, run = {"a": 7.0, "b": 1.0}, CENTRED_RUN.start(ledger)
    trials(run, 7)
    run.finish("outside", outside, np.zeros(CENTRED_RUN.n))
    assert run.missing() == (
        "7 of 20 planned trials are made, and 1 of 4 generations. A process makes one generation from 5 trials of its "
        "own that are in the search space, and 1 of this process's trials were not. If it stops within a generation, "
        f"the losses of its last trials are lost, and nothing was charged for them. {TOO_FEW}"
    )


def test_a_run_with_values_says_what_is_missing(ledger):
    run = GIBO_RUN.start(ledger)
    trials(run, 8)
    assert run.missing() == (
        "8 of 16 planned trials are made, and 1 of 4 steps. A process makes one step from 3 trials of its own that are "
        f"in the search space. If it stops within a step, the losses of its last trials are lost. {TOO_FEW}"
    )


def test_a_run_whose_budget_others_spent_asks_for_more(ledger):
    run = CENTRED_RUN.start(ledger)
    trials(run, 5)
    spend_elsewhere(run, ledger.remaining() * 0.999)
    for i in range(5):
        run.finish(f"late {i}", run.ask(), np.zeros(CENTRED_RUN.n))
    assert run.missing() == (
        "10 of 20 planned trials are made, and 1 of 4 generations. Other runs have spent the budget for it: raise the "
        "budget of the ledger."
    )


def test_two_lost_answers_are_counted_with_their_price(ledger):
    run = VALUES_RUN.start(ledger, noise=NoNoise())
    run.finish("2", {"C": 2}, np.zeros(VALUES_RUN.n))
    for i in range(2):
        at(run.ledger, "charged", f"value/{i}", KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            run.finish(str(i), {"C": i}, np.zeros(VALUES_RUN.n))
    lost = "1 of 3 answers: 2 were lost to a kill, mu=2.251 was paid for them."  # 4 sqrt(.95 * 2 / 6), rounded up
    assert run.recommend().summary().splitlines()[3] == lost


# ---- summaries -----------------------------------------------------------------------------------------------

FACTS = RunFacts("3 of 4 planned trials", 50, None, "Budget left.", resume="Call optimize().", lost="1 of 2 answers.")
NONE = "Private loss: not released. Public rows predicted none: this search asks private people throughout."
SUMMARIES = {
    "so far": (
        {
            "hint": Estimate(0.25, 0.125, True),
            "missing": "1 trial.",
            "reason": "why",
            "at_edge": ("C", "d"),
            "run": FACTS,
        },
        "No comparison with C = 3 was released: why. A model of the released values expects 0.25 less loss.\n"
        "So far: C = 2, d = 7, after 3 of 4 planned trials. At an end of its range, which may be too narrow: C, d.\n"
        f"{NONE}\n1 of 2 answers.\nBudget left.\nNext: 1 trial. Call optimize().",
    ),
    "kept": (
        {"kept": True, "remedy": "none"},
        "Keep C = 3: the search prefers no other configuration.\nChosen: C = 2, d = 7.\n"
        "Next: keep what you have, and publish the statement.",
    ),
    "estimated": (
        {"run": RunFacts("4 trials", 50, Estimate(0.5, 0.01, True, Estimate(0.2, 0.5, True)), "Budget left.")},
        "No comparison with C = 3 was released.\nChosen: C = 2, d = 7, after 4 trials.\n"
        "Private loss: 0.5 (95% interval of the privacy noise: 0.4804 to 0.5196). Public rows predicted none: this "
        "search asks private people throughout.\nBudget left.",
    ),
    "not compared": (
        {"reason": "why", "remedy": "what.", "defaults": {}},
        "No comparison with the defaults was released: why.\nChosen: C = 2, d = 7.\nNext: what.",
    ),
}


@pytest.mark.parametrize("case", SUMMARIES)
def test_a_summary_has_its_lines_in_order(case):
    about, text = SUMMARIES[case]
    assert Recommendation({"C": 2, "d": 7}, **{"defaults": {"C": 3}, **about}).summary() == text


def test_seeded_noise_is_stamped_wherever_it_was_used():
    for private in (True, False):
        loss = Estimate(0.5, 0.01, private, within=(0.0, 1.0))
        run = RunFacts("4 trials", 50, loss, "", resume="again")
        found = Recommendation({"C": 2}, defaults={"C": 3}, run=run)
        assert found.summary().startswith("NOT PRIVATE") is not private
        assert found.resumed("by hand").run == RunFacts("4 trials", 50, loss, "", resume="by hand")


# ---- why there is no comparison, and what to do -----------------------------------------------------------------


def test_a_run_says_why_it_does_not_compare_and_what_would_help(ledger):
    def lacking(scope, estimated=None, **about):
        run = VALUES_RUN.start(ledger, scope=scope, mu=1.0, trials=1, **about)
        run.finish("0", {"C": 1}, np.zeros(VALUES_RUN.n))
        if estimated:
            run.estimate(estimated, np.zeros(VALUES_RUN.n))
        found = run.recommend()
        return found.reason, found.remedy

    usual = {"default": {"C": 3}}
    cases = [("a", None, {}), ("b", None, {"final_share": 0.0, **usual}), ("c", {"C": 2}, usual), ("d", None, usual)]
    assert [lacking(scope, estimated, **about) for scope, estimated, about in cases] == [
        ("the run has no default=", "give the next run default=, the configuration that you use today."),
        ("final_share=0 reserves no budget for it", "leave final_share= out in the next run."),
        (
            "the run has made its one final estimate at other parameters, or without the default",
            "begin another run to compare the two.",
        ),
        ("the final estimate is not made yet", "call estimate() with this recommendation. It releases both losses."),
    ]
