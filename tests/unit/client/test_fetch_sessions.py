"""What a node knows of a fetch session is what the client wants, whatever gets lost between them."""

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.consuming.fetch_sessions import FetchSession, SessionPart
from oncelog.client.values.records import TopicPartition
from oncelog.protocol.errors import ErrorCode

Fate = Literal["answered", "request lost", "answer lost", "session dropped", "no room"]
places = st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 3))
wanted = st.dictionaries(places, st.integers(0, 3))
fates = st.sampled_from(Fate.__args__)  # type: ignore[attr-defined]


class Node:
    """Keeps sessions as KIP-227 describes it."""

    def __init__(self) -> None:
        self.sessions: dict[int, tuple[int, dict[TopicPartition, int]]] = {}
        self.has_room = True
        self._last_id = 0

    def fetch(
        self, part: SessionPart, offsets: dict[TopicPartition, int]
    ) -> tuple[int, int, dict[TopicPartition, int]]:
        """Session id and error code of the response, and the partitions that it covers."""
        said = {each: offsets[each] for each in part.changed}
        if part.epoch == 0:
            self.sessions.pop(part.session_id, None)
            if not self.has_room:
                return 0, 0, said
            self._last_id += 1
            self.sessions[self._last_id] = (1, said)
            return self._last_id, 0, said
        if part.session_id not in self.sessions:
            return 0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, {}
        epoch, known = self.sessions[part.session_id]
        if epoch != part.epoch:
            return 0, ErrorCode.INVALID_FETCH_SESSION_EPOCH, {}
        known = {each: offset for each, offset in (known | said).items() if each not in part.forgotten}
        self.sessions[part.session_id] = (epoch + 1, known)
        return part.session_id, 0, known


@given(st.lists(st.tuples(wanted, fates)))
def test_a_node_fetches_exactly_what_is_wanted_or_says_that_it_knows_no_session(
    script: list[tuple[dict[TopicPartition, int], Fate]],
) -> None:
    session, node = FetchSession(), Node()
    for offsets, fate in [*script, ({}, "answered"), ({TopicPartition("c", 0): 1}, "answered")]:
        if fate == "session dropped":
            node.sessions.clear()
        node.has_room = fate != "no room"
        part = session.next_request(offsets)
        if fate == "request lost":
            session.start_anew()
            continue
        session_id, error_code, fetched = node.fetch(part, offsets)
        if fate == "answer lost":
            session.start_anew()
            continue
        session.on_response(session_id, error_code)
        if not error_code:
            assert fetched == offsets
        else:
            # The next request says everything.
            again = session.next_request(offsets)
            assert (again.epoch, list(again.changed)) == (0, list(offsets))
            session_id, error_code, fetched = node.fetch(again, offsets)
            session.on_response(session_id, error_code)
            assert (error_code, fetched) == (0, offsets)
    # A session whose first answer was lost cannot be named.
    assert len(node.sessions) <= 1 + [fate for _, fate in script].count("answer lost")


def test_a_request_without_news_names_no_partition() -> None:
    session = FetchSession()
    offsets = {TopicPartition("a", index): 5 for index in range(100)}
    assert len(session.next_request(offsets).changed) == 100
    session.on_response(7, 0)
    assert session.next_request(offsets) == SessionPart(7, 1, [], [])


def test_epochs_begin_again_at_one() -> None:
    session = FetchSession()
    session.next_request({})
    session.on_response(7, 0)
    session._epoch = 0x7FFFFFFF
    session.on_response(7, 0)
    assert session.next_request({}).epoch == 1
