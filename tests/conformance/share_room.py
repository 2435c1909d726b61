"""A group, its topics and members, as a conversation about share groups asks any Kafka-compatible broker for them.

Owns: what counts of an answer: errors and texts, acquired ranges and delivery counts, which batches come with them.
Rows without anything in them do not count, nor does how long a broker takes to begin a group.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated import share_acknowledge_request, share_fetch_request
from oncelog.protocol.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.generated.share_acknowledge_request import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from oncelog.protocol.generated.share_fetch_request import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from oncelog.protocol.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from oncelog.protocol.records.batch import encode_batch, iter_batches
from oncelog.protocol.records.record import Record

Key = tuple[str, int]
"""A topic by its name here, and a partition."""
_GROUP_RESOURCE = 32
_STEP_MS = 100
SPREADS_MS = 500
"""The time within which a broker's other parts learn of a decision."""
_STEPS = 200
_NO_TOPIC = UUID(int=99)


def _name(code: int) -> str:
    return ErrorCode(code).name


class Room:
    """A group and topics of one part of the conversation."""

    def __init__(self, broker: Any, group_id: str, wall_ms: int) -> None:
        self.broker = broker
        self.group_id = group_id
        self._wall_ms = wall_ms
        self.ids: dict[str, UUID] = {"nowhere": _NO_TOPIC}
        self._producer_id, self._producer_epoch, self._sequence = -1, -1, 0

    def answer(self, request: Any, version: int) -> Any:
        """The answer, however long it is held."""
        reply = self.broker.send(request, version)
        for _ in range(_STEPS):
            if reply.is_there:
                return reply.message
            self.broker.let_pass(_STEP_MS)
        raise AssertionError(f"no answer to {request}")

    def until(self, ask: Callable[[], Any], is_right: Callable[[Any], bool]) -> Any:
        for _ in range(_STEPS):
            answer = ask()
            if is_right(answer):
                return answer
            self.broker.let_pass(_STEP_MS)
        raise AssertionError(f"it stays at {answer}")

    def topic(self, name: str, partitions: int = 1) -> str:
        made = CreatableTopic(name=f"{self.group_id}-{name}", num_partitions=partitions, replication_factor=1)
        (topic,) = self.answer(CreateTopicsRequest(topics=[made], timeout_ms=10_000), 7).topics
        assert topic.error_code == ErrorCode.NONE
        self.ids[name] = topic.topic_id
        wanted = [MetadataRequestTopic(name=made.name)]
        self.until(
            lambda: self.answer(MetadataRequest(topics=wanted), 12).topics[0],
            lambda found: not found.error_code and not any(row.error_code for row in found.partitions),
        )
        return name

    def configure(self, **values: str) -> None:
        configs = [AlterableConfig(name=name.replace("_", "."), value=value) for name, value in values.items()]
        resource = AlterConfigsResource(resource_type=_GROUP_RESOURCE, resource_name=self.group_id, configs=configs)
        (answer,) = self.answer(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        self.broker.let_pass(SPREADS_MS)

    def produce(self, topic: str, count: int = 1, partition: int = 0, *, in_transaction: bool = False) -> None:
        """One batch."""
        identity: dict[str, Any] = {}
        if in_transaction:
            identity = {
                "producer_id": self._producer_id,
                "producer_epoch": self._producer_epoch,
                "base_sequence": self._sequence,
                "transactional": True,
            }
            self._sequence += count
        records = [Record(number, self._wall_ms, None, b"value", ()) for number in range(count)]
        data = PartitionProduceData(index=partition, records=encode_batch(records, **identity))
        request = ProduceRequest(
            transactional_id=self.group_id if in_transaction else None,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=f"{self.group_id}-{topic}", partition_data=[data])],
        )
        (row,) = self.answer(request, 9).responses[0].partition_responses
        assert row.error_code == ErrorCode.NONE, row

    def begin_transaction(self, topic: str) -> None:
        if self._producer_id < 0:
            request = InitProducerIdRequest(transactional_id=self.group_id, transaction_timeout_ms=60_000)
            made = self.until(lambda: self.answer(request, 4), lambda answer: not answer.error_code)
            self._producer_id, self._producer_epoch = made.producer_id, made.producer_epoch
        adding = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.group_id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=f"{self.group_id}-{topic}", partitions=[0])],
        )
        self.until(
            lambda: self.answer(adding, 3).results_by_topic_v3_and_below[0].results_by_partition[0],
            lambda row: not row.partition_error_code,
        )

    def end_transaction(self, *, committed: bool) -> None:
        ending = EndTxnRequest(
            transactional_id=self.group_id,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            committed=committed,
        )
        assert self.answer(ending, 3).error_code == ErrorCode.NONE
        # The marker is there when another transaction may begin.
        self.broker.let_pass(SPREADS_MS)

    def begin(self, *topics: str) -> None:
        """Let a member join, so that the group has the partitions of these topics, and the state of each."""
        counts = {name: self._partition_count(name) for name in topics}
        beat = ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id="first",
            member_epoch=0,
            subscribed_topic_names=[f"{self.group_id}-{name}" for name in topics],
        )

        def assigned() -> int:
            answer = self.answer(beat, 1)
            assert answer.error_code in (
                ErrorCode.NONE,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ), answer
            rows = () if answer.assignment is None else answer.assignment.topic_partitions
            return sum(len(row.partitions) for row in rows)

        self.until(assigned, lambda count: count == sum(counts.values()))

    def _partition_count(self, topic: str) -> int:
        wanted = [MetadataRequestTopic(name=f"{self.group_id}-{topic}")]
        return len(self.answer(MetadataRequest(topics=wanted), 12).topics[0].partitions)

    def member(self, member_id: str, version: int = 2) -> "Member":
        return Member(self, member_id, version)


class Member:
    """A member that fetches, and what counts of its answers."""

    def __init__(self, room: Room, member_id: str, version: int) -> None:
        self._room = room
        self._names = {topic_id: name for name, topic_id in room.ids.items()}
        self.member_id = member_id
        self._version = version
        self.epoch = 0

    def fetch(
        self,
        *keys: Key,
        acknowledged: Mapping[Key, Sequence[tuple[int, int, Sequence[int]]]] | None = None,
        forgotten: Sequence[Key] = (),
        **fields: Any,
    ) -> Any:
        acknowledged = acknowledged or {}
        defaults: dict[str, Any] = {
            "group_id": self._room.group_id,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_bytes": 1_000_000,
            "max_records": 500,
            "batch_size": 500,
        }
        request = ShareFetchRequest(
            topics=[
                FetchTopic(
                    topic_id=self._room.ids[topic],
                    partitions=[
                        FetchPartition(
                            partition_index=index,
                            acknowledgement_batches=[
                                share_fetch_request.AcknowledgementBatch(*each)
                                for each in acknowledged.get((topic, index), ())
                            ],
                        )
                    ],
                )
                for topic, index in dict.fromkeys((*keys, *acknowledged))
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=self._room.ids[topic], partitions=[index]) for topic, index in forgotten
            ],
            **{**defaults, **fields},
        )
        answer = self._room.answer(request, self._version)
        self._go_on(answer)
        if answer.error_code:
            return _name(answer.error_code), answer.error_message
        return [
            (
                *(self._names.get(topic.topic_id, "?"), row.partition_index),
                *(_name(row.error_code), row.error_message),
                *(_name(row.acknowledge_error_code), row.acknowledge_error_message),
                [(each.first_offset, each.last_offset, each.delivery_count) for each in row.acquired_records],
                [
                    (header.base_offset, header.last_offset)
                    for header, _ in iter_batches(memoryview(row.records or b""))
                ],
            )
            for topic in sorted(answer.responses, key=lambda topic: self._names.get(topic.topic_id, "?"))
            for row in sorted(topic.partitions, key=lambda row: row.partition_index)
            if row.error_code or row.acknowledge_error_code or row.acquired_records or row.records
        ]

    def records(self, *keys: Key, **fields: Any) -> Any:
        """The first response that has something in it: a broker may have to read the state of the group first."""
        found = self.fetch(*keys, **fields)
        for _ in range(_STEPS):
            if found:
                return found
            found = self.fetch(**fields)
        raise AssertionError("there are no records")

    def acknowledge(self, acknowledged: Mapping[Key, Sequence[tuple[int, int, Sequence[int]]]], **fields: Any) -> Any:
        defaults = {
            "group_id": self._room.group_id,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
        }
        request = ShareAcknowledgeRequest(
            topics=[
                AcknowledgeTopic(
                    topic_id=self._room.ids[topic],
                    partitions=[
                        AcknowledgePartition(
                            partition_index=index,
                            acknowledgement_batches=[
                                share_acknowledge_request.AcknowledgementBatch(*each) for each in batches
                            ],
                        )
                    ],
                )
                for (topic, index), batches in acknowledged.items()
            ],
            **{**defaults, **fields},
        )
        answer = self._room.answer(request, self._version)
        self._go_on(answer)
        if answer.error_code:
            return _name(answer.error_code), answer.error_message
        return sorted(
            (self._names.get(topic.topic_id, "?"), row.partition_index, _name(row.error_code), row.error_message)
            for topic in answer.responses
            for row in topic.partitions
        )

    def _go_on(self, answer: Any) -> None:
        if answer.error_code == ErrorCode.NONE:
            self.epoch += 1
