"""Refusals of Ray's front ends are read back word by word: names, numbers and remedies in their places."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray import tune
from ray.tune.search import Repeater
from ray.tune.search.optuna import OptunaSearch

import dptune
import dptune_ray
from by_hand import LDP_SPACE, ONE, NoNoise, begin, made, open_ldp, open_private, reporting, value_of
from dptune.local import LocalRandomizer, UserLedger
from dptune_ray import DPFTSSearch, Federation, LDPMoMASearch, PrivateSearcher, RayTransport
from dptune_ray import places as places_of_ray
from dptune_ray.collector import Collector, ReplyRequest
from dptune_ray.log import TrialLog
from dptune_ray.spaces import domains_of
from dptune_ray.transport import Server
from dptune_ray.vault import LossesMissing, Vault
from federation_harness import LONG, SETTINGS, open_plan, serve, value
from ray_harness import SPACE, open_centred, open_ledger, open_privatizer, open_search
from ray_people import losses

pytestmark = pytest.mark.usefixtures("local_actors")
Call = Callable[[Path], object]


def fitted(metric: str, mode: str, space: Any = SPACE) -> Call:
    """Do what a Tuner does first, with a searcher of the mode "min"."""
    return lambda at: open_centred(open_privatizer(at), mode="min").set_search_properties(metric, mode, space)


def private(inner: Any = None, **settings: Any) -> Call:
    return lambda at: begin(open_private(open_privatizer(at), inner, **{"mode": "min", **settings}))


def repeated(at: Path) -> None:
    repeater = Repeater(open_centred(open_privatizer(at)), repeat=3)
    repeater.set_search_properties("loss", "min", SPACE)
    repeater.suggest("a")


def unpaid(at: Path) -> None:
    search = begin(open_private(open_privatizer(at)))
    search.on_trial_result("trial 7", {"loss": 0.5})


def gone(at: Path) -> None:
    search = begin(open_centred(open_privatizer(at)))
    search._client.stop()
    search._client.call(Vault.make_up)


def always_restarted(at: Path) -> None:
    search, calls = begin(open_private(open_privatizer(at))), []

    def finish(*about: Any) -> None:
        calls.append(about)
        raise LossesMissing("put them again")

    search._handle.call.remote.__self__.served.finish = finish
    try:
        search.vault.finish("a", {"x": 0.1, "y": 1.0}, np.zeros(60))
    finally:
        assert len(calls) == 5


def another_point(at: Path) -> None:
    search = begin(open_centred(open_privatizer(at)))
    search.vault.call(Vault.check, "a", {"x": 7.0, "y": 1.0})


def all_refused(at: Path) -> None:
    search = begin(open_centred(open_privatizer(at)))
    search.vault.call(Vault.refused, "The reason.")
    search.suggest("b")


def another_search(**other: Any) -> Call:
    def call(at: Path) -> None:
        begin(open_private(open_privatizer(at)))
        begin(open_private(open_privatizer(at), **other))

    return call


def incomplete(at: Path) -> None:
    search = begin(open_search(open_privatizer(at)))
    search.estimate(search.trainable(losses), {"x": 0.1})


def ask(user: str | None) -> ReplyRequest:
    return ReplyRequest.of("b", {"x": 0.5}, user, LocalRandomizer(1.0, 1.0))


def collector(at: Path) -> Collector:
    return Collector(TrialLog(str(at / "replies.db"), "run"), UserLedger(at / "users.db", cap=9.0))


def another_collector(at: Path) -> None:
    log = TrialLog(str(at / "replies.db"), "run")
    Collector(log, None).begin(replace(log, path="elsewhere"), "None")


def agent(space: Any = SPACE, settings: Any = SETTINGS, number: Any = 0) -> Call:
    return lambda at: DPFTSSearch(serve(at), settings, space, agent=number, trials=at / "a.db")


def federation(**wrong: Any) -> Call:
    about = {"settings": SETTINGS, "hosts": 2, "mode": "min", **wrong}
    return lambda at: Federation(value, SPACE, serve(at), **about)


def another_server(**other: Any) -> Call:
    about = {"ledger": "ledger", "settings": SETTINGS, "timeout": 900.0}

    def call(at: Path) -> None:
        Server(ledger := open_plan(at), SETTINGS, 900.0).begin(*{**about, "ledger": repr(ledger), **other}.values())

    return call


def host(at: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places_of_ray, "swallow", lambda: None)
        places_of_ray.PlaceHost("north", lambda: dptune.Place("south", (np.zeros((3, 1)), np.zeros(3))))


def odd_report(at: Path) -> None:
    search, _ = made(at, losses)
    trainable = search.trainable(lambda config: dptune_ray.report_public("a", 1), public="x")
    value_of(trainable, "a")


def reports(config: Any) -> None:
    tune.report({"loss": 1.0})


def space(**domains: Any) -> Call:
    return lambda at: domains_of(domains)


LDP = {"settings": ONE}
REFUSED: dict[str, tuple[Call, str]] = {
    "a metric": (
        fitted("accuracy", "min"),
        "the trials report 'loss', not 'accuracy': set TuneConfig(metric='loss'), or give the searcher metric=.",
    ),
    "a mode": (fitted("loss", "max"), "the searcher was made with mode='min', the Tuner with 'max'."),
    "a mode that nobody gave": (
        lambda at: open_centred(open_privatizer(at)).suggest("a"),
        "a searcher learns its mode from Tune only if the Tuner has a param_space. Give the searcher "
        'mode="min" or mode="max", or give the search space to the Tuner.',
    ),
    "two spaces": (
        fitted("loss", "min", {**SPACE, "y": tune.uniform(0, 1)}),
        "the search spaces of the searcher and of the Tuner differ in 'y'. Give the space to one of them, or "
        "the same to both.",
    ),
    "a repeater": (
        repeated,
        "Repeater(CentredSearch(...), ...) would charge every repetition and learn from one in each group. "
        "Nothing was trained or charged. Remove Repeater, or repeat the training inside the function. With "
        "another searcher use PrivateSearcher(Repeater(OptunaSearch(), repeat=3), privatizer, ...).",
    ),
    "a value without a release": (
        unpaid,
        "the trial 'trial 7' reported under 'loss' a value that no release paid for: give the Tuner what "
        "search.trainable(...) returns. The experiment ends; the value was not handed on.",
    ),
    "a vault that does not run": (
        gone,
        "the vault does not run. It is started by the searcher whose trainable this is: give it to the Tuner "
        "as its search_alg, and ends with it.",
    ),
    "a vault that restarts": (always_restarted, "the vault was restarted too often while it took a trial's losses."),
    "a point of another space": (
        another_point,
        "the trial 'a' is not a point of the search space of the run 'run': 'x' cannot be 7.0; allowed: "
        "Float(low=-1.0, high=1.0, log=False, step=None). Nothing was trained or paid. The searcher asked for "
        "None; what changed that?",
    ),
    "no trial is accepted": (all_refused, "The reason. No trial was accepted before: the experiment ends."),
    "a search of another budget": (
        another_search(mu=0.5),
        "a search named 'run' with other settings is running; give this one another name.",
    ),
    "a search of another seed": (
        another_search(seed=4),
        "a search named 'run' with other settings is running; give this one another name.",
    ),
    "a search of another default": (
        another_search(default={"x": 0.5, "y": 1.0}),
        "a search named 'run' with other settings is running; give this one another name.",
    ),
    "an incomplete point": (
        incomplete,
        "the configuration has no value for 'y' of the search space; nothing was trained or spent. Add what "
        "the run did not search: {**search.recommend(), name: value}.",
    ),
    "no searcher": (
        lambda at: PrivateSearcher("optuna", open_privatizer(at), n_trials=3),
        "searcher must be a ray.tune Searcher, such as OptunaSearch(); got str. With none in mind use "
        "CentredSearch(privatizer, n_trials=...).",
    ),
    "a space of the wrapper": (
        private(param_space=SPACE),
        "PrivateSearcher has no option 'param_space'; it has n_trials, mu, seed, final_share.",
    ),
    "an inner metric": (
        private(OptunaSearch(metric="m", mode="min")),
        "the inner searcher looks at 'm'; trials report 'loss'.",
    ),
    "an inner mode": (
        lambda at: begin(open_private(open_privatizer(at), OptunaSearch(SPACE, "loss", "max"), mode="min"), space={}),
        "the inner searcher has mode='max', the Tuner 'min'.",
    ),
    "reports of one's own": (
        lambda at: made(at, reports),
        "the function calls tune.report(...), which does nothing in a private trial: dptune reports the "
        "released value. Remove the call and return the losses. For a scheduler, report a quantity of public "
        "rows: call report_public(value, step) in the function. Make the trainable with "
        'search.trainable(public="log loss on 300 public rows"), the scheduler with metric="public", '
        'mode="min".',
    ),
    "reports without words": (
        lambda at: made(at, reporting),
        "the function calls report_public(...), which makes a quantity public. Say in words what it is, for "
        'the ledger\'s statement: search.trainable(public="log loss on 300 public rows").',
    ),
    "a report that is text": (odd_report, "report_public(value, step) takes a number and a whole number."),
    "settings of users": (
        lambda at: LDPMoMASearch(None, LDP_SPACE, replies=at / "r.db"),
        "LDPMoMASearch needs settings: LDPMoMASearch(LDPSettings(HybridReplies(...)), space, ...).",
    ),
    "a centre": (lambda at: open_ldp(at, centre="a"), "centre must be a number, finite; got 'a'."),
    "candidates without a space": (
        lambda at: open_ldp(at, param_space=None, candidates=[{"x": 1.0}]),
        "candidates are points of a search space: give param_space= with them.",
    ),
    "replies nowhere": (
        lambda at: open_ldp(at, replies=Path("/no/replies.db")),
        "the folder of /no/replies.db does not exist; create it first.",
    ),
    "no randomiser": (
        lambda at: open_ldp(at).trainable(losses, randomizer=None),
        "give randomizer=HybridRandomizer(...), which makes the reply private there.",
    ),
    "a user without a ledger": (
        lambda at: open_ldp(at, **LDP).trainable(losses, randomizer=NoNoise(1.0, 1.0), user="me"),
        "give ledger= and user= together: a ledger charges a user.",
    ),
    "nobody to charge": (lambda at: collector(at).charge(ask(None)), "a ledger charges a user, and none is named."),
    "another file of replies": (
        another_collector,
        "a search named 'run' with another ledger is running; give this one another name.",
    ),
    "a reply that was not announced": (
        lambda at: collector(at).record(ask("me"), "d", 0.5),
        "a reply of the trial 'b' was not announced before it was sent.",
    ),
    "a choice for agents": (
        agent({**SPACE, "k": tune.choice([1, 2])}),
        "the agents' search space must hold numerical parameters with more than one value, and no others.",
    ),
    "no settings of agents": (agent(settings=None), "settings must be FTSSettings; got NoneType."),
    "an agent's number": (agent(number=4), "agents are numbered 0 to 3; got 4."),
    "no host": (federation(hosts=0), "hosts must be a whole number from 1 to 4; got 0."),
    "half a host": (federation(hosts=1.5), "hosts must be a whole number from 1 to 4; got 1.5."),
    "a message that is too long": (
        lambda at: RayTransport.serve(open_plan(at), replace(SETTINGS, M=8194), timeout=LONG),
        "a message travels in one call: M must be at most 8192; got 8194.",
    ),
    "a server that does not run": (
        lambda at: RayTransport("ours").rounds(),
        "the server does not run. It is started by RayTransport.serve(...), and ends with it.",
    ),
    "another ledger of a server": (
        another_server(ledger="other"),
        "a federation of this name with another ledger, settings or timeout is running; use another name.",
    ),
    "other settings of a server": (
        another_server(settings=replace(SETTINGS, S=1.0)),
        "a federation of this name with another ledger, settings or timeout is running; use another name.",
    ),
    "another timeout of a server": (
        another_server(timeout=800.0),
        "a federation of this name with another ledger, settings or timeout is running; use another name.",
    ),
    "another place": (host, "the function of the place 'north' must return dptune.Place('north', ...)."),
    "no bounds": (
        space(x=tune.randn()),
        "the parameter 'x': randn and qrandn have no bounds; give it a range, e.g. tune.uniform(-3, 3).",
    ),
    "a grid": (
        space(x=tune.grid_search([1])),
        "the parameter 'x': grid_search is refused, a grid has no budget; use tune.choice([...]).",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_front_end_of_ray_refuses_in_these_words(case: str, fast_path: Path) -> None:
    call, message = REFUSED[case]
    with pytest.raises(dptune.DptuneError) as told:
        call(fast_path)
    assert str(told.value) == message
    assert open_ledger(fast_path).spent() == 0
