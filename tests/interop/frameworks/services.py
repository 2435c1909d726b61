"""Services as their users write and test them, each with the fixture; run by pytest in an environment of their own."""

import asyncio
from pathlib import Path
from typing import Any

from oncelog.testing import Broker, KafkaContainer

_PATIENCE_S = 40


async def test_faststream_answers_each_order_with_an_invoice(oncelog_broker: Broker) -> None:
    from faststream.kafka import KafkaBroker

    kafka = KafkaBroker(oncelog_broker.bootstrap_servers)
    billed = asyncio.Semaphore(0)

    @kafka.subscriber("orders", group_id="billing", auto_offset_reset="earliest")
    async def bill(order: str) -> None:
        await kafka.publish(f"invoice for {order}", topic="invoices")
        billed.release()

    async with kafka:
        await kafka.start()
        for order in ("1", "2", "3"):
            await kafka.publish(order, topic="orders")
        for _ in range(3):
            await asyncio.wait_for(billed.acquire(), _PATIENCE_S)
    invoices = [record.value for record in oncelog_broker.records("invoices")]
    assert invoices == [b"invoice for 1", b"invoice for 2", b"invoice for 3"]


async def test_faust_answers_each_order_with_an_invoice(oncelog_broker: Broker, tmp_path: Path) -> None:
    import faust

    app = faust.App(
        "billing",
        broker=f"kafka://{oncelog_broker.bootstrap_servers}",
        value_serializer="raw",
        datadir=str(tmp_path),
        topic_partitions=1,
        web_enabled=False,
    )
    orders, invoices = (app.topic(name, value_type=bytes) for name in ("orders", "invoices"))
    billed = asyncio.Semaphore(0)

    @app.agent(orders)
    async def bill(stream: Any) -> None:
        async for order in stream:
            await invoices.send(value=b"invoice for " + order)
            billed.release()

    for topic in ("orders", "invoices"):
        oncelog_broker.create_topic(topic)
    for order in (b"1", b"2", b"3"):
        oncelog_broker.produce("orders", order)
    await app.start()
    try:
        for _ in range(3):
            await asyncio.wait_for(billed.acquire(), _PATIENCE_S)
    finally:
        await app.stop()
    values = [record.value for record in oncelog_broker.records("invoices")]
    assert values == [b"invoice for 1", b"invoice for 2", b"invoice for 3"]


def test_the_stand_in_has_or_refuses_by_name_what_a_kafka_container_has() -> None:
    from testcontainers.kafka import KafkaContainer as Original

    missing = []
    for name in dir(Original):
        if not name.startswith("_"):
            try:
                getattr(KafkaContainer(), name)
            except AttributeError:
                missing.append(name)
            except NotImplementedError as refusal:
                assert name in str(refusal)
    assert missing == []
