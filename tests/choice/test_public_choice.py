"""A choice that public rows have prepared: its law, its plan, what it costs, and what it does after a crash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dptune
from dptune.choice import planning
from dptune.choice.choosing import private_losses
from dptune.choice.public import PublicLosses, centred, distances, law, prior
from dptune.ledger.gdp import bounded_range_from_mu, pure_from_mu
from dptune.privacy import TableQuery
from dptune.privacy.mechanism import NoisyMin

N, PEOPLE, CANDIDATES = 60, 80, 12


def losses(seed: int, rows: int, candidates: int = CANDIDATES) -> np.ndarray:
    """Losses (candidates, rows): the default, 0, is bad and the others get better with their place."""
    rng = np.random.default_rng(seed)
    level = np.linspace(1.0, 0.4, candidates)[:, None]
    return np.abs(level + 0.3 * rng.standard_normal((candidates, rows)) + 0.5 * rng.standard_normal(rows))


class Noise:
    """A source of canned noise, which keeps what it was asked."""

    def __init__(self, index: int | None = None) -> None:
        self.index, self.statistics = index, list[np.ndarray]()

    def add_gaussian(self, statistic: np.ndarray, sigma: float) -> np.ndarray:
        self.statistics.append(statistic)
        return statistic

    def add_laplace(self, statistic: float, scale: float) -> float:
        self.statistics.append(np.array([statistic]))
        return statistic

    def noisy_argmin(self, statistic: np.ndarray, scale: float) -> int:
        self.statistics.append(statistic / scale)
        return int(np.argmin(statistic)) if self.index is None else self.index

    def permute_and_flip(self, statistic: np.ndarray, scale: float) -> int:
        return self.noisy_argmin(statistic, scale)


def privatizer(folder: Path, *, budget: dptune.Budget | None = None, noise: Any = None) -> dptune.LossPrivatizer:
    ledger = dptune.PrivacyLedger(folder / "ledger.db", budget or dptune.Budget.gdp(mu=2.0))
    return dptune.LossPrivatizer(ledger, n=PEOPLE, noise=noise)


def chosen(choice: dptune.PublicChoice, private: np.ndarray) -> dptune.Selection:
    return choice.choose({j: private[j] for j in choice.to_train})


@pytest.mark.parametrize("budget", [dptune.Budget.gdp(mu=2.0), dptune.Budget.approximate_dp(1.0, 1e-5)])
def test_the_exponents_are_those_of_the_formula(tmp_path: Path, budget: dptune.Budget) -> None:
    V, L, noise = losses(0, N), losses(1, PEOPLE), Noise()
    choice = dptune.PublicChoice(V, privatizer(tmp_path, budget=budget, noise=noise), name="x", default=0)
    found, plan = chosen(choice, L), choice._plan
    price = pure_from_mu if budget.stated_epsilon else bounded_range_from_mu
    eta, r, f = price(plan.choice_mu), plan.radius, list(choice.finalists)
    cut = np.clip(L[f] - np.median(L[f], axis=0), -r, r).sum(axis=1)
    apart = V[f] - V[f[0]]  # the first finalist has the smallest mean
    z = np.divide(apart.mean(axis=1), apart.std(axis=1) / N**0.5, out=np.zeros(len(f)), where=apart.any(axis=1))
    pi = 0.8 * np.exp(-2 * z) / np.exp(-2 * z).sum() + 0.2 / len(f)
    expected = cut * eta / (4 * r) - np.log(pi)
    np.testing.assert_allclose(noise.statistics[0], expected, rtol=1e-4, atol=1e-4)  # rows are kept in float32
    assert found.index == f[int(np.argmin(expected))]


def test_the_improvement_is_the_mean_of_cut_differences(tmp_path: Path) -> None:
    V, L, noise = losses(0, N), losses(1, PEOPLE), Noise()
    choice = dptune.PublicChoice(V, privatizer(tmp_path, noise=noise), name="x", default=0)
    found, r = chosen(choice, L), choice._plan.estimate_radius
    assert found.improvement is not None
    assert found.improvement.value == pytest.approx(np.clip(L[0] - L[found.index], -r, r).mean(), abs=1e-5)
    assert found.improvement.sigma == pytest.approx(2 * r / PEOPLE / choice._plan.estimate_mu, rel=1e-5)
    low, high = found.improvement.interval()
    assert (high - low) / 2 == pytest.approx(1.959964 * found.improvement.sigma, rel=1e-6)
    assert found.improvement.predicted == pytest.approx(np.clip(V[0] - V[found.index], -r, r).mean())


def test_one_person_moves_no_difference_of_exponents_by_more_than_eta() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        s, r, eta = int(rng.integers(2, 9)), float(rng.uniform(0.01, 2)), float(rng.uniform(0.1, 5))
        one, other = rng.standard_cauchy((2, s))
        cut = [np.clip(x - np.median(x), -r, r) * eta / (4 * r) for x in (one, other)]
        moved = cut[0] - cut[1]
        assert moved.max() - moved.min() <= eta * (1 + 1e-12)


def test_what_is_spent_is_the_plan_and_a_second_call_is_free(tmp_path: Path) -> None:
    V, L, p = losses(0, N), losses(1, PEOPLE), privatizer(tmp_path)
    first = dptune.select(L, p, name="x", public=V, default=0)
    spent = p.ledger.spent()
    assert spent <= 2.0 * (1 + 1e-9)
    choice = dptune.PublicChoice(V, privatizer(tmp_path), name="x", default=0)
    assert choice.to_train == ()
    assert choice.recorded() == first == dptune.select(L, p, name="x", public=V, default=0)
    assert p.ledger.spent() == spent
    assert json.loads(json.dumps(first.to_dict()))["index"] == first.index


@pytest.mark.parametrize("change", ["public", "default", "mu", "public_weight"])
def test_an_old_name_with_another_choice_is_refused_before_anything_is_charged(tmp_path: Path, change: str) -> None:
    V, L, p = losses(0, N), losses(1, PEOPLE), privatizer(tmp_path)
    settings: dict[str, Any] = {"public": V, "default": 0, "mu": 1.0, "public_weight": 1.0}
    dptune.select(L, p, name="x", **settings)
    other = {"public": V + 1e-9, "default": 1, "mu": 0.5, "public_weight": 0.5}
    settings["public_weight" if change == "weight" else change] = other[
        "public_weight" if change == "weight" else change
    ]
    spent = p.ledger.spent()
    with pytest.raises(dptune.errors.BudgetMismatch, match="another name"):
        dptune.select(L, privatizer(tmp_path), name="x", **settings)
    assert p.ledger.spent() == spent


def test_a_candidate_that_fails_in_public_drops_out_with_a_warning(tmp_path: Path) -> None:
    V, L = losses(0, N), losses(1, PEOPLE)

    def train(j: int) -> np.ndarray:
        return L[j]

    choice = dptune.PublicChoice(V, privatizer(tmp_path), name="x", default=0)
    best = choice.best_public
    found = choice.choose({j: None if j == best else train(j) for j in choice.to_train})
    assert found.index != best
    assert found.finalists == len(choice.finalists) - 1


@pytest.mark.parametrize(
    ("public", "words"),
    [
        (np.zeros(5), "candidates, rows"),
        (np.zeros((3, 4)), "10 public rows"),
        (np.full((3, 20), np.nan), "two candidates"),
        (np.vstack([np.ones((1, 20)), np.full((2, 20), np.nan)]), "two candidates"),
        ([["a"] * 20] * 2, "candidates, rows"),
    ],
)
def test_public_losses_that_are_not_usable_are_refused(tmp_path: Path, public: Any, words: str) -> None:
    p = privatizer(tmp_path)
    with pytest.raises(dptune.InputError, match=words):
        dptune.PublicChoice(public, p, name="x")
    assert p.ledger.spent() == 0


def test_bad_input_costs_nothing(tmp_path: Path) -> None:
    V, L, p = losses(0, N), losses(1, PEOPLE), privatizer(tmp_path)
    choice = dptune.PublicChoice(V, p, name="x", default=0)
    with pytest.raises(dptune.InputError, match="missing"):
        choice.choose({})
    with pytest.raises(dptune.InputError, match="default="):
        choice.choose({j: None if j == 0 else L[j] for j in choice.to_train})
    with pytest.raises(dptune.InputError, match="two are needed"):
        choice.choose({j: L[j] if j == 0 else None for j in choice.to_train})
    with pytest.raises(dptune.InputError, match="expected 80"):
        choice.choose({j: L[j][:5] for j in choice.to_train})
    with pytest.raises(dptune.InputError, match="12 candidates, and 3"):
        dptune.select(L[:3], p, name="y", public=V)
    assert p.ledger.spent() == 0
    assert p.points() == ()


def test_the_clip_is_read_off_the_public_rows(tmp_path: Path) -> None:
    V, p = losses(0, N), privatizer(tmp_path)
    V[3, 5] = np.inf
    choice = dptune.PublicChoice(V, p, name="x")
    assert p.interval.low == 0.0
    finite = V[np.isfinite(V).all(axis=1)]
    assert finite.max() <= choice.clip[1] <= 2 * finite.max()
    known = dptune.PublicChoice(V > 0.5, privatizer(tmp_path), name="z", loss="zero_one")
    assert known.clip == (0.0, 1.0)


def test_what_a_run_killed_between_the_releases_left_is_made_up_for(tmp_path: Path) -> None:
    V, L, p = losses(0, N), losses(1, PEOPLE), privatizer(tmp_path)
    choice = dptune.PublicChoice(V, p, name="x", default=0)
    release = p.release

    def killed(*args: Any, **kwargs: Any) -> Any:
        if kwargs["key"] == "improvement":
            raise KeyboardInterrupt
        return release(*args, **kwargs)

    p.release = killed  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        chosen(choice, L)
    again = dptune.PublicChoice(V, privatizer(tmp_path), name="x", default=0)
    assert again.recorded() is None
    default, best = again.to_train
    found = chosen(again, L)
    assert (default, best) == (0, found.index)
    assert found.improvement is not None


def test_the_plan_does_not_depend_on_private_losses(tmp_path: Path) -> None:
    """Neighbouring people, with canned answers: everything that is stored and returned is the same."""
    V, dumps = losses(0, N), []
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        p = privatizer(folder, noise=Canned())
        found = chosen(dptune.PublicChoice(V, p, name="x", default=0), losses(seed, PEOPLE))
        plan = p.ledger.fact("x", "plan")
        dumps.append(json.dumps([found.to_dict(), plan, [c.note for c in p.ledger.charges("x")], p.describe()]))
    assert dumps[0] == dumps[1]


class Canned(Noise):
    def add_gaussian(self, statistic: np.ndarray, sigma: float) -> np.ndarray:
        return np.full_like(statistic, 0.25)

    def noisy_argmin(self, statistic: np.ndarray, scale: float) -> int:
        return 2


def test_the_prior_falls_with_paired_standard_errors() -> None:
    V = losses(0, N)
    V[3] = V[-1]  # equal to the best
    V[4] = V[-1] + 1e-9  # worse for every row
    z, odds = distances(V), prior(V, 1.0)
    assert odds.sum() == pytest.approx(1.0)
    assert z[3] == z[-1] == 0.0
    assert z[4] > 1e6
    assert (z[:3] > 1).all()
    assert odds[3] == odds[-1] == odds.max()
    assert odds[4] == pytest.approx(0.2 / len(V))  # misled people lose log 5 and log s at most
    np.testing.assert_allclose(odds, 0.8 * law(2 * z) + 0.2 / len(V))


def test_a_public_row_of_weight_four_counts_as_four() -> None:
    V = losses(0, N)
    np.testing.assert_allclose(prior(V, 4.0), prior(np.tile(V, (1, 4)), 1.0))
    np.testing.assert_allclose(prior(V, 0.0), 1 / len(V))


def test_a_prior_is_part_of_the_digest(tmp_path: Path) -> None:
    made = [NoisyMin(Noise(), prior) for prior in ([1.0, 2.0], [2.0, 1.0], ())]
    assert len({one.settings for one in made}) == 3


def test_the_simulated_radius_protects_who_loses_much() -> None:
    """Nearly all gain a little by the candidates that ruin a few: a small radius would not see it."""
    rng = np.random.default_rng(0)
    fair = 0.5 + 0.05 * rng.standard_normal((10, 300))
    unfair = fair - 0.05
    unfair[:, :15] += 3.0
    public = PublicLosses.of(np.abs(np.vstack([fair, unfair])), None)
    r = planning.simulated_radius(public, 300, 3.0, 1.0, public.order, law)
    mean = np.clip(centred(public.clipped), -r, r).mean(axis=1)
    assert mean[:10].mean() < mean[10:].mean()


def test_without_a_default_all_of_the_budget_goes_to_the_choice(tmp_path: Path) -> None:
    found = dptune.select(losses(1, PEOPLE), privatizer(tmp_path), name="x", public=losses(0, N))
    assert found.improvement is None
    assert found.verdict == "no default"
    assert "No default=" in found.summary()


@pytest.mark.parametrize("budget", [dptune.Budget.gdp(2.0), dptune.Budget.approximate_dp(4.0, 1e-5)], ids=["mu", "eps"])
def test_a_share_of_the_budget_is_left_for_a_report(tmp_path: Path, budget: dptune.Budget) -> None:
    V, L, p = losses(0, N), losses(1, PEOPLE), privatizer(tmp_path, budget=budget)
    everything = p.ledger.allowance()
    found = dptune.select(L, p, name="x", public=V, default=0, estimate_share=0.2, report_share=0.36)
    whole = everything.whole(0.64 * 0.8)
    assert found.mu == pytest.approx(0.8 * whole)
    left = p.ledger.allowance().unplanned
    assert left == pytest.approx(0.6 * whole, rel=1e-4)
    query = TableQuery((np.eye(3),), left, "a table", "of a report")
    p.release_table(query, lambda: np.zeros(PEOPLE), scope="report", key="report")
    assert p.ledger.allowance().left < 1e-3
    assert 0.999 * 4.0 < p.ledger.statement(delta=1e-5).epsilon <= 4.0 or budget.stated_epsilon is None
    assert found == dptune.select(L, p, name="x", public=V, default=0, estimate_share=0.2, report_share=0.36)


@pytest.mark.parametrize("budget", [dptune.Budget.gdp(2.0), dptune.Budget.approximate_dp(4.0, 1e-5)], ids=["mu", "eps"])
def test_a_choice_of_the_default_leaves_the_estimate_s_part(tmp_path: Path, budget: dptune.Budget) -> None:
    V, L = losses(0, N)[::-1], losses(1, PEOPLE)[::-1]  # the default, 0, is the best one
    p = privatizer(tmp_path, budget=budget, noise=Noise(0))
    choice = dptune.PublicChoice(V, p, name="x", default=0, estimate_share=0.2, report_share=0.36)
    assert choice.finalists[0] == 0
    found, spent = chosen(choice, L), p.ledger.spent()
    assert found.index == 0
    assert found.improvement is None
    left = p.ledger.allowance()
    assert left.holders == ()
    assert left.unplanned == left.left  # all that is not spent, with the estimate's part
    assert left.unplanned > 1.01 * 0.75 * found.mu  # the report's part alone
    again = dptune.PrivacyLedger(tmp_path / "ledger.db")
    assert again.allowance() == left
    assert again.spent() == spent
    p.release_table(
        TableQuery((np.eye(3),), left.unplanned, "a table", "t"), lambda: np.zeros(PEOPLE), scope="r", key="r"
    )
    with pytest.raises(dptune.BudgetExhausted):
        p.release_table(TableQuery((np.eye(3),), 0.1, "a table", "t"), lambda: np.zeros(PEOPLE), scope="s", key="r")


def test_a_share_for_a_report_goes_with_public_rows_and_without_mu(tmp_path: Path) -> None:
    V, L, p = losses(0, N), losses(1, PEOPLE), privatizer(tmp_path)
    for settings, words in (
        ({"public": V, "mu": 1.0, "report_share": 0.2}, "mu= or report_share="),
        ({"public": V, "report_share": 1.0}, "report_share must lie"),
        ({"report_share": 0.2}, "report_share= needs public="),
    ):
        with pytest.raises(dptune.errors.InputError, match=words):
            dptune.select(L, p, name="x", **settings)
    assert p.ledger.spent() == 0


def test_an_improvement_over_a_bad_default_shows(tmp_path: Path) -> None:
    V, L = losses(0, 300, 20), losses(1, PEOPLE, 20)
    V[0] += 3.0
    L[0] += 3.0
    budget = dptune.Budget.approximate_dp(epsilon=6, delta=1e-5)
    found = dptune.select(L, privatizer(tmp_path, budget=budget), name="x", public=V, default=0)
    assert found.verdict == "better"
    assert "Better than the default" in found.summary()


def test_equal_candidates_are_finalists_once_each(tmp_path: Path) -> None:
    """Near the best are 60 candidates of three kinds: each kind is there before the second of any."""
    kinds = losses(5, N, 3) * 0 + losses(6, N, 1)
    kinds[1] += 1e-3 * np.tile([1, -1], N // 2)
    kinds[2] += 2e-3 * np.tile([-1, 1], N // 2)
    public = PublicLosses.of(np.repeat(kinds, 20, axis=0), None)
    chosen = public.finalists(45)
    assert len(set(chosen)) == len(chosen) == 45
    assert {j // 20 for j in chosen} == {0, 1, 2}
    same = dptune.PublicChoice(np.ones((60, N)), privatizer(tmp_path), name="x", finalists=50)
    assert len(set(same.finalists)) == 50


@pytest.mark.parametrize("public", [True, False])
def test_that_asking_the_people_failed_is_shown_nowhere(tmp_path: Path, public: bool) -> None:
    """A person may make a model fail for everybody: that candidate stays, with the largest loss, and nobody is told."""
    V, L, shown = losses(0, N), losses(1, PEOPLE), []
    for name, broken in (("whole", ()), ("broken", (CANDIDATES - 1,)), ("all", range(CANDIDATES))):
        folder = tmp_path / name
        folder.mkdir()
        p = privatizer(folder, noise=Canned()) if public else canned_with_clip(folder)

        def ask(j: int, broken: Any = broken) -> np.ndarray:
            if j in broken:
                raise RuntimeError("a private row")
            return L[j]

        if public:
            found = dptune.select(ask, p, name="x", public=V, default=0)
        else:
            wrapped = [private_losses(ask, j, PEOPLE) for j in range(CANDIDATES)]
            found = dptune.select(wrapped, p, name="x", default=0)
        shown.append(json.dumps([found.to_dict(), [c.note for c in p.ledger.charges("x")]]))
    assert shown[0] == shown[1] == shown[2]


def canned_with_clip(folder: Path) -> dptune.LossPrivatizer:
    ledger = dptune.PrivacyLedger(folder / "ledger.db", dptune.Budget.gdp(mu=2.0))
    return dptune.LossPrivatizer(ledger, n=PEOPLE, clip=(0.0, 3.0), noise=Canned())
