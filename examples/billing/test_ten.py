"""Ten tests that every service between two topics should have, here for one service with three clients.

Owns: what has to hold. Does not own: the service. `pip install . aiokafka confluent-kafka pytest` in the checkout, and
`pytest` here run them.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import with_aiokafka
import with_confluent_kafka
import with_oncelog
from billing import Bill, invoice_of

from oncelog import TopicPartition
from oncelog.faults import Action, Point, Rule, Selector
from oncelog.sync import Admin
from oncelog.testing import Broker

CLIENTS = {"oncelog": with_oncelog, "aiokafka": with_aiokafka, "confluent-kafka": with_confluent_kafka}
DAY_S = 86_400
Start = Callable[..., None]


class Pausing:
    """Bills, and stops at one order until it may go on: there a test has the service in the middle of a batch."""

    def __init__(self, order_id: int) -> None:
        self._order_id = order_id
        self.reached, self.resume = threading.Event(), threading.Event()

    def __call__(self, order: bytes) -> bytes:
        if json.loads(order)["id"] == self._order_id and not self.reached.is_set():
            self.reached.set()
            self.resume.wait()
        return invoice_of(order)


@pytest.fixture(params=CLIENTS)
def start(request: pytest.FixtureRequest, oncelog_broker: Broker) -> Iterator[Start]:
    """Starts the service in a thread, and stops all that it has started."""
    with contextmanager(_starting)(CLIENTS[request.param].serve, oncelog_broker.bootstrap_servers) as start:
        yield start


def _starting(serve: Callable[..., None], bootstrap_servers: str) -> Iterator[Start]:
    threads: list[tuple[threading.Thread, threading.Event, Bill]] = []

    def start(bill: Bill = invoice_of, instance: str = "1") -> None:
        stopping = threading.Event()

        def run() -> None:
            try:
                serve(bootstrap_servers, stopping, bill, instance)
            except Exception as error:  # a zombie ends: that is right, and the tests see what it leaves
                print(f"instance {instance} has ended: {error!r}")

        thread = threading.Thread(target=run, daemon=True)
        threads.append((thread, stopping, bill))
        thread.start()

    yield start
    for _, stopping, bill in threads:
        stopping.set()
        if isinstance(bill, Pausing):
            bill.resume.set()
    for thread, _, _ in threads:
        thread.join()


def order(broker: Broker, *ids: int, **more: object) -> None:
    for each in ids:
        broker.produce("orders", json.dumps({"id": each, "cents": 100, **more}).encode())


def billed(broker: Broker) -> list[int]:
    return sorted(record.json()["order"] for record in broker.records("invoices"))


def done(broker: Broker) -> None:
    broker.wait_for_committed("billing", "orders")


def test_each_order_is_billed_once_though_the_broker_is_killed(oncelog_broker: Broker, start: Start) -> None:
    """Exactly once."""
    order(oncelog_broker, *range(10))
    bill = Pausing(5)
    start(bill)
    bill.reached.wait()
    oncelog_broker.kill()
    oncelog_broker.restart()
    bill.resume.set()
    done(oncelog_broker)
    assert billed(oncelog_broker) == [*range(10)]


def test_a_rebalance_in_the_middle_of_a_batch_bills_nothing_twice(oncelog_broker: Broker, start: Start) -> None:
    """A rebalance in a batch."""
    oncelog_broker.create_topic("orders", partitions=2)
    order(oncelog_broker, *range(10))
    bill = Pausing(5)
    start(bill)
    bill.reached.wait()
    start(instance="2")
    with Admin(oncelog_broker.bootstrap_servers) as admin:
        while len(admin.describe_groups("billing")[0].members) < 2:
            pass
    bill.resume.set()
    done(oncelog_broker)
    assert billed(oncelog_broker) == [*range(10)]


def test_a_zombie_commits_nothing(oncelog_broker: Broker, start: Start) -> None:
    """The process stops in a batch, its successor does the work, and then it wakes up."""
    order(oncelog_broker, 1, 2)
    bill = Pausing(2)
    start(bill)
    bill.reached.wait()
    oncelog_broker.clock.advance(15)  # the group gives it up after ten
    start()
    done(oncelog_broker)
    bill.resume.set()
    order(oncelog_broker, 3)
    done(oncelog_broker)
    assert billed(oncelog_broker) == [1, 2, 3]


def test_a_poison_record_is_put_aside_and_stops_nothing(oncelog_broker: Broker, start: Start) -> None:
    """A poison record."""
    order(oncelog_broker, 1)
    oncelog_broker.produce("orders", b"\xff no order")
    order(oncelog_broker, 2)
    start()
    done(oncelog_broker)
    assert billed(oncelog_broker) == [1, 2]
    assert [record.value for record in oncelog_broker.records("refused")] == [b"\xff no order"]


def test_offsets_are_committed_with_the_invoices_and_not_beside_them(oncelog_broker: Broker, start: Start) -> None:
    """Offsets beside the transaction: here it is decided and not ended, and both are not there yet."""
    order(oncelog_broker, 1)
    held = oncelog_broker.faults.plant(Rule(Point.MARKER, Action.HOLD, times=None))
    start()
    oncelog_broker.faults.wait_fired(held, timeout_ms=30_000)
    assert (oncelog_broker.committed("billing"), billed(oncelog_broker)) == ({}, [])
    oncelog_broker.faults.remove(held)
    done(oncelog_broker)
    assert billed(oncelog_broker) == [1]
    assert "offsets-outside-transaction" not in [each.kind for each in oncelog_broker.findings()]


def test_a_service_that_retention_has_overtaken_goes_on_with_what_is_left(oncelog_broker: Broker, start: Start) -> None:
    """Retention overtakes: its next offset is gone."""
    oncelog_broker.create_topic("orders", config={"retention.ms": str(DAY_S * 1000), "segment.bytes": "1048576"})
    order(oncelog_broker, *range(8), note="x" * 400_000)
    with Admin(oncelog_broker.bootstrap_servers) as admin:
        admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 1})
    oncelog_broker.clock.advance(2 * DAY_S)
    order(oncelog_broker, 8, 9)
    left = [record.json()["id"] for record in oncelog_broker.records("orders")]
    assert left[0] > 1, "the next offset of the group is gone"
    start()
    done(oncelog_broker)
    assert billed(oncelog_broker) == left


def test_a_slow_consumer_that_has_lost_its_partition_commits_nothing(oncelog_broker: Broker, start: Start) -> None:
    """A slow consumer: another instance has done its batch before it has."""
    order(oncelog_broker, 1, 2)
    bill = Pausing(2)
    start(bill)
    bill.reached.wait()
    oncelog_broker.clock.advance(15)
    start(instance="2")
    done(oncelog_broker)
    bill.resume.set()
    order(oncelog_broker, 3)
    done(oncelog_broker)
    assert billed(oncelog_broker) == [1, 2, 3]


def test_an_invoice_whose_answer_is_lost_is_there_once(oncelog_broker: Broker, start: Start) -> None:
    """Duplicate delivery: the client sends it again, and the broker has it already."""
    oncelog_broker.create_topic("invoices")
    lost = oncelog_broker.faults.plant(Rule(Point.ANSWER, Action.DROP, Selector(api="Produce", topic="invoices")))
    order(oncelog_broker, 1)
    start()
    done(oncelog_broker)
    assert oncelog_broker.faults.status(lost).fired_count == 1
    assert billed(oncelog_broker) == [1]


def test_a_service_that_starts_before_the_broker_serves_once_it_is_there(oncelog_broker: Broker, start: Start) -> None:
    """The broker is away at the start."""
    order(oncelog_broker, 1)
    oncelog_broker.stop()
    start()
    oncelog_broker.start()
    done(oncelog_broker)
    assert billed(oncelog_broker) == [1]


def test_orders_of_the_next_schema_are_billed_and_of_none_put_aside(oncelog_broker: Broker, start: Start) -> None:
    """A schema change: a new field with a default, one that is not known, and one that is missing."""
    order(oncelog_broker, 1)
    order(oncelog_broker, 2, count=3, currency="EUR")
    oncelog_broker.produce("orders", b'{"id": 3, "price": 100}')
    start()
    done(oncelog_broker)
    cents = {record.json()["order"]: record.json()["cents"] for record in oncelog_broker.records("invoices")}
    assert cents == {1: 100, 2: 300}
    assert [record.json()["id"] for record in oncelog_broker.records("refused")] == [3]
