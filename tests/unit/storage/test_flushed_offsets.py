"""What `flushed-offsets` could not take is not in it, and does not get there with something else later."""

import errno
from uuid import UUID

import pytest

from oncelog.broker.storage.local.flushed_offsets import FlushedOffsets, LogPoints
from oncelog.testing.memory_disk import MemoryDisk

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
