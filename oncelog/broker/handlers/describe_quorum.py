"""DescribeQuorum (55), versions 0–2: the metadata log, its one voter, this node, and who follows (KIP-595, KIP-853).

- Only `__cluster_metadata-0` has a quorum; any other partition is UNKNOWN_TOPIC_OR_PARTITION. v1+ times, v2+ directory
  ids, error messages, and the addresses of the voters.
- Each other node at work is an observer. It fetches nothing: its last fetch is when it renewed its row, which says how
  far it was; what is not known of it is −1, as in Kafka.
- Since when the leader leads and why, and by how many rounds of the journal an observer was behind, is in tagged fields
  that Kafka does not have; a broker that is not one of several has none of them.
"""

from typing import TYPE_CHECKING

from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.describe_quorum_request import DescribeQuorumRequest
from oncelog.protocol.generated.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from oncelog.protocol.topics import METADATA_TOPIC

if TYPE_CHECKING:
    from oncelog.broker.succession.standing import Other


def handle(context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    log = context.broker.logs.get(METADATA_TOPIC, 0)
    is_asked = False
    topics = []
    for wanted in request.topics:
        partitions = []
        for partition in wanted.partitions:
            if log is not None and wanted.topic_name == METADATA_TOPIC and partition.partition_index == 0:
                is_asked = True
                partitions.append(_description(context, log))
            else:
                partitions.append(_unknown(partition.partition_index))
        topics.append(TopicData(topic_name=wanted.topic_name, partitions=partitions))
    return DescribeQuorumResponse(topics=topics, nodes=[_voter(context)] if is_asked else ())


def _description(context: RequestContext, log: PartitionLog) -> PartitionData:
    broker = context.broker
    leader = broker.leadership.controller
    leading = None if broker.standing is None else broker.standing.leading
    wall_ms = broker.clock.wall_ms()
    voter = ReplicaState(
        replica_id=leader.node_id,
        log_end_offset=log.log_end_offset,
        last_fetch_timestamp=wall_ms,
        last_caught_up_timestamp=wall_ms,
        leading_since_timestamp=-1 if leading is None else round(wall_ms - leading.since_ms),
        leading_reason="" if leading is None else leading.reason,
    )
    return PartitionData(
        leader_id=leader.node_id,
        leader_epoch=leader.epoch,
        high_watermark=log.high_watermark,
        current_voters=[voter],
        observers=() if leading is None else [_observer(each, log, wall_ms) for each in leading.others],
    )


def _observer(other: "Other", log: PartitionLog, wall_ms: WallMs) -> ReplicaState:
    heard_of_ms = round(wall_ms - other.silent_ms)
    return ReplicaState(
        replica_id=other.node_id,
        log_end_offset=other.metadata_end,
        last_fetch_timestamp=heard_of_ms,
        last_caught_up_timestamp=heard_of_ms if other.metadata_end >= log.high_watermark else -1,
        rounds_behind=other.rounds_behind,
    )


def _unknown(index: int) -> PartitionData:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return PartitionData(partition_index=index, error_code=error, error_message=error.text)


def _voter(context: RequestContext) -> Node:
    host, port = context.advertised
    listener = Listener(name=context.peer.listener_name, host=host, port=port)
    return Node(node_id=context.broker.leadership.node_id, listeners=[listener])
