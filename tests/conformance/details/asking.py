"""Short ways to ask a broker in virtual time, by message and byte by byte."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any
from uuid import UUID

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.fetch_response import PartitionData
from oncelog.protocol.generated.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.generated.produce_response import PartitionProduceResponse
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.clients.in_memory_connection import Server, Transport
from tests.fakes.broker import VirtualBroker

TOPIC = "topic"
NOW_MS = 1_700_000_000_000
NO_ID = UUID(int=0)


class Wire:
    """One connection, by bytes."""

    def __init__(self, *overrides: str) -> None:
        self.server = Server(*overrides)
        self.transport: Transport = self.server.connect()

    def say(self, *frames: bytes) -> list[bytes]:
        """The answers, each from its correlation id on, after everything has settled."""
        for frame in frames:
            if not self.transport.is_closed:
                self.server.send(self.transport, frame)
        self.server.settle()
        return self.take()

    def take(self) -> list[bytes]:
        """The answers that have come since."""
        data, answers = bytes(self.transport.sent), []
        self.transport.sent.clear()
        while data:
            size = int.from_bytes(data[:4], "big")
            answers.append(data[4 : 4 + size])
            data = data[4 + size :]
        return answers

    @property
    def is_closed(self) -> bool:
        return self.transport.is_closed


def decode(api: str, version: int, answer: bytes, start: int) -> Any:
    """The whole of an answer's body, from `start` on."""
    message, end = import_module(f"oncelog.protocol.generated.{api}_response").decode(
        memoryview(answer), version, start
    )
    assert end == len(answer)
    return message


def with_topic(*overrides: str, partitions: int = 1, **config: str) -> VirtualBroker:
    broker = VirtualBroker(*overrides)
    create(broker, TOPIC, partitions, **config)
    return broker


def create(broker: VirtualBroker, name: str, partitions: int = 1, **config: str) -> UUID:
    settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
    (answer,) = broker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7).topics
    assert answer.error_code == ErrorCode.NONE
    topic_id: UUID = answer.topic_id
    return topic_id


def batch(*values: bytes, key: bytes | None = None, **options: Any) -> bytes:
    """One batch of these values; of one when there are none."""
    records = [Record(index, NOW_MS + index, key, value) for index, value in enumerate(values or (b"value",))]
    return encode_batch(records, **options)


def produce_request(
    records: bytes | None,
    *,
    acks: int = -1,
    topic: str = TOPIC,
    topic_id: UUID = NO_ID,
    transactional_id: str | None = None,
    partitions: Sequence[int] = (0,),
) -> ProduceRequest:
    view = None if records is None else memoryview(records)
    data = [PartitionProduceData(index=index, records=view) for index in partitions]
    topics = [TopicProduceData(name=topic, topic_id=topic_id, partition_data=data)]
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=1_000, topic_data=topics)


def produce(
    broker: VirtualBroker, records: bytes | None = None, version: int = 8, **options: Any
) -> PartitionProduceResponse:
    request = produce_request(batch() if records is None else records, **options)
    answer: PartitionProduceResponse = broker.ask(request, version).responses[0].partition_responses[0]
    return answer


def fetch_request(offset: int = 0, *, topic: str = TOPIC, topic_id: UUID = NO_ID, **options: Any) -> FetchRequest:
    partition_max_bytes = options.pop("partition_max_bytes", 1 << 20)
    leader_epoch = options.pop("leader_epoch", -1)
    partition = FetchPartition(
        partition=0, current_leader_epoch=leader_epoch, fetch_offset=offset, partition_max_bytes=partition_max_bytes
    )
    topics = [FetchTopic(topic=topic, topic_id=topic_id, partitions=[partition])]
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "topics": topics, **options})


def fetch(broker: VirtualBroker, offset: int = 0, version: int = 11, **options: Any) -> PartitionData:
    (topic,) = broker.ask(fetch_request(offset, **options), version).responses
    (partition,) = topic.partitions
    answer: PartitionData = partition
    return answer


def list_offset(broker: VirtualBroker, timestamp: int, version: int = 11, **options: Any) -> Any:
    leader_epoch = options.pop("leader_epoch", -1)
    partition = ListOffsetsPartition(partition_index=0, current_leader_epoch=leader_epoch, timestamp=timestamp)
    topics = [ListOffsetsTopic(name=TOPIC, partitions=[partition])]
    request = ListOffsetsRequest(**{"replica_id": -1, "topics": topics, "timeout_ms": 1_000, **options})
    return broker.ask(request, version).topics[0].partitions[0]
