"""What connections may keep in memory together."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from broker.net.memory import SMALL_ANSWER_BYTES, SMALL_REQUEST_BYTES, AnswerMemory, RequestMemory

MIB = 1 << 20


class Sender:
    """A client whose large request arrives piece by piece, as far as it may."""

    def __init__(self, memory: RequestMemory, request_bytes: int) -> None:
        self._memory = memory
        self.left_bytes = request_bytes
        self.held_bytes = 0
        self.has_moved = False
        self.may_read = True

    def arrive(self, size: int) -> None:
        if self.may_read and self.left_bytes:
            self.has_moved = True
            size = min(size, self.left_bytes)
            self.left_bytes -= size
            self.held_bytes = self.held_bytes + size if self.left_bytes else 0
            self._look()

    def on_memory(self) -> None:
        self._look()

    def _look(self) -> None:
        self._memory.note(self, self.held_bytes)
        self.may_read = self._memory.may_read(self)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(0))
def test_large_requests_stay_within_the_bound_and_all_end(sizes: list[int], seed: int) -> None:
    """In any order of arrival; beyond the bound goes only the oldest, and what one turn brings to each of the rest."""
    source, piece = Random(seed), MIB // 2
    memory = RequestMemory(10 * MIB)
    senders = [Sender(memory, size * MIB) for size in sizes]
    for _ in range(10_000):
        left = [sender for sender in senders if sender.left_bytes]
        if not left:
            break
        source.choice(left).arrive(piece)
        assert memory.used_bytes <= 10 * MIB + 30 * MIB + len(senders) * (piece + SMALL_REQUEST_BYTES)
    assert not any(sender.left_bytes for sender in senders)
    assert memory.used_bytes == 0


def test_a_client_that_stops_in_the_middle_stops_nobody_else() -> None:
    memory = RequestMemory(2 * MIB)
    stuck, other = Sender(memory, 100 * MIB), Sender(memory, 100 * MIB)
    for sender in (stuck, other):
        for _ in range(4):
            sender.arrive(MIB)
    assert stuck.may_read and not other.may_read
    memory.pass_on()
    assert not other.may_read, "it has moved since the last look"
    stuck.has_moved = False
    memory.pass_on()
    assert other.may_read
    for _ in range(99):
        other.arrive(MIB)
    assert other.left_bytes == 0
    stuck.arrive(MIB)
    assert stuck.may_read, "it is alone again"


def test_small_requests_pass_whatever_large_ones_hold() -> None:
    memory = RequestMemory(0)
    large = [Sender(memory, 10 * MIB) for _ in range(2)]
    for sender in large:
        sender.arrive(2 * MIB)
    assert not large[1].may_read
    small = Sender(memory, 10 * MIB)
    small.arrive(SMALL_REQUEST_BYTES - 1)
    assert small.may_read


def test_without_a_limit_everybody_reads() -> None:
    memory = RequestMemory(-1)
    senders = [Sender(memory, 100 * MIB) for _ in range(10)]
    for sender in senders:
        sender.arrive(90 * MIB)
        assert sender.may_read


def test_answers_get_smaller_as_unread_ones_grow_and_never_too_small() -> None:
    memory = AnswerMemory(64 * MIB)
    sizes = []
    for connection in range(100):
        sizes.append(memory.next_answer_bytes)
        memory.note(connection, sizes[-1])
    assert sizes[0] == 32 * MIB
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == SMALL_ANSWER_BYTES
    assert memory.used_bytes <= 64 * MIB + 100 * SMALL_ANSWER_BYTES
    for connection in range(100):
        memory.note(connection, 0)
    assert memory.next_answer_bytes == 32 * MIB
