"""One transaction as a context manager: commit on a clean exit, abort on an exception.

Owns: the exit rules. Does not own: the protocol (`transaction_manager`). Invariants: a cancelled task still aborts, or
still hears the answer to its commit, before the cancellation goes on; a failed abort never hides the exception that
caused it; what may be committed is never aborted; what is prepared is left to the outer coordinator (KIP-939).
"""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from oncelog.client.batch import Delivery
from oncelog.client.errors import ConfigError, InvalidState, KafkaError, RequestTimedOut
from oncelog.client.prepared import PreparedTxnState
from oncelog.client.records import ConsumerGroupMetadata, Headers, Offsets, RecordMetadata, as_offset
from oncelog.client.transaction_manager import TransactionManager
from oncelog.client.transaction_states import TransactionState

if TYPE_CHECKING:
    from oncelog.client.producer import Producer

_CANCELLED_PATIENCE_S = 5.0

T = TypeVar("T")


class HasGroupMetadata(Protocol):
    """A consumer."""

    def group_metadata(self) -> ConsumerGroupMetadata: ...


class Transaction:
    """`async with producer.transaction() as transaction`."""

    def __init__(self, producer: "Producer", manager: TransactionManager) -> None:
        self._producer = producer
        self._manager = manager
        self._outcome: str | None = None

    async def __aenter__(self) -> Self:
        await self._manager.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._outcome is not None:
            return
        if error is None:
            await self._commit_or_abort()
            return
        if self._manager.state in (TransactionState.FENCED, TransactionState.COMMITTING, TransactionState.PREPARED):
            # Nothing is left to abort, or what is open may be committed, perhaps by another.
            return
        patience_s = _CANCELLED_PATIENCE_S if isinstance(error, asyncio.CancelledError) else None
        try:
            await to_the_end(self._abort(), patience_s)
        except KafkaError as problem:
            error.add_note(f"the abort that followed failed: {problem}")

    @property
    def state(self) -> str:
        """ "open", "failed", "committing", "committed", "aborting", "aborted" or "fenced"."""
        return self._outcome or self._manager.state.value

    @property
    def producer_id(self) -> int:
        return self._manager.producer.producer_id

    @property
    def producer_epoch(self) -> int:
        return self._manager.producer.producer_epoch

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """Send one record and wait until it is written (not: committed)."""
        self._check()
        return await self._producer.send(
            topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
        )

    async def send_soon(
        self,
        topic: str,
        value: bytes | None = None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Hand over one record; commit waits for it."""
        self._check()
        return await self._producer.send_soon(
            topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
        )

    async def send_offsets(self, offsets: Offsets, *, group: ConsumerGroupMetadata | HasGroupMetadata) -> None:
        """Commit a group's offsets with this transaction. A bare group id is refused: wrap it in
        ConsumerGroupMetadata(group_id) if no membership shall be checked."""
        self._check()
        if isinstance(group, str):
            raise ConfigError(
                "send_offsets: group is a bare string",
                hint="pass the consumer, so that a zombie is recognised, or ConsumerGroupMetadata(group_id)",
            )
        metadata = group if isinstance(group, ConsumerGroupMetadata) else group.group_metadata()
        await self._manager.send_offsets({key: as_offset(value) for key, value in offsets.items()}, metadata)

    async def prepare(self) -> PreparedTxnState:
        """Everything is written and stays, whatever becomes of this process, until it is committed or aborted: by this
        transaction, or by `Producer.complete` with the state that this returns. Keep it (`str`) with the decision.

        A clean exit commits; an exception leaves it prepared, since the outer decision may have been made.
        """
        self._check()
        return await to_the_end(self._manager.prepare())

    async def commit(self) -> None:
        """Commit now. After CommitUnknown call it again: the broker remembers the outcome."""
        self._check()
        await to_the_end(self._commit())

    async def abort(self) -> None:
        self._check()
        await to_the_end(self._abort())

    async def _commit(self) -> None:
        await self._manager.commit()
        self._outcome = "committed"

    async def _abort(self) -> None:
        await self._manager.abort()
        self._outcome = "aborted"

    async def _commit_or_abort(self) -> None:
        try:
            await self.commit()
        except (KafkaError, asyncio.CancelledError) as error:
            if self._manager.state is TransactionState.FAILED:
                try:
                    await self.abort()
                except KafkaError as problem:
                    error.add_note(f"the abort that followed failed: {problem}")
            raise

    def _check(self) -> None:
        if self._outcome is not None:
            raise InvalidState(f"the transaction is {self._outcome}")


async def to_the_end(work: Coroutine[None, None, T], patience_s: float | None = None) -> T:
    """Run `work` to its end even when the task is cancelled; the cancellation goes on afterwards.

    Once cancelled, a broker that does not answer gets `_CANCELLED_PATIENCE_S`: the coordinator ends the transaction in
    its own time, and a program that is told to stop must stop.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            done, _ = await asyncio.wait((task,), timeout=patience_s)
        except asyncio.CancelledError as error:
            cancelled = error
            patience_s = _CANCELLED_PATIENCE_S
            continue
        if not done:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            break
    if cancelled is not None:
        # The cancellation is what the caller must hear of; the outcome is in the transaction's state.
        if not task.cancelled():
            task.exception()
        raise cancelled
    if task.cancelled():
        raise RequestTimedOut("the broker did not end the transaction in time")
    return task.result()
