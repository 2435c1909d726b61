"""Every start of publishing that a sink's transactional id has made, from what the broker still has.

Owns: the reading of `__transaction_state`, of the topic of markers and of the output topics, and which attempt each
record belongs to. Does not own: which micro-batch it was for if no marker says so (`report`). An attempt is known by
its producer id and epoch: each one begins with InitProducerId, which gives it an epoch of its own. Invariant: where
retention or compaction has removed records of an output, what failed attempts wrote is not known.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from oncelog.client import Consumer, KafkaError, SecurityOptions, TopicPartition
from oncelog.client.consuming.raw_batches import RawBatch
from oncelog.pipeline.options import NO_SECURITY
from oncelog.pipeline.sink.marker import Marker, MarkerMismatch
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.partitioning import coordinator_partition
from oncelog.protocol.records.control import ControlRecordType
from oncelog.protocol.topics import TRANSACTION_STATE
from oncelog.protocol.transaction_states import meaning_of
from oncelog.tools.spark.ranges import has_all_records
from oncelog.tools.txn.tail import TransitionReader

Fate = Literal["committed", "aborted", "open", "nothing"]
_FATES: dict[str | None, Fate] = {"COMMIT": "committed", "ABORT": "aborted", None: "open"}
"""The fates by the outcome that is decided."""
_NEVER_MS = 1 << 62
Key = tuple[int, int]
"""A producer id and epoch."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of publishing. Times are the broker's; None if they are not recorded any more."""

    producer_id: int
    producer_epoch: int
    fate: Fate = "nothing"
    """The fate of its transaction. "nothing" means that it wrote nothing: it skipped a batch that was applied, or ended
    before it sent anything."""
    fenced_ms: int | None = None
    """When InitProducerId gave it its epoch."""
    ended_ms: int | None = None
    records: dict[str, int] | None = field(default_factory=dict)
    """The number of written records, by topic, without markers of the sink; None where that is not known any more."""
    marker: Marker | None = None
    """The marker that it wrote, whatever its fate."""


@dataclass(slots=True)
class _Found:
    attempts: dict[Key, Attempt] = field(default_factory=dict)
    partitions: set[TopicPartition] = field(default_factory=set)
    is_whole: bool = True
    """True if nothing was removed from the outputs."""

    def change(self, key: Key, **values: object) -> None:
        self.attempts[key] = replace(self.attempts.get(key) or Attempt(*key), **values)  # type: ignore[arg-type]


async def attempts_of(
    bootstrap: str,
    sink_id: str,
    marker_topic: str,
    outputs: Iterable[str],
    since_ms: int,
    security: SecurityOptions = NO_SECURITY,
) -> list[Attempt]:
    """Return the attempts in order. Topics are those of the transactions that the coordinator's log has, and `outputs`;
    records from `since_ms` on. Raises KafkaError."""
    found = _Found()
    async with Consumer(bootstrap_servers=bootstrap, **security) as consumer:
        await _read_states(consumer, sink_id, found)
        await _read_markers(consumer, TopicPartition(marker_topic, 0), sink_id, found)
        for name in outputs:
            found.partitions.update(await consumer.partitions_for(name))
        for partition in sorted(found.partitions):
            if partition.topic != marker_topic:
                await _read_output(consumer, partition, since_ms, found)
    attempts = _in_order(found.attempts.values())
    return attempts if found.is_whole else [replace(each, records=None) for each in attempts]


def _in_order(attempts: Collection[Attempt]) -> list[Attempt]:
    """Return the attempts by epoch; a producer id whose epochs are used up is followed by another, which may be
    lower."""
    times: dict[int, int] = {}
    for each in attempts:
        known = [at_ms for at_ms in (each.fenced_ms, each.ended_ms) if at_ms is not None]
        times[each.producer_id] = min([*known, times.get(each.producer_id, _NEVER_MS)])
    return sorted(attempts, key=lambda each: (times[each.producer_id], each.producer_id, each.producer_epoch))


async def _read_states(consumer: Consumer, sink_id: str, found: _Found) -> None:
    """Read what the coordinator logged: compaction leaves the newest state only, sooner or later."""
    try:
        count = len(await consumer.partitions_for(TRANSACTION_STATE))
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return
    reader = TransitionReader()
    partition = TopicPartition(TRANSACTION_STATE, coordinator_partition(sink_id, count))
    current: Key | None = None
    start = (await consumer.beginning_offsets([partition]))[partition]
    async for batch in consumer.raw_batches(partition, start):
        for record in batch.records():
            step = reader.read(record)
            if step is None or step.transactional_id != sink_id:
                continue
            if step.state in ("Empty", "Ongoing") or current is None:
                current = (step.producer_id, step.producer_epoch)
            if step.state == "Empty":
                found.change(current, fenced_ms=step.time_ms)
            elif (meaning := meaning_of(step.state)).phase != "idle":
                # An end bumps the epoch (KIP-890), and so does a fence: it is still the end of this attempt.
                is_end = meaning.phase == "ended"
                found.change(current, fate=_FATES[meaning.outcome], ended_ms=step.time_ms if is_end else None)
            found.partitions.update(_partition(name) for name in step.partitions)


def _partition(name: str) -> TopicPartition:
    topic, _, index = name.rpartition("-")
    return TopicPartition(topic, int(index))


async def _read_markers(consumer: Consumer, partition: TopicPartition, sink_id: str, found: _Found) -> None:
    start = (await consumer.beginning_offsets([partition]))[partition]
    async for batch in consumer.raw_batches(partition, start):
        for record in batch.records():
            if record.key == sink_id.encode() and record.value is not None:
                try:
                    marker = Marker.decode(record.value)
                except MarkerMismatch:
                    continue
                key = (batch.header.producer_id, batch.header.producer_epoch)
                found.change(key, marker=marker, fate=_fate(batch))
        _note_end(batch, found)


def _fate(batch: RawBatch) -> Fate:
    return "aborted" if batch.fate == "aborted" else "open" if batch.fate == "open" else "committed"


def _note_end(batch: RawBatch, found: _Found) -> None:
    """Note a control batch of an attempt, for one whose states are compacted away."""
    key = (batch.header.producer_id, batch.header.producer_epoch)
    if batch.control_type in (ControlRecordType.COMMIT, ControlRecordType.ABORT) and key in found.attempts:
        attempt = found.attempts[key]
        found.change(key, ended_ms=attempt.ended_ms or batch.header.max_timestamp)


async def _read_output(consumer: Consumer, partition: TopicPartition, since_ms: int, found: _Found) -> None:
    try:
        start = (await consumer.offsets_for_times({partition: since_ms}))[partition]
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return  # deleted since
    if start.offset < 0:
        return
    first = (await consumer.beginning_offsets([partition]))[partition]
    position = start.offset
    found.is_whole &= not 0 < first == position
    ids = {producer_id for producer_id, _ in found.attempts}
    async for batch in consumer.raw_batches(partition, start.offset):
        header = batch.header
        found.is_whole &= header.base_offset <= position and has_all_records(batch)
        position = header.next_offset
        if header.producer_id in ids and batch.control_type is None:
            key = (header.producer_id, header.producer_epoch)
            records = dict(found.attempts[key].records or {}) if key in found.attempts else {}
            records[partition.topic] = records.get(partition.topic, 0) + header.record_count
            found.change(key, records=records, fate=_fate(batch))
        _note_end(batch, found)
