"""DescribeLogDirs (35), versions 1–5: the data directory, and the size of each partition in it (KIP-113, KIP-827).

- Null requests every partition; one that does not exist is left out of the response, as in Kafka.
- A partition that is named several times is returned once, as in Kafka; each as it is when its turn comes.
- v4+ size of the volume and free space on it, which is 0 while writes are refused for lack of it (a quota, say).
- v5+ whether the directory is cordoned (KIP-1066): never.
"""

from collections.abc import Iterable

from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.generated.describe_log_dirs_request import DescribeLogDirsRequest
from oncelog.protocol.generated.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(context: RequestContext, request: DescribeLogDirsRequest) -> Sliced[DescribeLogDirsResponse]:
    broker = context.broker
    wanted: dict[str, Iterable[int]] = {}
    if request.topics is None:
        wanted = {topic.name: range(topic.partition_count) for topic in broker.topics.all()}
    else:
        for asked in request.topics:
            wanted[asked.topic] = dict.fromkeys((*wanted.get(asked.topic, ()), *asked.partitions))
            yield 1 + len(asked.partitions) // 4
    topics = []
    for name, indexes in wanted.items():
        found = []
        for index in indexes:
            yield 1
            if broker.topics.has_partition(name, index):
                found.append(_description(index, broker.logs.get(name, index)))
        if found:
            topics.append(DescribeLogDirsTopic(name=name, partitions=found))
    total_bytes, usable_bytes = broker.logs.store.volume_bytes()
    if broker.logs.store.trouble is not None:
        usable_bytes = 0
    directory = DescribeLogDirsResult(
        log_dir=broker.config.place.path, topics=topics, total_bytes=total_bytes, usable_bytes=usable_bytes
    )
    return DescribeLogDirsResponse(results=[directory])


def _description(index: int, log: PartitionLog | None) -> DescribeLogDirsPartition:
    """Describe a partition; without a log nothing was ever written there."""
    size_bytes = 0 if log is None else log.size_bytes
    return DescribeLogDirsPartition(partition_index=index, partition_size=size_bytes, offset_lag=0, is_future_key=False)
