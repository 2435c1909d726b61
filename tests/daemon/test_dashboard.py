"""The Grafana dashboard asks for nothing that a broker does not report, and the compose file mounts what it needs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from oncelog.broker.observability.catalogue import ALL, CERTIFICATE_END, OF_NODES, OF_TABLES, PREFIX
from oncelog.sync import Consumer, Producer
from tests.daemon.test_metrics import ask
from tests.support.processes.daemon import Daemon
from tools.dashboard import DASHBOARD

ROOT = DASHBOARD.parent.parent.parent
_METRIC = re.compile(r"(oncelog_[a-z_]+)(?:\{([^}]*)\})?")
_GROUPED = re.compile(r"\bby \(([^)]*)\)")
_LEGEND = re.compile(r"\{\{(\w+)\}\}")
_NAMES = re.compile(r"[^,\s=~!\"|]+(?=\s*(?:[=!]|,|$))")


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, set[str]]]:
    """The labels of each metric that a running broker reports, by the name that a query uses."""
    daemon = Daemon(
        tmp_path_factory.mktemp("dashboard") / "data",
        "oncelog.metrics.listen=127.0.0.1:0",
        "oncelog.metrics.max.series=3",
        "group.initial.rebalance.delay.ms=0",
    )
    with Producer(daemon.bootstrap, transactional_id="billing") as producer:
        with producer.transaction() as transaction:
            transaction.send("orders", b"1", partition=0)
    with Consumer(
        "orders", bootstrap_servers=daemon.bootstrap, group_id="readers", auto_offset_reset="earliest"
    ) as consumer:
        while not consumer.poll(1_000):
            pass
        consumer.commit_sync()
        text = ask(daemon, "/metrics")[2]
    daemon.stop()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    yield found


def queries() -> list[tuple[str, str]]:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return [(target["expr"], target["legendFormat"]) for panel in panels for target in panel.get("targets", ())]


def test_every_metric_is_reported_with_its_labels_once_clients_were_there(reported: dict[str, set[str]]) -> None:
    """Every metric of the catalogue is really reported, which makes the tests below strict."""
    for each in (family for family in ALL if family not in (*OF_TABLES, *OF_NODES, CERTIFICATE_END)):
        name = f"{PREFIX}_{each.name}"
        samples = [found for found in (name, f"{name}_total", f"{name}_bucket") if found in reported]
        assert samples and reported[samples[0]] - {"le"} == set(each.labels), name


@pytest.mark.parametrize(("query", "legend"), queries())
def test_each_query_names_metrics_and_labels_that_the_broker_reports(
    query: str, legend: str, reported: dict[str, set[str]]
) -> None:
    metrics = _METRIC.findall(query)
    assert metrics
    grouped = {name for group in _GROUPED.findall(query) for name in _NAMES.findall(group)}
    for name, selected in metrics:
        assert name in reported, f"no {name} in /metrics"
        assert {*grouped, *_NAMES.findall(selected)} <= reported[name], name
    shown = set(_LEGEND.findall(legend))
    of_results = grouped if grouped or "sum(" in query else set.union(*(reported[name] for name, _ in metrics))
    assert shown <= of_results, "the legend names a label that the result lacks"


def test_a_query_for_what_is_not_there_would_be_noticed(reported: dict[str, set[str]]) -> None:
    """The test above itself: another metric, another label, another label in the legend."""
    for query, legend in (
        ("sum(rate(oncelog_nothing_total[1m]))", ""),
        ("sum by (client) (oncelog_open_connections)", ""),
        ('oncelog_groups{colour="red"}', ""),
        ("sum by (state) (oncelog_groups)", "{{type}}"),
    ):
        with pytest.raises(AssertionError):
            test_each_query_names_metrics_and_labels_that_the_broker_reports(query, legend, reported)


def test_a_reader_chooses_the_source_of_every_panel() -> None:
    """The dashboard names no data source of ours, so that it works in any Grafana."""
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    (choice,) = dashboard["templating"]["list"]
    assert (choice["type"], choice["query"]) == ("datasource", "prometheus")
    shown = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    sources = [each["datasource"] for panel in shown for each in (panel, *panel["targets"])]
    assert sources and all(each == {"type": "prometheus", "uid": f"${{{choice['name']}}}"} for each in sources)


def test_what_the_compose_file_mounts_is_there_and_its_names_agree() -> None:
    compose = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    mounted = re.findall(r"- \./(docs/grafana/\S+?):(\S+?):ro", compose)
    assert {Path(source).name for source, _ in mounted} == {path.name for path in DASHBOARD.parent.iterdir()}
    texts = {path.name: path.read_text(encoding="utf-8") for path in DASHBOARD.parent.iterdir()}
    assert (
        'targets: ["broker:9404"]' in texts["prometheus.yml"]
        and "KAFKA_ONCELOG_METRICS_LISTEN: 0.0.0.0:9404" in compose
    )
    assert "type: prometheus" in texts["datasource.yml"] and "isDefault: true" in texts["datasource.yml"]
    (dashboards,) = re.findall(r"path: (\S+)", texts["dashboards.yml"])
    assert f"{dashboards}/oncelog.json" in [target for _, target in mounted]
