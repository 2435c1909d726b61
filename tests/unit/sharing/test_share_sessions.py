"""Share sessions: which requests open, continue and end them, and how many there may be."""

from uuid import UUID

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from oncelog.broker.sharing import session_cache
from oncelog.broker.sharing.session_cache import ShareSessionCache
from oncelog.broker.sharing.sessions import PartitionId, ShareSession, ShareSessionKey, next_epoch
from oncelog.protocol.errors import ErrorCode, KafkaError

TOPIC = UUID(int=7)
MEMBER, OTHER = ShareSessionKey("group", "member"), ShareSessionKey("group", "other")


class Connection:
    pass


class Waiter:
    def __init__(self) -> None:
        self.replaced = 0

    def on_replaced(self) -> None:
        self.replaced += 1


class Cache:
    """A cache, and which sessions it has ended."""

    def __init__(self, max_sessions: int = 2) -> None:
        self.ended: list[ShareSession] = []
        self.sessions = ShareSessionCache(lambda: max_sessions, self.ended.append)
        self.connection = Connection()

    def open(self, key: ShareSessionKey = MEMBER, *indexes: int, connection: Connection | None = None) -> ShareSession:
        return self.sessions.open(key, connection or self.connection, asked(*indexes))


def asked(*indexes: int) -> list[tuple[PartitionId, str | None]]:
    return [(PartitionId(TOPIC, index), "topic") for index in indexes]


def refusal(error: pytest.ExceptionInfo[KafkaError]) -> ErrorCode:
    return error.value.code


def test_each_request_continues_the_session_with_the_next_epoch() -> None:
    """A session takes requests in the order of its epochs, and no other."""
    cache = Cache()
    session = cache.open(MEMBER, 0)
    for epoch in range(1, 4):
        assert cache.sessions.resume(MEMBER, epoch, asked(epoch)) is session
        for wrong in (epoch, epoch + 2):
            with pytest.raises(KafkaError) as error:
                cache.sessions.resume(MEMBER, wrong, asked(9))
            assert refusal(error) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert [partition.partition for partition in session.partitions] == [0, 1, 2, 3]


def test_the_largest_epoch_is_followed_by_the_first_that_does_not_open_a_session() -> None:
    """Epoch 0 would open a session, and −1 close it."""
    assert next_epoch(2**31 - 1) == 1


def test_a_request_without_a_session_is_refused() -> None:
    """No epoch but 0 makes a session; one that is closed is forgotten."""
    cache = Cache()
    cache.sessions.close(cache.open())
    for epoch in (1, -1):
        with pytest.raises(KafkaError) as error:
            cache.sessions.acknowledging(MEMBER, epoch)
        assert refusal(error) == ErrorCode.SHARE_SESSION_NOT_FOUND
    with pytest.raises(KafkaError) as error:
        cache.sessions.acknowledging(MEMBER, 0)
    assert refusal(error) == ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_a_full_cache_evicts_no_session() -> None:
    """A new member is refused; a member that opens its session again has a place."""
    cache = Cache(max_sessions=1)
    session = cache.open()
    with pytest.raises(KafkaError) as error:
        cache.open(OTHER)
    assert refusal(error) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert cache.sessions.get(MEMBER) is session
    assert cache.open() is not session


def test_a_new_session_of_a_member_does_not_end_what_it_holds() -> None:
    """Only the end of a session that nothing follows is reported."""
    cache = Cache()
    first = cache.open()
    waiter = first.waiter = Waiter()
    second = cache.open()
    assert waiter.replaced == 1 and not cache.ended
    cache.sessions.close(first)
    assert cache.sessions.get(MEMBER) is second and not cache.ended


def test_the_end_of_a_connection_ends_the_sessions_that_were_opened_on_it() -> None:
    """A session that its member has opened again elsewhere stays."""
    cache = Cache()
    session = cache.open(OTHER)
    cache.open(MEMBER)
    elsewhere = Connection()
    again = cache.open(MEMBER, connection=elsewhere)
    cache.sessions.on_disconnected(cache.connection)
    assert cache.ended == [session] and cache.sessions.get(MEMBER) is again
    assert cache.sessions.has_members("group")
    cache.sessions.on_disconnected(elsewhere)
    assert not cache.sessions.has_members("group") and not len(cache.sessions)


@pytest.mark.interpreted
def test_the_partitions_of_all_sessions_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many partitions refuse a new session, and end one that grows."""
    monkeypatch.setattr(session_cache, "MOST_PARTITIONS", 3)
    cache = Cache()
    session = cache.open(MEMBER, 0, 1)
    with pytest.raises(KafkaError) as error:
        cache.open(OTHER, 0, 1)
    assert refusal(error) == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    cache.sessions.resume(MEMBER, 1, asked(2), [PartitionId(TOPIC, 0)])
    with pytest.raises(KafkaError) as error:
        cache.sessions.resume(MEMBER, 2, asked(3, 4))
    assert refusal(error) == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert cache.ended == [session] and not cache.sessions.partition_count


def test_a_response_has_what_is_new_to_its_client() -> None:
    """Records, errors, the response after an error, and the first one of a partition that was added to a session."""
    cache = Cache()
    session = cache.open(MEMBER, 0)
    first = session.partitions[PartitionId(TOPIC, 0)]
    assert not first.is_in_response(has_records=False, has_error=False)
    cache.sessions.resume(MEMBER, 1, asked(1))
    added = session.partitions[PartitionId(TOPIC, 1)]
    assert added.is_in_response(has_records=False, has_error=False)
    assert not added.is_in_response(has_records=False, has_error=False)
    assert added.is_in_response(has_records=False, has_error=True)
    assert added.is_in_response(has_records=False, has_error=False)
    assert not added.is_in_response(has_records=False, has_error=False)
    assert added.is_in_response(has_records=True, has_error=False)


KEYS = st.sampled_from([ShareSessionKey(group, member) for group in "gh" for member in "mn"])
INDEXES = st.sets(st.integers(0, 4))


class SessionsAndTheirTable(RuleBasedStateMachine):
    """Sessions, their partitions, members and connections are counted as in a table that is counted each time."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache(max_sessions=3)
        self.connections = [Connection(), Connection()]
        self.table: dict[ShareSessionKey, tuple[int, set[int], int]] = {}
        """The next epoch, the partitions and the connection of each."""
        self.ended = 0

    @rule(key=KEYS, number=st.integers(0, 1), indexes=INDEXES)
    def open(self, key: ShareSessionKey, number: int, indexes: set[int]) -> None:
        self.table.pop(key, None)
        if len(self.table) == 3:
            with pytest.raises(KafkaError):
                self.cache.open(key, *indexes, connection=self.connections[number])
        else:
            self.cache.open(key, *indexes, connection=self.connections[number])
            self.table[key] = 1, set(indexes), number

    @rule(key=KEYS, epoch=st.integers(1, 3), indexes=INDEXES)
    def resume(self, key: ShareSessionKey, epoch: int, indexes: set[int]) -> None:
        known = self.table.get(key)
        if known is None or known[0] != epoch:
            with pytest.raises(KafkaError):
                self.cache.sessions.resume(key, epoch, asked(*indexes))
        else:
            self.cache.sessions.resume(key, epoch, asked(*indexes))
            self.table[key] = epoch + 1, known[1] | indexes, known[2]

    @rule(key=KEYS)
    def close(self, key: ShareSessionKey) -> None:
        session = self.cache.sessions.get(key)
        assert (session is not None) == (key in self.table)
        if session is not None:
            del self.table[key]
            self.ended += 1
            self.cache.sessions.close(session)

    @rule(number=st.integers(0, 1))
    def disconnect(self, number: int) -> None:
        gone = [key for key, (_, _, connection) in self.table.items() if connection == number]
        for key in gone:
            del self.table[key]
        self.ended += len(gone)
        self.cache.sessions.on_disconnected(self.connections[number])

    @invariant()
    def agrees(self) -> None:
        sessions = self.cache.sessions
        assert len(sessions) == len(self.table) and len(self.cache.ended) == self.ended
        assert sessions.partition_count == sum(len(indexes) for _, indexes, _ in self.table.values())
        for key, (_, indexes, _) in self.table.items():
            session = sessions.get(key)
            assert session is not None and {each.partition for each in session.partitions} == indexes
        for group_id in "gh":
            assert sessions.has_members(group_id) == any(key.group_id == group_id for key in self.table)


TestSessionsAndTheirTable = SessionsAndTheirTable.TestCase
