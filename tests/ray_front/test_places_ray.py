"""Places as Ray actors: the contract of places, with kills of an actor and of a driver's call."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

import dptune
import places_contract as contract
from dptune_ray import RayPlace
from dptune_ray import places as implementation
from noises import NoNoise

pytestmark = pytest.mark.ray


def at(name: str, data: Any, groups: Any) -> dptune.Place:
    print("private rows", data)
    return dptune.Place(name, data, groups=groups)


def made(parts: contract.Parts) -> dptune.Places:
    return dptune.Places(
        [RayPlace(name, partial(at, name, *given), num_cpus=0, max_restarts=-1) for name, given in parts.items()]
    )


@pytest.fixture(scope="module")
def places(cluster: Path) -> dptune.Places:
    return made(contract.PARTS)


def test_places_of_ray_pass_the_contract(places: dptune.Places, tmp_path: Path) -> None:
    contract.same_release_as_one_place(lambda _: places, tmp_path / "same")
    contract.waits_and_resumes(lambda _: dptune.Places(places.places), tmp_path)


@pytest.mark.parametrize(
    "flow", [pytest.param(each, marks=[] if each == "single" else pytest.mark.slow) for each in contract.FLOWS]
)
def test_an_actor_that_is_killed_at_each_border_changes_no_release(
    places: dptune.Places, tmp_path: Path, flow: str
) -> None:
    """Ray starts it again, and it answers: before and after each of its answers, the release is that of all people."""
    expected = NoNoise()
    contract.FLOWS[flow](contract.privatizer(tmp_path / "whole", contract.WHOLE, expected), contract.WHOLE)
    for method, calls in contract.CALLS[flow].items():
        for at_call in range(1, calls + 1):
            killed = contract.Killed(
                places.places[2], method, at_call, lambda: ray.kill(places.places[2]._actor, no_restart=False)
            )
            data, noise = dptune.Places(places.places), NoNoise()
            data.places = (*data.places[:2], killed, *data.places[3:])
            p = contract.privatizer(tmp_path / f"{method} {at_call}", data, noise)
            contract.FLOWS[flow](p, data)
            assert killed.kills == 1
            assert [s.tolist() for s, _ in noise.seen] == [s.tolist() for s, _ in expected.seen]


def test_a_place_that_is_not_its_name_or_cannot_load_is_refused(cluster: Path, tmp_path: Path) -> None:
    def fails() -> dptune.Place:
        raise ValueError("SECRET 41.5")

    with pytest.raises(dptune.InputError, match="must return"):
        _ = dptune.Places([RayPlace("north", partial(at, "south", contract.WHOLE, None), num_cpus=0)]).n
    with pytest.raises(dptune.errors.PlaceUnavailable) as caught:
        _ = dptune.Places([RayPlace("north", fails, num_cpus=0)]).n
    assert "SECRET" not in str(caught.value)


def test_nothing_private_is_in_files_of_ray(places: dptune.Places, cluster: Path) -> None:
    logs = "".join(path.read_text(errors="replace") for path in (cluster / "logs").glob("worker*"))
    assert "private rows" not in logs


def test_a_place_is_waited_for_as_long_as_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    actor = SimpleNamespace(call=SimpleNamespace(remote=lambda *sent: None))
    monkeypatch.setattr(implementation, "start", lambda *about: actor)
    monkeypatch.setattr(implementation, "answer_of", lambda reference, timeout: waited.append(timeout))
    for timeout in ({}, {"timeout": 7.5}):
        RayPlace("north", lambda: dptune.Place("north", None), **timeout).ready(None, [])()
    assert waited == [600.0, 7.5]
