"""Arguments as other clients take them are answered with what to write here, before anything is sent."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from oncelog import sync
from oncelog.client import (
    Admin,
    ConfigError,
    Consumer,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    Record,
    TopicPartition,
    TransactionalSession,
)
from tests.support.processes.daemon import Daemon

PLACE = TopicPartition("arguments", 0)
RECORD = Record("arguments", 0, 41, 0, None, None)
A_LIST = r"takes a list of partitions, not a TopicPartition \({}\(\[TopicPartition\(\"topic\", 0\)\]\)\)"
BY_PARTITION = r"{0}\(\) takes offsets by partition, not a record \({0}\(\{{record\.topic_partition: record"


async def seek(consumer: Consumer, offset: Any) -> None:
    consumer.seek(PLACE, offset)


@pytest.fixture
async def consumer(daemon: Daemon) -> AsyncIterator[Consumer]:
    async with Admin(daemon.bootstrap) as admin:
        await admin.create_topics(NewTopic("arguments", 1, 1), exist_ok=True)
    async with Consumer(bootstrap_servers=daemon.bootstrap, group_id="arguments") as opened:
        opened.assign([PLACE])
        yield opened


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda it: it.poll(1.0), r"timeout_ms=1\.0: must be an int from 0, in milliseconds \(timeout_ms=1000, if"),
        (lambda it: it.poll(timeout_ms="1"), "timeout_ms='1': must be an int from 0"),
        (lambda it: it.poll(-1), "timeout_ms=-1: must be an int from 0"),
        (lambda it: it.next_batch(max_wait_ms=0.5), r"max_wait_ms=0\.5: .*\(max_wait_ms=500, if these are seconds"),
        (lambda it: it.end_offsets(PLACE), A_LIST.format("end_offsets")),
        (lambda it: it.beginning_offsets(PLACE), A_LIST.format("beginning_offsets")),
        (lambda it: it.end_offsets(["arguments"]), "a TopicPartition is due, not a str"),
        (lambda it: it.position(RECORD), r"not a Record \(record\.topic_partition\)"),
        (lambda it: it.committed([PLACE]), "a TopicPartition is due, not a list"),
        (lambda it: it.commit_sync(RECORD), BY_PARTITION.format("commit_sync")),
        (lambda it: it.commit_sync([PLACE]), r"by partition, not a list \(commit_sync\(\{TopicPartition\("),
        (lambda it: it.commit_sync({PLACE: None}), "the offset of arguments-0 is None, not an int from 0"),
        (lambda it: it.commit_sync({PLACE: -1}), "the offset of arguments-0 is -1"),
        (
            lambda it: it.commit_sync({PLACE: 2**63}),
            "the offset of arguments-0 is 9223372036854775808, and the largest",
        ),
        (lambda it: seek(it, "end"), r"the offset is 'end', not an int from 0 \(seek_to_beginning\(\) or seek_to_end"),
        (lambda it: seek(it, -1), r"the offset is -1, .* \(seek_to_beginning\(\) or seek_to_end\(\)\)"),
        (lambda it: seek(it, 2**63), "the offset is 9223372036854775808, and the largest is"),
        (lambda it: it.seek_to_timestamp("now"), "when='now': must be a datetime, or an int of milliseconds"),
        (lambda it: it.seek_to_timestamp(datetime.now()), "has no time zone"),
        (lambda it: it.offsets_for_times({PLACE: 1.5}), r"times_ms=1\.5: must be .* \(int\(time\.time\(\) \* 1000\)\)"),
        (lambda it: it.offsets_for_times({PLACE: 2**63}), "times_ms=9223372036854775808: must be a datetime"),
        (
            lambda it: it.commit_sync({PLACE: OffsetAndMetadata(1, "x" * 2**15)}),
            "metadata of arguments-0 is no str of at",
        ),
    ],
)
async def test_a_consumer_says_what_is_due(consumer: Consumer, call: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        await call(consumer)
    with pytest.raises(ConfigError, match=A_LIST.format("assign")):
        consumer.assign(PLACE)  # type: ignore[arg-type]


async def test_a_pair_is_as_good_as_the_topic_partition_that_equals_it(consumer: Consumer) -> None:
    pair: Any = ("arguments", 0)
    consumer.assign([pair])
    await consumer.commit_sync({pair: OffsetAndMetadata(7)})
    assert (await consumer.committed(pair))[PLACE].offset == 7
    assert await consumer.end_offsets([pair]) == {PLACE: 0}


async def test_settings_may_be_numbers_and_bools_and_nothing_that_is_no_value(daemon: Daemon) -> None:
    async with Admin(daemon.bootstrap) as admin:
        configs = {"retention.ms": 60_000, "preallocate": True}
        await admin.create_topics(NewTopic("numbers", 1, 1, configs=configs))
        await admin.alter_configs({"segment.bytes": 2_000_000}, topic="numbers")
        found = await admin.describe_configs(topic="numbers")
        assert {"retention.ms": "60000", "preallocate": "true", "segment.bytes": "2000000"}.items() <= found.items()
        with pytest.raises(ConfigError, match=r"retention\.ms=None: must be a str, a number or a bool \(reset="):
            await admin.alter_configs({"retention.ms": None}, topic="numbers")  # type: ignore[dict-item]
        with pytest.raises(ConfigError, match=r"\(reset=\['retention\.ms'\]\)"):
            await admin.alter_configs(reset="retention.ms", topic="numbers")
        with pytest.raises(ConfigError, match=A_LIST.format("list_offsets")):
            await admin.list_offsets(PLACE)  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="takes offsets by partition, not a record"):
            await admin.alter_group_offsets("group", RECORD)  # type: ignore[arg-type]


async def test_a_flush_in_seconds_is_refused(daemon: Daemon) -> None:
    async with Producer(daemon.bootstrap) as producer:
        with pytest.raises(ConfigError, match=r"timeout_ms=2\.5: .*\(timeout_ms=2500, if these are seconds\)"):
            await producer.flush(2.5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda it: it.find_transactions(states=["going"]), r"there is no 'going' \(there are Empty, Ongoing, Prep"),
        (lambda it: it.list_transactions(states="Ongoing"), r"must be a list of str \(states=\['Ongoing'\]\)"),
        (lambda it: it.list_groups(states=["steady"]), r"there is no 'steady' \(there are PreparingRebalance, Comp"),
        (lambda it: it.list_groups(types=["classical"]), r"there is no 'classical' \(there are classic, consumer, "),
        (lambda it: it.list_offsets([PLACE], "newest"), r"at='newest' \(it is one of 'latest', 'earliest', 'max_tim"),
        (lambda it: it.list_offsets([PLACE], 1.5), r"at=1\.5: must be a datetime, or an int of milliseconds"),
        (lambda it: it.list_offsets([PLACE], datetime.now()), "has no time zone"),
        (lambda it: it.delete_records({PLACE: 9}), r"OFFSET_OUT_OF_RANGE: arguments-0, offset 9 \(at most the end"),
    ],
)
async def test_an_admin_says_what_is_due(daemon: Daemon, call: Callable[[Any], Any], said: str) -> None:
    async with Admin(daemon.bootstrap) as admin:
        await admin.create_topics(NewTopic("arguments", 1, 1), exist_ok=True)
        with pytest.raises(ConfigError, match=said):
            await call(admin)


async def test_states_are_found_in_any_case(daemon: Daemon) -> None:
    place = TopicPartition("in-any-case", 0)
    async with Producer(daemon.bootstrap, transactional_id="in-any-case") as producer, Admin(daemon.bootstrap) as admin:
        async with producer.transaction() as transaction:
            await transaction.send(place.topic, b"1")
            assert "in-any-case" in await admin.list_transactions(states=["ONGOING"])
            assert "in-any-case" not in await admin.list_transactions(states=["empty"])
        await admin.alter_group_offsets("in-any-case", {place: 1})
        assert "in-any-case" in {each.group_id for each in await admin.list_groups(states=["empty"], types=["Classic"])}
        assert "in-any-case" not in {each.group_id for each in await admin.list_groups(states=["stable"])}


async def test_every_look_up_by_time_takes_a_datetime(daemon: Daemon) -> None:
    place, times = TopicPartition("by-datetime", 0), [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    async with Producer(daemon.bootstrap) as producer:
        for time in times[:2]:
            await producer.send(place.topic, b"1", timestamp_ms=round(time.timestamp() * 1000))
    async with Admin(daemon.bootstrap) as admin:
        found = [(await admin.list_offsets([place], time))[place].offset for time in times]
        assert found == [0, 1, -1]
    async with Consumer(bootstrap_servers=daemon.bootstrap) as consumer:
        assert (await consumer.offsets_for_times({place: times[1]}))[place].offset == 1
        consumer.assign([place])
        await consumer.seek_to_timestamp(times[1])
        assert await consumer.position(place) == 1


@pytest.mark.parametrize(
    ("send", "said"),
    [
        (lambda it: it.send(b"orders", b"42"), r"topic is bytes, and must be a str \(topic\.decode\(\)\)"),
        (lambda it: it.send(b"orders", b"42", key=b"7"), "topic is bytes, and must be a str"),
        (lambda it: it.send(PLACE, b"42"), "topic is TopicPartition, and must be a str"),
        (lambda it: it.send_soon(None, b"42"), "topic is NoneType, and must be a str"),
        (
            lambda it: it.send("orders", b"42", timestamp=5),
            r"send\(\) has no option 'timestamp' \(the nearest one is timestamp_ms",
        ),
    ],
)
async def test_a_producer_says_what_is_due(daemon: Daemon, send: Callable[[Any], Any], said: str) -> None:
    async with Producer(daemon.bootstrap) as producer:
        with pytest.raises(ConfigError, match=said):
            await send(producer)
    async with Producer(daemon.bootstrap, on_send=lambda record: record) as producer:
        with pytest.raises(ConfigError, match=said):
            await send(producer)


@pytest.mark.parametrize("records", [[b"value"], ["key"], [b""], [(None, b"v", 0)], [None]])
def test_what_send_many_takes_is_pairs(daemon: Daemon, records: Any) -> None:
    with sync.Producer(daemon.bootstrap) as producer:
        with pytest.raises(ConfigError, match=r"takes pairs of key and value, not a .* \(\[\(None, b\"value\"\)\]\)"):
            producer.send_many("arguments", records)


@pytest.mark.parametrize("client", [Consumer, TransactionalSession])
def test_an_address_in_the_place_of_a_topic_is_answered_with_its_option(client: Any) -> None:
    said = rf"'host:9092' is no topic, .* \({client.__name__}\(\"topic\", bootstrap_servers='host:9092'\)\)"
    with pytest.raises(ConfigError, match=said):
        client("host:9092", "orders", group_id="group")


@pytest.mark.parametrize(
    ("place", "option"),
    [("producer", "transactional_id"), ("producer", "value_serializer"), ("consumer", "group_id")],
)
def test_an_option_of_a_session_is_refused_among_those_of_its_clients(place: str, option: str) -> None:
    said = rf"{option} belongs to the session, not into {place}=.* \(TransactionalSession\(\.\.\., {option}='x:1'\)\)"
    options: Any = {"group_id": "group", place: {option: "x:1"}}
    with pytest.raises(ConfigError, match=said):
        TransactionalSession("orders", **options)
