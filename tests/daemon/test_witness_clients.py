"""Each mistake that the witness knows, made by an unmodified client, and the same done right."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata, TopicPartition

from oncelog.sync import Producer
from oncelog.testing import Broker
from oncelog.witness import Finding
from tests.support.patience import PATIENCE_S

INPUT, OUTPUT, GROUP = "orders", "invoices", "billing-group"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic(OUTPUT)
        running.produce(INPUT, b"an order")
        yield running


def found(broker: Broker, kind: str) -> list[Finding]:
    return [each for each in broker.findings() if each.kind == kind]


def reader(broker: Broker, **settings: Any) -> confluent_kafka.Consumer:
    """It has read the order."""
    common = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "billing", "group.id": GROUP}
    quiet = {"log_level": 0, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer({**common, **quiet, **settings})
    consumer.subscribe([INPUT])
    message = consumer.poll(PATIENCE_S)
    assert message is not None and message.value() == b"an order"
    return consumer


def writer(broker: Broker, **settings: Any) -> confluent_kafka.Producer:
    """Its transaction is open, with an invoice."""
    common = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "billing", "transactional.id": "till"}
    producer = confluent_kafka.Producer({**common, "log_level": 0, **settings})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(OUTPUT, b"an invoice")
    return producer


def send_offsets(producer: confluent_kafka.Producer, consumer: confluent_kafka.Consumer) -> None:
    producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata())


@pytest.mark.parametrize("is_right", [False, True])
def test_a_loop_that_commits_its_offsets_beside_its_transaction_is_found(broker: Broker, is_right: bool) -> None:
    consumer, producer = reader(broker), writer(broker)
    if is_right:
        send_offsets(producer, consumer)
    producer.commit_transaction()
    if not is_right:
        consumer.commit(asynchronous=False)
    consumer.close()
    findings = found(broker, "offsets-outside-transaction")
    assert [(each.severity, each.client_id, each.group, each.count) for each in findings] == (
        [] if is_right else [("wrong", "billing", GROUP, 1)]
    )


@pytest.mark.parametrize("is_right", [False, True])
def test_automatic_commits_beside_offsets_in_transactions_are_found_whatever_the_client_ids(
    broker: Broker, is_right: bool
) -> None:
    consumer = reader(broker, **{"client.id": "billing-reader", "enable.auto.commit": not is_right})
    producer = writer(broker)
    send_offsets(producer, consumer)
    producer.commit_transaction()
    consumer.close()
    findings = found(broker, "offsets-outside-transaction")
    assert [(each.client_id, each.group, each.transactional_id) for each in findings] == (
        [] if is_right else [("billing-reader", GROUP, "till")]
    )


@pytest.mark.parametrize("is_right", [False, True])
def test_offsets_that_are_sent_for_the_name_of_a_group_are_found(broker: Broker, is_right: bool) -> None:
    address = broker.bootstrap_servers
    consumer = kafka.KafkaConsumer(
        INPUT, bootstrap_servers=address, group_id=GROUP, auto_offset_reset="earliest", enable_auto_commit=False
    )
    producer = kafka.KafkaProducer(bootstrap_servers=address, client_id="billing", transactional_id="till")
    with contextlib.closing(consumer), contextlib.closing(producer):
        producer.init_transactions()
        assert next(consumer).value == b"an order"
        producer.begin_transaction()
        producer.send(OUTPUT, b"an invoice")
        offsets = {TopicPartition(INPUT, 0): OffsetAndMetadata(1, "", -1)}
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata() if is_right else GROUP)
        producer.commit_transaction()
    findings = found(broker, "group-metadata-missing")
    assert [(each.client_id, each.software_name, each.group, each.transactional_id) for each in findings] == (
        [] if is_right else [("billing", "kafka-python", GROUP, "till")]
    )


@pytest.mark.parametrize("is_right", [False, True])
async def test_a_reader_of_what_may_be_aborted_is_found(broker: Broker, is_right: bool) -> None:
    writer(broker).commit_transaction()
    level = {"isolation_level": "read_committed"} if is_right else {}  # by default it reads everything
    options: Any = {"client_id": "reports", "auto_offset_reset": "earliest", **level}
    consumer = AIOKafkaConsumer(OUTPUT, bootstrap_servers=broker.bootstrap_servers, **options)
    await consumer.start()
    assert (await consumer.getone()).value == b"an invoice"
    await consumer.stop()
    findings = found(broker, "reads-uncommitted")
    assert [(each.severity, each.client_id, each.topic) for each in findings] == (
        [] if is_right else [("wrong", "reports", OUTPUT)]
    )


def test_what_the_fixture_reads_itself_is_no_finding(broker: Broker) -> None:
    writer(broker).commit_transaction()
    assert len(broker.records(OUTPUT, isolation="read_uncommitted")) == 1
    assert found(broker, "reads-uncommitted") == []


@pytest.mark.parametrize("is_right", [False, True])
async def test_instances_that_fence_each_other_in_turns_are_found(broker: Broker, is_right: bool) -> None:
    """Three starts of two instances; the right ones start after the other has stopped."""
    started = []
    for number in (1, 2, 1):
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, client_id=f"billing-{number}", transactional_id="till"
        )
        await producer.start()
        started.append(producer)
        if is_right:
            await producer.stop()
    await asyncio.gather(*(producer.stop() for producer in started))
    findings = found(broker, "transactional-id-shared")
    assert [(each.severity, each.client_id, each.transactional_id) for each in findings] == (
        [] if is_right else [("wrong", "billing-1", "till")]
    )
    assert all("billing-2" in each.seen for each in findings)


@pytest.mark.parametrize("is_right", [False, True])
def test_a_transaction_that_may_outlive_its_reader_is_found(broker: Broker, is_right: bool) -> None:
    consumer = reader(broker, **{"session.timeout.ms": 30_000})
    producer = writer(broker, **{"transaction.timeout.ms": 30_000 if is_right else 40_000})
    send_offsets(producer, consumer)
    producer.commit_transaction()
    consumer.close()
    findings = found(broker, "transaction-timeout")
    assert [(each.severity, each.group, each.transactional_id) for each in findings] == (
        [] if is_right else [("look", GROUP, "till")]
    )
    assert all("40000" in each.seen and "30000" in each.seen for each in findings)


@pytest.mark.parametrize("is_right", [False, True])
async def test_a_commit_without_a_record_that_was_refused_is_found(broker: Broker, is_right: bool) -> None:
    topic = broker.create_topic(config={"max.message.bytes": "1000"})
    producer = AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap_servers, client_id="billing", transactional_id="till"
    )
    await producer.start()
    await producer.begin_transaction()
    sent = await producer.send(topic, bytes(2_000))
    with pytest.raises(KafkaError):
        await sent
    await (producer.abort_transaction() if is_right else producer.commit_transaction())
    await producer.stop()
    findings = found(broker, "commit-after-failed-produce")
    assert [(each.severity, each.client_id, each.topic, each.transactional_id) for each in findings] == (
        [] if is_right else [("wrong", "billing", topic, "till")]
    )


def test_a_client_of_version_1_of_the_protocol_is_found_and_one_of_version_2_is_not(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has a line for a finding, not for each time."""
    caplog.set_level(logging.INFO, "oncelog.broker")
    producer = writer(broker)
    producer.commit_transaction()
    producer.begin_transaction()
    producer.produce(OUTPUT, b"another")
    producer.commit_transaction()
    with Producer(broker.bootstrap_servers, client_id="modern", transactional_id="other") as producer:
        with producer.transaction() as transaction:
            transaction.send(OUTPUT, b"an invoice")
    findings = found(broker, "torn-transactions")
    assert [(each.client_id, each.software_name, each.count) for each in findings] == [
        ("billing", "confluent-kafka-python", 2)
    ]
    (line,) = (each.message for each in caplog.records if "witness.found" in each.message)
    assert "kind=torn-transactions" in line and "client_id=billing" in line


@pytest.mark.parametrize(("acks", "is_right"), [("0", False), ("1", False), ("all", True)])
def test_a_producer_that_loses_records_beside_transactions_is_found(broker: Broker, acks: str, is_right: bool) -> None:
    writer(broker).commit_transaction()
    settings: Any = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "audit", "acks": acks}
    producer = confluent_kafka.Producer({**settings, "log_level": 0})
    producer.produce(OUTPUT, b"a note")
    assert producer.flush(PATIENCE_S) == 0
    findings = found(broker, "acks-below-all")
    assert [(each.severity, each.client_id, each.topic) for each in findings] == (
        [] if is_right else [("look", "audit", OUTPUT)]
    )
