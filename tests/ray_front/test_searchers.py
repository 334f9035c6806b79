"""Searchers with a vault report values, recommend, restore, and inform their inner searcher."""

import math

import numpy as np
import pytest
from ray import cloudpickle, tune
from ray.tune.search import ConcurrencyLimiter, Searcher
from ray.tune.search.optuna import OptunaSearch

import dptune
from by_hand import Half, begin, finish, local, on_both, open_private, run
from dptune_ray import DPGIBOSearch, worker
from dptune_ray.spaces import flat
from dptune_ray.vault import Vault
from noises import NoNoise
from ray_harness import SPACE, open_centred, open_ledger, open_privatizer
from ray_people import losses, people

pytestmark = local


def told_values(inner):
    return [trial.value for trial in inner._ot_study.trials if trial.value is not None]


@on_both
def test_a_run_ends_by_itself_and_recommends_without_a_vault(tmp_path, caplog, opened):
    search = begin(opened(open_privatizer(tmp_path)))
    run(search, 7)
    assert search.recommend()
    assert "The run 'run' is not complete." in caplog.text
    assert "fit a Tuner with num_samples=-1" in caplog.text
    caplog.clear()
    assert 7 + len(run(search, first=7)[0]) == search.n_trials == 12
    fresh = opened(open_privatizer(tmp_path))
    assert fresh.recommend() == search.recommend() == fresh.progress()["recommended"]
    assert set(fresh.recommend()) == {"x", "y"}
    without_space = type(fresh)(open_privatizer(tmp_path), name="run", seed=1, n_trials=12)
    assert (without_space.n_trials, without_space.recommend()) == (12, fresh.recommend())
    assert "not complete" not in caplog.text


@on_both
def test_nothing_private_of_a_run_is_pickled(tmp_path, opened):
    private, privatizer = losses({"x": 0.5, "y": 1.0}), open_privatizer(tmp_path)
    search = begin(opened(privatizer))
    run(search, 5)
    finish(search, "a", search.suggest("a"), lambda config: private)
    privatizer.observe("held", private)
    search.trainable(lambda config: private)  # its function closes over them
    written = cloudpickle.dumps(search)
    for loss in private:
        assert np.float64(loss).tobytes() not in written
        assert np.float32(loss - 2).tobytes() not in written  # rows are kept centred, in float32


@on_both
def test_a_recommendation_rebuilds_the_model_and_compares_the_default(tmp_path, opened):
    space = {"model": {"x": SPACE["x"], "kernel": "rbf", "kind": tune.choice(["a", "b"])}, "y": SPACE["y"], "data": [1]}
    default = {"model": {"x": -0.9, "kind": "b"}, "y": 5.0}

    def deep(config):
        return losses({"x": config["model"]["x"], "y": config["y"]})

    privatizer = open_privatizer(tmp_path, mu=30.0)
    search = type(opened(privatizer))(privatizer, space, n_trials=24, seed=1, name="deep", default=default)
    run(begin(search, space=space), function=deep)
    best = search.recommend()
    assert best["model"].keys() == {"x", "kernel", "kind"}
    assert (best["model"]["kernel"], best["data"]) == ("rbf", [1])
    assert best.defaults == default
    assert best.hint.value > 0
    if best.improvement is None:  # it does not end with a choice
        worker.estimated(search.trainable(deep), [best, default])
        best = search.recommend()
    gain = deep(default).mean() - deep(best).mean()
    assert best.improvement.value == pytest.approx(gain, abs=6 * best.improvement.sigma)
    assert search.estimate(None, best).improvement == best.improvement  # recorded: nothing is trained
    assert best.summary().startswith("Better than ")


def test_each_trial_draws_its_own_parameters_after_a_restart_too(tmp_path):
    """The seed and the trial determine them. Without a seed they never repeat."""
    space = {**SPACE, "k": tune.choice(list(range(1000))), "l": tune.choice(list(range(1000)))}

    def drawn(trial, seed):
        search = DPGIBOSearch(open_privatizer(tmp_path), space, name=f"{seed}", n_trials=12, mu=0.4, seed=seed)
        config = begin(search, space=space).suggest(trial)
        return config["k"], config["l"]

    assert drawn("a", 1) == drawn("a", 1)
    assert drawn("b", 1) != drawn("c", 1)
    assert drawn("a", None) != drawn("a", None)


# ---- any other searcher, on released values ------------------------------------------------------------


@pytest.mark.parametrize("mode", ["min", "max"])
def test_other_searchers_work_on_values_in_both_directions(tmp_path, mode):
    inner = OptunaSearch(seed=1)
    search = begin(open_private(open_privatizer(tmp_path), inner, n_trials=6), mode)
    _, values = run(search, function=lambda config: 4 - losses(config) if mode == "max" else losses(config))
    assert len(values) == 6
    assert told_values(inner) == values
    assert inner._ot_study.best_value == (min if mode == "min" else max)(values)
    assert search.recommend() in [trial.params for trial in inner._ot_study.trials]


@pytest.mark.parametrize(
    ("state", "known", "mode"),
    [(None, 0, "min"), (None, 0, "max"), ({"open": ["t9"], "known": ["t0", "t1"]}, 2, "min")],
)
def test_a_searcher_that_lost_its_state_is_told_the_released_values_once(tmp_path, state, known, mode):
    function = losses if mode == "min" else scores
    _, values = run(begin(open_private(open_privatizer(tmp_path), OptunaSearch(seed=1)), mode), 5, function)
    fresh = OptunaSearch(seed=2)
    search = begin(open_private(open_privatizer(tmp_path), fresh), mode)
    if state is not None:
        search.set_state({**search.get_state(), **state})
    for trial in ("t7", "t8"):
        search.suggest(trial)
        assert told_values(fresh) == values[known:]


def test_parameters_that_the_inner_searcher_omits_are_drawn(tmp_path):
    """An exception of the inner searcher does not fail a good trial."""
    space = {**SPACE, "a": {"k": tune.choice(["u", "v"])}, "c": 1}
    space["s"] = tune.sample_from(lambda config: config["x"] + config["c"] * len(config["a"]["k"]))
    search = begin(open_private(open_privatizer(tmp_path), Half()), space=space)
    config = search.suggest("a")
    assert (config["x"], config["s"]) == (0.5, 1.5)
    assert 1e-3 <= config["y"] <= 1e1
    assert config["a"]["k"] in {"u", "v"}
    search.on_trial_complete("a", {"loss": finish(search, "a", config)})


def test_the_inner_searcher_gets_each_released_value_once_and_all_failures(tmp_path):
    inner = OptunaSearch(seed=1)
    search = begin(open_private(open_privatizer(tmp_path), inner))
    _, values = run(search, 2)
    for trial, value in zip(("t0", "t1"), values, strict=True):
        search.on_trial_result(trial, {"loss": value})
        search.on_trial_complete(trial, {"loss": value})
    search.suggest("a")
    search.on_trial_complete("a", {"loss": math.nan, "training_iteration": 1})
    search.suggest("b")
    with pytest.raises(dptune.PrivacyError):
        search.on_trial_complete("b", {"loss": 0.123})
    assert [t.state.name for t in inner._ot_study.trials] == ["COMPLETE", "COMPLETE", "FAIL", "RUNNING"]
    assert told_values(inner) == values


def test_while_the_inner_searcher_waits_no_trial_counts_as_lost(tmp_path):
    inner = ConcurrencyLimiter(OptunaSearch(seed=1), max_concurrent=1)
    search = begin(open_private(open_privatizer(tmp_path), inner, n_trials=2))
    for trial in "ab":
        config = search.suggest(trial)
        assert [search.suggest(f"{trial}{i}") for i in range(20)] == [None] * 20  # Tune: another identifier each time
        search.on_trial_complete(trial, {"loss": finish(search, trial, config), "training_iteration": 1})
    assert search.suggest("c") == Searcher.FINISHED
    assert [t.state.name for t in inner.searcher._ot_study.trials] == ["COMPLETE", "COMPLETE"]


def scores(config):
    return 4 - losses(config)


def noiseless(folder, name="run", **settings):
    (folder / name).mkdir()
    return open_privatizer(folder / name, noise=NoNoise(), dtype=np.float64, **settings)


def restarted(folder, local_actors):
    """The vault's process ends, with all losses; the searcher is made again."""
    local_actors.clear()
    return begin(open_centred(open_privatizer(folder)))


def test_shifted_scores_give_the_same_search_as_losses(tmp_path):
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


def test_a_repeated_trial_reports_the_same_value_and_counts_once(tmp_path, local_actors):
    """A restart does not change that."""
    search = begin(open_centred(open_privatizer(tmp_path)))
    configs, values = run(search, 7)
    for i, config in enumerate(configs):  # the first four are no points of the second generation
        assert finish(search, f"t{i}", config) == values[i]
    assert len(open_ledger(tmp_path).charges()) == 2
    assert search.vault.call(Vault.sigma, "t0") is None  # it has no release of its own
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


@pytest.mark.parametrize(("mode", "function", "worst"), [("min", losses, np.inf), ("max", scores, -np.inf)])
def test_withheld_values_of_dp_gibo_are_the_worst_in_both_modes(tmp_path, mode, function, worst):
    search = DPGIBOSearch(open_privatizer(tmp_path), SPACE, n_trials=12, seed=1, monitor_share=0.0)
    assert set(run(begin(search, mode), 4, function)[1]) == {worst}
