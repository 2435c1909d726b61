"""The requests that change topics and settings, and those about disks and features.

Owns: the requests, and their errors as exceptions. Does not own: the public names (`client`, which imports this at the
first use: few programs need it). KIPs: 107 (DeleteRecords), 113 and 827 (log directories), 195 (partitions), 339
(settings one by one), 584 (features).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from oncelog.client.admin.calls import ask_nodes
from oncelog.client.admin.descriptions import (
    CONFIG_SOURCES,
    ClusterDescription,
    ConfigEntry,
    ConfigSynonym,
    LogDirDescription,
)
from oncelog.client.values.arguments import ConfigValue, config_values
from oncelog.client.values.errors import ConfigError, ConnectionLost, KafkaError, RequestTimedOut, error_for, raise_for
from oncelog.client.values.records import TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import API_VERSIONS, Api
from oncelog.client.wire.cluster import Cluster
from oncelog.client.wire.connection import SOFTWARE_NAME, SOFTWARE_VERSION
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated import (
    create_partitions_request,
    create_partitions_response,
    delete_records_request,
    delete_records_response,
    describe_configs_request,
    describe_configs_response,
    describe_log_dirs_request,
    describe_log_dirs_response,
    incremental_alter_configs_request,
    incremental_alter_configs_response,
    update_features_request,
    update_features_response,
)
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.generated.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.protocol.generated.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog.protocol.generated.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from oncelog.protocol.generated.describe_configs_response import DescribeConfigsResult
from oncelog.protocol.generated.describe_log_dirs_request import DescribeLogDirsRequest
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.protocol.generated.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

_AUTO_CREATION = "auto.create.topics.enable"
_ASK_MS = 1_000
CREATE_PARTITIONS = Api(
    ApiKey.CREATE_PARTITIONS,
    create_partitions_request.encode,
    create_partitions_response.decode,
    create_partitions_request.FLEXIBLE_FROM,
    0,
    3,
)
DELETE_RECORDS = Api(
    ApiKey.DELETE_RECORDS,
    delete_records_request.encode,
    delete_records_response.decode,
    delete_records_request.FLEXIBLE_FROM,
    0,
    2,
)
DESCRIBE_CONFIGS = Api(
    ApiKey.DESCRIBE_CONFIGS,
    describe_configs_request.encode,
    describe_configs_response.decode,
    describe_configs_request.FLEXIBLE_FROM,
    1,
    4,
)
DESCRIBE_LOG_DIRS = Api(
    ApiKey.DESCRIBE_LOG_DIRS,
    describe_log_dirs_request.encode,
    describe_log_dirs_response.decode,
    describe_log_dirs_request.FLEXIBLE_FROM,
    1,
    4,
)
INCREMENTAL_ALTER_CONFIGS = Api(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    incremental_alter_configs_request.encode,
    incremental_alter_configs_response.decode,
    incremental_alter_configs_request.FLEXIBLE_FROM,
    0,
    1,
)
UPDATE_FEATURES = Api(
    ApiKey.UPDATE_FEATURES,
    update_features_request.encode,
    update_features_response.decode,
    update_features_request.FLEXIBLE_FROM,
    0,
    1,
)
_DESCRIBE_FEATURES = replace(API_VERSIONS, maximum=4)
"""Earlier versions leave out features that may be off (KIP-1022); connections begin with one that all brokers have."""
_TOPIC_RESOURCE, _BROKER_RESOURCE, _GROUP_RESOURCE = 2, 4, 32
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_UPGRADE, _SAFE_DOWNGRADE = 1, 2


def create_partitions_request_of(
    counts: Mapping[str, int], timeout_ms: int, validate_only: bool
) -> CreatePartitionsRequest:
    topics = [CreatePartitionsTopic(name, count, None) for name, count in counts.items()]
    return CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)


def resource(topic: str | None, node_id: int | Literal["all"] | None, group: str | None) -> tuple[int, str]:
    """The type and name of the resource that has the settings. Raises ConfigError unless exactly one is named."""
    node = None if node_id is None else "" if node_id == "all" else str(node_id)
    named = [(_TOPIC_RESOURCE, topic), (_GROUP_RESOURCE, group), (_BROKER_RESOURCE, node)]
    found = [(kind, name) for kind, name in named if name is not None]
    if len(found) != 1:
        raise ConfigError("name one of topic, group and node_id")
    return found[0]


def describe_configs_request_of(resource_type: int, resource_name: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(resource_type, resource_name, configuration_keys=None)
    return DescribeConfigsRequest(resources=[resource], include_synonyms=True)


async def creates_topics(cluster: Cluster, deadline: Deadline) -> bool:
    """False if a broker says that it creates no topic on its own; one that does not say may."""
    kind, name = resource(None, min(cluster.metadata.nodes, default=0), None)
    asked = DescribeConfigsResource(kind, name, configuration_keys=[_AUTO_CREATION])
    try:
        response = await cluster.call_node(
            int(name), DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=[asked]), deadline.capped(_ASK_MS)
        )
    except KafkaError:
        return True
    return all(each.value != "false" for result in response.results for each in result.configs)


def config_entries(result: DescribeConfigsResult) -> list[ConfigEntry]:
    return [
        ConfigEntry(
            each.name,
            each.value,
            CONFIG_SOURCES.get(each.config_source, "UNKNOWN"),
            each.read_only,
            each.is_sensitive,
            tuple(
                ConfigSynonym(synonym.name, synonym.value, CONFIG_SOURCES.get(synonym.source, "UNKNOWN"))
                for synonym in each.synonyms
            ),
        )
        for each in result.configs
    ]


def alterations(
    resource_type: int,
    resource_name: str,
    *,
    values: Mapping[str, ConfigValue],
    reset: Iterable[str],
    append: Mapping[str, ConfigValue],
    subtract: Mapping[str, ConfigValue],
    validate_only: bool,
) -> IncrementalAlterConfigsRequest:
    if isinstance(reset, str):
        raise ConfigError(f"reset={reset!r}: must be a list of names", hint=f"reset=[{reset!r}]")
    configs = [
        *(AlterableConfig(name, _SET, value) for name, value in config_values(values).items()),
        *(AlterableConfig(name, _DELETE, None) for name in reset),
        *(AlterableConfig(name, _APPEND, value) for name, value in config_values(append).items()),
        *(AlterableConfig(name, _SUBTRACT, value) for name, value in config_values(subtract).items()),
    ]
    resource = AlterConfigsResource(resource_type, resource_name, configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def feature_updates(
    levels: Mapping[str, int], timeout_ms: int, allow_downgrade: bool, validate_only: bool
) -> UpdateFeaturesRequest:
    kind = _SAFE_DOWNGRADE if allow_downgrade else _UPGRADE
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, allow_downgrade=allow_downgrade, upgrade_type=kind)
        for name, level in levels.items()
    ]
    return UpdateFeaturesRequest(timeout_ms=timeout_ms, feature_updates=updates, validate_only=validate_only)


async def delete_records(
    cluster: Cluster, offsets: Mapping[TopicPartition, int], deadline: Deadline
) -> dict[TopicPartition, int]:
    """Delete records, asking each leader until it responds: a repetition changes nothing."""
    starts: dict[TopicPartition, int] = {}
    while True:
        by_node: dict[int, dict[TopicPartition, int]] = {}
        for place, offset in offsets.items():
            if place not in starts:
                await cluster.topic(place.topic, deadline)
                by_node.setdefault(cluster.metadata.checked_leader(place), {})[place] = offset
        if not by_node:
            return starts
        cause: KafkaError | None = None
        for node_id, asked in by_node.items():
            try:
                cause = await _delete_records_of(cluster, node_id, asked, deadline, starts) or cause
            except (ConnectionLost, RequestTimedOut) as error:
                cause = error
        if cause is not None:
            cluster.metadata.forget_leaders({place.topic for place in offsets})
            await deadline.pause(cluster.retry_backoff_ms, "DELETE_RECORDS", cause)


async def _delete_records_of(
    cluster: Cluster,
    node_id: int,
    asked: Mapping[TopicPartition, int],
    deadline: Deadline,
    starts: dict[TopicPartition, int],
) -> KafkaError | None:
    """Adds the new starts to `starts`, returns a transient error, raises any other."""
    topics: dict[str, list[DeleteRecordsPartition]] = {}
    for (topic, partition), offset in asked.items():
        topics.setdefault(topic, []).append(DeleteRecordsPartition(partition, offset))
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name, each) for name, each in topics.items()],
        timeout_ms=int(deadline.remaining_s * 1000),
    )
    response = await cluster.call_node(node_id, DELETE_RECORDS, request, deadline)
    transient: KafkaError | None = None
    for each in response.topics:
        for answer in each.partitions:
            place = TopicPartition(each.name, answer.partition_index)
            if not answer.error_code:
                starts[place] = answer.low_watermark
                continue
            about = f"{place.topic}-{place.partition}, offset {asked[place]}"
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:  # no position: the argument is wrong
                hint = "at most the end of the partition, which is -1"
                raise ConfigError(about, code=ErrorCode.OFFSET_OUT_OF_RANGE, hint=hint)
            transient = error_for(answer.error_code, about)
            if not transient.retriable:
                raise transient
    return transient


async def describe_cluster(cluster: Cluster, deadline: Deadline) -> ClusterDescription:
    await cluster.refresh((), deadline)
    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
    response = await cluster.call_any(_DESCRIBE_FEATURES, request, deadline)
    return ClusterDescription(
        cluster.metadata.cluster_id,
        cluster.metadata.controller_id,
        dict(cluster.metadata.nodes),
        {each.name: each.max_version_level for each in response.finalized_features},
        {each.name: (each.min_version, each.max_version) for each in response.supported_features},
    )


async def describe_log_dirs(cluster: Cluster, node_ids: Iterable[int], deadline: Deadline) -> list[LogDirDescription]:
    found: list[LogDirDescription] = []
    request = DescribeLogDirsRequest(topics=None)
    responses = await ask_nodes(cluster, DESCRIBE_LOG_DIRS, request, deadline, lambda each: each.error_code, node_ids)
    for node_id, response in responses:
        for each in response.results:
            raise_for(each.error_code, f"directory {each.log_dir!r} of node {node_id}")
            sizes = {
                TopicPartition(topic.name, part.partition_index): part.partition_size
                for topic in each.topics
                for part in topic.partitions
            }
            found.append(LogDirDescription(node_id, each.log_dir, sizes, each.total_bytes, each.usable_bytes))
    return found
