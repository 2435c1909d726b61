"""Which nodes are at work, of those that Metadata names: a node that has ended may be named, since it may come back.

Owns: the question, which is DescribeCluster (KIP-700, KIP-1073).
"""

from collections.abc import Sequence

from oncelog.client.values.errors import KafkaError
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import Api
from oncelog.client.wire.cluster import Cluster
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated import describe_cluster_request, describe_cluster_response
from oncelog.protocol.generated.describe_cluster_request import DescribeClusterRequest

_DESCRIBE_CLUSTER = Api(
    ApiKey.DESCRIBE_CLUSTER,
    describe_cluster_request.encode,
    describe_cluster_response.decode,
    describe_cluster_request.FLEXIBLE_FROM,
    0,
    2,
)


async def nodes_at_work(cluster: Cluster, known: Sequence[int], deadline: Deadline) -> list[int]:
    """Return those of the known nodes that DescribeCluster names, too."""
    request = DescribeClusterRequest()
    try:
        response = await cluster.call_any(_DESCRIBE_CLUSTER, request, deadline, lambda each: each.error_code)
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:  # before Kafka 2.8, which names no others
            return list(known)
        raise
    if response.error_code:  # such as a missing right
        return list(known)
    at_work = {each.broker_id for each in response.brokers}
    return [each for each in known if each in at_work]
