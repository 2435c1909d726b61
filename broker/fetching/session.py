"""The partitions of one fetch, remembered from request to request when the fetch has a session (KIP-227).

Owns: what the client asked and was told last for each partition, and which partitions are to be looked at. Does not
own: reading, errors (`broker.handlers.fetch`), ids and eviction (`broker.fetching.session_cache`).
Invariants
- A partition that is not `ready` has nothing to tell: its reader is at the end, its high watermark and log start are
  those of the last answer. It watches its log, and any move makes it ready. A fetch costs what moved, not what idles.
- `ready` is a queue: whoever gave data goes to its end, so no partition starves another one.
- By topic id a session knows the topic that was asked for; one that was made anew under the same name is another topic.
"""

from collections.abc import Iterable, Iterator
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
    """The epoch of the request after this one: 0 opens a session, so the count goes on with 1 after the largest."""
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
        "session",
        "told_high_watermark",
        "told_log_start_offset",
        "topic",
        "topic_id",
    )

    def __init__(
        self, session: "FetchSession", topic: str | None, topic_id: UUID | None, asked: "FetchPartition"
    ) -> None:
        self.session = session
        self.topic = topic  # None: asked by an id that was never found
        self.topic_id = topic_id  # None: asked by name
        self.index = asked.partition
        self.log: PartitionLog | None = None  # None: to be looked up
        self.is_watching = False
        self.available_bytes = 0  # as counted for a fetch that waits
        self.told_high_watermark = -1
        self.told_log_start_offset = -1
        self.ask(asked)

    def ask(self, asked: "FetchPartition") -> None:
        self.fetch_offset = asked.fetch_offset
        self.max_bytes = asked.partition_max_bytes
        self.current_leader_epoch = asked.current_leader_epoch
        self.last_fetched_epoch = asked.last_fetched_epoch

    def tell(self, high_watermark: int, log_start_offset: int) -> bool:
        """Remember what an answer says; whether that is news."""
        if high_watermark == self.told_high_watermark and log_start_offset == self.told_log_start_offset:
            return False
        self.told_high_watermark = high_watermark
        self.told_log_start_offset = log_start_offset
        return True

    def on_moved(self) -> None:
        self.session.on_moved(self)


class FetchWaiter(Protocol):
    """A request of the session that waits for its answer, or has it made in several turns."""

    def on_moved(self, partition: FetchedPartition) -> None: ...

    def on_replaced(self) -> None:
        """Another request goes on with the session."""


class FetchSession:
    """Made for each fetch without a session too: then it is dropped with the answer."""

    __slots__ = (
        "_partitions",
        "_purgatory",
        "_waiter",
        "by_topic_id",
        "created_ms",
        "epoch",
        "isolation",
        "last_used_ms",
        "ready",
        "session_id",
    )

    def __init__(self, purgatory: FetchPurgatory, by_topic_id: bool) -> None:
        self._purgatory = purgatory
        self._partitions: dict[tuple[UUID | str, int], FetchedPartition] = {}
        self._waiter: FetchWaiter | None = None
        self.by_topic_id = by_topic_id
        self.ready: dict[FetchedPartition, None] = {}
        self.isolation: FetchIsolation | None = None
        # Given by the cache, if it takes the session.
        self.session_id = 0
        self.epoch = FINAL_EPOCH
        self.created_ms = 0
        self.last_used_ms = 0

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[FetchedPartition]:
        return iter(self._partitions.values())

    # -- what the client asks

    def ask(self, topics: "Iterable[FetchTopic]") -> None:
        """Add partitions, or take their new offsets; the last one counts where a request repeats itself."""
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
        """A request of this isolation begins."""
        if isolation is not self.isolation:
            # Other ends: everything must be looked at.
            self.isolation = isolation
            for partition in self:
                self.ready.setdefault(partition, None)
        for partition in self.ready:
            if not partition.is_watching:
                # Nobody told it what became of its topic.
                partition.log = None

    # -- what there is to tell

    def settle(self, partition: FetchedPartition) -> None:
        """It was looked at and has nothing more to tell until its log moves."""
        del self.ready[partition]
        partition.available_bytes = 0
        self._watch(partition)

    def rotate(self, partition: FetchedPartition) -> None:
        """It gave data, and may have more: after all the others."""
        del self.ready[partition]
        self.ready[partition] = None

    def on_moved(self, partition: FetchedPartition) -> None:
        self.ready.setdefault(partition, None)
        if self._waiter is not None:
            self._waiter.on_moved(partition)
        else:
            # Nobody waits: once it is ready, further moves are no news. Sessions of clients that went cost nothing.
            self._unwatch(partition)

    # -- waiting and ending

    @property
    def waits(self) -> bool:
        return self._waiter is not None

    def begin_wait(self, waiter: FetchWaiter) -> None:
        self._waiter = waiter
        self.watch(self.ready)

    def begin_slices(self, waiter: FetchWaiter) -> None:
        """The request is handled in several turns: it hears of moves in between, but for partitions not watched yet."""
        self.replace_waiter()
        self._waiter = waiter

    def watch(self, partitions: Iterable[FetchedPartition]) -> None:
        for partition in partitions:
            self._watch(partition)

    def end_wait(self) -> None:
        self._waiter = None

    def replace_waiter(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.on_replaced()

    def close(self) -> None:
        """No answer comes from this session any more."""
        for partition in self:
            if partition.is_watching:
                self._unwatch(partition)
        # They hold the session: it would be left to the garbage collector.
        self._partitions.clear()
        self.ready.clear()

    def forget_log(self, partition: FetchedPartition) -> None:
        """It cannot be read as it is; next time its log is looked up anew."""
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
