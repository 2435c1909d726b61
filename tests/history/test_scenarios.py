"""Every row of the fault list that touches transactions, and every hazard of the design, is a test that exists.

What may happen to a transaction (A), to a producer (B), to the disk (C), the clock (D) and the network (E) while one is
open: this table says where each is played. The simulation plays most of them at random as well.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
_TRANSACTION = "unit/transaction/test_"
_GROUP = "unit/group/test_"
_LOG = "unit/log/test_"

TRANSACTIONS: dict[str, tuple[str, ...]] = {
    "A1 killed after PREPARE, before any marker": (
        f"{_TRANSACTION}recovery.py::test_the_outcome_is_fixed_by_prepare_and_by_nothing_else",
    ),
    "A2 killed between two markers": (f"{_TRANSACTION}recovery.py::test_a_crash_between_two_markers_repeats_them_all",),
    "A3 killed after all markers, before COMPLETE": (
        f"{_TRANSACTION}crashes.py::test_a_transaction_is_whole_or_not_there_wherever_the_machine_stops",
    ),
    "A4 killed before PREPARE is durable": (
        f"{_TRANSACTION}recovery.py::test_the_outcome_is_fixed_by_prepare_and_by_nothing_else",
        "daemon/test_crash.py::test_a_transaction_that_is_open_at_the_kill_can_still_be_committed",
    ),
    "A5 killed while the transaction is open": (
        f"{_TRANSACTION}crashes.py::test_an_open_transaction_outlives_a_restart_and_its_timeout_continues",
    ),
    "A6 the timeout comes while EndTxn is on its way": (
        f"{_TRANSACTION}coordinator.py::test_an_end_that_is_on_its_way_wins_against_the_timeout",
        f"{_TRANSACTION}end_decisions.py::"
        "test_after_a_timeout_version_1_fences_the_producer_for_good_and_version_2_lets_it_continue",
    ),
    "A7 the answer of EndTxn is lost": (
        f"{_TRANSACTION}coordinator.py::test_an_end_whose_answer_was_lost_succeeds_again_with_the_same_pair",
    ),
    "A8 a request of an earlier transaction comes late": (
        f"{_TRANSACTION}kafka_bugs.py::"
        "test_kafka_17754_an_end_that_comes_late_does_not_touch_the_next_transaction_of_version_2",
        f"{_TRANSACTION}kafka_bugs.py::test_kafka_17754_a_batch_that_comes_late_is_not_taken_into_the_next_transaction",
        f"{_TRANSACTION}kafka_bugs.py::test_kafka_17754_tears_a_transaction_of_version_1_as_its_protocol_cannot_forbid",
    ),
    "A9 a zombie after its fence": (
        f"{_TRANSACTION}recovery.py::test_a_fence_is_not_undone_by_a_crash",
        f"{_TRANSACTION}coordinator.py::test_the_old_producer_is_refused_from_the_moment_of_the_fence",
        f"{_GROUP}transactional_offsets.py::test_a_fenced_producer_gets_the_error_of_its_version",
    ),
    "A10 two coordinators": (
        f"{_LOG}real_disk.py::test_directory_serves_one_broker_at_a_time",
        f"{_TRANSACTION}requests.py::test_a_marker_from_a_coordinator_of_the_past_is_refused_and_not_written",
    ),
    "A11 the coordinator restarts while clients work": (
        f"{_TRANSACTION}recovery.py::test_while_the_markers_of_a_start_are_on_their_way_the_id_is_pending",
        "daemon/test_thirty_kills.py::test_no_invariant_is_broken_while_the_daemon_is_killed",
    ),
    "A12 the last epoch": (
        f"{_TRANSACTION}coordinator.py::"
        "test_over_the_last_epoch_an_end_rotates_the_producer_id_and_a_lost_answer_is_answered_again",
        f"{_TRANSACTION}kafka_bugs.py::test_kafka_20090_the_last_epoch_is_followed_by_a_new_producer_id",
    ),
    "A13 twenty clients take one id": (
        "simulation/test_broker_scenarios.py::"
        "test_of_twenty_clients_that_take_one_id_at_once_one_epoch_lives_in_the_end",
    ),
    "A14 a transactional id expires": (
        f"{_TRANSACTION}expiry.py::test_an_idle_id_is_forgotten_for_good_and_starts_afresh",
        f"{_TRANSACTION}expiry.py::test_an_open_transaction_keeps_its_id",
    ),
    "A15 offsets of an old generation, an unknown member, a fenced instance; a fetch while they are pending": (
        f"{_GROUP}transactional_offsets.py::test_a_zombie_of_an_older_generation_is_fenced",
        f"{_GROUP}transactional_offsets.py::test_a_member_that_is_gone_is_unknown",
        f"{_GROUP}transactional_offsets.py::test_an_instance_that_another_process_has_taken_over_is_fenced",
        f"{_GROUP}transactional_offsets.py::test_a_reader_of_stable_offsets_is_asked_to_wait_for_the_transaction",
    ),
    "A16 a rebalance between send and commit": (
        f"{_GROUP}transactional_offsets.py::test_a_commit_is_allowed_while_the_group_rebalances",
        "interop/test_franz_go_etl.py::test_the_clients_own_chains_of_groups_pass_in_every_variant",
    ),
    "A17 a topic is deleted in mid-transaction": (
        f"{_TRANSACTION}requests.py::test_a_topic_deleted_in_mid_transaction_does_not_hold_up_its_end",
    ),
    "A18 a thousand partitions, or none": (
        "simulation/test_broker_scenarios.py::"
        "test_a_transaction_over_a_thousand_partitions_ends_in_all_of_them_though_the_broker_is_killed",
        f"{_TRANSACTION}coordinator.py::test_a_transaction_without_partitions_ends_without_markers",
    ),
}

PRODUCERS: dict[str, tuple[str, ...]] = {
    "B19 duplicate, gap, too old, wrapped, another epoch": (
        f"{_LOG}producer_state.py::test_one_of_the_last_five_batches_is_answered_with_its_offset",
        f"{_LOG}producer_state.py::test_gap_is_out_of_order",
        f"{_LOG}producer_state.py::test_sequence_wraps_inside_a_batch_and_between_batches",
        f"{_LOG}producer_state.py::test_new_epoch_begins_with_sequence_0_and_fences_the_old_one",
    ),
    "B20 the last batch again, after a kill and after a clean stop": (
        f"{_TRANSACTION}beyond_kafka.py::test_the_retries_of_five_batches_are_known_after_a_clean_stop",
        "daemon/test_crash.py::test_every_acknowledged_record_survives_kills_under_load_and_none_is_doubled",
    ),
    "B21 a producer id expires, and never with an open transaction": (
        f"{_LOG}producer_state.py::test_silent_producer_is_forgotten_but_not_with_an_open_transaction",
    ),
    "B22 all batches of a producer id are deleted": (
        f"{_LOG}recovery.py::test_without_its_batches_a_snapshot_still_has_producers_whose_segments_are_gone",
    ),
    "B23 a flood of idle producer ids": (
        "simulation/test_broker_scenarios.py::"
        "test_ten_thousand_idle_producer_ids_are_forgotten_in_time_and_a_live_one_is_not",
    ),
    "B24 compaction over open and aborted transactions": (
        "property/test_log_compaction.py::test_markers_go_after_the_data_of_their_transactions",
        "property/test_log_compaction.py::test_the_marker_stays_as_long_as_a_batch_of_its_transaction",
    ),
}

MACHINE: dict[str, tuple[str, ...]] = {
    "C29, C30 the snapshot or the transaction index is gone or damaged": (
        f"{_LOG}recovery.py::test_every_file_beside_the_log_can_be_rebuilt",
    ),
    "C32 no room for what the coordinator has decided": (
        f"{_TRANSACTION}coordinator.py::test_an_append_that_fails_is_reported_and_changes_nothing",
        f"{_TRANSACTION}coordinator.py::test_a_complete_that_cannot_be_logged_just_now_is_logged_later",
    ),
    "C36 power is lost": (
        "simulation/test_broker.py::test_what_clients_were_told_holds_over_kills_power_cuts_and_lost_answers",
    ),
    "C40 killed again while recovering": (
        f"{_LOG}recovery.py::test_crashes_over_and_over_give_what_one_recovery_gives",
    ),
    "D42 the clock jumps": (
        f"{_TRANSACTION}coordinator.py::test_a_wall_clock_that_jumps_ends_nothing_early_and_keeps_nothing_open",
    ),
    "D44 a client sleeps beyond its transaction's timeout": (
        f"{_TRANSACTION}coordinator.py::test_a_producer_that_timed_out_is_fenced_under_version_1",
        f"{_TRANSACTION}coordinator.py::test_a_producer_that_timed_out_under_version_2_gets_an_error_and_continues",
    ),
    "E49 the connection breaks in the middle of a request": (
        "simulation/test_broker.py::test_what_clients_were_told_holds_over_kills_power_cuts_and_lost_answers",
    ),
}

HAZARDS: dict[str, tuple[str, ...]] = {
    "check, wait, append: the transaction ends during the wait": (
        f"{_TRANSACTION}additions.py::test_a_batch_that_does_not_share_its_round_may_not_come_before_the_addition_of_its_"
        "partition_is_durable",
        f"{_TRANSACTION}kafka_bugs.py::test_kafka_17754_a_batch_that_comes_late_is_not_taken_into_the_next_transaction",
    ),
    "data survives, the record that adds its partition does not": (
        f"{_TRANSACTION}one_round.py::test_a_batch_survives_no_power_cut_that_the_addition_of_its_partition_does_not",
        f"{_TRANSACTION}requests.py::test_an_operator_ends_a_hanging_transaction_with_a_marker",
    ),
    "a crash between two markers": (f"{_TRANSACTION}recovery.py::test_a_crash_between_two_markers_repeats_them_all",),
    "a reply is lost": (
        f"{_TRANSACTION}recovery.py::test_a_client_whose_answer_was_lost_in_the_crash_asks_again_and_learns_the_outcome",
        f"{_LOG}producer_state.py::test_one_of_the_last_five_batches_is_answered_with_its_offset",
    ),
    "an answer from a state that is not flushed": (
        f"{_TRANSACTION}coordinator.py::test_a_refusal_is_returned_only_when_its_reason_is_durable",
        f"{_TRANSACTION}operators.py::test_nothing_is_reported_before_it_is_durable",
    ),
    "a sync that fails": (f"{_LOG}flusher.py::test_failed_sync_acknowledges_nothing_ever_again",),
    "a torn tail, and damage that is none": (
        f"{_LOG}recovery.py::test_torn_tail_above_the_durable_end_is_cut_and_reported",
        f"{_LOG}recovery.py::test_damage_below_the_durable_end_takes_the_partition_offline_with_the_place",
    ),
    "the clock jumps": (
        f"{_TRANSACTION}coordinator.py::test_a_wall_clock_that_jumps_ends_nothing_early_and_keeps_nothing_open",
        f"{_TRANSACTION}coordinator.py::test_after_a_restart_the_time_before_it_counts",
    ),
}

SCENARIOS = {**TRANSACTIONS, **PRODUCERS, **MACHINE, **HAZARDS}


@cache
def names_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = ast.FunctionDef, ast.AsyncFunctionDef
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_has_the_tests_that_the_table_names(scenario: str) -> None:
    for place in SCENARIOS[scenario]:
        path, _, name = place.partition("::")
        assert (ROOT / path).exists() and name in names_in(ROOT / path), f"{place} is not there"


def test_no_row_about_transactions_or_producers_is_left_out() -> None:
    assert [row.split()[0] for row in TRANSACTIONS] == [f"A{number}" for number in range(1, 19)]
    assert [row.split()[0] for row in PRODUCERS] == [f"B{number}" for number in range(19, 25)]
    assert len(HAZARDS) == 8
