"""Records that are not in the page cache: one member reads them, and acquires what it has read if it is still there."""

from struct import unpack_from
from typing import Any

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from tests.clients.fetch_session import append
from tests.clients.share_member import ShareMember, acquired, errors
from tests.fakes.broker import Reply
from tests.unit.sharing.world import TOPIC, World


@pytest.fixture
def world() -> World:
    """A broker that finds two records in each of two partitions, on a disk that is slow to give them."""
    world = World(partitions=2)
    for index in range(2):
        world.append(2, index)
    world.broker.broker.logs.close()
    world.use(world.broker.killed())
    world.broker.disk.is_cold = lambda path, start, end: TOPIC in path and path.endswith(".log")
    return world


def started(world: World, member: ShareMember, **fields: Any) -> Reply:
    """A fetch whose records are being read, beside the loop."""
    reply = member.start_fetch(world.keys, settles=False, **fields)
    while not any(life.is_held for lives in world.manager._lives.values() for life in lives.values()):
        assert world.broker.time.turn()
    assert not reply.is_there
    return reply


def test_records_are_acquired_once_they_are_read(world: World) -> None:
    """The records of all partitions are acquired together."""
    reply = started(world, world.member())
    world.broker.time.settle()
    assert acquired(reply.message) == {key: [(0, 1, 1)] for key in world.keys}


def test_another_member_waits_while_records_are_read(world: World) -> None:
    """It gets what the first one has not taken."""
    first = started(world, world.member("first"), max_records=1)
    second = world.member("second").start_fetch(world.keys, settles=False, max_wait_ms=500)
    world.broker.time.settle()
    assert acquired(first.message) == {world.keys[0]: [(0, 1, 1)]}
    assert acquired(second.message) == {world.keys[1]: [(0, 1, 1)]}


def test_a_client_that_has_left_while_its_records_were_read_acquires_nothing(world: World) -> None:
    """The records go to a member that waits for them."""
    first = world.member("first")
    left = started(world, first)
    second = world.member("second").start_fetch(world.keys, settles=False, max_wait_ms=500)
    first.disconnect()
    world.broker.time.settle()
    assert not left.is_there
    assert acquired(second.message) == {key: [(0, 1, 1)] for key in world.keys}
    assert not world.broker.broker.slices.elements_held


def test_a_topic_may_be_deleted_while_its_records_are_read(world: World) -> None:
    """Nothing of it is acquired."""
    reply = started(world, world.member())
    world.broker.start(DeleteTopicsRequest(topics=[DeleteTopicState(name=TOPIC)]), 6)
    world.broker.time.settle()
    assert not acquired(reply.message)
    assert set(errors(reply.message).values()) <= {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert not world.manager.partition_count


def test_records_may_be_deleted_while_they_are_read(world: World) -> None:
    """The next request reads what is left."""
    member = world.member()
    reply = started(world, member)
    log = world.broker.broker.topics.partition(TOPIC, 0)
    log.advance_log_start(2)
    world.broker.time.settle()
    member.epoch += 1
    assert errors(reply.message) == {world.keys[1]: ErrorCode.NONE}
    assert acquired(reply.message) == {world.keys[1]: [(0, 1, 1)]}
    append(world.broker, TOPIC, 0)
    assert acquired(member.fetch()) == {world.keys[0]: [(2, 2, 1)]}


def test_a_damaged_batch_is_an_error_of_its_partition_alone(world: World) -> None:
    """The other partitions are read, and no fetch waits for it for ever."""
    world.append(1)
    for path, inode in world.broker.disk.files.items():
        if path.startswith(f"{TOPIC}-0/") and path.endswith(".log"):
            (first_bytes,) = unpack_from(">i", inode.data, 8)
            inode.data[12 + first_bytes + 8 : 12 + first_bytes + 12] = bytes(4)
    reply = started(world, world.member())
    world.broker.time.settle()
    first, second = world.keys
    assert errors(reply.message) == {first: ErrorCode.KAFKA_STORAGE_ERROR, second: ErrorCode.NONE}
    assert acquired(reply.message) == {second: [(0, 1, 1)]}
    assert not any(life.is_held for lives in world.manager._lives.values() for life in lives.values())
