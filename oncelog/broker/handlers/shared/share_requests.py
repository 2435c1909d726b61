"""What the requests of share consumers have in common: who may send them, and acknowledgements (KIP-932, KIP-1222).

Owns: the checks of ShareFetch and ShareAcknowledge and their order, as Kafka's KafkaApis has them; the errors of
acknowledged partitions; the leader that a client is sent to. Does not own: what an acknowledgement changes
(`broker.sharing`).
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from oncelog.broker.handlers.rights.checks import may
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.sharing.manager import SharePartitionManager
from oncelog.broker.sharing.sessions import PartitionId, ShareSessionKey
from oncelog.broker.sharing.values import GAP, REJECT, RENEW, AcknowledgementBatch
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.acls import AclOperation, ResourceType
from oncelog.protocol.errors import ErrorCode, KafkaError

RENEWS_SINCE = 2
_LONGEST_MEMBER_ID = 36
"""The length of a UUID that is written out, as in Kafka."""
_LEADER_IN_DOUBT = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class PartitionError(NamedTuple):
    """The result for an acknowledged partition in the response."""

    code: ErrorCode
    message: str | None = None


_NO_ERROR = PartitionError(ErrorCode.NONE)
_INVALID = PartitionError(ErrorCode.INVALID_REQUEST)


def check_sender(context: RequestContext, group_id: str | None, member_id: str | None) -> ShareSessionKey:
    """Return the member that sends a request. Raises KafkaError, which refuses the request as a whole."""
    sharing = context.broker.sharing
    if not sharing.settings.is_enabled:
        sharing.close()
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if not may(context, AclOperation.READ, ResourceType.GROUP, group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not member_id or len(member_id) > _LONGEST_MEMBER_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return ShareSessionKey(group_id, member_id)


def check_topic(context: RequestContext, partition: PartitionId, topic: str | None) -> None:
    """Raises KafkaError if the client may not use a partition, or if there is none; `topic` is the name of its topic,
    or was."""
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if not may(context, AclOperation.READ, ResourceType.TOPIC, topic):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topics = context.broker.topics
    known = topics.by_id(partition.topic_id)
    if known is None or not topics.has_partition(known.name, partition.partition):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Acknowledgements:
    """The acknowledgements of one request: they are made in the turn in which their partition is reached, and answered
    once they are durable."""

    def __init__(self, context: RequestContext, member: ShareSessionKey, *, is_renewal: bool) -> None:
        """`is_renewal` is the request's own word for whether it renews locks."""
        self._context = context
        self._sharing: SharePartitionManager = context.broker.sharing
        self._member = member
        self._is_renewal = is_renewal
        self._errors: dict[PartitionId, PartitionError] = {}
        self._empty: list[PartitionId] = []
        self._written: dict[PartitionId, Completion[None]] = {}

    def make(self, topics: Iterable[Any]) -> Sliced[None]:
        """`topics` are those of the request."""
        for topic in topics:
            known = self._context.broker.topics.by_id(topic.topic_id)
            for row in topic.partitions:
                partition = PartitionId(topic.topic_id, row.partition_index)
                self._make(partition, None if known is None else known.name, row.acknowledgement_batches)
                yield 1 + len(row.acknowledgement_batches)

    def _make(self, partition: PartitionId, topic: str | None, rows: Sequence[Any]) -> None:
        batches = [AcknowledgementBatch(row.first_offset, row.last_offset, row.acknowledge_types) for row in rows]
        try:
            if topic is not None and not self._are_valid(batches):
                self._errors[partition] = _INVALID
                return
            check_topic(self._context, partition, topic)
        except KafkaError as error:
            self._errors[partition] = PartitionError(error.code)
            return
        if not batches:
            self._empty.append(partition)
            return
        group_id, member_id = self._member
        self._written[partition] = self._sharing.acknowledge(group_id, member_id, partition, batches)

    def _are_valid(self, batches: Sequence[AcknowledgementBatch]) -> bool:
        highest = RENEW if self._context.api_version >= RENEWS_SINCE else REJECT
        previous_offset = -1
        for first_offset, last_offset, types in batches:
            if first_offset > last_offset or first_offset < previous_offset or not types:
                return False
            if len(types) > 1 and last_offset - first_offset != len(types) - 1:
                return False
            if min(types) < GAP or max(types) > highest or (RENEW in types and not self._is_renewal):
                return False
            previous_offset = last_offset
        return True

    def answered(self) -> Sliced[dict[PartitionId, PartitionError]]:
        """Return what the response says of each partition, once everything is durable. As in Kafka, partitions without
        acknowledgements are in it only beside others that have some."""
        results = dict(self._errors)
        for partition, written in self._written.items():
            if not written.done:
                yield written
            error = written.error
            if error is None:
                results[partition] = _NO_ERROR
            elif isinstance(error, KafkaError):
                results[partition] = PartitionError(error.code, error.message or error.code.text)
            else:
                raise error
        if self._written:
            results |= dict.fromkeys(self._empty, _NO_ERROR)
        return results


class Leaders:
    """The leaders that a response names to a client that has asked the wrong node."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self.addresses: dict[int, tuple[str, int]] = {}
        """The addresses by node id."""

    def of(self, partition: PartitionId, code: int) -> tuple[int, int] | None:
        """Return the leader of a partition and its epoch, if this error says that this node is not the one."""
        if code not in _LEADER_IN_DOUBT:
            return None
        broker, peer = self._context.broker, self._context.peer
        topic = broker.topics.by_id(partition.topic_id)
        leader = None if topic is None else broker.leadership.leader_of(topic.name, partition.partition)
        if leader is None:
            return -1, -1
        address = broker.nodes.address(leader.node_id, peer)
        if address is not None:
            self.addresses[leader.node_id] = address
        return leader.node_id, leader.epoch
