"""The last release of a search on Ray, met by an error or a kill of the vault; without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dptune
from dptune.search import SELECTION
from dptune_ray.vault import Vault
from ray_harness import open_ledger
from ray_people import losses_at, people
from test_vault import finish, values_vault

DEFAULT = {"x": 0.9, "y": 9.0}


def selection_vault(folder: Path) -> Vault:
    return values_vault(folder, method=SELECTION, mu=0.9, trials=3, default=DEFAULT)


def play(vault: Vault, name: str, most: int = 9) -> None:
    for trial in (f"{name}{i}" for i in range(most)):
        if (point := vault.ask(trial)) is None:
            return
        vault.check(trial, point)
        finish(vault, trial, point, losses_at(people(), **point))


def fails_once(vault: Vault, method: str, key: str, error: BaseException) -> None:
    ledger, met = vault._ledger, list[str]()
    true = getattr(ledger, method)

    def fails(*asked: Any, **options: Any) -> Any:
        if key in (asked[1] if method == "charge" else asked[0].key) and not met:
            met.append(key)
            raise error
        return true(*asked, **options)

    setattr(ledger, method, fails)


def keys(folder: Path) -> list[str]:
    return [charge.key for charge in open_ledger(folder).charges("run") if charge.value is not None]


@pytest.mark.parametrize("method", ["charge", "record"])
@pytest.mark.parametrize("by", ["the next trial", "recommend"])
def test_the_vault_that_met_an_error_chooses_without_another_trial(tmp_path: Path, method: str, by: str) -> None:
    vault = selection_vault(tmp_path)
    fails_once(vault, method, "choice", dptune.LedgerError("disk full"))
    with pytest.raises(dptune.LedgerError, match="disk full"):
        play(vault, "t")
    assert keys(tmp_path) == []
    if by == "recommend":
        vault.make_up()
    else:
        assert vault.ask("next") is None
    assert keys(tmp_path)[0] == "choice"
    assert vault._run.complete
    assert len(open_ledger(tmp_path).charges("run", prefix="choice")) == 1


@pytest.mark.parametrize("method", ["charge", "record"])
def test_a_vault_that_was_killed_is_made_up_for_by_the_next_fit(tmp_path: Path, method: str) -> None:
    vault = selection_vault(tmp_path)
    fails_once(vault, method, "choice", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        play(vault, "t")
    late = selection_vault(tmp_path)
    assert not late._run.complete
    play(late, "again ")
    assert late._run.complete
    assert keys(tmp_path)[0] == "choice"
    assert len(open_ledger(tmp_path).charges("run", prefix="choice")) == 1
    assert open_ledger(tmp_path).spent() <= 0.9
