"""Transitions of transactions, live: the coordinators' writes to `__transaction_state`, read as any consumer would.

Owns: the transition that one record means, given the previous state of its id; which records count as live. Does not
own: options and the printed line (`oncelog.tools.txn.tail_cli`). Works with any Kafka from 0.11 on; from 3.0 on the
states at the start are requested (KIP-664), before that they are learned from the records.
Invariant: every transition logged after the start is reported once, those of one id in order; a record that only says
again what is known is none (this broker's, of what is open for a while: `TransactionMetadata.is_settled`).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from oncelog.client.admin.client import Admin
from oncelog.client.consuming.consumer import Consumer
from oncelog.client.options.option_types import AdminOptions
from oncelog.client.values.errors import KafkaError
from oncelog.client.values.records import Record, TopicPartition
from oncelog.protocol import state_record_codec
from oncelog.protocol.errors import ErrorCode, ProtocolError
from oncelog.protocol.generated import transaction_log_key, transaction_log_value
from oncelog.protocol.generated.transaction_log_key import TransactionLogKey
from oncelog.protocol.generated.transaction_log_value import TransactionLogValue
from oncelog.protocol.topics import TRANSACTION_STATE
from oncelog.protocol.transaction_states import MEANINGS, StateMeaning, meaning_of

_POLL_MS = 1_000
_MISSING_TOPIC_RETRY_S = 0.2


@dataclass(frozen=True, slots=True)
class Transition:
    """One step of one transactional id. `previous_state` is None if it is unknown."""

    time_ms: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    previous_state: str | None
    state: str
    partitions: tuple[str, ...]
    """The partitions of the transaction, also after its end, when the log no longer names them."""
    duration_ms: int | None
    """The milliseconds since the transaction began; None outside a transaction."""

    @property
    def meaning(self) -> str:
        """The meaning of the state then: what a partition waits for may have come since."""
        return meaning_of(self.state).words

    def as_row(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__} | {"meaning": self.meaning}


@dataclass(frozen=True, slots=True)
class _Known:
    state: str
    producer_id: int = -1
    producer_epoch: int = -1
    partitions: tuple[str, ...] = ()
    time_ms: int = -1


class TransitionReader:
    """Turns records, read in partition order, into transitions."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def know(self, transactional_id: str, state: str) -> None:
        """Note the state of an id before any record of it was read."""
        self._known[transactional_id] = _Known(state)

    def read(self, record: Record) -> Transition | None:
        """Return the transition in a record; None for a record of another kind, and for one that changes nothing.
        Raises ProtocolError for one that cannot be decoded."""
        if record.key is None or state_record_codec.prefix(record.key) != transaction_log_key.API_KEY:
            return None
        key: TransactionLogKey = state_record_codec.decode(transaction_log_key, record.key, 0)
        transactional_id = key.transactional_id
        if record.value is None:
            return self._forgotten(transactional_id, record.timestamp_ms)
        value: TransactionLogValue = state_record_codec.decode(transaction_log_value, record.value)
        state = _state(value.transaction_status)
        before = self._known.get(transactional_id)
        partitions = tuple(
            f"{topic.topic}-{index}" for topic in value.transaction_partitions or () for index in topic.partition_ids
        )
        has_ended = state.phase == "ended"
        if has_ended and before is not None:
            partitions = before.partitions
        started_ms = value.transaction_start_timestamp_ms
        time_ms = value.transaction_last_update_timestamp_ms
        left = () if has_ended else partitions
        now = _Known(state.name, value.producer_id, value.producer_epoch, left, time_ms)
        if now == before:
            return None
        self._known[transactional_id] = now
        return Transition(
            time_ms,
            transactional_id,
            value.producer_id,
            value.producer_epoch,
            None if before is None else before.state,
            state.name,
            partitions,
            None if state.phase == "idle" or started_ms < 0 else max(0, time_ms - started_ms),
        )

    def _forgotten(self, transactional_id: str, time_ms: int) -> Transition:
        before = self._known.pop(transactional_id, None)
        producer = (-1, -1) if before is None else (before.producer_id, before.producer_epoch)
        previous = None if before is None else before.state
        return Transition(time_ms, transactional_id, *producer, previous, "Dead", (), None)


def _state(number: int) -> StateMeaning:
    """Raises ProtocolError for one of a later release."""
    if not 0 <= number < len(MEANINGS):
        raise ProtocolError(f"{number} is no state of a transaction")
    return MEANINGS[number]


async def transitions(
    bootstrap: str, clients: AdminOptions, *, from_beginning: bool, on_ready: Callable[[], None] = lambda: None
) -> AsyncIterator[Transition]:
    """Yield all transitions that are logged from now on, or from the beginning of the log, endlessly. `clients` are
    options that a consumer has, too. Raises KafkaError, OSError."""
    reader = TransitionReader()
    async with Consumer(bootstrap_servers=bootstrap, isolation_level="read_uncommitted", **clients) as consumer:
        partitions, is_new = await _partitions(consumer)
        consumer.assign(partitions)
        if from_beginning or is_new:
            await consumer.seek_to_beginning(*partitions)
        else:
            await consumer.seek_to_end(*partitions)
            for partition in partitions:  # before the states are requested: no transition is missed in between
                await consumer.position(partition)
            await _know_all(reader, bootstrap, clients)
        on_ready()
        while True:
            for record in await consumer.poll(_POLL_MS):
                transition = _read(reader, record)
                if transition is not None:
                    yield transition


def _read(reader: TransitionReader, record: Record) -> Transition | None:
    try:
        return reader.read(record)
    except (ProtocolError, ValueError) as error:
        place = f"{record.topic}-{record.partition} offset {record.offset}"
        raise ProtocolError(f"{place} is not a transition that this release can decode: {error}") from error


async def _partitions(consumer: Consumer) -> tuple[list[TopicPartition], bool]:
    """Return the partitions of the topic, which exists from the first transaction on, and whether it had to be waited
    for."""
    is_new = False
    while True:
        try:
            return await consumer.partitions_for(TRANSACTION_STATE), is_new
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
        is_new = True
        await asyncio.sleep(_MISSING_TOPIC_RETRY_S)


async def _know_all(reader: TransitionReader, bootstrap: str, clients: AdminOptions) -> None:
    async with Admin(bootstrap, **clients) as admin:
        try:
            for listed in await admin.find_transactions():
                reader.know(listed.transactional_id, listed.state)
        except KafkaError as error:
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                raise
