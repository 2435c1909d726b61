"""What waits behind open transactions: records between the last stable offset and the high watermark.

A read_committed reader stops at the last stable offset, and lag is counted up to there: behind an abandoned
transaction, committed records pile up while the lag is 0.

Owns: how many records wait, for how long, for whose transaction, and what ends it (KIP-664). Does not own: when a
stream is planned (`readers`), where this is shown (`progress`, `prometheus`, `tools.spark`). Invariants
- Looking never stops a batch: what the brokers do not say, or not to this user, is None, with the reason.
- Brokers are asked once in some seconds, and about owners only where the last stable offset has stood still as long.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from shlex import quote
from typing import Any, Protocol

from oncelog.client import KafkaError, TopicPartition
from oncelog.client.admin.descriptions import TransactionDescription
from oncelog.client.blocking.clients import Admin
from oncelog.protocol.transaction_states import meaning_of

logger = logging.getLogger("oncelog.spark.source")
_EVERY_MS = 5_000
"""How often to ask. A last stable offset that stands still for as long is worth asking whose transaction it is."""
_OWNERS_EVERY_MS = 30_000
_WARN_MS = 30_000
_MOST_OWNERS = 10
"""The partitions whose owners are asked for, at most: each costs some requests."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A partition's last stable offset, which lies before its high watermark."""

    last_stable_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """The records that wait in one partition, and the owner of the transaction. An unknown field is None; `unknown`
    says why."""

    topic: str
    partition: int
    last_stable_offset: int
    records: int
    """The offsets from there to the high watermark: open, committed and aborted records, and markers."""
    for_ms: int | None = None
    """The least time that they have waited: since they were first seen or the transaction began, whichever is longer.
    """
    transactional_id: str | None = None
    """The id whose transaction is the first there: readers continue when it ends."""
    producer_id: int | None = None
    producer_epoch: int | None = None
    state: str | None = None
    begun_ms: int | None = None
    """When its coordinator says that it began."""
    command: str | None = None
    """The command that ends it; None for one that is decided, whose coordinator repeats its markers."""
    unknown: str | None = None

    def __str__(self) -> str:
        how_long = "" if self.for_ms is None else f" for {self.for_ms // 1000} s"
        whose = "an open transaction"
        if self.producer_id is not None:
            name = "" if self.transactional_id is None else f"{self.transactional_id!r}, "
            whose = f"the transaction of {name}producer {self.producer_id}, epoch {self.producer_epoch}"
        state = "" if self.state is None else f" ({self.state})"
        return (
            f"{self.topic}-{self.partition}: {self.records} records from offset {self.last_stable_offset} on "
            f"wait{how_long} behind {whose}{state}"
            + ("" if self.command is None else f": `{self.command}`")
            + ("" if self.unknown is None else f" ({self.unknown})")
        )


def to_json(waiting: Sequence[Waiting]) -> list[dict[str, Any]]:
    return [asdict(each) for each in waiting]


def from_json(values: Sequence[Mapping[str, Any]]) -> tuple[Waiting, ...]:
    return tuple(Waiting(**each) for each in values)


def find_gaps(admin: Admin, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Gap]:
    """Return the partitions whose last stable offset lies before their high watermark. Raises KafkaError."""
    if not partitions:
        return {}
    stable = admin.list_offsets(partitions, "latest", isolation_level="read_committed")
    ends = admin.list_offsets(partitions, "latest", isolation_level="read_uncommitted")
    return {
        each: Gap(stable[each].offset, ends[each].offset)
        for each in partitions
        if stable[each].offset < ends[each].offset
    }


def describe(admin: Admin, place: TopicPartition, gap: Gap, now_ms: int) -> Waiting:
    """Return what waits there, with all that the brokers say of the first transaction."""
    found = Waiting(*place, gap.last_stable_offset, gap.high_watermark - gap.last_stable_offset)
    try:
        producers = [each for each in admin.describe_producers(place) if each.transaction_start_offset >= 0]
    except (KafkaError, OSError) as error:
        return replace(found, unknown=f"whose it is cannot be asked: {error}")
    if not producers:
        return replace(found, unknown="no transaction is open there any more")
    first = min(producers, key=lambda each: each.transaction_start_offset)
    found = replace(
        found,
        for_ms=max(0, now_ms - first.last_timestamp_ms),
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        # It lists what no coordinator has open, and names the command that ends it; it refuses to tear a decided one.
        command=f"oncelog txn find-hanging --topic {quote(place.topic)} --partition {place.partition} "
        "--max-transaction-timeout 0",
    )
    try:
        owner = _owner(admin, place, first.producer_id)
    except (KafkaError, OSError) as error:
        return replace(found, unknown=f"its transactional id cannot be asked: {error}")
    if owner is None:
        return replace(
            found,
            unknown="no coordinator shows its transactional id: it hangs, or this user may not describe that id",
        )
    fence = f"oncelog txn fence {quote(owner.transactional_id)}"
    return replace(
        found,
        for_ms=max(0, now_ms - owner.start_time_ms),
        transactional_id=owner.transactional_id,
        state=owner.state,
        begun_ms=owner.start_time_ms,
        command=fence if meaning_of(owner.state).can_be_aborted else None,
    )


def _owner(admin: Admin, place: TopicPartition, producer_id: int) -> TransactionDescription | None:
    """Return the transaction of this producer that its coordinator still has to end there."""
    for listed in admin.find_transactions(producer_ids=(producer_id,)):
        described = admin.describe_transaction(listed.transactional_id)
        if place in described.partitions and meaning_of(described.state).holds_readers:
            return described
    return None


class Brokers(Protocol):
    """The part of the brokers that a watch needs."""

    def gaps(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Gap]: ...

    def describe_gap(self, place: TopicPartition, gap: Gap, now_ms: int) -> Waiting: ...


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Watch:
    """Looks for what a source waits for, in the driver, and warns once for each place where it is long."""

    def __init__(self, brokers: Brokers, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._brokers = brokers
        self._now_ms = now_ms
        self._looked_ms: int | None = None
        self._since: dict[tuple[TopicPartition, int], int] = {}
        """The time when a last stable offset was first seen before the high watermark."""
        self._described: dict[tuple[TopicPartition, int], tuple[int, Waiting]] = {}
        """The newest description of each, and when it was made."""
        self._warned: set[tuple[TopicPartition, int]] = set()
        self.waiting: tuple[Waiting, ...] = ()
        """The waiting records of the last look."""

    def look(self, partitions: Collection[TopicPartition], *, at_once: bool = False) -> None:
        """Look, unless that was done just now. With `at_once`, do not wait to see whether anything stands still."""
        now_ms = self._now_ms()
        if self._looked_ms is not None and 0 <= now_ms - self._looked_ms < _EVERY_MS:
            return
        self._looked_ms = now_ms
        try:
            gaps = self._brokers.gaps(partitions)
        except (KafkaError, OSError):  # planning meets it too, and says so
            return
        standing = {(place, gap.last_stable_offset): gap for place, gap in gaps.items()}
        self._since = {key: self._since.get(key, now_ms) for key in standing}
        self._described = {key: each for key, each in self._described.items() if key in standing}
        self._warned &= standing.keys()
        self.waiting = tuple(
            self._found(key, gap, now_ms)
            for key, gap in standing.items()
            if at_once or now_ms - self._since[key] >= _EVERY_MS
        )
        for each in self.waiting:
            self._maybe_warn(each)

    def _found(self, key: tuple[TopicPartition, int], gap: Gap, now_ms: int) -> Waiting:
        records, seen_ms = gap.high_watermark - gap.last_stable_offset, now_ms - self._since[key]
        if key not in self._described and len(self._described) >= _MOST_OWNERS:
            return Waiting(*key[0], key[1], records, seen_ms, unknown="whose it is was not asked: too many wait")
        asked_ms, found = self._described.get(key, (None, None))
        if asked_ms is None or found is None or now_ms - asked_ms >= _OWNERS_EVERY_MS:
            asked_ms, found = self._described[key] = now_ms, self._brokers.describe_gap(key[0], gap, now_ms)
        known_ms = 0 if found.for_ms is None else found.for_ms + now_ms - asked_ms
        return replace(found, records=records, for_ms=max(known_ms, seen_ms))

    def _maybe_warn(self, found: Waiting) -> None:
        key = TopicPartition(found.topic, found.partition), found.last_stable_offset
        if key not in self._warned and (found.for_ms or 0) >= _WARN_MS:
            self._warned.add(key)
            logger.warning("%s", found)
