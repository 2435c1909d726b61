"""Bounds on the memory of all connections together: waiting requests, unsent responses.

Owns: the sums, which connections may read, which are closed. Does not own: the buffers (`broker.net.connection`).
Invariants
- Every byte counts; the sum stays below the limit plus one allowance, the largest request.
- When memory is short, its holders must make progress. A holder that has moved less than a sixtieth of its bytes in
  each of the last `_SLOW_CHECKS` checks, half a second apart, is closed for the benefit of the waiting ones: one that
  keeps pace is done within 30 s, Kafka's request timeout, and no client waits longer. While there is enough, none is
  closed.
- Those that may read are counted with what their next read brings: all may come in one turn, before any can wait.
- Requests complete one by one: the oldest may always read, and so may those with little missing. A request that arrives
  in one piece never waits.
- Near the bound of unsent responses, the next ones get smaller, down to `SMALL_ANSWER_BYTES`.
"""

from collections.abc import Callable
from typing import Protocol

SMALL_ANSWER_BYTES = 1 << 20
CHECK_INTERVAL_MS = 500
_PACE = 60
_SLOW_CHECKS = 4
_PROBE_BYTES = 1 << 16
"""How much of a request arrives before it is made to wait: before that it might be a stalled one, and is checked."""
_CHUNK_BYTES = 1 << 18
"""About the size of one read of a socket (uvloop: 250 KB)."""


class Holder(Protocol):
    def on_memory(self) -> None:
        """Read again, after having been made to wait."""

    def close_for_memory(self, reason: str) -> None:
        """End at once, and release all memory."""

    @property
    def is_held_up(self) -> bool:
        """Whether its requests wait for the broker, so that it need not make progress."""

    @property
    def is_unread(self) -> bool:
        """Whether its client does not read what was written."""

    def note_answers(self) -> None:
        """Update the account of what is unsent."""


class _Account:
    """The bytes one connection holds; `missing_bytes` must still arrive before they can be released."""

    __slots__ = ("held_bytes", "missing_bytes", "moved_bytes", "stalled_checks", "unsent_bytes")

    def __init__(self) -> None:
        self.held_bytes = 0
        self.unsent_bytes = 0
        """The part of a response that is unsent."""
        self.missing_bytes = 0
        self.moved_bytes = 0
        self.stalled_checks = 0

    def check(self) -> None:
        keeps_pace = self.moved_bytes * _PACE >= self.held_bytes + self.missing_bytes
        self.stalled_checks = 0 if keeps_pace else self.stalled_checks + 1
        self.moved_bytes = 0

    @property
    def is_slow(self) -> bool:
        return self.stalled_checks >= _SLOW_CHECKS and self.moved_bytes * _PACE < self.held_bytes + self.missing_bytes

    @property
    def badness(self) -> tuple[int, int, int]:
        return self.stalled_checks, self.missing_bytes, self.held_bytes


class _Ledger:
    """The accounts of all holders of one kind of memory, in the order they were opened."""

    def __init__(self, kind: str, limit_bytes: int, allowance_bytes: int, on_first: Callable[[], None]) -> None:
        """`limit_bytes` of -1 is no limit. `on_first` is called when the first account is opened."""
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
        """The bytes left of the allowance, at most all of it."""
        return min(self._allowance_bytes, self._limit_bytes + self._allowance_bytes - self.used_bytes)

    def close_slow(self, bytes_below_limit: int) -> None:
        """Close all slow holders unless that much is free: closed one by one, each would delay the waiting ones."""
        if self.is_above(bytes_below_limit):
            for holder in [holder for holder, account in self.accounts.items() if account.is_slow]:
                if holder in self.accounts:
                    self._end(holder)

    def close_above_allowance(self) -> None:
        """Close holders, slow or not: the one furthest behind, the first among equals, but never the oldest while there
        is another."""
        while self.is_above(-self._allowance_bytes):
            oldest, *others = self.accounts
            self._end(max(others or [oldest], key=lambda holder: self.accounts[holder].badness))

    def _end(self, holder: Holder) -> None:
        account = self.accounts[holder]
        self.close(holder)
        missing = f" of {account.held_bytes + account.missing_bytes}" if account.missing_bytes else ""
        holder.close_for_memory(
            f"memory for {self._kind} is short, and {account.held_bytes}{missing} bytes were held here; "
            f"too few moved for {account.stalled_checks * CHECK_INTERVAL_MS} ms"
        )


class RequestMemory:
    """Requests that have begun to arrive and are not being served yet, by connection, the oldest first."""

    def __init__(self, limit_bytes: int, allowance_bytes: int, on_first: Callable[[], None]) -> None:
        self._ledger = _Ledger("requests", limit_bytes, allowance_bytes, on_first)
        self._room_bytes = max(limit_bytes, 0) // 4
        """Reserved for the missing parts of requests that need not wait for the oldest."""
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
        """Note how much `reader` now holds, and how much is missing of its current request; return whether it may read
        more. If not, its `on_memory` is called when it may."""
        ledger = self._ledger
        account = ledger.accounts.get(reader)
        before = account.held_bytes if account is not None else 0
        if held_bytes < before or not held_bytes:
            # A request has ended, and anything left is the beginning of another.
            self.forget(reader)
            account = None
        if not held_bytes:
            return True
        account = account or ledger.open(reader)
        ledger.set(account, held_bytes, missing_bytes, held_bytes - account.held_bytes)
        if not ledger.is_above(self._kept_free_bytes):
            return True
        ledger.close_above_allowance()
        if reader not in ledger.accounts or not self._must_wait(reader, account):
            return reader in ledger.accounts
        self._waiting[reader] = None
        ledger.close_slow(self._kept_free_bytes)
        self._wake()
        return reader in ledger.accounts and reader not in self._waiting

    def forget(self, reader: Holder) -> None:
        had = self._ledger.accounts.get(reader)
        self._waiting.pop(reader, None)
        self._hurrying_bytes -= self._hurrying.pop(reader, 0)
        self._ledger.close(reader)
        if had is not None and self._waiting:
            self._wake()

    def check(self) -> None:
        """Close stalled holders that could have moved, and wake waiting ones; called every `CHECK_INTERVAL_MS`."""
        for reader, account in self._ledger.accounts.items():
            if reader not in self._waiting and not reader.is_held_up:
                account.check()
        if self._waiting:
            self._ledger.close_slow(self._kept_free_bytes)
            self._wake()
            self._probe()

    @property
    def _kept_free_bytes(self) -> int:
        """The bytes kept free: the reserved room, and what those that may read bring with the next read of each. All of
        them may come in one turn, before any can be made to wait, and none that moves is to be closed for it."""
        return self._room_bytes + (len(self._ledger.accounts) - len(self._waiting)) * _CHUNK_BYTES

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
        """Let waiting connections read, in the order they started to wait: no more at once than there is space for the
        next read of each."""
        ledger = self._ledger
        for reader in list(self._waiting):
            account = ledger.accounts.get(reader)
            if account is None or reader not in self._waiting:
                continue
            if ledger.is_above(self._kept_free_bytes + _CHUNK_BYTES) and self._must_wait(reader, account):
                continue
            self._resume(reader, account)

    def _probe(self) -> None:
        """Let some of the waiting ones read once, into half of the allowance: they make progress, or prove to be
        stalled."""
        for reader in list(self._waiting)[: self._ledger.spare_bytes // 2 // _CHUNK_BYTES]:
            if reader in self._waiting:
                self._resume(reader, self._ledger.accounts[reader])

    def _resume(self, reader: Holder, account: _Account) -> None:
        del self._waiting[reader]
        account.moved_bytes = 0
        reader.on_memory()


class AnswerMemory:
    """Unsent bytes of responses, by connection."""

    def __init__(self, limit_bytes: int, allowance_bytes: int, on_first: Callable[[], None]) -> None:
        self._limit_bytes = limit_bytes
        self.peak_bytes = 0
        """The most that was used since the owner set this to 0."""
        self._ledger = _Ledger("answers", limit_bytes, allowance_bytes, on_first)

    @property
    def used_bytes(self) -> int:
        return self._ledger.used_bytes

    @property
    def is_empty(self) -> bool:
        return not self._ledger.accounts

    def note(self, connection: Holder, held_bytes: int, sent_bytes: int = 0) -> None:
        """Note unsent bytes. `sent_bytes` of these were taken by the client's side, and free no memory before the rest
        was."""
        ledger = self._ledger
        if not held_bytes:
            ledger.close(connection)
            return
        account = ledger.accounts.get(connection) or ledger.open(connection)
        unsent_bytes = held_bytes - sent_bytes
        ledger.set(account, held_bytes, 0, max(0, account.unsent_bytes - unsent_bytes))
        account.unsent_bytes = unsent_bytes
        self.peak_bytes = max(self.peak_bytes, ledger.used_bytes)
        if ledger.is_above(0):
            ledger.close_slow(0)
            ledger.close_above_allowance()

    def forget(self, connection: Holder) -> None:
        self._ledger.close(connection)

    def check(self) -> None:
        for connection, account in list(self._ledger.accounts.items()):
            connection.note_answers()
            if connection.is_unread:
                account.check()
        if self._ledger.is_above(0):
            self._ledger.close_slow(0)

    def next_response_bytes(self) -> int:
        """The size limit of the next response with records: half of what is left, so that several may follow at
        once."""
        return max(SMALL_ANSWER_BYTES, (self._limit_bytes - self.used_bytes) // 2)
