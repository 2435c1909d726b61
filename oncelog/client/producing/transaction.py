"""One transaction as a context manager: commit on a clean exit, abort on an exception.

Owns: the exit rules, what was handed over. Does not own: the protocol (`transaction_manager`). Invariants: what was
handed over is sent before the commit, or there is no commit; a cancelled task still aborts, or still receives the
response to its commit, before the cancellation propagates; a failed abort never hides the exception that caused it; a
transaction that may be committed is never aborted; a prepared one is left to the external coordinator (KIP-939).
"""

import asyncio
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar, Unpack

from oncelog.client.producing.batch import Delivery, ProducerIdentity
from oncelog.client.producing.prepared import PreparedTxnState
from oncelog.client.producing.transaction_manager import TransactionManager
from oncelog.client.producing.transaction_states import TransactionState
from oncelog.client.values.arguments import offsets_of
from oncelog.client.values.errors import AbortableError, ConfigError, InvalidState, KafkaError, RequestTimedOut
from oncelog.client.values.records import ConsumerGroupMetadata, K, Offsets, RecordMetadata, RecordOptions, V

_CANCELLED_PATIENCE_S = 5.0

T = TypeVar("T")
KeyT = TypeVar("KeyT", contravariant=True)
ValueT = TypeVar("ValueT", contravariant=True)


class HasGroupMetadata(Protocol):
    """Anything with `group_metadata()`: a consumer."""

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The group, generation and member that offsets are committed for."""


class Sends(Protocol[KeyT, ValueT]):
    """The producer of a transaction, as the transaction needs it; the producer is built upon transactions."""

    async def send(
        self, topic: str, value: ValueT | None = None, **options: Unpack[RecordOptions[KeyT]]
    ) -> RecordMetadata: ...

    async def send_soon(
        self, topic: str, value: ValueT | None = None, **options: Unpack[RecordOptions[KeyT]]
    ) -> Delivery: ...

    async def send_batch(self, topic: str, partition: int, encoded: bytes | memoryview) -> Delivery: ...


class Transaction(Generic[K, V]):
    """One transaction: commits when the block exits cleanly, aborts when it raises.

        async with producer.transaction() as transaction:
            await transaction.send_soon("totals", b"42")
            await transaction.send_offsets({record.topic_partition: record.offset + 1}, group=consumer)

    Entering raises ProducerFenced, InvalidState if another transaction of this producer is open, and RequestTimedOut. A
    clean exit raises what `commit` raises. Once it has ended, every method raises InvalidState.
    """

    def __init__(self, producer: Sends[K, V], manager: TransactionManager) -> None:
        self._producer = producer
        self._manager = manager
        self._identity = ProducerIdentity()
        self._outcome: str | None = None
        self._unawaited: dict[object, str] = {}
        """The names of calls that are not awaited yet; a mapping, since threads of a blocking client may add to it."""
        self._running_count = 0
        self._none_runs = asyncio.Event()
        self._none_runs.set()

    async def __aenter__(self) -> Self:
        self._manager.lifetime.check_loop()
        await self._manager.begin()
        # The next transaction may have another.
        self._identity = self._manager.producer
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._outcome is not None:
            return
        self._manager.lifetime.check_loop()
        if error is None:
            await self._commit_or_abort()
            return
        if self._manager.state in (TransactionState.FATAL, TransactionState.COMMITTING, TransactionState.PREPARED):
            # Nothing is left to abort, or the transaction may be committed, perhaps by another process.
            await self._manager.explain(error)
            return
        await self._abort_after(error)

    def _note_outcome(self, outcome: str) -> None:
        """Note an outcome that was found elsewhere: the coordinator does not say it to a producer that it fenced."""
        self._outcome = outcome

    @property
    def state(self) -> str:
        """ "open", "failed", "prepared", "committing", "committed", "aborting", "aborted" or "fenced"."""
        return self._outcome or self._manager.state.value

    @property
    def producer_id(self) -> int:
        """The producer id that writes this transaction."""
        return self._identity.producer_id

    @property
    def producer_epoch(self) -> int:
        """The epoch of the producer that writes this transaction."""
        return self._identity.producer_epoch

    def send(
        self, topic: str, value: V | None = None, **options: Unpack[RecordOptions[K]]
    ) -> Coroutine[Any, Any, RecordMetadata]:
        """Send one record and wait until it is written (not committed). Arguments and errors as `Producer.send`; a
        failed record fails the transaction, and so does one that is never awaited."""
        return self._hand_over("send", lambda: self._producer.send(topic, value, **options))

    def send_soon(
        self, topic: str, value: V | None = None, **options: Unpack[RecordOptions[K]]
    ) -> Coroutine[Any, Any, Delivery]:
        """Buffer one record; `commit` waits for it. Arguments and errors as `Producer.send_soon`, and as `send`."""
        return self._hand_over("send_soon", lambda: self._producer.send_soon(topic, value, **options))

    def send_batch(self, topic: str, partition: int, encoded: bytes | memoryview) -> Coroutine[Any, Any, Delivery]:
        """Buffer a whole record batch that was encoded elsewhere; `commit` waits for it. Arguments and errors as
        `Producer.send_batch`."""
        return self._hand_over("send_batch", lambda: self._producer.send_batch(topic, partition, encoded))

    def send_offsets(
        self, offsets: Offsets, *, group: ConsumerGroupMetadata | HasGroupMetadata
    ) -> Coroutine[Any, Any, None]:
        """Commit a group's offsets with this transaction (KIP-447): each is the next offset to read.

            await transaction.send_offsets({TopicPartition("in", 0): 42}, group=consumer)

        Raises ConfigError for a bare group id (pass ConsumerGroupMetadata(group_id) to skip the membership check),
        CommitFailed if the member has lost its partitions, ProducerFenced, and AbortableError.
        """
        return self._hand_over("send_offsets", lambda: self._send_offsets(offsets, group))

    async def _send_offsets(self, offsets: Offsets, group: ConsumerGroupMetadata | HasGroupMetadata) -> None:
        if isinstance(group, str):
            raise ConfigError(
                "send_offsets: group is a plain string",
                hint="pass the consumer, so that a zombie is detected, or ConsumerGroupMetadata(group_id)",
            )
        self._manager.lifetime.check_loop()
        metadata = group if isinstance(group, ConsumerGroupMetadata) else group.group_metadata()
        await self._manager.send_offsets(offsets_of("send_offsets", offsets), metadata)

    def _hand_over(self, name: str, call: Callable[[], Coroutine[Any, Any, T]]) -> Coroutine[Any, Any, T]:
        """Return `call`, registered for the commit. This is no coroutine function, which would not register a call that
        is never awaited."""
        token = object()
        self._unawaited[token] = name
        return self._run(token, call)

    async def _run(self, token: object, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        del self._unawaited[token]
        self._check()
        self._running_count += 1
        self._none_runs.clear()
        try:
            return await call()
        except KafkaError as error:
            self._manager.on_refused(error)
            raise
        finally:
            self._running_count -= 1
            if not self._running_count:
                self._none_runs.set()

    async def _all_handed_over(self) -> None:
        """Wait until every call that was made has ended. Raises if one was never awaited."""
        if self._unawaited:
            name = next(iter(self._unawaited.values()))
            others = f", nor were {len(self._unawaited) - 1} other calls" if len(self._unawaited) > 1 else ""
            raise self._manager.fail(
                AbortableError(
                    f"{name}() was never awaited{others}: what it would have written is not in the transaction",
                    hint=f"await transaction.{name}(...)",
                )
            )
        await self._none_runs.wait()

    async def prepare(self) -> PreparedTxnState:
        """Flush all records and vote to commit (KIP-939). The transaction then stays open, even if this process dies,
        until this object or `Producer.complete` commits or aborts it. Store the returned state (`str`) with the
        external decision.

            state = await transaction.prepare()
            database.commit(decision=str(state))
            await transaction.commit()

        A clean exit commits; an exception leaves it prepared, since the external decision may have been made. Raises
        ConfigError without transaction_two_phase_commit_enable, and the first error of a record that was not delivered.
        """
        self._check_end()
        return await self._to_the_end(self._prepare())

    async def commit(self) -> None:
        """Flush all records and commit.

        Raises the first error of an undelivered record (nothing is committed; abort), ProducerFenced, and CommitUnknown
        if no response came: call commit() again, since the broker knows the outcome.
        """
        self._check_end()
        await self._to_the_end(self._commit())

    async def abort(self) -> None:
        """Drop what is not sent yet and abort. Raises ProducerFenced, RequestTimedOut (the next transaction aborts this
        one first), and InvalidState after a commit was sent."""
        self._check_end()
        await self._to_the_end(self._abort())

    async def _prepare(self) -> PreparedTxnState:
        await self._all_handed_over()
        return await self._manager.prepare()

    async def _commit(self) -> None:
        await self._all_handed_over()
        await self._manager.commit()
        self._outcome = "committed"

    async def _abort(self) -> None:
        await self._manager.abort()
        self._outcome = "aborted"

    async def _commit_or_abort(self) -> None:
        try:
            await self.commit()
        except (KafkaError, asyncio.CancelledError) as error:
            await self._manager.explain(error)
            # Open: it was cancelled while records were still to be written.
            if self._manager.state in (TransactionState.FAILED, TransactionState.OPEN):
                await self._abort_after(error)
            raise

    async def _abort_after(self, error: BaseException) -> None:
        patience_s = _CANCELLED_PATIENCE_S if isinstance(error, asyncio.CancelledError) else None
        try:
            await self._to_the_end(self._abort(), patience_s)
        except KafkaError as problem:
            error.add_note(f"the subsequent abort failed: {problem}")

    async def _to_the_end(self, work: Coroutine[None, None, T], patience_s: float | None = None) -> T:
        return await to_the_end(work, patience_s, on_silence=self._manager.reconnect)

    def _check(self) -> None:
        if self._outcome is not None:
            raise InvalidState(f"the transaction is {self._outcome}")

    def _check_end(self) -> None:
        """`_check` for commit and abort; sending records and offsets checks the loop by itself."""
        self._check()
        self._manager.lifetime.check_loop()


async def to_the_end(
    work: Coroutine[None, None, T], patience_s: float | None = None, *, on_silence: Callable[[], None]
) -> T:
    """Run `work` to completion even when the task is cancelled; the cancellation propagates afterwards.

    Once cancelled, an unresponsive broker gets `_CANCELLED_PATIENCE_S`: the coordinator times the transaction out on
    its own, and a program that is asked to stop must stop. In the middle of it `on_silence` is called: what holds the
    work up may be a connection that has died, and request.timeout.ms is longer.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    waits = [None] if patience_s is None else [patience_s / 2] * 2
    while waits and not task.done():
        try:
            await asyncio.wait((task,), timeout=waits[0])
        except asyncio.CancelledError as error:
            cancelled, waits = error, [_CANCELLED_PATIENCE_S / 2] * 2
            continue
        waits = waits[1:]
        if waits and not task.done():
            on_silence()
    if not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    if cancelled is not None:
        # The caller must see the cancellation; the outcome is in the transaction's state.
        if not task.cancelled():
            task.exception()
        raise cancelled
    if task.cancelled():
        raise RequestTimedOut("the broker did not end the transaction in time")
    return task.result()
