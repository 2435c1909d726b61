"""Offset ranges as undecoded batches: exactly what the isolation level shows, up to an end that no record may have."""

from typing import Any

import pytest

from oncelog.client import (
    CorruptBatch,
    KafkaError,
    NewTopic,
    NoOffsetForPartition,
    Producer,
    RequestTimedOut,
    TopicPartition,
    UnknownTopic,
)
from oncelog.client.blocking.clients import Admin
from oncelog.client.blocking.clients import RangeReader as BlockingRangeReader
from oncelog.client.consuming import ranges
from oncelog.client.consuming.ranges import RangeReader
from oncelog.client.consuming.single_fetch import fetch_once
from oncelog.client.values.records import IsolationLevel
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.records.record import decode_records
from tests.support.foreign.confluent import new_topic
from tests.support.patience import GIVES_UP_MS
from tests.support.processes.daemon import Daemon


async def write(bootstrap: str, topic: str) -> None:
    """Committed, aborted and plain records between each other: 0-3 committed, 5-7 aborted, 9 plain, 10-12 committed."""
    async with Producer(bootstrap, transactional_id=topic, batch_size=200) as producer, Producer(bootstrap) as plain:
        async with producer.transaction() as transaction:
            for number in range(4):
                await transaction.send_soon(topic, b"committed %d" % number)
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction() as transaction:
                for number in range(3):
                    await transaction.send_soon(topic, b"aborted %d" % number)
                await producer.flush()
                raise ZeroDivisionError
        await plain.send(topic, b"plain")
        async with producer.transaction() as transaction:
            for number in range(3):
                await transaction.send_soon(topic, b"later %d" % number)


async def read(
    bootstrap: str, topic: str, start: int, end: int, isolation: IsolationLevel = "read_committed"
) -> tuple[list[int], int]:
    """The offsets in the range, and how many aborted records were left out."""
    offsets: list[int] = []
    aborted_count = 0
    async with RangeReader(
        bootstrap_servers=bootstrap, isolation_level=isolation, max_partition_fetch_bytes=150
    ) as reader:
        async for piece in reader.read(TopicPartition(topic, 0), start, end):
            aborted_count += piece.aborted_count
            for _, batch in piece.batches:
                offsets += [record.offset for record in decode_records(batch) if start <= record.offset < end]
    return offsets, aborted_count


async def test_a_range_has_what_its_isolation_level_shows_and_ends_at_an_offset_that_is_a_marker(
    daemon: Daemon,
) -> None:
    topic = new_topic(daemon)
    await write(daemon.bootstrap, topic)
    assert await read(daemon.bootstrap, topic, 0, 14) == ([0, 1, 2, 3, 9, 10, 11, 12], 3)
    assert await read(daemon.bootstrap, topic, 0, 14, "read_uncommitted") == ([0, 1, 2, 3, 5, 6, 7, 9, 10, 11, 12], 0)
    assert await read(daemon.bootstrap, topic, 4, 9) == ([], 3)
    assert await read(daemon.bootstrap, topic, 6, 11) == ([9, 10], 2)
    assert await read(daemon.bootstrap, topic, 5, 5) == ([], 0)


async def test_a_range_outside_the_log_is_an_error_and_never_a_shorter_range(daemon: Daemon) -> None:
    topic = new_topic(daemon)
    await write(daemon.bootstrap, topic)
    with pytest.raises(NoOffsetForPartition, match=f"{topic}-0 at offset 20"):
        await read(daemon.bootstrap, topic, 20, 30)
    options = {"bootstrap_servers": daemon.bootstrap, "default_api_timeout_ms": GIVES_UP_MS, "fetch_max_wait_ms": 20}
    async with RangeReader(**options) as reader:  # type: ignore[arg-type]
        with pytest.raises(RequestTimedOut, match="ends at offset 14: nothing came from 14 on"):
            async for _ in reader.read(TopicPartition(topic, 0), 10, 15):
                pass


def test_a_topic_that_was_created_again_is_not_taken_for_the_old_one_and_none_is_created(daemon: Daemon) -> None:
    topic = new_topic(daemon)
    with Admin(daemon.bootstrap) as admin, BlockingRangeReader(bootstrap_servers=daemon.bootstrap) as reader:
        (before,) = admin.describe_topics(topic)
        admin.delete_topics(topic)
        admin.create_topics(NewTopic(topic, 1))
        with pytest.raises(KafkaError, match="was deleted and created again") as raised:
            list(reader.read(TopicPartition(topic, 0), 0, 1, topic_id=before.topic_id))
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_ID
    options = {"bootstrap_servers": daemon.bootstrap, "default_api_timeout_ms": GIVES_UP_MS}
    with BlockingRangeReader(**options) as reader, Admin(daemon.bootstrap) as admin:  # type: ignore[arg-type]
        with pytest.raises(UnknownTopic, match="did you mean"):
            list(reader.read(TopicPartition(f"{topic}s", 0), 0, 1))
        assert f"{topic}s" not in admin.list_topics()


async def test_a_batch_that_was_damaged_on_its_way_is_an_error(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = new_topic(daemon)
    await write(daemon.bootstrap, topic)

    async def damaged(*place: Any, **options: Any) -> Any:
        data = await fetch_once(*place, **options)
        content = bytearray(data.records)
        content[70] ^= 1
        data.records = bytes(content)
        return data

    monkeypatch.setattr(ranges, "fetch_once", damaged)
    with pytest.raises(CorruptBatch, match="fails its checksum"):
        await read(daemon.bootstrap, topic, 0, 1)
