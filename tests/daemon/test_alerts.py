"""The alert rules beside the dashboard: each names what a broker reports, fires when it must, and else is silent."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from oncelog.broker.observability.catalogue import ALL, PREFIX
from tests.conftest import Start
from tests.support.console.prometheus import PROMTOOL
from tests.support.foreign.interop import needs
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import LOOKS_AT_FILES
from tests.support.security.certificates import Certificates
from tools.dashboard import DASHBOARD

RULES = DASHBOARD.with_name("alerts.yml")
_METRIC = re.compile(rf"\b{PREFIX}_\w+")
_AT = {"instance": "broker:9404", "job": "oncelog"}
_PARTITION = {**_AT, "topic": "orders", "partition": "0"}
_GROUP = {**_PARTITION, "group": "billing"}
_LAG, _OLDEST = "oncelog_partition_last_stable_offset_lag", "oncelog_oldest_open_transaction_age_seconds"
_OPEN, _DECIDED = "oncelog_open_transactions", "oncelog_decided_transactions"
_CERTIFICATE = {**_AT, "listener": "SSL"}
_CERTIFICATE_END = "oncelog_certificate_end_timestamp_seconds"
_DAY_S = 86_400
_SYNCS = "oncelog_sync_seconds_bucket"
Series = dict[tuple[str, tuple[tuple[str, str], ...]], str]


def series(name: str, labels: dict[str, str], values: str) -> Series:
    """Values of an hour, one a minute, in promtool's notation."""
    return {(name, tuple(labels.items())): values}


CASES: dict[str, tuple[Series, Series]] = {
    "OncelogDown": (series("up", _AT, "0x60"), series("up", _AT, "1x60")),
    "OncelogPartitionsOffline": (
        series("oncelog_offline_partitions", _AT, "2x60"),
        series("oncelog_offline_partitions", _AT, "0x60"),
    ),
    "OncelogDiskFull": (series("oncelog_disk_full", _AT, "1x60"), series("oncelog_disk_full", _AT, "0x60")),
    "OncelogDiskFillsUp": (
        series("oncelog_volume_free_bytes", _AT, "9x60") | series("oncelog_volume_bytes", _AT, "100x60"),
        series("oncelog_volume_free_bytes", _AT, "11x60") | series("oncelog_volume_bytes", _AT, "100x60"),
    ),
    "OncelogLastStableOffsetHeld": (
        series(_LAG, _PARTITION, "7x60") | series(_OLDEST, _AT, "0+60x60"),
        series(_LAG, _PARTITION, "7x60") | series(_OLDEST, _AT, "20x60"),
    ),
    "OncelogTransactionHangs": (
        series(_LAG, _PARTITION, "7x60") | series(_OPEN, _AT, "0x60") | series(_DECIDED, _AT, "0x60"),
        series(_LAG, _PARTITION, "7x60") | series(_OPEN, _AT, "0 1x59") | series(_DECIDED, _AT, "0x60"),
    ),
    "OncelogTransactionWaitsForMarkers": (
        series("oncelog_oldest_decided_transaction_age_seconds", _AT, "0+60x60"),
        series("oncelog_oldest_decided_transaction_age_seconds", _AT, "0.01x60"),
    ),
    "OncelogGroupFallsBehind": (
        series("oncelog_group_lag", _GROUP, "10000+100x60"),
        series("oncelog_group_lag", _GROUP, "20000-100x60"),
    ),
    "OncelogDiskSlow": (
        series(_SYNCS, {**_AT, "le": "0.5"}, "0x60") | series(_SYNCS, {**_AT, "le": "1.0"}, "0+60x60")
        | series(_SYNCS, {**_AT, "le": "+Inf"}, "0+60x60"),
        series(_SYNCS, {**_AT, "le": "0.01"}, "0+60x60") | series(_SYNCS, {**_AT, "le": "+Inf"}, "0+60x60"),
    ),
    "OncelogCertificateEnds": (
        series(_CERTIFICATE_END, _CERTIFICATE, f"{13 * _DAY_S}x60"),
        series(_CERTIFICATE_END, _CERTIFICATE, f"{15 * _DAY_S}x60"),
    ),
}  # fmt: skip
"""Series that fire each alert within an hour, and series that come close and do not."""


def rules() -> dict[str, str]:
    """The text of each, by its name."""
    _, *found = RULES.read_text(encoding="utf-8").split("- alert: ")
    return {name: rule for name, _, rule in (each.partition("\n") for each in found)}


def test_each_alert_has_a_case_and_says_what_to_do() -> None:
    assert list(rules()) == list(CASES)
    page = (DASHBOARD.parent.parent / "operate" / "metrics.md").read_text(encoding="utf-8")
    assert all(f"| `{alert}` |" in page for alert in rules())
    assert all("summary: " in rule and "description: " in rule for rule in rules().values())


def test_each_alert_names_metrics_that_are_reported() -> None:
    """Each metric in a rule is in the catalogue, which another test compares with a broker's /metrics."""
    reported = {"up", *(f"{PREFIX}_{family.name}" for family in ALL)}
    for alert, rule in rules().items():
        names = _METRIC.findall(rule.partition("for: ")[0])
        assert names or alert == "OncelogDown"
        assert {name.removesuffix("_bucket").removesuffix("_total") for name in names} <= reported, alert


@LOOKS_AT_FILES
def test_a_broker_reports_its_volume_and_when_its_certificates_end(start_daemon: Start, tmp_path: Path) -> None:
    """The metrics that the alerts on the disk and on certificates need are there."""
    certificates = Certificates(tmp_path)
    settings = [f"{key}={value}" for key, value in certificates.server_settings().items()]
    daemon = start_daemon("listeners=SSL://127.0.0.1:0", "oncelog.metrics.listen=127.0.0.1:0", *settings)
    shown = urlopen(f"http://{daemon.address_of('metrics')}/metrics", timeout=PATIENCE_S).read().decode()
    found = {
        sample.name: (sample.labels, sample.value)
        for family in text_string_to_metric_families(shown)
        for sample in family.samples
    }
    labels, end_s = found[_CERTIFICATE_END]
    assert (labels, end_s) == ({"listener": "SSL"}, certificates.server_end_s)
    assert 0 < found["oncelog_volume_free_bytes"][1] < found["oncelog_volume_bytes"][1]


@pytest.mark.interop
def test_prometheus_takes_the_rules_and_fires_each_when_it_must(tmp_path: Path) -> None:
    """promtool evaluates an hour of each case: the alert is there at its end, or it is not."""
    needs(PROMTOOL)
    tests = [
        {"name": f"{alert} {'fires' if fires else 'is silent'}", "interval": "1m", **_evaluated(alert, found, fires)}
        for alert, cases in CASES.items()
        for found, fires in zip(cases, (True, False), strict=True)
    ]
    (tmp_path / "tests.yml").write_text(json.dumps({"rule_files": [str(RULES)], "tests": tests}))
    checked = subprocess.run([PROMTOOL, "test", "rules", tmp_path / "tests.yml"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr


def _evaluated(alert: str, found: Series, fires: bool) -> dict[str, Any]:
    """promtool compares all labels; which an alert has, the query says that counts it."""
    inputs = []
    for (name, labels), values in found.items():
        selected = ",".join(f'{key}="{value}"' for key, value in labels)
        inputs.append({"series": f"{name}{{{selected}}}", "values": values})
    query = f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) or vector(0)'
    expected = {"expr": query, "eval_time": "59m", "exp_samples": [{"labels": "{}", "value": int(fires)}]}
    return {"input_series": inputs, "promql_expr_test": [expected]}
