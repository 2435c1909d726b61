"""Whatever is cancelled, and whenever: no commit covers a record that was not handed out, and all are. Lives of a
member by seed, over a network that loses and delays, in a group that rebalances.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from oncelog.client import Consumer, ConsumerOptions, KafkaError
from tests.fakes.scripted_answers import TOPIC
from tests.fakes.transactional_broker import TransactionalBroker
from tests.fakes.virtual_loop import pass_time, run_virtually

COUNT = 40
CALM_AFTER = 30
"""Consumers: by then there were faults enough."""
MANUAL = ("poll", "next_batch", "iterate")
AUTOMATIC = ("poll", "iterate")
SEEDS = range(100)


class Life:
    def __init__(self, seed: int, manner: str, *, is_automatic: bool) -> None:
        self.random = Random(seed)
        log = [b"%d" % number for number in range(COUNT)]
        self.broker = TransactionalBroker(log, self.random, is_second_protocol=True, fault_rate=0.05)
        self.broker.rebalance_rate = 0.2
        self.broker.on_commit = self._on_commit
        self.handed_out: set[int] = set()
        self.lost: set[int] = set()
        """Committed before they were handed out."""
        self.complaints: list[dict[str, object]] = []
        self._consumer: Consumer | None = None
        self._read: Callable[[Consumer], Coroutine[Any, Any, None]] = getattr(self, f"_{manner}")
        self._is_automatic = is_automatic

    def _on_commit(self, offset: int) -> None:
        self.lost |= set(range(offset)) - self.handed_out

    async def live(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.complaints.append(context))
        opened_count = 0
        while self.broker.committed_offset < COUNT:
            opened_count += 1
            assert opened_count < 2 * CALM_AFTER
            self.broker.is_calm = opened_count > CALM_AFTER
            with suppress(KafkaError):
                async with Consumer(TOPIC, **self._options()) as consumer:
                    self._consumer = consumer
                    for _ in range(10):
                        with suppress(TimeoutError):
                            async with asyncio.timeout(None if self.broker.is_calm else self.random.random() * 8):
                                await self._read(consumer)
                                await self._commit(consumer)
        await pass_time(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not self.complaints, self.complaints

    def _options(self) -> ConsumerOptions[bytes, bytes]:
        return {
            "bootstrap_servers": "host:1",
            "group_id": "group",
            "auto_offset_reset": "earliest",
            "request_timeout_ms": 3_000,
            "default_api_timeout_ms": 10_000,
            "heartbeat_interval_ms": 500,
            "enable_auto_commit": self._is_automatic,
            "auto_commit_interval_ms": 300,
            "on_revoke": self._on_revoke,
        }

    async def _on_revoke(self, _: Any) -> None:
        if self._consumer is not None and not self._is_automatic:
            with suppress(KafkaError):
                await self._consumer.commit_sync()

    async def _commit(self, consumer: Consumer) -> None:
        if self._is_automatic:
            return
        if self.random.random() < 0.5:
            await consumer.commit_sync()
        else:
            consumer.commit_async()

    async def _poll(self, consumer: Consumer) -> None:
        for record in await consumer.poll(self.random.choice((0, 1_000)), max_records=5):
            self.handed_out.add(record.offset)

    async def _next_batch(self, consumer: Consumer) -> None:
        for record in await consumer.next_batch(max_records=7, max_wait_ms=self.random.choice((0, 2_000))):
            self.handed_out.add(record.offset)

    async def _iterate(self, consumer: Consumer) -> None:
        left = self.random.randrange(1, 8)
        async for record in consumer:
            self.handed_out.add(record.offset)
            await pass_time(self.random.random())
            left -= 1
            if not left or record.offset == COUNT - 1:
                break


@pytest.mark.parametrize(
    ("manner", "is_automatic"),
    [*((manner, False) for manner in MANUAL), *((manner, True) for manner in AUTOMATIC)],
    ids=[*(f"{manner}-commit" for manner in MANUAL), *(f"{manner}-auto" for manner in AUTOMATIC)],
)
@pytest.mark.sampled(16)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_commit_covers_what_was_not_handed_out_whatever_is_cancelled(
    seed: int, manner: str, is_automatic: bool
) -> None:
    life = Life(seed, manner, is_automatic=is_automatic)
    run_virtually(life.broker, life.live)
    assert not life.lost
    assert life.handed_out == set(range(COUNT))
