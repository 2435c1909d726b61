"""Each start leads everything with new epochs: durably, from one record, and as a new partition needs it."""

from typing import Any
from uuid import UUID

import pytest

from oncelog.broker.cluster.metadata_log import MetadataLog
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.testing.memory_disk import MemoryDisk
from tests.clients.administration import create, delete, grow, produce
from tests.fakes.broker import VirtualBroker

OFTEN = "metadata.log.max.record.bytes.between.snapshots=2000"


def epochs(broker: VirtualBroker, name: str) -> list[int]:
    """The leader epochs in Metadata; DescribeTopicPartitions and the logs have the same."""
    topics = [MetadataRequestTopic(name=name, topic_id=UUID(int=0))]
    (topic,) = broker.ask(MetadataRequest(topics=topics), 12).topics
    found = [partition.leader_epoch for partition in topic.partitions]
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name)], response_partition_limit=2_000)
    (described,) = broker.ask(request, 0).topics
    assert [partition.leader_epoch for partition in described.partitions] == found
    of_logs = [broker.broker.topics.partition(name, index).leader_epoch for index in range(len(found))]
    assert of_logs == found
    return found


def stamped(broker: VirtualBroker, name: str) -> list[int]:
    return [header.partition_leader_epoch for header, _ in broker.broker.topics.partition(name, 0).batches()]


def metadata_end(broker: VirtualBroker) -> int:
    log = broker.broker.logs.get("__cluster_metadata", 0)
    assert log is not None
    return log.log_end_offset


def test_a_partition_begins_with_epoch_0_and_each_start_leads_it_with_a_greater_one() -> None:
    broker = VirtualBroker()
    create(broker, "first", 2)
    assert epochs(broker, "first") == [0, 0]
    broker = broker.killed()
    create(broker, "second")
    grow(broker, "first", 3)
    assert (epochs(broker, "first"), epochs(broker, "second")) == ([2, 2, 0], [0])
    broker = broker.crashed(1)
    grow(broker, "first", 5)
    assert (epochs(broker, "first"), epochs(broker, "second")) == ([4, 4, 2, 0, 0], [2])
    delete(broker, "second")
    broker.let_pass(1_000)
    create(broker, "second")
    assert epochs(broker, "second") == [0], "another topic"


def test_snapshots_of_the_metadata_keep_the_epochs() -> None:
    broker = VirtualBroker(OFTEN)
    create(broker, "first", 2)
    wanted = [0, 0]
    for life in range(1, 6):
        broker = broker.killed()
        grow(broker, "first", 2 + life)
        wanted = [epoch + 2 for epoch in wanted] + [0]
        for number in range(10):
            create(broker, f"filler-{life}-{number}", 3)
        assert epochs(broker, "first") == wanted
    names = broker.disk.list_dir("__cluster_metadata-0")
    snapshots = [name for name in names if name.endswith(".checkpoint")]
    assert len(snapshots) == 2
    assert [int(name[21:31]) for name in snapshots] == [4, 6], "each is named by the epoch in which it was taken"


def test_a_start_costs_one_record_however_many_partitions_there_are() -> None:
    operations = []
    for count in (1, 10_000):
        broker = VirtualBroker()
        create(broker, "first", count)
        before = metadata_end(broker)
        broker = broker.killed()
        assert metadata_end(broker) == before + 1
        operations.append(broker.disk.operations)
        assert broker.broker.leadership.epoch_of("first", count - 1) == 2
    one, many = operations
    assert len(many) <= len(one)


def of_an_older_release(monkeypatch: pytest.MonkeyPatch) -> MemoryDisk:
    """A directory in which no starts are counted, of three lives with records."""
    with monkeypatch.context() as patch:
        patch.setattr(MetadataLog, "register", lambda *_, **__: Completion.of(None))
        broker = VirtualBroker()
        create(broker, "first", 2)
        for _ in range(3):
            assert produce(broker, "first") is ErrorCode.NONE
            broker = broker.killed()
        assert epochs(broker, "first") == [0, 0]
        return broker.disk.kill()


@pytest.mark.interpreted
def test_a_directory_of_an_older_release_is_taken_over_with_a_greater_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = VirtualBroker(disk=of_an_older_release(monkeypatch), seed=7)
    assert broker.lines == []
    assert epochs(broker, "first") == [2, 2]
    grow(broker, "first", 3)
    assert produce(broker, "first") is ErrorCode.NONE
    assert stamped(broker, "first") == [0, 0, 0, 2]
    assert broker.broker.topics.partition("first", 0).epochs.entries == ((0, 0), (2, 3))
    assert epochs(broker.killed(), "first") == [4, 4, 2]


def test_without_room_for_the_record_of_a_start_logs_are_read_and_take_nothing_until_there_is() -> None:
    broker = VirtualBroker()
    create(broker, "first")
    assert produce(broker, "first") is ErrorCode.NONE
    disk = broker.disk.kill()
    disk.capacity_bytes = disk.used_bytes
    broker = VirtualBroker(disk=disk, seed=3)
    assert stamped(broker, "first") == [0] and epochs(broker, "first") == [0]
    disk.capacity_bytes = None
    assert produce(broker, "first") is ErrorCode.NOT_LEADER_OR_FOLLOWER, "no record may have an epoch of two lives"
    broker.let_pass(1_000)
    assert epochs(broker, "first") == [2]
    assert produce(broker, "first") is ErrorCode.NONE
    assert stamped(broker, "first") == [0, 2]
    assert broker.disk_failures == []


def test_this_node_leads_what_there_is_and_nothing_else() -> None:
    broker = VirtualBroker()
    create(broker, "first", 2)
    leadership = broker.broker.leadership
    assert leadership.leader_of("first", 1) == (1, 0)
    unknown: tuple[tuple[str, Any], ...] = (("first", 2), ("first", -1), ("none", 0), ("__cluster_metadata", 1))
    assert [leadership.leader_of(*partition) for partition in unknown] == [None] * 4
    assert [leadership.epoch_of(*partition) for partition in unknown] == [None] * 4
    assert leadership.leader_of("__cluster_metadata", 0) == leadership.controller == (1, 1)
    assert broker.killed().broker.leadership.controller == (1, 2)
