"""The file `boot` and the note that it names: when a start takes what was answered and not synced for lost."""

from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from oncelog.broker.storage.local.boot_mark import NAME, BootMark
from oncelog.broker.system.disk import RealDisk
from oncelog.broker.system.shared_notes import SharedNotes
from oncelog.testing.memory_disk import MemoryDisk

KEY = UUID(int=2**127 + 5), 3


def settle(mark: BootMark) -> None:
    mark.begin()
    mark.settle()


def settled(disk: MemoryDisk, *, was_clean: bool = False) -> MemoryDisk:
    settle(BootMark(disk, was_clean=was_clean))
    return disk


def may_be_lost(disk: MemoryDisk, *, was_clean: bool = False) -> bool:
    return BootMark(disk, was_clean=was_clean).may_be_lost


def test_a_kill_loses_nothing_and_another_boot_may() -> None:
    disk = settled(MemoryDisk())
    assert not may_be_lost(disk.kill())
    assert may_be_lost(disk.crash(Random(1)))
    assert not may_be_lost(settled(disk.crash(Random(1))))


def test_after_a_clean_stop_there_was_nothing_to_lose() -> None:
    disk = settled(MemoryDisk())
    assert not may_be_lost(disk.crash(Random(1)), was_clean=True)


def test_a_start_that_is_killed_before_it_writes_finds_a_clean_stop_at_the_next() -> None:
    disk = MemoryDisk()
    mark = BootMark(disk, was_clean=False)
    settle(mark)
    mark.keep()
    assert not may_be_lost(disk.crash(Random(1)))
    assert not disk.notes.notes, "nobody asks for it any more"


def test_a_clean_stop_before_all_is_aborted_leaves_that_to_the_next_start() -> None:
    disk = settled(MemoryDisk()).crash(Random(1))
    BootMark(disk, was_clean=False).keep()
    assert may_be_lost(disk.kill(), was_clean=True)
    assert not may_be_lost(settled(disk.kill(), was_clean=True), was_clean=True)


def test_a_run_that_begins_before_all_is_aborted_leaves_that_to_the_next_start() -> None:
    disk = settled(MemoryDisk()).crash(Random(1))
    BootMark(disk, was_clean=False).begin()
    assert may_be_lost(disk.kill())


@pytest.mark.parametrize("content", [b"", b"note-", b"another", b"\xff"])
def test_a_file_that_names_no_note_counts_as_that_of_another_boot(content: bytes) -> None:
    disk = settled(MemoryDisk())
    disk.write_atomically(NAME, content)
    assert may_be_lost(disk)
    assert not may_be_lost(disk, was_clean=True)


def test_where_it_is_missing_nothing_was_answered_ahead() -> None:
    assert not may_be_lost(MemoryDisk())


def test_after_a_sync_that_failed_the_next_start_takes_all_for_lost_though_the_disk_takes_no_word_of_it() -> None:
    disk = MemoryDisk()
    mark = BootMark(disk, was_clean=True)
    settle(mark)
    operations = disk.operation_count
    mark.forget()
    assert disk.operation_count == operations
    assert may_be_lost(disk.kill())
    mark.settle()
    assert may_be_lost(disk.kill()), "not settled by the broker that saw it fail"


def test_before_the_file_names_the_note_nothing_is_answered_ahead() -> None:
    """Else a power cut would look like a directory in which nothing ever was."""
    disk = MemoryDisk()
    mark = BootMark(disk, was_clean=False)
    assert not mark.are_possible
    disk.capacity_bytes = 0
    with pytest.raises(OSError, match="No space left"):
        settle(mark)
    assert not mark.are_possible
    disk.capacity_bytes = None
    mark.settle()
    assert not mark.are_possible
    mark.begin()
    assert mark.are_possible
    assert not BootMark(disk.crash(Random(1)), was_clean=False).are_possible, "until it is settled in this boot"


def test_where_there_are_no_notes_nothing_is_answered_ahead_and_nothing_lost() -> None:
    disk = MemoryDisk()
    disk.notes.is_possible = False
    assert not BootMark(settled(disk), was_clean=False).are_possible
    assert not may_be_lost(disk)


def test_where_there_are_no_notes_and_an_append_is_answered_at_once_each_stop_may_lose_some() -> None:
    disk = MemoryDisk()
    disk.notes.is_possible = False
    settle(BootMark(disk, was_clean=False, commits_at_once=True))
    assert may_be_lost(disk.kill())


def test_a_log_that_is_shorter_than_noted_has_lost_its_end() -> None:
    disk = MemoryDisk()
    mark = BootMark(disk, was_clean=True)
    settle(mark)
    others = [(UUID(int=number), number) for number in range(100)]  # more than the note has room for at first
    for end, key in enumerate([*others, KEY, *others]):
        mark.note_end(key, end)
    again = BootMark(disk.kill(), was_clean=False)
    assert [again.lost_end(key, 100 + number) for number, key in enumerate(others)] == [101 + n for n in range(100)]
    assert again.lost_end((UUID(int=1), 2), 0) is None, "of another partition nothing was noted"
    again = BootMark(disk.kill(), was_clean=False)
    assert again.lost_end(KEY, 100) is None
    assert not again.may_be_lost
    assert again.lost_end(KEY, 99) == 100
    assert again.may_be_lost


def test_a_note_in_shared_memory_is_found_by_its_directory_alone(tmp_path: Path) -> None:
    for name in ("original", "copy"):
        (tmp_path / name).mkdir()
    notes = SharedNotes(str(tmp_path / "original"))
    note = notes.create(notes.new_name())
    if note is None:
        pytest.skip("no /dev/shm here")
    try:
        note.words[3] = 2**64 - 1
        note.grow(5_000)
        note.words[4_999] = 7
        again = SharedNotes(str(tmp_path / "original")).open(note.name)
        assert again is not None
        assert (again.words[3], again.words[4_999]) == (2**64 - 1, 7)
        assert SharedNotes(str(tmp_path / "copy")).open(note.name) is None
    finally:
        notes.delete(note.name)
    assert notes.open(note.name) is None
    assert notes.open("../../etc/passwd") is None


def test_the_real_disk_has_notes_of_its_own_directory(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    try:
        note = disk.notes.create(disk.notes.new_name())
        if note is None:
            pytest.skip("no /dev/shm here")
        assert disk.notes.open(note.name) is not None
        disk.notes.delete(note.name)
    finally:
        disk.close()
