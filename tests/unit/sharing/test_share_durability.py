"""Share groups on the share coordinator of a whole broker: what was answered outlives a kill of the broker."""

from contextlib import suppress
from random import Random
from uuid import UUID

import pytest

from oncelog.broker.coordinator.share.values import SharePartitionKey
from oncelog.protocol.errors import ErrorCode
from oncelog.testing.memory_disk import PowerCut
from tests.clients.fetch_session import append, create
from tests.clients.share_member import ACCEPT, REJECT, RELEASE, ShareMember, acquired, errors
from tests.fakes.broker import Reply, VirtualBroker

GROUP, TOPIC = "group", "topic"


def started(*overrides: str) -> tuple[VirtualBroker, UUID]:
    broker = VirtualBroker("share.coordinator.state.topic.num.partitions=2", *overrides)
    topic_id = create(broker, TOPIC)
    begun = broker.broker.share_coordinator.initialize(SharePartitionKey(GROUP, topic_id, 0), 0, 0)
    broker.time.settle()
    assert begun.done and begun.error is None
    return broker, topic_id


def test_an_acknowledgement_that_was_answered_outlives_a_kill() -> None:
    """An accepted or rejected record is not handed out again; a released or held one is, and its deliveries count."""
    broker, topic_id = started()
    key = topic_id, 0
    for _ in range(5):
        append(broker, TOPIC)
    member = ShareMember(broker, GROUP, "member")
    assert acquired(member.fetch([key])) == {key: [(0, 4, 1)]}
    answer = member.acknowledge({key: [(0, 2, [ACCEPT, RELEASE, REJECT])]})
    assert errors(answer) == {key: ErrorCode.NONE}
    broker = broker.killed()
    again = ShareMember(broker, GROUP, "member")
    assert again.fetch(share_session_epoch=2).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert acquired(again.fetch([key], max_wait_ms=500)) == {key: [(1, 1, 2), (3, 4, 1)]}


@pytest.mark.parametrize("seed", range(10))
def test_no_crash_loses_an_acknowledgement_that_was_answered(seed: int) -> None:
    """Wherever the machine loses its power, and whatever of it was on its way to the disk."""
    broker, topic_id = started()
    key = topic_id, 0
    random = Random(seed)
    done: set[int] = set()
    for run in range(4):
        member = ShareMember(broker, GROUP, f"member-{run}")
        sent: list[tuple[int, Reply]] = []
        broker.operations_left = random.randrange(1, 80)
        with suppress(PowerCut):
            while True:
                append(broker, TOPIC)
                held = _fetched(member, key)
                if held:
                    offset, kind = random.choice(held), random.choice([ACCEPT, REJECT])
                    sent.append((offset, member.start_acknowledge({key: [(offset, offset, [kind])]}, settles=False)))
                    member.epoch += 1
                    broker.time.settle()
        for offset, reply in sent:
            if reply.is_there:
                assert errors(reply.message) == {key: ErrorCode.NONE}
                done.add(offset)
        broker = broker.crashed(random.randrange(1_000))
        reader = ShareMember(broker, GROUP, f"reader-{run}")
        offered: set[int] = set()
        while held := _fetched(reader, key):
            offered.update(held)
        reader.close()
        assert not offered & done
    assert done


def test_a_record_that_was_handed_out_outlives_a_kill_in_a_group_that_begins_at_the_end() -> None:
    """The start of the group is durable before its first record is returned, so it does not begin again behind it."""
    broker, topic_id = started()
    key = topic_id, 0
    append(broker, TOPIC)
    broker.broker.share_coordinator.initialize(SharePartitionKey(GROUP, topic_id, 0), 1, -1)
    member = ShareMember(broker, GROUP, "member")
    waiting = member.start_fetch([key], max_wait_ms=500)
    append(broker, TOPIC, 0, 2)
    assert acquired(waiting.message) == {key: [(1, 2, 1)]}
    broker = broker.killed()
    append(broker, TOPIC)
    again = ShareMember(broker, GROUP, "member")
    reply = again.start_fetch([key], max_wait_ms=500)
    broker.time.advance(500)
    assert acquired(reply.message) == {key: [(1, 3, 1)]}


@pytest.mark.parametrize("state_epoch", [0, 3])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_share_partition_that_begins_again_forgets_what_is_in_flight(*, state_epoch: int, is_deleted: bool) -> None:
    """A member that still holds records of before can neither acknowledge them, nor undo the new start, whatever the
    state epoch.
    """
    broker, topic_id = started()
    key = topic_id, 0
    for _ in range(5):
        append(broker, TOPIC)
    member = ShareMember(broker, GROUP, "member")
    assert acquired(member.fetch([key])) == {key: [(0, 4, 1)]}
    member.acknowledge({key: [(0, 0, [RELEASE])]})
    assert acquired(member.fetch()) == {key: [(0, 0, 2)]}
    coordinator, share = broker.broker.share_coordinator, SharePartitionKey(GROUP, topic_id, 0)
    if is_deleted:
        coordinator.delete(share)
    coordinator.initialize(share, state_epoch, 2)
    broker.time.settle()
    assert not broker.broker.sharing.failures.keys(GROUP)
    assert errors(member.acknowledge({key: [(0, 4, [ACCEPT])]}))[key] != ErrorCode.NONE
    assert acquired(member.fetch(max_wait_ms=500)) == {key: [(2, 4, 1)]}


def test_a_wait_for_records_ends_when_the_share_partition_begins_again() -> None:
    """The next request waits for those of the new beginning."""
    broker, topic_id = started()
    key = topic_id, 0
    member = ShareMember(broker, GROUP, "member")
    waiting = member.start_fetch([key], max_wait_ms=500)
    broker.broker.share_coordinator.initialize(SharePartitionKey(GROUP, topic_id, 0), 0, 0)
    broker.time.settle()
    assert errors(waiting.message) == {key: ErrorCode.NOT_LEADER_OR_FOLLOWER}


def _fetched(member: ShareMember, key: tuple[UUID, int]) -> list[int]:
    reply = member.start_fetch([key] if member.epoch == 0 else (), max_wait_ms=500)
    if not reply.is_there:
        member.broker.time.advance(500)
    member.epoch += 1
    ranges = acquired(reply.message).get(key, ())
    return [offset for first, last, _ in ranges for offset in range(first, last + 1)]
