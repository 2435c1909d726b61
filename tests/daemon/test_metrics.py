"""`oncelog.metrics.listen`: what Prometheus reads of a real daemon, and what an orchestrator asks."""

from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from oncelog import TopicPartition
from oncelog.broker.observability.catalogue import ALL, PREFIX
from oncelog.broker.observability.metrics import BOUNDS_S
from oncelog.sync import Admin, Consumer, Producer
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Daemon]:
    running = Daemon(tmp_path / "data", "oncelog.metrics.listen=127.0.0.1:0", "group.initial.rebalance.delay.ms=0")
    yield running
    running.stop()


def ask(daemon: Daemon, path: str, method: str = "GET") -> tuple[int, str, str]:
    connection = HTTPConnection(daemon.address_of("metrics"), timeout=PATIENCE_S)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.headers["Content-Type"], response.read().decode()
    finally:
        connection.close()


def scrape(daemon: Daemon) -> Samples:
    status, media_type, text = ask(daemon, "/metrics")
    assert (status, media_type.partition(";")[0]) == (200, "text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_each_metric_of_the_catalogue_is_there_with_a_help_that_names_kafkas(broker: Daemon) -> None:
    families = {each.name: each for each in text_string_to_metric_families(ask(broker, "/metrics")[2])}
    assert {(f"{PREFIX}_{each.name}", each.kind) for each in ALL} == {
        (name, each.type) for name, each in families.items()
    }
    for each in ALL:
        help_text = families[f"{PREFIX}_{each.name}"].documentation
        assert help_text.endswith(f"In Kafka: {each.jmx}." if each.jmx else "Kafka has no such metric.")


def test_what_clients_do_is_counted_and_what_is_open_is_seen(broker: Daemon) -> None:
    before = scrape(broker)
    with Producer(broker.bootstrap, transactional_id="billing") as producer:
        with producer.transaction() as transaction:
            transaction.send("orders", b"1", partition=0)
            transaction.send("orders", b"2", partition=0)
            orders = (("partition", "0"), ("topic", "orders"))
            # They count as written when they are durable, a moment after the response.
            while (seen := scrape(broker))["oncelog_partition_last_stable_offset_lag", orders] < 2:
                pass
            assert seen["oncelog_partition_log_end_offset", orders] == 2
            assert seen["oncelog_transactional_ids", (("state", "Ongoing"),)] == 1
            assert seen["oncelog_open_transactions", ()] == 1
            assert 0 <= seen["oncelog_oldest_open_transaction_age_seconds", ()] < 60
    with Consumer(
        "orders", bootstrap_servers=broker.bootstrap, group_id="readers", auto_offset_reset="earliest"
    ) as consumer:
        while not consumer.poll(1_000):
            pass
        after = scrape(broker)
        assert after["oncelog_groups", (("state", "Stable"), ("type", "classic"))] == 1
        consumer.commit_sync()
        with Producer(broker.bootstrap, transactional_id="billing") as producer:
            with producer.transaction() as transaction:
                transaction.send("orders", b"3", partition=0)
                transaction.send("orders", b"4", partition=0)
                while (lagging := scrape(broker))["oncelog_partition_last_stable_offset_lag", orders] < 2:
                    pass
    of_readers = (("group", "readers"), *orders)
    assert lagging["oncelog_group_lag", of_readers] - lagging["oncelog_group_stable_lag", of_readers] == 2
    assert after["oncelog_partition_last_stable_offset_lag", orders] == 0
    assert after["oncelog_partition_size_bytes", orders] > 0
    assert after["oncelog_transactional_ids", (("state", "CompleteCommit"),)] == 1
    assert after["oncelog_oldest_open_transaction_age_seconds", ()] == 0
    for name, least in (("transactions_committed", 1), ("appends", 1), ("requests", 5), ("connections", 2)):
        assert after[f"oncelog_{name}_total", ()] - before[f"oncelog_{name}_total", ()] >= least
    assert after["oncelog_transaction_seconds_count", (("result", "committed"),)] == 1
    assert after["oncelog_sync_seconds_count", ()] > before["oncelog_sync_seconds_count", ()]
    assert after["oncelog_round_seconds_sum", ()] > before["oncelog_round_seconds_sum", ()]
    produced = [
        after["oncelog_request_seconds_bucket", (("api", "PRODUCE"), ("le", str(float(le))))] for le in BOUNDS_S
    ]
    assert (
        produced == sorted(produced)
        and produced[-1] == after["oncelog_request_seconds_count", (("api", "PRODUCE"),)] > 0
    )
    assert after["oncelog_bound_used", (("bound", "max.connections"),)] >= 1
    assert after["oncelog_bound_limit", (("bound", "max.incremental.fetch.session.cache.slots"),)] == 1_000


def test_health_readiness_and_what_is_not_served(broker: Daemon) -> None:
    assert ask(broker, "/healthz")[0] == 200
    assert ask(broker, "/readyz")[0] == 200
    assert ask(broker, "/faults")[0] == 404
    assert ask(broker, "/metrics", "POST")[0] == 405


def test_a_name_with_quotes_and_newlines_stays_inside_its_label(broker: Daemon) -> None:
    """Names of groups are the clients'; a transactional id is no label at all."""
    hostile = 'x"} 1\nevil 2'
    with Producer(broker.bootstrap, transactional_id=hostile) as producer:
        with producer.transaction() as transaction:
            transaction.send("orders", b"1")
    assert "evil" not in ask(broker, "/metrics")[2]
    with Admin(broker.bootstrap) as admin:
        admin.alter_group_offsets(hostile, {TopicPartition("orders", 0): 1})
    text = ask(broker, "/metrics")[2]
    assert not [line for line in text.splitlines() if line.startswith("evil")]
    groups = {
        sample.labels["group"]
        for each in text_string_to_metric_families(text)
        if each.name == "oncelog_group_lag"
        for sample in each.samples
    }
    assert groups == {'x"} 1\\nevil 2'}
