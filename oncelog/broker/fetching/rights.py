"""Which partitions a Fetch may read, on a broker with an authorizer.

Owns: the operation and the resource: Read on the topic, for a follower ClusterAction. Does not own: the rules
(`broker.security`). Invariant: a partition is checked whenever it is counted or read, for a session outlives the rights
with which it was opened.
"""

from typing import TYPE_CHECKING

from oncelog.broker.fetching.ports import FetchContext
from oncelog.broker.fetching.session import FetchedPartition
from oncelog.protocol.acls import CLUSTER_NAME, AclOperation, ResourceType
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.broker.security.authorizer import Authorizer


class TopicRights:
    """The rights of one request."""

    __slots__ = ("_authorizer", "_is_follower", "_peer", "_topics")

    def __init__(self, context: FetchContext, authorizer: "Authorizer", *, is_follower: bool) -> None:
        self._authorizer = authorizer
        self._peer = context.peer
        self._topics = context.broker.topics
        self._is_follower = is_follower

    def check(self, partition: FetchedPartition, request: str | None) -> None:
        name = partition.topic
        if partition.topic_id is not None:
            topic = self._topics.by_id(partition.topic_id)
            name = None if topic is None else topic.name
        if name is None:
            return  # an unknown topic, which the response says
        operation, kind = AclOperation.READ, ResourceType.TOPIC
        if self._is_follower:
            operation, kind, name = AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
        if not self._authorizer.allows(self._peer.principal, self._peer.host, operation, kind, name, request):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
