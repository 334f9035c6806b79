"""What was found when the package was tried by new users, adversaries and maintainers, and the tests that hold it.

A is what was unsafe, B what made users give up, F what was planted and not seen. Without a test: B.6 (longer runs) is
a feature of its own; A.10 is documented; A.11 was a test's time limit.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
HELD = {
    "A.1 one text cell moves everybody's loss": [
        "losses/test_representation.py::test_numbers_that_became_text_are_the_same_numbers",
        "losses/test_representation.py::test_one_odd_cell",
        "losses/test_representation.py::test_one_odd_label",
    ],
    "A.2 a study and a ledger are not bound": [
        "optuna_front/test_runs.py::test_a_study_refuses_a_ledger_that_did_not_pay_for_it_before_training",
        "optuna_front/test_runs.py::test_a_study_whose_completed_trials_nobody_paid_for_is_refused_before_training",
    ],
    "A.3 an older copy of a ledger goes unnoticed": [
        "ledger/test_ledger_restored.py::test_a_hundred_restores_of_older_files_are_each_noticed",
        "ledger/test_ledger_restored.py::test_a_page_that_was_rolled_back_is_noticed_on_opening_or_counted",
    ],
    "A.4 planted bugs that no test caught": [
        "audits/test_planted_bugs_of_the_house.py::test_other_noise_is_found",
        "audits/test_planted_bugs_of_the_house.py::test_a_sensitivity_that_is_too_small_in_one_kind_of_release_is_found",
        "audits/test_planted_bugs_of_the_house.py::test_a_point_named_without_one_of_its_parts_is_found",
        "audits/test_planted_bugs_of_the_house.py::test_a_line_about_private_data_is_found_in_any_logger",
        "ledger/test_connection.py::test_the_audit_catches_a_setting_that_is_weaker",
        "ray_front/test_loggers.py::test_a_line_about_private_data_is_found",
    ],
    "A.5 a forgotten decorator stores raw values": [
        "optuna_front/test_sealed.py::test_a_value_that_no_release_paid_for_ends_the_study_and_optuna_gets_inf",
        "ray_front/test_every_searcher.py::test_a_value_that_no_release_paid_for_ends_the_experiment",
    ],
    "A.6 early stopping on private rows": [
        "privacy/seal/test_reachable.py::test_a_function_that_reaches_private_rows_is_refused"
    ],
    "A.7 statements of one population only, and a bridge from DP-SGD that is unsound": [
        "training/test_training_ledger.py::test_disjoint_people_pay_the_larger_epsilon_and_the_same_people_the_composition",
        "training/test_training_ledger.py::test_convert_does_not_bridge_dp_sgd_and_gdp",
    ],
    "A.8 an algorithm loads the ledger": [
        "test_imports.py::test_what_decides_in_public_loads_neither_ledger_nor_noise"
    ],
    "A.9 bad input: tracebacks and silence": [
        "test_checks.py::test_look_alikes_are_not_numbers",
        "test_numbers.py",
        "ledger/test_connection.py::test_a_place_that_cannot_be_one_is_refused_by_name",
        "test_cli.py::test_an_error_is_one_line",
    ],
    "A.12a two writers on one charge": [
        "search/test_recorded_wins.py::test_who_records_second_goes_on_with_what_was_recorded_first",
    ],
    "A.12b the users' cap under arbitrary prices": [
        "audits/test_users_cap.py::test_the_cap_holds_in_exact_arithmetic",
        "audits/test_users_cap.py::test_a_cap_that_is_another_is_found",
    ],
    "A.12c isolation of users, scopes and parameters": [
        "audits/test_readers_and_isolation.py::test_the_same_key_of_two_users_is_two_replies_and_two_prices",
        "audits/test_readers_and_isolation.py::test_the_same_key_of_two_scopes_is_two_releases_and_two_prices",
        "audits/test_readers_and_isolation.py::test_the_same_key_at_other_parameters_is_refused_and_pays_nothing",
    ],
    "A.12d a deterministic race on the users' cap": [
        "audits/test_users_cap.py::test_a_second_writer_waits_until_the_first_has_paid",
        "audits/test_users_cap.py::test_a_charge_that_takes_no_lock_is_found",
    ],
    "A.12e charged and never recorded, through every reader": [
        "audits/test_readers_and_isolation.py::test_every_reader_counts_a_charge_whose_answer_was_lost",
    ],
    "A.12f every epsilon belongs to the delta beside it": [
        "audits/test_readers_and_isolation.py::test_every_epsilon_of_a_statement_belongs_to_the_delta_beside_it",
    ],
    "A.12g a plan with a smaller z": [
        "audits/test_readers_and_isolation.py::test_a_plan_with_a_smaller_z_is_refused_wherever_it_comes_in",
    ],
    "A.12h an empty sample without noise": [
        "audits/test_readers_and_isolation.py::test_an_empty_sample_without_noise_is_exactly_zero_whatever_was_sent",
    ],
    "A.12i durability of every engine": [
        "ledger/test_connection.py::test_every_engine_waits_for_the_disk",
        "ledger/test_connection.py::test_the_users_ledger_waits_for_the_disk",
    ],
    "A.12j other sizes, and all coordinates of long vectors": [
        "federated/test_audits.py::test_the_sensitivity_is_right_at_other_sizes",
        "federated/test_audits.py::the_same_noise_twice_within_a_region",
    ],
    "B.1 a typo spends the budget": [
        "losses/test_user_function.py::test_a_typo_in_the_training_half_is_raised_with_its_traceback",
        "search/test_failures.py::test_a_run_whose_first_trials_all_fail_stops_unpaid_and_names_the_remedy",
    ],
    "B.2 recommendations: the smallest noisy value, parameters that are missing": [
        "search/test_recommendation.py::test_the_model_of_all_values_recommends_better_than_the_smallest_noisy_one",
        "optuna_front/test_private_samplers.py::test_the_recommendation_is_compared_with_the_users_defaults",
    ],
    "B.3 no word on what to expect": [
        "search/test_outlook.py::test_the_announced_noise_is_that_of_the_charges",
        "search/test_outlook.py::test_a_budget_that_hides_everything_is_warned_of_and_a_sound_one_is_not",
        "search/test_recommendation.py::test_what_was_not_released_is_not_called_better",
    ],
    "B.4 training data are private, too": [
        "ledger/test_every_ledger.py::test_no_more_is_charged_than_was_promised",
        "training/test_repeat_and_select.py::test_the_number_of_repeats_is_secret",
    ],
    "B.5 tune.report inside the function is ignored": [
        "ray_front/test_trainables.py::test_a_function_that_reports_itself_is_refused",
    ],
    "B.7 Optuna's own pages mislead": [
        "optuna_front/test_pages.py::test_values_have_a_name_and_their_noise_beside_them",
        "optuna_front/test_pages.py::test_the_first_generation_shows_no_constant_that_looks_like_a_result",
        "optuna_front/test_pages.py::test_the_note_has_the_budget_and_in_the_end_the_recommendation",
    ],
    "B.8 Ray": [
        "ray_front/test_searcher_refusals.py::test_an_estimate_that_cannot_be_made_is_refused_before_anything_is_run",
        "ray_front/test_searchers.py::test_a_search_whose_trials_were_all_lost_ends_and_is_fitted_again",
        "ray_front/test_trainables.py::test_objects_around_a_trainable_are_refused_and_resources_are_not",
        "ray_front/test_trainables.py::test_a_function_that_cannot_be_read_fails_the_trial_before_anything_is_asked",
    ],
    "B.9 edges of the box, a file that is no ledger": [
        "search/test_recommendation.py::test_a_parameter_at_an_end_of_its_range_is_flagged_and_a_coarse_one_is_not",
        "test_cli.py::test_a_file_that_exists_and_is_no_ledger_is_not_called_missing",
    ],
    "B.10 one row in ten on which the model fails": [
        "losses/test_representation.py::test_a_tenth_of_bad_rows_costs_three_calls_at_most",
        "losses/test_representation.py::test_a_tenth_of_rows_that_only_the_model_can_refuse_costs_three_calls_at_most",
        "losses/test_representation.py::test_unknown_categories_cost_one_public_row_each",
    ],
    "B.11 examples in one folder": ["test_findings.py::test_every_example_has_files_of_its_own"],
    "F randomness of noise, samples and repeats": [
        "audits/test_secret_randomness.py::test_no_seed_decides_what_is_drawn",
        "audits/test_secret_randomness.py::test_where_privacy_is_decided_no_file_names_an_ordinary_generator",
        "federated_audits.py::audit_sample_is_final",
    ],
    "F two users with one key, charges that were never recorded": [
        "local/test_user_ledger.py::test_users_with_one_key_pay_and_answer_each_for_themselves",
        "local/test_user_ledger.py::test_every_account_counts_what_was_never_recorded",
    ],
    "F a line about a loss that is NaN": [
        "audits/test_odd_values_are_silent.py::test_odd_values_are_heard_nowhere",
    ],
    "F the file of pending losses": [
        "privacy/seal/test_pending_file.py::test_no_part_of_the_key_is_in_the_file",
        "privacy/seal/test_pending_file.py::test_equal_rows_look_different_each_with_an_iv_of_its_own",
        "privacy/seal/test_pending_file.py::test_what_was_deleted_cannot_be_read_any_more",
    ],
    "F digests and deltas": [
        "privacy/test_query.py::test_every_field_of_a_question_is_part_of_its_digest",
        "ledger/test_second_delta.py::test_epsilon_is_that_of_the_asked_delta",
    ],
    "F rungs and Ray's scores": [
        "search/test_rungs.py::test_a_trial_is_asked_about_as_often_as_planned_however_often_it_reports",
        "ray_front/test_centred_search.py::"
        "test_scores_are_the_same_search_as_losses_and_the_same_levels_wherever_their_range_begins",
    ],
}


@pytest.mark.parametrize("finding", HELD)
def test_a_test_holds_it(finding: str) -> None:
    for named in HELD[finding]:
        path, _, name = named.partition("::")
        assert not name or f"def {name}(" in (TESTS / path).read_text(), named


def test_every_example_has_files_of_its_own() -> None:
    """Run one after another in one folder, no example finds another one's ledger or study."""
    examples = sorted((TESTS.parent / "examples").glob("*.py"))
    named = [name for path in examples for name in set(re.findall(r"[\w]+\.db", path.read_text()))]
    assert len(named) > 8
    assert sorted(named) == sorted(set(named))
