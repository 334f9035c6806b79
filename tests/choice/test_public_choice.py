"""A choice that public rows prepare has its law, plan, finalists and price, and survives a crash."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor

import dptune
from choice_tools import CANDIDATES, PAIR, PEOPLE, PRIVATE, PUBLIC, Chooses, N, chosen, losses, privatizer, spend
from dptune.choice.public import PublicLosses
from dptune.ledger.gdp import bounded_range_from_mu, pure_from_mu
from dptune.losses.user_function import private_losses
from dptune.privacy.noise import OpenDPNoise
from noises import CannedNoise, NoNoise

EPSILON_4 = dptune.Budget.approximate_dp(4.0, 1e-5)


@pytest.mark.parametrize("budget", [None, PAIR], ids=["exponential", "pure"])
def test_exponents_and_improvement_are_those_of_the_formula(tmp_path: Path, budget: dptune.Budget | None) -> None:
    V, L, noise = PUBLIC, PRIVATE, NoNoise()
    choice = dptune.PublicChoice(V, privatizer(tmp_path, budget=budget, noise=noise), name="x", default_place=0)
    found, plan = chosen(choice), choice._plan
    eta = (bounded_range_from_mu if budget is None else pure_from_mu)(plan.choice_mu)
    r, f = plan.radius, list(choice.finalists)
    cut = np.clip(L[f] - np.median(L[f], axis=0), -r, r).sum(axis=1)
    apart = V[f] - V[f[0]]  # the first finalist has the smallest mean
    z = np.divide(apart.mean(axis=1), apart.std(axis=1) / N**0.5, out=np.zeros(len(f)), where=apart.any(axis=1))
    pi = 0.8 * np.exp(-2 * z) / np.exp(-2 * z).sum() + 0.2 / len(f)
    expected = cut * eta / (4 * r) - np.log(pi)
    statistic, scale = noise.seen[0]
    np.testing.assert_allclose(statistic / scale, expected, rtol=1e-4, atol=1e-4)  # rows are kept in float32
    assert found.index == f[int(np.argmin(expected))]
    gain = found.improvement
    assert gain is not None
    r = gain.radius
    assert gain.value == pytest.approx(np.clip(L[0] - L[found.index], -r, r).mean(), abs=1e-5)
    assert gain.predicted == pytest.approx(np.clip(V[0] - V[found.index], -r, r).mean())
    if budget is None:
        assert gain.sigma == pytest.approx(2 * r / PEOPLE / plan.estimate_mu, rel=1e-5)
        low, high = gain.interval()
        assert (high - low) / 2 == pytest.approx(1.959964 * gain.sigma, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_the_noise_covers_what_one_person_moves_index_and_improvement(tmp_path: Path, seed: int) -> None:
    rng, seen, L = np.random.default_rng(seed), [], PRIVATE.copy()
    for name in ("one", "other"):
        noise = Chooses(1)
        choice = dptune.PublicChoice(PUBLIC, privatizer(tmp_path / name, noise=noise), name="x", default_place=0)
        chosen(choice, L)
        seen.append(noise.seen)
        L[:, 7] = rng.choice([np.inf, -np.inf, np.nan, 0.0, 1e9, *rng.standard_cauchy(9)], size=CANDIDATES)
    plan = choice._plan
    ((index, scale), (gain, sigma)), ((index_other, _), (gain_other, _)) = seen
    moved = (index - index_other) / scale
    assert 0 < moved.max() - moved.min() <= bounded_range_from_mu(plan.choice_mu)
    assert abs(gain - gain_other) / sigma <= plan.estimate_mu


def test_what_is_spent_is_the_plan_and_a_second_call_is_free(tmp_path: Path) -> None:
    V, L, p = PUBLIC, PRIVATE, privatizer(tmp_path)
    with pytest.raises(dptune.InputError, match="missing"):
        dptune.PublicChoice(V, p, name="x", default_place=0).choose({})
    first = dptune.select(L, p, name="x", public_losses=V, default_place=0)
    spent = p.ledger.spent()
    assert spent <= 2.0 * (1 + 1e-9)
    choice = dptune.PublicChoice(V, privatizer(tmp_path), name="x", default_place=0)
    assert choice.to_train == ()
    assert choice.recorded() == first == dptune.select(L, p, name="x", public_losses=V, default_place=0)
    assert p.ledger.spent() == spent
    assert json.loads(json.dumps(first.to_dict()))["index"] == first.index


def test_a_candidate_that_fails_in_public_drops_out_with_a_warning(tmp_path: Path) -> None:
    best = PublicLosses.of(PUBLIC, None).order[0]

    def train(j: int) -> DummyRegressor:
        return DummyRegressor(strategy="mean" if j != best else "diverges").fit([[0.0]] * 2, [0.4, 0.4])

    data, p = (np.zeros((PEOPLE, 1)), np.zeros(PEOPLE)), privatizer(tmp_path)
    planned = dptune.PublicChoice(PUBLIC, p, name="x", loss="mse").finalists
    with pytest.warns(UserWarning, match=f"candidate {best} drops out: InvalidParameterError"):
        found = dptune.select(train, p, name="x", public_losses=PUBLIC, loss="mse", data=data)
    assert found.index != best
    assert found.finalists == len(planned) - 1


NO_TABLE = np.zeros(5)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"public_losses": NO_TABLE}, "candidates, rows"),
        ({"candidates": PRIVATE[:3]}, "12 candidates, and 3"),
        ({"candidates": [PRIVATE[0], *[None] * (CANDIDATES - 1)]}, "two are needed"),
        ({"public_losses": None, "report_share": 0.2}, "without public_losses= omit report_share=: mu= says"),
    ],
)
def test_bad_input_costs_nothing(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    p = privatizer(tmp_path)
    asked: dict[str, Any] = {"candidates": PRIVATE, "ledger": p, "public_losses": PUBLIC, "default_place": 0}
    with pytest.raises(dptune.InputError, match=words):
        dptune.select(**{**asked, **settings})
    assert p.ledger.spent() == 0
    assert not p.knows_clip or p.points() == ()


def test_the_clip_is_read_off_the_public_rows(tmp_path: Path) -> None:
    V, p = PUBLIC.copy(), privatizer(tmp_path)
    V[3, 5] = np.inf
    choice = dptune.PublicChoice(V, p, name="x")
    assert p.interval.low == 0.0
    finite = V[np.isfinite(V).all(axis=1)]
    assert finite.max() <= choice.clip[1] <= 2 * finite.max()
    diverging = np.vstack([V, 1e6 * PUBLIC[:1]])  # for each row; one candidate does not widen everybody's range
    assert dptune.PublicChoice(diverging, privatizer(tmp_path), name="y").clip == choice.clip
    known = dptune.PublicChoice(V > 0.5, privatizer(tmp_path), name="z", loss="zero_one")
    assert known.clip == (0.0, 1.0)


def test_what_a_run_killed_between_the_releases_left_is_made_up_for(tmp_path: Path) -> None:
    p = privatizer(tmp_path)
    choice = dptune.PublicChoice(PUBLIC, p, name="x", default_place=0)
    release = p.release

    def killed(*args: Any, **kwargs: Any) -> Any:
        if kwargs["key"] == "improvement":
            raise KeyboardInterrupt
        return release(*args, **kwargs)

    p.release = killed
    with pytest.raises(KeyboardInterrupt):
        chosen(choice)
    again = dptune.PublicChoice(PUBLIC, privatizer(tmp_path), name="x", default_place=0)
    assert again.recorded() is None
    default, best = again.to_train
    found = chosen(again)
    assert (default, best) == (0, found.index)
    assert found.improvement is not None


# ---- nothing private shows -------------------------------------------------------------------------------------------


def test_the_plan_does_not_depend_on_private_losses(tmp_path: Path) -> None:
    """Neighbouring people, with canned answers: everything that is stored and returned is the same."""
    dumps = []
    for seed in (1, 2):
        p = privatizer(tmp_path / str(seed), noise=CannedNoise())
        found = chosen(dptune.PublicChoice(PUBLIC, p, name="x", default_place=0), losses(seed, PEOPLE))
        plan = p.ledger.fact("x", "plan")
        dumps.append(json.dumps([found.to_dict(), plan, [c.note for c in p.ledger.charges("x")], p.describe()]))
    assert dumps[0] == dumps[1]


@pytest.mark.parametrize("public", [True, False])
def test_that_asking_the_people_failed_is_shown_nowhere(tmp_path: Path, public: bool) -> None:
    """A person may make a model fail for everybody: that candidate stays, with the largest loss, and nobody is told."""
    shown = []
    for name, broken in (("whole", ()), ("broken", (CANDIDATES - 1,)), ("all", range(CANDIDATES))):

        def ask(j: int, broken: Any = broken) -> np.ndarray:
            if j in broken:
                raise RuntimeError("a private row")
            return PRIVATE[j]

        if public:
            p = privatizer(tmp_path / name, noise=CannedNoise())
            found = dptune.select(ask, p, name="x", public_losses=PUBLIC, default_place=0)
        else:
            p = privatizer(tmp_path / name, noise=CannedNoise(), clip=(0.0, 3.0))
            wrapped = [private_losses(ask, j, PEOPLE) for j in range(CANDIDATES)]
            found = dptune.select(wrapped, p, name="x", default_place=0)
        shown.append(json.dumps([found.to_dict(), [c.note for c in p.ledger.charges("x")]]))
    assert shown[0] == shown[1] == shown[2]


def test_private_losses_that_fail_are_unreadable_for_everybody() -> None:
    def fails(place: int) -> object:
        raise RuntimeError("a private row")

    found = private_losses(fails, 0, 5)
    assert np.shape(found) == (5,)
    assert np.isnan(found).all()


# ---- the budget ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [None, PAIR], ids=["mu", "eps"])
def test_without_a_default_all_of_the_budget_goes_to_the_choice(tmp_path: Path, budget: dptune.Budget | None) -> None:
    choice = dptune.PublicChoice(PUBLIC, privatizer(tmp_path, budget=budget), name="x")
    assert choice._plan.eta == pytest.approx(bounded_range_from_mu(2.0) if budget is None else 1.0)
    found = chosen(choice)
    assert found.improvement is None
    assert found.verdict == "no default"
    assert "No default was given" in found.summary()


@pytest.mark.parametrize("budget", [None, EPSILON_4], ids=["mu", "eps"])
def test_a_share_of_the_budget_is_left_for_a_report(
    tmp_path: Path, budget: dptune.Budget | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OpenDPNoise, "noisy_argmin", lambda *_: 0)  # the default, which leaves more, has chance 1e-5
    p = privatizer(tmp_path, budget=budget)
    shares = {"estimate_share": 0.2, "report_share": 0.36}
    asked: dict[str, Any] = {"name": "x", "public_losses": PUBLIC, "default_place": 0, **shares}
    whole = p.ledger.allowance().whole(0.64 * 0.8)
    found = dptune.select(PRIVATE, p, **asked)
    assert found.mu == pytest.approx(0.8 * whole)
    left = p.ledger.allowance().unplanned
    assert left == pytest.approx(0.6 * whole, rel=1e-4)
    spend(p, left, "report")
    assert p.ledger.allowance().left < 1e-3
    assert budget is None or 0.999 * 4.0 < p.ledger.statement(delta=1e-5).epsilon <= 4.0
    assert found == dptune.select(PRIVATE, p, **asked)


@pytest.mark.parametrize("budget", [None, EPSILON_4], ids=["mu", "eps"])
def test_a_choice_of_the_default_leaves_the_estimate_s_part(tmp_path: Path, budget: dptune.Budget | None) -> None:
    p = privatizer(tmp_path, budget=budget, noise=Chooses(0))
    V = PUBLIC[::-1]  # the default, 0, is the best one
    choice = dptune.PublicChoice(V, p, name="x", default_place=0, estimate_share=0.2, report_share=0.36)
    assert choice.finalists[0] == 0
    found, spent = chosen(choice), p.ledger.spent()
    assert found.index == 0
    assert found.improvement is None
    left = p.ledger.allowance()
    assert left.holders == ()
    assert left.unplanned == left.left  # all that is not spent, with the estimate's part
    assert left.unplanned > 1.01 * 0.75 * found.mu  # the report's part alone
    again = dptune.PrivacyLedger(tmp_path / "ledger.db")
    assert again.allowance() == left
    assert again.spent() == spent
    spend(p, left.unplanned, "report")
    with pytest.raises(dptune.BudgetExhausted):
        spend(p, 0.1, "another")


def test_a_choice_that_another_thread_charged_meanwhile_is_answered(tmp_path: Path) -> None:
    """It charges between this one's look for a plan and its look for what is left."""
    made: list[dptune.Selection] = []

    class Late(dptune.PrivacyLedger):
        def fact(self, scope: str, name: str) -> Any:
            found = super().fact(scope, name)
            if found is None and not made:
                made.append(chosen(dptune.PublicChoice(PUBLIC, privatizer(tmp_path, noise=Chooses(3)), **about)))
            return found

    about: dict[str, Any] = {"name": "c", "default_place": 0}
    ledger = Late(tmp_path / "ledger.db", dptune.Budget.gdp(mu=2.0))
    choice = dptune.PublicChoice(PUBLIC, dptune.LossPrivatizer(ledger, n=PEOPLE), **about)
    assert choice.recorded() == made[0]
    assert ledger.spent() == pytest.approx(2.0)


def test_losses_that_a_processor_rounds_otherwise_are_the_same_choice() -> None:
    losses = np.random.default_rng(0).exponential(size=(20, 300))
    losses[3] = np.nan
    found = [PublicLosses.of(losses * factor, None).digest for factor in (1.0, 1.0 + 1e-15, 1.01)]
    assert found[0] == found[1] != found[2]
