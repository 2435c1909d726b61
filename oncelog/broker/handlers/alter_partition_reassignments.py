"""AlterPartitionReassignments (45), versions 0–1: replicas can only be on this node (KIP-455, KIP-860).

Assigning a partition to this node changes nothing and succeeds; null, which cancels a reassignment, finds none; any
other assignment is rejected with Kafka's message.
"""

from collections.abc import Sequence

from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from oncelog.protocol.generated.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

_ASSIGNMENT = "The manual partition assignment includes"


def handle(context: RequestContext, request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    topics = []
    for wanted in request.topics:
        partitions = []
        for partition in wanted.partitions:
            error, text = _verdict(context, wanted.name, partition.partition_index, partition.replicas)
            partitions.append(
                ReassignablePartitionResponse(
                    partition_index=partition.partition_index, error_code=error, error_message=text
                )
            )
        topics.append(ReassignableTopicResponse(name=wanted.name, partitions=partitions))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change, error_message=None, responses=topics
    )


def _verdict(
    context: RequestContext, name: str, index: int, replicas: Sequence[int] | None
) -> tuple[ErrorCode, str | None]:
    topic = context.broker.topics.get(name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name[:300]}."
    if not 0 <= index < topic.partition_count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{index}."
    if replicas is None:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None
    if not replicas:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{_ASSIGNMENT} an empty replica list."
    for slot, replica in enumerate(sorted(replicas)):
        if slot and replica == sorted(replicas)[slot - 1]:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{_ASSIGNMENT} the broker {replica} more than once."
        if replica != context.broker.leadership.node_id:
            text = f"{_ASSIGNMENT} broker {replica}, but no such broker is registered."
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, text
    return ErrorCode.NONE, None
