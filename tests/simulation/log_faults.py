"""Faults to plant in the log: each breaks one promise, and the simulation must notice.

Owns: the list. Each is a small change to one function of the broker, as a mistake in it would be.
"""

import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.producer_state import ProducerState, ProducerStateManager
from oncelog.broker.storage.compaction import batch_filter, compaction_round, transactions
from oncelog.broker.storage.local import (
    boot_mark,
    file_sync,
    found_snapshots,
    journal,
    local_log,
    log_recovery,
    origin,
    recovery,
    redo,
)
from oncelog.broker.storage.local.journal import Journal, Tail
from oncelog.broker.storage.local.left_journal import LeftJournal
from oncelog.broker.storage.local.local_log import LocalLog
from oncelog.broker.storage.local.log_store import LocalLogStore
from oncelog.broker.storage.local.offset_index import OffsetIndex
from oncelog.broker.storage.local.origin import Origin
from oncelog.broker.storage.local.segments import Segments
from oncelog.broker.storage.local.sync_targets import SyncTarget
from oncelog.broker.storage.sections import Section, encode_sections
from oncelog.broker.storage.transaction_index import TransactionIndex
from oncelog.broker.turns.completion import Completion
from oncelog.testing.memory_disk import MemoryDisk

Plant = Callable[[pytest.MonkeyPatch], None]


def skip_the_sync_of_the_log(patch: pytest.MonkeyPatch) -> None:
    sync = SyncTarget.sync

    def without_logs(self: SyncTarget) -> None:
        self.files = [file for file in self.files if not file.path.endswith(".log")]
        sync(self)

    patch.setattr(SyncTarget, "sync", without_logs)


def take_want_of_a_descriptor_for_a_failed_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(file_sync, "lacks_descriptor", lambda error: False)


def answer_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "when_durable", lambda self, next_offset: Completion.of(None))


def skip_the_sync_of_the_directory(patch: pytest.MonkeyPatch) -> None:
    take = Segments.take_dirty

    def without_directories(self: Segments, *, with_active: bool) -> tuple[list[Any], list[str]]:
        return take(self, with_active=with_active)[0], []

    patch.setattr(Segments, "take_dirty", without_directories)


def use_a_stale_index_entry(patch: pytest.MonkeyPatch) -> None:
    lookup = OffsetIndex.lookup
    patch.setattr(OffsetIndex, "lookup", lambda self, offset: lookup(self, offset + 3))


def forget_the_snapshot(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(found_snapshots, "load_snapshot", lambda data, wall_ms: ProducerStateManager())


def lose_the_transaction_index(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionIndex, "from_bytes", classmethod(lambda cls, data: cls()))


def forget_open_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerStateManager, "first_unstable_offset", lambda self: None)


def remember_one_batch(patch: pytest.MonkeyPatch) -> None:
    find = ProducerState.find_duplicate

    def last_only(self: ProducerState, *arguments: Any) -> Any:
        found = find(self, *arguments)
        return found if self.batches and found is self.batches[-1] else None

    patch.setattr(ProducerState, "find_duplicate", last_only)


def take_an_old_epoch(patch: pytest.MonkeyPatch) -> None:
    prepare = ProducerStateManager.prepare_append

    def lenient(self: ProducerStateManager, header: Any, *more: Any) -> Any:
        state = self.producer(header.producer_id)
        if state is not None and header.producer_epoch < state.producer_epoch:
            return None
        return prepare(self, header, *more)

    patch.setattr(ProducerStateManager, "prepare_append", lenient)


def spare_the_active_segment(patch: pytest.MonkeyPatch) -> None:
    decide = local_log.retention_start

    def without_the_last(segments: Any, *more: Any) -> int | None:
        start, last = decide(segments, *more), segments[len(segments) - 1] if len(segments) else None
        return None if start is None or last is None else min(start, last.base_offset)

    patch.setattr(local_log, "retention_start", without_the_last)


def keep_what_is_deleted_in_the_active_segment(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LocalLog, "maybe_roll", lambda self, producers, is_kept: None)


def delete_before_the_start_is_durable(patch: pytest.MonkeyPatch) -> None:
    move = LogManager._move_starts

    def too_early(self: LogManager, starts: Mapping[PartitionLog, int]) -> Completion[None]:
        for log, offset in starts.items():
            log.advance_log_start(offset)
        return move(self, starts)

    patch.setattr(LogManager, "_move_starts", too_early)


def show_a_start_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    move = LogManager._move_starts

    def too_early(self: LogManager, starts: Mapping[PartitionLog, int]) -> Completion[None]:
        with pytest.MonkeyPatch.context() as kept:
            kept.setattr(LocalLog, "delete_removed", lambda self: None)
            for log, offset in starts.items():
                log.advance_log_start(offset)
        return move(self, starts)

    patch.setattr(LogManager, "_move_starts", too_early)


def drop_the_newest_record(patch: pytest.MonkeyPatch) -> None:
    keeps = batch_filter.BatchFilter._keeps
    patch.setattr(
        batch_filter.BatchFilter,
        "_keeps",
        lambda self, record, header: (
            keeps(self, record, header) and self.offset_map.get(record.key or b"") != record.offset
        ),
    )


def compact_past_the_last_stable_offset(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LocalLogStore, "_cleanable_end", lambda self, view, log: log.log_end_offset)


def keep_aborted_data(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transactions.CleanedTransactions, "on_data", lambda self, header: False)


def skip_the_sync_of_the_cleaned_segment(patch: pytest.MonkeyPatch) -> None:
    clean = compaction_round.CompactionRound._clean

    def unsynced(self: Any, *arguments: Any) -> Iterator[Any]:
        working = clean(self, *arguments)
        try:
            while True:
                next(working)
                yield None
        except StopIteration as end:
            return end.value

    patch.setattr(compaction_round.CompactionRound, "_clean", unsynced)


def delete_behind_an_unsynced_snapshot(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Segments, "has_dirty_files", property(lambda self: False))
    patch.setattr(recovery._Recovery, "_renew_snapshots", lambda self: {})


def take_damage_for_a_torn_tail(patch: pytest.MonkeyPatch) -> None:
    recover = recovery.recover_log

    def forgetful(
        disk: MemoryDisk, directory: str, topic_id: Any, config: Any, points: Any, *more: Any, **named: Any
    ) -> Any:
        return recover(disk, directory, topic_id, config, None, *more, **named)

    patch.setattr(log_recovery, "recover_log", forgetful)


def take_a_directory_that_is_gone_for_a_new_partition(patch: pytest.MonkeyPatch) -> None:
    recover = recovery.recover_log

    def trusting(
        disk: MemoryDisk, directory: str, topic_id: Any, config: Any, points: Any, *more: Any, **named: Any
    ) -> Any:
        known = points if disk.exists(directory) else None
        return recover(disk, directory, topic_id, config, known, *more, **named)

    patch.setattr(log_recovery, "recover_log", trusting)


def go_offline_without_a_word(patch: pytest.MonkeyPatch) -> None:
    def silent(self: PartitionLog, problem: str) -> None:
        self.offline_error = self.offline_error or f"{self.name} is offline: {problem}"

    patch.setattr(PartitionLog, "take_offline", silent)


def take_what_cannot_be_read_for_the_end(patch: pytest.MonkeyPatch) -> None:
    read = local_log.read_records

    def short(segments: Any, fetch_offset: int, *more: Any, **named: Any) -> Any:
        try:
            return read(segments, fetch_offset, *more, **named)
        except OSError:
            return memoryview(b""), fetch_offset

    patch.setattr(local_log, "read_records", short)


def acknowledge_without_the_journal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "write", lambda self, sections: None)


def answer_ahead_without_the_journal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(file_sync.FileSync, "write_ahead", lambda self: self.is_journaling and not self.failure.failed)


def write_a_round_in_parts(patch: pytest.MonkeyPatch) -> None:
    write = Journal.write

    def one_by_one(self: Journal, sections: Sequence[Section]) -> None:
        needed_bytes = sum(len(self._frame(0, encode_sections([section]))) for section in sections)
        # A part that would change the file may be refused, and there is then no room for the round's next try.
        for part in [[section] for section in sections] if self._fits(needed_bytes) else [sections]:
            write(self, part)

    patch.setattr(Journal, "write", one_by_one)


def reuse_the_journal_before_the_checkpoint(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Journal, "needs_checkpoint", property(lambda self: False))
    patch.setattr(Journal, "has_room", lambda self, sections: self.release(self.last_number) or True)


def record_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    entries = file_sync.entries_of

    def too_far(targets: Sequence[SyncTarget]) -> Iterator[Any]:
        for target in targets:
            target.synced_offset = target.log.log_end_offset
        return entries(targets)

    patch.setattr(file_sync, "entries_of", too_far)


def keep_what_was_not_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LeftJournal, "committed_offset", lambda self, *_: None)


def put_back_what_is_obsolete(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tail, "above", lambda self, points: self.spans)


def take_a_torn_frame_for_a_whole_one(patch: pytest.MonkeyPatch) -> None:
    sections = journal.decode_sections

    def as_far_as_they_go(body: memoryview) -> Iterator[Section]:
        with suppress(struct.error):
            yield from sections(body)

    patch.setattr(journal, "decode_sections", as_far_as_they_go)
    patch.setattr(journal, "crc32c", lambda data, crc=0: 0)


def take_a_machine_that_ran_on_for_a_disk_that_did(patch: pytest.MonkeyPatch) -> None:
    compare = LeftJournal._compare_with_note

    def trusting(self: LeftJournal, found: journal.JournalContents) -> None:
        with pytest.MonkeyPatch.context() as kept:
            kept.setattr(self._mark, "lose", lambda: None)
            compare(self, found)

    patch.setattr(LeftJournal, "_compare_with_note", trusting)


def take_a_damaged_end_of_the_journal_for_a_torn_one(patch: pytest.MonkeyPatch) -> None:
    compare = LeftJournal._compare_with_note

    def trusting(self: LeftJournal, found: journal.JournalContents) -> None:
        left = self._mark.left
        if left is not None:
            self._mark.left = left._replace(life=found.life, durable_number=0)
        compare(self, found)

    patch.setattr(LeftJournal, "_compare_with_note", trusting)


def put_a_journal_back_of_any_origin(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(origin, "find_origin", lambda disk, found, *_, **__: Origin(frozenset(found.lives)))


def write_over_whole_batches(patch: pytest.MonkeyPatch) -> None:
    put_a_journal_back_of_any_origin(patch)
    patch.setattr(redo._Area, "other_batch", lambda self, span: None)


def count_starts_instead_of_naming_them(patch: pytest.MonkeyPatch) -> None:
    """Count starts instead of naming them, as an earlier version did: two copies have the same count."""
    patch.setattr(boot_mark, "life_of", lambda name: 1)
    patch.setattr(redo._Area, "other_batch", lambda self, span: None)


def believe_the_offsets_of_another_copy(patch: pytest.MonkeyPatch) -> None:
    find = origin.find_origin

    def trusting(*arguments: Any, **named: Any) -> Origin:
        return find(*arguments, **named)._replace(are_offsets_foreign=False)

    patch.setattr(origin, "find_origin", trusting)


def put_back_nothing_of_its_own_beside_a_foreign_file(patch: pytest.MonkeyPatch) -> None:
    kept_aside = LeftJournal._kept_aside
    patch.setattr(LeftJournal, "_kept_aside", lambda self, found, whose, left=None: kept_aside(self, found, whose))


def remove_the_journal_while_it_counts(patch: pytest.MonkeyPatch) -> None:
    """Remove the journal without a last head: a stop in between leaves one of its two files."""

    def at_once(self: Journal, life: int, left_out: Mapping[Any, Any]) -> bool:
        if left_out:
            self._begin(journal._LAST_HEAD, life, left_out)
        else:
            self.remove()
        return False

    patch.setattr(Journal, "retire", at_once)


def forget_the_run_at_a_clean_stop(patch: pytest.MonkeyPatch) -> None:
    """Delete the boot mark at a clean stop, as an earlier version did: only the journal then contradicts a copy's
    offsets.
    """
    keep = boot_mark.BootMark.keep

    def forgetful(self: boot_mark.BootMark) -> None:
        keep(self)
        if not self.may_be_lost:
            self._disk.delete(boot_mark.NAME)

    patch.setattr(boot_mark.BootMark, "keep", forgetful)


COPY_PLANTS: tuple[Plant, ...] = (
    forget_the_run_at_a_clean_stop,
    put_back_nothing_of_its_own_beside_a_foreign_file,
    put_a_journal_back_of_any_origin,
    write_over_whole_batches,
    count_starts_instead_of_naming_them,
    believe_the_offsets_of_another_copy,
)
"""Noticed only where files of another copy come in."""

RUIN_PLANTS: tuple[Plant, ...] = (
    take_a_directory_that_is_gone_for_a_new_partition,
    go_offline_without_a_word,
    take_what_cannot_be_read_for_the_end,
)
"""Noticed only where files are gone or unreadable."""

PLANTS: tuple[Plant, ...] = (
    skip_the_sync_of_the_log,
    take_want_of_a_descriptor_for_a_failed_sync,
    answer_before_it_is_durable,
    skip_the_sync_of_the_directory,
    use_a_stale_index_entry,
    forget_the_snapshot,
    lose_the_transaction_index,
    forget_open_transactions,
    remember_one_batch,
    take_an_old_epoch,
    spare_the_active_segment,
    keep_what_is_deleted_in_the_active_segment,
    delete_before_the_start_is_durable,
    show_a_start_before_it_is_durable,
    drop_the_newest_record,
    compact_past_the_last_stable_offset,
    keep_aborted_data,
    skip_the_sync_of_the_cleaned_segment,
    delete_behind_an_unsynced_snapshot,
    take_damage_for_a_torn_tail,
    acknowledge_without_the_journal,
    answer_ahead_without_the_journal,
    write_a_round_in_parts,
    reuse_the_journal_before_the_checkpoint,
    record_what_is_not_committed,
    keep_what_was_not_committed,
    put_back_what_is_obsolete,
    take_a_torn_frame_for_a_whole_one,
    take_a_machine_that_ran_on_for_a_disk_that_did,
    take_a_damaged_end_of_the_journal_for_a_torn_one,
    remove_the_journal_while_it_counts,
)


LATE_SEEDS: dict[str, int] = json.loads(Path(__file__).with_name("late_seeds.json").read_text())
"""By the names of a world and a plant: the first seed that shows it, where that is not the first of all."""


def seeds_for(world: str, plant: Plant, count: int) -> list[int]:
    """Order the seeds: the one known to show the fault first, which saves time and decides nothing."""
    late = LATE_SEEDS.get(f"{world}-{plant.__name__}", 0)
    return sorted(range(count), key=lambda seed: (seed != late, seed))


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        yield
