"""The partitions of one fetch, kept from request to request if the fetch has a session (KIP-227).

Owns: the client's last request and response for each partition, and which partitions must be read. Does not own:
reading, errors (`broker.fetching.answer`), ids and eviction (`broker.fetching.session_cache`).
Invariants
- A partition that is not `ready` has nothing new: its reader is at the end, its high watermark and log start are those
  of the last response, and so are the rules about who may read. It watches its log, and any move makes it ready. The
  cost of a fetch depends on what moved, not on what idles.
- `ready` is a queue: a partition that returned data moves to its end, so no partition starves another one.
- By topic id a session keeps the requested topic; one recreated under the same name is a different topic.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from oncelog.broker.fetching.purgatory import FetchPurgatory
from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog

if TYPE_CHECKING:
    from oncelog.protocol.generated.fetch_request import FetchPartition, FetchTopic, ForgottenTopic

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
_MAX_EPOCH = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """The epoch of the next request: 0 opens a session, so 1 follows the largest."""
    return 1 if epoch == _MAX_EPOCH else epoch + 1


class FetchedPartition:
    """One partition of a fetch; a Watcher of its log."""

    __slots__ = (
        "available_bytes",
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "is_watching",
        "last_fetched_epoch",
        "log",
        "max_bytes",
        "sent_high_watermark",
        "sent_log_start_offset",
        "session",
        "topic",
        "topic_id",
    )

    def __init__(
        self, session: "FetchSession", topic: str | None, topic_id: UUID | None, asked: "FetchPartition"
    ) -> None:
        self.session = session
        self.topic = topic  # None: requested by an id that was never found
        self.topic_id = topic_id  # None: requested by name
        self.index = asked.partition
        self.log: PartitionLog | None = None  # None: to be looked up
        self.is_watching = False
        self.available_bytes = 0  # as counted for the current fetch
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.ask(asked)

    def ask(self, asked: "FetchPartition") -> None:
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = max(0, asked.partition_max_bytes)
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch

    def update_offsets(self, high_watermark: int, log_start_offset: int) -> bool:
        """Record the offsets of a response; returns whether they changed."""
        if high_watermark == self.sent_high_watermark and log_start_offset == self.sent_log_start_offset:
            return False
        self.sent_high_watermark = high_watermark
        self.sent_log_start_offset = log_start_offset
        return True

    def on_moved(self) -> None:
        self.session.on_moved(self)


class FetchWaiter(Protocol):
    """A request of the session that waits for its response, or builds it in several turns."""

    def on_moved(self, partition: FetchedPartition) -> None: ...

    def on_replaced(self) -> None:
        """Another request continues the session."""


class FetchSession:
    """Created for each fetch without a session too: then it is dropped with the response."""

    __slots__ = (
        "_partitions",
        "_purgatory",
        "by_topic_id",
        "check_rights",
        "counted",
        "created_ms",
        "epoch",
        "isolation",
        "last_used_ms",
        "ready",
        "rules_version",
        "session_id",
        "waiter",
    )

    isolation: FetchIsolation
    """The isolation level of its current request."""
    check_rights: Callable[[FetchedPartition, str | None], None] | None
    """Raises KafkaError for a partition that the current request may not read; None if it may read everything. Its last
    argument is the name of the request for the audit, None if nothing is read."""
    rules_version: int
    """The version of the rules by which its last request was judged; 0 if there were none."""
    waiter: FetchWaiter | None
    """It is notified of the moves of partitions that are watched."""
    session_id: int
    counted: int
    created_ms: int
    last_used_ms: int
    """The id and these are set by the cache, if it keeps the session."""

    def __init__(self, purgatory: FetchPurgatory, by_topic_id: bool, epoch: int) -> None:
        """`epoch` is that of its first request: INITIAL_EPOCH if the client would keep it."""
        self._purgatory = purgatory
        self._partitions: dict[tuple[UUID | str, int], FetchedPartition] = {}
        self.by_topic_id = by_topic_id
        self.epoch = epoch
        self.ready: dict[FetchedPartition, None] = {}
        self.waiter = None
        self.check_rights = None
        self.rules_version = 0
        self.session_id = 0

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[FetchedPartition]:
        return iter(self._partitions.values())

    def has_names(self, longest: int) -> bool:
        """Whether each topic that was asked for by its name has one of so many characters at most."""
        return self.by_topic_id or all(len(each.topic or "") <= longest for each in self)

    # -- the client's request

    def ask(self, topics: "Iterable[FetchTopic]") -> None:
        """Add partitions, or update their offsets; the last one counts if a request repeats a partition."""
        partitions, ready = self._partitions, self.ready
        by_topic_id = self.by_topic_id
        for topic in topics:
            topic_key: UUID | str = topic.topic_id if by_topic_id else topic.topic
            for asked in topic.partitions:
                key = (topic_key, asked.partition)
                partition = partitions.get(key)
                if partition is not None:
                    partition.ask(asked)
                elif by_topic_id:
                    partition = partitions[key] = FetchedPartition(self, None, topic.topic_id, asked)
                else:
                    partition = partitions[key] = FetchedPartition(self, topic.topic, None, asked)
                ready[partition] = None

    def forget(self, topics: "Iterable[ForgottenTopic]") -> None:
        for topic in topics:
            topic_key: UUID | str = topic.topic_id if self.by_topic_id else topic.topic
            for index in topic.partitions:
                partition = self._partitions.pop((topic_key, index), None)
                if partition is not None:
                    self.ready.pop(partition, None)
                    self.forget_log(partition)

    def begin(self, isolation: FetchIsolation) -> None:
        """Begin a request of this isolation level."""
        if self.session_id:  # otherwise it is new: all of it is ready, and nothing was looked up
            if isolation is not self.isolation:
                # The bounds differ: every partition must be read again.
                self._read_all_again()
            for partition in self.ready:
                partition.available_bytes = 0
                if not partition.is_watching:
                    # It has not been notified of changes to its topic.
                    partition.log = None
        self.isolation = isolation

    def begin_under(self, rules_version: int) -> None:
        """Read all partitions again if the rules about reading have changed: also one without news may be forbidden by
        now, or allowed again."""
        if rules_version != self.rules_version:
            self.rules_version = rules_version
            self._read_all_again()

    def _read_all_again(self) -> None:
        for partition in self:
            self.ready.setdefault(partition, None)

    # -- what the response contains

    def settle(self, partition: FetchedPartition) -> None:
        """It was read and has nothing new until its log moves."""
        del self.ready[partition]
        partition.available_bytes = 0
        self._watch(partition)

    def rotate(self, partition: FetchedPartition) -> None:
        """It returned data, and may have more: move it behind all the others."""
        del self.ready[partition]
        self.ready[partition] = None

    def on_moved(self, partition: FetchedPartition) -> None:
        self.ready.setdefault(partition, None)
        if self.waiter is not None:
            self.waiter.on_moved(partition)
        else:
            # Without a waiter: once it is ready, further moves change nothing. Sessions of departed clients cost
            # nothing.
            self._unwatch(partition)

    # -- waiting and ending

    def watch(self, partitions: Iterable[FetchedPartition]) -> None:
        for partition in partitions:
            self._watch(partition)

    def replace_waiter(self) -> None:
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            waiter.on_replaced()

    def close(self) -> None:
        """The session is closed: no more responses."""
        for partition in self._partitions.values():
            if partition.is_watching:
                self._unwatch(partition)
        # They reference the session: it would be left to the garbage collector.
        self._partitions.clear()
        self.ready.clear()

    def forget_log(self, partition: FetchedPartition) -> None:
        """It cannot be read as it is; the next read looks up its log again."""
        self._unwatch(partition)
        partition.log = None

    def _watch(self, partition: FetchedPartition) -> None:
        if not partition.is_watching and partition.log is not None:
            partition.is_watching = True
            self._purgatory.watch(partition.log, partition)

    def _unwatch(self, partition: FetchedPartition) -> None:
        if partition.is_watching and partition.log is not None:
            partition.is_watching = False
            self._purgatory.unwatch(partition.log, partition)
