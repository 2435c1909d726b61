"""Leaders of a share group's partitions, and its coordinator, as a ScriptedBroker takes them: one topic, whose records
come as the test says.

Owns: heartbeats, sessions, the response of each request. Does not own: locks and delivery counts, which the test
scripts.
"""

import uuid
from collections import deque
from collections.abc import Sequence
from typing import Any

from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from oncelog.protocol.generated.share_acknowledge_request import ShareAcknowledgeRequest
from oncelog.protocol.generated.share_acknowledge_response import (
    PartitionData as AcknowledgedPartition,
)
from oncelog.protocol.generated.share_acknowledge_response import (
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from oncelog.protocol.generated.share_fetch_request import ShareFetchRequest
from oncelog.protocol.generated.share_fetch_response import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)
from oncelog.protocol.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from oncelog.protocol.generated.share_group_heartbeat_response import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.fakes.scripted_answers import ANY, TOPIC
from tests.fakes.virtual_loop import ScriptedBroker

TOPIC_ID = uuid.UUID(int=1)
HEARTBEAT_S = 5
LONG_POLL_S = 0.5
LOCK_MS = 30_000
LEAVING_EPOCH = FINAL_EPOCH = -1
HOSTS = ("host", "other")


def records(first: int, count: int, partition: int = 0, delivery_count: int = 1, **errors: Any) -> PartitionData:
    """A partition of a response that acquires so many records."""
    values = [Record(index, 1_000, None, b"%d" % (first + index), ()) for index in range(count)]
    return PartitionData(
        partition_index=partition,
        records=encode_batch(values, base_offset=first),
        acquired_records=[AcquiredRecords(first, first + count - 1, delivery_count)],
        **errors,
    )


class ShareLeader:
    """`broker` answers for it. Without records a ShareFetch is answered when its time is over."""

    def __init__(self, partitions: int = 1, nodes: int = 1) -> None:
        self.assigned: Sequence[int] = range(partitions)
        self.nodes = nodes
        """The partitions are led by these nodes in turn."""
        self.deliveries: deque[list[PartitionData]] = deque()
        """The partitions that the next responses return, one element a response."""
        self.fetch_errors: deque[int] = deque()
        """Error codes of the next whole responses; a session error ends the session."""
        self.heartbeat_errors: deque[int] = deque()
        self.codes: deque[int] = deque()
        """The outcomes of the next acknowledged partitions; afterwards all succeed."""
        self.is_silent = False
        """True: it answers no request for records and no acknowledgement."""
        self.epochs: dict[str, int] = {}
        """The epoch of the next request in the member's session, by host."""
        self.asked: list[str] = []
        """The host of each request for records and acknowledgement."""
        self.said: list[tuple[int, int, int]] = []
        """Each acknowledged offset in the order in which they came: partition, offset and type."""
        self._partitions = partitions
        self._told: Sequence[int] | None = None
        self.broker = ScriptedBroker(
            {
                **ANY,
                ApiKey.METADATA: self._metadata,
                ApiKey.SHARE_GROUP_HEARTBEAT: self._heartbeat,
                ApiKey.SHARE_FETCH: self._fetch,
                ApiKey.SHARE_ACKNOWLEDGE: self._acknowledge,
            }
        )

    def requests(self, key: ApiKey) -> list[Any]:
        return [request for each, request in self.broker.seen if each is key]

    @property
    def fetches(self) -> list[Any]:
        return self.requests(ApiKey.SHARE_FETCH)

    @property
    def member_epochs(self) -> list[int]:
        return [each.member_epoch for each in self.requests(ApiKey.SHARE_GROUP_HEARTBEAT)]

    def take_said(self) -> list[tuple[int, int, int]]:
        said, self.said = self.said, []
        return said

    # ------------------------------------------------------------------------------------------------------------------

    def _metadata(self, _: Any) -> MetadataResponse:
        led = [
            MetadataResponsePartition(partition_index=index, leader_id=index % self.nodes)
            for index in range(self._partitions)
        ]
        topic = MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID, partitions=led)
        brokers = [MetadataResponseBroker(node_id, host, 1) for node_id, host in enumerate(HOSTS[: self.nodes])]
        return MetadataResponse(brokers=brokers, topics=[topic])

    def _heartbeat(self, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
        code = self.heartbeat_errors.popleft() if self.heartbeat_errors else 0
        if code or request.member_epoch == LEAVING_EPOCH:
            return ShareGroupHeartbeatResponse(error_code=code, member_id=request.member_id, member_epoch=-1)
        assignment = None
        if request.subscribed_topic_names is not None or self.assigned != self._told:
            self._told = self.assigned
            assignment = Assignment([TopicPartitions(TOPIC_ID, list(self.assigned))])
        return ShareGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=1,
            heartbeat_interval_ms=HEARTBEAT_S * 1_000,
            assignment=assignment,
        )

    def _session_error(self, epoch: int) -> int:
        host = self.broker.asked_host
        known = self.epochs.get(host)
        if known is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch not in (known, FINAL_EPOCH):
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        self.epochs[host] = known + 1
        if epoch == FINAL_EPOCH:
            del self.epochs[host]
        return 0

    def _fetch(self, request: ShareFetchRequest) -> ShareFetchResponse | None:
        self.asked.append(self.broker.asked_host)
        if self.is_silent:
            return None
        code = self.fetch_errors.popleft() if self.fetch_errors else 0
        if request.share_session_epoch == 0:
            self.epochs[self.broker.asked_host] = 1
            if any(each.acknowledgement_batches for topic in request.topics for each in topic.partitions):
                code = ErrorCode.INVALID_REQUEST
        else:
            code = code or self._session_error(request.share_session_epoch)
        if code:
            self.epochs.pop(self.broker.asked_host, None)
            self.broker.delays_s[ApiKey.SHARE_FETCH] = 0.0
            return ShareFetchResponse(error_code=code)
        acknowledged = self._take(request)
        parts = self.deliveries.popleft() if self.deliveries and request.max_records else []
        self.broker.delays_s[ApiKey.SHARE_FETCH] = 0.0 if parts else LONG_POLL_S
        for index in {*acknowledged} - {each.partition_index for each in parts}:
            parts.append(PartitionData(partition_index=index, acknowledge_error_code=acknowledged[index]))
        topic = ShareFetchableTopicResponse(topic_id=TOPIC_ID, partitions=parts)
        return ShareFetchResponse(acquisition_lock_timeout_ms=LOCK_MS, responses=[topic])

    def _acknowledge(self, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse | None:
        self.asked.append(self.broker.asked_host)
        if self.is_silent:
            return None
        code = self._session_error(request.share_session_epoch)
        if code:
            return ShareAcknowledgeResponse(error_code=code)
        parts = [AcknowledgedPartition(index, code) for index, code in self._take(request).items()]
        topic = ShareAcknowledgeTopicResponse(topic_id=TOPIC_ID, partitions=parts)
        return ShareAcknowledgeResponse(acquisition_lock_timeout_ms=LOCK_MS, responses=[topic])

    def _take(self, request: ShareFetchRequest | ShareAcknowledgeRequest) -> dict[int, int]:
        """Write down what is acknowledged; the outcome of each partition."""
        codes: dict[int, int] = {}
        for topic in request.topics:
            for each in topic.partitions:
                for batch in each.acknowledgement_batches:
                    span = range(batch.first_offset, batch.last_offset + 1)
                    types = list(batch.acknowledge_types) * (len(span) if len(batch.acknowledge_types) == 1 else 1)
                    self.said += [(each.partition_index, *pair) for pair in zip(span, types, strict=True)]
                if each.acknowledgement_batches:
                    codes[each.partition_index] = self.codes.popleft() if self.codes else 0
        return codes
