"""What was handed to a transaction is part of it: its commit waits for all of that, and fails without it."""

import asyncio
import gc
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oncelog.client import (
    AbortableError,
    Admin,
    ConsumerGroupMetadata,
    InvalidState,
    Producer,
    SerializationError,
    TopicPartition,
    Transaction,
    TransactionalSession,
)
from oncelog.client.options.serializers import INT64
from tests.support.processes.daemon import Daemon

GROUP = ConsumerGroupMetadata("unawaited")


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    """Ignore Python's own warning about the coroutine: it comes at an unknown time and stops no commit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield
        gc.collect()


async def end_of(daemon: Daemon, topic: str) -> int:
    async with Admin(daemon.bootstrap) as admin:
        return (await admin.list_offsets([TopicPartition(topic, 0)]))[TopicPartition(topic, 0)].offset


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("send", lambda each: each.send("forgotten", b"1")),
        ("send_soon", lambda each: each.send_soon("forgotten", b"1")),
        ("send_offsets", lambda each: each.send_offsets({TopicPartition("forgotten", 0): 1}, group=GROUP)),
    ],
)
async def test_a_transaction_without_what_was_never_awaited_is_not_committed(
    daemon: Daemon, name: str, call: Callable[[Transaction], Any]
) -> None:
    async with Producer(daemon.bootstrap, transactional_id=f"forgets-{name}") as producer:
        with pytest.raises(AbortableError, match=rf"{name}\(\) was never awaited.*\(await transaction\.{name}\("):
            async with producer.transaction() as transaction:
                await transaction.send("forgotten", b"0")
                call(transaction)
        assert transaction.state == "aborted"
        async with producer.transaction() as transaction:
            await transaction.send("forgotten", b"2")
        assert transaction.state == "committed"


async def test_a_session_commits_no_offsets_of_records_whose_results_were_never_awaited(daemon: Daemon) -> None:
    async with Producer(daemon.bootstrap) as producer:
        await producer.send("unawaited-in", b"1")
    async with TransactionalSession("unawaited-in", bootstrap_servers=daemon.bootstrap, group_id="forgets") as session:
        with pytest.raises(AbortableError, match=r"send_soon\(\) was never awaited"):
            async for batch in session:
                async with batch:
                    batch.send_soon("unawaited-out", b"1")  # type: ignore[unused-coroutine]
        async with Admin(daemon.bootstrap) as admin:
            assert await admin.list_group_offsets("forgets") == {}
        async for batch in session:
            async with batch:
                await batch.send_soon("unawaited-out", b"1")
            assert batch.committed
            break


async def test_a_commit_waits_for_records_that_tasks_are_still_handing_over(daemon: Daemon) -> None:
    """A topic that the producer does not know yet: each task waits for its metadata."""
    async with Producer(daemon.bootstrap, transactional_id="tasks") as producer:
        async with producer.transaction() as transaction:
            tasks = [asyncio.ensure_future(transaction.send_soon("handed-over", b"%d" % each)) for each in range(3)]
        assert sorted([(await (await task)).offset for task in tasks]) == [0, 1, 2]
    assert await end_of(daemon, "handed-over") == 4, "three records, and the marker of the commit"


async def test_a_record_that_could_not_be_handed_over_fails_the_commit_although_its_task_is_never_asked(
    daemon: Daemon,
) -> None:
    """A failed send fails the commit, as in Kafka's producer (KAFKA-9279)."""
    async with Producer(daemon.bootstrap, transactional_id="refused") as producer:
        with pytest.raises(AbortableError, match="MESSAGE_TOO_LARGE"):
            async with producer.transaction() as transaction:
                sent = [transaction.send_soon("too-large", value) for value in (b"1", bytes(2_000_000))]
                await asyncio.gather(*sent, return_exceptions=True)
        assert transaction.state == "aborted"


async def test_a_value_that_its_serializer_refuses_leaves_the_transaction_to_its_caller(daemon: Daemon) -> None:
    """The caller can write the record elsewhere instead."""
    async with Producer(daemon.bootstrap, transactional_id="elsewhere", value_serializer=INT64) as producer:
        async with producer.transaction() as transaction:
            with pytest.raises(SerializationError):
                await transaction.send_soon("results", "one")  # type: ignore[arg-type]
            await transaction.send_soon("dead-letters", 0)
        assert transaction.state == "committed"


async def test_a_record_that_waited_while_its_transaction_was_aborted_is_not_part_of_the_next(daemon: Daemon) -> None:
    async with Producer(daemon.bootstrap, transactional_id="late") as producer:
        async with producer.transaction() as first:
            late = asyncio.ensure_future(first.send_soon("next", b"late"))
            await asyncio.sleep(0)  # it waits for metadata
            await first.abort()
        async with producer.transaction() as second:
            # Its metadata may have come before the second began, on a busy machine.
            with pytest.raises(InvalidState, match=r"the transaction of this record has ended|the producer is "):
                await late
            assert (await second.send("next", b"of the second")).offset == 0
