"""What becomes of records that no client reads: retention, rolling, compaction, DeleteRecords.

Owns: the scenes, one topic each, and what counts of an answer: the offsets that a client is shown, the segments that
are stored, by their base offsets, and of compacted topics the records that are left. All scenes wait together, as long
as a broker with these settings needs to look at each of them several times.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.message import Message
from oncelog.protocol.records.batch import iter_batches
from oncelog.protocol.records.record import decode_records
from tests.clients.asking import Asker, Reply, batch, one_partition
from tests.conformance.recording import Differences

SETTINGS = ("log.retention.check.interval.ms=300", "log.cleaner.backoff.ms=100")
KAFKAS_INTERVALS = ("log.initial.task.delay.ms=100",)
WAIT_MS = 5_000
SECOND, HOUR, DAY = 1_000, 3_600_000, 86_400_000
_EARLIEST, _LATEST = -2, -1
_EVERYTHING = 2**31 - 1


class Broker(Protocol):
    def send(self, request: Message, version: int, *, client_id: str = "client") -> Reply: ...

    def let_pass(self, delay_ms: int) -> None: ...

    def segments(self, topic: str) -> list[int]:
        """The base offsets of what is stored of partition 0."""
        ...


@dataclass
class Topic:
    """A topic of one partition, and the producer that writes to it."""

    asker: Asker
    segments: Callable[[str], list[int]]
    name: str
    wall_ms: int
    producer_id: int = -1
    producer_epoch: int = -1

    def produce(self, age_ms: int | None, *, sequence: int = -1, is_transactional: bool = False, **rest: Any) -> str:
        """A record of this age, as of when the conversation began; None: without a timestamp."""
        timestamp = -1 if age_ms is None else self.wall_ms - age_ms
        identity: dict[str, Any] = {"base_sequence": sequence, "transactional": is_transactional}
        if sequence >= 0:
            identity |= {"producer_id": self.producer_id, "producer_epoch": self.producer_epoch}
        data = batch([(rest.get("key"), rest.get("value", b"value"))], timestamp, **identity)
        error, base_offset = self.asker.until(
            lambda answer: answer[0] != "NOT_LEADER_OR_FOLLOWER",  # yet: the topic is new
            "Produce",
            12,
            "responses.0.partition_responses.0(error_code base_offset)",
            transactional_id=self.name if is_transactional else None,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[{"name": self.name, "partition_data": [{"index": 0, "records": data}]}],
        )
        return f"{error} {base_offset}"

    def offset(self, timestamp: int, isolation_level: int = 0) -> int:
        topics = one_partition(self.name, timestamp=timestamp)
        fields = {"replica_id": -1, "isolation_level": isolation_level, "topics": topics}
        offset: int = self.asker.ask("ListOffsets", 5, "topics.0.partitions.0.offset", **fields)
        return offset


Step = Callable[[Topic], Any]
"""A step of a scene; its return value is part of the transcript, unless it is None."""


def wait(topic: Topic) -> None:
    """Wait until retention and compaction have looked at everything."""


def look(topic: Topic) -> str:
    start, stable, end = topic.offset(_EARLIEST), topic.offset(_LATEST, 1), topic.offset(_LATEST)
    return f"{start} to {end}, stable {stable}, segments {topic.segments(topic.name)}"


def left(topic: Topic) -> list[tuple[int, bytes | None, bytes | None]]:
    """The records that a reader gets."""
    found, next_offset, end = [], topic.offset(_EARLIEST), topic.offset(_LATEST)
    while next_offset < end:
        wanted = {"partition": 0, "fetch_offset": next_offset, "partition_max_bytes": _EVERYTHING}
        limits = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": _EVERYTHING}
        topics = [{"topic": topic.name, "partitions": [wanted]}]
        records = topic.asker.ask("Fetch", 11, "responses.0.partitions.0.records", **limits, topics=topics)
        next_offset = end
        for header, data in iter_batches(memoryview(records)):
            next_offset = header.next_offset
            found += [(record.offset, record.key, record.value) for record in decode_records(data)]
    return found


def put(*ages_ms: int | None, key: bytes | None = None, value: bytes | None = b"value") -> Step:
    """Each in a batch of its own."""

    def step(topic: Topic) -> None:
        for age_ms in ages_ms:
            answer = topic.produce(age_ms, key=key, value=value)
            assert answer.startswith("NONE"), answer

    return step


def delete_below(offset: int) -> Step:
    def step(topic: Topic) -> str:
        fields = {"topics": one_partition(topic.name, offset=offset), "timeout_ms": 10_000}
        error, start = topic.asker.ask("DeleteRecords", 2, "topics.0.partitions.0(error_code low_watermark)", **fields)
        return f"{error} {start}"

    return step


def begin_producer(*, is_transactional: bool = False) -> Step:
    def step(topic: Topic) -> None:
        transactional_id = topic.name if is_transactional else None
        if transactional_id is not None:
            topic.asker.ask("FindCoordinator", 2, key=transactional_id, key_type=1)
        asked = {"transactional_id": transactional_id, "transaction_timeout_ms": 60_000}
        answer = topic.asker.until(lambda made: not ErrorCode(made.error_code).retriable, "InitProducerId", 4, **asked)
        topic.producer_id, topic.producer_epoch = answer.producer_id, answer.producer_epoch

    return step


def send(age_ms: int, sequence: int, *, is_transactional: bool = False) -> Step:
    return lambda topic: topic.produce(age_ms, sequence=sequence, is_transactional=is_transactional)


def commit(topic: Topic) -> str:
    producer = {"producer_id": topic.producer_id, "producer_epoch": topic.producer_epoch}
    error: str = topic.asker.ask("EndTxn", 5, "error_code", transactional_id=topic.name, **producer, committed=True)
    return error


@dataclass(frozen=True)
class Scene:
    steps: Sequence[Step]
    config: Mapping[str, str] = field(default_factory=dict)


def _config(text: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in text.split())


def _of(config: str, *steps: Step) -> Scene:
    return Scene(steps, _config(config))


_PAIRS = "internal.segment.bytes=200"
"""Two batches of one small record fit into a segment, three do not."""
_COMPACT = "cleanup.policy=compact min.cleanable.dirty.ratio=0.0"
SCENES = {
    "time: one record, due": _of(f"retention.ms={HOUR}", put(2 * DAY), wait, look, put(0), look),
    "time: due, and one that is not, in a segment": _of(f"retention.ms={HOUR}", put(2 * DAY, 0), wait, look),
    "time: due, and one of the future, in a segment": _of(f"retention.ms={HOUR}", put(2 * DAY, -HOUR // 2), wait, look),
    "time: due, and one that is not, in two segments": _of(
        f"retention.ms={HOUR} segment.ms={HOUR}", put(2 * DAY, 0), wait, look
    ),
    "time: not due": _of(f"retention.ms={HOUR}", put(0), wait, look),
    "time: five due, in three segments": _of(f"retention.ms={HOUR} {_PAIRS}", put(*[2 * DAY] * 5), wait, look),
    "time: without limit": _of("retention.ms=-1", put(2 * DAY), wait, look),
    "time: without timestamp, hour": _of(f"retention.ms={HOUR}", put(None), wait, look),
    "time: without timestamp, second": _of(f"retention.ms={SECOND}", put(None), wait, look),
    "time: compact": _of(f"cleanup.policy=compact retention.ms={HOUR}", put(2 * DAY, key=b"a"), wait, look),
    "time: compact and delete": _of(
        f"cleanup.policy=compact,delete retention.ms={HOUR}", put(2 * DAY, key=b"a"), wait, look
    ),
    "time: neither": _of(f"cleanup.policy= retention.ms={HOUR}", put(2 * DAY), wait, look),
    "time: an open transaction, due": _of(
        f"retention.ms={HOUR}",
        begin_producer(is_transactional=True),
        send(2 * DAY, 0, is_transactional=True),
        wait,
        look,
        put(0),
        look,
        commit,
        wait,
        look,
    ),
    "time: a producer whose records are gone": _of(
        f"retention.ms={HOUR}", begin_producer(), send(2 * DAY, 0), wait, look, send(2 * DAY, 0), send(0, 1), send(0, 7)
    ),
    "size: zero": _of("retention.bytes=0", put(0, 0), wait, look),
    "size: one byte": _of(f"retention.bytes=1 {_PAIRS}", put(0, 0, 0, 0), wait, look),
    "size: five in three segments, all but 250 bytes": _of(
        f"retention.bytes=250 {_PAIRS}", put(0, 0, 0, 0, 0), wait, look
    ),
    "size: zero, compact": _of("cleanup.policy=compact retention.bytes=0", put(0, key=b"a"), wait, look),
    "delete records: all": _of("", put(0, 0), delete_below(_LATEST), wait, look, put(0), look),
    "delete records: some of a segment": _of(_PAIRS, put(0, 0, 0, 0, 0), delete_below(3), wait, look),
    "delete records: some of the active segment": _of(_PAIRS, put(0, 0, 0, 0), delete_below(3), wait, look),
    "delete records: all, then due": _of(f"retention.ms={SECOND}", put(0, 0), delete_below(2), wait, look),
    "delete records: compact": _of("cleanup.policy=compact", put(0, key=b"a"), delete_below(1), look),
    "roll: segment.ms later": _of(f"segment.ms={HOUR}", put(DAY, DAY - HOUR), look, put(DAY - HOUR - 1), look),
    "roll: an earlier record": _of(f"segment.ms={HOUR}", put(0, DAY), look),
    "roll: nobody appends": _of(f"segment.ms={SECOND}", put(0), wait, look, put(-WAIT_MS), look),
    "roll: without timestamps": _of(f"segment.ms={SECOND}", put(None), wait, look, put(None), look),
    "roll: jitter": _of(
        f"segment.ms={DAY} segment.jitter.ms={HOUR}", put(2 * DAY, DAY + HOUR + 1), look, put(DAY - 1), look
    ),
    "roll: segment.bytes": _of(_PAIRS, put(0, 0, 0, 0, 0), look),
    "roll: a batch as large as a segment": _of(_PAIRS, put(0, value=bytes(120)), put(0, 0), look),
    "roll: a batch larger than a segment": _of(_PAIRS, lambda topic: topic.produce(0, value=bytes(200)), put(0), look),
    "roll: index full, one time": _of("segment.index.bytes=96 index.interval.bytes=0", put(*[0] * 30), look),
    "roll: index full, later and later": _of(
        "segment.index.bytes=96 index.interval.bytes=0", put(*range(DAY, DAY - 30, -1)), look
    ),
    "compaction: the active segment": _of(_COMPACT, put(DAY, DAY, key=b"a"), wait, look, left),
    "compaction: a closed segment": _of(f"{_COMPACT} {_PAIRS}", put(DAY, DAY, DAY, key=b"a"), wait, look, left),
    "compaction: ratio of exactly 1": _of(
        f"cleanup.policy=compact min.cleanable.dirty.ratio=1.0 {_PAIRS}", put(DAY, DAY, DAY, key=b"a"), wait, left
    ),
    "compaction: min.compaction.lag.ms, not over": _of(
        f"{_COMPACT} {_PAIRS} min.compaction.lag.ms={HOUR}", put(0, 0, 0, key=b"a"), wait, left
    ),
    "compaction: min.compaction.lag.ms, over": _of(
        f"{_COMPACT} {_PAIRS} min.compaction.lag.ms={HOUR}", put(DAY, DAY, 0, key=b"a"), wait, left
    ),
    "compaction: max.compaction.lag.ms, nobody appends": _of(
        f"cleanup.policy=compact min.cleanable.dirty.ratio=1.0 max.compaction.lag.ms={HOUR}",
        put(DAY, DAY, key=b"a"),
        wait,
        look,
        left,
    ),
    "compaction: max.compaction.lag.ms, over": _of(
        f"cleanup.policy=compact min.cleanable.dirty.ratio=1.0 max.compaction.lag.ms={HOUR}",
        put(DAY, DAY, 0, key=b"a"),
        wait,
        look,
        left,
    ),
    "compaction: max.compaction.lag.ms, over in a later segment": _of(
        f"cleanup.policy=compact min.cleanable.dirty.ratio=1.0 max.compaction.lag.ms={HOUR} {_PAIRS}",
        put(0, 0, DAY, DAY, 0, key=b"a"),
        wait,
        look,
        left,
    ),
    "compaction: a tombstone, delete.retention.ms over": _of(
        f"{_COMPACT} {_PAIRS} delete.retention.ms=0",
        put(DAY, key=b"a"),
        put(DAY, key=b"a", value=None),
        put(0, key=b"b"),
        wait,
        left,
        put(0, 0, 0, key=b"b"),
        wait,
        left,
    ),
    "compaction: a tombstone, delete.retention.ms not over": _of(
        f"{_COMPACT} {_PAIRS} delete.retention.ms={HOUR}",
        put(DAY, key=b"a"),
        put(DAY, key=b"a", value=None),
        put(0, key=b"b"),
        wait,
        left,
        put(0, 0, 0, key=b"b"),
        wait,
        left,
    ),
}
_AT_ONCE = "what DeleteRecords leaves nothing of makes room at once, also the active segment"
DIFFERENCES: Differences = {
    "delete records: all, 2": (_AT_ONCE, "2 to 2, stable 2, segments [2]"),
    "delete records: all, 3": (_AT_ONCE, "2 to 3, stable 3, segments [2]"),
    "time: without timestamp, second, 1": (
        "the time at which a file was written is not that of its records: a copy or a backup changes it",
        "0 to 1, stable 1, segments [0]",
    ),
}


def conversation(broker: Broker, wall_ms: int) -> Iterator[tuple[str, Any]]:
    asker = Asker(broker)
    asker.pause_ms = 100
    topics = [Topic(asker, broker.segments, f"scene-{number}", wall_ms) for number in range(len(SCENES))]
    _create(asker, topics)
    waiting = [(name, 1, iter(scene.steps), topic) for (name, scene), topic in zip(SCENES.items(), topics, strict=True)]
    while waiting:
        still = []
        for name, number, steps, topic in waiting:
            for step in steps:
                if step is wait:
                    still.append((name, number, steps, topic))
                    break
                told = step(topic)
                if told is not None:
                    yield f"{name}, {number}", told
                    number += 1
        waiting = still
        broker.let_pass(WAIT_MS)


def _create(asker: Asker, topics: Sequence[Topic]) -> None:
    made = [
        {"name": topic.name, "num_partitions": 1, "replication_factor": 1, "configs": list(scene.config.items())}
        for topic, scene in zip(topics, SCENES.values(), strict=True)
    ]
    created = asker.ask("CreateTopics", 7, "topics(name error_code error_message)", topics=made, timeout_ms=10_000)
    refused = [answer for answer in created if answer[1] != "NONE"]
    assert not refused, refused
    wanted = [{"name": topic.name} for topic in topics]
    asker.until(lambda errors: {*errors} == {"NONE"}, "Metadata", 12, "topics.error_code", topics=wanted)
