"""The partitions that one member of a share group fetches, kept from request to request (KIP-932).

Owns: the partitions, and which of them the next response must contain. Does not own: epochs' checks and the number of
sessions (`broker.sharing.session_cache`), acquired records (`broker.sharing.partition`).
Invariant: a session has one request at a time; a request that continues it ends the one before, which then acquires
nothing: its client would not know.

As Kafka's ShareSession, ShareSessionContext and CachedSharePartition.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol
from uuid import UUID

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
_MAX_EPOCH = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """Return the epoch of the next request: 0 opens a session, so 1 follows the largest."""
    return 1 if epoch == _MAX_EPOCH else epoch + 1


class ShareSessionKey(NamedTuple):
    group_id: str
    member_id: str


class PartitionId(NamedTuple):
    """A partition of a topic that is named by its id."""

    topic_id: UUID
    partition: int


class Connection(Protocol):
    """The connection of a client, whose end is the end of its sessions."""


class ShareWaiter(Protocol):
    """A request of the session that waits for records."""

    def on_replaced(self) -> None:
        """Another request continues the session, or the session has ended."""


class SessionPartition:
    """One partition of a session."""

    __slots__ = ("is_due", "topic")

    def __init__(self, topic: str | None, *, is_due: bool) -> None:
        self.topic = topic
        """The name of the topic; None while its id is unknown."""
        self.is_due = is_due
        """Whether the next response that could contain it does, even without records."""

    def is_in_response(self, *, has_records: bool, has_error: bool) -> bool:
        """Return whether a response contains it; an error is followed by a response that says that it is over."""
        is_in = has_records or self.is_due or has_error
        self.is_due = has_error
        return is_in


class ShareSession:
    __slots__ = ("connection", "counted", "epoch", "key", "partitions", "waiter")

    def __init__(self, key: ShareSessionKey, connection: Connection) -> None:
        self.key = key
        self.connection = connection
        """The connection on which it was opened."""
        self.epoch = INITIAL_EPOCH
        """The epoch of the next request."""
        self.partitions: dict[PartitionId, SessionPartition] = {}
        self.waiter: ShareWaiter | None = None
        self.counted = 0
        """How many of its partitions its cache has counted."""

    def ask(self, partitions: Iterable[tuple[PartitionId, str | None]]) -> None:
        """Add the partitions of a request, each with the name of its topic."""
        is_new = self.epoch == INITIAL_EPOCH
        for each, topic in partitions:
            known = self.partitions.get(each)
            if known is None:
                self.partitions[each] = SessionPartition(topic, is_due=not is_new)
            elif topic is not None:
                known.topic = topic

    def forget(self, partitions: Iterable[PartitionId]) -> None:
        for each in partitions:
            self.partitions.pop(each, None)

    def rotate(self, partition: PartitionId) -> None:
        """It has returned records: move it behind the others."""
        known = self.partitions.pop(partition, None)
        if known is not None:
            self.partitions[partition] = known

    def replace_waiter(self) -> None:
        waiter, self.waiter = self.waiter, None
        if waiter is not None:
            waiter.on_replaced()
