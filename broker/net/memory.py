"""Bounds on what all connections together keep in memory: requests that wait, answers that are not sent.

Owns: the sums, who may read on, who must go. Does not own: the buffers (`broker.net.connection`).
Invariants
- Every byte counts, whoever holds it; the sum stays below the limit and one allowance, the largest request.
- Where memory is short, progress is demanded of what holds it. A holder that has moved less than a sixtieth of its
  bytes in each of the last `_SLOW_LOOKS` looks, half a second apart, is closed for those that wait: what keeps pace is
  through within 30 s, Kafka's request timeout, and no client waits longer. While there is enough, none is closed.
- Requests end one by one: the oldest is always read on, and those of which little is missing beside it. A request that
  comes in one piece never waits.
- Near the bound of unsent answers, the next ones get smaller, down to `SMALL_ANSWER_BYTES`.
"""

from collections.abc import Callable
from typing import Protocol

SMALL_ANSWER_BYTES = 1 << 20
LOOK_INTERVAL_MS = 500
_PACE = 60
_SLOW_LOOKS = 4
_PROBE_BYTES = 1 << 16
"""A request is made to wait once it has brought so much: till then it might be one that has stopped, and is judged."""
_CHUNK_BYTES = 1 << 18
"""About as much as one read of a socket brings (uvloop: 250 KB)."""


class Holder(Protocol):
    def on_memory(self) -> None:
        """It may read on, after it was made to wait."""

    def close_for_memory(self, reason: str) -> None:
        """End at once, and let go of everything."""

    @property
    def is_held_up(self) -> bool:
        """Its requests wait for the broker, so it need not move."""

    @property
    def is_unread(self) -> bool:
        """Its client does not read what was written."""

    def note_answers(self) -> None:
        """Note what is unsent by now."""


class _Account:
    """What one connection holds; `missing_bytes` are still to come before it can be let go of."""

    __slots__ = ("held_bytes", "missing_bytes", "moved_bytes", "quiet_looks")

    def __init__(self) -> None:
        self.held_bytes = 0
        self.missing_bytes = 0
        self.moved_bytes = 0
        self.quiet_looks = 0

    def look(self) -> None:
        keeps_pace = self.moved_bytes * _PACE >= self.held_bytes + self.missing_bytes
        self.quiet_looks = 0 if keeps_pace else self.quiet_looks + 1
        self.moved_bytes = 0

    @property
    def is_slow(self) -> bool:
        return self.quiet_looks >= _SLOW_LOOKS and self.moved_bytes * _PACE < self.held_bytes + self.missing_bytes

    @property
    def badness(self) -> tuple[int, int, int]:
        return self.quiet_looks, self.missing_bytes, self.held_bytes


class _Ledger:
    """The accounts of all holders of one kind of memory, in the order in which they began."""

    def __init__(self, kind: str, limit_bytes: int, allowance_bytes: int, on_first: Callable[[], None]) -> None:
        """`limit_bytes` may be -1: there is none. `on_first` hears of the first account of many or few."""
        self._kind = kind
        self._on_first = on_first
        self._limit_bytes = limit_bytes
        self._allowance_bytes = allowance_bytes
        self.accounts: dict[Holder, _Account] = {}
        self.used_bytes = 0

    def open(self, holder: Holder) -> _Account:
        account = self.accounts[holder] = _Account()
        if len(self.accounts) == 1:
            self._on_first()
        return account

    def set(self, account: _Account, held_bytes: int, missing_bytes: int, moved_bytes: int) -> None:
        self.used_bytes += held_bytes - account.held_bytes
        account.held_bytes = held_bytes
        account.missing_bytes = missing_bytes
        account.moved_bytes += moved_bytes

    def close(self, holder: Holder) -> None:
        account = self.accounts.pop(holder, None)
        if account is not None:
            self.used_bytes -= account.held_bytes

    def is_above(self, bytes_below_limit: int) -> bool:
        return 0 <= self._limit_bytes < self.used_bytes + bytes_below_limit

    @property
    def spare_bytes(self) -> int:
        """What is left of the allowance, or all of it."""
        return min(self._allowance_bytes, self._limit_bytes + self._allowance_bytes - self.used_bytes)

    def close_slow(self, bytes_below_limit: int) -> None:
        """All of them, if there is not so much room: one by one, those that wait would wait for each."""
        if self.is_above(bytes_below_limit):
            for holder in [holder for holder, account in self.accounts.items() if account.is_slow]:
                if holder in self.accounts:
                    self._end(holder)

    def close_above_allowance(self) -> None:
        """Slow or not: who is furthest behind, of equals the first, but not the very first while there is another."""
        while self.is_above(-self._allowance_bytes):
            oldest, *others = self.accounts
            self._end(max(others or [oldest], key=lambda holder: self.accounts[holder].badness))

    def _end(self, holder: Holder) -> None:
        account = self.accounts[holder]
        self.close(holder)
        missing = f" of {account.held_bytes + account.missing_bytes}" if account.missing_bytes else ""
        holder.close_for_memory(
            f"memory for {self._kind} is short, and {account.held_bytes}{missing} bytes were held here; "
            f"too few moved for {account.quiet_looks * LOOK_INTERVAL_MS} ms"
        )


class RequestMemory:
    """Requests that have begun to arrive and have not begun to be served, by connection, the oldest first."""

    def __init__(self, limit_bytes: int, allowance_bytes: int, on_first: Callable[[], None]) -> None:
        self._ledger = _Ledger("requests", limit_bytes, allowance_bytes, on_first)
        self._room_bytes = max(limit_bytes, 0) // 4
        """Set apart for what is missing of requests that need not wait for the oldest."""
        self._hurrying: dict[Holder, int] = {}
        self._hurrying_bytes = 0
        self._waiting: dict[Holder, None] = {}

    @property
    def used_bytes(self) -> int:
        return self._ledger.used_bytes

    @property
    def is_empty(self) -> bool:
        return not self._ledger.accounts

    def note(self, reader: Holder, held_bytes: int, missing_bytes: int = 0) -> bool:
        """`reader` holds so much now, and so much is missing of the request at hand; whether it may read on. If not, it
        hears of it when it may."""
        ledger = self._ledger
        account = ledger.accounts.get(reader)
        before = account.held_bytes if account is not None else 0
        if held_bytes < before or not held_bytes:
            # A request has ended, and whatever is left is the beginning of another.
            self.forget(reader)
            account = None
        if not held_bytes:
            return True
        account = account or ledger.open(reader)
        ledger.set(account, held_bytes, missing_bytes, held_bytes - account.held_bytes)
        if not ledger.is_above(self._room_bytes):
            return True
        ledger.close_above_allowance()
        if reader not in ledger.accounts or not self._must_wait(reader, account):
            return reader in ledger.accounts
        self._waiting[reader] = None
        ledger.close_slow(self._room_bytes)
        self._wake()
        return reader in ledger.accounts and reader not in self._waiting

    def forget(self, reader: Holder) -> None:
        had = self._ledger.accounts.get(reader)
        self._waiting.pop(reader, None)
        self._hurrying_bytes -= self._hurrying.pop(reader, 0)
        self._ledger.close(reader)
        if had is not None and self._waiting:
            self._wake()

    def look(self) -> None:
        """Called every `LOOK_INTERVAL_MS`: those that could have moved are judged, those that wait let read."""
        for reader, account in self._ledger.accounts.items():
            if reader not in self._waiting and not reader.is_held_up:
                account.look()
        if self._waiting:
            self._ledger.close_slow(self._room_bytes)
            self._wake()
            self._probe()

    def _must_wait(self, reader: Holder, account: _Account) -> bool:
        if account.moved_bytes < _PROBE_BYTES or reader in self._hurrying:
            return False
        if next(iter(self._ledger.accounts)) is reader:
            return False
        if self._hurrying_bytes + account.missing_bytes <= self._room_bytes:
            self._hurrying[reader] = account.missing_bytes
            self._hurrying_bytes += account.missing_bytes
            return False
        return True

    def _wake(self) -> None:
        """Let read who may, in the order in which they came to wait: no more at once than there is room for what the
        next read of each brings."""
        ledger, woken = self._ledger, 0
        for reader in list(self._waiting):
            account = ledger.accounts.get(reader)
            if account is None or reader not in self._waiting:
                continue
            if not ledger.is_above(self._room_bytes + (woken + 1) * _CHUNK_BYTES):
                woken += 1
            elif self._must_wait(reader, account):
                continue
            self._resume(reader, account)

    def _probe(self) -> None:
        """Let some of those that wait read once, into half of the allowance: they move, or are seen to have stopped."""
        for reader in list(self._waiting)[: self._ledger.spare_bytes // 2 // _CHUNK_BYTES]:
            if reader in self._waiting:
                self._resume(reader, self._ledger.accounts[reader])

    def _resume(self, reader: Holder, account: _Account) -> None:
        del self._waiting[reader]
        account.moved_bytes = 0
        reader.on_memory()


class AnswerMemory:
    """Bytes of answers that could not be sent yet, by connection."""

    def __init__(self, limit_bytes: int, allowance_bytes: int, on_first: Callable[[], None]) -> None:
        self._limit_bytes = limit_bytes
        self._ledger = _Ledger("answers", limit_bytes, allowance_bytes, on_first)

    @property
    def used_bytes(self) -> int:
        return self._ledger.used_bytes

    @property
    def is_empty(self) -> bool:
        return not self._ledger.accounts

    def note(self, connection: Holder, unsent_bytes: int) -> None:
        ledger = self._ledger
        if not unsent_bytes:
            ledger.close(connection)
            return
        account = ledger.accounts.get(connection) or ledger.open(connection)
        ledger.set(account, unsent_bytes, 0, max(0, account.held_bytes - unsent_bytes))
        if ledger.is_above(0):
            ledger.close_slow(0)
            ledger.close_above_allowance()

    def forget(self, connection: Holder) -> None:
        self._ledger.close(connection)

    def look(self) -> None:
        for connection, account in list(self._ledger.accounts.items()):
            connection.note_answers()
            if connection.is_unread:
                account.look()
        if self._ledger.is_above(0):
            self._ledger.close_slow(0)

    @property
    def next_answer_bytes(self) -> int:
        """How large the next answer with records may be: half of what is left, so that many may come at once."""
        return max(SMALL_ANSWER_BYTES, (self._limit_bytes - self.used_bytes) // 2)
