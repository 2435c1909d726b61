"""The states of a Fetch, and what happens to one between two turns: in any order, nothing of it is left behind."""

import pytest

from oncelog.broker.fetching.states import COUNTING, TRANSITIONS, FetchState, mermaid
from oncelog.broker.turns.slices import ELEMENTS_A_TURN
from oncelog.protocol.errors import ErrorCode
from tests.clients.fetch_session import (
    BY_ID,
    TOPIC,
    SessionReader,
    append,
    fetch_in_tiny_slices,
    fetch_request,
    started,
    told,
)
from tests.fakes.broker import VirtualBroker


def use_up_this_turn(broker: VirtualBroker) -> None:
    """Spend the turn's budget: all that needs slices begins in a later turn."""
    broker.broker.slices.charge(2 * ELEMENTS_A_TURN)


# --- the table --------------------------------------------------------------------------------------------------------


def test_every_state_is_reached_from_the_first_one() -> None:
    reached = {COUNTING}
    for _ in FetchState:
        reached |= {target for each in TRANSITIONS.values() for source, target in each.items() if source in reached}
    assert reached == set(FetchState)


def test_a_fetch_that_has_ended_stays_so_and_any_other_may_be_replaced_or_left() -> None:
    moves = {source: set[FetchState]() for source in FetchState}
    for each in TRANSITIONS.values():
        for source, target in each.items():
            moves[source].add(target)
    ended = {FetchState.ANSWERED, FetchState.REPLACED, FetchState.LEFT}
    assert {state for state, targets in moves.items() if not targets} == ended
    assert all({FetchState.REPLACED, FetchState.LEFT} <= targets for targets in moves.values() if targets)


def test_the_diagram_shows_every_move_of_the_table() -> None:
    lines = {line.strip() for line in mermaid().splitlines()}
    for name, transition in TRANSITIONS.items():
        assert {f"{source} --> {target}: {name}" for source, target in transition.items()} <= lines


# --- between two turns ------------------------------------------------------------------------------------------------


def test_a_fetch_whose_session_moved_on_before_its_first_slice_leaves_it_to_the_later_one() -> None:
    """Its records are not in the page cache, and this turn has no time left to wait for them."""
    broker, topic_id = started()
    append(broker, TOPIC)
    broker.broker.logs.close()
    broker = broker.killed()
    broker.disk.is_cold = lambda path, start, end: path.endswith(".log")
    reader = SessionReader(broker, BY_ID)
    reader.want((topic_id, 0), 1)
    reader.fetch()
    reader.want((topic_id, 0), 0)
    use_up_this_turn(broker)
    first = reader.send(0)
    reader.epoch += 1
    reader.want((topic_id, 0), 1)
    second = reader.send(max_wait_ms=500)
    assert first.message.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert not second.is_there
    append(broker, TOPIC)
    assert told(second.message)[topic_id, 0].records


def test_a_fetch_whose_client_goes_before_its_first_slice_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fetch_in_tiny_slices(monkeypatch)
    broker, topic_id = started()
    reader = SessionReader(broker, BY_ID)
    for index in range(3):
        reader.want((topic_id, index))
    reader.fetch()
    assert broker.broker.purgatory.watcher_count == 3
    use_up_this_turn(broker)
    reply = reader.send(0)
    broker.broker.fetch_sessions.resume(fetch_request({}, session_id=reader.session_id, session_epoch=-1), True)
    reply._exchange._context.peer.disconnect()
    broker.time.settle()
    assert not reply.is_there
    assert broker.broker.purgatory.watcher_count == broker.broker.purgatory.waiting_count == 0
