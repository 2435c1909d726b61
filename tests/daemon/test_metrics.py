"""`oncelog.metrics.listen`: what Prometheus reads of a real daemon, and what an orchestrator asks."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from oncelog.broker.observability.metrics import COUNTERS, GAUGES
from oncelog.sync import Consumer, Producer
from tests.support.daemon import Daemon

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Daemon]:
    running = Daemon(tmp_path / "data", "oncelog.metrics.listen=127.0.0.1:0", "group.initial.rebalance.delay.ms=0")
    yield running
    running.stop()


def ask(daemon: Daemon, path: str, method: str = "GET") -> tuple[int, str, str]:
    lines = [line for line in daemon.stderr_path.read_text().splitlines() if "metrics.ready" in line]
    connection = HTTPConnection(json.loads(lines[-1])["address"], timeout=10)
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


def test_each_number_that_the_broker_keeps_is_there_with_a_help_that_names_kafkas(broker: Daemon) -> None:
    families = {each.name: each for each in text_string_to_metric_families(ask(broker, "/metrics")[2])}
    assert {f"oncelog_{name}" for name in (*COUNTERS, *GAUGES)} <= set(families)
    for family in families.values():
        assert "In Kafka: kafka." in family.documentation or "Kafka has no such metric" in family.documentation


def test_the_page_lists_each_metric(broker: Daemon) -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "metrics.md").read_text(encoding="utf-8")
    names = {line.split("`")[1].partition("{")[0] for line in page.splitlines() if line.startswith("| `oncelog_")}
    found = list(text_string_to_metric_families(ask(broker, "/metrics")[2]))
    assert names == {f"{each.name}_total" if each.type == "counter" else each.name for each in found}


def test_what_clients_do_is_counted_and_what_is_open_is_seen(broker: Daemon) -> None:
    before = scrape(broker)
    with Producer(broker.bootstrap, transactional_id="billing") as producer:
        with producer.transaction() as transaction:
            transaction.send("orders", b"1", partition=0)
            transaction.send("orders", b"2", partition=0)
            seen = scrape(broker)
            orders = (("partition", "0"), ("topic", "orders"))
            assert seen["oncelog_partition_last_stable_offset_lag", orders] == 2
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
    assert after["oncelog_partition_last_stable_offset_lag", orders] == 0
    assert after["oncelog_partition_size_bytes", orders] > 0
    assert after["oncelog_transactional_ids", (("state", "CompleteCommit"),)] == 1
    assert after["oncelog_oldest_open_transaction_age_seconds", ()] == 0
    for name, least in (("transactions_committed", 1), ("appends", 1), ("requests", 5), ("connections", 2)):
        assert after[f"oncelog_{name}_total", ()] - before[f"oncelog_{name}_total", ()] >= least


def test_health_readiness_and_what_is_not_served(broker: Daemon) -> None:
    assert ask(broker, "/healthz")[0] == 200
    assert ask(broker, "/readyz")[0] == 200
    assert ask(broker, "/faults")[0] == 404
    assert ask(broker, "/metrics", "POST")[0] == 405


def test_a_name_with_quotes_and_newlines_stays_inside_its_label(broker: Daemon) -> None:
    """Names of groups and ids are the clients'; a group's name is no label, a state is."""
    hostile = 'x"} 1\nevil 2'
    with Producer(broker.bootstrap, transactional_id=hostile) as producer:
        with producer.transaction() as transaction:
            transaction.send("orders", b"1")
    assert "evil" not in ask(broker, "/metrics")[2]
