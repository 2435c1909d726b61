"""The Java client and Kafka's own tools, unmodified, in groups of the daemon."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from tests.clients.consumer_group_members import Consumer
from tests.clients.group_members import Member, commit
from tests.clients.offset_producer import Producer
from tests.clients.wire import WireBroker
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import LOOKS_AT_FILES, Daemon

pytestmark = pytest.mark.kafka

PROGRAM = Path(__file__).parent / "JavaGroups.java"
CONSUMER_GROUPS = Path(__file__).parent / "JavaConsumerGroups.java"
QUICK = (
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=200",
    "group.consumer.assignment.interval.ms=100",
)
GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
DUMP_TOOL = "org.apache.kafka.tools.DumpLogSegments"


def java(*arguments: str) -> str:
    """Run a class of Kafka's jars, or a source file over them; return what it prints."""
    libraries, program = os.environ.get("ONCELOG_KAFKA_LIBS"), shutil.which("java")
    if libraries is None or program is None:
        pytest.skip("needs java, and ONCELOG_KAFKA_LIBS with the directory of Kafka's jars")
    run = subprocess.run(
        [program, "-Xmx256m", "-cp", f"{libraries}/*", *arguments], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def prepared(daemon: Daemon) -> WireBroker:
    broker = WireBroker(daemon.bootstrap)
    topic = CreatableTopic(name="topic", num_partitions=2, replication_factor=1)
    broker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
    for key_type in (0, 1):
        broker.ask(FindCoordinatorRequest(key="any", key_type=key_type), 2)
    return broker


def test_the_java_client_shares_restarts_and_transforms_exactly_once(daemon: Daemon) -> None:
    assert java(str(PROGRAM), daemon.bootstrap).splitlines() == [
        "shared RangeAssignor: [4, 4]",
        "shared CooperativeStickyAssignor: [4, 4]",
        "static: same generation true, same partitions true, others revoked 0",
        "transactions: 20 records, each once true",
    ]


def test_the_java_client_works_in_consumer_groups_and_changes_protocols(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "data", *QUICK)
    try:
        assert java(str(CONSUMER_GROUPS), daemon.bootstrap).splitlines() == [
            "shared uniform: Consumer Stable uniform 2",
            "shared range: Consumer Stable range 2",
            "static: same partitions, others undisturbed",
            "pattern: [match-1-0, match-2-0]",
            "migrated RangeAssignor: [Classic, Consumer, Classic], offsets 1",
            "migrated CooperativeStickyAssignor: [Classic, Consumer, Classic], offsets 1",
        ]
    finally:
        daemon.stop()


def test_the_groups_tool_describes_a_consumer_group(daemon: Daemon) -> None:
    broker = prepared(daemon)
    Consumer(broker, "reader", group_id="modern").join()
    broker.close()
    tool = (GROUPS_TOOL, "--bootstrap-server", daemon.bootstrap)
    (listed,) = [line.split() for line in java(*tool, "--list", "--type").splitlines() if "modern" in line]
    assert listed == ["modern", "Consumer", "Consumer"] or listed == ["modern", "Consumer"]
    described = java(*tool, "--describe", "--group", "modern", "--members", "--verbose")
    (row,) = [line.split() for line in described.splitlines() if line.startswith("modern")]
    assert row[1] == "reader"
    assert "topic:0,1" in described
    state = java(*tool, "--describe", "--group", "modern", "--state", "--verbose")
    assert "Stable" in state
    assert "uniform" in state


def test_the_groups_tool_describes_resets_and_deletes(daemon: Daemon) -> None:
    broker = prepared(daemon)
    commit(broker, 1, 0, group_id="tool")
    commit(broker, 0, 1, group_id="tool")
    broker.close()
    tool = (GROUPS_TOOL, "--bootstrap-server", daemon.bootstrap)
    assert "tool" in java(*tool, "--list")
    rows = [line.split()[:6] for line in java(*tool, "--describe", "--group", "tool", "--offsets").splitlines()]
    assert ["tool", "topic", "0", "1", "0", "-1"] in rows
    reset = java(*tool, "--group", "tool", "--topic", "topic", "--reset-offsets", "--to-earliest", "--execute")
    assert ["tool", "topic", "0", "0"] in [line.split() for line in reset.splitlines()]
    assert "Successful" in java(*tool, "--delete-offsets", "--group", "tool", "--topic", "topic:1")
    assert "was successful" in java(*tool, "--delete", "--group", "tool")
    assert "tool" not in java(*tool, "--list").split()


@LOOKS_AT_FILES
def test_kafka_reads_our_groups_and_offsets_from_the_file(tmp_path: Path) -> None:
    """Its log tool decodes each record, and names keys and values as it does those of its own."""
    daemon = Daemon(tmp_path / "data", "offsets.topic.num.partitions=1")
    broker = prepared(daemon)
    member = Member(broker, "reader", group_id="dumped")
    member.join()
    member.learn()
    assert member.sync({member.member_id: b"part"}).message.error_code == ErrorCode.NONE
    assert member.commit(41) == ErrorCode.NONE
    producer = Producer(broker).init()
    producer.commit_offset(42, 1, group_id="dumped")
    producer.end(committed=True)
    broker.close()
    daemon.stop()
    log = tmp_path / "data" / "__consumer_offsets-0" / "00000000000000000000.log"
    dumped = java(DUMP_TOOL, "--offsets-decoder", "--files", str(log))
    assert '"group":"dumped"' in dumped
    for expected in ('"offset":41', '"offset":42', '"clientId":"reader"', '"protocol":"range"', "COMMIT"):
        assert expected in dumped
