"""A real disk that takes no more, or fails: what the daemon answers, how it ends, and what the next start finds."""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner

from oncelog.broker.daemon.app import EXIT_DISK_FAILED
from oncelog.cli import main
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.clients.wire import WireBroker
from tests.daemon.test_metrics import ask, scrape
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import READY, Daemon

Start = Callable[..., Daemon]
TOPIC = "trouble"
ROOT = Path(__file__).parent.parent.parent

# A daemon whose syncs fail as soon as a file of this name is there.
_FAILING = """
import errno, os, sys
real = os.fdatasync
def fdatasync(descriptor):
    if os.path.exists(sys.argv[1]):
        raise OSError(errno.EIO, "Input/output error")
    real(descriptor)
os.fdatasync = fdatasync
from oncelog.broker.daemon.cli import main
main(["serve", "--listen", "127.0.0.1:0", "--data-dir", sys.argv[2]])
"""


def create(broker: WireBroker) -> None:
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    assert broker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5).topics[0].error_code == 0


def produce_request(size_bytes: int, acks: int = -1) -> ProduceRequest:
    batch = encode_batch([Record(0, int(time.time() * 1000), None, bytes(size_bytes))])
    data = PartitionProduceData(index=0, records=memoryview(batch))
    return ProduceRequest(acks=acks, timeout_ms=5_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[data])])


def produce(broker: WireBroker, size_bytes: int) -> ErrorCode:
    answer = broker.ask(produce_request(size_bytes), 8).responses[0].partition_responses[0]
    return ErrorCode(answer.error_code)


def fetched_bytes(broker: WireBroker) -> int:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=10_000_000)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=10_000_000, topics=[FetchTopic(topic=TOPIC, partitions=[wanted])]
    )
    answer = broker.ask(request, 11).responses[0].partitions[0]
    assert answer.error_code == ErrorCode.NONE
    return len(answer.records)


@contextmanager
def limited(daemon: Daemon, file_bytes: int) -> Iterator[None]:
    """No file of the daemon may grow past `file_bytes`: its writes end in the middle, then fail."""
    _, hard = resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (file_bytes, hard))
    yield
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (hard, hard))


def test_write_that_finds_no_room_is_cut_back_refused_and_works_once_there_is(start_daemon: Start) -> None:
    daemon = start_daemon()
    broker = WireBroker(daemon.bootstrap)
    create(broker)
    for _ in range(4):
        assert produce(broker, 50_000) is ErrorCode.NONE
    path = daemon.data_dir / f"{TOPIC}-0" / f"{0:020d}.log"
    size = path.stat().st_size
    for spare_bytes in (0, 1, 30_000):
        with limited(daemon, size + spare_bytes):
            assert produce(broker, 50_000) is ErrorCode.KAFKA_STORAGE_ERROR
            assert path.stat().st_size == size
            assert fetched_bytes(broker) == size
    assert produce(broker, 50_000) is ErrorCode.NONE
    grown = fetched_bytes(broker)
    assert grown == path.stat().st_size > size
    daemon.kill()
    daemon.start()
    assert fetched_bytes(WireBroker(daemon.bootstrap)) == grown
    assert daemon.stop() == 0


def test_full_disk_is_seen_from_outside_and_said_once(start_daemon: Start) -> None:
    daemon = start_daemon("oncelog.metrics.listen=127.0.0.1:0")
    broker = WireBroker(daemon.bootstrap)
    create(broker)
    assert produce(broker, 50_000) is ErrorCode.NONE
    assert outside(daemon) == (200, 0, 0)
    with limited(daemon, (daemon.data_dir / f"{TOPIC}-0" / f"{0:020d}.log").stat().st_size):
        for _ in range(30):
            assert produce(broker, 50_000) is ErrorCode.KAFKA_STORAGE_ERROR
        assert outside(daemon) == (503, 1, 1)
    assert produce(broker, 50_000) is ErrorCode.NONE
    assert outside(daemon) == (200, 0, 0)
    lines = daemon.log
    assert (lines.count('"disk.full"'), lines.count('"disk.has_space"')) == (1, 1)


def outside(daemon: Daemon) -> tuple[int, float, int]:
    """Return what an orchestrator, Prometheus and the doctor see: status, gauge, exit code."""
    samples = scrape(daemon)
    doctor = CliRunner().invoke(main, ["doctor", "-b", daemon.bootstrap, "--json"])
    found = {row["check"]: row["result"] for row in json.loads(doctor.stdout)}
    assert found["disk of node 1"] == ("wrong" if doctor.exit_code else "ok")
    return ask(daemon, "/readyz")[0], samples["oncelog_disk_full", ()], doctor.exit_code


def test_failed_sync_is_never_acknowledged_and_ends_the_daemon_with_a_message(
    start_daemon: Start, tmp_path: Path
) -> None:
    flag, data_dir = tmp_path / "fail", tmp_path / "data"
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _FAILING, str(flag), str(data_dir)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stdout is not None
        broker = WireBroker(process.stdout.readline().removeprefix(READY).strip())
        create(broker)
        assert produce(broker, 1_000) is ErrorCode.NONE
        acknowledged = fetched_bytes(broker)
        flag.touch()
        reply = broker.send(produce_request(1_000), 8)
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == EXIT_DISK_FAILED
        assert "disk.failed" in errors
        assert "Input/output error" in errors
        try:
            answered = reply.message.responses[0].partition_responses[0].error_code
        except (AssertionError, OSError):
            answered = None  # the connection was closed
        assert answered != ErrorCode.NONE
    finally:
        process.kill()
        process.wait()
    assert not (data_dir / ".kafka_cleanshutdown").exists()
    again = start_daemon()
    assert again.data_dir == data_dir
    assert fetched_bytes(WireBroker(again.bootstrap)) >= acknowledged
