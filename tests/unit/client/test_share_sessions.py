"""What a node knows of a share session is what the member wants, whatever gets lost between them."""

import uuid
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.sharing.session import Place, SessionPart, ShareSession
from oncelog.client.values.records import TopicPartition
from oncelog.protocol.errors import ErrorCode

Fate = Literal["answered", "request lost", "answer lost", "session dropped", "no room", "refused", "acknowledged"]
Wanted = dict[TopicPartition, uuid.UUID]
places = st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 2))
wanted = st.dictionaries(places, st.integers(1, 2)).map(
    lambda lives: {place: uuid.UUID(int=ord(place.topic) * 10 + life) for place, life in lives.items()}
)
"""A topic may be created again, under another id."""
fates = st.sampled_from(Fate.__args__)  # type: ignore[attr-defined]


class Node:
    """Keeps the session of one member as KIP-932 describes it."""

    def __init__(self) -> None:
        self.known: set[Place] | None = None
        self.epoch = 0
        self.has_room = True

    def fetch(self, part: SessionPart) -> int:
        if part.epoch == 0:
            assert not part.forgotten
            self.known = None
            if not self.has_room:
                return ErrorCode.SHARE_SESSION_LIMIT_REACHED
            self.known, self.epoch = set(part.added), 1
            return 0
        code = self.acknowledge(part.epoch)
        if self.known is not None and not code:
            assert not self.known & set(part.added)
            assert self.known >= set(part.forgotten)
            self.known = self.known - set(part.forgotten) | set(part.added)
        return code

    def acknowledge(self, epoch: int) -> int:
        if self.known is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch != self.epoch:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        self.epoch += 1
        return 0


@given(st.lists(st.tuples(wanted, fates)))
def test_a_node_has_exactly_what_is_wanted_or_says_that_it_knows_no_session(script: list[tuple[Wanted, Fate]]) -> None:
    session, node = ShareSession(), Node()
    for asked, fate in [*script, ({}, "answered"), ({TopicPartition("c", 0): uuid.UUID(int=3)}, "answered")]:
        if fate == "session dropped":
            node.known = None
        node.has_room = fate != "no room"
        if fate == "acknowledged":
            if not session.is_new:
                session.on_response(node.acknowledge(session.epoch))
            continue
        was_new = session.is_new
        part = session.next_fetch(asked)
        if fate == "request lost":
            session.start_anew()
            continue
        if fate == "refused":
            # Before the node looks at its session, for a right that this user lacks, say.
            session.on_response(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            if was_new:
                assert session.is_new
            else:
                session.on_response(node.acknowledge(part.epoch + 1))
            continue
        code = node.fetch(part)
        if fate == "answer lost":
            session.start_anew()
            continue
        session.on_response(code)
        if code:
            assert session.is_new
        else:
            assert node.known == {(topic_id, each.partition) for each, topic_id in asked.items()}


def test_epochs_go_round_without_the_number_of_a_new_session() -> None:
    session = ShareSession()
    session.epoch = 0x7FFFFFFF
    session.on_response(0)
    assert session.epoch == 1
