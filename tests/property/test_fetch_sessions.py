"""Whatever happens to topics, logs and sessions in whatever order: a reader that keeps a session and applies what
changed knows exactly what a fetch of everything would have returned.
"""

from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from oncelog.broker.log.values import EndMarker
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from oncelog.protocol.records.batch import iter_batches
from tests.clients.fetch_session import (
    BY_ID,
    BY_NAME,
    Key,
    SessionReader,
    View,
    append,
    create,
    fetch_in_tiny_slices,
    fetch_request,
)
from tests.fakes.broker import VirtualBroker
from tests.support.samples import examples

NAMES = ("alpha", "beta")
PARTITIONS = 2
SLOTS = 3

names = st.sampled_from(NAMES)
indexes = st.integers(0, PARTITIONS)  # one more than there are


# A session remembers the name that an id had; a fetch without one does not.
_GONE = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INCONSISTENT_TOPIC_ID)


def _known(views: dict[Key, View]) -> dict[Key, View | None]:
    return {key: None if view.error in _GONE else view for key, view in views.items()}


def _end_of(records: bytes) -> int:
    last, _ = list(iter_batches(memoryview(records)))[-1]
    return last.base_offset + last.last_offset_delta + 1


class FetchSessions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.broker = VirtualBroker(f"max.incremental.fetch.session.cache.slots={SLOTS}")
        self.ids: dict[str, list[UUID]] = {name: [] for name in NAMES}
        self.alive: set[str] = set()
        self.readers = [SessionReader(self.broker, version, level) for version in (BY_NAME, BY_ID) for level in (0, 1)]
        self.producers: dict[tuple[str, int], int] = {}
        self.next_producer_id = 1

    open_transactions = Bundle("open_transactions")

    @initialize()
    def begin(self) -> None:
        for name in NAMES:
            self.make(name)

    @rule(name=names)
    def make(self, name: str) -> None:
        if name not in self.alive:
            self.ids[name].append(create(self.broker, name, PARTITIONS))
            self.alive.add(name)

    @rule(name=names)
    def delete(self, name: str) -> None:
        if name in self.alive:
            self.alive.discard(name)
            self.broker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)]), 6)

    @rule(name=names, index=st.integers(0, PARTITIONS - 1), count=st.integers(1, 5))
    def append(self, name: str, index: int, count: int) -> None:
        if name in self.alive:
            append(self.broker, name, index, count)

    @rule(target=open_transactions, name=names, index=st.integers(0, PARTITIONS - 1))
    def append_in_transaction(self, name: str, index: int) -> tuple[str, int, UUID, int]:
        self.next_producer_id += 1
        if name in self.alive:
            append(self.broker, name, index, producer_id=self.next_producer_id, base_sequence=0, transactional=True)
        return name, index, self.ids[name][-1], self.next_producer_id

    @rule(opened=consumes(open_transactions), committed=st.booleans())
    def end_transaction(self, opened: tuple[str, int, UUID, int], committed: bool) -> None:
        name, index, topic_id, producer_id = opened
        if name in self.alive and self.ids[name][-1] == topic_id:
            log = self.broker.broker.topics.partition(name, index)
            log.append_end_txn_marker(EndMarker(producer_id, 0, committed, 0), 0)
            self.broker.time.settle()

    @rule(name=names, index=st.integers(0, PARTITIONS - 1), back=st.integers(0, 3))
    def cut_off_the_start(self, name: str, index: int, back: int) -> None:
        if name in self.alive:
            log = self.broker.broker.topics.partition(name, index)
            log.advance_log_start(max(0, log.high_watermark - back))

    def _key(self, reader: SessionReader, name: str, index: int, which: int) -> Key:
        ids = self.ids[name]
        return (name, index) if reader.version == BY_NAME else (ids[which % len(ids)], index)

    @rule(at=st.integers(0, 3), name=names, index=indexes, which=st.integers(0, 3), offset=st.integers(0, 12))
    def want(self, at: int, name: str, index: int, which: int, offset: int) -> None:
        reader = self.readers[at]
        reader.want(self._key(reader, name, index, which), offset)

    @rule(at=st.integers(0, 3))
    def read_on(self, at: int) -> None:
        reader = self.readers[at]
        for key, view in reader.views.items():
            if view.records:
                reader.want(key, _end_of(view.records))

    @rule(at=st.integers(0, 3), slot=st.integers(0, 5))
    def forget(self, at: int, slot: int) -> None:
        reader = self.readers[at]
        if reader.offsets:
            reader.forget(list(reader.offsets)[slot % len(reader.offsets)])

    @rule(at=st.integers(0, 3), wait=st.booleans())
    def fetch(self, at: int, wait: bool) -> None:
        reader = self.readers[at]
        reply = reader.send(max_wait_ms=500 if wait else 0, min_bytes=1)
        if not reply.is_there:
            self.broker.time.advance(500)
        if reader.take(reply.message) is not ErrorCode.NONE:
            # A session can be lost to others, as there are more readers than slots; then the reader opens another.
            assert reply.message.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            reader.fetch()
        assert _known(reader.views) == _known(reader.whole())

    @rule(
        at=st.integers(0, 3),
        name=names,
        index=st.integers(0, PARTITIONS - 1),
        what=st.sampled_from(("append", "append", "delete", "make anew", "cut")),
        min_bytes=st.sampled_from((1, 200)),
        turns=st.none() | st.integers(0, 25),
    )
    def fetch_while_something_happens(
        self, at: int, name: str, index: int, what: str, min_bytes: int, turns: int | None
    ) -> None:
        reader = self.readers[at]
        reply = reader.send(turns, max_wait_ms=500, min_bytes=min_bytes)
        if what == "append":
            self.append(name, index, 1)
        elif what == "cut":
            self.cut_off_the_start(name, index, 0)
        else:
            self.delete(name)
            if what == "make anew":
                self.make(name)
        if not reply.is_there:
            self.broker.time.advance(500)
        if reader.take(reply.message) is ErrorCode.NONE and reader.session_id:
            reader.fetch()
            assert _known(reader.views) == _known(reader.whole())

    @rule(at=st.integers(0, 3), turns=st.integers(0, 25), ends=st.booleans())
    def go_on_before_the_answer(self, at: int, turns: int, ends: bool) -> None:
        reader = self.readers[at]
        if not reader.session_id:
            return
        first = reader.send(turns, max_wait_ms=500)
        later = fetch_request({}, session_id=reader.session_id, session_epoch=-1 if ends else reader.epoch + 1)
        self.broker.send(later, reader.version)
        if not first.is_there:
            self.broker.time.advance(500)
        assert first.message is not None
        reader.session_id = reader.epoch = 0
        reader.fetch()
        assert _known(reader.views) == _known(reader.whole())

    @rule(at=st.integers(0, 3), epoch=st.integers(1, 2**31 - 1))
    def lie_about_the_epoch(self, at: int, epoch: int) -> None:
        reader = self.readers[at]
        if reader.session_id and epoch != reader.epoch:
            right, reader.epoch = reader.epoch, epoch
            error = reader.send().message.error_code
            assert error in (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            reader.epoch = right

    @rule(delay_ms=st.sampled_from((1_000, 130_000)))
    def let_pass(self, delay_ms: int) -> None:
        self.broker.time.advance(delay_ms)

    @invariant()
    def sessions_and_watchers_are_bounded(self) -> None:
        sessions = self.broker.broker.fetch_sessions
        assert len(sessions) <= SLOTS
        assert self.broker.broker.purgatory.waiting_count == 0
        assert self.broker.broker.purgatory.watcher_count <= sessions.partition_count


class FetchSessionsInSlices(FetchSessions):
    """Handles fetches in tiny slices, as those of thousands of partitions, with other steps between two turns."""

    def __init__(self) -> None:
        self.patches = pytest.MonkeyPatch()
        fetch_in_tiny_slices(self.patches)
        super().__init__()

    def teardown(self) -> None:
        self.patches.undo()


FetchSessions.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=60)
TestFetchSessions = FetchSessions.TestCase
FetchSessionsInSlices.TestCase.settings = FetchSessions.TestCase.settings
TestFetchSessionsInSlices = FetchSessionsInSlices.TestCase
