"""`make bench` measures a real broker: the quickest workloads, this daemon alone."""

from pathlib import Path

import pytest

from bench.peers.contestants import CONTESTANTS, WITH_TLS
from bench.peers.run import Plan, run
from bench.peers.workloads import TLS_WORKLOADS, WORKLOADS

pytestmark = pytest.mark.slow


def test_a_round_measures_the_daemon_and_leaves_no_files(tmp_path: Path) -> None:
    workloads = [each for each in WORKLOADS if each.key == "produce-wait"]
    contestants = [each for each in CONTESTANTS if each.key == "oncelog-os"]
    plan = Plan(workloads, contestants, rounds=1, scale=100, limit_s=30.0, place=tmp_path / "data", settle=list)
    results = run(plan, lambda what, done, total: None)
    # Syncs are counted only where strace is installed.
    assert results.failures["oncelog-os"].keys() <= {"syncs"}
    (sample,) = results.samples["produce-wait"]["oncelog-os"]
    assert 0 < sample.value <= (sample.p99_ms or 0) < 1000 * sample.wall_s
    assert results.start_ms["oncelog-os"][0] > 0
    assert 5 < results.idle_mb["oncelog-os"] < 500
    assert 5 < results.final_mb["oncelog-os"] < 500
    assert not plan.place.exists()


def test_a_round_over_tls_measures_each_workload_beside_itself_without(tmp_path: Path) -> None:
    """librdkafka trusts one authority: had it spoken plain text, or to the other listener, nothing would be written."""
    workloads = [each for each in TLS_WORKLOADS if each.key.startswith("transaction")]
    contestants = [each for each in WITH_TLS if each.key == "oncelog-os"]
    place = tmp_path / "data"
    plan = Plan(workloads, contestants, 1, 100, limit_s=30.0, place=place, settle=list, counts_syncs=False)
    results = run(plan, lambda what, done, total: None)
    assert results.failures["oncelog-os"] == {}
    assert [*results.samples] == ["transaction", "transaction-tls"]
