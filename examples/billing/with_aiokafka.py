"""The service with aiokafka, whose transactions do not say which member of the group commits (no KIP-447).

Owns: a producer for each partition that this member has. Its transactional id is that of the partition, so that the
next owner, whoever it is, fences the one before.
"""

import asyncio
import threading

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError
from billing import Bill, invoice_of, outcome


def serve(bootstrap_servers: str, stopping: threading.Event, bill: Bill = invoice_of, _instance: str = "1") -> None:
    """Serve until `stopping`; a fenced producer begins again with the partitions that the group gives it."""
    asyncio.run(_serve(bootstrap_servers, stopping, bill))


async def _serve(bootstrap_servers: str, stopping: threading.Event, bill: Bill) -> None:
    while not stopping.is_set():
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            group_id="billing",
            session_timeout_ms=10_000,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        producers = Producers(bootstrap_servers, consumer)
        consumer.subscribe(["orders"], listener=producers)
        try:
            await consumer.start()
            while not stopping.is_set():
                for place, orders in (await consumer.getmany(timeout_ms=100)).items():
                    producer = await producers.of(place)
                    async with producer.transaction():
                        for order in orders:
                            topic, value = outcome(order.value, bill)
                            await producer.send(topic, value, key=order.key)
                        await producer.send_offsets_to_transaction({place: orders[-1].offset + 1}, "billing")
        except KafkaError:  # fenced, or the broker is away: begin again from what is committed
            await asyncio.sleep(0.1)
        finally:
            await consumer.stop()
            await producers.stop()


class Producers(ConsumerRebalanceListener):
    def __init__(self, bootstrap_servers: str, consumer: AIOKafkaConsumer) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._consumer = consumer
        self._started: dict[TopicPartition, AIOKafkaProducer] = {}

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self.stop()

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        for place in assigned:
            await self.of(place)
            # Only now is it sure that no other owner commits any more.
            committed = await self._consumer.committed(place)
            if committed is not None:
                self._consumer.seek(place, committed)

    async def of(self, place: TopicPartition) -> AIOKafkaProducer:
        if place not in self._started:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap_servers, transactional_id=f"billing-{place.topic}-{place.partition}"
            )
            self._started[place] = producer
            await producer.start()  # which fences
        return self._started[place]

    async def stop(self) -> None:
        while self._started:
            _, producer = self._started.popitem()
            await producer.stop()
