"""CentredSearch: what its trials report, in both directions, when they run again and after its vault was lost.

Also the clip that it chooses, and a search that is extended.
"""

from __future__ import annotations

import numpy as np
import pytest
from noises import NoNoise
from ray.tune.search import Searcher

import dptune
from by_hand import begin, finish, local, open_private, run
from dptune_ray import DPGIBOSearch
from dptune_ray.spaces import flat
from dptune_ray.vault import Vault
from ray_harness import SPACE, open_centred, open_ledger, open_privatizer
from ray_people import losses, people

pytestmark = local


def scores(config):
    return 4 - losses(config)


def noiseless(folder, name="run", **settings):
    (folder / name).mkdir()
    return open_privatizer(folder / name, noise=NoNoise(), dtype=np.float64, **settings)


def restarted(folder, local_actors):
    """The vault's process ends, with all losses; the searcher is made again."""
    local_actors.clear()
    return begin(open_centred(open_privatizer(folder)))


def test_scores_are_the_same_search_as_losses_and_the_same_levels_wherever_their_range_begins(tmp_path):
    """Scores low + 4 - loss in [low, low + 4] against losses in [0, 4]: points, gains and level."""
    low = -1.5

    def shifted(config):
        return low + scores(config)

    plain, other = noiseless(tmp_path, "min"), noiseless(tmp_path, "max", clip=(low, low + 4.0))
    down, up = begin(open_centred(plain, n_trials=16)), begin(open_centred(other, n_trials=16), "max")
    (at, values), (points, gains) = run(down), run(up, function=shifted)
    for one, other in zip(at, points, strict=True):
        assert one == pytest.approx(other, rel=1e-6)
    assert gains == pytest.approx([low + 4 - value for value in values], rel=1e-6)
    good, bad = {"x": 0.3, "y": 10**-0.8}, {"x": -1.0, "y": 10.0}
    assert finish(up, "good", good, shifted) > low > finish(up, "bad", bad, shifted)  # the centre's score counts as low
    assert finish(down, "good", good) < 4 < finish(down, "bad", bad)
    best = up.recommend()
    centre = scores({"x": 0.0, "y": 10**-1.0}).mean()
    assert scores(best).mean() > max(centre, np.median([scores(config).mean() for config in points]))
    assert best == pytest.approx(down.recommend(), rel=1e-6)
    level = up.vault.estimate(best, shifted(best))
    assert level.value == pytest.approx(shifted(best).mean(), abs=1e-6)


def test_a_searchers_value_is_the_clipped_mean_score_in_its_own_units(tmp_path):
    """Every person's score is cut to the range, above and below, before it is averaged; a failure is the lower end."""
    clip = (-3.0, 1.0)
    search = begin(open_private(noiseless(tmp_path, clip=clip), n_trials=4), "max")
    far = np.linspace(clip[0] - 3.0, clip[1] + 3.0, len(people()))
    for trial, told in (("a", far), ("b", np.where(far > clip[0], far, np.nan)), ("c", np.full(len(far), np.inf))):
        found = search.vault.finish(trial, flat(search.suggest(trial)), told)
        assert found == pytest.approx(np.clip(np.where(np.isnan(told), clip[0], told), *clip).mean(), abs=1e-6), trial
    assert search.vault.finish("d", flat(search.suggest("d")), None) == pytest.approx(clip[0], abs=1e-6)


def test_a_trial_that_runs_again_reports_the_same_and_counts_once(tmp_path):
    search = begin(open_centred(open_privatizer(tmp_path)))
    configs, values = run(search, 3)
    assert values == [np.inf] * 3  # nothing is released yet
    for _ in range(4):
        assert finish(search, "t1", configs[1]) == values[1]
    assert open_ledger(tmp_path).charges() == []  # three points are no generation
    configs += run(search, 1, first=3)[0]
    for i, config in enumerate(configs):  # their generation is released: they are no points of the next
        finish(search, f"t{i}", config)
    assert finish(search, "t1", configs[1]) == values[1]
    run(search, 3, first=4)
    assert len(open_ledger(tmp_path).charges()) == 2
    run(search, 1, first=7)
    assert len(open_ledger(tmp_path).charges()) == 4


def test_after_a_restart_a_trial_reports_the_same_and_its_losses_count(tmp_path, local_actors):
    search = begin(open_centred(open_privatizer(tmp_path)))
    configs, values = run(search, 7)
    fresh = restarted(tmp_path, local_actors)
    for i in (4, 5, 6):  # their losses are gone, and are wanted for the second generation
        assert fresh.vault.call(Vault.check, f"t{i}", flat(configs[i])) is None  # to be trained again
        assert finish(fresh, f"t{i}", configs[i]) == values[i]
    assert len(open_ledger(tmp_path).charges()) == 2
    run(fresh, 1, first=7)
    assert len(open_ledger(tmp_path).charges()) == 4
    run(fresh, first=8)
    spent = open_ledger(tmp_path).spent()
    late = restarted(tmp_path, local_actors)
    assert late.vault.call(Vault.check, "t0", flat(configs[0])) == values[0]  # the run is complete: not trained again
    assert finish(late, "t0", configs[0]) == values[0]
    with pytest.raises(dptune.PlanComplete):
        late.vault.call(Vault.check, "new", {})
    assert late.suggest("new") == Searcher.FINISHED
    assert open_ledger(tmp_path).spent() == spent


def test_a_run_whose_vault_is_lost_again_and_again_is_completed_within_its_budget(tmp_path, local_actors):
    for first in range(0, 100, 5):  # of each five trials the fifth is lost
        if not run(restarted(tmp_path, local_actors), 5, first=first)[0]:
            break
    assert len(open_ledger(tmp_path).charges()) == 6
    assert open_ledger(tmp_path).spent() <= 1.0


@pytest.mark.parametrize(("mode", "function", "worst"), [("min", losses, np.inf), ("max", scores, -np.inf)])
def test_withheld_values_of_dp_gibo_are_the_worst_in_both_modes(tmp_path, mode, function, worst):
    search = DPGIBOSearch(open_privatizer(tmp_path), SPACE, n_trials=12, seed=1, monitor_share=0.0)
    assert set(run(begin(search, mode), 4, function)[1]) == {worst}


def test_a_search_is_extended_and_a_new_one_starts_from_it(tmp_path, local_actors):
    search = begin(open_centred(open_privatizer(tmp_path), mu=0.6))
    configs, _ = run(search)
    search.extend(n_trials=20, mu=0.9)
    again = restarted(tmp_path, local_actors)
    again.extend(n_trials=20, mu=0.9)  # the script is run again
    more, _ = run(again, first=100)
    assert (len(configs), len(more)) == (12, 8)
    assert again.n_trials == again.progress()["trials_planned"] == 20
    new = open_centred(open_privatizer(tmp_path), name="new", mu=0.4, start_from="run, extended")
    assert new.recommend() == pytest.approx(again.recommend())


def test_the_default_chooses_the_clip_and_the_vault_goes_on_with_it(tmp_path, local_actors):
    asked, default = [], {"x": 0.5, "y": 1.0}

    def dollars(config):
        asked.append(config)
        return 1e4 * np.random.default_rng(1).exponential(1.0, 300) * (1 + config["x"] ** 2)

    for _ in range(2):
        local_actors.clear()  # the vault's process ends; the clip is in the ledger
        search = open_centred(open_privatizer(tmp_path, clip="auto", n=300), default=default)
        search.trainable(dollars, silent=False)
        assert begin(search).suggest("first") == pytest.approx(default)
        (charge,) = open_ledger(tmp_path).charges()
        assert (charge.scope, charge.key) == ("clip/automatic", "clip")
        assert 1e4 < charge.value[0] < 1e6
    assert asked == [default]
    assert search.vault.finish("first", default, dollars(default)) == np.inf  # nothing is released of it yet
