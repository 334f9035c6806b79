"""Another process makes the space wider while this one takes the losses of a trial."""

import math

import numpy as np
import pytest
from runs import MIXED_RUN, MIXED_SPACE

from dptune import Float, Space

WIDER = Space({**MIXED_SPACE, "later": Float(0.0, 1.0)}, when=MIXED_SPACE.when)


def finish(run, name, point=None):
    return run.finish(name, point or run.ask(trial=name), np.linspace(0.0, 1.0, MIXED_RUN.n))


@pytest.mark.parametrize("settings", [{}, {"rung_share": 0.2, "rungs": 1}], ids=["plain", "with decisions"])
def test_an_answer_in_a_wider_space_is_learned_while_a_trial_is_finished(ledger, settings):
    ours, theirs = MIXED_RUN.start(ledger, **settings), MIXED_RUN.start(ledger, **settings)
    theirs.join(WIDER)
    for i in range(MIXED_RUN.batch - 1):
        for run, name in ((ours, f"ours {i}"), (theirs, f"theirs {i}")):
            if settings:
                run.rungs.report(name, run.ask(trial=name), np.full(MIXED_RUN.n, 0.5), 1)
            finish(run, name)
    point, sync, left = ours.ask(trial="ours, last"), ours.replay.sync, ["theirs, last"]

    def sync_before_the_others_answer(**options):
        learned = sync(**options)
        if left:
            finish(theirs, left.pop())
        return learned

    ours.replay.sync = sync_before_the_others_answer
    assert not math.isnan(finish(ours, "ours, last", point))
    assert ours.space == theirs.space == WIDER
    assert ours.recommend() == theirs.recommend()
    if settings:
        ours.rungs.report("new", {**ours.space.centre()}, np.full(MIXED_RUN.n, 0.5), 1)
        ours.rungs.stops("new")
        assert [charge.note["trial"] for charge in ours.ledger.charges("run", prefix="rung/")][-1:] == ["new"]
