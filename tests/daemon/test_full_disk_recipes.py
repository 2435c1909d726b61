"""A file system without a byte left: each recipe of docs/operate/operations.md for it makes room, and writes resume."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.clients.wire import WireBroker
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TOPIC = "orders"
VOLUME_BYTES = 40 * 1024 * 1024
_LOOK_MS = 200
_OLD_MS = 7_200_000
_RECORD_BYTES = 9_000
_ONE_SEGMENT, _MANY_SEGMENTS = 1_073_741_824, 1_048_576
_LOOKS = 600
"""Two minutes of them; one or two are enough."""


def recipes() -> list[str]:
    """The lines of the section, without their comments."""
    page = (ROOT / "docs" / "operate" / "operations.md").read_text()
    section = page.partition("\n## A full disk\n")[2].partition("\n## ")[0]
    return [line.partition("#")[0].strip() for line in re.findall(r"^    (oncelog .+)$", section, re.MULTILINE)]


@contextmanager
def small_volume(directory: Path) -> Iterator[Path]:
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={VOLUME_BYTES}", "tmpfs", str(directory)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"may not mount a small file system: {error}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def free_bytes(volume: Path) -> int:
    found = os.statvfs(volume)
    return found.f_bavail * found.f_frsize


class Writer:
    """An idempotent producer, so that the broker has something to remember of it."""

    def __init__(self, daemon: Daemon, segment_bytes: int) -> None:
        self._broker = WireBroker(daemon.bootstrap)
        config = [CreatableTopicConfig(name="segment.bytes", value=str(segment_bytes))]
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, configs=config)
        assert self._broker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5).topics[0].error_code == 0
        answer = self._broker.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
        self._producer_id, self._producer_epoch = answer.producer_id, answer.producer_epoch
        self._sequence = 0

    def write(self, size_bytes: int) -> ErrorCode:
        """A record that is two hours old."""
        batch = encode_batch(
            [Record(0, int(time.time() * 1000) - _OLD_MS, None, os.urandom(size_bytes))],
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=self._sequence,
        )
        data = PartitionProduceData(index=0, records=memoryview(batch))
        topics = [TopicProduceData(name=TOPIC, partition_data=[data])]
        answer = self._broker.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=topics), 8)
        code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        self._sequence += code is ErrorCode.NONE
        return code


def fill(volume: Path, writer: Writer) -> None:
    """Fill the volume, first by the broker, then to the last byte by another program."""
    for size_bytes in (_RECORD_BYTES, 500, 1):
        while writer.write(size_bytes) is ErrorCode.NONE:
            pass
    with (volume / "of another program").open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(4096))
            except OSError:
                break
    assert free_bytes(volume) == 0


def test_the_page_has_three_lines() -> None:
    assert len(recipes()) == 3


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("number", "segment_bytes"),
    [
        (0, _ONE_SEGMENT),
        pytest.param(1, _ONE_SEGMENT, marks=pytest.mark.slow),
        (2, _MANY_SEGMENTS),
        pytest.param(0, _MANY_SEGMENTS, marks=pytest.mark.slow),
        pytest.param(1, _MANY_SEGMENTS, marks=pytest.mark.slow),
    ],
)
def test_a_line_of_the_page_makes_room_on_a_full_file_system(tmp_path: Path, number: int, segment_bytes: int) -> None:
    command = [sys.executable, "-P", "-m", *shlex.split(recipes()[number])]
    with small_volume(tmp_path / "volume") as volume:
        daemon = Daemon(volume / "data", f"log.retention.check.interval.ms={_LOOK_MS}")
        try:
            writer = Writer(daemon, segment_bytes)
            fill(volume, writer)
            ended = subprocess.run(
                [*command, "--bootstrap", daemon.bootstrap],
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            assert ended.returncode == 0, ended.stderr
            wanted = VOLUME_BYTES // 8
            for _ in range(_LOOKS):  # the files go in another thread
                if free_bytes(volume) >= wanted:
                    break
                WireBroker(daemon.bootstrap).let_pass(_LOOK_MS)
            assert free_bytes(volume) >= wanted
            assert writer.write(_RECORD_BYTES) is ErrorCode.NONE, "the same producer goes on where it was"
            daemon.kill()
            daemon.start()
            assert daemon.stop() == 0
        finally:
            daemon.stop(signal.SIGKILL)
