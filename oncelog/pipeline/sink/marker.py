"""The marker: which batch of a sink was applied last, in a compacted topic, and what that means for the next one.

Owns: the record, the topic it is kept in, reading it, the decision. Does not own: writing it (`publish` does, in the
transaction of the batch).
Invariants
- The key is the sink's id, which is also its transactional id: only who holds the epoch of that id writes the marker.
- Reading resolves the sink's transactions itself, by their control batches, and stops at no last stable offset: a
  transaction that another sink holds open must not hide this sink's newest marker. It is exact because the caller has
  fenced the id before: no transaction of this sink is undecided.
- Where reading begins is a hint only. A committed marker of this sink that lies behind the hint is the newest there is;
  if none does, the topic is read from its beginning. So a hint that is lost, old or of another topic costs time only.
- A topic that may delete its records is refused: a group offset, for one, expires when a query is idle for a week.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from oncelog.client import Admin, AdminOptions, ConfigError, Consumer, KafkaError, NewTopic, Record, TopicPartition
from oncelog.pipeline.option_values import MARKER_TOPIC as MARKER_TOPIC
from oncelog.pipeline.options import NO_SECURITY
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.records.control import ControlRecordType

TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    # What is not compacted yet is read where no hint helps: small segments, cleaned soon (1 MiB is the least of Kafka).
    "segment.bytes": str(1 << 20),
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "86400000",
}
_VERSION = 1


class MarkerMismatch(Exception):
    """Raised if the batch and the marker contradict each other; the message says what is likely and what to do."""


@dataclass(frozen=True, slots=True)
class Marker:
    """The last applied batch of a sink."""

    batch_id: int
    query_id: str = ""
    """The id in the checkpoint; empty for a batch write."""
    fingerprint: str = ""
    """A digest of the offsets that Spark planned for the batch."""
    run_id: str = ""
    """The start of the query that wrote it, if that is known."""
    outputs: dict[str, int] = field(default_factory=dict)
    """The number of records by output name."""
    topics: dict[str, str] | None = None
    """The topic by output name, empty where rows name theirs; None in a marker of an earlier version or a person."""
    digest: str = ""
    """The digest of the rows of a batch write."""

    def encode(self) -> bytes:
        return json.dumps({"version": _VERSION, **asdict(self)}, separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def decode(cls, data: bytes) -> "Marker":
        """Raises MarkerMismatch for bytes that are not a marker of this version."""
        try:
            values: dict[str, Any] = json.loads(data)
            if values.pop("version") == _VERSION:
                return cls(**values)
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
        raise MarkerMismatch(f"{data[:200]!r} is no marker that this version of oncelog can read")


def decide(wanted: Marker, marker: Marker | None) -> bool:
    """Return True to publish, False if this very batch is applied. Raises MarkerMismatch for everything else."""
    batch_id = wanted.batch_id
    if marker is None:
        if batch_id == 0:
            return True
        raise MarkerMismatch(
            f"batch {batch_id} is to be published, and there is no marker of the batches before it: the topic of "
            "markers was deleted, or the checkpoint belongs to another cluster or had another sink so far. If all "
            f"earlier batches are known to be applied: oncelog spark repair CHECKPOINT --applied {batch_id - 1}"
        )
    if marker.query_id != wanted.query_id:
        raise MarkerMismatch(
            f"the sink belongs to query {marker.query_id}, and this is query {wanted.query_id}: two queries must not "
            "share a sinkId, and a new checkpoint is a new query (oncelog spark repair CHECKPOINT --forget)"
        )
    if batch_id == marker.batch_id + 1:
        return True
    if batch_id == marker.batch_id:
        return _is_applied(wanted, marker)
    if batch_id < marker.batch_id:
        raise MarkerMismatch(
            f"batch {batch_id} was run again, but all up to batch {marker.batch_id} are applied: this is an old copy "
            "of the checkpoint. Restore a newer one, or start a new query with a new checkpoint"
        )
    raise MarkerMismatch(
        f"batch {batch_id} was run, but the marker knows only the batches up to {marker.batch_id}: the topic of "
        "markers is older than the checkpoint, or belongs to another cluster. If the batches between are known to be "
        f"applied: oncelog spark repair CHECKPOINT --applied {batch_id - 1}"
    )


def _is_applied(wanted: Marker, marker: Marker) -> bool:
    """Return False, or raise MarkerMismatch if the applied batch of this number is another one."""
    if marker.fingerprint != wanted.fingerprint:
        raise MarkerMismatch(
            f"batch {wanted.batch_id} was applied with other source offsets ({marker.fingerprint}, now "
            f"{wanted.fingerprint}): an old copy of the checkpoint was restored, or it was changed by hand"
        )
    if marker.run_id and marker.run_id == wanted.run_id:
        # Spark never runs a batch twice in one run: this is a second exactly_once() in the same batch.
        raise MarkerMismatch(
            f"batch {wanted.batch_id} was published already, by this very run, with {', '.join(marker.outputs)}: all "
            "outputs of a batch belong into one `with exactly_once(...)`"
        )
    return False


def check_same(wanted: Marker, marker: Marker, title: str = "") -> None:
    """Raise MarkerMismatch if this batch, which `decide` says is applied, was written to other topics than it is now,
    or, if it is a batch write, with other rows. A stream computes a batch from the same offsets: what it published
    stands, even if it would be other rows now. `title` names a batch write."""
    if marker.topics is None or wanted.topics is None:
        return
    if marker.topics != wanted.topics:
        difference = f"{_told(marker.topics)} then, {_told(wanted.topics)} now"
    elif marker.query_id or (marker.digest, marker.outputs) == (wanted.digest, wanted.outputs):
        return
    elif marker.outputs != wanted.outputs:
        difference = f"{sum(marker.outputs.values())} records then, {sum(wanted.outputs.values())} now"
    else:
        difference = f"{sum(marker.outputs.values())} records then and now, not the same"
    if marker.query_id:
        before = f"--applied {wanted.batch_id - 1}" if wanted.batch_id else "--forget"
        raise MarkerMismatch(
            f"batch {wanted.batch_id} was published already, with other outputs: {difference}. Start the query once "
            f"with those of then; or, to publish it again, to those of now, oncelog spark repair CHECKPOINT {before}; "
            f"or, to leave it out there, --applied {wanted.batch_id}"
        )
    raise MarkerMismatch(
        f"{title} was published already, as another write: {difference}. Give this one another runId, or an "
        f"outputName; or, to write again, forget the one of then: {_FORGET}"
    )


_FORGET = "oncelog spark forget --run-id ID"


def _told(topics: Mapping[str, str]) -> str:
    named = sorted(topics.items())
    return ", ".join(f"{name} to {topic or 'the topics that rows name'}" for name, topic in named) or "no topic"


async def ensure_topic(bootstrap_servers: str, topic: str, reach: AdminOptions = NO_SECURITY) -> None:
    """Create the topic of markers, or check that it keeps them for ever. Raises ConfigError and KafkaError."""
    async with Admin(bootstrap_servers, **reach) as admin:
        try:
            configs = await admin.describe_configs(topic=topic)
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            await admin.create_topics(NewTopic(topic, partition_count=1, configs=TOPIC_CONFIGS), exist_ok=True)
            configs = await admin.describe_configs(topic=topic)
    if configs.get("cleanup.policy") != "compact":
        raise ConfigError(
            f"topic {topic!r} has cleanup.policy={configs.get('cleanup.policy')}: markers of idle queries would be "
            "deleted",
            hint="set cleanup.policy=compact on it, or name another with the option markerTopic",
        )


async def read_marker(
    bootstrap_servers: str, topic: str, sink_id: str, hint: int = -1, reach: AdminOptions = NO_SECURITY
) -> tuple[Marker | None, int]:
    """Return the newest committed marker of a sink whose transactional id the caller has fenced, and its offset; None
    and -1 if there is none. `hint` is the offset that was found or written the last time.

    Raises MarkerMismatch for a record that cannot be read, and KafkaError.
    """
    key_of = TopicPartition(topic, 0)
    async with _consumer(bootstrap_servers, reach) as consumer:
        first = (await consumer.beginning_offsets([key_of]))[key_of]
        end = (await consumer.end_offsets([key_of]))[key_of]
        for start in (hint, first) if first < hint < end else (first,):
            found = (await _committed(consumer, key_of, start)).get(sink_id.encode())
            if found is not None:
                return (None, -1) if found.value is None else (Marker.decode(found.value), found.offset)
    return None, -1


async def read_run_marker(
    bootstrap_servers: str, topic: str, sink_id: str, former_id: str, reach: AdminOptions = NO_SECURITY
) -> tuple[Marker | None, int]:
    """Return the marker of a batch write, which has no hint, and its offset. Raises MarkerMismatch also for the marker
    of an earlier version, whose key is the runId alone, `former_id`; an id with a slash makes either key look like the
    other."""
    records = await read_records(bootstrap_servers, topic, reach)
    found = {
        key: (Marker.decode(records[key].value or b""), records[key].offset)
        for key in (sink_id, former_id)
        if key in records
    }
    for marker, _ in found.values():
        if marker.topics is None:
            raise MarkerMismatch(
                f"this runId was published by an earlier version of oncelog, {sum(marker.outputs.values())} records, "
                "which did not keep to which topic. If this is that write, it is done; if not, give it another runId; "
                f"or, to write again, forget the one of then: {_FORGET}"
            )
    return found.get(sink_id, (None, -1))


async def read_markers(bootstrap_servers: str, topic: str, reach: AdminOptions = NO_SECURITY) -> dict[str, Marker]:
    """Return the newest committed marker of every sink."""
    records = await read_records(bootstrap_servers, topic, reach)
    return {name: Marker.decode(each.value or b"") for name, each in records.items()}


async def read_records(bootstrap_servers: str, topic: str, reach: AdminOptions = NO_SECURITY) -> dict[str, Record]:
    """Return the record of the newest committed marker of every sink, by the sink's id. Raises KafkaError."""
    key_of = TopicPartition(topic, 0)
    async with _consumer(bootstrap_servers, reach) as consumer:
        start = (await consumer.beginning_offsets([key_of]))[key_of]
        committed = await _committed(consumer, key_of, start)
    return {key.decode(errors="replace"): each for key, each in committed.items() if each.value is not None}


def _consumer(bootstrap_servers: str, reach: AdminOptions) -> Consumer:
    return Consumer(
        bootstrap_servers=bootstrap_servers,
        isolation_level="read_uncommitted",  # offsets up to the high watermark, see above
        **reach,
    )


async def _committed(consumer: Consumer, partition: TopicPartition, start: int) -> dict[bytes, Record]:
    """Return the newest committed record of each key from an offset on; one without a value is a tombstone."""
    committed: dict[bytes, Record] = {}
    undecided: dict[int, dict[bytes, Record]] = {}
    async for batch in consumer.raw_batches(partition, start):
        producer_id = batch.header.producer_id
        if batch.control_type is not None:
            ended = undecided.pop(producer_id, {})
            if batch.control_type is ControlRecordType.COMMIT:
                committed.update(ended)
            continue
        found = {record.key: record for record in batch.records() if record.key is not None}
        if batch.header.is_transactional:
            undecided.setdefault(producer_id, {}).update(found)
        else:
            committed.update(found)
    return committed
