"""The vault answers repeated calls equally, and its errors travel as public data."""

import pickle

import numpy as np
import pytest

import dptune
from dptune.search import VALUES
from dptune.search.request import SearchRequest
from dptune_ray.actors import Actor, in_parts
from dptune_ray.spaces import domains_of, to_space
from dptune_ray.vault import LossesMissing, Upload, Vault
from dptune_ray.vault_run import VaultRun
from noises import NoNoise
from ray_harness import SPACE, open_ledger, open_privatizer
from ray_people import N, losses_at, people

POINT = {"x": 0.1, "y": 1.0}
PART = np.zeros(N).tobytes()


def a_run(privatizer, method=VALUES, scope="run", mode="min", mu=None, trials=3, default=None, **settings) -> VaultRun:
    space = None if method is VALUES else to_space(domains_of(SPACE))
    return VaultRun(
        SearchRequest(method, privatizer, mu, 1, {"trials": trials, **settings}, default=default), scope, space, mode
    )


def values_vault(folder, noise=None, **settings) -> Vault:
    return Vault(a_run(open_privatizer(folder, noise=noise), **settings))


def gibo_vault(folder, **settings) -> Vault:
    return values_vault(folder, method=dptune.GIBO, **{"trials": 12, **settings})


def received(vault, trial, point, upload, rows):
    """What the vault tells the trial of this upload; None: it does not hold it."""
    try:
        return vault.finish(Upload(upload, (trial,), (rows,)), trial, point)
    except LossesMissing:
        return None


def estimate(vault, point, upload, *rows):
    return vault.estimate(Upload(upload, ("final", "default")[: len(rows)], rows), point)


def finish(vault, trial, point=POINT, values=None):
    values = losses_at(people(), **point) if values is None else values
    half = len(values) // 2
    vault.put(trial, "u", half, values[half:].tobytes())  # parts may come in any order
    vault.put(trial, "u", 0, values[:half].tobytes())
    return received(vault, trial, point, "u", len(values))


@pytest.mark.parametrize("make", [values_vault, gibo_vault])
def test_a_trial_costs_once_and_has_its_value_for_good(tmp_path, make):
    vault = make(tmp_path)
    asked, other = vault.ask("a"), vault.ask("b")
    assert vault.ask("a") == asked
    assert (other != asked) == (make is gibo_vault)  # of values another searcher chooses the points
    assert (vault.reported("a"), vault.check("a", {**POINT, **asked})) == (None, None)
    first, spent = finish(vault, "a"), open_ledger(tmp_path).spent()
    drawn = open_ledger(tmp_path).find("run", "value/a").description["sigma"]
    assert vault.sigma("a") == make(tmp_path).sigma("a") == drawn
    assert vault.sigma("b") is None
    assert finish(vault, "a") == vault.check("a", POINT) == vault.reported("a") == first
    late = make(tmp_path)  # after a restart, under the same identifier
    again = late.check("a", POINT)
    assert again == (first if make is values_vault else None)  # its losses are gone, and the step needs them
    assert finish(late, "a") == late.reported("a") == first
    for one in (vault, late):
        for call in (finish, Vault.check):  # before a model is trained, and after
            with pytest.raises(dptune.errors.KeyConflict):
                call(one, "a", {**POINT, "x": 0.123})
    assert open_ledger(tmp_path).spent() == spent
    if make is values_vault:
        estimate(vault, POINT, "", None)
        assert vault.estimated(POINT, True).value
        with pytest.raises(dptune.errors.KeyConflict):
            vault.estimated({**POINT, "x": 0.123}, True)


def test_partial_losses_are_requested_again_and_neither_charged_nor_kept(tmp_path):
    vault, half = values_vault(tmp_path), N // 2
    vault.put("a", "u", 0, PART[: 8 * half])
    assert received(vault, "a", POINT, "u", N) is None
    vault.put("a", "u", half, PART[8 * half :])  # the first half was dropped
    assert received(vault, "a", POINT, "u", N) is None
    with pytest.raises(dptune.InputError):
        finish(vault, "a", values=np.zeros(N + 1))
    for upload in ("one", "other"):
        vault.put("a", upload, 0, PART)
    assert received(vault, "a", POINT, "one", N) is None
    assert open_ledger(tmp_path).charges() == []
    assert received(vault, "a", POINT, "other", N) is not None
    vault.put("a", "slow", 0, PART)
    assert received(vault, "a", POINT, "fast", None) is not None
    assert received(vault, "a", POINT, "slow", N) is None


def test_a_failure_counts_as_the_upper_clip_after_a_first_success(tmp_path):
    """Earlier failures are unpaid."""
    vault = values_vault(tmp_path, noise=NoNoise())
    for trial in "abc":
        assert vault.ask(trial) == {}
        with pytest.raises(dptune.errors.TrialFailed):
            received(vault, trial, POINT, "", None)
    assert (vault.reported("a"), open_ledger(tmp_path).spent()) == (None, 0.0)
    for trial in "de":  # a failed one is no lost one
        assert vault.ask(trial) == {}
        finish(vault, trial)
    assert vault.ask("f") == {}
    assert received(vault, "f", POINT, "", None) == pytest.approx(4.0)
    assert vault.ask("g") is None


@pytest.mark.parametrize("mode", ["min", "max"])
def test_the_final_estimate_has_the_improvement_over_the_default(tmp_path, mode):
    settings = {"mu": 0.9, "default": {"x": 0.5, "y": 1.0}, "noise": NoNoise(), "mode": mode}
    vault, part = gibo_vault(tmp_path, **settings), {"final": 1.0, "default": 3.0}
    for upload, rows in (("u", [N, N + 1]), ("v", [N, N])):
        for name, level in part.items():
            vault.put(name, upload, 0, np.full(N, level).tobytes())
        if upload == "u":  # parts are missing
            with pytest.raises(LossesMissing):
                estimate(vault, POINT, upload, *rows)
    found = estimate(vault, POINT, "v", *rows)
    assert found.value == pytest.approx(1.0, abs=1e-6)
    assert found.improvement.value == pytest.approx(2.0 if mode == "min" else -2.0, abs=1e-6)


def test_a_run_ends_when_it_is_complete_or_all_its_trials_are_lost(tmp_path):
    vault = values_vault(tmp_path)
    assert [vault.ask(trial) for trial in "abcd"] == [{}, {}, {}, None]
    vault.begin(a_run(open_privatizer(tmp_path)).described())  # the search is fitted again
    assert vault.ask("e") == {}
    for trial in "abc":
        finish(vault, trial)
    for late in (vault, values_vault(tmp_path)):
        assert late.ask("d") is None
        with pytest.raises(dptune.PlanComplete):
            late.check("d", POINT)


def test_a_spent_ledger_refuses_a_first_trial_and_ends_a_running_search(tmp_path):
    late = values_vault(tmp_path, mu=0.9)
    finish(late, "a")
    other = values_vault(tmp_path, scope="other", trials=1, mu=open_ledger(tmp_path).remaining())
    with pytest.warns(UserWarning, match="'run'.*have planned a part"):
        assert finish(other, "a") is not None
    estimate(other, POINT, "", None)
    assert late.ask("b") is None
    with pytest.raises(dptune.BudgetExhausted):
        values_vault(tmp_path, scope="third", trials=1).ask("a")


class Failing:
    def fail(self):
        try:
            raise ValueError("loss 1234.5")
        except ValueError as error:
            raise dptune.InputError("public") from error


class Broken(NoNoise):
    def add_gaussian(self, statistic, sigma):
        raise ValueError("loss 1234.56789")


def test_errors_travel_without_frames_and_unknown_ones_without_text(tmp_path):
    vault = Actor(*in_parts(Vault, a_run(open_privatizer(tmp_path, noise=Broken()))))
    vault.call("put", "a", "u", 0, PART)
    answer = vault.call("finish", Upload("u", ("a",), (N,)), "a", POINT)
    assert "1234" not in repr(answer)
    assert str(pickle.loads(pickle.dumps(answer))) == "the vault failed with ValueError."
    for error in (answer, Actor(*in_parts(Failing)).call("fail")):
        assert (error.__traceback__, error.__context__, error.__cause__) == (None, None, None)


@pytest.mark.parametrize("kept", [True, False], ids=["clip", "groups"])  # in the ledger; known while the vault runs
def test_a_second_search_with_another_privatizer_is_refused(tmp_path, kept):
    """A restart does not change that."""
    vault = values_vault(tmp_path)
    settings = {"n": N, "clip": (0.0, 1.0)} if kept else {"groups": np.arange(N), "clip": (0.0, 4.0)}
    other = a_run(dptune.LossPrivatizer(open_ledger(tmp_path), **settings))
    assert "3 trials" in vault.begin(a_run(open_privatizer(tmp_path)).described())[0]
    finish(vault, "a")
    late, failed = Vault(other), (Upload("", ("b",), (None,)), "b", POINT)
    refused = [
        (lambda: vault.begin(other.described()), "other privatizer"),
        (lambda: vault.begin(a_run(open_privatizer(tmp_path), mu=0.5).described()), "other settings"),
        (lambda: late.begin(other.described()), "other clip"),
        (lambda: late.ask("b"), "other clip"),
        (lambda: late.finish(*failed), "other clip"),
    ]
    for call, words in refused if kept else refused[:2]:
        with pytest.raises(dptune.errors.BudgetMismatch, match=words):
            call()
    assert len(open_ledger(tmp_path).charges()) == 1
