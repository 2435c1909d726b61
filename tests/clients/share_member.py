"""A member of a share group that keeps its share session as KIP-932 says, on a connection of its own."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from oncelog.broker.requests.context import Peer
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated import share_acknowledge_request, share_fetch_request
from oncelog.protocol.generated.share_acknowledge_request import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from oncelog.protocol.generated.share_fetch_request import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from oncelog.protocol.records.batch import decode_batch, iter_batches
from oncelog.protocol.records.record import Record
from tests.fakes.broker import HOST, PORT, AnsweringBroker, Reply

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
Key = tuple[UUID, int]
Acknowledged = tuple[int, int, Sequence[int]]
"""First offset, last offset, and the types."""


class ShareMember:
    def __init__(self, broker: AnsweringBroker, group_id: str, member_id: str, version: int = 2) -> None:
        self.broker = broker
        self.group_id = group_id
        self.member_id = member_id
        self.version = version
        self.epoch = 0
        """The epoch of the next request."""
        self.peer = Peer("10.0.0.1", 40_000, "PLAINTEXT", (HOST, PORT))

    def start_fetch(
        self,
        partitions: Iterable[Key] = (),
        *,
        acknowledged: Mapping[Key, Sequence[Acknowledged]] | None = None,
        forgotten: Iterable[Key] = (),
        settles: bool = True,
        **fields: Any,
    ) -> Reply:
        """Send a ShareFetch. Without a field of its own it takes everything, and does not wait. Unless it `settles` the
        broker has only begun with it."""
        acknowledged = acknowledged or {}
        defaults = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "min_bytes": 1,
            "max_records": 500,
            "batch_size": 500,
        }
        request = ShareFetchRequest(
            topics=[
                FetchTopic(
                    topic_id=key[0],
                    partitions=[
                        FetchPartition(
                            partition_index=key[1],
                            acknowledgement_batches=[
                                share_fetch_request.AcknowledgementBatch(*batch) for batch in acknowledged.get(key, ())
                            ],
                        )
                    ],
                )
                for key in dict.fromkeys((*partitions, *acknowledged))
            ],
            forgotten_topics_data=[ForgottenTopic(topic_id=topic, partitions=[index]) for topic, index in forgotten],
            **{**defaults, **fields},
        )
        return self._send(request, settles=settles)

    def fetch(self, partitions: Iterable[Key] = (), **fields: Any) -> Any:
        """The response to a ShareFetch that ends at once."""
        return self._answered(self.start_fetch(partitions, **fields))

    def acknowledge(self, acknowledged: Mapping[Key, Sequence[Acknowledged]], **fields: Any) -> Any:
        return self._answered(self.start_acknowledge(acknowledged, **fields))

    def start_acknowledge(
        self, acknowledged: Mapping[Key, Sequence[Acknowledged]], *, settles: bool = True, **fields: Any
    ) -> Reply:
        defaults = {"group_id": self.group_id, "member_id": self.member_id, "share_session_epoch": self.epoch}
        request = ShareAcknowledgeRequest(
            topics=[
                AcknowledgeTopic(
                    topic_id=topic,
                    partitions=[
                        AcknowledgePartition(
                            partition_index=index,
                            acknowledgement_batches=[
                                share_acknowledge_request.AcknowledgementBatch(*batch) for batch in batches
                            ],
                        )
                    ],
                )
                for (topic, index), batches in acknowledged.items()
            ],
            **{**defaults, **fields},
        )
        return self._send(request, settles=settles)

    def close(self, acknowledged: Mapping[Key, Sequence[Acknowledged]] | None = None) -> Any:
        return self.acknowledge(acknowledged or {}, share_session_epoch=-1)

    def disconnect(self) -> None:
        self.peer.disconnect()
        self.broker.time.settle()

    def _answered(self, reply: Reply) -> Any:
        message = reply.message
        if message.error_code == ErrorCode.NONE:
            self.epoch += 1
        return message

    def _send(self, request: Any, *, settles: bool = True) -> Reply:
        frame = self.broker.frame(request, self.version)
        reply = self.broker.take(frame, request, self.version, peer=self.peer)
        if settles:
            self.broker.time.settle()
        return reply


def rows(response: Any) -> dict[Key, Any]:
    """The rows of a response by partition; a partition that is in it twice is a mistake."""
    found: dict[Key, Any] = {}
    for topic in response.responses:
        for data in topic.partitions:
            key = topic.topic_id, data.partition_index
            assert key not in found
            found[key] = data
    return found


def acquired(response: Any) -> dict[Key, list[tuple[int, int, int]]]:
    """The acquired ranges of each partition, with their delivery counts. Each acquired record is in the response."""
    found = {}
    for key, data in rows(response).items():
        ranges = [(each.first_offset, each.last_offset, each.delivery_count) for each in data.acquired_records]
        offsets = {
            record.offset
            for header, batch in iter_batches(memoryview(data.records))
            for record in decode_batch(header, batch, Record, None)
        }
        assert all(set(range(first, last + 1)) <= offsets for first, last, _ in ranges)
        if ranges:
            found[key] = ranges
    return found


def errors(response: Any) -> dict[Key, ErrorCode]:
    """The errors of a response by partition."""
    return {key: ErrorCode(data.error_code) for key, data in rows(response).items()}


def acknowledge_errors(response: Any) -> dict[Key, ErrorCode]:
    """The errors of the acknowledgements in the response to a fetch, by partition."""
    return {key: ErrorCode(data.acknowledge_error_code) for key, data in rows(response).items()}
