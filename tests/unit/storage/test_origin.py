"""Whose files a start finds: those of another copy of the directory put nothing back, and are kept and named."""

from random import Random

import pytest

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.storage.local import boot_mark, flushed_offsets, journal
from oncelog.broker.storage.local.boot_mark import NAME as BOOT
from oncelog.broker.storage.local.flushed_offsets import NAME as FLUSHED_OFFSETS
from oncelog.broker.storage.local.flushed_offsets import FlushedOffsets, LogPoints
from oncelog.broker.storage.local.journal import NAMES as JOURNALS
from oncelog.broker.storage.local.journal import read_journal
from oncelog.testing.memory_disk import MemoryDisk, PowerCut
from tests.fakes.logs import TOPIC_ID, Logs, all_batches, batch

SEGMENT = "topic-0/00000000000000000000.log"
ALL = (*JOURNALS, FLUSHED_OFFSETS)


def run_on(disk: MemoryDisk, value: bytes, *, rounds: int = 3, starts: int = 1, stop: str = "kill") -> MemoryDisk:
    """Start so many times on the directory, each with these records, acknowledged, in two partitions."""
    for _ in range(starts):
        logs = Logs(disk)
        opened = [logs.open(partition) for partition in range(2)]
        for _ in range(rounds):
            for log in opened:
                logs.append(log, batch(value=value))
            logs.flush()
        if stop == "clean":
            logs.manager.close()
        disk = logs.disk.kill()
    return disk


def a_copy_of(disk: MemoryDisk) -> MemoryDisk:
    """A copy in another directory, which finds no note."""
    copy = disk.kill()
    copy.notes.notes.clear()
    return copy


def bring(names: tuple[str, ...], source: MemoryDisk, disk: MemoryDisk) -> None:
    for name in names:
        if name in source.files:
            disk.write_atomically(name, source.read_bytes(name))


def values(logs: Logs, partition: int = 0) -> list[bytes]:
    log = logs.open(partition)
    return [bytes(data)[-10:] for _, data in all_batches(log)]


@pytest.mark.parametrize("stop", ["kill", "another boot", "clean"])
@pytest.mark.parametrize("starts", [1, 2, 3])
@pytest.mark.parametrize("names", [JOURNALS, JOURNALS[:1], JOURNALS[1:], (FLUSHED_OFFSETS,)])
@pytest.mark.parametrize("runs_on", [True, False])
def test_no_record_of_another_copy_appears_and_none_of_this_one_goes(
    names: tuple[str, ...], starts: int, stop: str, runs_on: bool
) -> None:
    original = run_on(MemoryDisk(), b"own", stop=stop)
    copy = run_on(a_copy_of(original), b"foreign", rounds=4, starts=starts)
    if runs_on:
        original = run_on(original, b"own", rounds=2, stop=stop)
    expected = values(Logs(original.kill()))
    if stop == "another boot":
        original.notes.notes.clear()
    before = {name: copy.read_bytes(name) for name in names if name in copy.files}
    bring(names, copy, original)
    again = Logs(original)
    assert values(again, 0) == values(again, 1) == expected
    assert not any(log.offline_error for log in again.manager.logs)
    kept = {name: original.read_bytes(name) for name in original.files if ".foreign-" in name}
    lines = " ".join(again.store.problems)
    assert all(name in lines for name in kept)
    for name, content in before.items():
        if name in JOURNALS and f"{name}.foreign-1" in kept:
            assert kept[f"{name}.foreign-1"] == content, "as it came"
    if "flushed-offsets" not in names and kept:
        assert "of topic-0" in lines
    again.serve(is_recovered=True)
    again.append(again.open(0), batch(value=b"own"))
    again.flush()
    last = again.killed()
    assert len(values(last)) == len(expected) + 1
    assert not last.store.problems, "reported once"


@pytest.mark.parametrize("starts", [1, 2])
@pytest.mark.parametrize("has_note", [True, False])
def test_the_offsets_of_a_copy_do_not_move_the_start_of_a_log(starts: int, has_note: bool) -> None:
    """A start deletes segments below a log's start."""
    original = run_on(MemoryDisk(), b"own")
    logs = Logs(run_on(a_copy_of(original), b"foreign", starts=starts))
    log = logs.open()
    logs.append(log, batch(value=b"foreign"))
    logs.flush()
    logs.delete_records(log, log.high_watermark)
    original = run_on(original, b"own", rounds=2)
    if not has_note:
        original.notes.notes.clear()
    bring((FLUSHED_OFFSETS,), logs.disk, original)
    again = Logs(original)
    assert again.open().log_start_offset == 0
    assert len(values(again)) == 5
    assert any("flushed-offsets is of another copy" in line for line in again.store.problems)


def test_what_compaction_has_removed_does_not_contradict_the_journal() -> None:
    """Nothing names the run, and `flushed-offsets` is of another copy: the segments decide."""
    config = LogConfig(segment_bytes=400, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)
    original = run_on(MemoryDisk(), b"own", rounds=1)
    copy = run_on(a_copy_of(original), b"foreign", starts=2)
    logs = Logs(original, config=config, journal_file_bytes=100_000)
    log, _ = (logs.open(partition) for partition in range(2))
    for number in range(40):
        logs.append(log, batch(key=b"%d" % (number % 3)))
        logs.flush()
    logs.compact()
    kept = [header.base_offset for header, _ in all_batches(log)]
    assert len(kept) < 20
    original = logs.disk.kill()
    original.notes.notes.clear()
    original.delete(BOOT)
    bring((FLUSHED_OFFSETS,), copy, original)
    again = Logs(original, config=config)
    assert [header.base_offset for header, _ in all_batches(again.open())] == kept
    assert any("flushed-offsets is of another copy" in line for line in again.store.problems)
    assert not any(name.startswith("journal") and ".foreign-" in name for name in original.files)


@pytest.mark.parametrize("has_note", [True, False])
def test_where_journal_and_offsets_are_of_one_copy_the_note_or_its_name_knows_better(has_note: bool) -> None:
    original = run_on(MemoryDisk(), b"own")
    copy = run_on(a_copy_of(original), b"foreign")
    original = run_on(original, b"own", rounds=2)
    if not has_note:
        original.notes.notes.clear()
    bring(ALL, copy, original)
    again = Logs(original)
    assert len(values(again)) == 5
    assert not any(b"foreign" in value for value in values(again))
    assert len(again.store.problems) == 2


def test_a_partition_of_another_copy_is_offline_and_nothing_of_it_is_overwritten() -> None:
    """The journal is the directory's own: it knows what the segment should have, and both are kept."""
    original = run_on(MemoryDisk(), b"own")
    copy = run_on(a_copy_of(original), b"foreign")
    original = run_on(original, b"own", rounds=3)
    bring((SEGMENT,), copy, original)
    foreign = original.read_bytes(SEGMENT)
    logs = Logs(original)
    for _ in range(3):
        error = logs.open(0).offline_error
        assert error is not None
        assert "another batch of offset 3 than the journal" in error
        assert len(values(logs, 1)) == 6
        assert logs.disk.read_bytes(SEGMENT) == foreign
        logs.serve()
        logs = logs.killed()
    bring((SEGMENT,), run_on(run_on(MemoryDisk(), b"own"), b"own", rounds=0), logs.disk)
    assert len(values(logs.killed(), 0)) == 6, "the journal still has what the right segment lacks"


def contradicted(foreign_rounds: int, rounds: int) -> MemoryDisk:
    """A directory with a segment of another copy in one of two partitions: it ends at 3 and so many offsets, the
    journal at 3 and so many.
    """
    original = run_on(MemoryDisk(), b"own")
    copy = run_on(a_copy_of(original), b"foreign", rounds=foreign_rounds)
    original = run_on(original, b"own", rounds=rounds)
    bring((SEGMENT,), copy, original)
    return original


def settle(disk: MemoryDisk) -> None:
    """Settle the journal, as a repair does first."""
    Logs(disk).store.settle_journal({(TOPIC_ID, partition): f"topic-{partition}" for partition in range(2)})


@pytest.mark.parametrize(("foreign_rounds", "rounds"), [(3, 3), (6, 3), (2, 6)])
def test_a_repair_keeps_the_segments_that_contradict_the_journal_and_the_journal_beside(
    foreign_rounds: int, rounds: int
) -> None:
    """Whichever of the two is longer."""
    disk = contradicted(foreign_rounds, rounds)
    foreign, own = disk.read_bytes(SEGMENT), {disk.read_bytes(name) for name in JOURNALS}
    settle(disk)
    assert {disk.read_bytes(name) for name in disk.files if ".foreign-" in name} == own
    for again in (Logs(disk.kill()), Logs(disk.crash(Random(1)))):
        log = again.open(0)
        assert log.offline_error is None
        assert log.log_end_offset == 3 + foreign_rounds
        assert again.disk.read_bytes(SEGMENT) == foreign
        assert len(values(again, 1)) == 3 + rounds


@pytest.mark.parametrize("end", ["kill", "another boot", "power cut"])
@pytest.mark.parametrize("has_contradiction", [True, False])
def test_a_settlement_that_stops_anywhere_leaves_what_the_journal_knows(end: str, has_contradiction: bool) -> None:
    """A start after it puts back what was committed, removes what was not, and takes nothing for foreign."""
    disk = run_on(MemoryDisk(), b"own")
    if has_contradiction:
        disk = contradicted(3, 3)
    else:
        logs = Logs(disk)
        log, _ = (logs.open(partition) for partition in range(2))
        logs.append(log, batch(value=b"uncommitted"))
        logs.disk.make_durable()
        disk = logs.disk.kill()
    for operations in range(100):
        stopped = disk.kill()
        stopped.operations_left = operations
        try:
            settle(stopped)
        except PowerCut:
            pass
        else:
            break
        found = stopped.crash(Random(operations)) if end == "power cut" else stopped.kill()
        if end == "another boot":
            found.notes.notes.clear()
        for is_settled in (True, False):
            again = found.kill()
            if is_settled:
                settle(again)
            start = Logs(again)
            assert not [line for line in start.store.problems if "copy" in line], operations
            assert len(values(start, 1)) == (6 if has_contradiction else 3), operations
            if has_contradiction and not is_settled:
                continue
            log = start.open(0)
            assert log.offline_error is None
            assert log.log_end_offset == (6 if has_contradiction else 3), operations
    assert operations > 5


def test_what_a_kept_file_has_under_its_name_stays_when_another_is_kept() -> None:
    original = run_on(MemoryDisk(), b"own")
    for expected in (1, 2, 3):
        copy = run_on(a_copy_of(original), b"foreign")
        original = run_on(original, b"own")
        bring(JOURNALS, copy, original)
        original = run_on(original, b"own")
        kept = {name for name in original.files if name.startswith("journal") and ".foreign-" in name}
        assert {name.rpartition("-")[2] for name in kept} >= {str(number) for number in range(1, expected)}


def with_a_torn_head(disk: MemoryDisk) -> MemoryDisk:
    """The fourth run has switched files, its power cut has torn the new head, and behind that are frames of the
    first."""
    only_head = Logs(run_on(disk, b"own", rounds=1))
    for partition in range(2):
        only_head.open(partition)
    only_head.serve()
    disk = run_on(only_head.disk.kill(), b"own", rounds=1)
    disk.files[JOURNALS[read_journal(disk).file]].data[:512] = bytes(512)
    disk.notes.notes.clear()
    return disk


def test_a_torn_head_uncovers_frames_of_an_older_run_and_the_journal_is_still_known() -> None:
    disk = with_a_torn_head(run_on(MemoryDisk(), b"own"))
    again = Logs(disk)
    assert len(values(again, 0)) == len(values(again, 1)) == 5
    assert not again.store.problems
    assert not any(".foreign-" in name for name in disk.files)


def test_frames_without_a_head_that_stay_of_another_copy_are_no_damage_to_the_next_start() -> None:
    original = run_on(MemoryDisk(), b"own")
    bring(JOURNALS, with_a_torn_head(a_copy_of(original)), original)
    after = run_on(original, b"own", rounds=1)
    assert any(".foreign-" in name for name in after.files)
    assert not Logs(after).store.problems


class EarlierVersion:
    """Makes directories as before runs had lives: the starts were counted, and no other file named the count."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch

    def __enter__(self) -> None:
        begin = journal.Journal._begin
        encode = flushed_offsets.FlushedOffsets._encode_all

        def counted(self: journal.Journal, kind: int, life: int, *more: object) -> object:
            return begin(self, kind, self._generation + 1, *more)  # type: ignore[arg-type]

        def anonymous(self: FlushedOffsets, points: dict[object, LogPoints]) -> bytes:
            self.life = self.left_life = boot_mark.UNKNOWN
            return encode(self, points)  # type: ignore[arg-type]

        self.patch.setattr(journal.Journal, "_begin", counted)
        self.patch.setattr(flushed_offsets.FlushedOffsets, "_encode_all", anonymous)

    def __exit__(self, *_: object) -> None:
        self.patch.undo()


@pytest.mark.parametrize("stop", ["kill", "another boot", "clean"])
@pytest.mark.parametrize("starts", [1, 2, 3])
def test_a_directory_of_an_earlier_version_is_taken_over_after_any_stop_and_may_go_back(
    stop: str, starts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = MemoryDisk()
    with EarlierVersion(monkeypatch):
        disk = run_on(disk, b"own", starts=starts, stop=stop)
    for turn in range(2):
        for version in ("this", "earlier"):
            if stop == "another boot":
                disk.notes.notes.clear()
            if version == "earlier":
                with EarlierVersion(monkeypatch):
                    disk = run_on(disk, b"own", stop=stop)
            else:
                assert not Logs(disk.kill()).store.problems
                disk = run_on(disk, b"own", stop=stop)
            assert len(values(Logs(disk.kill()))) == 3 * starts + 3 * (2 * turn + 1 + (version == "earlier"))


@pytest.mark.parametrize("stop", ["kill", "another boot"])
@pytest.mark.parametrize("starts", [1, 2])
def test_the_journal_of_another_copy_of_an_earlier_version_is_known_by_what_the_segments_have(
    stop: str, starts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EarlierVersion(monkeypatch):
        original = run_on(MemoryDisk(), b"own")
        copy = run_on(a_copy_of(original), b"foreign", starts=starts)
        original = run_on(original, b"own")
    if stop == "another boot":
        original.notes.notes.clear()
    bring(JOURNALS, copy, original)
    again = Logs(original)
    assert len(values(again)) == 6
    assert not any(b"foreign" in value for value in values(again))
    assert any("foreign-1" in line for line in again.store.problems)


@pytest.mark.parametrize("operations", range(30))
def test_a_start_that_stops_anywhere_leaves_nothing_that_the_next_takes_for_foreign(operations: int) -> None:
    disk = run_on(MemoryDisk(), b"own")
    for left in (operations, operations // 2, 30 - operations):
        logs = Logs(disk.kill())
        logs.disk.operations_left = left
        try:
            run_on(logs.disk, b"own", rounds=1)
        except BaseException as error:
            assert type(error).__name__ == "PowerCut"
        disk = logs.disk.kill()
        for found in (disk.kill(), a_copy_of(disk)):
            assert not [line for line in Logs(found).store.problems if "copy" in line]
            assert not any(".foreign-" in name for name in found.files)
    assert BOOT in disk.files


@pytest.mark.parametrize("stop", ["kill", "another boot", "clean"])
@pytest.mark.parametrize("policy", ["fsync", "os", "memory"])
@pytest.mark.parametrize("runs_on", [True, False])
@pytest.mark.parametrize("starts", [1, 2])
def test_the_offsets_of_a_copy_delete_no_segment_whether_there_is_a_journal_or_not(
    policy: str, stop: str, runs_on: bool, starts: int
) -> None:
    config = LogConfig(segment_bytes=200)

    def live(disk: MemoryDisk, value: bytes, rounds: int, stop: str) -> MemoryDisk:
        logs = Logs(disk, policy=policy, config=config)
        log = logs.open()
        logs.serve(is_recovered=True)
        for _ in range(rounds):
            logs.append(log, batch(value=value))
            logs.flush()
        if value == b"foreign":
            logs.delete_records(log, log.high_watermark)
        if stop == "clean":
            logs.manager.close()
        return logs.disk.kill()

    original = live(MemoryDisk(), b"own", 6, stop)
    copy = a_copy_of(original)
    for _ in range(starts):
        copy = live(copy, b"foreign", 0, stop)
    if runs_on:
        original = live(original, b"own", 3, stop)
    if stop == "another boot":
        original.notes.notes.clear()
    expected = Logs(original.kill(), policy=policy, config=config)
    assert len(values(expected)) == (9 if runs_on else 6)
    assert not expected.store.problems
    bring((FLUSHED_OFFSETS,), copy, original)
    again = Logs(original, policy=policy, config=config)
    assert len(values(again)) == (9 if runs_on else 6)
    assert any("flushed-offsets is of another copy" in line for line in again.store.problems)
    again.serve(is_recovered=True)
    assert not again.killed().store.problems


@pytest.mark.parametrize("policy", ["os", "memory"])
def test_starts_without_a_journal_that_stop_anywhere_take_nothing_for_foreign(policy: str) -> None:
    disk = MemoryDisk()
    for operations in range(60):
        begun = disk.kill()
        begun.operations_left = operations // 2
        try:
            logs = Logs(begun, policy=policy)
            logs.append(logs.open(), batch())
            logs.flush()
            if operations % 3 == 0:
                logs.manager.close()
        except PowerCut:
            pass
        disk = begun.kill()
        for found in (disk.kill(), a_copy_of(disk)):
            assert not [line for line in Logs(found, policy=policy).store.problems if "copy" in line], operations
