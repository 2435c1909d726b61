"""A fetch session with one node (KIP-227): a request says only what has changed since the last one.

Owns: session id and epoch, and what the node knows of the partitions. Does not own: requests in flight, positions
(`fetcher`). Invariants: what a request leaves out is what the node has from the requests before it, in order; after any
doubt about that (no response, a session error) the next request says everything, in a new session, and names the old
one so that the node can drop it. A node that can keep no session, or is too old to, gets full requests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oncelog.client.values.records import TopicPartition
from oncelog.protocol.errors import ErrorCode

SESSION_ERRORS = frozenset((ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH))
FIRST_VERSION = 7
_NO_SESSION = 0
_INITIAL_EPOCH = 0
_MAX_EPOCH = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class SessionPart:
    """The part of a Fetch request that is about its session."""

    session_id: int
    epoch: int
    changed: Sequence[TopicPartition]
    forgotten: Sequence[TopicPartition]


class FetchSession:
    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _INITIAL_EPOCH
        self._known: dict[TopicPartition, int] = {}
        """The fetch offset of each partition that the node knows."""

    def next_request(self, offsets: Mapping[TopicPartition, int]) -> SessionPart:
        """Return the session part of a request for exactly these partitions from these offsets; the request counts as
        sent."""
        known, self._known = self._known, dict(offsets)
        if self._epoch == _INITIAL_EPOCH:
            return SessionPart(self._id, self._epoch, list(offsets), ())
        changed = [each for each, offset in offsets.items() if known.get(each) != offset]
        forgotten = [each for each in known if each not in offsets]
        return SessionPart(self._id, self._epoch, changed, forgotten)

    def on_response(self, session_id: int, error_code: int) -> None:
        """Take in a response; `error_code` is that of the whole response."""
        if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._id = _NO_SESSION
        if error_code:
            self.start_anew()
        elif session_id == _NO_SESSION:
            self._id = _NO_SESSION
            self.start_anew()
        else:
            self._id = session_id
            self._epoch = 1 if self._epoch == _MAX_EPOCH else self._epoch + 1

    def start_anew(self) -> None:
        """Begin a new session: the outcome of the last request is unknown, or there is no session."""
        self._epoch = _INITIAL_EPOCH
