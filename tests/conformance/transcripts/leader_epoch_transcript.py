"""A conversation about leader epochs over five lives of a broker, one of which begins after kill -9.

Owns: the questions, and which part of an answer counts. Does not own: how a broker is stopped and started again.
"""

from collections.abc import Iterator
from typing import Any, Protocol
from uuid import UUID

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.message import Message
from oncelog.protocol.records.batch import encode_batch, iter_batches
from oncelog.protocol.records.record import Record
from tests.conformance.recording import Differences

Told = Iterator[tuple[str, Any]]

WRITTEN, SELDOM, NEVER, GROWN, LATER = ("first", 0), ("first", 1), ("first", 2), ("first", 3), ("second", 0)
"""Partitions: written in each life but the third, written in the first alone, never, made in the second life, of a
topic made there."""
ALL = (WRITTEN, SELDOM, NEVER, GROWN, LATER)
AT_MS = 1_700_000_000_000
_EVERYTHING = 2**31 - 1
_IDLE = {
    "first life": ("first-2",),
    "second life, before any append": ("first-0", "first-1", "first-2"),
    "second life": ("first-1", "first-2"),
    "third life": ("first-0", "first-1", "first-2", "first-3", "second-0"),
    "after kill -9": ("first-0", "first-1", "first-2", "first-3", "second-0"),
    "fifth life": ("first-0", "first-1", "first-2", "first-3", "second-0"),
}
"""The logs without a record in an epoch yet, by life."""
# Kafka writes a file for each partition at each start. Ours comes with the first record of an epoch, so that 10,000
# idle partitions do not delay a start.
DIFFERENCES: Differences = {
    f"{life}: {log}: in the file, without records": ("a start alone writes no file of a partition", [])
    for life, logs in _IDLE.items()
    for log in logs
}


class LivingBroker(Protocol):
    def ask(self, request: Message, version: int) -> Any: ...

    def let_pass(self, delay_ms: int) -> None: ...

    def restart(self) -> None: ...

    def kill(self) -> None: ...

    def epoch_file(self, topic: str, partition: int) -> str | None:
        """The text of `leader-epoch-checkpoint`; None without the file."""
        ...


def conversation(broker: LivingBroker) -> Told:
    talk = _Talk(broker)
    talk.create("first", 3)
    for partition in (WRITTEN, SELDOM):
        talk.produce(partition, 3)
    yield from talk.life("first life", (WRITTEN, SELDOM, NEVER))
    talk.broker.restart()
    yield from talk.life("second life, before any append", (WRITTEN, SELDOM, NEVER))
    talk.create("second", 1)
    talk.grow("first", 4)
    for partition in (WRITTEN, GROWN, LATER):
        talk.produce(partition, 2)
    yield from talk.life("second life", ALL)
    talk.broker.restart()
    yield from talk.life("third life", ALL)
    talk.broker.kill()
    yield from talk.life("after kill -9", ALL)
    talk.produce(WRITTEN, 1)
    yield from talk.life("after kill -9, written", (WRITTEN,))
    talk.broker.restart()
    yield from talk.life("fifth life", ALL)


class _Talk:
    def __init__(self, broker: LivingBroker) -> None:
        self.broker = broker
        self.ids: dict[str, UUID] = {}

    def create(self, name: str, partitions: int) -> None:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        while True:
            (answer,) = self.broker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7).topics
            if answer.error_code == ErrorCode.NONE:
                break
            self.broker.let_pass(100)
        self.ids[name] = answer.topic_id
        self._wait()

    def grow(self, name: str, count: int) -> None:
        topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
        (answer,) = self.broker.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=10_000), 3).results
        assert answer.error_code == ErrorCode.NONE
        self._wait()

    def _wait(self) -> None:
        """Metadata and leaders follow the controller."""
        self.broker.let_pass(1_000)
        for topic in self.metadata():
            for of in topic.partitions:
                while self.list_offset((topic.name, of.partition_index), -1)[0] != "NONE":
                    self.broker.let_pass(100)

    def metadata(self) -> Any:
        topics = [MetadataRequestTopic(name=name, topic_id=UUID(int=0)) for name in self.ids]
        return self.broker.ask(MetadataRequest(topics=topics), 12).topics

    def epoch(self, partition: tuple[str, int]) -> int:
        """The leader's epoch in Metadata."""
        (topic,) = (topic for topic in self.metadata() if topic.name == partition[0])
        epochs = {of.partition_index: of.leader_epoch for of in topic.partitions}
        epoch: int = epochs[partition[1]]
        return epoch

    def produce(self, partition: tuple[str, int], count: int) -> None:
        """Batches of one record."""
        for _ in range(count):
            records = memoryview(encode_batch([Record(0, AT_MS, None, b"x")]))
            data = PartitionProduceData(index=partition[1], records=records)
            topics = [TopicProduceData(topic_id=self.ids[partition[0]], partition_data=[data])]
            (topic,) = self.broker.ask(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics), 13).responses
            assert topic.partition_responses[0].error_code == ErrorCode.NONE

    def list_offset(self, partition: tuple[str, int], timestamp: int, current_epoch: int = -1) -> tuple[Any, ...]:
        asked = ListOffsetsPartition(
            partition_index=partition[1], current_leader_epoch=current_epoch, timestamp=timestamp
        )
        topics = [ListOffsetsTopic(name=partition[0], partitions=[asked])]
        (topic,) = self.broker.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 7).topics
        (of,) = topic.partitions
        return ErrorCode(of.error_code).name, of.offset, of.leader_epoch

    def fetch(self, partition: tuple[str, int], offset: int, *, current: int = -1, last: int = -1) -> tuple[Any, ...]:
        asked = FetchPartition(
            partition=partition[1],
            fetch_offset=offset,
            current_leader_epoch=current,
            last_fetched_epoch=last,
            partition_max_bytes=_EVERYTHING,
        )
        topics = [FetchTopic(topic_id=self.ids[partition[0]], partitions=[asked])]
        answer = self.broker.ask(FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=topics), 16)
        (topic,) = answer.responses
        (of,) = topic.partitions
        return (
            ErrorCode(of.error_code).name,
            (of.current_leader.leader_id >= 0, of.current_leader.leader_epoch),
            (of.diverging_epoch.epoch, of.diverging_epoch.end_offset),
            [
                (header.base_offset, header.partition_leader_epoch)
                for header, _ in iter_batches(memoryview(of.records or b""))
            ],
        )

    def end_of(self, partition: tuple[str, int], epoch: int, current: int = -1) -> tuple[Any, ...]:
        asked = OffsetForLeaderPartition(partition=partition[1], current_leader_epoch=current, leader_epoch=epoch)
        topics = [OffsetForLeaderTopic(topic=partition[0], partitions=[asked])]
        (topic,) = self.broker.ask(OffsetForLeaderEpochRequest(topics=topics), 4).topics
        (of,) = topic.partitions
        return ErrorCode(of.error_code).name, of.leader_epoch, of.end_offset

    def life(self, name: str, partitions: tuple[tuple[str, int], ...]) -> Told:
        self._wait()
        for partition in partitions:
            epoch = self.epoch(partition)
            where = f"{name}: {partition[0]}-{partition[1]}"
            yield f"{where}: the epoch in Metadata", epoch
            yield f"{where}: ListOffsets", [self.list_offset(partition, timestamp) for timestamp in (-2, -1, AT_MS, -3)]
            yield f"{where}: batches", self.fetch(partition, 0)
            for asked in range(-1, epoch + 2):
                yield f"{where}: the end of epoch {asked}", self.end_of(partition, asked)
            end = self.list_offset(partition, -1)[1]
            written = _entries(self.broker.epoch_file(*partition))
            yield f"{where}: in the file, with records", [entry for entry in written if entry[1] < end]
            yield f"{where}: in the file, without records", [entry for entry in written if entry[1] >= end]
            for current in (epoch - 2, epoch - 1, epoch, epoch + 1):
                yield (
                    f"{where}: asked with epoch {current}",
                    (
                        self.fetch(partition, end, current=current),
                        self.list_offset(partition, -1, current),
                        self.end_of(partition, epoch, current),
                    ),
                )
            for last in range(epoch + 2):
                yield f"{where}: read last in epoch {last}", self.fetch(partition, end, current=epoch, last=last)


def _entries(file: str | None) -> list[tuple[int, int]]:
    """Epoch and start offset, as Kafka's checkpoint files have them."""
    if file is None:
        return []
    version, count, *lines = file.splitlines()
    assert (version, int(count)) == ("0", len(lines))
    return [(int(epoch), int(start)) for epoch, start in map(str.split, lines)]
