"""One Fetch of one partition, for readers that hold no position: tools, diagrams, ranges.

Owns: the request, and its retries while the leader moves. Does not own: what the bytes mean.
"""

from oncelog.client.values.errors import ConnectionLost, KafkaError, RequestTimedOut, error_for
from oncelog.client.values.records import TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.cluster import LEADER_MOVED, Cluster
from oncelog.client.wire.reader_apis import FETCH
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.fetch_response import PartitionData


async def fetch_once(
    cluster: Cluster,
    topic_partition: TopicPartition,
    offset: int,
    *,
    read_committed: bool,
    deadline: Deadline,
    max_bytes: int = 1 << 20,
    max_wait_ms: int = 0,
) -> PartitionData:
    """Send one Fetch, retried while the leader moves. It waits up to `max_wait_ms` for a first byte, if that is not 0.
    Raises the partition's error."""
    part = FetchPartition(partition=topic_partition.partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1 if max_wait_ms else 0,
        max_bytes=max_bytes,
        isolation_level=1 if read_committed else 0,
        topics=[FetchTopic(topic=topic_partition.topic, partitions=[part])],
    )
    while True:
        await cluster.topic(topic_partition.topic, deadline)
        cause: KafkaError
        try:
            response = await cluster.call_node(cluster.metadata.leader(topic_partition), FETCH, request, deadline)
            code = response.error_code or response.responses[0].partitions[0].error_code
            if not code:
                return response.responses[0].partitions[0]
            cause = error_for(code, f"{topic_partition.topic}-{topic_partition.partition} at offset {offset}")
            if code not in LEADER_MOVED:
                raise cause
        except (ConnectionLost, RequestTimedOut) as error:
            cause = error
        cluster.metadata.forget_leaders((topic_partition.topic,))
        await deadline.pause(cluster.retry_backoff_ms, "FETCH", cause)
