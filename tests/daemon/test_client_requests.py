"""What a consumer asks its broker, and how much of it."""

import asyncio
import uuid

import pytest

from oncelog.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from oncelog.faults import Action, ErrorCode, Point, Rule, Selector
from oncelog.protocol.api_keys import ApiKey
from tests.conftest import Start
from tests.daemon.test_spark_sink import with_faults
from tests.support.patience import PATIENCE_MS
from tests.support.processes.daemon import Daemon
from tests.support.requests.sent_requests import sent_requests

pytestmark = pytest.mark.interpreted  # sent_requests replaces a method of the connection


async def new_topics(daemon: Daemon, count: int, partitions: int = 1) -> list[str]:
    names = [f"topic-{uuid.uuid4().hex[:8]}" for _ in range(count)]
    async with Admin(daemon.bootstrap) as admin:
        await admin.create_topics(*(NewTopic(name, partitions, 1) for name in names))
    return names


async def test_the_first_poll_of_a_group_asks_once_for_the_metadata_of_all_its_topics(daemon: Daemon) -> None:
    topics = await new_topics(daemon, 20)
    async with Consumer(*topics, bootstrap_servers=daemon.bootstrap, group_id=topics[0]) as consumer:
        with sent_requests() as sent:
            while len(consumer.assignment()) < len(topics):
                await consumer.poll(100)
    asked = [sorted(each.name for each in sent.message.topics) for sent in sent if sent.key == ApiKey.METADATA]
    assert asked == [sorted(topics)]


async def test_a_reader_of_topics_asks_once_for_their_metadata(daemon: Daemon) -> None:
    topics = await new_topics(daemon, 20)
    with sent_requests() as sent:
        async with Consumer(*topics, bootstrap_servers=daemon.bootstrap) as consumer:
            assert len(consumer.assignment()) == len(topics)
    asked = [len(sent.message.topics) for sent in sent if sent.key == ApiKey.METADATA]
    assert asked == [0, len(topics)]


async def test_an_idle_consumer_of_a_hundred_partitions_sends_small_requests(daemon: Daemon) -> None:
    (topic,) = await new_topics(daemon, 1, partitions=100)
    async with Consumer(topic, bootstrap_servers=daemon.bootstrap, fetch_max_wait_ms=10) as consumer:
        with sent_requests() as sent:
            while len(fetches := [each for each in sent if each.key == ApiKey.FETCH]) < 20:
                await consumer.poll(20)
        sizes = [each.size_in_bytes for each in fetches]
        assert sizes[0] > 2_000
        assert max(sizes[1:]) < 100
        async with Producer(daemon.bootstrap) as producer:
            await producer.send(topic, b"value", partition=77)
        with sent_requests() as sent:
            assert [each.partition for each in await consumer.poll(PATIENCE_MS)] == [77]
            while len(fetches := [each for each in sent if each.key == ApiKey.FETCH]) < 3:
                await consumer.poll(20)
        # Of the hundred, the one that has moved is named.
        assert max(each.size_in_bytes for each in fetches) < 200


async def test_what_is_paused_or_given_up_is_forgotten_and_what_is_resumed_is_fetched_again(daemon: Daemon) -> None:
    (topic,) = await new_topics(daemon, 1, partitions=3)
    places = [TopicPartition(topic, index) for index in range(3)]

    async def read_one(partition: int) -> None:
        async with Producer(daemon.bootstrap) as producer:
            await producer.send(topic, b"value", partition=partition)
        assert [each.partition for each in await consumer.poll(PATIENCE_MS)] == [partition]

    async with Consumer(bootstrap_servers=daemon.bootstrap, fetch_max_wait_ms=10) as consumer:
        consumer.assign(places)
        await consumer.seek_to_end()
        await read_one(0)
        consumer.pause(places[0])
        await read_one(1)
        consumer.assign(places[:2])
        with sent_requests() as sent:
            await read_one(1)
            consumer.resume(places[0])
            await read_one(0)
        fetches = [each.message for each in sent if each.key == ApiKey.FETCH]
        forgotten = [each.partitions for fetch in fetches for each in fetch.forgotten_topics_data]
        assert any(2 in each for each in forgotten)  # perhaps with one that is paused
        assert all(fetch.session_epoch > 0 for fetch in fetches)


@pytest.mark.parametrize("code", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH])
async def test_a_lost_session_is_followed_by_a_new_one_and_no_record_is_left_out(
    start_daemon: Start, code: ErrorCode
) -> None:
    daemon, faults = with_faults(start_daemon)
    (topic,) = await new_topics(daemon, 1, partitions=4)
    read: list[int] = []
    async with (
        Consumer(
            topic, bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=10
        ) as consumer,
        Producer(daemon.bootstrap) as producer,
    ):
        for number in range(40):
            await producer.send(topic, b"%d" % number, partition=number % 4)
            if number % 10 == 5:
                await asyncio.to_thread(
                    faults.plant, Rule(Point.REQUEST, Action.ERROR, Selector(api=ApiKey.FETCH), error=code)
                )
            read += [int(each.value or b"") for each in await consumer.poll(20)]
        with sent_requests() as sent:
            while len(read) < 40:
                read += [int(each.value or b"") for each in await consumer.poll(1_000)]
            faults.plant(Rule(Point.REQUEST, Action.ERROR, Selector(api=ApiKey.FETCH), error=code))
            while not [each for each in sent if each.key == ApiKey.FETCH and each.message.session_epoch == 0]:
                await consumer.poll(20)
    assert sorted(read) == list(range(40))


async def test_the_log_end_is_asked_for_as_kafkas_debugging_tools_ask_and_nothing_else_is(daemon: Daemon) -> None:
    (topic,) = await new_topics(daemon, 1)
    place = TopicPartition(topic, 0)
    async with Admin(daemon.bootstrap) as admin, Producer(daemon.bootstrap) as producer:
        await producer.send(topic, b"value")
        with sent_requests() as sent:
            ends = [(await admin.list_offsets([place], at))[place].offset for at in ("log_end", "latest", "earliest")]
    assert ends == [1, 1, 0]
    asked = [each.message.replica_id for each in sent if each.key == ApiKey.LIST_OFFSETS]
    assert asked == [-2, -1, -1]
