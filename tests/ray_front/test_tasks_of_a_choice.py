"""A choice counts its candidates, runs as many tasks as the cluster has room for, and says how far it is."""

import logging
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import ray
from ray import tune

from dptune_ray import choice
from dptune_ray.choice import _loader, _Ranked, _Tasks


def test_a_choice_names_its_experiment_and_counts_who_is_no_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    monkeypatch.setattr(choice, "choose_among", lambda proposals, *about: found.append(proposals))
    monkeypatch.setattr(choice, "_ranked", lambda *about, **how: [_Ranked(at, 0.0, c) for at, c in ((4, 1), (0, None))])
    Grid = type(
        "Grid", (tune.ResultGrid,), {"__init__": lambda self: None, "experiment_path": "", "__len__": lambda self: 6}
    )
    for name in ("svm", "train_2026-01-02_03-04-05"):
        Grid.experiment_path = f"/home/{name}"
        Grid.__getitem__ = lambda self, at: SimpleNamespace(config={"C": at}, error="crashed" if at in (1, 2) else None)
        Grid.__iter__ = lambda self: (self[at] for at in range(6))
        about = {"load": lambda c: c, "data": None, "loss": "log_loss", "ledger": "l.db", "public": ([[0.0]], [0])}
        choice.choose(Grid(), **about)
    assert [proposals.name for proposals in found] == ["svm", None]
    assert [(one.parameters, one.row) for one in found[0].candidates] == [({"C": 4}, 4)]
    assert found[0].searched == 6
    said = "Of 6 trials 2 ended with an error, 2 have no finite metric, 1 have no checkpoint and are not candidates. "
    assert found[0].excluded == said


def test_a_loader_takes_what_it_requires() -> None:
    at = ("checkpoint", "config")
    assert _loader(lambda checkpoint, scale=2: (checkpoint, scale))(at) == ("checkpoint", 2)
    assert _loader(lambda checkpoint, config, scale=2: (checkpoint, config))(at) == at


class Cluster:
    """Does in this process what tasks use of Ray, and counts what was sent when a result is read."""

    exceptions = ray.exceptions

    def __init__(self, **resources: float) -> None:
        self.resources, self.sent, self.options, self.waiting = resources, 0, [], []

    def cluster_resources(self) -> dict[str, float]:
        return self.resources

    def remote(self, function: Any) -> Any:
        def sent(*given: Any) -> Any:
            self.sent += 1
            return function(*given)

        return SimpleNamespace(options=lambda **how: self.options.append(how) or SimpleNamespace(remote=sent))

    def wait(self, calls: list[Any], *, num_returns: int, fetch_local: bool) -> None:
        assert num_returns <= len(calls)

    def put(self, one: Any) -> Any:
        return one

    def get(self, one: Any) -> Any:
        self.waiting.append(self.sent)
        return one


class Training:
    def losses(self, at: Any) -> Any:
        return at

    model = losses


AT_ONCE = {  # options of a task, and how many of them 8 CPUs, 1 graphics card and 3 pieces of "fast" run at once
    "one CPU": ({}, 8),
    "three": ({"num_cpus": 3}, 2),
    "half a card": ({"num_gpus": 0.5}, 2),
    "a resource": ({"num_cpus": 2, "resources": {"fast": 1}}, 3),
    "nothing": ({"num_cpus": 0}, 1),
    "too many": ({"num_cpus": 99}, 1),
    "none there": ({"resources": {"slow": 1}}, 1),
}


@pytest.mark.parametrize("case", AT_ONCE)
def test_as_many_tasks_run_as_the_cluster_has_room_for(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options, expected = AT_ONCE[case]
    cluster = Cluster(CPU=8.0, GPU=1.0, fast=3.0)
    monkeypatch.setattr(choice, "ray", cluster)
    candidates = [choice.Candidate({"C": C}, C) for C in range(100)]
    for many, what in ((1, "models"), (8, "losses")):
        cluster.sent, cluster.waiting = 0, []
        found = getattr(_Tasks(Training(), None, options), what)(candidates)
        assert [*found] == [{"C": C} for C in range(100)]
        assert cluster.waiting[0] == min(100, many * expected)
    assert cluster.options == [{"num_cpus": 1, "max_retries": 3, **options}] * 2


@pytest.mark.parametrize(
    ("made", "checkpoints", "line"),
    [
        ("losses", None, "cross-validate on public rows"),
        ("losses", True, "ask checkpoints about public rows"),
        ("models", None, "train finalists on all public rows"),
        ("models", True, "load finalists"),
    ],
)
def test_tasks_say_each_quarter_that_is_done(made, checkpoints, line, monkeypatch, caplog) -> None:
    monkeypatch.setattr(choice, "ray", cluster := Cluster(CPU=3.0))
    caplog.set_level(logging.INFO, "dptune_ray.choice")
    arrays = {row: np.arange(5.0) for row in range(10)} if checkpoints else None
    candidates = [choice.Candidate({"C": C}, C) for C in range(10)]
    assert len([*getattr(_Tasks(Training(), None, {}, arrays), made)(candidates)]) == 10
    assert caplog.messages == [f"{line}: {done} of 10" for done in (2, 5, 7, 10)]
    first = 10 if made == "losses" else 1 if checkpoints else 3
    assert cluster.waiting[0] == first


def test_a_model_owns_its_arrays_unless_it_is_one_of_many_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "ray", Cluster(CPU=3.0))
    monkeypatch.setattr(choice._Packed, "model", lambda self, own: own)
    for checkpoints, many, own in ((None, 2, True), ({0: None}, 1, True), ({0: None}, 2, False)):
        tasks = _Tasks(Training(), None, {}, checkpoints)
        assert [*tasks.models([choice.Candidate({}, 0)] * many)] == [own] * many
