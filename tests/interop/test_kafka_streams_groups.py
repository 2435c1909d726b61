"""Kafka's own tools look at a streams group of ours, move its offsets and delete it, and read its records."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Start
from tests.interop.test_kafka_streams import WordCount
from tests.support.foreign.interop import QUICK_GROUPS, run_java
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import LOOKS_AT_FILES

pytestmark = pytest.mark.interop

TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"


def test_the_tool_of_streams_groups_shows_moves_and_deletes_a_group(start_daemon: Start, tmp_path: Path) -> None:
    daemon = start_daemon(*QUICK_GROUPS)
    application = WordCount(daemon.bootstrap, tmp_path, "streams")
    group = ("--group", application.name)

    def said(*arguments: str) -> str:
        return run_java(TOOL, "--bootstrap-server", daemon.bootstrap, *arguments)

    with application.fed(), application.running():
        application.await_open_transaction("counts")
        assert application.name in said("--list")
        assert "Stable" in said("--describe", *group, "--state")
        members = said("--describe", *group, "--members", "--verbose")
        tasks = sorted(re.findall(r"(\d):\[([\d,]+)\]", members.replace("TARGET-ACTIVE", "TARGET")))
        owned = sorted(f"{one}_{number}" for one, numbers in tasks for number in numbers.split(","))
        assert owned == sorted([f"{one}_{number}" for one in range(2) for number in range(3)] * 2)
        described = said("--describe", *group)
        assert [described.count(f"{application.name}-{topic} ") for topic in ("lines", "words-repartition")] == [3, 3]
    # The killed members are out after their sessions.
    while "Empty" not in said("--describe", *group, "--state"):
        pass
    moved = said("--reset-offsets", *group, "--input-topic", f"{application.name}-lines", "--to-earliest", "--execute")
    assert sorted(re.findall(r"-lines +(\d) +(\d+)", moved)) == [("0", "0"), ("1", "0"), ("2", "0")]
    assert "was successful" in said("--delete", *group)
    assert application.name not in said("--list")


@LOOKS_AT_FILES
def test_kafka_reads_the_records_of_a_streams_group(start_daemon: Start, tmp_path: Path) -> None:
    daemon = start_daemon(*QUICK_GROUPS)
    application = WordCount(daemon.bootstrap, tmp_path, "streams")
    with application.fed(), application.running():
        application.await_open_transaction("counts")
    assert daemon.stop() == 0
    dumped = ""
    for log in sorted(daemon.data_dir.glob("__consumer_offsets-*/*.log")):
        command = ["java", "-cp", f"{os.environ['ONCELOG_KAFKA_LIBS']}/*", "org.apache.kafka.tools.DumpLogSegments"]
        dumped += subprocess.run(
            [*command, "--offsets-decoder", "--files", str(log)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        ).stdout
    for kind in (17, 19, 20, 21, 22, 23):
        assert f'"type":"{kind}"' in dumped
    assert '"lastAssignmentConfigs":[{"key":"num.standby.replicas","value":"0"}]' in dumped
    assert "Error at offset" not in dumped
