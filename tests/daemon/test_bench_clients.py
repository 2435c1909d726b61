"""`make bench WHAT=clients` measures real clients: a two-thousandth of each workload, all that need no compiler."""

import sys
from pathlib import Path

import pytest

from bench.clients.__main__ import WORKLOADS, measure
from bench.clients.workers import CLIENTS
from bench.harness.interpreters import make_place
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.slow


def test_a_round_measures_each_client_with_each_workload(daemon: Daemon, tmp_path: Path) -> None:
    clients = [each for each in CLIENTS if each.python == sys.executable]
    told: list[str] = []
    found = measure(daemon.bootstrap, clients, 1, 2_000, make_place(tmp_path), told.append)
    assert len(told) == 2 * len(WORKLOADS) * len(clients)
    for workload in WORKLOADS:
        assert found[workload.key].keys() == {each.key for each in clients}
        for (sample,) in found[workload.key].values():
            assert 0 < sample["wall_s"] < 10 and sample["cpu_s"] > 0
            assert len(sample["durations_s"]) == (workload.method == "produce_and_wait")
