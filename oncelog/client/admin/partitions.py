"""The requests that add partitions to topics (KIP-195), and delete records from them (KIP-107).

Owns: the requests, and their errors as exceptions. Does not own: the public names (`client`, which imports this at the
first use: few programs need it).
"""

from collections.abc import Mapping

from oncelog.client.admin.calls import ask_controller, raise_for_topic, require_topics
from oncelog.client.values.errors import ConfigError, ConnectionLost, KafkaError, RequestTimedOut, error_for
from oncelog.client.values.records import TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import api_of
from oncelog.client.wire.cluster import Cluster
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated import (
    create_partitions_request,
    create_partitions_response,
    delete_records_request,
    delete_records_response,
)
from oncelog.protocol.generated.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.protocol.generated.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

_CREATE_PARTITIONS = api_of(create_partitions_request, create_partitions_response, 0, 3)
_DELETE_RECORDS = api_of(delete_records_request, delete_records_response, 0, 2)


async def create(cluster: Cluster, counts: Mapping[str, int], deadline: Deadline, *, validate_only: bool) -> None:
    topics = [CreatePartitionsTopic(name, count, None) for name, count in counts.items()]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=deadline.remaining_ms, validate_only=validate_only)
    response = await ask_controller(cluster, _CREATE_PARTITIONS, request, deadline)
    for result in response.results:
        await raise_for_topic(cluster, result.error_code, result.name, result.error_message, deadline)
    cluster.metadata.forget_leaders(counts)


async def delete_records(
    cluster: Cluster, offsets: Mapping[TopicPartition, int], deadline: Deadline
) -> dict[TopicPartition, int]:
    """Delete records, asking each leader until it responds: a repetition changes nothing."""
    await require_topics(cluster, {each.topic for each in offsets}, deadline)
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
        timeout_ms=deadline.remaining_ms,
    )
    response = await cluster.call_node(node_id, _DELETE_RECORDS, request, deadline)
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
