"""CentredCMASearch: what its trials report, in both directions and when they run again, and the points of Optuna's."""

from __future__ import annotations

import sys

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from ray import tune
from ray.tune.search import Searcher

import dptune
from dptune.privacy import PendingLosses
from dptune_optuna import CentredCMASampler
from dptune_ray import CentredCMASearch, DPGIBOSearch, PrivateSearch
from dptune_ray.spaces import flat
from dptune_ray.worker import losses_at as evaluated
from ray_harness import SPACE, open_centred, open_ledger, open_privatizer, random_search
from ray_people import losses, losses_at, people
from ray_privatizers import NoiselessPrivatizer

pytestmark = pytest.mark.usefixtures("local_actors")


def scores(config):
    return 4 - losses(config)


def noiseless(folder, name="run", **settings):
    (folder / name).mkdir()
    return open_privatizer(folder / name, kind=NoiselessPrivatizer, dtype=np.float64, **settings)


def finish(search, trial, config, function=losses):
    return search.vault.hand_in("finish", trial, flat(config), evaluated(function, config))


def run(search, mode="min", function=losses, trials=40, first=0, space=SPACE):
    """Suggest and evaluate like Tune; return configurations and reported values."""
    assert search.set_search_properties("loss", mode, space)
    configs, values = [], []
    for trial in (f"t{first + i}" for i in range(trials)):
        config = search.suggest(trial)
        if config == Searcher.FINISHED:
            break
        configs.append(config)
        values.append(finish(search, trial, config, function))
    return configs, values


def restarted(search, local_actors):
    """The vault's process ends, with all losses; the searcher is made again."""
    local_actors.clear()
    fresh = open_centred(search._request.privatizer)
    assert fresh.set_search_properties("loss", "min", SPACE)
    return fresh


def test_a_run_is_two_releases_a_generation_within_its_budget(tmp_path):
    search = open_centred(open_privatizer(tmp_path))
    configs, values = run(search)
    keys = [charge.key for charge in open_ledger(tmp_path).charges()]
    assert len(configs) == search.n_trials == 12
    assert keys == [f"{kind}/{g}" for g in (1, 2, 3) for kind in ("share", "generation")]
    assert open_ledger(tmp_path).spent() == pytest.approx(np.sqrt(0.95))
    assert values[:3] == [np.inf] * 3  # nothing is released yet
    assert len(set(values[3:])) == 9


def test_optuna_and_ray_visit_the_same_points_with_the_noise_off(tmp_path):
    distributions = {"x": FloatDistribution(-1.0, 1.0), "y": FloatDistribution(1e-3, 1e1, log=True)}
    sampler = CentredCMASampler(distributions, noiseless(tmp_path, "optuna"), n_trials=16, seed=1)
    study = optuna.create_study(sampler=sampler, study_name="run")

    @sampler.objective
    def objective(trial):
        return losses_at(people(), trial.suggest_float("x", -1, 1), trial.suggest_float("y", 1e-3, 1e1, log=True))

    study.optimize(objective, n_trials=sampler.n_trials)
    search = open_centred(noiseless(tmp_path), n_trials=16)
    configs, values = run(search)
    assert len(configs) == 16
    for trial, config in zip(study.trials, configs, strict=True):
        assert config == pytest.approx(trial.params, rel=1e-9)
    assert values == pytest.approx([trial.value for trial in study.trials], rel=1e-9)
    assert search.recommend() == pytest.approx(sampler.recommend(study), rel=1e-9)


def test_scores_are_maximised_and_better_ones_report_larger_values(tmp_path):
    down, up = (open_centred(noiseless(tmp_path, mode), n_trials=24) for mode in ("min", "max"))
    (at, values), (points, gains) = run(down), run(up, "max", scores)
    for one, other in zip(at, points, strict=True):  # the vault turns scores into the same losses
        assert one == pytest.approx(other, rel=1e-6)
    assert gains == pytest.approx([-value for value in values], rel=1e-6)
    good, bad = {"x": 0.3, "y": 10**-0.8}, {"x": -1.0, "y": 10.0}
    assert finish(up, "good", good, scores) > 0 > finish(up, "bad", bad, scores)  # against the centre's score
    assert finish(down, "good", good) < 0 < finish(down, "bad", bad)
    true = [scores(config).mean() for config in points]
    centre = scores({"x": 0.0, "y": 10**-1.0}).mean()
    assert scores(up.recommend()).mean() > max(centre, np.median(true))
    assert np.isclose(scores(up.recommend()).mean(), scores(down.recommend()).mean(), rtol=1e-6)
    level = up.vault.hand_in("estimate", "final", up.recommend(), scores(up.recommend()))
    assert level.value == pytest.approx(scores(up.recommend()).mean(), abs=1e-6)


@pytest.mark.parametrize("low", [1.5, -3.0, -9.0])
def test_scores_in_a_range_that_does_not_begin_at_0_are_the_same_search_and_the_same_levels(tmp_path, low):
    """Scores low + 4 - loss in [low, low + 4] against losses in [0, 4]: points, gains and level."""

    def shifted(config):
        return low + scores(config)

    plain, up = noiseless(tmp_path, "min"), noiseless(tmp_path, "max", clip=(low, low + 4.0))
    down, up = open_centred(plain, n_trials=16), open_centred(up, n_trials=16)
    (at, values), (points, gains) = run(down), run(up, "max", shifted)
    for one, other in zip(at, points, strict=True):
        assert one == pytest.approx(other, rel=1e-6)
    assert gains == pytest.approx([-value for value in values], rel=1e-6)
    best = up.recommend()
    assert best == pytest.approx(down.recommend(), rel=1e-6)
    level = up.vault.hand_in("estimate", "final", best, shifted(best))
    assert level.value == pytest.approx(shifted(best).mean(), abs=1e-6)


@pytest.mark.parametrize("clip", [(0.0, 4.0), (1.5, 5.5), (-3.0, 1.0)])
def test_a_searchers_value_is_the_clipped_mean_score_in_its_own_units(tmp_path, clip):
    """Every person's score is cut to the range, above and below, before it is averaged; a failure is the lower end."""
    search = PrivateSearch(random_search(seed=3), noiseless(tmp_path, clip=clip), n_trials=4, name="run", seed=3)
    assert search.set_search_properties("loss", "max", SPACE)
    far = np.linspace(clip[0] - 3.0, clip[1] + 3.0, len(people()))
    for trial, told in (("a", far), ("b", np.where(far > clip[0], far, np.nan)), ("c", np.full(len(far), np.inf))):
        config = search.suggest(trial)
        found = search.vault.hand_in("finish", trial, flat(config), told)
        assert found == pytest.approx(np.clip(np.where(np.isnan(told), clip[0], told), *clip).mean(), abs=1e-6), trial


def test_a_trial_that_runs_again_reports_the_same_and_counts_once(tmp_path):
    search = open_centred(open_privatizer(tmp_path))
    configs, values = run(search, trials=3)
    for _ in range(4):
        assert finish(search, "t1", configs[1]) == values[1]
    assert open_ledger(tmp_path).charges() == []  # three points are no generation
    configs += run(search, trials=1, first=3)[0]
    assert finish(search, "t1", configs[1]) == values[1]
    for i, config in enumerate(configs):  # their generation is released: they are no points of the next
        finish(search, f"t{i}", config)
    run(search, trials=3, first=4)
    assert len(open_ledger(tmp_path).charges()) == 2
    run(search, trials=1, first=7)
    assert len(open_ledger(tmp_path).charges()) == 4
    with pytest.raises(dptune.errors.KeyConflict, match="other parameters"):
        finish(search, "t1", configs[0])


def test_after_a_restart_a_trial_reports_the_same_and_its_losses_count(tmp_path, local_actors):
    search = open_centred(open_privatizer(tmp_path))
    configs, values = run(search, trials=7)
    fresh = restarted(search, local_actors)
    for i in (4, 5, 6):  # their losses are gone, and are wanted for the second generation
        assert fresh.vault.call("check", f"t{i}", flat(configs[i])) is None  # to be trained again
        assert finish(fresh, f"t{i}", configs[i]) == values[i]
    assert len(open_ledger(tmp_path).charges()) == 2
    run(fresh, trials=1, first=7)
    assert len(open_ledger(tmp_path).charges()) == 4
    run(fresh, first=8)
    spent = open_ledger(tmp_path).spent()
    late = restarted(search, local_actors)
    assert late.vault.call("check", "t0", flat(configs[0])) == values[0]  # the run is complete: not trained again
    assert finish(late, "t0", configs[0]) == values[0]
    with pytest.raises(dptune.PlanComplete):
        late.vault.call("check", "new", {})
    assert late.suggest("new") == Searcher.FINISHED
    assert open_ledger(tmp_path).spent() == spent


def test_a_run_whose_vault_is_lost_again_and_again_is_completed_within_its_budget(tmp_path, local_actors):
    search = open_centred(open_privatizer(tmp_path))
    for first in range(0, 100, 5):  # of each five trials the fifth is lost
        if not run(restarted(search, local_actors), trials=5, first=first)[0]:
            break
    assert search._read().complete
    assert len(open_ledger(tmp_path).charges()) == 6
    assert open_ledger(tmp_path).spent() <= 1.0


def test_withheld_values_of_dp_gibo_are_the_worst_in_both_modes(tmp_path):
    for mode, function, worst in (("min", losses, np.inf), ("max", scores, -np.inf)):
        settings = {"n_trials": 12, "seed": 1, "name": mode, "monitor_share": 0.0, "mu": 0.5}
        search = DPGIBOSearch(SPACE, open_privatizer(tmp_path), **settings)
        assert set(run(search, mode, function, trials=4)[1]) == {worst}


def test_whole_numbers_and_steps_are_searched_by_cells(tmp_path):
    space = {"k": tune.randint(1, 5), "q": tune.quniform(0.0, 1.0, 0.25)}
    search = CentredCMASearch(space, open_privatizer(tmp_path), n_trials=12, seed=1)
    configs, _ = run(search, function=lambda c: losses({"x": c["k"] / 4, "y": 10 ** c["q"]}), space=space)
    assert {c["k"] for c in configs} <= {1, 2, 3, 4}
    assert {c["q"] for c in configs} <= {0.0, 0.25, 0.5, 0.75, 1.0}
    assert search.recommend().keys() == {"k", "q"}
    assert any(search._read().plan.settings.steps)


def test_settings_are_refused_at_once(tmp_path):
    for wrong in ({"population": 2}, {"n_trials": 3}, {"final_share": 1.0}, {"sigmaa": 1.0}):
        with pytest.raises(dptune.InputError):
            open_centred(open_privatizer(tmp_path), **wrong)


def test_another_algorithm_does_not_continue_the_run(tmp_path, local_actors):
    run(open_centred(open_privatizer(tmp_path)), trials=1)
    local_actors.clear()
    other = DPGIBOSearch(SPACE, open_privatizer(tmp_path), name="run", n_trials=12, seed=1)
    with pytest.raises(dptune.errors.BudgetMismatch):
        other.set_search_properties("loss", "min", SPACE)


def test_without_cmaes_the_run_does_not_begin(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cmaes", None)
    with pytest.raises(dptune.MissingExtra, match="cmaes"):
        open_centred(open_privatizer(tmp_path)).set_search_properties("loss", "min", SPACE)


def test_a_search_is_extended_and_a_new_one_starts_from_it(tmp_path, local_actors):
    search = open_centred(open_privatizer(tmp_path), n_trials=12, mu=0.6)
    configs, _ = run(search)
    with pytest.raises(dptune.InputError, match="give more of both"):
        search.extend(n_trials=12, mu=1.0)
    search.extend(n_trials=20, mu=0.9)
    again = restarted(search, local_actors)
    again.extend(n_trials=20, mu=0.9)  # the script is run again
    more, _ = run(again, first=100)
    assert (len(configs), len(more)) == (12, 8)
    assert again.n_trials == again.progress()["trials_planned"] == 20
    new = open_centred(open_privatizer(tmp_path), name="new", n_trials=12, mu=0.4, start_from="run, extended")
    assert new.recommend() == pytest.approx(again.recommend())


def test_losses_in_a_file_are_refused_as_the_vault_holds_them(tmp_path):
    kept = PendingLosses(tmp_path / "pending.db", PendingLosses.new_key())
    privatizer = dptune.LossPrivatizer(open_ledger(tmp_path), n=60, clip=(0.0, 4.0), pending=kept)
    with pytest.raises(dptune.InputError, match="without pending="):
        open_centred(privatizer)
