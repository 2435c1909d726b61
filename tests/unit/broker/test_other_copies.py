"""The metadata of another copy of the directory, which ran on: nothing that was acknowledged here is destroyed."""

from contextlib import suppress

import pytest

from oncelog.broker.assembly.broker import StartError
from oncelog.broker.cluster import metadata_log
from oncelog.broker.storage.local.batch_scan import BatchScan
from oncelog.protocol.errors import ErrorCode
from oncelog.testing.memory_disk import MemoryDisk
from tests.clients.administration import create, delete, produce
from tests.fakes.broker import VirtualBroker
from tests.fakes.virtual_time import VirtualTime

METADATA = "__cluster_metadata-0/"
OFTEN = "metadata.log.max.record.bytes.between.snapshots=2000"


def started(disk: MemoryDisk, seed: int) -> VirtualBroker:
    return VirtualBroker(OFTEN, disk=disk, time=VirtualTime(1_700_000_100_000), seed=seed)


def segments(disk: MemoryDisk) -> bytes:
    return b"".join(
        bytes(inode.data)
        for path, inode in sorted(disk.files.items())
        if path.startswith("orders-0/") and path.endswith(".log")
    )


def copy_that_deletes_the_topic(disk: MemoryDisk, later: int) -> MemoryDisk:
    """A copy of the directory in which the topic is deleted, and so many others are created; snapshots may be taken of
    them.
    """
    copy = disk.kill()
    copy.notes.notes.clear()  # a directory of its own
    broker = started(copy, seed=100)
    assert delete(broker, "orders") is ErrorCode.NONE
    for number in range(later):
        assert create(broker, f"foreign-{number}") is ErrorCode.NONE
    return broker.disk.kill()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("stop", ["kill", "another boot", "clean"])
@pytest.mark.parametrize("own", [0, 3, 130])
@pytest.mark.parametrize("foreign", [0, 5, 60])
@pytest.mark.parametrize("what", ["the metadata log", "its snapshots"])
def test_no_topic_is_deleted_because_another_copy_has_deleted_it(what: str, foreign: int, own: int, stop: str) -> None:
    """Whether the start refuses the mixture or serves what it says."""
    broker = VirtualBroker(OFTEN)
    assert create(broker, "orders") is ErrorCode.NONE
    assert produce(broker, "orders", b"own") is ErrorCode.NONE
    original = broker.disk.kill()
    copy = copy_that_deletes_the_topic(original, foreign)
    broker = started(original, seed=200)
    assert produce(broker, "orders", b"later") is ErrorCode.NONE
    for number in range(own):
        assert create(broker, f"own-{number}") is ErrorCode.NONE
    if stop == "clean":
        assert broker.broker.logs.close() is None
    disk = broker.disk.kill()
    if stop == "another boot":
        disk.notes.notes.clear()
    acknowledged = segments(disk)
    if what == "the metadata log":
        for path in [path for path in disk.files if path.startswith(METADATA)]:
            disk.delete(path)
    for path, inode in copy.files.items():
        if path.startswith(METADATA) and (what == "the metadata log" or path.endswith(".checkpoint")):
            disk.write_atomically(path, bytes(inode.data))
    with suppress(StartError):
        started(disk, seed=300)
    assert segments(disk) == acknowledged


@pytest.mark.parametrize("own", [40, 41, 60])
@pytest.mark.parametrize("foreign", [38, 43, 55])
def test_no_snapshot_of_another_copy_takes_the_place_of_the_metadata(own: int, foreign: int) -> None:
    """It has the same number of starts, and offsets and epochs as the log has them: before its end, and behind it."""
    original = VirtualBroker(OFTEN).disk.kill()
    copy = original.kill()
    copy.notes.notes.clear()
    broker = started(copy, seed=100)
    for number in range(foreign):
        assert create(broker, f"foreign-{number}") is ErrorCode.NONE
    copy = broker.disk.kill()
    broker = started(original, seed=200)
    for number in range(own):
        assert create(broker, f"own-{number}") is ErrorCode.NONE
    disk, expected = broker.disk.kill(), set(broker.broker.metadata.state.topics)
    brought = [path for path in copy.files if path.startswith(METADATA) and path.endswith(".checkpoint")]
    for path in brought:
        disk.write_atomically(path, bytes(copy.files[path].data))
    again = started(disk, seed=300)
    assert set(again.broker.metadata.state.topics) == expected
    newest = max(path for path in disk.files if path.startswith(METADATA) and path.endswith(".checkpoint"))
    lines = [line for line in again.lines if "of another copy of this directory" in line]
    assert bool(lines) == (newest in brought)


def test_a_snapshot_of_an_earlier_version_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not name the batch with which it ends, but the time of that."""
    encode = metadata_log.encode_snapshot
    with monkeypatch.context() as patch:
        patch.setattr(
            metadata_log, "encode_snapshot", lambda records, time_ms, epoch, _: encode(records, time_ms, epoch)
        )
        broker = VirtualBroker(OFTEN)
        for number in range(40):
            assert create(broker, f"topic-{number}") is ErrorCode.NONE
    again = started(broker.disk.kill(), seed=300)
    assert set(again.broker.metadata.state.topics) == set(broker.broker.metadata.state.topics)
    assert not [line for line in again.lines if "snapshot" in line]


@pytest.mark.parametrize("stop", ["kill", "clean"])
def test_damage_below_the_end_of_a_snapshot_does_not_hinder_its_use(stop: str) -> None:
    """The batch that would say whose the snapshot is cannot be read; then it says nothing."""
    broker = VirtualBroker(OFTEN)
    for number in range(60):
        assert create(broker, f"topic-{number}") is ErrorCode.NONE
    if stop == "clean":
        assert broker.broker.logs.close() is None
    disk, expected = broker.disk.kill(), set(broker.broker.metadata.state.topics)
    newest = max(path for path in disk.files if path.startswith(METADATA) and path.endswith(".checkpoint"))
    end_offset = int(newest.removeprefix(METADATA).partition("-")[0])
    bases = [
        int(path.removeprefix(METADATA)[:20]) for path in disk.files if path.startswith(METADATA) and ".log" in path
    ]
    path = f"{METADATA}{max(base for base in bases if base < end_offset):020}.log"
    inode = disk.files[path]
    scan = BatchScan(lambda start, end: memoryview(inode.data)[start:end], len(inode.data), 0, has_gaps=True)
    (end,) = [scan.position for header, _ in scan if header.next_offset == end_offset]
    inode.data[end - 1] ^= 1
    again = started(disk, seed=300)
    assert set(again.broker.metadata.state.topics) == expected
    assert not [line for line in again.lines if "snapshot" in line]
