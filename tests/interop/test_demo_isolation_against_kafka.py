"""`oncelog demo isolation` says the same of Apache Kafka: the experiment is about Kafka, not about us."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kafka.server import Kafka


@pytest.mark.kafka
def test_the_experiment_runs_against_apache_kafka_with_the_same_outcome(tmp_path: Path) -> None:
    kafka = Kafka(tmp_path)
    try:
        command = [sys.executable, "-m", "oncelog", "demo", "isolation", "--bootstrap", kafka.bootstrap, "--json"]
        answer = subprocess.run(command, capture_output=True, text=True)
        assert answer.returncode == 0, answer.stderr
        _, open_, committed = json.loads(answer.stdout)
    finally:
        kafka.stop()
    assert (open_["last_stable_offset"], open_["high_watermark"]) == (4, 6)
    assert (committed["last_stable_offset"], committed["high_watermark"]) == (7, 7)
    states = [batch["state"] for batch in committed["batches"]]
    assert states == ["aborted", "aborted", "ABORT", "plain", "committed", "plain", "COMMIT"]
    assert [reading["position_after"] for reading in committed["readings"]] == [7, 7]
