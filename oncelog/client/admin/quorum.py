"""The quorum of a cluster's metadata log, and how far each node is: KIP-595 and KIP-836.

Owns: the request, and its errors as exceptions. Does not own: the public name (`client`, which imports this at the
first use: few programs need it).
"""

from oncelog.client.admin.calls import ask_controller
from oncelog.client.admin.descriptions import QuorumDescription, QuorumReplica
from oncelog.client.values.errors import error_for, raise_for
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import api_of
from oncelog.client.wire.cluster import Cluster
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.generated import describe_quorum_request, describe_quorum_response
from oncelog.protocol.generated.describe_quorum_request import DescribeQuorumRequest
from oncelog.protocol.generated.describe_quorum_response import ReplicaState
from oncelog.protocol.topics import METADATA_TOPIC

_DESCRIBE_QUORUM = api_of(describe_quorum_request, describe_quorum_response, 0, 2)


async def describe_quorum(cluster: Cluster, deadline: Deadline) -> QuorumDescription:
    partition = describe_quorum_request.PartitionData(partition_index=0)
    topic = describe_quorum_request.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    request = DescribeQuorumRequest(topics=[topic])
    while True:
        response = await ask_controller(cluster, _DESCRIBE_QUORUM, request, deadline)
        code, message = response.error_code, response.error_message
        if not code:
            found = response.topics[0].partitions[0]
            code, message = found.error_code, found.error_message
        if not code or not error_for(code).retriable:
            break
        await deadline.pause(cluster.retry_backoff_ms, ApiKey.DESCRIBE_QUORUM.name, error_for(code))
    raise_for(code, message or "")
    return QuorumDescription(
        found.leader_id,
        found.leader_epoch,
        found.high_watermark,
        tuple(map(_replica, found.current_voters)),
        tuple(map(_replica, found.observers)),
    )


def _replica(state: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
        state.leading_since_timestamp,
        state.leading_reason,
        state.rounds_behind,
    )
