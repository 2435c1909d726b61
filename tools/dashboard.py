"""The Grafana dashboard, docs/grafana/oncelog.json, as `make pages` writes it from the table below.

A test holds each query to what a broker reports.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

DASHBOARD = Path(__file__).resolve().parent.parent / "docs" / "grafana" / "oncelog.json"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
"""What the reader chooses on the dashboard, at first the default one: a Grafana names its data sources as it likes."""
_CHOICE = {
    "type": "datasource",
    "name": "datasource",
    "label": "Data source",
    "query": "prometheus",
    "refresh": 1,
    "current": {"text": "default", "value": "default"},
}
_WIDTH = 24
"""Of Grafana's grid."""


class Query(NamedTuple):
    expression: str
    """`[]` stands for the range of rates that Grafana chooses."""
    legend: str


class Panel(NamedTuple):
    title: str
    unit: str
    """By Grafana's names."""
    text: str
    queries: tuple[Query, ...]
    is_number: bool = False
    """The newest value alone, in large digits."""


def _number(title: str, unit: str, text: str, expression: str) -> Panel:
    return Panel(title, unit, text, (Query(expression, title),), is_number=True)


def _quantiles(metric: str, label: str) -> tuple[Query, ...]:
    grouped = f"{label}, le" if label else "le"
    legend = f" {{{{{label}}}}}" if label else ""
    return tuple(
        Query(f"histogram_quantile({quantile}, sum by ({grouped}) (rate({metric}_bucket[])))", f"p{percent}{legend}")
        for quantile, percent in (("0.5", 50), ("0.99", 99))
    )


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Now",
        (
            _number("Open transactions", "short", "Not decided yet.", "sum(oncelog_open_transactions)"),
            _number("Oldest open transaction", "s", "It holds back readers at read_committed.",
                    "max(oncelog_oldest_open_transaction_age_seconds)"),
            _number("Largest lag", "short", "Of a group in one partition.", "max(oncelog_group_lag) or vector(0)"),
            _number("Offline partitions", "short", "oncelog log verify looks at their files.",
                    "sum(oncelog_offline_partitions)"),
            _number("Connections", "short", "Open now.", "sum(oncelog_open_connections)"),
            _number("Series left out", "short", "Beyond oncelog.metrics.max.series.",
                    "sum(oncelog_series_left_out) or vector(0)"),
        ),
    ),
    (
        "Transactions",
        (
            Panel("Transactions a second", "ops", "Begun, and ended by result.", (
                Query("sum(rate(oncelog_transactions_started_total[]))", "started"),
                Query("sum(rate(oncelog_transactions_committed_total[]))", "committed"),
                Query("sum(rate(oncelog_transactions_aborted_total[]))", "aborted"),
            )),
            Panel("Duration of transactions", "s", "From the first partition to the last marker.",
                  _quantiles("oncelog_transaction_seconds", "result")),
            Panel("Transactional ids by state", "short", "", (
                Query("sum by (state) (oncelog_transactional_ids)", "{{state}}"),
            )),
            Panel("Last stable offset behind", "short", "What read_committed does not reach yet; the ten worst.", (
                Query("topk(10, oncelog_partition_last_stable_offset_lag > 0)", "{{topic}}-{{partition}}"),
            )),
            Panel("Fenced, rejected and repeated", "ops", "Requests of fenced producers; batches by error; retries.", (
                Query("sum by (reason) (rate(oncelog_producers_fenced_total[]))", "fenced: {{reason}}"),
                Query("sum by (error) (rate(oncelog_rejected_batches_total[]))", "rejected: {{error}}"),
                Query("sum(rate(oncelog_duplicate_batches_total[]))", "duplicates"),
            )),
            Panel("Age of the oldest transaction", "s", "Open since it began; decided since it waits for markers.", (
                Query("max(oncelog_oldest_open_transaction_age_seconds)", "open"),
                Query("max(oncelog_oldest_decided_transaction_age_seconds)", "decided"),
            )),
        ),
    ),
    (
        "Requests",
        (
            Panel("Requests a second by API", "reqps", "", (
                Query("sum by (api) (rate(oncelog_request_seconds_count[]))", "{{api}}"),
            )),
            Panel("Time of requests, 99th percentile", "s", "Without those that wait on purpose.", (
                Query('histogram_quantile(0.99, sum by (api, le) (rate(oncelog_request_seconds_bucket'
                      '{api!~"FETCH|JOIN_GROUP|SYNC_GROUP"}[])))', "{{api}}"),
            )),
            Panel("Bytes a second", "Bps", "", (
                Query("sum(rate(oncelog_request_bytes_total[]))", "received"),
                Query("sum(rate(oncelog_response_bytes_total[]))", "sent"),
                Query("sum(rate(oncelog_append_bytes_total[]))", "appended"),
            )),
            Panel("Connections", "short", "", (
                Query("sum(oncelog_open_connections)", "open"),
                Query("sum(increase(oncelog_connections_total[]))", "new"),
                Query("sum(increase(oncelog_connections_refused_total[]))", "refused"),
                Query("sum(increase(oncelog_connections_closed_slow_total[]))", "closed: too slow"),
                Query("sum(increase(oncelog_connections_closed_idle_total[]))", "closed: idle"),
            )),
            Panel("Bounds in use", "percentunit", "Of those that have a limit.", (
                Query("oncelog_bound_used / (oncelog_bound_limit > 0)", "{{bound}}"),
            )),
            Panel("Waiting fetches, fetch sessions", "short", "", (
                Query("sum(oncelog_waiting_fetches)", "waiting"),
                Query("sum(oncelog_fetch_sessions)", "sessions"),
            )),
        ),
    ),
    (
        "Disk",
        (
            Panel("Time of a sync", "s", "Writing a round to the disk.", _quantiles("oncelog_sync_seconds", "")),
            Panel("Time of a round", "s", "Until its records can be read.", _quantiles("oncelog_round_seconds", "")),
            Panel("Batches and rounds a second", "ops", "Their ratio is how many batches one sync makes durable.", (
                Query("sum(rate(oncelog_appends_total[]))", "batches"),
                Query("sum(rate(oncelog_flush_rounds_total[]))", "rounds"),
            )),
            Panel("Records a second by topic", "ops", "Offsets, so markers count, too.", (
                Query("sum by (topic) (rate(oncelog_partition_log_end_offset[]))", "{{topic}}"),
            )),
            Panel("Size by topic", "bytes", "", (
                Query("sum by (topic) (oncelog_partition_size_bytes)", "{{topic}}"),
            )),
            Panel("Problems of files", "short", "oncelog log verify looks at them.", (
                Query("sum(oncelog_file_problems_total)", "log lines"),
                Query("sum(oncelog_offline_partitions)", "offline partitions"),
            )),
        ),
    ),
    (
        "Groups",
        (
            Panel("Lag by group", "short", "Up to the high watermark.", (
                Query("sum by (group) (oncelog_group_lag)", "{{group}}"),
            )),
            Panel("Lag by group, at read_committed", "short", "What the group could read now.", (
                Query("sum by (group) (oncelog_group_stable_lag)", "{{group}}"),
            )),
            Panel("Groups by state", "short", "", (
                Query("sum by (type, state) (oncelog_groups)", "{{type}} {{state}}"),
            )),
        ),
    ),
)  # fmt: skip


def dashboard() -> str:
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS:
        place = {"x": 0, "y": y, "w": _WIDTH, "h": 1}
        panels.append({"type": "row", "title": title, "gridPos": place, "collapsed": False, "panels": []})
        y += 1
        width, height = (_WIDTH // 6, 4) if row[0].is_number else (_WIDTH // 3, 8)
        for number, panel in enumerate(row):
            x = number * width % _WIDTH
            y += height if number and not x else 0
            panels.append(_panel(panel, {"x": x, "y": y, "w": width, "h": height}))
        y += height
    for number, shown in enumerate(panels, 1):
        shown["id"] = number
    return json.dumps(_around(panels), indent=2, ensure_ascii=False) + "\n"


def _panel(panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + number), "datasource": SOURCE, "expr": expression(query), "legendFormat": query.legend}
        for number, query in enumerate(panel.queries)
    ]
    return {
        "type": "stat" if panel.is_number else "timeseries",
        "title": panel.title,
        "description": panel.text,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }


def expression(query: Query) -> str:
    """As Prometheus gets it, once Grafana has put in what `$...` stands for."""
    return query.expression.replace("[]", "[$__rate_interval]")


def _around(panels: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "uid": "oncelog-broker",
        "title": "oncelog",
        "tags": ["kafka", "oncelog"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [_CHOICE]},
        "panels": panels,
    }
