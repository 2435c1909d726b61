"""The journal: what a stop leaves of a round, what is reported when its end is lost, and which stores use it."""

from contextlib import suppress
from random import Random

import pytest

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.storage.local.flushed_offsets import NAME as FLUSHED_OFFSETS
from oncelog.broker.storage.local.journal import NAMES, read_journal
from oncelog.testing.memory_disk import MemoryDisk, PowerCut
from tests.fakes.logs import Logs, all_batches, batch


def written(partition_count: int = 3, rounds: int = 4, **settings: object) -> Logs:
    """Each round appends to every partition; then the machine runs on."""
    logs = Logs(**settings)  # type: ignore[arg-type]
    partitions = [logs.open(index) for index in range(partition_count)]
    for _ in range(rounds):
        for log in partitions:
            logs.append(log, batch())
        logs.flush()
    return logs


def ends(logs: Logs, partition_count: int = 3) -> list[int]:
    partitions = [logs.open(index) for index in range(partition_count)]
    assert not any(log.offline_error for log in partitions)
    return [log.log_end_offset for log in partitions]


def test_a_round_over_many_partitions_is_one_write() -> None:
    logs = written(partition_count=50, journal_file_bytes=100_000)
    before = logs.disk.sync_count
    for index in range(50):
        logs.append(logs.open(index), batch())
    logs.flush()
    assert logs.disk.sync_count == before + 1


@pytest.mark.parametrize("seed", range(8))
def test_all_of_a_round_is_there_or_nothing_wherever_its_write_is_torn(seed: int) -> None:
    for rounds in range(1, 9):  # a torn write leaves another part at another position
        logs = written(rounds=rounds, journal_file_bytes=4_096)
        logs.disk.operations_left = 4 + seed % 2
        with pytest.raises(PowerCut):
            while True:
                for index in range(3):
                    logs.append(logs.open(index), batch())
                logs.flush()
        found = ends(logs.crashed(seed))
        assert len(set(found)) == 1
        assert found[0] >= rounds


@pytest.mark.parametrize("kind", ["kill", "power cut"])
def test_what_no_round_has_committed_is_gone_and_what_one_has_is_there(kind: str) -> None:
    logs = written()
    logs.append(logs.open(0), batch())
    again = logs.killed() if kind == "kill" else logs.crashed(1)
    assert ends(again) == [4, 4, 4]


def newest(logs: Logs) -> str:
    return NAMES[1 - read_journal(logs.disk).file]


@pytest.mark.parametrize(
    "lost", ["the newest file", "its last frames", "the end of flushed-offsets", "flushed-offsets"]
)
def test_a_lost_end_is_reported_and_costs_nothing_that_is_in_the_segments(lost: str) -> None:
    logs = written(rounds=30, journal_file_bytes=4_096)
    logs.store.file_sync.begin_checkpoint()
    logs.flush()
    disk = logs.disk
    match lost:
        case "the newest file":
            del disk.files[newest(logs)]
        case "its last frames":
            data = disk.files[newest(logs)].data
            data[512:] = bytes(len(data) - 512)
        case "the end of flushed-offsets":
            del disk.files[FLUSHED_OFFSETS].data[-400:]
        case _:
            del disk.files[FLUSHED_OFFSETS]
    again = logs.killed()
    assert again.store.problems
    assert ends(again) == [30, 30, 30]


def test_a_frame_that_is_damaged_before_others_is_no_torn_end() -> None:
    logs = written(rounds=6, journal_file_bytes=100_000)
    data = logs.disk.files[newest(logs)].data
    data[1_600] ^= 1
    again = logs.killed()
    assert any("is damaged" in problem for problem in again.store.problems)
    assert ends(again) == [6, 6, 6]


def test_segments_that_a_power_cut_has_emptied_come_back_from_the_journal() -> None:
    logs = written()
    for path in [path for path in logs.disk.files if path.startswith("topic-")]:
        del logs.disk.files[path]
    for index in range(3):
        logs.disk.directories.discard(f"topic-{index}")
    again = logs.killed()
    assert ends(again) == [4, 4, 4]
    assert all("come from the journal" in line for report in again.reports for line in report.lines)


def test_a_large_append_is_synced_where_it_belongs_and_not_written_twice() -> None:
    logs = written(partition_count=1)
    size = 200_000
    logs.append(logs.open(0), batch(value=bytes(size)))
    logs.append(logs.open(0), batch())
    logs.flush()
    assert all(len(logs.disk.files[name].data) < size for name in NAMES)
    again = logs.crashed(3)
    assert ends(again, 1) == [6]


def test_the_journal_does_not_grow_however_much_is_written() -> None:
    logs = written(rounds=200, journal_file_bytes=4_096)
    assert sum(len(logs.disk.files[name].data) for name in NAMES) <= 2 * 4_096
    assert ends(logs.crashed(5)) == [200, 200, 200]


def test_a_directory_without_a_journal_is_taken_over() -> None:
    logs = written()
    logs.manager.close()
    disk = logs.disk.kill()
    for name in NAMES:
        del disk.files[name]
    del disk.files[FLUSHED_OFFSETS].data[:]  # as of a version that knew neither
    again = Logs(disk)
    assert ends(again) == [4, 4, 4]
    again.append(again.open(0), batch())
    again.flush()
    assert ends(again.crashed(2)) == [5, 4, 4]


@pytest.mark.parametrize("policy", ["os", "memory"])
def test_another_policy_ends_the_use_of_the_journal_and_keeps_what_it_appends(policy: str) -> None:
    disk = written().disk.kill()
    logs = Logs(disk, policy=policy)
    partitions = [logs.open(index) for index in range(3)]
    logs.append(partitions[1], batch())
    logs.flush()
    assert not any(logs.disk.exists(name) for name in NAMES)
    assert ends(logs.killed()) == [4, 5, 4]


def test_a_journal_without_room_is_begun_when_there_is_some() -> None:
    logs = Logs()
    log = logs.open()
    logs.disk.append_error = lambda path: OSError(28, "No space left on device", path) if path in NAMES else None
    logs.append(log, batch())
    logs.flush()
    assert log.high_watermark == 1, "committed by a sync of the files"
    assert ends(logs.crashed(1), 1) == [1]
    logs.disk.append_error = None
    logs.clock.time_ms += 1_000
    logs.manager.step()
    logs.append(log, batch())
    logs.flush()
    assert read_journal(logs.disk).is_in_use
    assert ends(logs.crashed(1), 1) == [2]


def test_the_same_start_twice_finds_the_same() -> None:
    for seed in range(20):
        random = Random(seed)
        logs = written(rounds=random.randint(1, 20), journal_file_bytes=random.choice([1_024, 8_192]))
        first = logs.crashed(seed)
        found = ends(first)
        assert ends(first.killed()) == found == ends(first.crashed(seed))


def test_a_checkpoint_covers_no_round_that_has_not_ended() -> None:
    """The sync thread has written its frame, the loop does not know yet; then both files are used up."""
    logs = Logs(journal_file_bytes=4_096)
    first, second = logs.open(0), logs.open(1)
    for log in (first, second):
        logs.append(log, batch())
    logs.flush()
    sync, scheduler = logs.store.file_sync, logs.scheduler
    sync.begin_checkpoint()
    logs.flush()
    scheduler.threads_run_at_once = False
    for _ in range(3):
        logs.append(second, batch())
        scheduler.run()
    for _ in range(2):
        logs.append(first, batch())
    scheduler.run()
    write, on_written = scheduler.threads.pop(0)
    write()
    sync.begin_checkpoint()
    checkpoint, on_checkpoint = scheduler.threads.pop(0)
    on_written(None)
    scheduler.run()
    checkpoint()
    on_checkpoint(None)
    for _ in range(20):
        logs.append(second, batch())
        scheduler.run()
    acknowledged = first.high_watermark
    assert acknowledged == 3
    assert logs.killed().open(0).log_end_offset >= acknowledged
    assert logs.crashed(1).open(0).log_end_offset >= acknowledged


def test_an_older_checkpoint_lowers_no_offset_that_was_recorded_meanwhile() -> None:
    logs = Logs(journal_file_bytes=1 << 20)
    log = logs.open()
    logs.append(log, batch())
    logs.flush()
    logs.scheduler.threads_run_at_once = False
    logs.store.file_sync.begin_checkpoint()
    checkpoint, on_checkpoint = logs.scheduler.threads.pop(0)
    logs.disk.append_error = lambda path: OSError(28, "No space left on device", path) if path in NAMES else None
    logs.append(log, batch(value=bytes(100_000)))
    logs.scheduler.threads_run_at_once = True
    for _ in range(4):
        logs.flush()
        logs.scheduler.run_timers()
    assert log.high_watermark == 2
    checkpoint()
    on_checkpoint(None)
    assert ends(logs.killed(), 1) == ends(logs.crashed(2), 1) == [2]


def test_a_start_without_room_forgets_nothing_when_there_is_some_again() -> None:
    logs = written(partition_count=2).killed()
    logs.disk.append_error = lambda path: OSError(28, "No space left on device", path)
    assert ends(logs, 2) == [4, 4]
    logs.serve()
    logs.disk.append_error = None
    logs.manager.step()
    logs.append(logs.open(1), batch())
    logs.flush()
    assert ends(logs.killed(), 2) == ends(logs.crashed(1), 2) == [4, 5]


def test_a_log_that_is_offline_is_so_at_every_start() -> None:
    logs = Logs()
    log = logs.open()
    for value in (b"small", bytes(200_000), b"small"):
        logs.append(log, batch(value=value))
        logs.flush()
    path = next(path for path in logs.disk.files if path.startswith("topic-0/") and path.endswith(".log"))
    again = logs.killed()
    again.disk.files[path].data[100_000] ^= 1
    for _ in range(3):
        assert again.open().offline_error is not None
        again.serve()
        again = again.killed()


def test_a_clean_stop_waits_for_a_checkpoint_and_one_that_ends_later_begins_nothing() -> None:
    """A segment below the log start is waiting to be deleted, in the thread, once no sync uses it."""
    logs = Logs(config=LogConfig(segment_bytes=300))
    log = logs.open()
    for _ in range(5):
        logs.append(log, batch(value=bytes(100)))
        logs.flush()
    scheduler, sync = logs.scheduler, logs.store.file_sync
    scheduler.threads_run_at_once = False
    sync.begin_checkpoint()
    idle = logs.store.when_idle()
    assert logs.store.is_busy
    assert not idle.done
    checkpoint, on_checkpoint = scheduler.threads.pop(0)
    logs.manager.delete_records(log, 4)
    logs.manager.close()
    checkpoint()
    scheduler.threads.clear()
    on_checkpoint(None)
    assert not scheduler.threads
    assert not scheduler.queue


def test_the_journal_is_idle_when_the_checkpoint_has_ended() -> None:
    logs = written()
    logs.scheduler.threads_run_at_once = False
    logs.store.file_sync.begin_checkpoint()
    idle = logs.store.when_idle()
    logs.scheduler.run()
    assert not idle.done
    logs.scheduler.run_thread()
    logs.scheduler.run()
    assert idle.done
    assert not logs.store.is_busy
    assert logs.store.when_idle().done


def test_a_commit_at_once_that_finds_no_descriptor_fails_and_the_next_round_makes_up_for_it() -> None:
    logs = written()
    log = logs.open(0)
    logs.append(log, batch())
    logs.disk.lacks_descriptor = lambda path: path.endswith(".log")
    with pytest.raises(OSError, match="Too many open files"):
        logs.store.commit_now()
    logs.disk.lacks_descriptor = lambda path: False
    logs.append(logs.open(1), batch())
    logs.flush()
    assert not logs.failures
    assert ends(logs.crashed(1)) == ends(logs.killed()) == [5, 5, 4]


def test_a_checkpoint_passes_over_indexes_that_a_full_disk_has_cost() -> None:
    logs = Logs(config=LogConfig(segment_bytes=300))
    log = logs.open()
    for _ in range(6):
        logs.append(log, batch(value=bytes(100)))
    logs.flush()
    full = [True]
    logs.disk.append_error = lambda path: (
        OSError(28, "No space left on device", path) if full and path == FLUSHED_OFFSETS and full.pop() else None
    )
    logs.delete_records(log, 4)
    assert not full, "indexes were deleted, and the second try had room"
    logs.store.file_sync.begin_checkpoint()
    logs.flush()
    logs.append(log, batch())
    logs.flush()
    assert not logs.failures
    again = logs.crashed(1)
    assert ends(again, 1) == [7]
    assert again.open().log_start_offset == 4


def test_the_journal_is_not_begun_while_a_round_is_in_flight() -> None:
    """A start without room cannot begin it; a clock's tick finds room again in the middle of a round."""
    logs = Logs()
    first, second = logs.open(0), logs.open(1)
    logs.disk.append_error = lambda path: OSError(28, "No space left on device", path) if path in NAMES else None
    logs.append(first, batch())
    logs.append(second, batch())
    logs.scheduler.threads_run_at_once = False
    logs.scheduler.run()
    assert logs.scheduler.threads, "two appends: their files are synced in the thread"
    logs.disk.append_error = None
    logs.store.step(logs.manager.logs)
    assert not logs.store.file_sync.is_journal_settled
    logs.scheduler.threads_run_at_once = True
    logs.flush()
    logs.store.step(logs.manager.logs)
    logs.append(first, batch())
    logs.flush()
    assert logs.store.file_sync.is_journal_settled
    assert ends(logs.crashed(1), 2) == ends(logs.killed(), 2) == [2, 1]


@pytest.mark.parametrize("slot", [0, 1])
def test_a_journal_file_that_is_missing_after_it_was_used_is_reported(slot: int) -> None:
    logs = written(rounds=30, journal_file_bytes=4_096)
    del logs.disk.files[NAMES[slot]]
    assert any("missing" in problem for problem in logs.killed().store.problems)


@pytest.mark.parametrize("seed", range(60))
def test_a_power_cut_leaves_a_prefix_of_what_was_written_ahead_and_committed_and_a_kill_all_of_it(seed: int) -> None:
    random = Random(seed)
    logs = written(rounds=1, journal_file_bytes=4_096)
    states = [ends(logs)]
    durable = kept = 0
    logs.disk.operations_left = random.randrange(12, 60) if seed % 2 else None
    with suppress(PowerCut):
        for _ in range(30):
            for index in random.sample(range(3), random.randint(1, 3)):
                logs.append(logs.open(index), batch())
            states.append([logs.open(index).log_end_offset for index in range(3)])
            if random.random() < 0.6 and logs.rounds.answer_ahead(0):
                kept = len(states) - 1
            if random.random() < 0.5:
                logs.flush()
                durable = kept = len(states) - 1
    again = logs.crashed(seed) if seed % 4 else logs.killed()
    assert states.index(ends(again)) >= (durable if seed % 4 else kept)
    assert not [line for line in again.store.problems if NAMES[0] in line]


@pytest.mark.parametrize("is_proven", [False, True])
def test_a_frame_that_is_gone_is_damage_only_if_a_later_one_proves_that_it_was_durable(is_proven: bool) -> None:
    logs = written(partition_count=1, rounds=1)
    logs.append(logs.open(0), batch())
    assert logs.rounds.answer_ahead(0)
    (data,) = (logs.disk.files[name].data for name in NAMES if logs.disk.files[name].data)
    at = data.rfind(b"oncejrnl")
    logs.append(logs.open(0), batch())
    logs.flush()
    if is_proven:
        logs.append(logs.open(0), batch())
        logs.flush()
    data[at : at + 512] = bytes(512)
    assert (read_journal(logs.disk).problem is not None) is is_proven


@pytest.mark.parametrize("seed", range(8))
def test_a_frame_that_was_written_ahead_and_outlived_a_kill_outlives_a_power_cut_in_the_next_start(seed: int) -> None:
    """The next start notes the number of the frame, and may have no room for a journal of its own."""
    logs = written(partition_count=1, rounds=1)
    logs.append(logs.open(0), batch())
    assert logs.rounds.answer_ahead(0)
    logs = logs.killed()
    logs.disk.append_error = lambda path: OSError(28, "No space left on device", path) if path in NAMES else None
    logs.open(0)
    logs.serve()
    again = logs.crashed(seed)
    assert (ends(again, 1), again.store.problems) == ([2], [])


def test_nothing_is_written_ahead_of_a_round_in_flight_or_of_a_log_that_must_be_synced_itself() -> None:
    logs = Logs(large_bytes=100)
    log = logs.open()
    logs.append(log, batch())
    logs.append(log, batch())
    assert not logs.rounds.answer_ahead(0)
    logs.flush()
    assert log.high_watermark == 2
    logs.append(log, batch())
    logs.append(log, batch())
    logs.scheduler.run_one()
    assert not logs.rounds.answer_ahead(0)
    logs.flush()
    assert ends(logs.crashed(1), 1) == [4]


def frames_of(logs: Logs) -> tuple[bytearray, list[int]]:
    """The newest file, and where its frames begin."""
    data = logs.disk.files[newest(logs)].data
    return data, [at for at in range(0, len(data), 512) if data.startswith(b"oncejrnl", at)]


JOURNAL_FILES = (*NAMES, FLUSHED_OFFSETS)


@pytest.mark.parametrize("is_clean", [False, True], ids=["kill", "clean stop"])
@pytest.mark.parametrize(
    "damage",
    ["the last frame", "the second last", "the fourth last", "cut", "older", "older with the offsets", "foreign"],
)
def test_no_damage_of_the_journal_takes_what_a_kill_or_a_clean_stop_has_left(damage: str, is_clean: bool) -> None:
    logs = written(journal_file_bytes=100_000)
    older = {name: bytes(logs.disk.files[name].data) for name in JOURNAL_FILES if name in logs.disk.files}
    for _ in range(4):  # two of them are answered ahead
        for index in range(3):
            logs.append(logs.open(index), batch())
        assert logs.rounds.answer_ahead(0)
        logs.append(logs.open(0), batch())
        logs.flush()
    if is_clean:
        logs.manager.close()
    data, frames = frames_of(logs)
    match damage:
        case "cut":
            del data[frames[len(frames) // 2] + 100 :]
        case "older" | "older with the offsets":
            for name in older:
                if name in NAMES or "offsets" in damage:
                    logs.disk.files[name].data[:] = older[name]
        case "foreign":
            other = MemoryDisk()
            other.notes = logs.disk.notes.copy()  # its runs have other names
            written(partition_count=1, rounds=9, journal_file_bytes=100_000, disk=other)
            for name in JOURNAL_FILES:
                logs.disk.files[name].data[:] = other.files[name].data
        case _:
            back = {"the last frame": 1, "the second last": 2, "the fourth last": 4}[damage]
            data[frames[-back] + 70] ^= 4
    again = logs.killed()
    assert ends(again) == [12, 8, 8]
    assert is_clean or again.store.problems, "told"
    assert is_clean or again.store.durability.may_be_lost


@pytest.mark.parametrize("names", [NAMES, JOURNAL_FILES], ids=["older", "older with the offsets"])
def test_a_gap_of_compaction_is_no_torn_write_where_the_journal_is_older_than_the_segments(
    names: tuple[str, ...],
) -> None:
    """The synced end is unknown then: only the last segment may end in a torn write."""
    logs = Logs(config=LogConfig(segment_bytes=400, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0))
    log = logs.open()
    logs.append(log, batch(key=b"0"))
    logs.flush()
    older = {name: bytes(logs.disk.files[name].data) for name in names if name in logs.disk.files}
    for number in range(40):
        logs.append(log, batch(key=b"%d" % (number % 3)))
    logs.flush()
    logs.compact()
    kept = [header.base_offset for header, _ in all_batches(log)]
    assert len(kept) < 40 and kept[-1] == 40
    for name, data in older.items():
        logs.disk.files[name].data[:] = data
    again = logs.killed()
    assert [header.base_offset for header, _ in all_batches(again.open())] == kept
    assert again.store.problems, "told"


@pytest.mark.parametrize("stop", ["kill", "power cut"])
def test_whole_batches_after_the_end_of_the_journal_are_reported_when_they_are_removed(stop: str) -> None:
    logs = written(rounds=2)
    logs.append(logs.open(0), batch(3))
    logs.append(logs.open(0), batch())
    logs.disk.make_durable()
    again = logs.killed() if stop == "kill" else logs.crashed(1)
    assert ends(again) == [2, 2, 2]
    (report,) = again.reports
    (line,) = report.lines
    assert f"offsets 2 to 5 ({report.cut_bytes} bytes) are removed" in line
    assert ("no round had committed them" in line) is (stop == "kill")


def test_what_the_journal_puts_back_hides_nothing_that_lies_after_it() -> None:
    logs = written(partition_count=1, rounds=2)
    logs.append(logs.open(0), batch(2))
    segment = logs.disk.files["topic-0/00000000000000000000.log"].data
    segment[70] ^= 1  # the first batch, which the journal has
    again = logs.killed()
    assert ends(again, 1) == [2]
    lines = [line for report in again.reports for line in report.lines]
    assert any("come from the journal" in line for line in lines)
    assert any("offsets 2 to 3" in line for line in lines)


@pytest.mark.parametrize("end", ["kill", "another boot", "power cut"])
@pytest.mark.parametrize("next_policy", ["fsync", "os"])
@pytest.mark.parametrize("rounds", [4, 30], ids=["one file", "both files"])
@pytest.mark.parametrize("is_one_offline", [False, True])
def test_a_change_of_policy_that_stops_anywhere_leaves_nothing_that_the_next_start_reports(
    end: str, next_policy: str, rounds: int, is_one_offline: bool
) -> None:
    """It ends the use of the journal, whose files go one after the other."""
    disk = written(rounds=rounds, journal_file_bytes=4_096).disk.kill()
    if is_one_offline:
        disk.refused.add("topic-1")
    for operations in range(100):
        begun = disk.kill()
        begun.operations_left = operations
        try:
            logs = Logs(begun, policy="os")
            for index in range(3):
                logs.open(index)
            logs.serve()
        except PowerCut:
            pass
        else:
            break
        found = begun.crash(Random(operations)) if end == "power cut" else begun.kill()
        if end == "another boot":
            found.notes.notes.clear()
        found.refused.clear()
        again = Logs(found, policy=next_policy)
        assert ends(again) == [rounds] * 3, operations
        assert not [line for line in again.store.problems if "of a torn write" not in line], operations
        assert not any(".foreign-" in name for name in found.files)
    assert operations > 5
