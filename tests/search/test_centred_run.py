"""A run of the centred search: its releases, the two queries of a generation, its radius and its warnings."""

import math
import re
from threading import Thread

import numpy as np
import pytest

from runs import CENTRED_RUN, SPACE, at, keys, to_the_end, trial, trials

start, N, POPULATION, GENERATIONS, TRIALS = CENTRED_RUN.start, 50, 5, 4, 20
EVERY = [f"{kind}/{g}" for g in range(1, GENERATIONS + 1) for kind in ("share", "generation")]


def test_a_run_whose_radius_stays_makes_one_release_a_generation(ledger):
    run = start(ledger, tuning={"radius_share": 0.0})
    trials(run, TRIALS)
    assert keys(ledger) == EVERY[1::2]
    assert ledger.spent() == pytest.approx(4.0 * math.sqrt(0.95))
    assert run.algorithm.radius == run.plan.settings.radius


def test_a_generation_is_a_share_and_a_mean_which_asks_references_again(ledger):
    run = start(ledger)
    values = trials(run, POPULATION)
    assert values[:-1] == [math.inf] * (POPULATION - 1)  # nothing was released yet
    for i in range(POPULATION, TRIALS):
        trial(run, str(i))
        assert len(run.privatizer.points()) <= POPULATION + 2  # other losses are forgotten
    assert run.privatizer.points() == ()
    assert "share of people" in ledger.charges("run")[0].description["statistic"]
    charges = ledger.charges("run", prefix="generation/")
    sizes = [POPULATION, *[POPULATION + 2] * (GENERATIONS - 1)]
    assert [len(c.value) for c in charges] == [c.description["dimension"] for c in charges] == sizes
    assert np.shape(charges[0].note["points"]) == (POPULATION, 2)
    for charge, own in zip(charges, run.algorithm.generations, strict=True):
        assert own.sigma == charge.description["sigma"]


def test_a_radius_follows_the_share_of_who_came_first_with_it_alone(ledger):
    """The first dies between its two releases; the second meets the share as a conflict and makes the generation."""
    first, second = start(ledger), start(ledger)
    trials(first, POPULATION - 1, "a"), trials(second, POPULATION - 1, "b")

    def first_dies():
        with pytest.raises(KeyboardInterrupt):
            trial(first, "first")

    at(first.ledger, "before the charge", "generation/1", KeyboardInterrupt())
    at(second.ledger, "before the charge", "share/1", first_dies)
    trial(second, "second")
    share, generation = ledger.charges("run")
    assert (share.key, generation.key) == ("share/1", "generation/1")
    assert generation.note["radius"] != share.note["radius"]
    assert second.algorithm.generations[0].radius == generation.note["radius"]


def test_progress_waits_while_another_thread_learns_a_generation(ledger):
    """Between the surrogate's new points and its new weights nobody may ask it anything."""
    run, threads, seen = start(ledger), [], []
    fit = run.algorithm.surrogate.fit

    def watched(groups):
        threads.append(Thread(target=lambda: seen.append(run.progress()["generations_done"])))
        threads[-1].start()
        threads[-1].join(0.1)
        assert len(seen) < len(threads), "it did not wait"
        fit(groups)

    run.algorithm.surrogate.fit = watched
    for g in range(2):
        trials(run, POPULATION, f"{g} ")
        threads[g].join()
    assert len(seen) == 2
    assert all(isinstance(done, int) and done > i for i, done in enumerate(seen))


def test_workers_with_too_few_trials_each_say_what_is_missing(ledger):
    workers = [start(ledger) for _ in range(8)]
    for i in range(TRIALS + 4):
        trial(workers[i % 8], str(i))
    assert re.search(r"0 of 4 generations.*n_jobs", workers[0].missing())
    with pytest.warns(UserWarning, match=r"centre of the search space.*0 of 4 generations.*n_jobs"):
        centre = workers[1].recommend()
    assert centre == centre.defaults == SPACE.decode(np.full(2, 0.5))
    assert centre.improvement is None
    assert ledger.spent() == 0.0
    to_the_end(workers[1])
    assert not workers[2].complete
    assert workers[2].missing() == ""  # it looks at the ledger first
    assert workers[2].complete
