"""The command line prints every kind of ledger, plans of noise, figures, and errors of one line."""

import json
import math
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import norm

import dptune
from cli_tools import invoke
from dptune._numbers import rounded_up
from dptune._style import style
from dptune.figures import draw_budget
from dptune.ledger import PlanLedger, SubsampledGaussian
from dptune.ledger.approximate import largest_plan
from dptune.ledger.gdp import mu_from_pure
from dptune.local import InsecureRandomizer, LocalRandomizer, UserLedger
from dptune.privacy.noise import SeededNoise
from dptune.results import left_in_words
from dptune.search import VALUES

approx = pytest.approx


pytestmark = pytest.mark.usefixtures("own_folder")


def parsed(*arguments: str) -> Any:
    return json.loads(invoke(*arguments, "--format", "json"))


def opened(name: str = "ledger.db", mu: float = 1.0, *, n: int = 50, **options: Any) -> dptune.LossPrivatizer:
    ledger = dptune.PrivacyLedger(name, dptune.Budget.gdp(mu=mu))
    return dptune.LossPrivatizer(ledger, n=n, clip=(0.0, 1.0), **options)


def of_a_run() -> None:
    run = dptune.SearchRun(VALUES, opened(), scope="study", space=None, trials=4)
    for trial in range(4):
        run.finish(str(trial), {"x": 0.1 * trial}, np.full(50, 0.5))
    run.estimate({"x": 0.1}, np.full(50, 0.5))


def of_users() -> UserLedger:
    ledger = UserLedger("users.db", cap=2.0)
    for key in ("1", "2"):
        ledger.reply(LocalRandomizer(0.75, (-1.0, 3.0)), 0.3, user="ann", key=key)
    for user in ("bob [/x]", "eve"):  # more users than settings of devices
        ledger.reply(LocalRandomizer(0.5, 1.0), 0.3, user=user, key="1")
    return ledger


def of_a_plan() -> None:
    PlanLedger("plan.db", SubsampledGaussian(q=0.35, z=1.0, steps=60), n=29)


def of_a_choice() -> tuple[dptune.PrivacyLedger, dptune.Selection]:
    """A choice on public rows that spends all of epsilon = 2, and its selection; the best candidate is the second."""
    rng, level = np.random.default_rng(0), np.array([[1], [0], [2], [3]])
    public, private = (np.abs(rng.normal(0.5 + 0.1 * level, 0.1, (4, n))) for n in (60, 200))
    ledger = dptune.PrivacyLedger("choice.db", dptune.Budget.approximate_dp(2, 1e-5))
    privatizer = dptune.LossPrivatizer(ledger, n=200)
    return ledger, dptune.select(private, privatizer, name="svc", public_losses=public, default_place=3)


# ---- statements and lists ------------------------------------------------------------------------------


def test_statement_and_list_of_releases_with_a_price_of_their_own() -> None:
    of_a_run()
    assert invoke("statement", "ledger.db", "--format", "markdown").startswith("## Privacy statement")
    assert parsed("statement", "ledger.db", "--delta", "1e-6")["delta"] == 1e-6
    shown = parsed("show", "ledger.db")
    assert shown["private"] is True
    assert shown["spent"] == {"mu": approx(1.0), "eta": 0.0, "pure_epsilon": 0.0, "mu_in_gdp": approx(1.0)}
    assert shown["studies"] == [{"study": "study", "releases": 5, "mu_in_gdp": approx(1.0), "private": True}]
    assert "NOT PRIVATE" not in invoke("show", "ledger.db")
    releases, charges = parsed("show", "ledger.db", "--releases")["releases"], opened().ledger.charges()
    assert [(row["value"], row["mu"]) for row in releases] == [(list(charge.value), charge.mu) for charge in charges]
    assert {(row["cut"], row["candidate"], row["eta"]) for row in releases} == {(None, None, None)}


def test_statement_and_list_of_a_plan_and_of_users() -> None:
    of_a_plan()
    assert "epsilon = 10.39 at delta = 0.0246" in invoke("statement", "plan.db", "--delta", "0.0246242")
    assert parsed("show", "plan.db")["plan"] == {"q": 0.35, "z": 1.0, "steps": 60}
    of_users()
    text = invoke("statement", "users.db")
    assert text.startswith("Local privacy statement")
    assert "ann" not in text
    assert parsed("statement", "users.db")["cap"] == {"epsilon": 2.0}
    assert invoke("statement", "users.db", "--format", "markdown").startswith("## Local privacy statement")
    assert "bob [/x]" in invoke("show", "users.db")
    ann = {"user": "ann", "replies": 2, "epsilon": 1.5, "private": True}
    assert parsed("show", "users.db")["users"][0] == ann


def test_what_is_spent_is_rounded_up() -> None:
    opened(mu=0.71723)
    assert "mu 0 of 0.7173 spent" in invoke("show", "ledger.db")


def test_the_limits_of_a_pair_are_open_until_the_first_charge() -> None:
    """No limit is shown as overspent."""
    dptune.PrivacyLedger("choice.db", dptune.Budget.approximate_dp(2, 1e-5))
    budget = parsed("show", "choice.db")["budget"]
    assert [budget[name] for name in ("epsilon", "mu", "eta", "pure_epsilon")] == [2.0, None, None, None]
    assert parsed("statement", "choice.db")["delta"] == 1e-5  # the stated one, unless given
    assert "epsilon = 2 at delta = 1e-05" in invoke("statement", "choice.db", "--delta", "1e-3")
    ledger, _ = of_a_choice()
    shown = parsed("show", "choice.db")
    pair = {"epsilon": 2.0, "delta": 1e-5, "mu": 0.0, "eta": 0.0, "pure_epsilon": 2.0}
    assert shown["budget"] == {**pair, "mu_in_gdp": ledger.mu}
    for name, most in shown["spent"].items():
        assert shown["budget"][name] * (1 - 1e-6) <= most <= shown["budget"][name] * (1 + 1e-12)
    gdp = rounded_up(ledger.mu)
    assert f"epsilon 2 at delta 1e-05; in GDP mu {gdp} of {gdp} spent, 0 left (squares add up)" in invoke(
        "show", "choice.db"
    )
    assert left_in_words(ledger) == "Budget left: 0 of epsilon = 2 (delta = 1e-05)."
    axes = Figure().subplots()
    draw_budget(axes, ledger.charges("svc"), ledger, 1e-5)
    assert axes.lines[1].get_label() == f"budget: eps = 2 at delta = 1e-05\n(all runs; mu within {gdp})"
    assert axes.lines[1].get_ydata()[0] == ledger.mu
    assert axes.lines[0].get_ydata()[-1] == approx(ledger.mu)  # all is spent, by pure releases


def test_releases_of_a_choice_are_listed_with_what_a_record_needs() -> None:
    ledger, found = of_a_choice()
    shown = parsed("show", "choice.db", "--releases")
    plan, gain = ledger.fact("svc", "plan"), found.improvement
    assert shown["people"] == 200
    epsilon, sensitivity = (1 - plan["share"]) * 2.0, 2 * plan["radius"] / 200
    half = math.log(20) * gain.sigma / math.sqrt(2)  # Laplace noise
    low, high = gain.interval()
    assert [low, high] == approx([gain.value - half, gain.value + half], rel=1e-6)
    index = {"study": "svc", "release": "index", "candidate": found.index, "mu": None, "intervals": None}
    index |= {"cut": plan["radius"], "epsilon": approx(epsilon), "sensitivity": approx(sensitivity)}
    index |= {"sigma": approx(2 * sensitivity / epsilon, rel=1e-5)}
    improvement = {"release": "improvement", "candidate": None, "eta": None, "value": [gain.value], "sigma": gain.sigma}
    improvement |= {"cut": gain.radius, "mu": ledger.charges("svc")[1].mu, "intervals": [[low, high]]}
    improvement |= {"epsilon": approx(plan["share"] * 2.0)}
    for row, wanted in zip(shown["releases"], (index, improvement), strict=True):
        assert {name: row[name] for name in wanted} == wanted
    text = invoke("show", "choice.db", "--releases")
    assert f"{low:.4g} to {high:.4g}" in text
    assert "None" not in text


def test_names_are_no_markup_and_are_not_cut() -> None:
    privatizer = opened()
    privatizer.observe("x", [0.5] * 50)
    names = ("run [/x] 1", ":smile:", "a\\", "[bold]b", "long" * 60)
    for name in names:
        privatizer.release(privatizer.mean_query("x", 0.1), scope=name, key="1")
    shown = invoke("show", "ledger.db")
    assert [name for name in names if f" {name} " not in shown] == []


def test_seeded_noise_is_named_first_in_lists_and_in_figures() -> None:
    of_users().reply(InsecureRandomizer(0.1, 1.0, insecure_seed=1), 0.3, user="carl", key="1")
    assert invoke("show", "users.db").startswith("NOT PRIVATE (seeded noise): local privacy")
    privatizer = opened(n=5, noise=SeededNoise(1))
    privatizer.observe("x", [0.5] * 5)
    privatizer.release(privatizer.mean_query("x", 0.1), scope="s", key="1")
    assert invoke("show", "ledger.db").startswith("NOT PRIVATE (seeded noise)")
    with mpl.rc_context({"svg.fonttype": "none"}):
        assert invoke("plot", "ledger.db", "dark.svg", "--dark").endswith("dark.svg\n")
    text = Path("dark.svg").read_text()
    assert "NOT PRIVATE" in text
    assert "eps =" not in text
    assert "#1e2129" in text  # its paper
    invoke("plot", "ledger.db", "white.svg")
    assert "#1e2129" not in Path("white.svg").read_text()
    lines = list(style()["axes.prop_cycle"])  # each can be read without its colour
    assert len({str(line["linestyle"]) for line in lines}) == len({line["color"] for line in lines}) == len(lines)


# ---- budgets, plans, figures ---------------------------------------------------------------------------


CHOICE = "one private choice on public rows"
PEOPLE = ("plan", "--n", "300", "--clip", "0", "3")


def test_plan_states_what_a_choice_shows_for_a_pair_and_a_typical_loss() -> None:
    rows = parsed("plan", "--n", "400", "--loss", "hinge", "--epsilon", "4")
    half, here, _ = (row for row in rows if row["method"] == CHOICE)
    assert (half["budget"], here["budget"]) == ("epsilon=2", "epsilon=4")
    assert here["mu"] > 1.3  # the pair buys a choice more than the mu of .92 through it
    mu = math.sqrt(0.2) * largest_plan(0.8, 4.0, 1e-5)  # of the estimate
    sigma = 2 * 1.5 / (400 * mu)  # cut at half of the clip
    assert here["sigma"] == approx(sigma, rel=1e-5)
    assert here["shows"] == approx((norm.ppf(0.975) + norm.ppf(0.95)) * sigma, rel=1e-5)
    scale = 2 * 1.5 / (400 * 0.1 * 2.0)  # pure
    assert half["mu"] == approx(mu_from_pure(2.0))
    assert half["sigma"] == approx(math.sqrt(2) * scale, rel=1e-5)
    assert half["shows"] == approx((math.log(20) + math.log(10)) * scale, rel=1e-5)


# ---- risks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
def test_plan_and_certificate_state_one_risk_of_the_ledgers_unit(epsilon: float) -> None:
    """The plan's line is of the division that the choice charges; whole numbers are rounded up."""
    rng = np.random.default_rng(0)
    public, private = (np.abs(rng.normal(0.5 + 0.1 * np.arange(4)[:, None], 0.1, (4, n))) for n in (60, 200))
    for share in (None, 0.36):
        budget = dptune.Budget.approximate_dp(epsilon, 1e-5)
        name = f"{share}.db"
        privatizer = dptune.LossPrivatizer(dptune.PrivacyLedger(name, budget, unit="one hospital"), n=200)
        choice = dptune.PublicChoice(public, privatizer, name="svc", default_place=3, report_share=share)
        planned = re.search(r"one of two records at most (\d+) times in 100", choice.announcement)
        choice.choose(dict(enumerate(private)))
        certificate = " ".join(invoke("certificate", name).split())
        stated = re.search(r"the records of one hospital, and guesses .* right at most ([\d.]+) times", certificate)
        assert planned is not None
        assert stated is not None
        assert int(planned[1]) == math.ceil(float(stated[1]))


# ---- several ledgers -----------------------------------------------------------------------------------


def test_recorded_choices_are_compared_without_a_charge() -> None:
    """Each fact is the selection's: of two quarters with one list, and of a choice without public rows."""
    rng = np.random.default_rng(0)
    made: dict[str, dptune.Selection] = {}
    for place, n, default in (("q1.db", 200, 3), ("q2.db", 400, 3), ("q3.db", 300, 0)):
        public, private = (np.abs(rng.normal(0.5 + 0.1 * np.arange(4)[:, None], 0.1, (4, rows))) for rows in (60, n))
        ledger = dptune.PrivacyLedger(place, dptune.Budget.gdp(20.0), dataset=f"people of {place}")
        lists = np.abs(np.random.default_rng(1).normal(0.5 + 0.1 * np.arange(4)[:, None], 0.1, (4, 60)))
        usual = {"public_losses": public if place == "q3.db" else lists, "default_place": default, "name": "svc"}
        made[place] = dptune.select(private, ledger, **usual)
    dptune.select(rng.random((5, 90)), dptune.PrivacyLedger("q4.db", dptune.Budget.gdp(1.0)), clip=(0, 1))
    places = [*made, "q4.db"]
    spent = [dptune.PrivacyLedger(place).charges() for place in places]
    printed = json.loads(invoke("compare", *places, "--format", "json"))
    assert [dptune.PrivacyLedger(place).charges() for place in places] == spent
    for place, said in zip(places[:3], printed, strict=False):
        told = made[place]
        found = (said["chosen"], said["candidates"], said["verdict"], said["people"], said["place"], said["ledger"])
        assert found == (told.index, 4, told.verdict, told.people, place, f"people of {place}")
        gain = told.improvement
        assert (said["improvement"], said["predicted"]) == ((gain.value, gain.predicted) if gain else (None, None))
        assert said["interval"] == (list(gain.interval()) if gain else None)
    assert (printed[3]["verdict"], printed[3]["candidates"], printed[3]["improvement"]) == ("no default", 5, None)
    assert len({said["list"] for said in printed}) == 3
    table = [[cell.strip() for cell in line.split("│")[1:-1]] for line in invoke("compare", *places).splitlines()]
    rows = {row[0]: row[1:] for row in table if row}
    assert rows["verdict"] == [said["verdict"] for said in printed]
    assert [cell.split("list ")[1] for cell in rows["candidates"]] == ["1)", "1)", "2)", "3)"]
    assert rows["improvement"][0] == f"{printed[0]['improvement']:.3g}"
    assert rows["95% interval"][0] == " to ".join(f"{end:.3g}" for end in printed[0]["interval"])


def test_a_plan_depends_on_the_width_of_the_clip() -> None:
    one, other = (invoke("plan", "--n", "300", "--mu", "1", "--clip", *clip.split()) for clip in ("1 3", "0 2"))
    assert one.replace("clip 1 to 3", "clip 0 to 2") == other
