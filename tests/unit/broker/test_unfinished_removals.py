"""A removal of a topic that a stop has interrupted: the next start ends it, whatever the stop and that start were."""

from contextlib import suppress
from random import Random

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.testing.memory_disk import MemoryDisk, PowerCut
from tests.clients.administration import create, delete, produce
from tests.fakes.broker import VirtualBroker
from tests.fakes.virtual_time import VirtualTime


def started(disk: MemoryDisk, seed: int) -> VirtualBroker:
    return VirtualBroker(disk=disk, time=VirtualTime(1_700_000_100_000), seed=seed)


def files_of_orders(disk: MemoryDisk) -> list[str]:
    return [path for path in disk.files if path.startswith("orders-0")]


@pytest.fixture(scope="module")
def filled() -> MemoryDisk:
    """A stopped directory, all of it durable."""
    broker = VirtualBroker()
    for topic in ("orders", "others"):
        assert create(broker, topic) is ErrorCode.NONE
        assert produce(broker, topic, b"value") is ErrorCode.NONE
    assert broker.broker.logs.close() is None
    return broker.disk.kill()


def stopped_in_removal(filled: MemoryDisk, operations: int) -> tuple[MemoryDisk, bool]:
    """The disk after so many operations of the removal, and whether there are more."""
    broker = started(filled.kill(), seed=100)
    broker.disk.operations_left = operations
    with suppress(PowerCut):
        assert delete(broker, "orders") is ErrorCode.NONE
        return broker.disk, False
    return broker.disk, True


def test_after_a_power_cut_no_file_of_a_removed_topic_is_left(filled: MemoryDisk) -> None:
    """The files are gone whichever part of the metadata and of the list of removals has become durable."""
    operations, is_unfinished, removed_count = 0, True, 0
    while is_unfinished:
        disk, is_unfinished = stopped_in_removal(filled, operations)
        for seed in range(8):
            again = started(disk.crash(Random(seed)), seed=200)
            if "orders" not in again.broker.metadata.state.topics:
                assert files_of_orders(again.disk) == [], (operations, seed)
                removed_count += 1
        operations += 1
    assert removed_count > 8


def test_a_start_that_cannot_delete_a_directory_leaves_it_to_the_next_one(filled: MemoryDisk) -> None:
    operations, is_unfinished, refused_count = 0, True, 0
    while is_unfinished:
        disk, is_unfinished = stopped_in_removal(filled, operations)
        found = disk.kill()
        found.refused.add("orders-0")
        refused = started(found, seed=200)
        refused_count += any("orders-0 is left of a removed topic" in line for line in refused.lines)
        disk = refused.disk.kill()
        disk.refused.clear()
        again = started(disk, seed=300)
        if "orders" not in again.broker.metadata.state.topics:
            assert files_of_orders(again.disk) == [], operations
        operations += 1
    assert refused_count > 0
