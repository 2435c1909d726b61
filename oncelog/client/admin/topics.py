"""The requests that create, delete and describe topics.

Owns: the requests, and topics as values. Does not own: the public names (`client`, which imports this at the first
use), the cache of topics (`wire.metadata`).
"""

from collections.abc import Sequence

from oncelog.client.admin.descriptions import NewTopic, PartitionDescription, TopicDescription
from oncelog.client.values.arguments import config_values
from oncelog.client.values.errors import check_each
from oncelog.client.wire.apis import Api
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.generated import (
    create_topics_request,
    create_topics_response,
    delete_topics_request,
    delete_topics_response,
)
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.metadata_response import MetadataResponseTopic

CREATE_TOPICS = Api(
    ApiKey.CREATE_TOPICS,
    create_topics_request.encode,
    create_topics_response.decode,
    create_topics_request.FLEXIBLE_FROM,
    2,
    7,
)
DELETE_TOPICS = Api(
    ApiKey.DELETE_TOPICS,
    delete_topics_request.encode,
    delete_topics_response.decode,
    delete_topics_request.FLEXIBLE_FROM,
    1,
    5,
)


def new_topics(topics: Sequence[NewTopic | str]) -> list[NewTopic]:
    """Raises ConfigError."""
    wanted = [NewTopic(topic) if isinstance(topic, str) else topic for topic in topics]
    check_each("create_topics", wanted, NewTopic)
    return wanted


def create_topics_request_of(topics: Sequence[NewTopic], timeout_ms: int) -> CreateTopicsRequest:
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
        timeout_ms=timeout_ms,
    )


def delete_topics_request_of(names: Sequence[str], timeout_ms: int) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms)


def description(topic: MetadataResponseTopic) -> TopicDescription:
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
