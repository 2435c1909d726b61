"""A broker that stores some thousands of everything that a request may ask for."""

from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest
from oncelog.protocol.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.fakes.broker import VirtualBroker
from tests.support.requests.adversary import Stored

_INFLATED_BYTES, _MANY_RECORDS = 12_000_000, 60_000
OPENED_TOPICS = {"compacted": {"cleanup.policy": "compact"}, "zipped": {"compression.type": "gzip"}}
"""Topics whose batches the broker opens, with their settings."""
_LONG = "a" * 200
WIDE_PARTITIONS, TOPICS, GROUPS, TRANSACTIONS, PRODUCERS = 2_000, 100, 300, 300, 300


def full_broker() -> tuple[VirtualBroker, Stored]:
    broker = VirtualBroker(
        "oncelog.flush.policy=memory",
        "auto.create.topics.enable=false",
        "delete.topic.enable=false",
        "connections.max.idle.ms=-1",
        with_faults=False,
    )
    names = ["wide", *(f"t{number}" for number in range(TOPICS))]
    topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in names[1:]]
    topics.append(CreatableTopic(name="wide", num_partitions=WIDE_PARTITIONS, replication_factor=1))
    topics += [
        CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        for name, configs in OPENED_TOPICS.items()
    ]
    topics += [CreatableTopic(name=f"{_LONG}{number}", num_partitions=1, replication_factor=1) for number in range(20)]
    broker.ask(CreateTopicsRequest(topics=topics), 4)
    broker.ask(FindCoordinatorRequest(key="any"), 1)
    broker.ask(FindCoordinatorRequest(key="any", key_type=1), 1)
    groups = ["g", *(f"g{number}" for number in range(GROUPS))]
    for group_id in groups:
        _commit(broker, group_id, 1)
    _commit(broker, "g", WIDE_PARTITIONS)
    transactional_ids = [f"x{number}" for number in range(TRANSACTIONS)]
    for transactional_id in transactional_ids:
        broker.ask(InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000), 4)
    for producer_id in range(PRODUCERS):
        _produce(broker, producer_id)
    described = broker.ask(MetadataRequest(topics=None), 12).topics
    ids = {topic.name: topic.topic_id for topic in described}
    return broker, Stored(names, [ids[name] for name in names], groups, transactional_ids)


def costly_batches(wall_ms: int) -> tuple[bytes, ...]:
    """Small ones that become large when they are opened: by their bytes, and by their records."""
    large = [Record(0, wall_ms, b"key", bytes(_INFLATED_BYTES))]
    many = [Record(0, wall_ms, b"k", b"") for _ in range(_MANY_RECORDS)]
    return tuple(encode_batch(records, compression=codec) for records in (large, many) for codec in ("lz4", "zstd"))


def _commit(broker: VirtualBroker, group_id: str, partition_count: int) -> None:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in range(partition_count)
    ]
    topics = [OffsetCommitRequestTopic(name="wide", partitions=partitions)]
    broker.ask(OffsetCommitRequest(group_id=group_id, generation_id_or_member_epoch=-1, topics=topics), 8)


def _produce(broker: VirtualBroker, producer_id: int) -> None:
    records = [Record(0, broker.time.wall_ms(), b"key", b"value")]
    batch = memoryview(encode_batch(records, producer_id=1_000_000 + producer_id, producer_epoch=0, base_sequence=0))
    data = [PartitionProduceData(index=0, records=batch)]
    topics = [TopicProduceData(name="wide", partition_data=data)]
    broker.ask(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=topics), 8)
