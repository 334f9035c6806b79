"""clip="auto" on Ray: the default configuration is trained once, in the vault's sight, before the run begins."""

from __future__ import annotations

import numpy as np
import pytest
from ray import tune

import dptune
from dptune_ray import CentredSearch

SPACE = {"x": tune.uniform(-1.0, 1.0)}
DEFAULT = {"x": 0.5}
N = 300


def dollars(config):
    return 1e4 * np.random.default_rng(1).exponential(1.0, N) * (1 + config["x"] ** 2)


def search_in(folder, **settings):
    ledger = dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(1.0))
    privatizer = dptune.LossPrivatizer(ledger, n=N, clip="auto")
    search = CentredSearch(privatizer, SPACE, name="run", **{"n_trials": 12, "default": DEFAULT, **settings})
    return search, ledger


def begin(search, mode="min"):
    """What a Tuner does first."""
    return search.set_search_properties("loss", mode, SPACE)


@pytest.fixture(autouse=True)
def here(monkeypatch, local_actors):
    """What runs on the cluster runs in this process."""
    monkeypatch.setattr("dptune_ray.search.in_own_process", lambda call, **_: call())


def test_the_default_chooses_the_clip_and_the_vault_goes_on_with_it(tmp_path, local_actors):
    search, ledger = search_in(tmp_path)
    asked = []
    search.trainable(lambda config: asked.append(config["x"]) or dollars(config))
    assert begin(search)
    assert search.suggest("first") == DEFAULT
    assert asked == [0.5]
    (charge,) = ledger.charges()
    assert (charge.scope, charge.key) == ("clip/automatic", "clip")
    assert 1e4 < charge.value[0] < 1e6
    local_actors.clear()  # the vault's process ends; the clip is in the ledger
    again, _ = search_in(tmp_path)
    again.trainable(lambda config: asked.append(config["x"]) or dollars(config))
    assert begin(again)
    assert again.suggest("first") == DEFAULT
    assert again.vault.finish("first", DEFAULT, dollars(DEFAULT)) == np.inf  # nothing is released of it yet
    assert (len(ledger.charges("clip/automatic")), len(asked)) == (1, 1)


def test_what_has_no_losses_of_a_default_is_refused_unspent(tmp_path):
    search, ledger = search_in(tmp_path)
    with pytest.raises(dptune.InputError, match="make the function a trainable first"):
        begin(search)
    with pytest.raises(dptune.InputError, match="Give default="):
        search_in(tmp_path, default=None)[0].trainable(dollars)
    search.trainable(lambda config: 1 / 0)
    with pytest.raises(dptune.InputError, match="the default configuration failed"):
        begin(search)
    with pytest.raises(dptune.InputError, match="for scores give clip"):
        begin(search, "max")
    assert ledger.spent() == 0
