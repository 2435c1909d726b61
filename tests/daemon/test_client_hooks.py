"""Hooks see what Kafka's interceptors see, may change what those may, and break nothing when they raise."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from oncelog import (
    STRING,
    Admin,
    CommitFailed,
    ConfigError,
    Consumer,
    KafkaError,
    Producer,
    ProducerRecord,
    Record,
    RecordMetadata,
    TopicPartition,
    TransactionAborted,
)
from tests.clients.topics import new_topic
from tests.support.patience import PATIENCE_MS
from tests.support.processes.daemon import Daemon


@pytest.fixture
async def topic(daemon: Daemon) -> str:
    return await new_topic(daemon.bootstrap)


async def fill(daemon: Daemon, topic: str, *values: bytes) -> None:
    async with Producer(daemon.bootstrap) as producer:
        for value in values:
            await producer.send(topic, value)


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


async def test_on_send_gets_objects_and_what_it_returns_is_sent(daemon: Daemon, topic: str) -> None:
    def stamp(record: ProducerRecord[str, str]) -> ProducerRecord[str, str]:
        return record._replace(topic=topic, value=f"<{record.value}>", headers=[("trace", b"1")])

    async with Producer(daemon.bootstrap, key_serializer=STRING, value_serializer=STRING, on_send=stamp) as producer:
        assert (await producer.send("elsewhere", "value", key="key")).topic == topic
    async with Consumer(topic, bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest") as consumer:
        (record,) = await consumer.poll(PATIENCE_MS)
    assert (record.key, record.value, record.headers) == (b"key", b"<value>", (("trace", b"1"),))


@pytest.mark.parametrize("result", [None, ZeroDivisionError])
async def test_a_failing_on_send_is_logged_and_the_record_is_sent_as_it_was(
    daemon: Daemon, topic: str, result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(record: ProducerRecord) -> ProducerRecord:
        if result is not None:
            raise result
        return None  # type: ignore[return-value]

    async with Producer(daemon.bootstrap, on_send=broken) as producer:
        assert (await producer.send(topic, b"value")).offset == 0
    assert warned(caplog) == ["on_send failed: the record is sent as it was"]


async def test_on_acknowledgement_gets_the_outcome_of_each_record(daemon: Daemon, topic: str) -> None:
    outcomes: list[tuple[int, int, type | None]] = []

    def note(metadata: RecordMetadata, error: KafkaError | None) -> None:
        assert metadata.topic == topic
        outcomes.append((metadata.partition, metadata.offset, None if error is None else type(error)))

    async with Producer(daemon.bootstrap, transactional_id=topic, on_acknowledgement=note) as producer:
        async with producer.transaction() as transaction:
            for _ in range(3):
                await transaction.send_soon(topic, b"value")
        with pytest.raises(ConfigError):
            async with producer.transaction() as transaction:
                await transaction.send_soon(topic, b"value")
                await transaction.send(topic, b"value", partition=7)
    assert outcomes == [(0, 0, None), (0, 1, None), (0, 2, None), (7, -1, ConfigError), (0, -1, TransactionAborted)]


async def test_a_failing_on_acknowledgement_is_logged_and_fails_no_delivery(
    daemon: Daemon, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(metadata: RecordMetadata, error: KafkaError | None) -> None:
        raise ZeroDivisionError

    async with Producer(daemon.bootstrap, on_acknowledgement=broken) as producer:
        assert (await producer.send(topic, b"value")).offset == 0
    assert warned(caplog) == ["on_acknowledgement failed"]


async def test_on_consume_decides_what_is_returned_and_offsets_go_past_what_is_not(daemon: Daemon, topic: str) -> None:
    await fill(daemon, topic, b"1", b"22", b"3")

    def short(records: Sequence[Record[bytes, str]]) -> list[Record[bytes, str]]:
        return [each._replace(value=f"<{each.value}>") for each in records if len(each.value or "") == 1]

    async with Consumer(
        topic,
        bootstrap_servers=daemon.bootstrap,
        auto_offset_reset="earliest",
        value_deserializer=STRING,
        on_consume=short,
    ) as consumer:
        batch = await consumer.next_batch()
        assert [each.value for each in batch] == ["<1>", "<3>"]
        assert batch.next_offsets[TopicPartition(topic, 0)].offset == 3
        await consumer.seek_to_beginning()
        assert [each.value for each in await consumer.poll(PATIENCE_MS)] == ["<1>", "<3>"]
        await consumer.seek_to_beginning()
        found: list[str | None] = []
        async for record in consumer:
            found.append(record.value)
            if len(found) == 2:
                break
        assert found == ["<1>", "<3>"]


async def test_a_failing_on_consume_is_logged_and_the_records_are_returned(
    daemon: Daemon, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(daemon, topic, b"1")

    def broken(records: Sequence[Record]) -> list[Record]:
        raise ZeroDivisionError

    async with Consumer(
        topic, bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest", on_consume=broken
    ) as consumer:
        assert [each.value for each in await consumer.poll(PATIENCE_MS)] == [b"1"]
    assert warned(caplog) == ["on_consume failed: the records are returned as they were"]


async def test_on_commit_gets_what_was_committed_and_breaks_no_commit(
    daemon: Daemon, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(daemon, topic, b"1")
    place, committed = TopicPartition(topic, 0), []

    def note(offsets: Any) -> None:
        committed.append(offsets[place].offset)
        raise ZeroDivisionError

    async with Consumer(
        topic,
        bootstrap_servers=daemon.bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=True,
        auto_commit_interval_ms=PATIENCE_MS,  # only the close commits
        on_commit=note,
    ) as consumer:
        while not await consumer.poll(10_000):
            pass
        await consumer.commit_sync({place: 0})
        async with Admin(daemon.bootstrap) as admin:
            (group,) = await admin.describe_groups(topic)
        assert len(group.members) == 1
    assert committed == [0, 1], "by the program, and by auto-commit at the end"
    assert warned(caplog) == ["on_commit failed", "on_commit failed"]


async def test_on_commit_is_not_called_for_a_commit_that_failed(daemon: Daemon, topic: str) -> None:
    committed: list[Any] = []
    async with (
        Consumer(topic, bootstrap_servers=daemon.bootstrap, group_id=topic, group_instance_id="one") as member,
        Consumer(bootstrap_servers=daemon.bootstrap, group_id=topic, on_commit=committed.append) as stranger,
    ):
        while not member.assignment():
            await member.poll(100)
        with pytest.raises(CommitFailed):
            await stranger.commit_sync({TopicPartition(topic, 0): 0})
    assert committed == []
