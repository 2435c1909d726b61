"""What is not written, or not processed, is not passed over in silence: the end of a block raises it, a close logs it,
and no commit covers it."""

import asyncio
import logging
import uuid
from typing import Any, Literal

import pytest

from oncelog.client import (
    AbortableError,
    Admin,
    ConfigError,
    Consumer,
    ConsumerOptions,
    InvalidState,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
)
from oncelog.client.blocking import clients as sync
from tests.clients.topics import new_topic
from tests.conftest import Start
from tests.support.patience import GIVES_UP_MS, PATIENCE_MS, PATIENCE_S
from tests.support.processes.daemon import Daemon

TOO_LARGE = bytes(1_000)


async def small_topic(daemon: Daemon) -> str:
    """One that takes no `TOO_LARGE`."""
    return await new_topic(daemon.bootstrap, max_message_bytes="500")


async def topic_of(daemon: Daemon, count: int) -> str:
    topic = f"topic-{uuid.uuid4().hex[:8]}"
    async with Producer(daemon.bootstrap) as producer:
        for number in range(count):
            await producer.send_soon(topic, b"%d" % number)
    return topic


async def committed(daemon: Daemon, group_id: str) -> int:
    """The group's offset in partition 0 of its topic, of the same name; 0 if there is none."""
    async with Admin(daemon.bootstrap) as admin:
        offsets = await admin.list_group_offsets(group_id)
    place = TopicPartition(group_id, 0)
    return offsets[place].offset if place in offsets else 0


# --- the producer -----------------------------------------------------------------------------------------------------


async def test_the_end_of_a_producers_block_raises_what_no_delivery_has(daemon: Daemon) -> None:
    topic = await small_topic(daemon)
    with pytest.raises(AbortableError, match="MESSAGE_TOO_LARGE"):
        async with Producer(daemon.bootstrap) as producer:
            await producer.send_soon(topic, TOO_LARGE)


def test_so_does_a_blocking_one(daemon: Daemon) -> None:
    with sync.Admin(daemon.bootstrap) as admin:
        admin.create_topics(NewTopic("small", 1, 1, {"max.message.bytes": "500"}))
    with pytest.raises(AbortableError, match="MESSAGE_TOO_LARGE"), sync.Producer(daemon.bootstrap) as producer:
        producer.send_soon("small", TOO_LARGE)


async def test_a_broker_that_is_gone_when_the_block_ends_is_raised(start_daemon: Start) -> None:
    daemon = start_daemon()
    with pytest.raises(AbortableError, match=r"1 record was not delivered to topic-0: .*: connection refused"):
        async with Producer(daemon.bootstrap, delivery_timeout_ms=GIVES_UP_MS) as producer:
            await producer.send("topic", b"1")
            daemon.kill()
            await producer.send_soon("topic", b"2")


async def test_what_a_delivery_has_raised_is_not_raised_again_and_no_other_exception_replaced(daemon: Daemon) -> None:
    topic = await small_topic(daemon)
    async with Producer(daemon.bootstrap) as producer:
        with pytest.raises(AbortableError):
            await producer.send(topic, TOO_LARGE)
    with pytest.raises(ZeroDivisionError):
        async with Producer(daemon.bootstrap) as producer:
            await producer.send_soon(topic, TOO_LARGE)
            raise ZeroDivisionError


async def test_a_close_raises_nothing_and_logs_what_was_not_written(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await small_topic(daemon)
    async with Producer(daemon.bootstrap) as producer:
        await producer.send_soon(topic, TOO_LARGE)
        await producer.send_soon(topic, TOO_LARGE)
        await producer.close()
    (said,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert said.startswith("2 records were not written: MESSAGE_TOO_LARGE")


async def test_of_an_aborted_transaction_neither_the_next_flush_nor_the_end_says_anything(daemon: Daemon) -> None:
    """The end of its own block has."""
    async with Producer(daemon.bootstrap, transactional_id="aborts", linger_ms=60_000) as producer:
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction() as transaction:
                await transaction.send_soon("results", b"aborted")
                raise ZeroDivisionError
        async with producer.transaction() as transaction:
            await transaction.send_soon("results", b"committed")
            await producer.flush()
        assert transaction.state == "committed"


async def test_a_flush_in_a_transaction_raises_what_has_failed_it(daemon: Daemon) -> None:
    topic = await small_topic(daemon)
    async with Producer(daemon.bootstrap, transactional_id="flushes") as producer:
        with pytest.raises(AbortableError, match="MESSAGE_TOO_LARGE"):
            async with producer.transaction() as transaction:
                await transaction.send_soon(topic, TOO_LARGE)
                await producer.flush()
                raise AssertionError("the flush has raised it")


async def test_failures_that_are_not_read_are_not_kept_without_end(daemon: Daemon) -> None:
    topic = await small_topic(daemon)
    async with Producer(daemon.bootstrap, batch_size=1) as producer:
        for _ in range(1_100):
            await producer.send_soon(topic, TOO_LARGE)
        with pytest.raises(AbortableError, match="MESSAGE_TOO_LARGE"):
            await producer.flush()
        for _ in range(1_100):
            await producer.send_soon(topic, TOO_LARGE)
        await producer._sender.drain()  # type: ignore[union-attr]
        assert len(producer._unseen_failures) == 1_000
        producer._unseen_failures.clear()


# --- the consumer -----------------------------------------------------------------------------------------------------

AT_LEAST_ONCE: dict[str, Any] = {"delivery": "at_least_once", "auto_offset_reset": "earliest"}


async def test_a_record_whose_processing_fails_is_not_committed_at_the_end(daemon: Daemon) -> None:
    topic = await topic_of(daemon, 20)
    with pytest.raises(ZeroDivisionError):
        async with Consumer(topic, bootstrap_servers=daemon.bootstrap, group_id=topic, **AT_LEAST_ONCE) as consumer:
            assert len(await consumer.poll(PATIENCE_MS, max_records=5)) == 5
            assert len(await consumer.poll(PATIENCE_MS, max_records=5)) == 5
            raise ZeroDivisionError
    assert await committed(daemon, topic) == 5, "the second poll has shown that those of the first are processed"


async def test_nor_does_a_commit_in_on_revoke_cover_it(daemon: Daemon) -> None:
    topic = await topic_of(daemon, 20)

    async def on_revoke(_: object) -> None:
        await consumer.commit_sync()

    with pytest.raises(ZeroDivisionError):
        async with Consumer(
            topic,
            bootstrap_servers=daemon.bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            on_revoke=on_revoke,
            max_poll_records=5,
        ) as consumer:
            read = 0
            async for _ in consumer:
                read += 1
                if read == 7:
                    raise ZeroDivisionError
    assert await committed(daemon, topic) == 5


async def test_a_partition_that_was_only_just_assigned_keeps_its_offset_then(daemon: Daemon) -> None:
    topic = await topic_of(daemon, 20)
    with pytest.raises(ZeroDivisionError):
        async with Consumer(topic, bootstrap_servers=daemon.bootstrap, group_id=topic, **AT_LEAST_ONCE) as consumer:
            assert len(await consumer.poll(PATIENCE_MS, max_records=5)) == 5
            raise ZeroDivisionError
    assert await committed(daemon, topic) == 0


async def test_a_seek_back_before_the_failure_counts(daemon: Daemon) -> None:
    topic = await topic_of(daemon, 20)
    with pytest.raises(ZeroDivisionError):
        async with Consumer(topic, bootstrap_servers=daemon.bootstrap, group_id=topic, **AT_LEAST_ONCE) as consumer:
            for _ in range(2):
                await consumer.poll(PATIENCE_MS, max_records=5)
            consumer.seek(TopicPartition(topic, 0), 3)
            raise ZeroDivisionError
    assert await committed(daemon, topic) == 3


async def test_all_that_was_returned_is_committed_at_a_clean_end(daemon: Daemon) -> None:
    topic = await topic_of(daemon, 20)
    async with Consumer(topic, bootstrap_servers=daemon.bootstrap, group_id=topic, **AT_LEAST_ONCE) as consumer:
        assert len(await consumer.poll(PATIENCE_MS, max_records=5)) == 5
    assert await committed(daemon, topic) == 5


def test_a_commit_of_a_blocking_consumer_covers_what_its_loop_has_reached(daemon: Daemon) -> None:
    topic = f"topic-{uuid.uuid4().hex[:8]}"
    with sync.Producer(daemon.bootstrap) as producer:
        producer.send_many(topic, [(None, b"%d" % number) for number in range(20)])
        producer.flush()
    place = TopicPartition(topic, 0)
    options: dict[str, Any] = {"bootstrap_servers": daemon.bootstrap, "group_id": topic}
    with sync.Consumer(topic, auto_offset_reset="earliest", **options) as consumer:
        for record in consumer:
            consumer.commit_sync()
            if record.offset == 3:
                break
        assert consumer.committed(place)[place].offset == 4
        assert [each.offset for each in consumer.poll(max_records=2)] == [4, 5], "what the loop has left"
    with sync.Consumer(topic, value_deserializer=int, **options) as consumer:
        for typed in consumer:
            assert typed.value == typed.offset
            if typed.offset == 7:
                break
        assert consumer.position(place) == 8


async def test_a_commit_in_the_background_that_fails_is_logged_unless_a_callback_gets_it(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await topic_of(daemon, 1)
    told: list[object] = []
    async with Consumer(topic, bootstrap_servers=daemon.bootstrap, group_id=topic) as consumer:
        await consumer.poll(1_000)
        refused = {TopicPartition(topic, 0): OffsetAndMetadata(1, "more than offset.metadata.max.bytes" * 200)}
        consumer.commit_async(refused, callback=lambda _, error: told.append(error))
        await asyncio.sleep(0)  # it is under way, so the next one is not sent together with it
        consumer.commit_async(refused)
    assert len(told) == 1
    said = [each.getMessage() for each in caplog.records if "not committed" in each.getMessage()]
    assert len(said) == 1, said
    assert "OFFSET_METADATA_TOO_LARGE" in said[0]


@pytest.mark.parametrize("count", [0, -1, 2.5, "5", True])
async def test_a_number_of_records_that_would_return_none_for_ever_is_refused(daemon: Daemon, count: Any) -> None:
    async with Consumer("topic", bootstrap_servers=daemon.bootstrap, group_id="none") as consumer:
        for call in (lambda: consumer.poll(max_records=count), lambda: consumer.next_batch(max_records=count)):
            with pytest.raises(ConfigError, match=r"max_records=.*: must be an int from 1"):
                await call()


async def test_a_task_that_still_waits_for_metadata_fails_at_the_close(daemon: Daemon) -> None:
    async with Producer(daemon.bootstrap) as producer:
        waiting = asyncio.ensure_future(producer.send_soon("not-there-yet", b"1"))
        await asyncio.sleep(0)
    with pytest.raises(InvalidState):
        await waiting


@pytest.mark.parametrize("protocol", [None, "classic", "consumer"])
async def test_a_topic_that_is_deleted_under_its_reader_is_reported_once(
    daemon: Daemon, protocol: Literal["classic", "consumer"] | None, caplog: pytest.LogCaptureFixture
) -> None:
    topic = await topic_of(daemon, 1)
    options = ConsumerOptions(bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest")
    if protocol is not None:
        options.update(group_id=f"group-of-{topic}", group_protocol=protocol, enable_auto_commit=False)

    def reports() -> list[str]:
        return [each.getMessage() for each in caplog.records if repr(topic) in each.getMessage()]

    async with Admin(daemon.bootstrap) as admin, Consumer(topic, **options) as consumer:
        assert [each.value for each in await consumer.poll(PATIENCE_MS)] == [b"0"]
        await admin.delete_topics(topic)
        async with asyncio.timeout(PATIENCE_S):
            while not reports():
                assert await consumer.poll(100) == []
        assert await consumer.poll(500) == []
    assert reports() == [f"topic {topic!r} does not exist any more: nothing is read of it until it is created again"]
