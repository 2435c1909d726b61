"""Writing from this console: records, and transactions that wait for a person to end them.

Owns: the console's producers, the transactions that it has open, and their limit. Does not own: the form as it was
typed (`drafts`), who may write (`security`).
Invariants
- No page waits for a person, or for a broker that holds a request: work that takes longer than a page may continues in
  the background, and the next page shows its result.
- Each transaction has a producer of its own, so that one of the same id fences those before it, as a new instance of a
  program would. It is closed once its transaction has ended.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from oncelog.client.options.option_types import SecurityOptions
from oncelog.client.producing.producer import Producer
from oncelog.client.producing.transaction import Transaction
from oncelog.client.values.errors import KafkaError
from oncelog.client.values.records import RecordMetadata
from oncelog.console.drafts import Draft
from oncelog.console.query import BadQuery
from oncelog.tools.asking import NotFound

MOST_TRANSACTIONS = 16
"""The most transactions that are open at once, each with connections of its own; so many that have ended are shown."""
MOST_WAITING = 100
"""The most records of a transaction that may be without an acknowledgement."""
TIMEOUTS_MS = (300_000, 60_000, 900_000)
"""The timeouts that a transaction may have; brokers allow up to 15 minutes, if nothing else is set."""
_LOOK_S = 1.0
"""How long a page waits for what it has asked for, before it shows that it has no response yet."""
_PATIENT_MS = 3_600_000
"""How long the producer of a transaction waits for a response: its requests may be held, for as long as a class talks
about it."""
_ENDED = frozenset(("committed", "aborted", "fenced"))


@dataclass(slots=True, eq=False)
class OwnTransaction:
    """A transaction that this console has begun."""

    number: int
    transactional_id: str
    producer: Producer
    transaction: Transaction
    written: list[RecordMetadata] = field(default_factory=list)
    waiting_count: int = 0
    """The records that have been sent and are not acknowledged."""
    asked: str = ""
    """How it was to end, "commit" or "abort", if it was."""
    task: "asyncio.Task[None] | None" = None
    error: str = ""
    """Why the last thing did not work."""

    @property
    def state(self) -> str:
        """The client's state of it: "open", "committing", "committed", "fenced", ..."""
        return self.transaction.state

    @property
    def is_ending(self) -> bool:
        return self.task is not None and not self.task.done()

    @property
    def has_ended(self) -> bool:
        return self.state in _ENDED and not self.is_ending

    @property
    def ends(self) -> tuple[str, ...]:
        """How it may be ended now: what may be committed is never aborted."""
        if self.is_ending or self.has_ended:
            return ()
        return {"committing": ("commit",), "failed": ("abort",), "aborting": ("abort",)}.get(
            self.state, ("commit", "abort")
        )


class Writer:
    """The console's producers, opened when they are needed. Each method raises KafkaError or OSError."""

    def __init__(self, bootstrap: str, timeout_ms: float, security: SecurityOptions) -> None:
        self._bootstrap = bootstrap
        self._timeout_ms = timeout_ms
        self._security = security
        self._plain: Producer | None = None
        self._opening = asyncio.Lock()
        self._transactions: dict[int, OwnTransaction] = {}
        self._count = 0
        self._background: set[asyncio.Task[Any]] = set()

    async def close(self) -> None:
        """Abort what is open, as far as the broker responds at once, and close all producers."""
        if self._plain is not None:
            await self._plain.close(self._timeout_ms)
        for each in self._transactions.values():
            await self._close(each)
        for task in [*self._background]:
            task.cancel()

    @property
    def transactions(self) -> list[OwnTransaction]:
        """Return those of this console, the newest first."""
        return [*self._transactions.values()][::-1]

    def find(self, number: int) -> OwnTransaction:
        """Raises NotFound."""
        found = self._transactions.get(number)
        if found is None:
            raise NotFound(f"this console has no transaction {number}")
        return found

    async def send(self, draft: Draft) -> RecordMetadata:
        """Write a record outside any transaction."""
        producer = await self._opened()
        return await producer.send(
            draft.topic, draft.value, key=draft.key, headers=draft.headers, partition=draft.partition
        )

    async def _opened(self) -> Producer:
        async with self._opening:
            if self._plain is None:
                options: Any = {
                    "client_id": "oncelog-console",
                    "linger_ms": 0,
                    "max_block_ms": self._timeout_ms,
                    "delivery_timeout_ms": self._timeout_ms,
                    **self._security,
                }
                self._plain = await Producer(self._bootstrap, **options).__aenter__()
            return self._plain

    async def begin(self, transactional_id: str, timeout_ms: int) -> OwnTransaction:
        """Begin a transaction; the producers that had this id are fenced. Raises BadQuery."""
        if not transactional_id:
            raise BadQuery("a transaction needs a transactional id")
        if sum(not each.has_ended for each in self._transactions.values()) >= MOST_TRANSACTIONS:
            raise BadQuery(f"this console has {MOST_TRANSACTIONS} transactions open: end one first")
        options: Any = {
            "client_id": "oncelog-console",
            "linger_ms": 0,
            "transactional_id": transactional_id,
            "transaction_timeout_ms": timeout_ms,
            "max_block_ms": _PATIENT_MS,
            "delivery_timeout_ms": _PATIENT_MS,
            "request_timeout_ms": _PATIENT_MS,
            **self._security,
        }
        producer = Producer(self._bootstrap, **options)
        transaction: Transaction | None = None
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await producer.__aenter__()
                transaction = await producer.transaction().__aenter__()
        except TimeoutError:
            raise BadQuery(
                f"the coordinator has given no epoch to {transactional_id!r} within {self._timeout_ms:.0f} ms: an "
                "earlier transaction of it may wait for its markers"
            ) from None
        finally:
            if transaction is None:
                await producer.close(0)
        self._count += 1
        begun = self._transactions[self._count] = OwnTransaction(self._count, transactional_id, producer, transaction)
        self._forget_ended()
        return begun

    def _forget_ended(self) -> None:
        ended = [number for number, each in self._transactions.items() if each.has_ended]
        for number in ended[: max(0, len(ended) - MOST_TRANSACTIONS)]:
            del self._transactions[number]

    async def send_in(self, own: OwnTransaction, draft: Draft) -> RecordMetadata | None:
        """Write a record in a transaction. Returns None if it is not acknowledged yet. Raises BadQuery."""
        if own.waiting_count >= MOST_WAITING:
            raise BadQuery(
                f"{own.waiting_count} records of transaction {own.number} are not acknowledged: wait for them"
            )
        task = asyncio.ensure_future(self._sent(own, draft))
        await self._watch(task)
        return task.result() if task.done() else None

    async def _sent(self, own: OwnTransaction, draft: Draft) -> RecordMetadata:
        own.waiting_count += 1
        try:
            written = await own.transaction.send(
                draft.topic, draft.value, key=draft.key, headers=draft.headers, partition=draft.partition
            )
        except KafkaError as error:
            own.error = error.message
            raise
        finally:
            own.waiting_count -= 1
        own.written.append(written)
        return written

    async def end(self, own: OwnTransaction, how: str) -> None:
        """Commit or abort a transaction, and return when that is done or takes long. Raises BadQuery."""
        if how not in own.ends:
            raise BadQuery(f"transaction {own.number} of {own.transactional_id!r} is {own.state}: no {how} is possible")
        own.asked, own.error = how, ""
        ending = own.transaction.commit() if how == "commit" else own.transaction.abort()
        own.task = asyncio.ensure_future(self._end(own, ending))
        await self._watch(own.task)

    async def _end(self, own: OwnTransaction, ending: Coroutine[Any, Any, None]) -> None:
        try:
            await ending
        except KafkaError as error:
            own.error = error.message
        if own.state in _ENDED:
            await own.producer.close(0)

    async def _watch(self, task: "asyncio.Task[Any]") -> None:
        """Wait for the task as long as a page may, and keep it until it is done."""
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # retrieved, even if no page waits
        await asyncio.wait((task,), timeout=_LOOK_S)

    async def _close(self, own: OwnTransaction) -> None:
        if not own.has_ended:
            with suppress(KafkaError, OSError):
                await own.producer.close(self._timeout_ms)
