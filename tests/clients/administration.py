"""Administration as clients ask for it, in one line each: topics, records, settings, features."""

from typing import Any

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.protocol.generated.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.generated.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.fakes.broker import Reply, VirtualBroker

TOPIC_RESOURCE, BROKER_RESOURCE, LOGGER_RESOURCE, GROUP_RESOURCE = 2, 4, 8, 32
SET, DELETE = 0, 1


def create(broker: VirtualBroker, name: str, partition_count: int = 1, **config: str) -> ErrorCode:
    configs = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()]
    topic = CreatableTopic(name=name, num_partitions=partition_count, replication_factor=1, configs=configs)
    return ErrorCode(broker.ask(CreateTopicsRequest(topics=[topic]), 7).topics[0].error_code)


def delete(broker: VirtualBroker, name: str) -> ErrorCode:
    return ErrorCode(broker.ask(DeleteTopicsRequest(topic_names=[name]), 5).responses[0].error_code)


def grow(broker: VirtualBroker, name: str, count: int) -> ErrorCode:
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)])
    return ErrorCode(broker.ask(request, 3).results[0].error_code)


def partition_count(broker: VirtualBroker, name: str) -> int:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    return len(broker.ask(request, 13).topics[0].partitions)


def batch(value: bytes, timestamp: int) -> memoryview:
    return memoryview(encode_batch([Record(0, timestamp, b"key", value)]))


def start_produce(broker: VirtualBroker, name: str, value: bytes = b"value", partition: int = 0) -> Reply:
    data = PartitionProduceData(index=partition, records=batch(value, broker.time.wall_ms()))
    topics = [TopicProduceData(name=name, partition_data=[data])]
    return broker.start(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics), 8)


def produce(broker: VirtualBroker, name: str, value: bytes = b"value", partition: int = 0) -> ErrorCode:
    reply = start_produce(broker, name, value, partition)
    broker.time.settle()
    return ErrorCode(reply.message.responses[0].partition_responses[0].error_code)


def fetch(broker: VirtualBroker, name: str, offset: int, *, max_wait_ms: int = 0) -> Reply:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
    topics = [FetchTopic(topic=name, partitions=[partition])]
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1_000_000, topics=topics)
    return broker.send(request, 11)


def fetched_code(reply: Reply) -> ErrorCode:
    return ErrorCode(reply.message.responses[0].partitions[0].error_code)


def delete_records(broker: VirtualBroker, name: str, offset: int) -> tuple[ErrorCode, int]:
    partition = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=[partition])])
    answer = broker.ask(request, 2).topics[0].partitions[0]
    return ErrorCode(answer.error_code), answer.low_watermark


def start_change(broker: VirtualBroker, kind: int, name: str, **config: str | None) -> Reply:
    """Ask to change these settings of a resource; a value of None unsets."""
    changes = [
        AlterableConfig(name=key.replace("_", "."), config_operation=DELETE if value is None else SET, value=value)
        for key, value in config.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    return broker.start(IncrementalAlterConfigsRequest(resources=[resource]), 1)


def change(broker: VirtualBroker, kind: int, name: str, **config: str | None) -> ErrorCode:
    reply = start_change(broker, kind, name, **config)
    broker.time.settle()
    return ErrorCode(reply.message.responses[0].error_code)


def described(broker: VirtualBroker, kind: int, name: str) -> dict[str, str]:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    answer: Any = broker.ask(DescribeConfigsRequest(resources=[resource]), 4).results[0]
    return {entry.name: entry.value for entry in answer.configs}


def set_feature(broker: VirtualBroker, name: str, level: int, upgrade_type: int = 1) -> ErrorCode:
    update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
    return ErrorCode(broker.ask(UpdateFeaturesRequest(feature_updates=[update]), 2).error_code)
