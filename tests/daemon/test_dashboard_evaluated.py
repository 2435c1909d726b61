"""The dashboard as Prometheus and Grafana take it: each query has a result, and the file is of Grafana's schema."""

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import urlopen

import pytest

from tests.support.console.dashboard_scene import Scene
from tests.support.console.prometheus import PROGRAM, PROMTOOL, Prometheus
from tests.support.foreign.interop import NODE_PACKAGES, needs
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon
from tools.dashboard import DASHBOARD

pytestmark = pytest.mark.interop

_LONGEST_S, _PAUSE_S = 90, 0.5
_COMPILER = NODE_PACKAGES / ".bin" / "tsc"
_SCHEMA = "@grafana/schema/dist/esm/raw/dashboard/x/dashboard_types.gen"
_PROGRAM = """import type {{ Dashboard, Panel, RowPanel }} from '{schema}';
const around: Dashboard = {around};
const panels: Panel[] = {panels};
const rows: RowPanel[] = {rows};
export default [around, panels, rows];
"""


class AtWork(NamedTuple):
    scene: Scene
    metrics: str
    """The address of /metrics."""


@pytest.fixture
async def at_work(tmp_path: Path) -> AsyncIterator[AtWork]:
    needs(PROGRAM)
    daemon = Daemon(tmp_path / "data", "oncelog.metrics.listen=127.0.0.1:0", "group.initial.rebalance.delay.ms=0")
    scene = Scene(daemon.bootstrap)
    await scene.start()
    yield AtWork(scene, daemon.address_of("metrics"))
    await scene.stop()
    daemon.stop()


def _dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return found


async def test_prometheus_has_a_result_for_each_query(at_work: AtWork, tmp_path: Path) -> None:
    waiting = {target["expr"] for panel in _dashboard()["panels"] for target in panel.get("targets", ())}
    assert len(waiting) > 30
    until = time.monotonic() + _LONGEST_S
    with Prometheus(at_work.metrics, tmp_path) as prometheus:
        while waiting := {each for each in waiting if not await asyncio.to_thread(prometheus.query, each)}:
            assert time.monotonic() < until, f"no result: {sorted(waiting)}"
            await at_work.scene.ends_within(_PAUSE_S)


async def test_prometheus_own_linter_finds_nothing_in_the_metrics(at_work: AtWork) -> None:
    shown = await asyncio.to_thread(urlopen, f"http://{at_work.metrics}/metrics", timeout=PATIENCE_S)
    checked = subprocess.run([PROMTOOL, "check", "metrics"], input=shown.read(), capture_output=True)
    assert (checked.returncode, checked.stderr.decode()) == (0, "")


def test_prometheus_takes_the_configuration_of_the_compose_file() -> None:
    needs(PROMTOOL)
    checked = subprocess.run([PROMTOOL, "check", "config", DASHBOARD.with_name("prometheus.yml")], capture_output=True)
    assert checked.returncode == 0, checked.stderr.decode()


@pytest.mark.parametrize("mistake", [{}, {"gridPos": {"x": 0}}, {"targets": "sum(up)"}, {"tittle": "Misspelt"}])
def test_the_file_is_a_dashboard_by_grafanas_schema(mistake: dict[str, Any], tmp_path: Path) -> None:
    """The dashboard fits the schema of the Grafana in docker-compose.yml; a mistake is noticed."""
    needs(_COMPILER)
    around = _dashboard()
    panels = around.pop("panels")
    rows = [panel for panel in panels if panel["type"] == "row"]
    others = [panel for panel in panels if panel["type"] != "row"]
    others[0] |= mistake
    program = _PROGRAM.format(
        schema=NODE_PACKAGES / _SCHEMA, around=json.dumps(around), panels=json.dumps(others), rows=json.dumps(rows)
    )
    (tmp_path / "dashboard.ts").write_text(program)
    options = ("--strict", "--noEmit", "--skipLibCheck", "--module", "esnext", "--moduleResolution", "bundler")
    checked = subprocess.run([_COMPILER, *options, tmp_path / "dashboard.ts"], capture_output=True, text=True)
    assert (checked.returncode == 0) == (not mistake), checked.stdout
