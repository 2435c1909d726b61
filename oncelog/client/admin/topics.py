"""The requests that create, delete and describe topics.

Owns: the requests, their errors as exceptions, and topics as values. Does not own: the public names (`client`, which
imports this at the first use), the cache of topics (`wire.metadata`).
"""

from collections.abc import Sequence

from oncelog.client.admin.calls import ask_controller, raise_for_topic
from oncelog.client.admin.descriptions import NewTopic, PartitionDescription, TopicDescription
from oncelog.client.values.arguments import config_values
from oncelog.client.values.errors import check_each, raise_for
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import api_of
from oncelog.client.wire.cluster import Cluster
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated import (
    create_topics_request,
    create_topics_response,
    delete_topics_request,
    delete_topics_response,
)
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.metadata_response import MetadataResponseTopic

_CREATE_TOPICS = api_of(create_topics_request, create_topics_response, 2, 7)
_DELETE_TOPICS = api_of(delete_topics_request, delete_topics_response, 1, 5)


async def create(cluster: Cluster, topics: Sequence[NewTopic | str], deadline: Deadline, *, exist_ok: bool) -> None:
    """Create them, and wait for their leaders."""
    wanted = [NewTopic(topic) if isinstance(topic, str) else topic for topic in topics]
    check_each("create_topics", wanted, NewTopic)
    response = await ask_controller(cluster, _CREATE_TOPICS, _creation(wanted, deadline), deadline)
    for result in response.topics:
        if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and exist_ok:
            continue
        raise_for(result.error_code, f"topic {result.name!r}: {result.error_message or ''}")
    for topic in wanted:
        cluster.metadata.forget_leaders((topic.name,))
        await cluster.topic(topic.name, deadline, exists=True)


def _creation(topics: Sequence[NewTopic], deadline: Deadline) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.partition_count,
                replication_factor=topic.replication_factor,
                configs=[CreatableTopicConfig(*each) for each in config_values(topic.configs).items()],
            )
            for topic in topics
        ],
        timeout_ms=deadline.remaining_ms,
    )


async def delete(cluster: Cluster, names: Sequence[str], deadline: Deadline) -> None:
    check_each("delete_topics", names, str)
    request = DeleteTopicsRequest(topic_names=names, timeout_ms=deadline.remaining_ms)
    response = await ask_controller(cluster, _DELETE_TOPICS, request, deadline)
    for result in response.responses:
        await raise_for_topic(cluster, result.error_code, result.name or "", result.error_message, deadline)
    cluster.metadata.forget_leaders(names)


async def describe(cluster: Cluster, names: Sequence[str], deadline: Deadline) -> list[TopicDescription]:
    """Return the descriptions of these topics, or all; in the order of the names, or of the response."""
    check_each("describe_topics", names, str)
    response = await cluster.refresh(names or None, deadline)
    found = {topic.name: topic for topic in response.topics if topic.name is not None}
    for name, topic in found.items():
        await raise_for_topic(cluster, topic.error_code, name, None, deadline)
    return [_description(found[name]) for name in names or found]


def _description(topic: MetadataResponseTopic) -> TopicDescription:
    partitions = [
        PartitionDescription(
            each.partition_index,
            each.leader_id,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
            tuple(each.offline_replicas),
        )
        for each in sorted(topic.partitions, key=lambda each: each.partition_index)
    ]
    return TopicDescription(topic.name or "", topic.topic_id, tuple(partitions), topic.is_internal)
