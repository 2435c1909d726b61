"""The service with oncelog's client: a session, in which each batch is a transaction.

Owns: nothing but the loop. An instance has a transactional id of its own, and the member that has lost its partitions
commits nothing (KIP-447).
"""

import asyncio
import threading

from billing import Bill, invoice_of, outcome

from oncelog import KafkaError, ProducerFenced, TransactionalSession


def serve(bootstrap_servers: str, stopping: threading.Event, bill: Bill = invoice_of, instance: str = "1") -> None:
    """Serve until `stopping`. Raises ProducerFenced if there is a newer service of this instance."""
    asyncio.run(_until(stopping, bootstrap_servers, bill, instance))


async def _until(stopping: threading.Event, bootstrap_servers: str, bill: Bill, instance: str) -> None:
    task = asyncio.create_task(_serve(bootstrap_servers, bill, instance))
    while not (stopping.is_set() or task.done()):
        await asyncio.wait([task], timeout=0.1)
    if task.cancel():
        await asyncio.wait([task])
    if not task.cancelled():
        task.result()


async def _serve(bootstrap_servers: str, bill: Bill, instance: str) -> None:
    while True:
        try:
            async with TransactionalSession(
                "orders",
                bootstrap_servers=bootstrap_servers,
                group_id="billing",
                transactional_id=f"billing-{instance}",
                consumer={"session_timeout_ms": 10_000},
            ) as session:
                async for batch in session:
                    async with batch:
                        for order in batch:
                            topic, value = outcome(order.value or b"", bill)
                            await batch.send_soon(topic, value, key=order.key)
        except ProducerFenced:
            raise
        except KafkaError:  # the broker is away: it comes again, and with it what was not committed
            await asyncio.sleep(0.1)
