"""Files of another copy of the directory that ran on, brought in by hand: nothing acknowledged here is destroyed."""

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.testing.memory_disk import MemoryDisk
from tests.clients.administration import create, delete, produce
from tests.fakes.broker import VirtualBroker
from tests.fakes.virtual_time import VirtualTime
from tests.unit.broker.test_data_directory import stored

METADATA = "__cluster_metadata-0"
OFTEN = "metadata.log.max.record.bytes.between.snapshots=2000"


def started(disk: MemoryDisk, *overrides: str, seed: int = 9) -> VirtualBroker:
    return VirtualBroker(*overrides, disk=disk, time=VirtualTime(1_700_000_100_000), seed=seed)


def a_copy_of(disk: MemoryDisk) -> MemoryDisk:
    copy = disk.kill()
    copy.notes.notes.clear()
    return copy


def bring(disk: MemoryDisk, source: MemoryDisk, is_of_copy: str) -> None:
    """All files whose path begins so."""
    for path in [path for path in disk.files if path.startswith(is_of_copy)]:
        disk.delete(path)
    for path, inode in source.files.items():
        if path.startswith(is_of_copy):
            disk.write_atomically(path, bytes(inode.data))


def with_a_topic() -> VirtualBroker:
    broker = VirtualBroker(OFTEN)
    assert create(broker, "orders") is ErrorCode.NONE
    assert produce(broker, "orders", b"own") is ErrorCode.NONE
    return broker


def copy_that_deletes(disk: MemoryDisk, starts: int, foreign: int) -> MemoryDisk:
    """And takes snapshots of the metadata."""
    copy = a_copy_of(disk)
    for start in range(starts):
        broker = started(copy, OFTEN, seed=100 + start)
        if start == 0:
            assert delete(broker, "orders") is ErrorCode.NONE
        for number in range(foreign):
            assert create(broker, f"foreign-{start}-{number}") is ErrorCode.NONE
        copy = broker.disk.kill()
    return copy


@pytest.mark.parametrize("stop", ["kill", "another boot", "clean"])
@pytest.mark.parametrize("starts", [1, 2])
@pytest.mark.parametrize("foreign", [0, 5, 20, 60])
@pytest.mark.parametrize("what", ["the metadata log", "its snapshots"])
def test_no_topic_is_deleted_because_another_copy_has_deleted_it(what: str, starts: int, stop: str, foreign: int) -> None:
    original = with_a_topic().disk.kill()
    copy = copy_that_deletes(original, starts, foreign)
    broker = started(original, OFTEN, seed=200)
    assert produce(broker, "orders", b"later") is ErrorCode.NONE
    for number in range(130):
        assert create(broker, f"own-{number}") is ErrorCode.NONE
    if stop == "clean":
        broker.broker.logs.close()
    disk = broker.disk.kill()
    if stop == "another boot":
        disk.notes.notes.clear()
    segments = {path: bytes(inode.data) for path, inode in disk.files.items() if path.startswith("orders-0/0")}
    mixed = disk.kill()
    if what == "the metadata log":
        bring(mixed, copy, f"{METADATA}/")
    else:
        for path, inode in copy.files.items():
            if path.endswith(".checkpoint"):
                mixed.write_atomically(path, bytes(inode.data))
    try:
        started(mixed, OFTEN, seed=300)
    except Exception as error:
        print("start:", type(error), error)
    logs = [path for path in mixed.files if path.startswith("orders-0/") and path.endswith(".log")]
    assert {path: bytes(mixed.files[path].data) for path in logs} == {
        path: data for path, data in segments.items() if path.endswith(".log")
    }
    assert stored(started(disk, OFTEN), "orders") == [b"own", b"later"]
