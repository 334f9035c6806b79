"""Two processes of one centred run, or two threads of one, that meet within a release."""

from __future__ import annotations

from threading import Thread
from typing import Any

import numpy as np
import pytest
from centred_runs import EVERY, POPULATION, TRIALS, start
from run_harness import keys, trial

from dptune import LossPrivatizer, PrivacyLedger
from dptune.gp.grouped import GroupedRegression


@pytest.mark.parametrize("key", ["share/1", "generation/1"])
def test_who_comes_second_with_a_release_keeps_its_points(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """The first makes its own between the second's look at the ledger and its charge."""
    first, second = start(ledger), start(ledger)
    for run in (first, second):
        for i in range(POPULATION - 1):
            trial(run, f"{run is first} {i}")
    true, met = LossPrivatizer.release, []

    def release(self: LossPrivatizer, query: Any, **options: Any) -> Any:
        if self is second.privatizer and options["key"] == key and not met:
            met.append(trial(first, "first"))
        return true(self, query, **options)

    monkeypatch.setattr(LossPrivatizer, "release", release)
    trial(second, "second")
    assert met
    assert keys(ledger) == EVERY[:2]
    assert np.array_equal(second.algorithm.means, first.algorithm.means)
    assert second.algorithm.missing() == 0  # its points wait for the next generation
    trial(second, "next")
    assert keys(ledger) == EVERY[:4]


def test_a_radius_follows_the_share_of_who_came_first_with_it_alone(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first dies between its two releases; the second meets the share as a conflict and makes the generation."""
    first, second = start(ledger), start(ledger)
    for i in range(POPULATION - 1):
        trial(first, f"a{i}"), trial(second, f"b{i}")
    true = LossPrivatizer.release

    def release(self: LossPrivatizer, query: Any, **options: Any) -> Any:
        if self is first.privatizer and options["key"] == "generation/1":
            raise KeyboardInterrupt
        if self is second.privatizer and options["key"] == "share/1":
            with pytest.raises(KeyboardInterrupt):
                trial(first, "first")
        return true(self, query, **options)

    monkeypatch.setattr(LossPrivatizer, "release", release)
    trial(second, "second")
    share, generation = ledger.charges("run")
    assert (share.key, generation.key) == ("share/1", "generation/1")
    assert generation.note["radius"] != share.note["radius"]
    assert second.algorithm.generations[0].radius == generation.note["radius"]


def test_progress_waits_for_a_generation_that_another_thread_is_learning_from(
    ledger: PrivacyLedger, monkeypatch: Any
) -> None:
    """Between the surrogate's new points and its new weights nobody may ask it anything."""
    run, true, threads = start(ledger), GroupedRegression._take, []
    seen: list[object] = []

    def show() -> None:
        try:
            seen.append(run.progress()["generations_done"])
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
            seen.append(error)

    def take(self: GroupedRegression, groups: Any) -> None:
        true(self, groups)
        threads.append(Thread(target=show))
        threads[-1].start()
        threads[-1].join(0.2)

    monkeypatch.setattr(GroupedRegression, "_take", take)
    for i in range(TRIALS):
        trial(run, str(i))
    for thread in threads:
        thread.join()
    assert len(seen) == 4
    assert all(isinstance(done, int) and done > i for i, done in enumerate(seen))
