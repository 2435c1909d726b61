"""The one metadata log: cluster id, topics with ids and settings, settings of brokers and groups, finalized features,
producer-id blocks.

Owns: `ClusterState`, changed only by replaying a record of `__cluster_metadata-0`, and the writing of such records.
Does not own: which partition logs are open (`broker.topics`), what a config means.
Invariants: a write is replayed in the turn in which it is appended; its completion ends once it is durable.

Records are Kafka's own metadata records in Kafka's own framing (KIP-631), so that `kafka-dump-log.sh
--cluster-metadata-decoder` reads the files. Kafka keeps its cluster id in a file beside the log; here it is a broker
config record named `cluster.id`, because one replayed log must be enough to know everything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from types import ModuleType
from typing import Any
from uuid import UUID

from broker.completion import Completion
from broker.log.partition_log import AppendOrigin, PartitionLog
from broker.ports import Clock
from protocol.errors import ErrorCode, KafkaError
from protocol.generated import (
    config_record,
    feature_level_record,
    partition_record,
    producer_ids_record,
    remove_topic_record,
    topic_record,
)
from protocol.records.batch import encode_batch
from protocol.records.record import Record, decode_records

METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = UUID("00000000-0000-0000-0000-000000000001")
CLUSTER_ID_CONFIG = "cluster.id"

_FRAME_VERSION = 1
_MODULES: dict[int, ModuleType] = {
    module.API_KEY: module
    for module in (
        topic_record,
        partition_record,
        config_record,
        remove_topic_record,
        feature_level_record,
        producer_ids_record,
    )
}


class ResourceType(IntEnum):
    """What can have settings: Kafka's ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the metadata log tells it; `config` holds only what was set on the topic itself."""

    name: str
    topic_id: UUID
    partition_count: int
    config: Mapping[str, str]

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})


class ClusterState:
    """What the replayed records add up to."""

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[UUID, Topic] = {}
        self.removed_names: set[str] = set()
        """Topics whose removal was replayed and whose name is free: their files, if any are left, may go."""
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        """Settings of brokers ("" for all of them) and groups, by resource type and name; topics hold their own."""
        self.features: dict[str, int] = {}
        self.features_epoch = 0
        self.next_producer_id = 0

    def replay(self, record: Any, offset: int) -> None:
        """Apply one record; unknown ids are refused, because skipping would give another state than before."""
        match record:
            case topic_record.TopicRecord():
                self._put(Topic(record.name, record.topic_id, 0, {}))
            case partition_record.PartitionRecord():
                topic = self._topic(record.topic_id, offset)
                self._put(replace(topic, partition_count=topic.partition_count + 1))
            case config_record.ConfigRecord():
                self._replay_config(record)
            case remove_topic_record.RemoveTopicRecord():
                topic = self._topic(record.topic_id, offset)
                del self.topics[topic.name]
                del self.topics_by_id[topic.topic_id]
                self.removed_names.add(topic.name)
            case feature_level_record.FeatureLevelRecord():
                self.features[record.name] = record.feature_level
                self.features_epoch = offset
            case producer_ids_record.ProducerIdsRecord():
                self.next_producer_id = record.next_producer_id
            case _:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"unknown metadata record {record!r} at offset {offset}")

    def _replay_config(self, record: config_record.ConfigRecord) -> None:
        if record.resource_type != ResourceType.TOPIC:
            if record.resource_type == ResourceType.BROKER and record.name == CLUSTER_ID_CONFIG:
                self.cluster_id = record.value
            else:
                self._replay_other_config(record)
            return
        topic = self.topics[record.resource_name]
        config = dict(topic.config)
        if record.value is None:
            config.pop(record.name, None)
        else:
            config[record.name] = record.value
        self._put(replace(topic, config=config))

    def _replay_other_config(self, record: config_record.ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        config = self.configs.setdefault(resource, {})
        if record.value is None:
            config.pop(record.name, None)
        else:
            config[record.name] = record.value
        if not config:
            del self.configs[resource]

    def config(self, resource_type: int, name: str) -> Mapping[str, str]:
        """What is set on the resource itself; nothing for one that is not there."""
        if resource_type == ResourceType.TOPIC:
            topic = self.topics.get(name)
            return topic.config if topic is not None else {}
        return self.configs.get((resource_type, name), {})

    def _topic(self, topic_id: UUID, offset: int) -> Topic:
        topic = self.topics_by_id.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"metadata offset {offset} names the unknown topic {topic_id}")
        return topic

    def _put(self, topic: Topic) -> None:
        self.removed_names.discard(topic.name)
        self.topics[topic.name] = topic
        self.topics_by_id[topic.topic_id] = topic


class MetadataLog:
    def __init__(self, log: PartitionLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self.state = ClusterState()

    def load(self) -> None:
        """Replay the log from its start; once, before the first request."""
        for _, batch in self._log.batches():
            for record in decode_records(batch):
                if record.value is None:
                    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"an empty metadata record at offset {record.offset}")
                self.state.replay(_decode(memoryview(record.value), record.offset), record.offset)

    def write(self, records: Sequence[Any]) -> Completion[None]:
        """Append `records` as one batch (all or none after a crash), replay them now, complete once durable."""
        wall_ms = self._clock.wall_ms()
        batch = encode_batch(
            [Record(index, wall_ms, None, _encode(record), ()) for index, record in enumerate(records)]
        )
        try:
            appended = self._log.append(memoryview(batch), wall_ms=wall_ms, origin=AppendOrigin.METADATA)
        except KafkaError as error:
            failed: Completion[None] = Completion()
            failed.fail(error)
            return failed
        for index, record in enumerate(records):
            self.state.replay(record, appended.base_offset + index)
        return self._log.when_durable(appended.last_offset + 1)

    def set_features(self, levels: Mapping[str, int]) -> Completion[None]:
        """Finalize these levels; in force at once."""
        return self.write(feature_records(levels))

    def set_config(self, resource_type: int, name: str, changes: Mapping[str, str | None]) -> Completion[None]:
        """Set, or with None unset, settings of a resource."""
        return self.write(
            [
                config_record.ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
                for key, value in changes.items()
            ]
        )

    def durable(self) -> Completion[None]:
        """Completes once all that the state holds now is durable."""
        return self._log.when_durable(self._log.log_end_offset)


def cluster_id_records(cluster_id: str, features: Mapping[str, int]) -> list[Any]:
    """What the very first start writes."""
    records = feature_records(features)
    records.append(
        config_record.ConfigRecord(
            resource_type=ResourceType.BROKER, resource_name="", name=CLUSTER_ID_CONFIG, value=cluster_id
        )
    )
    return records


def feature_records(levels: Mapping[str, int]) -> list[Any]:
    return [feature_level_record.FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items()]


def topic_records(topic: Topic, node_id: int) -> list[Any]:
    """A new topic with its partitions and configs, all led by this node."""
    records: list[Any] = [topic_record.TopicRecord(name=topic.name, topic_id=topic.topic_id)]
    records += partition_records(topic.topic_id, range(topic.partition_count), node_id)
    records += [
        config_record.ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value)
        for name, value in topic.config.items()
    ]
    return records


def partition_records(topic_id: UUID, indexes: range, node_id: int) -> list[Any]:
    """New partitions of a topic, led by this node."""
    return [
        partition_record.PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=(node_id,),
            isr=(node_id,),
            leader=node_id,
            leader_epoch=0,
            partition_epoch=0,
        )
        for index in indexes
    ]


def _encode(record: Any) -> bytes:
    """MetadataRecordSerde: frame version, record type and record version as unsigned varints, then the message."""
    module = _MODULES[record.API_KEY]
    return b"".join((bytes((_FRAME_VERSION, module.API_KEY, 0)), *module.encode(record, 0)))


def _decode(value: memoryview, offset: int) -> Any:
    module = _MODULES.get(value[1]) if len(value) > 3 and value[0] == _FRAME_VERSION else None
    if module is None or value[2] not in module.VERSIONS:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the metadata record at offset {offset} is of an unknown kind")
    record, _ = module.decode(value, value[2], 3)
    return record
