"""A share group in a broker of `oncelog.testing`: its locks run out by the fixture's clock, and people can see it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from oncelog.cli import main
from oncelog.share_groups import FailedRecord, ask_share_group
from oncelog.sync import Admin, Producer, ShareConsumer
from oncelog.testing import Broker
from tests.support.kafka.server import free_ports
from tests.support.patience import PATIENCE_MS

TOPIC, GROUP = "jobs", "workers"
LOCK_S = 30


@pytest.fixture
def metrics() -> Iterator[str]:
    (port,) = free_ports(1)
    yield f"127.0.0.1:{port}"


@pytest.fixture
def broker(metrics: str) -> Iterator[Broker]:
    # A member gets its first partitions with the second heartbeat.
    heartbeats = {f"group.share.{each}heartbeat.interval.ms": 100 for each in ("", "min.")}
    with Broker(config={"oncelog.metrics.listen": metrics, **heartbeats}) as running:
        running.create_topic(TOPIC)
        with Admin(running.bootstrap_servers) as admin:
            admin.alter_configs({"share.auto.offset.reset": "earliest"}, group=GROUP)
        yield running


@contextmanager
def member(broker: Broker, client_id: str = "worker") -> Iterator[ShareConsumer[bytes, bytes]]:
    with ShareConsumer(
        TOPIC,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=GROUP,
        client_id=client_id,
        share_acknowledgement_mode="explicit",
    ) as consumer:
        yield consumer


def test_a_lock_runs_out_by_the_clock_of_the_fixture_and_the_witness_reports_it(broker: Broker) -> None:
    """No test has to wait half a minute for the next delivery."""
    broker.produce(TOPIC, b"resize 1")
    with member(broker) as slow, member(broker, "quick") as quick:
        (record,) = slow.poll(timeout_ms=PATIENCE_MS)
        broker.clock.advance(LOCK_S)
        (again,) = quick.poll(timeout_ms=PATIENCE_MS)
        assert (again.offset, again.delivery_count) == (record.offset, 2)
        slow.acknowledge(record)
        assert [error is None for error in slow.commit_sync().values()] == [False]
        quick.acknowledge(again)
        assert [error is None for error in quick.commit_sync().values()] == [True]
    (found,) = broker.findings()
    assert (found.kind, found.client_id, found.topic, found.group) == ("late-acknowledgement", "worker", TOPIC, GROUP)
    assert f"the lock of {LOCK_S * 1_000} ms" in found.seen


def test_what_is_done_in_time_is_not_reported(broker: Broker) -> None:
    """Neither of a member that accepts, releases and renews, nor beside a producer of another program."""
    broker.produce(TOPIC, b"resize 1")
    with (
        member(broker) as consumer,
        Producer(broker.bootstrap_servers, client_id="other", transactional_id="t") as other,
    ):
        (record,) = consumer.poll(timeout_ms=PATIENCE_MS)
        with other.transaction() as transaction:
            transaction.send("thumbnails", b"1")
        consumer.acknowledge(record, "renew")
        broker.clock.advance(LOCK_S - 1)
        (record,) = consumer.poll(timeout_ms=PATIENCE_MS)
        consumer.acknowledge(record, "release")
        (record,) = consumer.poll(timeout_ms=PATIENCE_MS)
        consumer.acknowledge(record)
        assert [error for error in consumer.commit_sync().values() if error is not None] == []
    assert [each.kind for each in broker.findings() if each.kind.startswith(("late", "share"))] == []


def test_a_share_group_is_reported_where_its_program_writes_in_transactions(broker: Broker) -> None:
    """Acknowledgements are not part of its transactions."""
    broker.produce(TOPIC, b"resize 1")
    writer = Producer(broker.bootstrap_servers, client_id="worker", transactional_id="resizer")
    with member(broker) as consumer, writer as producer:
        (record,) = consumer.poll(timeout_ms=PATIENCE_MS)
        with producer.transaction() as transaction:
            transaction.send("thumbnails", b"1")
        consumer.acknowledge(record)
        consumer.commit_sync()
    kinds = [(each.kind, each.client_id, each.group) for each in broker.findings()]
    assert ("share-group-beside-transactions", "worker", GROUP) in kinds


def test_what_is_in_flight_and_what_fails_is_shown_by_the_port_and_the_command(broker: Broker, metrics: str) -> None:
    """The record that fails most first."""
    for number in range(3):
        broker.produce(TOPIC, b"resize %d" % number)
    with member(broker) as consumer:
        seen: dict[int, int] = {}
        while seen.get(1, 0) < 3 or len(seen) < 3:
            for record in consumer.poll(timeout_ms=PATIENCE_MS):
                seen[record.offset] = record.delivery_count
                if record.offset == 1 and record.delivery_count < 3:
                    consumer.acknowledge(record, "release")
                elif record.offset == 2:
                    consumer.acknowledge(record, "reject")
                elif record.offset == 0:
                    consumer.acknowledge(record)
            if seen.get(1, 0) < 3:
                consumer.commit_sync()
        (partition,) = ask_share_group(metrics, GROUP)
        assert (partition.topic, partition.start_offset, partition.end_offset) == (TOPIC, 1, 2)
        assert (partition.in_flight, partition.acquired, partition.delivery_counts) == (2, 1, {3: 1})
        assert partition.failed == (FailedRecord(1, 2, 0, 0, False), FailedRecord(2, 0, 0, 1, True))
        options = ("--bootstrap", broker.bootstrap_servers, "--metrics", metrics, "--json")
        result = CliRunner().invoke(main, ["group", "describe", GROUP, *options])
        values = json.loads(result.stdout)
        assert [(each["in_flight"], each["delivery_counts"]) for each in values["offsets"]] == [(2, {"3": 1})]
        assert [(each["offset"], each["released"], each["rejected"]) for each in values["failed"]] == [
            (1, 2, 0),
            (2, 0, 1),
        ]
    assert ask_share_group(metrics, "nobody's / group") == []
