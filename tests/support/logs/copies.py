"""Two clusters and a copy between them: what a test fills the source with, what it compares, how it runs the copy."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from oncelog.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from oncelog.client.values.records import Headers
from oncelog.protocol.records.compression import CODECS
from oncelog.tools.copy.copying import Copier, Outcome
from oncelog.tools.copy.groups import GroupCopy
from oncelog.tools.copy.survey import Side, Survey, Wish

Content = tuple[int, bytes | None, bytes | None, Headers]
"""Timestamp, key, value and headers of a record: what a copy keeps."""


@dataclass
class Recorder:
    """A watcher that remembers, and calls `at_round` with the number of each round that was committed."""

    at_round: Callable[[int], None] = lambda _: None
    stopped: Callable[[], Awaitable[None]] | None = None
    surveys: list[Survey] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    groups: list[GroupCopy] = field(default_factory=list)
    round_count: int = 0
    record_count: int = 0
    copied: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a round has copied all that is known of the source."""

    def on_survey(self, found: Survey) -> None:
        self.surveys.append(found)

    def on_copied(self, record_count: int, size_bytes: int, left: int) -> None:
        self.round_count += 1
        self.record_count += record_count
        if not left:
            self.copied.set()
        self.at_round(self.round_count)

    def on_groups(self, groups: Sequence[GroupCopy]) -> None:
        self.groups = list(groups)

    def on_trouble(self, problem: str) -> None:
        self.problems.append(problem)

    async def until_stopped(self) -> None:
        if self.stopped is not None:
            await self.stopped()


async def copy(
    source: str, target: str, *, once: bool = True, switch: bool = False, watcher: Recorder | None = None
) -> Outcome:
    return await Copier(Side(source), Side(target), Wish(), watcher or Recorder()).run(once=once, switch=switch)


async def contents(bootstrap: str, *topics: str) -> dict[TopicPartition, list[Content]]:
    """Returns the committed records of each partition, in order."""
    return {place: [each for _, each in found] for place, found in (await placed(bootstrap, *topics)).items()}


async def placed(bootstrap: str, *topics: str) -> dict[TopicPartition, list[tuple[int, Content]]]:
    """Returns the committed records of each partition with their offsets; by default of all topics that are copied."""
    async with Admin(bootstrap) as admin, Consumer(bootstrap_servers=bootstrap) as consumer:
        names = topics or [name for name in await admin.list_topics() if not name.startswith("__")]
        described = await admin.describe_topics(*names) if names else []
        places = [TopicPartition(topic.name, each.partition) for topic in described for each in topic.partitions]
        found: dict[TopicPartition, list[tuple[int, Content]]] = {place: [] for place in places}
        if not places:
            return found
        consumer.assign(places)
        await consumer.seek_to_beginning()
        ends = await consumer.end_offsets(places)
        while any([await consumer.position(place) < ends[place] for place in places]):
            for each in await consumer.poll(5_000, 10_000):
                found[each.topic_partition].append(
                    (each.offset, (each.timestamp_ms, each.key, each.value, tuple(each.headers)))
                )
        return found


async def fill(bootstrap: str, random: Random, *, transaction_count: int = 12) -> None:
    """Topics with everything that a log can have: transactions of all codecs, a third of them aborted, null keys and
    values, headers, times of long ago, empty partitions, large records, and a partition that begins behind 0."""
    async with Admin(bootstrap) as admin:
        await admin.create_topics(
            NewTopic("mixed", 3, configs={"retention.ms": -1, "max.message.bytes": 3_000_000}),
            NewTopic("stamped", 1, configs={"message.timestamp.type": "LogAppendTime", "retention.ms": 86_400_000 * 9}),
            NewTopic("empty", 2),
            NewTopic("cut", 1),
        )
        for number, codec in enumerate([*CODECS] * (transaction_count // len(CODECS) + 1)):
            if number < transaction_count:
                await _transaction(bootstrap, random, codec, is_aborted=number % 3 == 1)
        async with Producer(bootstrap, linger_ms=0, max_request_size=3_000_000) as producer:
            await producer.send("mixed", random.randbytes(2_000_000), key=b"large", partition=1)
            for number in range(20):
                await producer.send_soon("stamped", b"%d" % number, timestamp_ms=1_000 + number)
                await producer.send_soon("cut", b"%d" % number)
        await admin.delete_records({TopicPartition("cut", 0): 7})


async def _transaction(bootstrap: str, random: Random, codec: str, *, is_aborted: bool) -> None:
    try:
        async with (
            Producer(bootstrap, transactional_id="filler", compression_type=codec, batch_size=600) as producer,  # type: ignore[arg-type]
            producer.transaction() as transaction,
        ):
            for _ in range(random.randint(1, 40)):
                await transaction.send_soon(
                    "mixed",
                    random.choice([None, b"", random.randbytes(random.randint(1, 300))]),
                    key=random.choice([None, b"", b"key"]),
                    headers=random.choice([[], [("a", b"1"), ("a", None), ("", b"")]]),
                    timestamp_ms=random.choice([None, 0, 1_000_000_000_000 + random.randint(0, 9_999)]),
                    partition=random.randint(0, 1),
                )
            if is_aborted:
                await producer.flush()  # otherwise they are never written
                raise _AbortedError
    except _AbortedError:
        pass


class _AbortedError(Exception):
    pass


def expected_offset(source: Sequence[tuple[int, Content]], target: Sequence[tuple[int, Content]], offset: int) -> int:
    """The target's offset for a reader of the source at `offset`: that of the first record that it has not read."""
    index = next((number for number, (at, _) in enumerate(source) if at >= offset), len(source))
    if index < len(target):
        return target[index][0]
    return target[-1][0] + 1 if target else 0
