"""DescribeLogDirs (35), versions 1–5: the data directory, and what each partition takes there (KIP-113, KIP-827).

- Null asks for every partition; one that does not exist is left out of the answer, as in Kafka.
- v4+ size of the volume and room on it; v5+ whether the directory is cordoned (KIP-1066): never.
"""

from collections.abc import Iterator

from broker.dispatch import RequestContext
from broker.log.partition_log import PartitionLog
from protocol.generated.describe_log_dirs_request import DescribeLogDirsRequest
from protocol.generated.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    broker = context.broker
    topics = []
    for name, indexes in _wanted(context, request):
        found = [log for index in indexes if (log := broker.topics.find_partition(name, index)) is not None]
        if found:
            topics.append(DescribeLogDirsTopic(name=name, partitions=[_described(log) for log in found]))
    total_bytes, usable_bytes = broker.logs.volume_bytes()
    directory = DescribeLogDirsResult(
        log_dir=str(broker.config.data_dir), topics=topics, total_bytes=total_bytes, usable_bytes=usable_bytes
    )
    return DescribeLogDirsResponse(results=[directory])


def _wanted(context: RequestContext, request: DescribeLogDirsRequest) -> Iterator[tuple[str, list[int]]]:
    if request.topics is None:
        for topic in context.broker.topics.all():
            yield topic.name, list(range(topic.partition_count))
    else:
        for wanted in request.topics:
            yield wanted.topic, list(wanted.partitions)


def _described(log: PartitionLog) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=log.partition, partition_size=log.size_bytes, offset_lag=0, is_future_key=False
    )
