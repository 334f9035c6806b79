"""Trials in this process seal the user's errors, store nothing in Tune, and send losses to the vault."""

import importlib
import pickle
import signal
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray import cloudpickle, tune
from ray.tune.experiment import Experiment

import dptune
from audit_tools import run_forked
from by_hand import CONFIG, local, made, open_private, value_of
from dptune_ray import worker
from dptune_ray.actors import ActorClient
from dptune_ray.federated import Host
from dptune_ray.vault import LossesMissing, Upload
from dptune_ray.vault_client import IN_FLIGHT, ROWS
from dptune_ray.worker import Call, PickledFunction, WorkerTrial, losses_at, resources
from ray_harness import open_ledger, open_privatizer
from ray_people import N, losses

TOP_LEVEL = "the top level of a module may say anything"
MODULE = """
import numpy as np
print("{says}")

def function(config):
    return np.zeros({rows})

def agent(agent, config):
    return 0.5
"""


def made_trainable(function=losses, silent=True):
    return worker.made_trainable(WorkerTrial, function, function, ActorClient.of("vault", "run"), silent=silent)


class Unreadable:
    """What a function returns in order to interrupt whoever reads it."""

    def __init__(self, error):
        self.error = error

    def __array__(self, *args, **kwargs):
        raise self.error("person 7")


def test_any_exception_of_a_function_or_its_result_is_a_failure():
    def raising(config, error):
        raise error("person 7")

    for error in (KeyboardInterrupt, SystemExit, ValueError):
        assert losses_at(partial(raising, error=error), CONFIG) is None
    assert losses_at(lambda config: Unreadable(KeyboardInterrupt), CONFIG) is None
    with pytest.raises(dptune.InputError, match="got Unreadable") as caught:  # its type is public
        losses_at(lambda config: Unreadable(SystemExit), CONFIG)
    assert "person 7" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None
    config = {"nested": {"x": 1}}
    assert losses_at(lambda given: given["nested"].update(x=1234.5) or [0.0], config) == [0.0]
    assert config == {"nested": {"x": 1}}  # Tune writes it to every result


def test_a_trainable_has_try_out_resources_and_its_runs_name(tmp_path):
    """The final trial gets the same resources."""
    search = open_private(open_privatizer(tmp_path), n_trials=2)
    trainable = search.trainable(losses)
    assert trainable.try_out(CONFIG) == "PerExampleLosses(<private values>)"
    with pytest.raises(ZeroDivisionError):
        search.trainable(lambda config: 1 / 0).try_out({})
    asking = tune.with_resources(trainable, {"cpu": 2, "gpu": 0.5, "memory": 1000, "fast": 1})
    assert issubclass(asking, trainable)
    wanted = {"num_cpus": 2.0, "num_gpus": 0.5, "memory": 1000.0, "resources": {"fast": 1.0}}
    assert resources(asking.default_resource_request(CONFIG)) == wanted
    assert resources(None) == {"num_cpus": 1}
    children = tune.PlacementGroupFactory([{}, {"CPU": 3}])
    assert resources(children) == {"num_cpus": 0.0, "num_gpus": 0.0, "resources": {}}
    again, other = (open_private(open_privatizer(tmp_path), name=run).trainable(losses) for run in ("run", "other"))
    names = [Experiment.get_trainable_name(one) for one in (trainable, asking, again, other)]
    assert len({*names[:3]}) == 1  # by which Tune finds it again
    assert names[3] != names[0]


@pytest.fixture
def user_module(tmp_path, monkeypatch):
    """A user's module that talks when it is imported; forgotten again by ``del sys.modules[...]``."""
    (tmp_path / "a_users_module.py").write_text(MODULE.format(rows=N, says=TOP_LEVEL))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("a_users_module")
    sys.modules.pop("a_users_module", None)


def set_up(trainable):
    one = trainable.__new__(trainable)
    one.is_actor = lambda: True
    one.setup(CONFIG)
    assert one.reset_config(CONFIG)


def host(objective):
    Host(objective, None, None, (0,), seed=1, mode="min", silent=True).objective.load()


BEGINS = {  # a process of Ray's -> what begins there, with functions of a user's module
    "trial": lambda user: partial(set_up, made_trainable(user.function)),
    "trial that may print": lambda user: partial(set_up, made_trainable(user.function, silent=False)),
    "last estimate": lambda user: partial(Call().run, partial(PickledFunction(user.function), CONFIG), silent=True),
    "host of a federation": lambda user: partial(host, PickledFunction(user.agent)),
}
PROCESS = """
import os, pickle, signal, subprocess, sys
for descriptor, name in ((1, "stdout"), (2, "stderr")):
    os.dup2(os.open(sys.argv[1] + "/" + name, os.O_WRONLY | os.O_CREAT), descriptor)
sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
print("before", file=sys.stderr)
begin = pickle.loads(open(sys.argv[1] + "/sent", "rb").read())
assert "a_users_module" not in sys.modules
begin()
assert "a_users_module" in sys.modules
print("python", flush=True)
print("python", file=sys.stderr, flush=True)
os.write(1, b"descriptor ")
subprocess.run(["echo", "child"], check=True)
os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.parametrize("process", BEGINS)
def test_a_users_module_is_imported_silently_and_sigterm_ends_the_process(tmp_path, user_module, process):
    (tmp_path / "sent").write_bytes(cloudpickle.dumps(BEGINS[process](user_module)))
    del sys.modules["a_users_module"]
    assert run_forked(PROCESS, str(tmp_path)).returncode == -signal.SIGTERM
    said = [(tmp_path / name).read_text() for name in ("stdout", "stderr")]
    if process == "trial that may print":
        assert said == [f"{TOP_LEVEL}\npython\ndescriptor child\n", "before\npython\n"]
    else:
        assert said == ["", "before\n"]


def test_a_decorated_function_travels_without_its_module(tmp_path, user_module):
    search = open_private(open_privatizer(tmp_path), n_trials=2)
    trainable = user_module.function = search.trainable(user_module.function)
    sent = cloudpickle.dumps(trainable)
    del sys.modules["a_users_module"]
    received = pickle.loads(sent)
    function = received.function.load()
    assert "a_users_module" not in sys.modules
    assert pickle.loads(cloudpickle.dumps(received)).function.load().__class__ is function.__class__


@pytest.mark.parametrize(
    ("says", "known"),
    [("raise KeyboardInterrupt('person 7')", "KeyboardInterrupt"), ("import absent_one", "no module 'absent_one'")],
)
def test_a_function_that_cannot_be_unpickled_fails_the_trial_at_once(user_module, says, known):
    sent = cloudpickle.dumps(made_trainable(user_module.function))
    del sys.modules["a_users_module"]
    Path(user_module.__file__).write_text(says)
    importlib.invalidate_caches()
    received = pickle.loads(sent)
    one = received.__new__(received)
    one.is_actor = lambda: False
    with pytest.raises(dptune.InputError, match=rf"could not be read .*\(.*{known}\)") as caught:
        one.setup(CONFIG)
    assert caught.value.__context__ is None


@local
def test_a_trial_of_a_complete_run_or_with_a_value_is_not_trained(tmp_path, caplog):
    calls: list[Any] = []

    def counted(config):
        calls.append(config)
        return losses(config)

    caplog.set_level("INFO", "dptune_ray")
    search, trainable = made(tmp_path, counted)
    for trial, paid in (("a", True), ("b", True), ("a", True), ("c", False)):
        value = value_of(trainable, trial)
        search.on_trial_complete(trial, result={"loss": value})
        assert np.isfinite(value) == paid
    assert len(calls) == 2
    assert len(open_ledger(tmp_path).charges()) == 2
    why = "nothing was charged for it: the run 'run' is complete, so the trial was not trained."
    assert [line for line in caplog.messages if "NaN" in line] == [f"The trial 'c' reports NaN and {why}"]


@local
def test_every_upload_has_a_name_of_its_own_and_small_parts(tmp_path, local_actors):
    n, names, sizes = IN_FLIGHT * ROWS + 1, [], []  # more parts than may be on their way
    search, _ = made(tmp_path, losses, n=n)
    inner = next(iter(local_actors.values())).served

    def spied(trial, name, first, part):
        names.append(name)
        sizes.append(len(part))
        return put(trial, name, first, part)

    put, inner.put = inner.put, spied
    for trial in ("a", "b"):
        search.vault.finish(trial, CONFIG, np.zeros(n))
    assert len(set(names)) == 2
    assert (max(sizes), sum(sizes)) == (64 * 1024, 2 * 8 * n)  # a larger one would lie in the object store
    with pytest.raises(LossesMissing):  # nothing is held any more
        inner.finish(Upload(names[-1], ("c",), (n,)), "c", CONFIG)
