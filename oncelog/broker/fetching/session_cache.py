"""The fetch sessions of all clients, and eviction when there are too many (KIP-227).

Owns: session ids, epochs, the number of sessions (`max.incremental.fetch.session.cache.slots`) and their eviction.
Does not own: the contents of a session. Invariant: an evicted session receives no further request; its waiting request
still gets a response.

A new session evicts one that was not used for two minutes, else the smallest one that has lived for two minutes, if the
new one has more partitions: large sessions save most. Otherwise the client continues without a session.

All sessions together have a bound, too, which Kafka's have not: a client without any right may ask for partitions of
topics that do not exist, again and again.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from oncelog.broker.cluster.topic_rules import MAX_NAME_LENGTH
from oncelog.broker.fetching.session import FINAL_EPOCH, INITIAL_EPOCH, FetchSession, next_epoch
from oncelog.broker.observability.metrics import Metrics
from oncelog.broker.turns.ports import Clock, Entropy, MonotonicMs
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from oncelog.protocol.generated.fetch_request import FetchRequest, FetchTopic

EVICTION_MS = 120_000
MOST_PARTITIONS: Final = 500_000
"""The limit on partitions of all sessions: some 200 MB. A thousand consumers of five hundred partitions each have as
many."""
_MAX_SESSION_ID = 2**31 - 1


class FetchSessionCache:
    def __init__(self, slot_count: int, clock: Clock, entropy: Entropy, metrics: Metrics) -> None:
        self._slot_count = slot_count
        self._clock = clock
        self._entropy = entropy
        self._metrics = metrics
        # Least recently used first.
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._partition_count = 0
        """The partitions of all sessions, as they were counted: the sum of `FetchSession.counted`."""

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return sum(map(len, self._sessions.values()))

    def find(self, request: "FetchRequest", by_topic_id: bool) -> FetchSession | None:
        """The session that the request would continue if it were resumed now."""
        session = self._sessions.get(request.session_id)
        if session is None or session.epoch != request.session_epoch or session.by_topic_id != by_topic_id:
            return None
        return session

    def resume(
        self, request: "FetchRequest", by_topic_id: bool, prepared: FetchSession | None = None
    ) -> FetchSession | None:
        """The session that the request continues, with its partitions updated, unless it is `prepared` already; None if
        it does not exist (any more) or the request is a full one. Raises KafkaError."""
        session = self._sessions.get(request.session_id)
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session is not None:
                self._remove(session)
            return None
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_topic_id != by_topic_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if session is not prepared:
            session.ask(request.topics)
            session.forget(request.forgotten_topics_data)
        if not len(session):
            self._remove(session)
            return None
        if not self._count(session) or not (by_topic_id or _has_names(request.topics)):
            self._remove(session)
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.replace_waiter()
        session.epoch = next_epoch(session.epoch)
        session.last_used_ms = self._clock.monotonic_ms()
        self._sessions.move_to_end(session.session_id)
        return session

    def offer(self, session: FetchSession) -> None:
        """Called with the response to a full fetch: keep the session if there is space, and assign it an id."""
        monotonic_ms = self._clock.monotonic_ms()
        if len(self._sessions) >= self._slot_count and not self._evict(len(session), monotonic_ms):
            return
        if self._partition_count + len(session) > MOST_PARTITIONS or not session.has_names(MAX_NAME_LENGTH):
            return
        session.session_id = self._new_id()
        session.epoch = next_epoch(INITIAL_EPOCH)
        session.created_ms = session.last_used_ms = monotonic_ms
        session.counted = 0
        self._sessions[session.session_id] = session
        self._count(session)

    def holds(self, session: FetchSession) -> bool:
        return self._sessions.get(session.session_id) is session

    def release(self, session: FetchSession) -> None:
        """Its current request has ended: with a session that is not kept, all has."""
        session.waiter = session.check_rights = None
        if not session.session_id or not self.holds(session):
            session.close()

    def _new_id(self) -> int:
        while True:
            session_id = 1 + int(self._entropy.random() * _MAX_SESSION_ID)
            if session_id not in self._sessions:
                return session_id

    def _evict(self, new_size: int, monotonic_ms: MonotonicMs) -> bool:
        if not self._sessions:
            return False
        victim = next(iter(self._sessions.values()))
        if monotonic_ms - victim.last_used_ms <= EVICTION_MS:
            settled = [each for each in self._sessions.values() if each.last_used_ms - each.created_ms > EVICTION_MS]
            if not settled:
                return False
            victim = min(settled, key=lambda session: (len(session), session.session_id))
            if new_size <= len(victim):
                return False
        self._remove(victim)
        self._metrics.fetch_session_evictions += 1
        return True

    def _count(self, session: FetchSession) -> bool:
        """Whether there is room for what it has now."""
        self._partition_count += len(session) - session.counted
        session.counted = len(session)
        return self._partition_count <= MOST_PARTITIONS

    def _remove(self, session: FetchSession) -> None:
        del self._sessions[session.session_id]
        self._partition_count -= session.counted
        if session.waiter is None:
            session.close()


def _has_names(topics: "Sequence[FetchTopic]") -> bool:
    """That topics can have: a session with a longer one saves nothing, and may cost 32 KiB a name."""
    return all(len(topic.topic) <= MAX_NAME_LENGTH for topic in topics)
