"""Fetches of chunks, in the order in which they are to be sent, and what is held of chunks.

Owns: what is on its way. Invariants
- It is at most `IN_FLIGHT` statements, and one is sent only while fewer than `IN_FLIGHT_BYTES` are on their way.
- Chunks that a reader waits for go before prefetched ones, and each log has its turn.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from oncelog.broker.log.store import StoreDamagedError, StoreError
from oncelog.broker.storage.sections import LogKey
from oncelog.broker.storage.shared.batches import ChunkBatches, loaded
from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import ChunkRow, FetchChunk
from oncelog.broker.turns.completion import Completion

IN_FLIGHT_BYTES = 4 * 1024 * 1024
IN_FLIGHT = 8


class Held(Protocol):
    @property
    def held_bytes(self) -> int:
        """The memory that it takes."""


HeldT = TypeVar("HeldT", bound=Held)


class Bounded(Generic[HeldT]):
    """A cache by chunk id with a limit of bytes; it evicts the least recently used first."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.held_bytes = 0
        self._held: OrderedDict[int, HeldT] = OrderedDict()

    def __contains__(self, chunk_id: int) -> bool:
        return chunk_id in self._held

    def get(self, chunk_id: int) -> HeldT | None:
        found = self._held.get(chunk_id)
        if found is not None:
            self._held.move_to_end(chunk_id)
        return found

    def take(self, chunk_id: int) -> None:
        """Drop the chunk, if it is held."""
        gone = self._held.pop(chunk_id, None)
        if gone is not None:
            self.held_bytes -= gone.held_bytes

    def put(self, chunk_id: int, value: HeldT) -> list[int]:
        """Hold the value. Returns the ids of the chunks that were evicted for it."""
        self.take(chunk_id)
        self._held[chunk_id] = value
        self.held_bytes += value.held_bytes
        gone: list[int] = []
        while self.held_bytes > self._limit_bytes:
            gone.append(next(iter(self._held)))
            self.take(gone[-1])
        return gone


class _Fetch:
    __slots__ = ("fetched", "is_sent", "row")

    def __init__(self, row: ChunkRow) -> None:
        self.row = row
        self.is_sent = False
        self.fetched: Completion[ChunkBatches | None] = Completion()


class _Turns:
    """Fetches that wait, in an order in which each log has its turn."""

    def __init__(self) -> None:
        self._logs: OrderedDict[LogKey, deque[_Fetch]] = OrderedDict()

    def add(self, fetch: _Fetch) -> None:
        self._logs.setdefault(fetch.row.key, deque()).append(fetch)

    def next(self) -> _Fetch | None:
        while self._logs:
            key, fetches = self._logs.popitem(last=False)
            fetch = fetches.popleft()
            if fetches:
                self._logs[key] = fetches
            if not fetch.is_sent:
                return fetch
        return None


class Fetches:
    def __init__(self, statements: Statements, on_fetched: Callable[[ChunkRow, ChunkBatches | None], None]) -> None:
        """`on_fetched` is called with each chunk and its batches, before its waiters; with None if there are none, for
        any reason."""
        self._statements = statements
        self._on_fetched = on_fetched
        self._fetches: dict[int, _Fetch] = {}
        self._wanted, self._ahead = _Turns(), _Turns()
        self._in_flight = 0
        self._in_flight_bytes = 0

    def __contains__(self, chunk_id: int) -> bool:
        return chunk_id in self._fetches

    def get(self, row: ChunkRow) -> Completion[ChunkBatches | None]:
        """Fetch the chunk before those that are prefetched; None if it is gone. Fails with StoreError or
        StoreDamagedError."""
        fetch = self._fetches.setdefault(row.id, _Fetch(row))
        if not fetch.is_sent:
            self._wanted.add(fetch)
            self._send()
        return fetch.fetched

    def ask_ahead(self, row: ChunkRow) -> None:
        """Fetch it when the queue is empty."""
        fetch = self._fetches[row.id] = _Fetch(row)
        self._ahead.add(fetch)
        self._send()

    def _send(self) -> None:
        while self._in_flight < IN_FLIGHT and self._in_flight_bytes < IN_FLIGHT_BYTES:
            fetch = self._wanted.next() or self._ahead.next()
            if fetch is None:
                return
            fetch.is_sent = True
            self._in_flight += 1
            self._in_flight_bytes += fetch.row.size_bytes
            self._statements.ask(FetchChunk(fetch.row.id)).then(partial(self._on_answer, fetch))

    def _on_answer(self, fetch: _Fetch, answer: Completion[bytes | None]) -> None:
        del self._fetches[fetch.row.id]
        self._in_flight -= 1
        self._in_flight_bytes -= fetch.row.size_bytes
        self._send()
        batches: ChunkBatches | None = None
        error = answer.error
        try:
            if error is None and (body := answer.result()) is not None:
                batches = loaded(fetch.row, body)
        except StoreDamagedError as damage:
            error = damage
        self._on_fetched(fetch.row, batches)
        if error is None:
            fetch.fetched.complete(batches)
        else:
            fetch.fetched.fail(StoreError(str(error)) if isinstance(error, OSError) else error)
