"""A reader that keeps a fetch session as KIP-227 says, and remembers the last response about each partition."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from oncelog.broker.fetching import fetch
from oncelog.broker.requests import dispatch
from oncelog.broker.turns import slices
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from oncelog.protocol.generated.fetch_response import FetchResponse, PartitionData
from tests.fakes.broker import Reply, VirtualBroker
from tests.fakes.logs import batch

TopicKey = str | UUID
Key = tuple[TopicKey, int]
BY_NAME, BY_ID = 12, 18
EVERYTHING = 2**31 - 1
TOPIC = "topic"


def started(*overrides: str) -> tuple[VirtualBroker, UUID]:
    """A broker with a topic of three partitions, and the topic's id."""
    broker = VirtualBroker(*overrides)
    return broker, create(broker, TOPIC, 3)


def create(broker: VirtualBroker, name: str, partitions: int = 1) -> UUID:
    """A new topic; its id."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    (answer,) = broker.ask(CreateTopicsRequest(topics=[topic]), 7).topics
    assert answer.error_code == ErrorCode.NONE
    topic_id: UUID = answer.topic_id
    return topic_id


def append(broker: VirtualBroker, name: str, partition: int = 0, count: int = 1, **options: Any) -> None:
    """Append a batch past the protocol, and let it become durable."""
    log = broker.broker.topics.partition(name, partition)
    log.append(batch(count, **options), wall_ms=broker.time.wall_ms())
    broker.time.settle()


def fetch_request(
    offsets: Mapping[Key, int],
    *,
    forgotten: Iterable[Key] = (),
    partition_max_bytes: int = EVERYTHING,
    leader_epoch: int = -1,
    **fields: Any,
) -> FetchRequest:
    topics = []
    for (topic, index), offset in offsets.items():
        partition = FetchPartition(
            partition=index,
            current_leader_epoch=leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
        )
        if isinstance(topic, UUID):
            topics.append(FetchTopic(topic_id=topic, partitions=[partition]))
        else:
            topics.append(FetchTopic(topic=topic, partitions=[partition]))
    gone = [
        ForgottenTopic(topic_id=topic, partitions=[index])
        if isinstance(topic, UUID)
        else ForgottenTopic(topic=topic, partitions=[index])
        for topic, index in forgotten
    ]
    defaults: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": EVERYTHING}
    return FetchRequest(topics=topics, forgotten_topics_data=gone, **{**defaults, **fields})


def told(response: FetchResponse) -> dict[Key, PartitionData]:
    """The data of a response by partition; a partition that is in it twice is a mistake."""
    found: dict[Key, PartitionData] = {}
    for topic in response.responses:
        for data in topic.partitions:
            key: Key = (topic.topic or topic.topic_id, data.partition_index)
            assert key not in found
            found[key] = data
    return found


def fetch_in_tiny_slices(patches: pytest.MonkeyPatch) -> None:
    """Every fetch of brokers made from now on is taken, counted and read a partition at a turn, as one of thousands of
    partitions would be."""
    patches.setattr(dispatch, "_LARGE_FRAME_BYTES", 0)
    patches.setattr(fetch, "_AT_ONCE", 0)
    patches.setattr(fetch, "_A_SLICE", 1)
    patches.setattr(slices, "ELEMENTS_A_TURN", 2)
    patches.setattr(slices, "_LEFT_TO_NEW_WORK", 1)


@dataclass(frozen=True)
class View:
    """A partition as a reader knows it."""

    error: ErrorCode
    high_watermark: int
    log_start_offset: int
    records: bytes
    aborted: tuple[tuple[int, int], ...]

    @staticmethod
    def of(data: PartitionData) -> "View":
        return View(
            ErrorCode(data.error_code),
            data.high_watermark,
            data.log_start_offset,
            bytes(data.records or b""),
            tuple((entry.producer_id, entry.first_offset) for entry in data.aborted_transactions or ()),
        )


class SessionReader:
    def __init__(self, broker: VirtualBroker, version: int, isolation: int = 0) -> None:
        self.broker = broker
        self.version = version
        self.isolation = isolation
        self.session_id = 0
        self.epoch = 0
        self.offsets: dict[Key, int] = {}
        self.views: dict[Key, View] = {}
        self._changed: dict[Key, int] = {}
        self._forgotten: dict[Key, None] = {}

    def want(self, key: Key, offset: int = 0) -> None:
        self.offsets[key] = self._changed[key] = offset
        self._forgotten.pop(key, None)
        known = self.views.get(key)
        if known is not None:
            self.views[key] = View(known.error, known.high_watermark, known.log_start_offset, b"", ())

    def forget(self, key: Key) -> None:
        del self.offsets[key]
        self._changed.pop(key, None)
        self.views.pop(key, None)
        self._forgotten[key] = None

    def send(self, turns: int | None = None, **fields: Any) -> Reply:
        """Let the broker run until it has nothing left to do at this moment, or only for so many turns."""
        is_full = self.epoch == 0
        request = fetch_request(
            self.offsets if is_full else self._changed,
            forgotten=() if is_full else self._forgotten,
            session_id=self.session_id,
            session_epoch=self.epoch,
            isolation_level=self.isolation,
            **fields,
        )
        if turns is None:
            return self.broker.send(request, self.version)
        reply = self.broker.start(request, self.version)
        for _ in range(turns):
            self.broker.time.turn()
        return reply

    def take(self, response: FetchResponse) -> ErrorCode:
        """Learn from an answer as Java's FetchSessionHandler does."""
        error = ErrorCode(response.error_code)
        self.views = {
            key: View(view.error, view.high_watermark, view.log_start_offset, b"", ())
            for key, view in self.views.items()
        }
        if error is not ErrorCode.NONE:
            if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = 0
            self.epoch = 0
            return error
        news = {key: View.of(data) for key, data in told(response).items()}
        assert news.keys() <= self.offsets.keys()
        if self.epoch == 0:
            assert news.keys() == self.offsets.keys()
        self.views.update(news)
        self._changed.clear()
        self._forgotten.clear()
        self.session_id = response.session_id
        if self.session_id:
            self.epoch = 1 if self.epoch in (0, 2**31 - 1) else self.epoch + 1
        else:
            self.epoch = 0
        return error

    def fetch(self, **fields: Any) -> FetchResponse:
        response: FetchResponse = self.send(**fields).message
        self.take(response)
        return response

    def whole(self) -> dict[Key, View]:
        """Fetch the same partitions without a session."""
        request = fetch_request(self.offsets, session_epoch=-1, isolation_level=self.isolation)
        response: FetchResponse = self.broker.ask(request, self.version)
        assert response.session_id == 0
        return {key: View.of(data) for key, data in told(response).items()}
