"""A run whose process was killed goes on with the points that its encrypted file holds."""

import json
from pathlib import Path

import numpy as np
import pytest
from runs import CENTRED_RUN, KINDS, at, keys, readable, to_the_end, trial, trials

from dptune.privacy import PendingLosses

KEY = PendingLosses.new_key()


@pytest.fixture
def begin(ledger):
    """Give what begins another life of a run: what the one before it held in memory is not there."""
    files = []

    def begin(kind=CENTRED_RUN):
        for file in files:
            file.close()
        files.append(PendingLosses(Path(str(ledger.url.database)).with_name("pending.db"), KEY))
        return kind.start(ledger, mu=1.0, seed=1, pending=files[-1])

    yield begin
    files[-1].close()


@pytest.mark.parametrize("kind", KINDS[:3], ids=readable)
def test_each_life_adds_a_trial_and_the_round_is_asked_once_all_are_there(ledger, begin, kind):
    for life in range(30):
        run = begin(kind)
        trial(run, f"{life}")
        if run.algorithm.t == 1:
            break
    assert run.algorithm.t == 1
    assert life + 1 >= run.algorithm.batch
    waiting = [json.loads(point)[1] for point in begin(kind).algorithm.waiting()]
    assert waiting in ([], [f"{life}"])  # a round that was made before the last trial leaves that one for the next
    assert len(keys(ledger)) == len(set(keys(ledger)))


def test_a_failed_trial_is_one_after_the_kill_too_and_is_counted_once(ledger, begin):
    first = begin()
    trial(first, "good")
    trial(first, "bad", fails=True)
    again = begin()
    for name in "cde":
        trial(again, name)
    assert [charge.note.get("failed", 0) for charge in ledger.charges()] == [1, 0]


def test_a_kill_between_the_record_and_its_deletion_costs_a_question_of_its_own(ledger, begin):
    first = begin()
    at(first.ledger, "recorded", "generation/1", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        trials(first, 5)
    spent = ledger.spent()
    again = begin()
    assert len(again.algorithm.waiting()) == 5  # asked about, and still there
    trial(again, "f")
    assert keys(ledger) == ["share/1", "generation/1", "share/2", "generation/2"]
    assert ledger.spent() == pytest.approx(np.sqrt(2) * spent)
    answers = [charge.value for charge in ledger.charges(prefix="generation/")]
    assert answers[0] != answers[1]
    to_the_end(again)
    assert again.privatizer.kept("run") == []
    assert again.privatizer.points() == ()
