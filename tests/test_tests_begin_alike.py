"""A test begins in the same state whichever test was before it: ``conftest.py`` sees to that."""

import random
import weakref
from pathlib import Path

import numpy as np
import pytest

CONFTEST = str(Path(__file__).with_name("conftest.py"))


class Left:
    """Refers to itself, as a study with its sampler does, so that only the garbage collector ends it."""

    def __init__(self) -> None:
        self.itself = self


def begin_again(request: pytest.FixtureRequest) -> None:
    request.config.pluginmanager.get_plugin(CONFTEST).pytest_runtest_setup(request.node)


def test_garbage_of_a_test_is_collected_before_the_next_begins(request: pytest.FixtureRequest) -> None:
    gone: list[str] = []
    weakref.finalize(Left(), gone.append, "gone")
    assert len([[] for _ in range(100_000)]) == 100_000  # the collector would run in between
    assert gone == []
    begin_again(request)
    assert gone == ["gone"]


def test_global_generators_begin_alike(request: pytest.FixtureRequest) -> None:
    begin_again(request)
    drawn = random.random(), np.random.random()
    begin_again(request)
    assert (random.random(), np.random.random()) == drawn
