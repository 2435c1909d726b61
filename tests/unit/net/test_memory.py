"""What connections may keep in memory together."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.net.memory import CHECK_INTERVAL_MS, SMALL_ANSWER_BYTES, AnswerMemory, RequestMemory

MIB = 1 << 20
KIB = 1 << 10
ALLOWANCE = 100 * MIB
CHUNK = 256 * KIB
LOOKS_UNTIL_SLOW = 4


class Room:
    """Memory for requests, and time that passes in looks."""

    def __init__(self, limit_bytes: int, allowance_bytes: int = ALLOWANCE) -> None:
        self.first_count = 0
        self.requests = RequestMemory(limit_bytes, allowance_bytes, self._on_first)
        self.limit_bytes = limit_bytes
        self.senders: list[Sender] = []
        self.closed: list[Sender] = []

    def _on_first(self) -> None:
        self.first_count += 1

    def sender(self, request_bytes: int) -> "Sender":
        sender = Sender(self, request_bytes)
        self.senders.append(sender)
        return sender

    def check(self) -> None:
        """The sum is what is really held, and within its bounds."""
        assert self.requests.used_bytes == sum(sender.held_bytes for sender in self.senders)
        if self.limit_bytes >= 0:
            assert self.requests.used_bytes <= self.limit_bytes + ALLOWANCE

    def look(self) -> None:
        self.requests.check()
        self.check()


class Sender:
    """A client whose large request arrives piece by piece, as far as it is read."""

    def __init__(self, room: Room, request_bytes: int) -> None:
        self._room = room
        self.left_bytes = request_bytes
        self.held_bytes = 0
        self.may_read = True
        self.is_held_up = False
        self.is_unread = False
        self.is_closed = False

    def arrive(self, size: int) -> int:
        """Let bytes arrive; return how many were read."""
        if not self.may_read or self.is_closed:
            return 0
        size = min(size, self.left_bytes)
        self.left_bytes -= size
        self.held_bytes = self.held_bytes + size if self.left_bytes else 0
        self._note()
        self._room.check()
        return size

    def _note(self) -> None:
        self.may_read = self._room.requests.note(self, self.held_bytes, self.left_bytes) and not self.is_closed

    def on_memory(self) -> None:
        self._note()

    def note_answers(self) -> None:
        raise AssertionError("it has none")

    def close_for_memory(self, reason: str) -> None:
        assert "memory for requests is short" in reason
        self.is_closed = True
        self.held_bytes = 0
        self._room.closed.append(self)
        self._room.requests.forget(self)


def fill(sender: Sender, size: int) -> None:
    while size > 0 and sender.arrive(CHUNK):
        size -= CHUNK


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(0))
def test_large_requests_stay_within_the_bound_and_all_end(sizes: list[int], seed: int) -> None:
    """All stay open while all of them move, in any order of arrival, and each is read to its end."""
    source = Random(seed)
    room = Room(10 * MIB)
    senders = [room.sender(size * MIB) for size in sizes]
    for turn in range(10_000):
        left = [sender for sender in senders if sender.left_bytes]
        if not left:
            break
        source.choice(left).arrive(CHUNK)
        if turn % 200 == 0:
            room.look()
    assert not any(sender.left_bytes for sender in senders)
    assert room.closed == []
    assert room.requests.used_bytes == 0


def test_four_requests_that_stop_at_their_end_hold_up_a_fifth_for_no_longer_than_it_takes_to_see_it() -> None:
    room = Room(256 * MIB)
    stopped = [room.sender(99 * MIB) for _ in range(4)]
    for sender in stopped:
        fill(sender, 99 * MIB - CHUNK)
    good = room.sender(99 * MIB)
    looks = 0
    while good.left_bytes:
        for sender in stopped:
            if sender.left_bytes > CHUNK:
                sender.arrive(CHUNK)
        fill(good, 99 * MIB)
        room.look()
        looks += 1
    assert looks * CHECK_INTERVAL_MS <= 4 * LOOKS_UNTIL_SLOW * CHECK_INTERVAL_MS
    assert good not in room.closed


def test_requests_that_dribble_are_no_better_than_those_that_have_stopped() -> None:
    room = Room(256 * MIB)
    dribbling = [room.sender(99 * MIB) for _ in range(4)]
    for sender in dribbling:
        fill(sender, 60 * MIB)
    good = room.sender(99 * MIB)
    looks = 0
    while good.left_bytes and looks < 100:
        for sender in dribbling:
            sender.arrive(100)
        fill(good, 99 * MIB)
        room.look()
        looks += 1
    assert looks <= LOOKS_UNTIL_SLOW + 2
    assert 1 <= len(room.closed) <= 4
    assert good not in room.closed


def test_many_connections_just_below_a_mebibyte_are_within_the_bound_and_a_request_among_them_is_served() -> None:
    room = Room(256 * MIB)
    crowd = [room.sender(MIB) for _ in range(1_500)]
    for sender in crowd:
        fill(sender, MIB - CHUNK)
    assert room.requests.used_bytes <= 256 * MIB + ALLOWANCE
    good = room.sender(MIB)
    looks = 0
    while good.left_bytes and looks < 100:
        fill(good, MIB)
        room.look()
        looks += 1
    # Once for those that hold nearly all, once for those that began to wait before it.
    assert looks <= 2 * (LOOKS_UNTIL_SLOW + 1)
    assert good not in room.closed


@pytest.mark.parametrize("good_comes_in_turn", [1, 2, 3, 5, 20])
@pytest.mark.parametrize("turns_a_check", [1, 3, 10])
def test_those_that_may_read_all_do_in_one_turn_and_none_that_moves_is_closed_for_it(
    turns_a_check: int, good_comes_in_turn: int
) -> None:
    """A busy machine: while the broker did not run, 900 kB of each of 200 requests arrived at their sockets."""
    room = Room(64 * MIB, allowance_bytes=8_000_000)
    arrived = {room.sender(1_000_000): 900_000 for _ in range(200)}
    good = None
    for turn in range(200):
        if turn == good_comes_in_turn:
            good = room.sender(900_000)
            arrived[good] = 900_000
        for sender, size in arrived.items():
            arrived[sender] -= sender.arrive(min(250_000, size)) if size else 0
        if turn % turns_a_check == 0:
            room.look()
    assert good is not None and not good.is_closed and not good.left_bytes


def test_none_is_closed_while_there_is_enough() -> None:
    room = Room(256 * MIB)
    quiet = room.sender(99 * MIB)
    fill(quiet, 98 * MIB)
    for _ in range(1_000):
        room.look()
    assert room.closed == []
    assert room.first_count == 1


def test_none_is_closed_for_what_the_broker_keeps_waiting() -> None:
    """Its next requests wait for a flush: it can do nothing."""
    room = Room(4 * MIB)
    held_up, other = room.sender(8 * MIB), room.sender(8 * MIB)
    fill(held_up, 4 * MIB)
    held_up.is_held_up = True
    fill(other, 4 * MIB)
    for _ in range(20):
        room.look()
    assert held_up not in room.closed


def test_above_the_bound_and_the_allowance_the_furthest_behind_goes_at_once() -> None:
    room = Room(4 * MIB, allowance_bytes=4 * MIB)
    senders = [room.sender(100 * MIB if number % 2 else 2 * MIB) for number in range(40)]
    for sender in senders:
        sender.arrive(CHUNK)
        assert room.requests.used_bytes <= 8 * MIB
    assert room.closed
    assert not any(sender.left_bytes < 2 * MIB for sender in room.closed)


def test_without_a_limit_every_connection_reads() -> None:
    room = Room(-1)
    senders = [room.sender(100 * MIB) for _ in range(10)]
    for sender in senders:
        sender.arrive(90 * MIB)
        assert sender.may_read
    for _ in range(100):
        room.look()
    assert room.closed == []


class Reader:
    """A client with answers that it does not read, or reads slowly."""

    def __init__(self, memory: AnswerMemory) -> None:
        self._memory = memory
        self.unsent_bytes = 0
        self.is_held_up = False
        self.is_closed = False

    @property
    def is_unread(self) -> bool:
        return bool(self.unsent_bytes)

    def answer(self, size: int) -> None:
        self.unsent_bytes += size
        self.note_answers()

    def note_answers(self) -> None:
        self._memory.note(self, self.unsent_bytes)

    def on_memory(self) -> None:
        raise AssertionError("it does not wait for memory")

    def close_for_memory(self, reason: str) -> None:
        assert "memory for answers is short" in reason
        self.is_closed = True
        self.unsent_bytes = 0
        self._memory.forget(self)


def answers(limit_bytes: int, allowance_bytes: int = ALLOWANCE) -> AnswerMemory:
    return AnswerMemory(limit_bytes, allowance_bytes, lambda: None)


def test_answers_get_smaller_as_unread_ones_grow_and_never_too_small() -> None:
    memory = answers(64 * MIB)
    readers = [Reader(memory) for _ in range(100)]
    sizes = []
    for reader in readers:
        sizes.append(memory.next_response_bytes())
        reader.answer(sizes[-1])
    assert sizes[0] == 32 * MIB
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == SMALL_ANSWER_BYTES
    assert memory.used_bytes <= 64 * MIB + 100 * SMALL_ANSWER_BYTES
    for reader in readers:
        reader.unsent_bytes = 0
        reader.note_answers()
    assert memory.next_response_bytes() == 32 * MIB


def test_where_answers_are_short_of_memory_those_that_are_not_read_go_and_those_that_are_read_stay() -> None:
    memory = answers(8 * MIB)
    silent, dribbling, slow = (Reader(memory) for _ in range(3))
    for reader in (silent, dribbling, slow):
        reader.answer(4 * MIB)
    for _ in range(LOOKS_UNTIL_SLOW + 1):
        dribbling.unsent_bytes -= min(1 * KIB, dribbling.unsent_bytes)
        slow.unsent_bytes -= 100 * KIB
        memory.check()
    assert (silent.is_closed or dribbling.is_closed, slow.is_closed) == (True, False)
    assert memory.used_bytes == sum(reader.unsent_bytes for reader in (silent, dribbling, slow)) <= 8 * MIB


def test_unread_answers_never_exceed_the_bound_and_the_allowance() -> None:
    memory = answers(8 * MIB, allowance_bytes=4 * MIB)
    readers = [Reader(memory) for _ in range(500)]
    for reader in readers:
        reader.answer(memory.next_response_bytes())
        assert memory.used_bytes == sum(each.unsent_bytes for each in readers) <= 12 * MIB
