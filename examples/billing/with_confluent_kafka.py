"""The service with confluent-kafka: transactions by hand, with the member of the group in each (KIP-447).

Owns: the loop, and which errors end it.
"""

import threading
from contextlib import suppress

from billing import Bill, invoice_of, outcome
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition


def serve(bootstrap_servers: str, stopping: threading.Event, bill: Bill = invoice_of, instance: str = "1") -> None:
    """Serve until `stopping`. Raises KafkaException if there is a newer service of this instance."""
    while not stopping.is_set():
        producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": f"billing-{instance}"})
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "billing",
                "session.timeout.ms": 10_000,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "topic.metadata.refresh.interval.ms": 500,  # how soon it sees a topic that comes later
            }
        )
        try:
            producer.init_transactions()
            consumer.subscribe(["orders"])
            while not stopping.is_set():
                _bill_a_batch(producer, consumer, bill)
        except KafkaException as error:
            if error.args[0].code() == KafkaError._FENCED:
                raise
            # A rebalance, or the broker is away: begin again from what is committed.
            with suppress(KafkaException):
                producer.abort_transaction()
        finally:
            consumer.close()


def _bill_a_batch(producer: Producer, consumer: Consumer, bill: Bill) -> None:
    orders = [each for each in consumer.consume(100, 0.1) if each.error() is None]
    if not orders:
        return
    producer.begin_transaction()
    behind: dict[tuple[str, int], int] = {}
    for order in orders:
        topic, value = outcome(order.value(), bill)
        producer.produce(topic, value, order.key())
        behind[order.topic(), order.partition()] = order.offset() + 1
    producer.send_offsets_to_transaction(
        [TopicPartition(*place, offset) for place, offset in behind.items()], consumer.consumer_group_metadata()
    )
    producer.commit_transaction()
