"""Requests of share groups (KIP-932) as members and tools send them, and what counts of each answer.

Owns: the bytes that are asked, the session epochs of a member, and how an answer is shown: error codes and texts,
offsets, states, topics by name; no ids that a broker makes. Does not own: what is asked when (the transcripts).
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated import share_acknowledge_request as acknowledging
from oncelog.protocol.generated import share_fetch_request as fetching
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from oncelog.protocol.generated.describe_groups_request import DescribeGroupsRequest
from oncelog.protocol.generated.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.protocol.generated.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.generated.share_group_describe_request import ShareGroupDescribeRequest
from oncelog.protocol.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from oncelog.protocol.message import Message
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.clients.group_members import Broker

SETTINGS = (
    "share.coordinator.state.topic.num.partitions=5",
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
)
ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0
STRICT = 1
AT_MS = 1_700_000_000_000
EVERYTHING = 2**31 - 1
PATIENT_MS = 5_000
_PAUSE_MS = 50
_PATIENCE = 1_000
"""Pauses until an answer."""
_GROUP_RESOURCE, _SET = 32, 0

Partition = tuple[str, int]
Batches = Sequence[tuple[int, int, Sequence[int]]]
"""Acknowledgements: first offset, last offset, types."""


def name(code: int) -> str:
    return ErrorCode(code).name


def text_of(topic_id: UUID) -> str:
    """Write a topic id as Kafka does."""
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def batches_of(records: Any) -> str:
    """First and last offset of each batch; those with a transaction's marker in brackets."""
    data = bytes(records or b"")
    found = []
    at = 0
    while at + 61 <= len(data):
        first = int.from_bytes(data[at : at + 8], "big")
        last = first + int.from_bytes(data[at + 23 : at + 27], "big")
        found.append(f"[{first}]" if data[at + 22] & 32 else f"{first}-{last}")
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return " ".join(found)


class ShareTalk:
    """Whom one talks to, with its topics by name."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.ids: dict[str, UUID] = {"no topic": UUID(int=77), "zero": UUID(int=0)}

    def ask(self, request: Message, version: int) -> Any:
        """The answer, which may take a while."""
        reply = self.broker.send(request, version)
        for _ in range(_PATIENCE):
            if reply.is_there:
                return reply.message
            self.broker.let_pass(_PAUSE_MS)
        raise AssertionError(f"no answer to {request}")

    def prepare(self, **topics: int) -> None:
        """Topics with so many partitions, and every coordinator is there."""
        for topic, count in topics.items():
            self.create(topic, count)
        for key_type, key in ((0, "any"), (1, "any"), (2, f"any:{text_of(UUID(int=77))}:0")):
            while (
                self.ask(FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type), 6)
                .coordinators[0]
                .error_code
            ):
                self.broker.let_pass(_PAUSE_MS)
        while ErrorCode(self.ask(DescribeGroupsRequest(groups=["any"]), 5).groups[0].error_code).retriable:
            self.broker.let_pass(_PAUSE_MS)

    def create(self, topic: str, count: int) -> UUID:
        made = CreatableTopic(name=topic, num_partitions=count, replication_factor=1)
        (answer,) = self.ask(CreateTopicsRequest(topics=[made], timeout_ms=10_000), 7).topics
        assert answer.error_code == ErrorCode.NONE, answer
        topic_id: UUID = answer.topic_id
        self.ids[topic] = topic_id
        wanted = ListOffsetsTopic(
            name=topic, partitions=[ListOffsetsPartition(partition_index=i, timestamp=-1) for i in range(count)]
        )
        while True:  # a topic may be there before its partitions are
            (found,) = self.ask(ListOffsetsRequest(replica_id=-1, topics=[wanted]), 7).topics
            if not any(entry.error_code for entry in found.partitions):
                return topic_id
            self.broker.let_pass(_PAUSE_MS)

    def produce(
        self, topic: str, count: int = 1, *, partition: int = 0, size: int = 10, at_ms: int = AT_MS
    ) -> tuple[str, int]:
        """One batch: error and base offset."""
        records = [Record(index, at_ms, None, b"x" * size) for index in range(count)]
        data = memoryview(encode_batch(records))
        produced = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=data)])
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[produced])
        answer = self.ask(request, 11).responses[0].partition_responses[0]
        return name(answer.error_code), answer.base_offset

    def configure(self, group_id: str, **values: str | int) -> None:
        """Settings of a group, with underscores instead of dots, once the broker has them."""
        wanted = {key.replace("_", "."): str(value) for key, value in values.items()}
        configs = [AlterableConfig(name=key, config_operation=_SET, value=value) for key, value in wanted.items()]
        resource = AlterConfigsResource(resource_type=_GROUP_RESOURCE, resource_name=group_id, configs=configs)
        answer = self.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0]
        assert answer.error_code == ErrorCode.NONE, answer
        asked = DescribeConfigsResource(resource_type=_GROUP_RESOURCE, resource_name=group_id, configuration_keys=None)
        while True:
            found = self.ask(DescribeConfigsRequest(resources=[asked]), 4).results[0].configs
            if wanted.items() <= {entry.name: entry.value for entry in found}.items():
                return
            self.broker.let_pass(_PAUSE_MS)

    def shown_id(self, topic_id: UUID) -> str:
        return next((topic for topic, known in self.ids.items() if known == topic_id), "?")

    def plain(self, message: str | None) -> str | None:
        """A text with the names of topics instead of their ids."""
        if message is not None:
            for topic, topic_id in self.ids.items():
                message = message.replace(text_of(topic_id), f"<{topic}>").replace(str(topic_id), f"<{topic}>")
        return message

    def error(self, answer: Any) -> tuple[str, str | None]:
        return name(answer.error_code), self.plain(answer.error_message)

    # --- the group ----------------------------------------------------------------------------------------------------

    def beat(self, group_id: str, member_id: str, epoch: int, **fields: Any) -> tuple[Any, ...]:
        request = ShareGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=epoch, **fields)
        answer = self.ask(request, 1)
        assigned = None if answer.assignment is None else self._assigned(answer.assignment)
        echoed = answer.member_id if answer.member_id in (None, member_id) else "another"
        return *self.error(answer), echoed, answer.member_epoch, answer.heartbeat_interval_ms, assigned

    def join(self, group_id: str, member_id: str, *topics: str, **fields: Any) -> tuple[Any, ...]:
        return self.beat(group_id, member_id, 0, **{"subscribed_topic_names": list(topics), **fields})

    def _assigned(self, assignment: Any) -> list[tuple[str, list[int]]]:
        return sorted(
            (self.shown_id(entry.topic_id), sorted(entry.partitions)) for entry in assignment.topic_partitions
        )

    def group(self, group_id: str, **fields: Any) -> tuple[Any, ...]:
        (group,) = self.ask(ShareGroupDescribeRequest(group_ids=[group_id], **fields), 1).groups
        members = sorted(
            (
                member.member_id,
                member.rack_id,
                member.member_epoch,
                member.client_id,
                sorted(member.subscribed_topic_names),
                self._assigned(member.assignment),
                sorted(entry.topic_name for entry in member.assignment.topic_partitions),
            )
            for member in group.members
        )
        epochs = (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name)
        return *self.error(group), *epochs, members, group.authorized_operations

    def offsets(self, group_id: str, topics: Mapping[str, Sequence[int]] | None = None, version: int = 1) -> Any:
        """DescribeShareGroupOffsets of one group."""
        wanted = None
        if topics is not None:
            wanted = [
                DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=list(indexes))
                for topic, indexes in topics.items()
            ]
        group = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=wanted)
        (answer,) = self.ask(DescribeShareGroupOffsetsRequest(groups=[group]), version).groups
        found = sorted(
            (
                topic.topic_name,
                self.shown_id(topic.topic_id),
                entry.partition_index,
                entry.start_offset,
                entry.leader_epoch,
                entry.lag if version >= 1 else None,
                *self.error(entry),
            )
            for topic in answer.topics
            for entry in topic.partitions
        )
        return answer.group_id == group_id, *self.error(answer), found

    def initialized(self, group_id: str, *topics: str) -> None:
        """Wait until the partitions of these topics have their state, which a join asks for in the background."""
        while not {topic for topic, *_ in self.offsets(group_id)[-1]} >= set(topics):
            self.broker.let_pass(_PAUSE_MS)

    def ready(self, group_id: str, *topics: str, **settings: str | int) -> None:
        """A group, from the first record on, whose member "m" has joined."""
        self.configure(group_id, **{"share_auto_offset_reset": "earliest", **settings})
        self.join(group_id, "m", *topics)
        self.initialized(group_id, *topics)


@dataclass
class ShareMember:
    """A member with its share session; each method is one request in the session's next epoch."""

    talk: ShareTalk
    group_id: str | None
    member_id: str | None = "m"
    topic: str = "log"
    epoch: int = 0
    fields: dict[str, Any] = field(default_factory=dict)
    """Fields that each fetch has."""

    def _next(self, epoch: int | None) -> int:
        asked = self.epoch if epoch is None else epoch
        if epoch is None or epoch == 0:
            self.epoch = asked + 1
        return asked

    def _plain(self, partitions: Mapping[int | Partition, Batches]) -> dict[str, dict[int, Batches]]:
        found: dict[str, dict[int, Batches]] = {}
        for place, batches in partitions.items():
            topic, index = (self.topic, place) if isinstance(place, int) else place
            found.setdefault(topic, {})[index] = batches
        return found

    def fetch(
        self,
        *partitions: int | Partition,
        acknowledged: Mapping[int | Partition, Batches] | None = None,
        forgotten: Iterable[int | Partition] = (),
        epoch: int | None = None,
        version: int = 2,
        **fields: Any,
    ) -> tuple[Any, ...]:
        """One ShareFetch. A number is a partition of the member's topic."""
        topics = [
            fetching.FetchTopic(
                topic_id=self.talk.ids[topic],
                partitions=[
                    fetching.FetchPartition(
                        partition_index=index,
                        acknowledgement_batches=[
                            fetching.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                            for first, last, types in batches
                        ],
                    )
                    for index, batches in of.items()
                ],
            )
            for topic, of in self._plain({**dict.fromkeys(partitions, ()), **(acknowledged or {})}).items()
        ]
        gone = [
            fetching.ForgottenTopic(topic_id=self.talk.ids[topic], partitions=list(of))
            for topic, of in self._plain(dict.fromkeys(forgotten, ())).items()
        ]
        limits = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": EVERYTHING, "max_records": 500, "batch_size": 500}
        request = fetching.ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=self._next(epoch),
            topics=topics,
            forgotten_topics_data=gone,
            **{**limits, **self.fields, **fields},
        )
        answer = self.talk.ask(request, version)
        found = [self._fetched(topic, entry) for topic in answer.responses for entry in topic.partitions]
        return (
            *self.talk.error(answer),
            answer.acquisition_lock_timeout_ms,
            sorted(found, key=repr),
            len(answer.node_endpoints),
        )

    def _fetched(self, topic: Any, entry: Any) -> tuple[Any, ...]:
        acquired = [(batch.first_offset, batch.last_offset, batch.delivery_count) for batch in entry.acquired_records]
        return (
            f"{self.talk.shown_id(topic.topic_id)}-{entry.partition_index}",
            *self.talk.error(entry),
            name(entry.acknowledge_error_code),
            self.talk.plain(entry.acknowledge_error_message),
            (entry.current_leader.leader_id, entry.current_leader.leader_epoch),
            None if entry.records is None else batches_of(entry.records),
            acquired,
        )

    def records(self, *partitions: int | Partition, **fields: Any) -> tuple[Any, ...]:
        """A fetch that waits for records: partition, batches and what is acquired of each, or the error."""
        answer = self.fetch(*partitions, **{"max_wait_ms": PATIENT_MS, **fields})
        if answer[0] != "NONE":
            return answer
        return tuple((entry[0], *((entry[1:3]) if entry[1] != "NONE" else ()), *entry[-2:]) for entry in answer[3])

    def acknowledge(
        self,
        *batches: tuple[int, int, Sequence[int]],
        acknowledged: Mapping[int | Partition, Batches] | None = None,
        epoch: int | None = None,
        version: int = 2,
        renew: bool = False,
    ) -> Any:
        """One ShareAcknowledge, of partition 0 if it names none: its error, or that of each partition."""
        topics = [
            acknowledging.AcknowledgeTopic(
                topic_id=self.talk.ids[topic],
                partitions=[
                    acknowledging.AcknowledgePartition(
                        partition_index=index,
                        acknowledgement_batches=[
                            acknowledging.AcknowledgementBatch(
                                first_offset=first, last_offset=last, acknowledge_types=types
                            )
                            for first, last, types in of_partition
                        ],
                    )
                    for index, of_partition in of.items()
                ],
            )
            for topic, of in self._plain(acknowledged if acknowledged is not None else {0: batches}).items()
        ]
        request = acknowledging.ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=self._next(epoch),
            is_renew_ack=renew,
            topics=topics,
        )
        answer = self.talk.ask(request, version)
        found = sorted(
            (
                f"{self.talk.shown_id(topic.topic_id)}-{entry.partition_index}",
                *self.talk.error(entry),
                (entry.current_leader.leader_id, entry.current_leader.leader_epoch),
            )
            for topic in answer.responses
            for entry in topic.partitions
        )
        lock_ms = answer.acquisition_lock_timeout_ms if version >= 2 else None
        return *self.talk.error(answer), lock_ms, found, len(answer.node_endpoints)

    def done(self, *batches: tuple[int, int, Sequence[int]], **fields: Any) -> Any:
        """The error of one partition's acknowledgements, in short."""
        answer = self.acknowledge(*batches, **fields)
        return answer[3][0][1:3] if answer[0] == "NONE" and len(answer[3]) == 1 else answer
