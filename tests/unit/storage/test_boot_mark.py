"""The file `boot`: when a start takes what was answered and not synced for lost."""

from random import Random

import pytest

from oncelog.broker.storage.local.boot_mark import NAME, BootMark
from oncelog.testing.memory_disk import MemoryDisk


def settled(disk: MemoryDisk, *, was_clean: bool = False) -> MemoryDisk:
    BootMark(disk, was_clean=was_clean).settle()
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


def test_a_clean_stop_before_all_is_aborted_leaves_that_to_the_next_start() -> None:
    disk = settled(MemoryDisk()).crash(Random(1))
    BootMark(disk, was_clean=False).keep()
    assert may_be_lost(disk.kill(), was_clean=True)
    assert not may_be_lost(settled(disk.kill(), was_clean=True), was_clean=True)


@pytest.mark.parametrize("content", [b"", b"boot-", b"another"])
def test_a_file_that_does_not_name_this_boot_counts_as_another(content: bytes) -> None:
    disk = settled(MemoryDisk())
    disk.write_atomically(NAME, content)
    assert may_be_lost(disk)
    assert not may_be_lost(disk, was_clean=True)


def test_where_it_is_missing_nothing_was_answered_ahead() -> None:
    assert not may_be_lost(MemoryDisk())


def test_after_a_sync_that_failed_the_next_start_takes_all_for_lost() -> None:
    disk = MemoryDisk()
    mark = BootMark(disk, was_clean=True)
    mark.settle()
    mark.forget()
    assert may_be_lost(disk.kill())
    mark.settle()
    assert may_be_lost(disk.kill()), "not settled by the broker that saw it fail"


def test_before_the_file_names_this_boot_nothing_is_answered_ahead() -> None:
    """Else a power cut would look like a directory in which nothing ever was."""
    disk = MemoryDisk()
    mark = BootMark(disk, was_clean=False)
    assert not mark.are_possible
    disk.capacity_bytes = 0
    with pytest.raises(OSError, match="No space left"):
        mark.settle()
    assert not mark.are_possible
    disk.capacity_bytes = None
    mark.step()
    assert mark.are_possible
    assert not BootMark(disk.crash(Random(1)), was_clean=False).are_possible, "until it is settled in this boot"


def test_where_boots_cannot_be_told_apart_nothing_is_answered_ahead_and_nothing_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MemoryDisk, "boot_id", lambda _: None)
    disk = settled(MemoryDisk())
    assert not BootMark(disk, was_clean=False).are_possible
    assert not may_be_lost(disk)
