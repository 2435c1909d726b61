"""Apache Kafka's own dump tool and `oncelog log dump --json` read the same in files that real clients filled."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from oncelog.cli import main
from oncelog.protocol.records.batch import read_header
from tests.conftest import Start
from tests.interop.test_kafka_log_tools import write_compacted_partition
from tests.support.kafka.dumps import CASES, PARTITIONS, ROOT, arguments, rows_of_kafka, rows_of_ours
from tests.support.kafka.server import Kafka
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import LOOKS_AT_FILES, Daemon

pytestmark = [pytest.mark.kafka, LOOKS_AT_FILES]
SETTINGS = (
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "group.initial.rebalance.delay.ms=0",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=200",
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory after a clean stop, a compacted partition, and a damaged one."""
    directory = tmp_path_factory.mktemp("dumps")
    daemon = Daemon(directory / "data", *SETTINGS)
    try:
        fill(daemon)
    finally:
        assert daemon.stop() == 0
    shutil.move(write_compacted_partition(directory / "compacting"), directory / "data" / "compacted-0")
    damage(directory / "data")
    return directory / "data"


def fill(daemon: Daemon | Kafka) -> None:
    topics = {
        "orders": {"segment.ms": "10000", "index.interval.bytes": "200"},
        "stamped": {"message.timestamp.type": "LogAppendTime"},
        "numbers": {},
    }
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
    for future in admin.create_topics([NewTopic(name, 1, config=config) for name, config in topics.items()]).values():
        future.result(PATIENCE_S)
    # A segment ends where the timestamps of its records leap.
    timestamp = time.time_ns() // 1_000_000 - 600_000
    for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
        timestamp += 60_000
        producer = Producer({"bootstrap.servers": daemon.bootstrap, "compression.type": compression, "linger.ms": 20})
        for number in range(12):
            key = None if number % 3 == 0 else f"key é {number}"
            value = None if number % 5 == 4 else b"value \xff\xed\xa0\x80 %d of " % number + compression.encode()
            headers = [("trace", b"1"), ("säge", None)][: number % 3]
            producer.produce("orders", value, key, timestamp=timestamp + number, headers=headers)
            if number % 2:
                producer.flush(PATIENCE_S)
        producer.produce("stamped", b"value", b"key")
        producer.flush(PATIENCE_S)
    producer = Producer({"bootstrap.servers": daemon.bootstrap})
    for number in (0, -1, 2**63 - 1):
        producer.produce("numbers", b"number", number.to_bytes(8, "big", signed=True))
    producer.flush(PATIENCE_S)
    run_transactions(daemon)
    for protocol in ("classic", "consumer"):
        run_group(daemon, protocol)


def run_transactions(daemon: Daemon | Kafka) -> None:
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "transactional.id": "dumped \u00e4", "linger.ms": 0})
    producer.init_transactions(PATIENCE_S)
    with closing(consumer_of(daemon, "classic")) as consumer:
        wait(lambda: bool(consumer.assignment()), consumer)
        for number in range(8):
            producer.begin_transaction()
            for _ in range(3):
                producer.produce("orders", b"purchase %d" % number, b"buyer")
                producer.flush(PATIENCE_S)
            positions = [TopicPartition("orders", 0, number, 'a \u0001 "note"')]
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), PATIENCE_S)
            if number % 3 == 1:
                producer.abort_transaction(PATIENCE_S)
            else:
                producer.commit_transaction(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("orders", b"left open")
    producer.flush(PATIENCE_S)


def run_group(daemon: Daemon | Kafka, protocol: str) -> None:
    with closing(consumer_of(daemon, protocol)) as consumer:
        wait(lambda: bool(consumer.assignment()), consumer)
        consumer.commit(offsets=[TopicPartition("orders", 0, 3, "noted")], asynchronous=False)


def consumer_of(daemon: Daemon | Kafka, protocol: str) -> Consumer:
    settings = {"bootstrap.servers": daemon.bootstrap, "group.id": f"group-{protocol}", "group.protocol": protocol}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(["orders", "stamped"])
    return consumer


def wait(done: Callable[[], bool], consumer: Consumer) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline
        consumer.poll(0.05)


def damage(data_dir: Path) -> None:
    """A value with one bit turned, bytes behind the last batch, index entries that name the wrong batch."""
    source, target = data_dir / "orders-0", data_dir / "damaged-0"
    shutil.copytree(source, target)
    log, *_ = sorted(target.glob("*.log"))
    data = bytearray(log.read_bytes())
    data[data.index(b"value")] ^= 0x20
    log.write_bytes(data + b"torn")
    index = bytearray(log.with_suffix(".index").read_bytes())
    index[3] ^= 1
    log.with_suffix(".index").write_bytes(index)
    times = bytearray(log.with_suffix(".timeindex").read_bytes())
    times[7] ^= 1
    log.with_suffix(".timeindex").write_bytes(times)
    snapshot = max(target.glob("*.snapshot"))
    snapshot.write_bytes(snapshot.read_bytes()[:-1] + b"\x55")


def ask_kafka(root: Path, *options: str) -> "subprocess.CompletedProcess[bytes]":
    tool = ["java", "-cp", f"{os.environ['ONCELOG_KAFKA_LIBS']}/*", "org.apache.kafka.tools.DumpLogSegments"]
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    return subprocess.run([*tool, *options], cwd=root, capture_output=True, timeout=PATIENCE_S, env=environment)


def ask(root: Path, *options: str) -> Result:
    before = Path.cwd()
    os.chdir(root)
    try:
        return CliRunner().invoke(main, ["log", "dump", *options])
    finally:
        os.chdir(before)


def require_same(kafkas: "subprocess.CompletedProcess[bytes]", ours: Result, *, with_offsets: bool = True) -> None:
    assert kafkas.returncode == 0, kafkas.stderr.decode()
    theirs = [row for row in rows_of_kafka(kafkas.stdout.decode()) if not is_set_aside(row)]
    own = [row for row in rows_of_ours(ours.stdout, with_offsets=with_offsets) if not is_set_aside(row)]
    assert own == theirs


def is_set_aside(row: dict[str, Any]) -> bool:
    """Whether a row is of the room that Kafka sets aside in an index: its tool shows the first entry, and ours none."""
    numbers = {"offset_index_entry": "position", "time_index_entry": "timestamp"}
    return row["kind"] == "empty" or (row["kind"] in numbers and not row[numbers[row["kind"]]])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES)
def test_every_object_is_kafkas(root: Path, case: str) -> None:
    options = arguments(case, root)
    ours = ask(root, *options, "--json")
    require_same(ask_kafka(root, *options), ours, with_offsets=not case.endswith("-alone"))
    assert ours.exit_code == (1 if case == "damaged" else 0)


def test_damage_is_named_where_kafka_says_nothing_or_breaks_off(root: Path, tmp_path: Path) -> None:
    """A length that is too small and an index entry past the end stop Kafka's tool with a stack trace."""
    shutil.copytree(root / "orders-0", tmp_path / "orders-0")
    log, *_ = sorted((tmp_path / "orders-0").glob("*.log"))
    data = log.read_bytes()
    log.write_bytes(data[: read_header(data).size_in_bytes] + bytes(100))
    files = [f"orders-0/{log.name}", f"orders-0/{log.with_suffix('.index').name}"]
    assert ask_kafka(tmp_path, "--files", files[0]).returncode == 1
    ours = ask(tmp_path, "--files", ",".join(files))
    assert ours.exit_code == 1
    assert f"oncelog: {files[0]} at position" in ours.stderr
    assert f"oncelog: {files[1]} at position" in ours.stderr


def test_kafkas_own_files_are_read_alike(tmp_path: Path) -> None:
    """The files include those of a Kafka that was killed, with room set aside in its indexes."""
    kafka = Kafka(tmp_path)
    try:
        fill(kafka)
    finally:
        kafka.stop()
    data_dir = tmp_path / "data"
    for pattern, options in (
        ("[ons]*-0/0*.*", ("--print-data-log",)),
        ("__consumer_offsets-*/*.log", ("--offsets-decoder",)),
        ("__transaction_state-*/*.log", ("--transaction-log-decoder",)),
        ("__cluster_metadata-0/*.log", ()),
    ):
        named = ",".join(sorted(str(path.relative_to(data_dir)) for path in data_dir.glob(pattern)))
        ours = ask(data_dir, *options, "--json", "--files", named)
        require_same(ask_kafka(data_dir, *options, "--files", named), ours)
        assert ours.exit_code == 0, ours.stderr
    drawn = CliRunner().invoke(main, ["log", "map", str(data_dir / "orders-0")])
    assert drawn.exit_code == 0
    assert "CCCcAAAaCCCcCCCcAAAaCCCcCCCcAAAaO" in drawn.output


def test_snapshots_of_the_metadata_are_read_by_kafka(start_daemon: Start) -> None:
    daemon = start_daemon("metadata.log.max.record.bytes.between.snapshots=500")
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
    for number in range(8):
        admin.create_topics([NewTopic(f"topic-{number}", 2)])[f"topic-{number}"].result(PATIENCE_S)
    daemon.stop()
    *_, newest = sorted((daemon.data_dir / "__cluster_metadata-0").glob("*.checkpoint"))
    named = str(newest.relative_to(daemon.data_dir))
    for options in (("--cluster-metadata-decoder",), ("--deep-iteration",)):
        ours = ask(daemon.data_dir, *options, "--json", "--files", named)
        assert ours.exit_code == 0, ours.stderr
        require_same(ask_kafka(daemon.data_dir, *options, "--files", named), ours)
    decoded = ask_kafka(daemon.data_dir, "--cluster-metadata-decoder", "--files", named).stdout
    for part in (b"SnapshotHeader", b"SnapshotFooter", b'"name":"topic-1"', b'"type":"FEATURE_LEVEL_RECORD"'):
        assert part in decoded


@pytest.fixture(scope="module", autouse=True)
def _record(root: Path) -> Iterator[None]:
    yield
    if "ONCELOG_RECORD" not in os.environ:
        return
    shutil.rmtree(ROOT, ignore_errors=True)
    for partition in PARTITIONS:
        (ROOT / partition).mkdir(parents=True)
        for path in sorted((root / partition).iterdir()):
            if path.suffix in {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}:
                shutil.copy(path, ROOT / partition)
    for case in CASES:
        (ROOT / f"{case}.txt").write_bytes(ask_kafka(ROOT, *arguments(case, ROOT)).stdout)
    drawn = CliRunner().invoke(main, ["log", "map", str(ROOT / "orders-0"), "--width", "60"])
    (ROOT / "map.golden").write_text(drawn.output)
