"""What `flushed-offsets` could not take is not in it, and does not get there with something else later."""

import errno
from contextlib import suppress
from random import Random
from uuid import UUID

import pytest

from oncelog.broker.storage.local.flushed_offsets import FlushedOffsets, LogPoints
from oncelog.testing.memory_disk import MemoryDisk, PowerCut

FIRST, SECOND = UUID(int=1), UUID(int=2)


def test_entries_that_belong_together_and_found_no_room_do_not_come_later_one_by_one() -> None:
    """One of two logs of a round as durable, and the other not, would be half a round."""
    disk = MemoryDisk()
    points = FlushedOffsets(disk)
    points.record_all([((FIRST, 0), LogPoints(1, 0)), ((SECOND, 0), LogPoints(1, 0))])
    disk.capacity_bytes = disk.used_bytes
    with pytest.raises(OSError, match="No space") as refused:
        points.record_all([((FIRST, 0), LogPoints(5, 0)), ((SECOND, 0), LogPoints(5, 0))])
    assert refused.value.errno == errno.ENOSPC
    disk.capacity_bytes = None
    points.record([((FIRST, 0), LogPoints(2, 0))])
    points.move_starts({(SECOND, 0): 1})
    points.sync()
    found = FlushedOffsets(disk.kill())
    assert (found.get(FIRST, 0), found.get(SECOND, 0)) == (LogPoints(2, 0), LogPoints(1, 1))


MANY = 3_000


@pytest.mark.parametrize("operations", range(9))
def test_of_many_entries_written_together_a_power_cut_leaves_only_true_ones(operations: int) -> None:
    """They are written in parts: an entry that is there is true by itself, and the journal's only if all are there."""
    disk = MemoryDisk()
    points = FlushedOffsets(disk)
    points.begin_life(1, 0, 1)
    disk.make_durable()
    disk.operations_left = operations // 2
    with suppress(PowerCut):
        points.record([((FIRST, partition), LogPoints(7, 2)) for partition in range(MANY)], journal_number=5)
        points.sync()
    found = FlushedOffsets(disk.crash(Random(operations)))
    assert {found.get(FIRST, partition) for partition in range(MANY)} <= {None, LogPoints(7, 2)}
    assert found.journal_number == 1 or all(found.get(FIRST, partition) for partition in range(MANY))
    assert found.is_whole
    if operations >= 8:
        assert found.journal_number == 5


def test_many_partitions_that_are_forgotten_stay_so() -> None:
    disk = MemoryDisk()
    points = FlushedOffsets(disk)
    points.record([((FIRST, partition), LogPoints(7, 2)) for partition in range(MANY)])
    points.forget(FIRST, range(MANY))
    found = FlushedOffsets(disk.kill())
    assert not any(found.get(FIRST, partition) for partition in range(MANY))


def test_what_cannot_be_forgotten_for_another_reason_than_a_full_disk_is_no_secret() -> None:
    disk = MemoryDisk()
    points = FlushedOffsets(disk)
    points.record([((FIRST, partition), LogPoints(7, 2)) for partition in range(2)])
    disk.append_error = lambda path: OSError(errno.ENOSPC, "No space left on device", path)
    points.forget(FIRST, [0])
    disk.append_error = lambda path: OSError(errno.EINVAL, "Invalid argument", path)
    with pytest.raises(OSError, match="Invalid argument"):
        points.forget(FIRST, [1])
