"""The requests about the nodes of a cluster: what they are and have, their disks and features.

Owns: the requests, and their errors as exceptions. Does not own: the public names (`client`, which imports this at the
first use: few programs need it). KIPs: 113 and 827 (log directories), 584 (features), 700 and 1073 (fenced nodes).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from oncelog.client.admin.calls import ask_controller, ask_nodes
from oncelog.client.admin.descriptions import ClusterDescription, LogDirDescription
from oncelog.client.values.errors import KafkaError, raise_for
from oncelog.client.values.records import TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import API_VERSIONS, api_of
from oncelog.client.wire.cluster import Cluster
from oncelog.client.wire.connection import SOFTWARE_NAME, SOFTWARE_VERSION
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated import (
    describe_cluster_request,
    describe_cluster_response,
    describe_log_dirs_request,
    describe_log_dirs_response,
    update_features_request,
    update_features_response,
)
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.generated.describe_cluster_request import DescribeClusterRequest
from oncelog.protocol.generated.describe_log_dirs_request import DescribeLogDirsRequest
from oncelog.protocol.generated.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

_DESCRIBE_CLUSTER = api_of(describe_cluster_request, describe_cluster_response, 2, 2)
_DESCRIBE_LOG_DIRS = api_of(describe_log_dirs_request, describe_log_dirs_response, 1, 4)
_UPDATE_FEATURES = api_of(update_features_request, update_features_response, 0, 1)
_DESCRIBE_FEATURES = replace(API_VERSIONS, maximum=4)
"""Earlier versions leave out features that may be off (KIP-1022); connections begin with one that all brokers have."""
_UPGRADE, _SAFE_DOWNGRADE = 1, 2


async def describe_cluster(cluster: Cluster, deadline: Deadline, *, include_fenced_brokers: bool) -> ClusterDescription:
    await cluster.refresh((), deadline)
    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
    response = await cluster.call_any(_DESCRIBE_FEATURES, request, deadline)
    return ClusterDescription(
        cluster.metadata.cluster_id,
        cluster.metadata.controller_id,
        dict(cluster.metadata.nodes),
        {each.name: each.max_version_level for each in response.finalized_features},
        {each.name: (each.min_version, each.max_version) for each in response.supported_features},
        await _fenced_nodes(cluster, deadline) if include_fenced_brokers else {},
    )


async def _fenced_nodes(cluster: Cluster, deadline: Deadline) -> dict[int, tuple[str, int]]:
    """Return those that have ended and may come back; none where the brokers do not list them."""
    request = DescribeClusterRequest(include_fenced_brokers=True)
    try:
        response = await cluster.call_any(_DESCRIBE_CLUSTER, request, deadline, lambda each: each.error_code)
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            return {}
        raise
    return {each.broker_id: (each.host, each.port) for each in response.brokers if each.is_fenced}


async def describe_log_dirs(cluster: Cluster, node_ids: Iterable[int], deadline: Deadline) -> list[LogDirDescription]:
    found: list[LogDirDescription] = []
    request = DescribeLogDirsRequest(topics=None)
    responses = await ask_nodes(cluster, _DESCRIBE_LOG_DIRS, request, deadline, lambda each: each.error_code, node_ids)
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


async def update_features(
    cluster: Cluster, levels: Mapping[str, int], deadline: Deadline, *, allow_downgrade: bool, validate_only: bool
) -> None:
    kind = _SAFE_DOWNGRADE if allow_downgrade else _UPGRADE
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, allow_downgrade=allow_downgrade, upgrade_type=kind)
        for name, level in levels.items()
    ]
    request = UpdateFeaturesRequest(
        timeout_ms=deadline.remaining_ms, feature_updates=updates, validate_only=validate_only
    )
    response = await ask_controller(cluster, _UPDATE_FEATURES, request, deadline)
    raise_for(response.error_code, response.error_message or "")
    for result in response.results:
        raise_for(result.error_code, f"{result.feature}: {result.error_message or ''}")
