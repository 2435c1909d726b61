"""Read-process-write as a loop: each batch of records is one transaction, which its group's offsets are part of.

Owns: a consumer and a producer, which offsets a transaction commits, what happens to a batch that does not commit. Does
not own: the protocol of transactions (`producing`), membership (`groups`).

Invariants
- What is committed is exactly the batch: its results, and the positions after it.
- A batch that was not committed comes again, here or at the member that owns its partitions by then; one whose producer
  was fenced when it asked to commit, only if the group's offsets say that it was not: they carry the mark of the batch
  that committed them, for the same offset may be that of an earlier commit, before a seek back.
- Partitions are revoked only between batches, when no transaction is open; a member that lost them commits nothing
  (KIP-447).
- Positions are the group's: a producer that is given another id is one whose commits may be lost, as after a restore or
  a promotion. Then reading continues where the group is, before the next transaction begins.
- A batch is left uncommitted without an exception only for what passes by itself: a rebalance, a lost connection.
"""

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import fields
from types import TracebackType
from typing import Any, Generic, Self, Unpack, overload

from oncelog.client.consuming.consumer import Consumer
from oncelog.client.options.option_types import (
    ConsumerOptions,
    ProducerOptions,
    SecurityOptions,
    SessionConsumerOptions,
    SessionOptions,
)
from oncelog.client.options.settings import ConsumerSettings, ProducerSettings, SessionSettings
from oncelog.client.producing.batch import Delivery
from oncelog.client.producing.producer import Producer
from oncelog.client.producing.transaction import Transaction
from oncelog.client.values.arguments import check_topics
from oncelog.client.values.errors import (
    CommitFailed,
    CommitUnknown,
    ConfigError,
    DeliveryTimeout,
    InvalidState,
    KafkaError,
    OutOfOrderSequence,
    ProducerFenced,
    RetriableError,
    check_options,
)
from oncelog.client.values.lifetime import Lifetime
from oncelog.client.values.option_values import lists_options
from oncelog.client.values.records import (
    ConsumerRecords,
    K,
    OffsetAndMetadata,
    OutK,
    OutV,
    Record,
    RecordMetadata,
    RecordOptions,
    TopicPartition,
    V,
)
from oncelog.client.wire.security import SecuritySettings

_OF_THE_SESSION = frozenset(SessionOptions.__optional_keys__ | SessionOptions.__required_keys__)
_log = logging.getLogger("oncelog.client")


@lists_options(SessionSettings)
class TransactionalSession(Generic[K, V, OutK, OutV]):
    """Reads topics in a group, and writes the results of each batch and the group's offsets in one transaction.

        async with TransactionalSession("orders", bootstrap_servers="host:9092", group_id="billing") as session:
            async for batch in session:
                async with batch:
                    for record in batch:
                        await batch.send_soon("invoices", invoice(record.value), key=record.key)

    A clean exit of `async with batch` commits. An exception in it aborts, moves the consumer back to the beginning of
    the batch, and is raised; the loop may go on and gets the same records again. A rebalance and a lost connection are
    not raised: the batch is aborted, `batch.committed` is False, and the records come again, here or at the member that
    has their partitions then. So the body of the block may run more than once for a record; its results are in the
    topics once.

    `transactional_id` is one for each instance that runs at a time: an instance that is started again with the same id
    ends at once what the one before left open; without it (a new id each time) `transaction_timeout_ms` does.
    Entering the block raises what they raise;
    the loop raises ProducerFenced if another instance has the same `transactional_id`.
    """

    def __init__(self, *topics: str, **options: Unpack[SessionOptions[K, V, OutK, OutV]]) -> None:
        """`SessionSettings` lists the options. Raises ConfigError."""
        check_topics("TransactionalSession", topics)
        nested = {"consumer": ConsumerSettings, "producer": ProducerSettings}
        check_options("TransactionalSession", SessionSettings, options, nested)
        settings = SessionSettings(**options)
        _check_nested(settings)
        consumer: SessionConsumerOptions = settings.consumer or {}
        if not topics and not consumer.get("pattern"):
            raise ConfigError("a session needs the topics to read")
        self._max_records = settings.max_records
        self._max_wait_ms = settings.max_wait_ms
        self.transactional_id = settings.transactional_id or _new_id(settings.group_id)
        """The transactional id of this instance."""
        security = _security_options(settings)
        read: ConsumerOptions[K, V] = {
            **security,
            "auto_offset_reset": "earliest",
            "key_deserializer": settings.key_deserializer,
            "value_deserializer": settings.value_deserializer,
            **consumer,
            "bootstrap_servers": settings.bootstrap_servers,
            "group_id": settings.group_id,
        }
        written: ProducerOptions[OutK, OutV] = {
            **security,
            "key_serializer": settings.key_serializer,
            "value_serializer": settings.value_serializer,
            **(settings.producer or {}),
            "transactional_id": self.transactional_id,
        }
        chosen = ConsumerSettings(**read)
        if not chosen.reads_committed or chosen.enable_auto_commit or chosen.commit_before_return:
            raise ConfigError("a session reads committed records, and commits their offsets in its transactions")
        self._consumer = Consumer(*topics, **read)
        self._producer = Producer(settings.bootstrap_servers, **written)
        self._lifetime = Lifetime("TransactionalSession")
        for part in (self._consumer, self._producer):
            part._lifetime.belong_to(self._lifetime)
        self._stack = AsyncExitStack()
        self._batch: SessionBatch[K, V, OutK, OutV] | None = None
        self._committed: dict[TopicPartition, OffsetAndMetadata] = {}
        """The offsets committed by this session since the group last assigned partitions."""
        self._committed_in = 0
        self._producer_id = -1
        """The id of the producer when the consumer last took positions from the group."""

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            # The producer first: the last holder of this id is fenced before the group hands out its partitions.
            await stack.enter_async_context(self._producer)
            # Opening leaves it out in a two-phase commit.
            self._producer_id = (await self._producer.init_transactions()).producer_id
            await stack.enter_async_context(self._consumer)
            self._stack = stack.pop_all()
        self._lifetime.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lifetime.check_loop()
        self._lifetime.close()
        await self._stack.__aexit__(kind, error, traceback)

    async def close(self, timeout_ms: float = 10_000) -> None:
        """Abort what is open, leave the group and disconnect, each within `timeout_ms`; never raises in its own event
        loop. Leaving the `async with` block does it too."""
        self._lifetime.check_loop()
        self._lifetime.close()
        await self._consumer.close(timeout_ms)
        await self._producer.close(timeout_ms)

    @property
    def consumer(self) -> Consumer[K, V]:
        """The consumer, for its assignment, positions and lag. Its offsets are the session's to commit."""
        return self._consumer

    async def __aiter__(self) -> "AsyncIterator[SessionBatch[K, V, OutK, OutV]]":
        """Yield batches endlessly; raises what `Consumer.poll` and `Producer.transaction` raise, and InvalidState if
        the last batch was left out."""
        while True:
            self._lifetime.check_loop()
            if self._batch is not None:
                if not self._batch.has_ended:
                    raise InvalidState("the last batch was neither committed nor aborted", hint="`async with batch:`")
                await self._batch._settle()
            try:
                if self._batch is not None and self._batch.transaction.state == "fenced":
                    await self._producer.regain_epoch()  # the task was cancelled before it had been
                await self._follow_the_group()
                records = await self._consumer.next_batch(max_records=self._max_records, max_wait_ms=self._max_wait_ms)
            except RetriableError as error:
                _log.warning("no records: %s; trying again", error)
                continue
            self._batch = SessionBatch(self, records, self._producer.transaction())
            yield self._batch

    async def _follow_the_group(self) -> None:
        """Continue where the group is if the producer has another id than before: what its coordinator knows may be of
        an earlier time, and so may the group's offsets."""
        producer_id = (await self._producer._make_ready()).producer_id
        if producer_id != self._producer_id:
            self._producer_id, self._committed = producer_id, {}
            self._consumer._distrust_positions()

    async def _commit(self, batch: "SessionBatch[K, V, OutK, OutV]") -> None:
        if self._committed_in != self._consumer.assignment_count:
            self._committed, self._committed_in = {}, self._consumer.assignment_count
        moved = {each: to for each, to in batch.next_offsets.items() if self._committed.get(each) != to}
        mark = uuid.uuid4().hex
        # None has moved if a batch after a seek back ends where the group is.
        batch._moved = {each: to._replace(metadata=mark) for each, to in (moved or batch.next_offsets).items()}
        await batch.transaction.send_offsets(batch._moved, group=self._consumer)
        # Until the transaction ends, no other member can read the offsets; a member that is gone should not end it.
        await self._consumer.heartbeat()
        await self._ask_to_commit(batch)

    async def _ask_to_commit(self, batch: "SessionBatch[K, V, OutK, OutV]") -> None:
        """Commit again until the outcome is known. Raises ProducerFenced if it is that nothing was committed."""
        batch._is_asked = True
        while batch._fence is None:
            try:
                return await batch.transaction.commit()
            except CommitUnknown as error:
                _log.warning("%s; asking again", error)
            except ProducerFenced as error:
                batch._fence = error
                await batch.transaction.__aexit__(type(error), error, error.__traceback__)  # finds who it was
        batch.transaction._note_outcome("committed" if await self._is_committed(batch, batch._fence) else "aborted")
        if not batch.committed:
            raise batch._fence

    async def _is_committed(self, batch: "SessionBatch[K, V, OutK, OutV]", fence: ProducerFenced) -> bool:
        """Whether the group has the offsets of this batch, with its mark: its producer was fenced when it asked to
        commit. What fenced it may also have forgotten that the commit was made before, as a leader
        does that cannot know all producer epochs. Raises ProducerFenced if another instance has the id."""
        while True:
            try:
                await self._regains(fence)  # no transaction of before is open after this
                offsets = await self._consumer.committed(*batch._moved)
                found = [offsets[each][:2] == to[:2] for each, to in batch._moved.items() if each in offsets]
                return bool(found) and all(found)
            except RetriableError as error:
                _log.warning("the outcome of a commit is unknown: %s; asking again", error)

    def _take_outcome(self, batch: "SessionBatch[K, V, OutK, OutV]") -> None:
        """Take the outcome of the last batch once its transaction has ended, even if the end was interrupted;
        uncommitted records come again."""
        if batch.committed:
            self._committed |= batch.next_offsets
        elif not batch._is_undecided:
            self._consumer._rewind(batch.records)

    async def _goes_on_after(self, error: KafkaError) -> bool:
        """Whether the batch comes again by itself. Raises ProducerFenced if another instance has the id."""
        if isinstance(error, CommitFailed):
            # The next poll joins again, once the membership is known to be lost.
            with suppress(KafkaError):
                await self._consumer.heartbeat()
        return _passes_by_itself(error) or await self._regains(error)

    async def _regains(self, error: KafkaError) -> bool:
        """Whether a fenced producer may continue: the coordinator had aborted its transaction for its age, and still
        knows it as the last of its id (KIP-360)."""
        if not isinstance(error, ProducerFenced):
            return False
        await self._producer.regain_epoch()
        return True


class SessionBatch(Sequence[Record[K, V]], Generic[K, V, OutK, OutV]):
    """Some records, and the transaction of their results: `async with batch`."""

    def __init__(
        self,
        session: TransactionalSession[K, V, OutK, OutV],
        records: ConsumerRecords[K, V],
        transaction: Transaction[OutK, OutV],
    ) -> None:
        self.records = records
        """The records, with the offsets behind them."""
        self.error: KafkaError | None = None
        """The error that aborted the batch, if it was not raised."""
        self._session = session
        self._transaction = transaction
        self._is_entered = False
        self._moved: dict[TopicPartition, OffsetAndMetadata] = {}
        """The offsets in this transaction."""
        self._fence: ProducerFenced | None = None
        """The error that answered the commit, if its outcome has to be found in the group's offsets."""
        self._is_asked = False
        """The session has called commit()."""
        self.has_ended = False

    async def __aenter__(self) -> Self:
        if self._is_entered:
            raise InvalidState(
                "a batch can be entered only once: one that is not committed is returned again by itself"
            )
        self._is_entered = True
        while True:
            try:
                await self._transaction.__aenter__()
                return self
            except RetriableError as error:
                _log.warning("no transaction: %s; trying again", error)
            except (KafkaError, asyncio.CancelledError):
                self.has_ended = True
                self._session._consumer._rewind(self.records)
                raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self.has_ended = True
        if error is not None:
            return await self._comes_again_after(error)
        await self._end(self._session._commit(self))
        return False

    async def _settle(self) -> None:
        """Learn the outcome if the commit was cancelled before its response. Raises what the block's end does."""
        if self._is_undecided:
            await self._end(self._session._ask_to_commit(self))

    async def _end(self, commit: Coroutine[Any, Any, None]) -> None:
        try:
            await commit
        except (KafkaError, asyncio.CancelledError) as error:
            if not await self._comes_again_after(error):
                raise
        else:
            self._session._take_outcome(self)

    async def _comes_again_after(self, error: BaseException) -> bool:
        """End the transaction, which has failed with `error`; returns whether the loop continues."""
        try:
            if self._fence is None:
                await self._transaction.__aexit__(type(error), error, error.__traceback__)
        finally:
            self._session._take_outcome(self)
        if not isinstance(error, KafkaError) or not await self._session._goes_on_after(error):
            return False
        self.error = error
        _log.info("a batch of %d records was aborted and comes again: %s", len(self.records), error)
        return True

    @property
    def committed(self) -> bool:
        """True once the results and the offsets of this batch are committed."""
        return self._transaction.state == "committed"

    @property
    def _is_undecided(self) -> bool:
        """True if the commit was sent and its outcome isn't known; the loop finds it out before it continues."""
        if self._fence is not None:
            return self._transaction._outcome is None
        state = self._transaction.state
        # Fenced: the task was cancelled while the commit waited for the response that says so.
        return self.has_ended and (state == "committing" or (self._is_asked and state == "fenced"))

    @property
    def transaction(self) -> Transaction[OutK, OutV]:
        """The transaction itself, for its producer id and epoch."""
        return self._transaction

    def send(
        self, topic: str, value: OutV | None = None, **options: Unpack[RecordOptions[OutK]]
    ) -> Coroutine[Any, Any, RecordMetadata]:
        """Write one result and wait until it is written (not committed). Arguments and errors as `Transaction.send`."""
        return self._entered().send(topic, value, **options)

    def send_soon(
        self, topic: str, value: OutV | None = None, **options: Unpack[RecordOptions[OutK]]
    ) -> Coroutine[Any, Any, Delivery]:
        """Buffer one result; the commit waits for it. Arguments and errors as `Transaction.send_soon`."""
        return self._entered().send_soon(topic, value, **options)

    def _entered(self) -> Transaction[OutK, OutV]:
        if not self._is_entered:
            raise InvalidState("the batch has no transaction yet", hint="send inside `async with batch:`")
        return self._transaction

    async def flush(self) -> None:
        """Send all results now and wait for their acknowledgements; the commit does it too."""
        await self._session._producer.flush()

    @property
    def next_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets that are committed with the batch: the positions after it, past markers and aborted records."""
        return self.records.next_offsets

    def __len__(self) -> int:
        return len(self.records)

    @overload
    def __getitem__(self, index: int) -> Record[K, V]: ...

    @overload
    def __getitem__(self, index: slice) -> list[Record[K, V]]: ...

    def __getitem__(self, index: int | slice) -> Record[K, V] | list[Record[K, V]]:
        return self.records[index]


def _check_nested(settings: SessionSettings) -> None:
    """Raise ConfigError for an option of a client that is the session's own."""
    for place, theirs in (("consumer", settings.consumer), ("producer", settings.producer)):
        for name, value in (theirs or {}).items():
            if name in _OF_THE_SESSION:
                shown = "..." if name in SecurityOptions.__optional_keys__ else repr(value)  # no secret
                text = f"{name} belongs to the session, not into {place}={{...}}"
                raise ConfigError(text, hint=f"TransactionalSession(..., {name}={shown})")


def _security_options(settings: SessionSettings) -> SecurityOptions:
    """Return the options of TLS and SASL, for both clients."""
    options: Any = {each.name: getattr(settings, each.name) for each in fields(SecuritySettings)}
    found: SecurityOptions = options
    return found


def _new_id(group_id: str) -> str:
    return f"{group_id}-{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex}"


def _passes_by_itself(error: KafkaError) -> bool:
    if isinstance(error, ProducerFenced):
        return False
    passing = (CommitFailed, RetriableError, DeliveryTimeout, OutOfOrderSequence)
    return isinstance(error, passing) or (error.code is not None and error.code.retriable)
