"""The vault alone: what it answers, that it may be asked again, and that errors travel as public data."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sqlalchemy as sa

import dptune
from dptune.algorithms import VALUES
from dptune.privacy.held import HeldLosses
from dptune.search.request import SearchRequest
from dptune_ray.actors import Actor, in_parts
from dptune_ray.spaces import domains_of, to_space
from dptune_ray.vault import Vault, VaultRun
from ray_harness import SPACE, open_ledger, open_privatizer
from ray_people import N, losses_at, people
from ray_privatizers import NoiselessPrivatizer

POINT = {"x": 0.1, "y": 1.0}


def values_run(privatizer, scope="run", mode="min", mu=None, **settings) -> VaultRun:
    return VaultRun(SearchRequest(VALUES, privatizer, mu=mu, settings={"trials": 3, **settings}), scope, None, mode)


def values_vault(folder, **settings) -> Vault:
    kind = settings.pop("kind", dptune.LossPrivatizer)
    return Vault(values_run(open_privatizer(folder, kind=kind), **settings))


def gibo_vault(folder, mu=None, trials=12) -> Vault:
    request = SearchRequest(dptune.GIBO, open_privatizer(folder), mu=mu, seed=1, settings={"trials": trials})
    return Vault(VaultRun(request, "run", to_space(domains_of(SPACE)), "min"))


def begin(vault: Vault, run: VaultRun):
    """Begin like a searcher whose settings are those of ``run``."""
    return vault.begin(run.described())


def finish(vault: Vault, trial: str, point: dict = POINT, values: np.ndarray | None = None):
    values = losses_at(people(), **point) if values is None else values
    half = len(values) // 2
    vault.put(trial, "u", half, values[half:].tobytes())  # parts may come in any order
    vault.put(trial, "u", 0, values[:half].tobytes())
    return vault.receive("finish", trial, point, "u", [len(values)])


def test_a_trial_costs_once_and_a_repetition_gets_the_recorded_value(tmp_path):
    vault = values_vault(tmp_path)
    assert vault.ask("a") == {}
    first = finish(vault, "a")
    spent = open_ledger(tmp_path).spent()
    assert finish(vault, "a") == first
    assert finish(values_vault(tmp_path), "a") == first  # after a restart, under the same identifier
    assert open_ledger(tmp_path).spent() == spent


def test_the_same_trial_at_another_point_is_refused(tmp_path):
    vault = values_vault(tmp_path)
    finish(vault, "a")
    with pytest.raises(dptune.errors.KeyConflict):
        finish(vault, "a", {"x": 0.2, "y": 1.0})
    assert len(open_ledger(tmp_path).charges()) == 1


@pytest.mark.parametrize("make", [values_vault, gibo_vault])
def test_another_point_is_refused_before_a_model_is_trained(tmp_path, make):
    vault = make(tmp_path)
    finish(vault, "a")
    vault.check("a", POINT)
    with pytest.raises(dptune.errors.KeyConflict):
        vault.check("a", {**POINT, "x": 0.123})
    if make is values_vault:
        vault.receive("estimate", "final", POINT, "", [None])
        vault.estimated(POINT, True)
        with pytest.raises(dptune.errors.KeyConflict, match="one final estimate"):
            vault.estimated({**POINT, "x": 0.123}, True)


def test_losses_that_are_missing_are_asked_for_again_and_nothing_is_charged(tmp_path):
    vault = values_vault(tmp_path)
    vault.put("a", "u", 0, np.zeros(N // 2).tobytes())
    assert vault.receive("finish", "a", POINT, "u", [N]) is None
    vault.put("a", "old", 0, np.zeros(N).tobytes())
    assert vault.receive("finish", "a", POINT, "new", [N]) is None
    assert open_ledger(tmp_path).charges() == []


def test_of_two_processes_of_one_trial_one_always_gets_through(tmp_path):
    vault, part = values_vault(tmp_path), np.zeros(N).tobytes()
    for upload in ("one", "other"):
        vault.put("a", upload, 0, part)
    assert vault.receive("finish", "a", POINT, "one", [N]) is None
    assert vault.receive("finish", "a", POINT, "other", [N]) is not None


def test_what_another_process_of_a_trial_has_uploaded_is_not_kept_when_the_trial_has_its_value(tmp_path):
    vault, part = values_vault(tmp_path), np.zeros(N).tobytes()
    vault.put("b", "fast", 0, part)
    vault.receive("finish", "b", POINT, "fast", [N])
    vault.put("a", "slow", 0, part)
    assert vault.receive("finish", "a", POINT, "fast", [None]) is not None
    assert vault.receive("finish", "a", POINT, "slow", [N]) is None


def test_parts_come_in_any_order_and_are_taken_once(tmp_path, monkeypatch):
    vault, taken, values = values_vault(tmp_path), [], losses_at(people(), **POINT)
    plain = dptune.LossPrivatizer.observe
    monkeypatch.setattr(
        dptune.LossPrivatizer,
        "observe",
        lambda self, point, row: taken.append(np.array(row)) or plain(self, point, row),
    )
    finish(vault, "a", values=values)  # its second half first
    np.testing.assert_array_equal(taken, [values])
    assert vault.receive("finish", "a", POINT, "u", [N]) is None  # nothing is held any more: put them again
    assert len(taken) == 1


def test_a_final_estimate_of_scores_is_a_score(tmp_path):
    vault, scores = values_vault(tmp_path, kind=NoiselessPrivatizer, mode="max"), np.linspace(0.0, 1.0, N)
    vault.estimated(POINT, True)
    vault.put("final", "u", 0, scores.tobytes())
    assert vault.receive("estimate", "final", POINT, "u", [N]).value == pytest.approx(0.5, abs=1e-6)


def test_an_estimate_that_nothing_was_kept_for_is_refused(tmp_path):
    with pytest.raises(dptune.InputError, match="final_share=0"):
        values_vault(tmp_path, final_share=0.0).estimated(POINT, True)


def test_a_failed_evaluation_is_the_upper_clip_and_ends_well(tmp_path):
    vault = values_vault(tmp_path, kind=NoiselessPrivatizer)
    finish(vault, "good")  # before one trial has succeeded a failure is not paid
    assert vault.receive("finish", "a", POINT, "", [None]) == pytest.approx(4.0)


def test_a_failure_before_any_success_is_unpaid_and_is_no_lost_trial(tmp_path):
    vault = values_vault(tmp_path)
    for trial in "abc":
        assert vault.ask(trial) == {}
        with pytest.raises(dptune.errors.TrialFailed):
            vault.receive("finish", trial, POINT, "", [None])
    assert (vault.told("a"), open_ledger(tmp_path).spent()) == (None, 0.0)
    for trial in "def":
        assert vault.ask(trial) == {}
        finish(vault, trial)
    assert vault.ask("g") is None


@pytest.mark.parametrize("method", [VALUES, dptune.GIBO, dptune.CENTRED], ids=lambda method: method.name)
def test_a_trial_is_at_most_six_transactions(tmp_path, method):
    count, privatizer = [], open_privatizer(tmp_path)
    request = SearchRequest(method, privatizer, seed=1, settings={"trials": 40})
    vault = Vault(VaultRun(request, "run", None if method is VALUES else to_space(domains_of(SPACE)), "min"))
    vault.ask("first")
    vault.withdraw("first")

    def begun(connection: sa.Connection) -> None:
        count.append(connection)

    sa.event.listen(sa.Engine, "begin", begun)
    try:
        for trial in map(str, range(20)):
            point = {**POINT, **vault.ask(trial)}
            vault.check(trial, point)
            value = finish(vault, trial, point)
            assert vault.told(trial) == vault.told(trial) == value  # result, completion
    finally:
        sa.event.remove(sa.Engine, "begin", begun)
    assert 0 < len(count) / 20 <= 6


@pytest.mark.parametrize("mode", ["min", "max"])
def test_the_final_estimate_has_the_improvement_over_the_default(tmp_path, mode):
    privatizer, space = open_privatizer(tmp_path, kind=NoiselessPrivatizer), to_space(domains_of(SPACE))
    request = SearchRequest(dptune.GIBO, privatizer, 0.9, 1, {"trials": 12}, default={"x": 0.5, "y": 1.0})
    vault, part = Vault(VaultRun(request, "run", space, mode)), {"final": 1.0, "default": 3.0}
    for name, level in part.items():
        vault.put(name, "u", 0, np.full(N, level).tobytes())
    assert vault.receive("estimate", "final", POINT, "u", [N, N + 1]) is None  # parts are missing
    for name, level in part.items():
        vault.put(name, "v", 0, np.full(N, level).tobytes())
    estimate = vault.receive("estimate", "final", POINT, "v", [N, N])
    assert estimate.value == pytest.approx(1.0, abs=1e-6)
    assert estimate.improvement.value == pytest.approx(2.0 if mode == "min" else -2.0, abs=1e-6)


def test_scores_come_back_as_scores_and_a_failure_is_the_worst_score(tmp_path):
    vault = values_vault(tmp_path, kind=NoiselessPrivatizer, mode="max")
    scores = np.linspace(-1, 3, N)
    assert finish(vault, "a", values=scores) == pytest.approx(np.clip(scores, 0, 4).mean(), abs=1e-6)
    assert finish(vault, "b", values=np.full(N, np.nan)) == pytest.approx(0.0)
    assert vault.receive("finish", "c", POINT, "", [None]) == pytest.approx(0.0)


def test_a_run_keeps_its_mode(tmp_path):
    finish(values_vault(tmp_path), "a")
    with pytest.raises(dptune.errors.BudgetMismatch, match="other mode"):
        values_vault(tmp_path, mode="max").ask("b")


def test_a_complete_run_suggests_no_more(tmp_path):
    vault = values_vault(tmp_path)
    for trial in "abc":
        finish(vault, trial)
    assert vault.ask("d") is None
    with pytest.raises(dptune.PlanComplete):
        vault.check("d", POINT)
    assert values_vault(tmp_path).ask("d") is None


def test_a_run_whose_trials_are_all_lost_ends(tmp_path):
    vault = values_vault(tmp_path)
    assert [vault.ask(trial) for trial in "abcd"] == [{}, {}, {}, None]
    begin(vault, values_run(open_privatizer(tmp_path)))  # the search is fitted again
    assert vault.ask("e") == {}


def test_a_trial_that_has_its_value_is_told_it_before_it_is_trained_again(tmp_path):
    vault = values_vault(tmp_path)
    assert (vault.told("a"), vault.check("a", POINT)) == (None, None)
    value = finish(vault, "a")
    for late in (vault, values_vault(tmp_path)):
        assert late.told("a") == late.check("a", POINT) == value
    (tmp_path / "gibo").mkdir()
    vault = gibo_vault(tmp_path / "gibo")
    value = finish(vault, "a")
    assert vault.check("a", POINT) == value
    late = gibo_vault(tmp_path / "gibo")
    assert late.check("a", POINT) is None  # its losses are gone, and the step needs them
    assert finish(late, "a") == late.told("a") == value


def test_a_value_that_is_known_is_looked_up_once(tmp_path, monkeypatch):
    finish(values_vault(tmp_path), "a")
    late, looked = values_vault(tmp_path), []
    plain = dptune.PrivacyLedger.find
    monkeypatch.setattr(dptune.PrivacyLedger, "find", lambda *about: looked.append(about) or plain(*about))
    for _ in range(3):
        assert late.check("a", POINT) == late.told("a")
        assert late.check("b", POINT) is None
    assert len(looked) == 1


def test_a_spent_ledger_refuses_the_first_trial_and_ends_a_run_that_has_begun(tmp_path):
    open_privatizer(tmp_path)
    late = values_vault(tmp_path, mu=0.9)
    finish(late, "a")
    rest = open_ledger(tmp_path).remaining()
    other = values_vault(tmp_path, scope="other", trials=1, mu=rest)
    with pytest.warns(UserWarning, match="'run'.*have planned a part"):
        assert finish(other, "a") is not None
    other.receive("estimate", "final", POINT, "", [None])
    assert late.ask("b") is None
    with pytest.raises(dptune.BudgetExhausted):
        values_vault(tmp_path, scope="third", trials=1).ask("a")


def test_asking_again_for_a_trial_gives_the_same_point(tmp_path):
    vault = gibo_vault(tmp_path)
    first = vault.ask("a")
    assert vault.ask("b") != first
    assert vault.ask("a") == first


def test_a_second_search_with_other_settings_is_refused(tmp_path):
    vault = gibo_vault(tmp_path)
    with pytest.raises(dptune.errors.BudgetMismatch, match="other settings"):
        begin(vault, values_run(open_privatizer(tmp_path)))


OTHERS = {
    "clip": {"n": N, "clip": (0.0, 1.0)},
    "dtype": {"n": N, "dtype": np.float64},
    "private": {"n": N, "insecure_seed": 0},
    "rows": {"groups": np.arange(2 * N) // 2},
    "groups": {"groups": np.arange(N)},
    "person_weights": {"n": N, "person_weights": np.arange(1, N + 1)},
}


def other_privatizer(folder, kind: str) -> dptune.LossPrivatizer:
    return dptune.LossPrivatizer(open_ledger(folder), **{"clip": (0.0, 4.0), **OTHERS[kind]})


@pytest.mark.parametrize("kind", OTHERS)
def test_a_second_search_with_another_privatizer_is_refused(tmp_path, kind):
    vault, same = values_vault(tmp_path), values_run(open_privatizer(tmp_path))
    assert "3 trials" in begin(vault, same)[0]
    with pytest.raises(dptune.errors.BudgetMismatch, match="other privatizer"):
        begin(vault, values_run(other_privatizer(tmp_path, kind)))
    assert "3 trials" in begin(vault, same)[0]


def test_other_groups_and_other_seeds_are_other_privatizers(tmp_path):
    ledger = open_ledger(tmp_path)
    pairs = [[{"groups": [0, 0, 1, 1]}, {"groups": [0, 1, 0, 1]}], [{"n": 2, "insecure_seed": s} for s in (0, 1)]]
    for one, other in pairs:
        first, again, second = (dptune.LossPrivatizer(ledger, clip=(0, 4), **given) for given in (one, one, other))
        assert first.fingerprint() == again.fingerprint() == pickle.loads(pickle.dumps(first)).fingerprint()
        assert first.fingerprint() != second.fingerprint()
        assert first.describe() == second.describe()  # what the ledger may hold says nothing of the groups


@pytest.mark.parametrize("kind", ["clip", "dtype", "private", "rows"])
def test_a_run_keeps_its_privatizer_after_a_restart(tmp_path, kind):
    finish(values_vault(tmp_path), "a")
    other = values_run(other_privatizer(tmp_path, kind))
    late = Vault(other)
    calls = [lambda: begin(late, other), lambda: late.ask("b"), lambda: late.receive("finish", "b", POINT, "", [None])]
    for call in calls:
        with pytest.raises(dptune.errors.BudgetMismatch, match=f"other {kind}"):
            call()
    assert len(open_ledger(tmp_path).charges()) == 1


def test_a_run_that_could_not_begin_has_no_privatizer_yet(tmp_path):
    with pytest.raises(dptune.BudgetExhausted):
        values_vault(tmp_path, mu=2.0).ask("a")
    other = values_run(other_privatizer(tmp_path, "clip"))
    assert "3 trials" in begin(Vault(other), other)[0]


def test_errors_travel_without_frames_and_unknown_ones_without_text(tmp_path, monkeypatch):
    secret = 1234.56789

    def broken(self, query):
        raise ValueError(f"loss {secret}")

    monkeypatch.setattr(HeldLosses, "mean", broken)
    vault, part = Actor(*in_parts(Vault, values_run(open_privatizer(tmp_path)))), np.zeros(N).tobytes()
    vault.call("put", "a", "u", 0, part)
    answer = vault.call("receive", "finish", "a", POINT, "u", [N])
    assert "1234" not in repr(answer)
    assert answer.error.__traceback__ is None
    assert answer.error.__context__ is None
    assert str(pickle.loads(pickle.dumps(answer)).error) == "the vault failed with ValueError."


def test_a_public_error_travels_without_what_it_was_raised_from():
    class Failing:
        def fail(self):
            try:
                raise ValueError("loss 1234.5")
            except ValueError as error:
                raise dptune.InputError("public") from error

    error = Actor(*in_parts(Failing)).call("fail").error
    assert (error.__traceback__, error.__context__, error.__cause__) == (None, None, None)


def test_a_wrong_shape_is_told(tmp_path):
    with pytest.raises(dptune.InputError, match=f"expected {N}"):
        finish(values_vault(tmp_path), "a", values=np.zeros(N + 1))


def test_a_vault_goes_on_with_what_extends_its_run_and_so_does_a_restarted_one(tmp_path):
    vault = values_vault(tmp_path, mu=0.5)
    for trial in "abc":
        finish(vault, trial)
    assert vault.ask("d") is None
    with pytest.raises(dptune.InputError, match="give more of both"):
        vault.extend(3, 0.5)
    assert "in 2 trials" in vault.extend(5, 0.8)
    assert vault.ask("d") == {}
    first = finish(vault, "d")
    again = values_vault(tmp_path, mu=0.5)
    assert (finish(again, "d"), again.check("d", POINT)) == (first, first)
    again.extend(5, 0.8)
    finish(again, "e")
    assert again.ask("f") is None
    assert open_ledger(tmp_path).spent() <= 0.8


@pytest.mark.parametrize("make", [values_vault, gibo_vault])
def test_a_trial_that_the_extended_run_has_paid_is_not_paid_again_after_a_restart(tmp_path, make):
    vault = make(tmp_path, mu=0.5, trials=4)
    told = {trial: finish(vault, trial) for trial in "abcd"}
    make(tmp_path, mu=0.5, trials=4).extend(8, 0.8)
    again, spent = make(tmp_path, mu=0.5, trials=4), open_ledger(tmp_path).spent()
    assert {trial: again.check(trial, POINT) for trial in told} == told
    assert (again.told("a"), again.check("e", POINT)) == (told["a"], None)
    with pytest.raises(dptune.errors.KeyConflict):
        again.check("a", {**POINT, "x": 0.2})
    assert open_ledger(tmp_path).spent() == spent
