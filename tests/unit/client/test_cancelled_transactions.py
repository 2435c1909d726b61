"""Whatever is cancelled, and whenever: what a client says of a transaction is what the broker has, and a session writes
the results of each record once. Lives of a client by seed, over a network that loses and delays.
"""

import asyncio
from contextlib import suppress
from random import Random

import pytest

from oncelog.client import (
    CommitUnknown,
    ConsumerOptions,
    InvalidState,
    KafkaError,
    Producer,
    ProducerOptions,
    TransactionalSession,
)
from oncelog.protocol.api_keys import ApiKey
from tests.fakes.scripted_answers import OF_A_PRODUCER, TOPIC, add_partitions
from tests.fakes.transactional_broker import TransactionalBroker
from tests.fakes.virtual_loop import ScriptedBroker, pass_time, run_virtually, virtually

HOST = "host:1"
COUNT = 40
CALM_AFTER = 30
"""Sessions or producers: by then there were faults enough."""
LONG_S = 5_000.0
PRODUCER: ProducerOptions[None, bytes] = {
    "request_timeout_ms": 3_000,
    "max_block_ms": 10_000,
    "delivery_timeout_ms": 9_000,
}
CONSUMER: ConsumerOptions[bytes, bytes] = {"request_timeout_ms": 3_000, "default_api_timeout_ms": 10_000}
SEEDS = range(100)


class _Broken(Exception):
    """An error that the program itself raises."""


class Life:
    def __init__(self, seed: int, *, is_second_protocol: bool) -> None:
        self.random = Random(seed)
        self.log = [b"%d" % number for number in range(COUNT)]
        self.broker = TransactionalBroker(self.log, self.random, is_second_protocol=is_second_protocol, fault_rate=0.08)
        self.complaints: list[dict[str, object]] = []
        self.aborted: set[bytes] = set()
        self.committed: list[bytes] = []

    def chance(self, probability: float) -> bool:
        return not self.broker.is_calm and self.random.random() < probability

    def patience(self) -> asyncio.Timeout:
        return asyncio.timeout(None if self.broker.is_calm else self.random.random() * 8)

    def watch(self) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self.complaints.append(context))

    async def check_the_end(self) -> None:
        await pass_time(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not self.complaints

    # --- a session ----------------------------------------------------------------------------------------------------

    async def read_and_write(self) -> None:
        self.watch()
        opened_count = 0
        while self.broker.committed_offset < COUNT:
            assert asyncio.get_running_loop().time() < LONG_S
            opened_count += 1
            assert opened_count < 2 * CALM_AFTER
            self.broker.is_calm = opened_count > CALM_AFTER
            with suppress(KafkaError):
                async with TransactionalSession(
                    TOPIC,
                    bootstrap_servers=HOST,
                    group_id="group",
                    transactional_id="id",
                    max_records=5,
                    max_wait_ms=self.random.choice((0, 500)),
                    consumer=CONSUMER,
                    producer=PRODUCER,
                ) as session:
                    while self.broker.committed_offset < COUNT:
                        with suppress(_Broken, TimeoutError):
                            async with self.patience():
                                await self._process(session)
        await self.check_the_end()

    async def _process(self, session: TransactionalSession) -> None:
        async for batch in session:
            async with self.patience(), batch:
                for record in batch:
                    send = batch.send_soon if self.random.random() < 0.5 else batch.send
                    await send(TOPIC, record.value)
                    if self.chance(0.02):
                        raise _Broken
            if self.broker.committed_offset == COUNT:
                break

    # --- a producer ---------------------------------------------------------------------------------------------------

    async def write(self) -> None:
        self.watch()
        numbers = iter(range(60))
        opened_count = 0
        is_done = False
        while not is_done:
            opened_count += 1
            assert opened_count < 2 * CALM_AFTER
            self.broker.is_calm = opened_count > CALM_AFTER
            with suppress(KafkaError):
                async with Producer(HOST, transactional_id="id", **PRODUCER) as producer:
                    for number in numbers:
                        await self._transact(producer, [b"%d-%d" % (number, index) for index in range(3)])
                    is_done = True
        await pass_time(30)
        await self.check_the_end()

    async def _transact(self, producer: Producer, values: list[bytes]) -> None:
        transaction = producer.transaction()
        has_begun = False
        try:
            async with self.patience(), transaction:
                has_begun = True
                for value in values:
                    await (transaction.send_soon if self.random.random() < 0.5 else transaction.send)(TOPIC, value)
                if self.chance(0.1):
                    raise _Broken
        except (TimeoutError, _Broken):
            pass
        except KafkaError as error:
            if error.fatal:
                raise
        finally:
            state = transaction.state if has_begun else "none"
            assert state != "open", "readers would wait for it until it times out"
            if state == "committed":
                self.committed += values
            elif state == "aborted":
                self.aborted |= set(values)


@pytest.mark.parametrize("is_second_protocol", [False, True], ids=["KIP-98", "KIP-890"])
@pytest.mark.sampled(16)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_session_writes_the_results_of_each_record_once_whatever_is_cancelled(
    seed: int, is_second_protocol: bool
) -> None:
    life = Life(seed, is_second_protocol=is_second_protocol)
    run_virtually(life.broker, life.read_and_write)
    assert life.broker.written == life.log


@pytest.mark.parametrize("is_second_protocol", [False, True], ids=["KIP-98", "KIP-890"])
@pytest.mark.sampled(16)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_transaction_is_what_its_producer_says_whatever_is_cancelled(seed: int, is_second_protocol: bool) -> None:
    life = Life(seed, is_second_protocol=is_second_protocol)
    run_virtually(life.broker, life.write)
    written = life.broker.written
    assert len(written) == len(set(written))
    assert set(life.committed) <= set(written)
    assert not life.aborted & set(written)


@virtually
async def test_a_commit_that_was_cancelled_after_it_was_sent_is_never_taken_for_one_that_was_not() -> None:
    """It holds even if no coordinator can be asked for the outcome: a program that takes it for undone does the work
    again.
    """
    broker = ScriptedBroker({**OF_A_PRODUCER, ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions})
    usual = dict(broker.answers)
    async with Producer(HOST, transactional_id="id", **PRODUCER) as producer:
        transaction = producer.transaction()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1), transaction:
                await transaction.send(TOPIC, b"value")
                broker.answers[ApiKey.END_TXN] = lambda _: None
        assert transaction.state == "committing"
        with pytest.raises(InvalidState, match=r"commit\(\) on it again"):
            await producer.transaction().__aenter__()
        broker.answers.update(dict.fromkeys(broker.answers, lambda _: None))
        with pytest.raises(CommitUnknown):
            await transaction.commit()
        broker.answers.update(usual)
        await transaction.commit()
        assert transaction.state == "committed"
