"""An operator's requests about transactions of a running cluster, through the client.

Owns: which partitions are searched, when a transaction counts as hanging (KIP-664, as Kafka's kafka-transactions.sh
decides it), rows of plain values. Does not own: options and printing (`oncelog.tools.txn.cli`).
Invariant: only `abort` and `fence` change anything.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from oncelog.client.admin.client import Admin
from oncelog.client.admin.descriptions import ProducerState, TransactionDescription
from oncelog.client.values.errors import KafkaError, RequestTimedOut
from oncelog.client.values.records import TopicPartition
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.transaction_states import OPEN_NAMES, UNSTABLE_NAMES, explained, meaning_of
from oncelog.tools.asking import NotFound, require_broker

Row = dict[str, Any]

_MS_IN_A_MINUTE = 60_000


class AlreadyDecided(NotFound):
    """Raised if the outcome of the transaction is decided, so that nothing aborts it any more."""

    def __init__(self, found: TransactionDescription) -> None:
        meaning = explained(found.state, [_name(partition) for partition in found.partitions])
        super().__init__(
            f"the transaction of {found.transactional_id!r} is {meaning[0].lower()}{meaning[1:]}: it cannot be aborted "
            "any more. Its coordinator repeats the markers until every partition has its own; a fence is answered "
            "CONCURRENT_TRANSACTIONS until then"
        )


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that a partition holds open, whether or not its coordinator knows it."""

    partition: TopicPartition
    producer: ProducerState


async def list_transactions(
    admin: Admin, states: Sequence[str], producer_ids: Sequence[int], duration_ms: int, pattern: str | None
) -> list[Row]:
    """Raises NotFound for a pattern that is none, and if no transactional id has one of these producer ids, or matches
    the pattern: whether or not one of them is in these states now."""
    try:
        found = await admin.find_transactions(
            states=states, producer_ids=producer_ids, duration_ms=duration_ms, pattern=pattern
        )
    except KafkaError as error:
        if error.code is not ErrorCode.INVALID_REGULAR_EXPRESSION:
            raise
        raise NotFound(
            f"--transactional-id-pattern: {pattern!r} is not a regular expression of RE2, which brokers read: put a "
            r"backslash before a character that stands for itself, such as \( or \["
        ) from error
    if unseen := set(producer_ids) - {each.producer_id for each in found}:
        unseen -= {each.producer_id for each in await admin.find_transactions(producer_ids=sorted(unseen))}
        if unseen:
            raise NotFound(
                f"--producer-id: no transactional id has producer id {min(unseen)}; `oncelog txn list` shows those "
                "there are, and `oncelog txn producers` those that write to a partition without one"
            )
    if pattern is not None and not found and not await admin.find_transactions(pattern=pattern):
        raise NotFound(
            f"--transactional-id-pattern: {pattern!r} matches no transactional id as a whole; "
            "`oncelog txn list` shows those there are"
        )
    return [
        {
            "transactional_id": each.transactional_id,
            "coordinator": each.coordinator_id,
            "producer_id": each.producer_id,
            "state": each.state,
            "meaning": explained(each.state),
        }
        for each in found
    ]


async def describe_transaction(admin: Admin, transactional_id: str, now_ms: int) -> Row:
    return _described(await admin.describe_transaction(transactional_id), now_ms)


async def describe_all(admin: Admin, transactional_ids: Iterable[str]) -> list[TransactionDescription]:
    """Describe those that are still there: an id may expire after it was listed."""
    found = []
    for transactional_id in transactional_ids:
        try:
            found.append(await admin.describe_transaction(transactional_id))
        except KafkaError as error:
            if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
    return found


def _described(found: TransactionDescription, now_ms: int) -> Row:
    has_begun = found.start_time_ms > 0
    meaning = meaning_of(found.state)
    places = [_name(partition) for partition in found.partitions]
    # DescribeTransactions does not say when the last one ended.
    is_running = has_begun and meaning.phase not in ("idle", "ended")
    return {
        "transactional_id": found.transactional_id,
        "coordinator": found.coordinator_id,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "state": found.state,
        "meaning": explained(found.state, places),
        "timeout_ms": found.timeout_ms,
        "start_time_ms": found.start_time_ms if has_begun else None,
        "duration_ms": now_ms - found.start_time_ms if is_running else None,
        "partitions": places,
    }


async def producers(admin: Admin, partition: TopicPartition) -> list[Row]:
    found = sorted(await admin.describe_producers(partition), key=lambda each: each.producer_id)
    return [
        {
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "coordinator_epoch": _or_none(each.coordinator_epoch),
            "last_sequence": _or_none(each.last_sequence),
            "last_timestamp_ms": each.last_timestamp_ms,
            "transaction_start_offset": _or_none(each.transaction_start_offset),
        }
        for each in found
    ]


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def _or_none(value: int) -> int | None:
    return None if value < 0 else value


# --- hanging ----------------------------------------------------------------------------------------------------------


async def find_hanging(
    admin: Admin,
    now_ms: int,
    *,
    topic: str | None = None,
    partition: int | None = None,
    broker_id: int | None = None,
    max_timeout_ms: int = 15 * _MS_IN_A_MINUTE,
) -> list[Row]:
    """Return transactions that a partition has held open for longer than any may last, and that no coordinator will
    end."""
    names = (topic,) if topic is not None else tuple(await admin.list_topics(include_internal=True))
    searched = [
        TopicPartition(description.name, index)
        for description in await admin.describe_topics(*names)
        for index, leader in enumerate(description.leaders)
        # One without a leader can be asked nothing, unless it is named.
        if partition in (None, index) and broker_id in (None, leader) and (leader >= 0 or partition is not None)
    ]
    if broker_id is not None:
        await require_broker(admin, broker_id)
    if partition is not None and not searched:
        raise NotFound(
            f"topic {topic!r} has no partition {partition}; `oncelog topic describe {topic}` lists those that it has"
        )
    candidates = [
        each for each in await _find_open(admin, searched) if now_ms - each.producer.last_timestamp_ms > max_timeout_ms
    ]
    return [_hanging_row(each, now_ms) for each in await unknown_to_coordinators(admin, candidates)]


async def _find_open(admin: Admin, partitions: Iterable[TopicPartition]) -> list[OpenTransaction]:
    return [
        OpenTransaction(partition, producer)
        for partition in partitions
        for producer in await admin.describe_producers(partition)
        if producer.transaction_start_offset >= 0
    ]


async def unknown_to_coordinators(admin: Admin, candidates: Sequence[OpenTransaction]) -> list[OpenTransaction]:
    """Return those that are still open there, and that no coordinator has open on the same partition: none will end
    them."""
    if not candidates:
        return []
    ids = sorted({each.producer.producer_id for each in candidates})
    known: set[tuple[int, TopicPartition]] = set()
    for found in await admin.find_transactions(producer_ids=ids):
        try:
            description = await admin.describe_transaction(found.transactional_id)
        except KafkaError as error:
            if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:  # it has expired since
                continue
            raise
        known.update((description.producer_id, partition) for partition in description.partitions)
    unknown = [each for each in candidates if (each.producer.producer_id, each.partition) not in known]
    # A transaction that was ended since the partition was asked is unknown too, and no longer open there.
    still_open = {
        (each.partition, each.producer.producer_id, each.producer.transaction_start_offset)
        for each in await _find_open(admin, dict.fromkeys(each.partition for each in unknown))
    }
    return [
        each
        for each in unknown
        if (each.partition, each.producer.producer_id, each.producer.transaction_start_offset) in still_open
    ]


def _hanging_row(each: OpenTransaction, now_ms: int) -> Row:
    producer = each.producer
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": _or_none(producer.coordinator_epoch),
        "start_offset": producer.transaction_start_offset,
        "last_timestamp_ms": producer.last_timestamp_ms,
        "duration_min": (now_ms - producer.last_timestamp_ms) // _MS_IN_A_MINUTE,
    }


# --- open for long ----------------------------------------------------------------------------------------------------


async def find_long(admin: Admin, now_ms: int, least_ms: int) -> list[Row]:
    """Return transactions that are open for longer than `least_ms` or than their timeout, as `describe_transaction` has
    them, the oldest first. Their coordinators know them: `fence` ends those that are open, and markers those that are
    decided, to which no timeout applies."""
    found = await describe_all(admin, await _list_unstable(admin))
    rows = (_described(each, now_ms) for each in found)
    long = (
        row
        for row in rows
        if (row["duration_ms"] or 0)
        > (min(least_ms, row["timeout_ms"]) if meaning_of(row["state"]).has_timeout else least_ms)
    )
    return sorted(long, key=lambda row: row["start_time_ms"])


async def _list_unstable(admin: Admin, producer_ids: Sequence[int] = ()) -> list[str]:
    return [
        each.transactional_id
        for each in await admin.find_transactions(states=UNSTABLE_NAMES, producer_ids=producer_ids)
    ]


async def open_id_of(admin: Admin, producer_id: int) -> str | None:
    """Return the transactional id whose coordinator has a transaction of this producer open."""
    found = await admin.find_transactions(states=OPEN_NAMES, producer_ids=(producer_id,))
    return found[0].transactional_id if found else None


# --- changing ---------------------------------------------------------------------------------------------------------


async def abort_at(admin: Admin, partition: TopicPartition, start_offset: int) -> Row:
    """Abort the transaction that the partition has held open since this offset."""
    for each in await _find_open(admin, (partition,)):
        if each.producer.transaction_start_offset == start_offset:
            producer = each.producer
            # The epoch of the coordinator that last wrote here; 0 if none has.
            epoch = max(producer.coordinator_epoch, 0)
            return await abort(admin, partition, producer.producer_id, producer.producer_epoch, epoch)
    raise NotFound(
        f"no transaction is open on {_name(partition)} since offset {start_offset}; "
        f"`oncelog txn producers --topic {partition.topic} --partition {partition.partition}` shows those that are"
    )


async def abort(
    admin: Admin, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> Row:
    """Raises AlreadyDecided if a coordinator will write its own marker there: the other one would tear a commit."""
    for found in await describe_all(admin, await _list_unstable(admin, (producer_id,))):
        if meaning_of(found.state).phase == "decided" and partition in found.partitions:
            raise AlreadyDecided(found)
    await admin.abort_on_partition(partition, producer_id, producer_epoch, coordinator_epoch)
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "coordinator_epoch": coordinator_epoch,
    }


async def fence(admin: Admin, transactional_ids: Sequence[str]) -> list[Row]:
    """Abort the open transactions of these ids, and fence their producers. One that is decided is not aborted: it is
    completed first, as Kafka does it. `found` is what the transaction was before. Raises TRANSACTIONAL_ID_NOT_FOUND for
    an id without a transaction before anything is changed, as InitProducerId would create it; AlreadyDecided if markers
    were missing until the timeout."""
    before = {each: await describe_transaction(admin, each, 0) for each in transactional_ids}
    rows = []
    for transactional_id in transactional_ids:
        try:
            producer_id, producer_epoch = await admin.fence_producer(transactional_id)
        except RequestTimedOut as error:
            found = await admin.describe_transaction(transactional_id)
            if meaning_of(found.state).phase == "decided":
                raise AlreadyDecided(found) from error
            raise
        row = {"transactional_id": transactional_id, "producer_id": producer_id, "fenced_below": producer_epoch}
        rows.append({**row, "found": before[transactional_id]["meaning"]})
    return rows


async def fence_what_is_open(admin: Admin, transactional_id: str) -> Row:
    """Do as `fence`, or raise AlreadyDecided if the transaction cannot be aborted any more."""
    found = await admin.describe_transaction(transactional_id)
    if meaning_of(found.state).phase == "decided":
        raise AlreadyDecided(found)
    (row,) = await fence(admin, (transactional_id,))
    return row
