"""ElectLeaders (43), versions 0–2: every partition has the only leader it can have (KIP-183, KIP-460).

- A named partition is ELECTION_NOT_NEEDED, or does not exist.
- Null requests every partition: as in Kafka those that need no election are left out of the response.
- v1+ kinds of election: 0 preferred, 1 unclean; another is INVALID_REQUEST. v2 is flexible.
"""

from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.elect_leaders_request import ElectLeadersRequest
from oncelog.protocol.generated.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_KINDS = (0, 1)


def handle(context: RequestContext, request: ElectLeadersRequest) -> Sliced[ElectLeadersResponse]:
    is_known_kind = request.election_type in _KINDS
    if request.topic_partitions is None:
        return ElectLeadersResponse(
            error_code=ErrorCode.NONE if is_known_kind else ErrorCode.INVALID_REQUEST,
            replica_election_results=[
                ReplicaElectionResult(topic=topic.name, partition_result=())
                for topic in context.broker.topics.all()
                if is_known_kind
            ],
        )
    results = []
    for wanted in request.topic_partitions:
        partitions = []
        for index in wanted.partitions:
            error, text = ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
            if is_known_kind:
                error, text = _verdict(context, wanted.topic, index)
            partitions.append(PartitionResult(partition_id=index, error_code=error, error_message=text))
            yield 2
        results.append(ReplicaElectionResult(topic=wanted.topic, partition_result=partitions))
        yield 1
    error = ErrorCode.NONE if is_known_kind else ErrorCode.INVALID_REQUEST
    return ElectLeadersResponse(error_code=error, replica_election_results=results)


def _verdict(context: RequestContext, name: str, index: int) -> tuple[ErrorCode, str]:
    topic = context.broker.topics.get(name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name[:300]}"
    if not 0 <= index < topic.partition_count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}"
    return ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
