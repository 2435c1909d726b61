"""How much a consumer fetches ahead, and of what."""

import asyncio

import pytest

from oncelog.client import Consumer, Producer, TopicPartition
from oncelog.client.consuming.fetcher import Fetcher
from oncelog.client.values.errors import RequestTimedOut
from oncelog.protocol.api_keys import ApiKey
from tests.clients.topics import new_topic
from tests.support.patience import PATIENCE_MS
from tests.support.processes.daemon import Daemon
from tests.support.requests.sent_requests import sent_requests

RECORD_BYTES = 10_000
BATCH_BYTES = 60_000
PARTITIONS = 20
PER_PARTITION = 30


async def filled_topic(daemon: Daemon) -> str:
    """Six megabytes in batches of 60 kB."""
    name = await new_topic(daemon.bootstrap, PARTITIONS)
    async with Producer(daemon.bootstrap, batch_size=BATCH_BYTES, linger_ms=50) as producer:
        for number in range(PARTITIONS * PER_PARTITION):
            value = b"%d " % number + b"x" * RECORD_BYTES
            await producer.send_soon(name, value, partition=number % PARTITIONS)
    return name


def fetcher_of(consumer: Consumer) -> Fetcher:
    return consumer._require_open().fetcher


@pytest.mark.parametrize("limit", [1_000_000, 200_000, 1])
async def test_what_is_fetched_ahead_stays_below_its_bound_and_everything_is_read(daemon: Daemon, limit: int) -> None:
    topic = await filled_topic(daemon)
    read: list[int] = []
    most = 0
    async with Consumer(
        topic, bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest", queued_max_bytes=limit
    ) as consumer:
        fetcher = fetcher_of(consumer)
        while len(read) < PARTITIONS * PER_PARTITION:
            read += [int((each.value or b"").split()[0]) for each in await consumer.poll(10_000, 7)]
            most = max(most, fetcher.buffered_bytes)
            # Only a batch that did not fit at all may have come on top of it.
            assert fetcher.buffered_bytes <= max(limit, BATCH_BYTES * 1.1)
    assert limit < BATCH_BYTES or most > limit / 2
    for partition in range(PARTITIONS):
        assert [each for each in read if each % PARTITIONS == partition] == list(
            range(partition, PARTITIONS * PER_PARTITION, PARTITIONS)
        )


@pytest.mark.interpreted  # sent_requests replaces a method of the connection
async def test_paused_partitions_are_not_fetched_and_what_they_hold_is_in_nobodys_way(daemon: Daemon) -> None:
    topic = await filled_topic(daemon)
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    async with Consumer(
        bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest", queued_max_bytes=300_000
    ) as consumer:
        consumer.assign(places[:-1])
        await consumer.poll(PATIENCE_MS, 1)
        while fetcher_of(consumer).buffered_bytes < 200_000:
            await fetcher_of(consumer).wait(0.05)
        positions = {place: await consumer.position(place) for place in places[:-1]}
        consumer.pause(*places[:-1])
        consumer.assign(places)
        read: list[int] = []
        with sent_requests() as sent:
            while len(read) < PER_PARTITION:
                for each in await consumer.poll(10_000):
                    assert each.topic_partition == places[-1]
                    read.append(each.offset)
        assert read == list(range(PER_PARTITION))
        fetches = [each.message for each in sent if each.key == ApiKey.FETCH]
        named = {part.partition for fetch in fetches for each in fetch.topics for part in each.partitions}
        assert named == {PARTITIONS - 1}
        consumer.resume(*places[:-1])
        # What was dropped to make room comes again, from where the reader was.
        seen: dict[TopicPartition, int] = {}
        while len(seen) < PARTITIONS - 1:
            for each in await consumer.poll(10_000):
                seen.setdefault(each.topic_partition, each.offset)
        assert seen == positions


@pytest.mark.interpreted  # sent_requests replaces a method of the connection
async def test_a_full_partition_that_is_paused_makes_no_fetch_shorter(daemon: Daemon) -> None:
    topic = await filled_topic(daemon)
    places = [TopicPartition(topic, index) for index in range(2)]
    async with Consumer(
        bootstrap_servers=daemon.bootstrap,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=BATCH_BYTES,
        fetch_max_wait_ms=50,
    ) as consumer:
        consumer.assign(places)
        await consumer.poll(PATIENCE_MS, 1)
        fetcher = fetcher_of(consumer)
        while len(fetcher.partitions[places[0]].chunks) < 2:
            await fetcher.wait(0.05)
        consumer.pause(places[0])
        await consumer.seek_to_end(places[1])
        while await consumer.poll(100):
            pass
        with sent_requests() as sent:
            await consumer.poll(200)
        waits = {each.message.max_wait_ms for each in sent if each.key == ApiKey.FETCH}
        assert waits == {50}


async def test_who_pauses_what_has_given_records_gets_to_see_all_partitions(daemon: Daemon) -> None:
    """Records buffered for paused partitions fill the memory; they make room for the other partitions."""
    topic = await filled_topic(daemon)
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    async with Consumer(
        bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest", queued_max_bytes=300_000
    ) as consumer:
        consumer.assign(places)
        paused: set[TopicPartition] = set()
        while len(paused) < PARTITIONS:
            given = {each.topic_partition for each in await consumer.poll(10_000, 1)}
            assert given and not given & paused
            consumer.pause(*given)
            paused |= given


async def test_records_whose_commit_has_failed_come_again_at_once(daemon: Daemon) -> None:
    topic = await filled_topic(daemon)
    async with Consumer(
        bootstrap_servers=daemon.bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        delivery="at_most_once",
        max_partition_fetch_bytes=BATCH_BYTES,
    ) as consumer:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        first = await consumer.poll(PATIENCE_MS, 1)
        fetcher = fetcher_of(consumer)
        while len(fetcher.partitions[place].chunks) < 2:
            await fetcher.wait(0.05)
        commit = consumer._require_open().commits

        async def failing(*_: object) -> None:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            raise RequestTimedOut("the commit was not answered")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(commit, "commit", failing)
            with pytest.raises(RequestTimedOut):
                await consumer.poll(PATIENCE_MS, 1)
        assert [each.offset for each in await consumer.poll(PATIENCE_MS, 1)] == [first[0].offset + 1]
