"""The share sessions of all members (KIP-932).

Owns: which sessions there are, their epochs, their number (`group.share.max.share.sessions`), and whose connection each
one belongs to. Does not own: what a member holds, which is released by whom `on_ended` calls.
Invariants
- No session is evicted for another one: who finds no place gets SHARE_SESSION_LIMIT_REACHED, and waits.
- A session ends with a request of the final epoch, with the connection on which it was opened, or with a new session of
  the same member, which keeps what the member holds.

Kafka's ShareSessionCache keeps one session for each connection; here a connection that several members share ends the
sessions of all of them. All sessions together have a bound, too, which Kafka's have not: a client may ask for any
number of partitions that do not exist.
"""

from collections.abc import Callable, Iterable
from typing import Final

from oncelog.broker.sharing.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    Connection,
    PartitionId,
    ShareSession,
    ShareSessionKey,
    next_epoch,
)
from oncelog.protocol.errors import ErrorCode, KafkaError

MOST_PARTITIONS: Final = 500_000
"""The limit on partitions of all sessions, as for fetch sessions: some 100 MB."""


class ShareSessionCache:
    def __init__(self, max_sessions: Callable[[], int], on_ended: Callable[[ShareSession], None]) -> None:
        """`on_ended` is called with each session that has ended with its connection, or was removed by `close`."""
        self._max_sessions = max_sessions
        self._on_ended = on_ended
        self._sessions: dict[ShareSessionKey, ShareSession] = {}
        self._of_connection: dict[Connection, dict[ShareSessionKey, ShareSession]] = {}
        self._member_counts: dict[str, int] = {}
        self._partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return self._partition_count

    def get(self, key: ShareSessionKey) -> ShareSession | None:
        return self._sessions.get(key)

    def has_members(self, group_id: str) -> bool:
        """Return whether a member of the group has a session."""
        return group_id in self._member_counts

    # -- one request of a client

    def open(
        self, key: ShareSessionKey, connection: Connection, asked: Iterable[tuple[PartitionId, str | None]]
    ) -> ShareSession:
        """Open the session of a member, in place of the one that it has. Raises SHARE_SESSION_LIMIT_REACHED; then it
        has none."""
        before = self._sessions.get(key)
        if before is not None:
            self._remove(before)
        session = ShareSession(key, connection)
        session.ask(asked)
        if len(self._sessions) >= self._max_sessions() or not self._has_room_for(session):
            if before is not None:
                self._on_ended(before)
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session.epoch = next_epoch(INITIAL_EPOCH)
        self._sessions[key] = session
        self._of_connection.setdefault(connection, {})[key] = session
        self._member_counts[key.group_id] = self._member_counts.get(key.group_id, 0) + 1
        self._count(session)
        return session

    def resume(
        self,
        key: ShareSessionKey,
        epoch: int,
        asked: Iterable[tuple[PartitionId, str | None]] = (),
        forgotten: Iterable[PartitionId] = (),
    ) -> ShareSession:
        """Return the session that a request continues, with its partitions updated. Raises SHARE_SESSION_NOT_FOUND,
        INVALID_SHARE_SESSION_EPOCH; then nothing has changed. One that outgrows the bound of all sessions has ended."""
        session = self.existing(key)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.ask(asked)
        session.forget(forgotten)
        if not self._has_room_for(session):
            self.close(session)
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        self._count(session)
        session.epoch = next_epoch(epoch)
        session.replace_waiter()
        return session

    def acknowledging(self, key: ShareSessionKey, epoch: int) -> ShareSession:
        """Return the session of a request that only acknowledges: it opens none. Raises as `resume`."""
        if epoch == INITIAL_EPOCH:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        return self.existing(key) if epoch == FINAL_EPOCH else self.resume(key, epoch)

    def existing(self, key: ShareSessionKey) -> ShareSession:
        """Raises SHARE_SESSION_NOT_FOUND."""
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def continues(self, session: ShareSession, epoch: int) -> bool:
        """Return whether the request of this epoch is still the last one of a session that has not ended."""
        return self._sessions.get(session.key) is session and session.epoch == next_epoch(epoch)

    # -- the end of sessions

    def close(self, session: ShareSession) -> None:
        """End a session, unless it has ended."""
        if self._sessions.get(session.key) is session:
            self._remove(session)
            self._on_ended(session)

    def close_all(self) -> None:
        for session in tuple(self._sessions.values()):
            self.close(session)

    def on_disconnected(self, connection: Connection) -> None:
        for session in tuple(self._of_connection.get(connection, {}).values()):
            self.close(session)

    def _remove(self, session: ShareSession) -> None:
        key = session.key
        del self._sessions[key]
        self._partition_count -= session.counted
        of_connection = self._of_connection[session.connection]
        del of_connection[key]
        if not of_connection:
            del self._of_connection[session.connection]
        left = self._member_counts.pop(key.group_id) - 1
        if left:
            self._member_counts[key.group_id] = left
        session.replace_waiter()

    def _has_room_for(self, session: ShareSession) -> bool:
        return self._partition_count - session.counted + len(session.partitions) <= MOST_PARTITIONS

    def _count(self, session: ShareSession) -> None:
        self._partition_count += len(session.partitions) - session.counted
        session.counted = len(session.partitions)
