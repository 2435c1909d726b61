"""How far a consumer is behind, and where it can go: the same on our daemon and on Apache Kafka."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from oncelog.client import ConfigError, Consumer, ConsumerOptions, Lag, Producer, TopicPartition
from tests.clients.topics import new_topic, until_stable
from tests.support.kafka.server import ON_BOTH, serving
from tests.support.patience import PATIENCE_MS


@pytest.fixture(scope="module", params=ON_BOTH)
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(request.param, tmp_path_factory.mktemp(request.param)) as bootstrap:
        yield bootstrap


async def write(bootstrap: str, topic: str) -> None:
    """Offsets 0 to 2 committed, 3 their marker, 4 to 8 aborted, 9 the marker, 10 and 11 plain."""
    async with Producer(bootstrap, transactional_id=topic) as producer:
        async with producer.transaction() as transaction:
            for _ in range(3):
                await transaction.send_soon(topic, b"committed")
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction() as transaction:
                for _ in range(5):
                    await transaction.send(topic, b"aborted")
                raise ZeroDivisionError
    await until_stable(bootstrap, TopicPartition(topic, 0))
    async with Producer(bootstrap) as producer:
        for _ in range(2):
            await producer.send(topic, b"plain")


async def test_lag_counts_the_records_that_are_still_to_be_returned(bootstrap: str) -> None:
    topic = await new_topic(bootstrap)
    place = TopicPartition(topic, 0)
    await write(bootstrap, topic)
    options = ConsumerOptions(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    async with (
        Consumer(topic, **options) as committed,
        Consumer(topic, isolation_level="read_uncommitted", **options) as everything,
        Producer(bootstrap, transactional_id=f"{topic}-open") as producer,
    ):
        committed.pause(place)
        # Nothing is fetched yet: each offset may be a record.
        assert await committed.lag() == {place: Lag(0, 12, 12, 12, is_exact=False)}
        committed.resume(place)
        assert [each.offset for each in await committed.poll(PATIENCE_MS, 2)] == [0, 1]
        # What is fetched is counted: neither markers nor what was aborted.
        assert await committed.lag(place) == {place: Lag(2, 12, 12, 3, is_exact=True)}
        async with producer.transaction() as transaction:
            await transaction.send(topic, b"open")
            lag = (await committed.lag())[place]
            assert (lag.last_stable_offset, lag.high_watermark, lag.record_count) == (12, 13, 3)
            read: list[int] = []
            while len(read) < 3:
                read += [each.offset for each in await committed.poll(10_000)]
            assert read == [2, 10, 11]
            assert (await committed.lag())[place] == Lag(12, 12, 13, 0, is_exact=True)
            assert len(await everything.poll(PATIENCE_MS, 1)) == 1
            assert (await everything.lag())[place].record_count >= 10
    await until_stable(bootstrap, place)
    async with Consumer(topic, **options) as consumer:
        await consumer.seek_to_end()
        assert (await consumer.lag())[place].record_count == 0


async def test_lag_reaches_zero_behind_what_is_hidden(bootstrap: str) -> None:
    topic = await new_topic(bootstrap)
    place = TopicPartition(topic, 0)
    async with Producer(bootstrap, transactional_id=topic) as producer:
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction() as transaction:
                await transaction.send(topic, b"aborted")
                raise ZeroDivisionError
    await until_stable(bootstrap, place)
    async with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.pause(place)
        assert (await consumer.lag())[place] == Lag(0, 2, 2, 2, is_exact=False)
        consumer.resume(place)
        while (await consumer.lag())[place] != Lag(2, 2, 2, 0, is_exact=True):
            assert await consumer.poll(100) == []


async def test_lag_counts_from_what_the_iterator_has_returned(bootstrap: str) -> None:
    topic = await new_topic(bootstrap)
    place = TopicPartition(topic, 0)
    await write(bootstrap, topic)
    async with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            if record.offset == 2:
                break
        assert (await consumer.lag())[place] == Lag(10, 12, 12, 2, is_exact=True)


async def test_a_consumer_can_go_anywhere_by_one_kind_of_call(bootstrap: str) -> None:
    topic, places = await new_topic(bootstrap, 2), []
    places = [TopicPartition(topic, index) for index in range(2)]
    start = datetime(2024, 5, 1, tzinfo=UTC)
    async with Producer(bootstrap) as producer:
        for number in range(10):
            when_ms = round((start + timedelta(minutes=number)).timestamp() * 1000)
            await producer.send(topic, b"%d" % number, partition=number % 2, timestamp_ms=when_ms)
    async with Consumer(
        bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        consumer.assign(places)

        async def stand() -> list[int]:
            return [await consumer.position(each) for each in places]

        await consumer.commit_sync({places[0]: 3})
        await consumer.seek_to_end()
        assert await stand() == [5, 5]
        await consumer.seek_to_beginning(places[1])
        assert await stand() == [5, 0]
        await consumer.seek_to_timestamp(start + timedelta(minutes=3))
        assert await stand() == [2, 1]
        await consumer.seek_to_timestamp(round((start + timedelta(minutes=9)).timestamp() * 1000))
        assert await stand() == [5, 4]
        consumer.seek(places[1], 2)
        assert await stand() == [5, 2]
        # Without a committed offset it is where a consumer of the group would begin.
        await consumer.seek_to_committed()
        assert await stand() == [3, 0]
        assert {each.offset for each in await consumer.poll(PATIENCE_MS)} <= {0, 3, 1, 4, 2}
        with pytest.raises(ConfigError, match="no time zone"):
            await consumer.seek_to_timestamp(datetime(2024, 5, 1))
    async with Consumer(topic, bootstrap_servers=bootstrap) as alone:
        with pytest.raises(ConfigError, match="no group_id"):
            await alone.seek_to_committed()
