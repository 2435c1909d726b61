"""docs/operate/graduate.md, typed along with Apache Kafka: each command prints what the page says below it."""

from pathlib import Path

import pytest

from tests.support.kafka.server import java_with_kafka
from tests.support.pages.walkthrough import steps_of, walk
from tests.support.patience import PATIENCE_S

_SCRIPTS = {
    "kafka-server-start.sh": "kafka.Kafka",
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-leader-election.sh": "org.apache.kafka.tools.LeaderElectionCommand",
}


@pytest.mark.kafka
@pytest.mark.slow
def test_each_command_prints_what_the_page_says(tmp_path: Path) -> None:
    java = " ".join(f"'{word}'" for word in java_with_kafka())
    scripts = {name: f'exec {java} {program} "$@"' for name, program in _SCRIPTS.items()}
    walk(steps_of("operate/graduate.md"), tmp_path, scripts, timeout_s=PATIENCE_S)
