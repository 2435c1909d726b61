"""Our producer in a two-phase commit with something else: what it has prepared outlives it and the broker (KIP-939)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import product

import pytest

from oncelog.client import Admin, Consumer, PreparedTxnState, Producer, TopicPartition
from oncelog.client.blocking import clients as client_sync
from oncelog.client.values.errors import ConfigError, FatalError, InvalidState, ProducerFenced
from tests.conftest import Start
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

TWO_PHASE = "transaction.two.phase.commit.enable=true"
PARTITION = TopicPartition("transfers", 0)

Stop = Callable[[Daemon], None]


def producer(daemon: Daemon) -> Producer:
    return Producer(daemon.bootstrap, transactional_id="mover", transaction_two_phase_commit_enable=True, linger_ms=1)


@asynccontextmanager
async def prepared(daemon: Daemon) -> AsyncIterator[PreparedTxnState]:
    """Prepare a transaction by a producer that ends before a decision."""
    async with producer(daemon) as first:
        with pytest.raises(ConnectionError):
            async with first.transaction() as transaction:
                await transaction.send("transfers", b"moved")
                state = await transaction.prepare()
                raise ConnectionError("the database does not say whether it has committed")
        assert transaction.state == "prepared"
    yield state


async def until_every_marker_is_written(daemon: Daemon) -> None:
    async with Admin(daemon.bootstrap) as admin, asyncio.timeout(PATIENCE_S):
        while True:
            stable = await admin.list_offsets([PARTITION], isolation_level="read_committed")
            if stable == await admin.list_offsets([PARTITION]):
                return


async def read(daemon: Daemon, *, is_open: bool = False) -> list[bytes | None]:
    """Return the committed values, once all decided transactions are completed."""
    if not is_open:
        await until_every_marker_is_written(daemon)
    async with Consumer(bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([PARTITION])
        end = (await consumer.end_offsets([PARTITION]))[PARTITION]
        values: list[bytes | None] = []
        while await consumer.position(PARTITION) < end:
            values += [record.value for record in await consumer.poll(100)]
        return values


def killed(daemon: Daemon) -> None:
    daemon.kill()
    daemon.start()


def stopped(daemon: Daemon) -> None:
    assert daemon.stop() == 0
    daemon.start()


def running(daemon: Daemon) -> None:
    """It is not restarted."""


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("restart", "is_decided"), list(product((killed, stopped, running), (True, False))))
async def test_the_next_process_ends_what_is_prepared_as_the_outer_coordinator_has_decided(
    start_daemon: Start, restart: Stop, is_decided: bool
) -> None:
    daemon = start_daemon(TWO_PHASE)
    async with prepared(daemon) as state:
        kept = str(state) if is_decided else ""
    restart(daemon)
    assert await read(daemon, is_open=True) == []
    async with producer(daemon) as second:
        assert await second.complete(kept) == ("committed" if is_decided else "aborted")
        assert await second.complete(kept) == "none"
        async with second.transaction() as transaction:
            await transaction.send("transfers", b"next")
            await transaction.prepare()
    async with producer(daemon) as third:
        assert await third.complete(kept) == "none"
    assert await read(daemon) == ([b"moved", b"next"] if is_decided else [b"next"])


async def test_an_older_decision_does_not_commit_a_newer_transaction(start_daemon: Start) -> None:
    daemon = start_daemon(TWO_PHASE)
    async with prepared(daemon) as old, producer(daemon) as second:
        assert await second.complete(old) == "committed"
        async with prepared(daemon) as newer, producer(daemon) as third:
            assert newer != old
            assert await third.complete(old) == "aborted"
    assert await read(daemon) == [b"moved"]


async def test_who_was_replaced_is_fenced(start_daemon: Start) -> None:
    daemon = start_daemon(TWO_PHASE)
    async with producer(daemon) as first:
        transaction = first.transaction()
        await transaction.__aenter__()
        await transaction.send("transfers", b"moved")
        state = await transaction.prepare()
        with pytest.raises(InvalidState):
            await transaction.send("transfers", b"late")
        with pytest.raises(InvalidState):
            await first.transaction().__aenter__()
        async with producer(daemon) as second:
            identity = await second.init_transactions(keep_prepared=True)
            assert identity.producer_epoch == state.producer_epoch + 1
            with pytest.raises(ProducerFenced):
                await transaction.commit()
            assert await second.complete(state) == "committed"
    assert await read(daemon) == [b"moved"]


async def test_a_broker_without_it_is_named_as_the_reason(start_daemon: Start) -> None:
    daemon = start_daemon()
    async with producer(daemon) as first:
        with pytest.raises(FatalError, match="INIT_PRODUCER_ID: the broker offers versions 0 to 5"):
            await first.init_transactions()
    async with Producer(daemon.bootstrap, transactional_id="plain") as plain:
        with pytest.raises(ConfigError):
            await plain.init_transactions(keep_prepared=True)
        with pytest.raises(ConfigError):
            async with plain.transaction() as transaction:
                await transaction.prepare()


def test_it_works_without_an_event_loop_too(start_daemon: Start) -> None:
    daemon = start_daemon(TWO_PHASE)
    options = {"transactional_id": "mover", "transaction_two_phase_commit_enable": True}
    with (
        client_sync.Producer(daemon.bootstrap, **options) as first,  # type: ignore[arg-type]
        pytest.raises(ConnectionError),
        first.transaction() as transaction,
    ):
        transaction.send("transfers", b"moved")
        state = transaction.prepare()
        raise ConnectionError
    with client_sync.Producer(daemon.bootstrap, **options) as second:  # type: ignore[arg-type]
        assert second.complete(str(state)) == "committed"
