"""AlterReplicaLogDirs (34), versions 1–2: there is one data directory, and everything is in it already (KIP-113)."""

from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from oncelog.protocol.generated.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(context: RequestContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    results = []
    for directory in request.dirs:
        is_ours = directory.path == context.broker.config.place.path
        for topic in directory.topics:
            partitions = []
            for index in topic.partitions:
                error = ErrorCode.LOG_DIR_NOT_FOUND
                if is_ours:
                    is_known = context.broker.topics.has_partition(topic.name, index)
                    error = ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error))
            results.append(AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=partitions))
    return AlterReplicaLogDirsResponse(results=results)
