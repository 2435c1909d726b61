"""Faults to plant in compaction: each lets it take too much, keep too much or forget, and the simulation must notice.

Owns: the list. Each is a small change to one decision of the filter, the round, the swap or the cleaner.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from oncelog.broker.storage.compaction import batch_filter, offset_map
from oncelog.broker.storage.compaction.batch_filter import BatchFilter
from oncelog.broker.storage.compaction.cleaner import LogCleaner
from oncelog.broker.storage.compaction.compaction_round import CompactionRound
from oncelog.broker.storage.compaction.transactions import AbortedTransactions, CleanedTransactions
from oncelog.broker.storage.local import swap
from oncelog.broker.storage.local.segment import Segment
from oncelog.broker.turns.ports import Disk
from oncelog.protocol.records.batch import DELETE_HORIZON_MASK, BatchHeader
from oncelog.protocol.records.record import Record
from tests.fakes.logs import segments_of
from tests.simulation.log_faults import (
    Plant,
    compact_past_the_last_stable_offset,
    drop_the_newest_record,
    keep_aborted_data,
    skip_the_sync_of_the_cleaned_segment,
)


class _NeverOver(AbortedTransactions):
    """A producer that aborted once never commits again."""

    def __init__(self, aborted: AbortedTransactions) -> None:
        super().__init__([])
        self._by_producer = aborted._by_producer

    def find(self, header: BatchHeader) -> Any:
        _, entries = self._by_producer.get(header.producer_id, ([], []))
        is_begun = header.is_transactional and entries and entries[0].first_offset <= header.base_offset
        return entries[0] if is_begun else None


def never_end_an_aborted_transaction(patch: pytest.MonkeyPatch) -> None:
    """The deletes of a producer that once aborted are not mapped: in time what they deleted is back."""
    read = CompactionRound._read_keys
    patch.setattr(CompactionRound, "_read_keys", lambda self, aborted: read(self, _NeverOver(aborted)))


def map_aborted_keys(patch: pytest.MonkeyPatch) -> None:
    read = CompactionRound._read_keys
    patch.setattr(CompactionRound, "_read_keys", lambda self, aborted: read(self, AbortedTransactions([])))


def take_data_outside_of_transactions_for_aborted(patch: pytest.MonkeyPatch) -> None:
    find = AbortedTransactions.find

    def of_the_producer(self: AbortedTransactions, header: BatchHeader) -> Any:
        return find(self, header) or (not header.is_transactional and self._by_producer.get(header.producer_id)) or None

    patch.setattr(AbortedTransactions, "find", of_the_producer)


def drop_tombstones_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BatchFilter, "_is_over", lambda self, header: True)


def ignore_delete_retention(patch: pytest.MonkeyPatch) -> None:
    rewritten = BatchFilter._rewritten
    patch.setattr(
        BatchFilter, "_rewritten", lambda self, *batch: rewritten(replace(self, delete_retention_ms=0), *batch)
    )


def move_the_horizon_every_round(patch: pytest.MonkeyPatch) -> None:
    prepare = BatchFilter.prepare

    def forgetful(self: BatchFilter, header: BatchHeader, batch: memoryview) -> Any:
        if header.record_count:
            header = header._replace(attributes=header.attributes & ~DELETE_HORIZON_MASK)
        return prepare(self, header, batch)

    patch.setattr(BatchFilter, "prepare", forgetful)


def drop_markers_before_their_data(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CleanedTransactions, "on_marker", lambda self, header: True)


def drop_markers_at_once(patch: pytest.MonkeyPatch) -> None:
    is_over = BatchFilter._is_over
    patch.setattr(BatchFilter, "_is_over", lambda self, header: header.is_control or is_over(self, header))


def forget_the_last_batch_of_a_producer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BatchFilter, "_is_needed_by_producer", lambda self, header: False)


def forget_the_epoch_of_a_producer(patch: pytest.MonkeyPatch) -> None:
    needed = BatchFilter._is_needed_by_producer
    patch.setattr(
        BatchFilter, "_is_needed_by_producer", lambda self, header: not header.is_control and needed(self, header)
    )


def move_a_batch_to_its_first_record(patch: pytest.MonkeyPatch) -> None:
    rewritten = BatchFilter._rewritten

    def moved(self: BatchFilter, header: BatchHeader, kept: list[Record], needs_horizon: bool) -> Any:
        gone = kept[0].offset - header.base_offset
        moved = header._replace(
            base_offset=header.base_offset + gone, last_offset_delta=header.last_offset_delta - gone
        )
        return rewritten(self, moved, kept, needs_horizon)

    patch.setattr(BatchFilter, "_rewritten", moved)


def end_a_batch_at_its_last_record(patch: pytest.MonkeyPatch) -> None:
    rewritten = BatchFilter._rewritten

    def shortened(self: BatchFilter, header: BatchHeader, kept: list[Record], needs_horizon: bool) -> Any:
        shorter = header._replace(last_offset_delta=kept[-1].offset - header.base_offset)
        return rewritten(self, shorter, kept, needs_horizon)

    patch.setattr(BatchFilter, "_rewritten", shortened)


def take_long_keys_for_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(offset_map, "_shortened", lambda key: key[:32])


def call_clean_what_was_not_mapped(patch: pytest.MonkeyPatch) -> None:
    complete = LogCleaner._complete

    def all_of_it(self: LogCleaner, log: Any, clean_offset: int) -> None:
        complete(self, log, max(clean_offset, segments_of(log)[-1].base_offset))

    patch.setattr(LogCleaner, "_complete", all_of_it)


def move_the_checkpoint_first(patch: pytest.MonkeyPatch) -> None:
    begin = LogCleaner._begin

    def too_early(self: LogCleaner, log: Any, stored: Any, dirty_offset: int, end_offset: int, wall_ms: int) -> None:
        self._checkpoint.set(log.topic, log.partition, end_offset)
        begin(self, log, stored, dirty_offset, end_offset, wall_ms)

    patch.setattr(LogCleaner, "_begin", too_early)


def delete_before_the_swap_is_durable(patch: pytest.MonkeyPatch) -> None:
    swap_in = swap.swap_in

    def too_early(disk: Disk, directory: str, old: list[Segment], new: Segment) -> Any:
        for segment in old[1:]:
            disk.delete(segment.path(".log"))
        return swap_in(disk, directory, old, new)

    patch.setattr("oncelog.broker.storage.local.swap.swap_in", too_early)


def leave_a_swap_half_done(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("oncelog.broker.storage.local.recovery.complete_swaps", lambda disk, directory: [])


def lose_sequences_with_the_records(patch: pytest.MonkeyPatch) -> None:
    emptied = batch_filter._emptied

    def without(header: BatchHeader) -> bytes:
        return emptied(header._replace(base_sequence=-1))

    patch.setattr(batch_filter, "_emptied", without)


def begin_the_horizon_before_the_delete(patch: pytest.MonkeyPatch) -> None:
    """The horizon begins too early for a tombstone that the round's map had no room for: what it deletes stays until
    the next round.
    """
    patch.setattr(BatchFilter, "_is_mapped", lambda self, header: True)


def clean_without_the_map(patch: pytest.MonkeyPatch) -> None:
    def nothing(self: CompactionRound[Any, Any], aborted: AbortedTransactions) -> Iterator[None]:
        self._map.latest_offset = self._end_offset - 1
        yield None

    patch.setattr(CompactionRound, "_read_keys", nothing)


PLANTS: tuple[Plant, ...] = (
    never_end_an_aborted_transaction,
    map_aborted_keys,
    keep_aborted_data,
    take_data_outside_of_transactions_for_aborted,
    drop_the_newest_record,
    compact_past_the_last_stable_offset,
    drop_tombstones_at_once,
    ignore_delete_retention,
    move_the_horizon_every_round,
    begin_the_horizon_before_the_delete,
    drop_markers_before_their_data,
    drop_markers_at_once,
    forget_the_last_batch_of_a_producer,
    forget_the_epoch_of_a_producer,
    lose_sequences_with_the_records,
    move_a_batch_to_its_first_record,
    end_a_batch_at_its_last_record,
    take_long_keys_for_one,
    clean_without_the_map,
    call_clean_what_was_not_mapped,
    move_the_checkpoint_first,
    delete_before_the_swap_is_durable,
    leave_a_swap_half_done,
    skip_the_sync_of_the_cleaned_segment,
)
