"""Every front end of Ray refuses mistakes at no cost, in messages that name the input and the remedy."""

import numpy as np
import pytest
import ray
from ray import tune
from ray.tune import report
from ray.tune.impl.placeholder import create_resolvers_map, inject_placeholders
from ray.tune.search import ConcurrencyLimiter, Repeater
from ray.tune.search.optuna import OptunaSearch

import dptune
from by_hand import LDP_SPACE, Half, NoNoise, begin, on_all, open_ldp, open_private, played, run, told
from dptune.federated.settings import FTSSettings
from dptune_ray import CentredSearch, DPFTSSearch, DPGIBOSearch, Federation, PrivateSearcher
from dptune_ray.spaces import domains_of, flat
from federation_harness import SETTINGS, open_searches, serve, value
from ray_harness import SPACE, open_centred, open_ledger, open_privatizer, open_search, random_search
from ray_people import EVERYTHING, Kernel, N, losses, losses_of_everything

pytestmark = pytest.mark.usefixtures("local_actors")
ROWS = np.zeros((N, 1)), np.zeros(N)
MIXED = {"x": tune.uniform(0, 1), "kernel": tune.choice([Kernel(1.0), 1])}


def opened(folder, kind=CentredSearch, **wrong):
    usual = {"searcher": random_search()} if kind is PrivateSearcher else {"param_space": SPACE}
    return kind(**{"privatizer": open_privatizer(folder), "n_trials": 12, **usual, **wrong})


def fitted(folder, metric="loss", mode="min", space=SPACE):
    """What a Tuner does first, with a searcher that has no space of its own."""
    opened(folder, DPGIBOSearch, param_space=None, mode="min").set_search_properties(metric, mode, space)


def wrapping(folder):
    begin(open_private(open_privatizer(folder), OptunaSearch(SPACE, "loss", "min"), mode="min"), space=SPACE)


def trainable(folder, function=losses, search=open_centred, **options):
    return search(open_privatizer(folder)).trainable(function, **options)


def estimated_without_share(folder):
    search = begin(open_search(open_privatizer(folder), mu=0.5, final_share=0.0))
    search.estimate(search.trainable(losses), search.recommend())


def without_clip(folder):
    CentredSearch(open_privatizer(folder, clip=None, n=300), SPACE, n_trials=12).trainable(losses)


def replying(folder):
    """The randomiser's middle is 0.5."""
    search = open_ldp(folder, centre=0.4, settings=told(8.0, 1.5))
    search.trainable(losses, randomizer=NoNoise(8.0, (-1.0, 2.0)))
    begin(search, "max", LDP_SPACE)


def agent(folder, space=SPACE):
    return DPFTSSearch(serve(folder), SETTINGS, space, agent=0, trials=folder / "a.db")


def federation(folder, **wrong):
    Federation(value, SPACE, serve(folder), **{"settings": SETTINGS, "hosts": 2, **wrong}, mode="min")


def report_imported(config):
    report({"loss": 1.0})


def two_spaces(folder, theirs, ours=EVERYTHING):
    search = opened(folder, param_space=ours, mode="min")
    played(search, search.trainable(losses_of_everything), space=theirs)


MISTAKES = {  # words of the error -> what makes the mistake, in a folder
    # ---- a searcher's settings
    "searched parameter, within its range": lambda at: begin(opened(at, default={"x": 0.0, "y": 99.0})),
    "population": lambda at: opened(at, population=2),
    # ---- what the Tuner, or an inner searcher, asks for
    "mode must be": lambda at: fitted(at, mode="sideways"),
    "no numerical parameter.*`choose`.*dptune.select": lambda at: fitted(at, space={"k": tune.choice([1, 2])}),
    "'x'.*list": lambda at: domains_of({"x": ({"y": tune.uniform(0, 1)},)}),
    "'x'.*tune.choice": lambda at: domains_of({"x": tune.choice([{"y": [tune.uniform(0, 1)]}, 3])}),
    "'m/2'.*not text": lambda at: domains_of({"m": {2: {"x": tune.uniform(0, 1)}}}),
    "'a/b'.*nested": lambda at: domains_of({"a/b": {"c": tune.uniform(0, 1)}}),
    "placeholders in the place of 'o'.*param_space=": lambda at: flat(
        inject_placeholders({"o": [object()]}, create_resolvers_map())
    ),
    "both have a search space": wrapping,
    "differ in 'kernel', 'text', 'x'.*or the same to both": lambda at: two_spaces(
        at, {**EVERYTHING, "x": tune.uniform(0, 1), "text": tune.choice(["a", "c"]), "kernel": Kernel(1.0)}
    ),
    "'kernel': Tune cannot choose between objects and plain values": lambda at: two_spaces(at, MIXED, None),
    # ---- trainables, estimates and the clip
    r"function calls tune.report\(": lambda at: trainable(at, report_imported),
    "tune.with_parameters": lambda at: tune.with_parameters(trainable(at), rows=np.zeros(3)),
    "private people": lambda at: trainable(at, public="x", training="private"),
    "is minimised: set": lambda at: begin_with_a_named_loss(at),
    "minimises zero_one_loss, and this .* returns brier_loss": lambda at: another_loss(at),
    "loss= is minimised": lambda at: open_private(open_privatizer(at), mode="max").trainable(
        print, loss="hinge", data=lambda: None
    ),
    "final_share=0": estimated_without_share,
    "clip=.low, high. is missing": without_clip,
    # ---- users' replies
    "Leave centre= out": replying,
    "environment variable": lambda at: open_ldp(at, replies=None),
    "no reply yet": lambda at: open_ldp(at).recommend(),
    "has no numerical": lambda at: begin(open_ldp(at, param_space=None), "max", {"k": tune.choice([1, 2])}),
    # ---- federations
    "d=2 parameters": lambda at: agent(at, space={"x": tune.uniform(0, 1)}),
    "no trial with a value yet": lambda at: agent(at).recommend(),
    "the other mode": lambda at: begin(open_searches(at, serve(at))[0], "max"),
    "from 1 to 4; got 5": lambda at: federation(at, hosts=5),
    "one metric; got None": lambda at: Federation(value, SPACE, serve(at), SETTINGS, hosts=2, mode=None),
    "have other settings of": lambda at: federation(at, settings=FTSSettings(agents=4, d=2, M=40)),
}


def another_loss(folder):
    """Its answers would say nothing about the loss of the run."""
    for loss in ("zero_one", "zero_one", "brier"):
        search = open_centred(open_privatizer(folder, clip=(0.0, 1.0)))
        search.trainable(loss=loss, data=lambda: ROWS)(lambda config: None)
        begin(search)


def begin_with_a_named_loss(folder):
    search = open_centred(open_privatizer(folder))
    search.trainable(loss="hinge", data=ROWS)(lambda config: None)
    search.trainable(losses)  # the first one may be given to the Tuner all the same
    begin(search, "max")


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_refused_by_name_and_costs_nothing(fast_path, words):
    with pytest.raises((dptune.InputError, dptune.errors.BudgetMismatch), match=words):
        MISTAKES[words](fast_path)
    assert open_ledger(fast_path).spent() == 0


@on_all
def test_a_repeater_around_a_searcher_is_refused_before_a_trial(tmp_path, opened):
    search = opened(open_privatizer(tmp_path))
    for wrapped in (search, ConcurrencyLimiter(search, max_concurrent=2)):
        repeater = Repeater(wrapped, repeat=3)
        repeater.set_search_properties(search.metric, "min", SPACE)
        with pytest.raises(dptune.InputError, match=r"Repeater.*Nothing was trained or charged"):
            repeater.suggest("a")
    assert open_ledger(tmp_path).spent() == 0


def test_a_repeater_inside_a_private_search_works(tmp_path):
    """The advice of the refusal: each repetition has a released value, and the inner searcher sees their mean."""
    told = []

    class Listening(Half):
        def on_trial_complete(self, trial_id, result=None, error=False):
            told.append((trial_id, result["loss"]))

    search = begin(open_private(open_privatizer(tmp_path), Repeater(Listening("loss", "min"), repeat=3), n_trials=6))
    configs, values = run(search)
    assert [config["x"] for config in configs] == [0.5] * 6
    assert told == [("t0", pytest.approx(np.mean(values[:3]))), ("t3", pytest.approx(np.mean(values[3:])))]
    assert open_ledger(tmp_path).count() == 6


def test_a_vault_that_died_too_often_is_an_error_with_a_remedy(tmp_path, local_actors):
    search = begin(open_search(open_privatizer(tmp_path)))

    def dies(*args, **further):
        raise ray.exceptions.RayActorError

    (vault,) = local_actors.values()
    vault.call = dies
    with pytest.raises(dptune.DptuneError) as told:
        search.suggest("a")
    assert str(told.value) == (
        "the vault has died more than 5 times, perhaps because its node has too little memory. What was released is in "
        "the ledger and is not charged again. Start the driver again with the same name."
    )
