"""A share session with one node (KIP-932): a request says only which partitions it adds and forgets.

Owns: the epoch, and which partitions the node knows. Does not own: requests (`exchange`). Invariants: the node has the
same partitions as this, or the next request begins a new session; the locks of records end with the session, so that
none of its acknowledgements is sent in the next one.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from oncelog.client.values.records import TopicPartition
from oncelog.protocol.errors import ErrorCode

SESSION_ERRORS: Final = frozenset(
    (
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    )
)
FINAL_EPOCH: Final = -1
_INITIAL_EPOCH: Final = 0
_MAX_EPOCH: Final = 0x7FFFFFFF
Place = tuple[UUID, int]
"""A partition as the requests name it: the topic's id, and the index."""


class SessionPart(NamedTuple):
    """The part of a ShareFetch that is about its session."""

    epoch: int
    added: Sequence[Place]
    forgotten: Sequence[Place]


class ShareSession:
    def __init__(self) -> None:
        self.epoch = _INITIAL_EPOCH
        """The epoch of the next request."""
        self._known: dict[TopicPartition, UUID] = {}

    @property
    def is_new(self) -> bool:
        """Whether the next request begins a session, which only a ShareFetch without acknowledgements may."""
        return self.epoch == _INITIAL_EPOCH

    def next_fetch(self, places: Mapping[TopicPartition, UUID]) -> SessionPart:
        """Return the session part of a ShareFetch of exactly these partitions; it counts as sent."""
        known, self._known = ({} if self.is_new else self._known), dict(places)
        # A topic that was created again has another id: the old one is forgotten, the new one added.
        added = [(topic_id, each.partition) for each, topic_id in places.items() if known.get(each) != topic_id]
        forgotten = [(topic_id, each.partition) for each, topic_id in known.items() if places.get(each) != topic_id]
        return SessionPart(self.epoch, added, forgotten)

    def on_response(self, error_code: int) -> None:
        """Take in a response; `error_code` is that of the whole response."""
        if error_code in SESSION_ERRORS:
            self.start_anew()
        elif not error_code or not self.is_new:
            self.epoch = 1 if self.epoch == _MAX_EPOCH else self.epoch + 1

    def start_anew(self) -> None:
        """Begin a new session: there is none, or the outcome of the last request is unknown."""
        self.epoch = _INITIAL_EPOCH
