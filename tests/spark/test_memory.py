"""A task's memory does not grow with its range: the range is streamed, never collected."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.foreign.confluent import new_topic
from tests.support.processes.daemon import Daemon

STATUS = Path("/proc/self/status")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not STATUS.exists(), reason="the peak of a process is read from /proc"),
]
VALUE = bytes(1000)
RECORDS = 64_000
ROOT = Path(__file__).parents[2]
TASK = """
import json, re, sys
from oncelog.pipeline.options import parse
from oncelog.pipeline.source.planning import OffsetRange
from oncelog.pipeline.source.reading import read_range

bootstrap, topic, end = sys.argv[1:]
options = parse({"kafka.bootstrap.servers": bootstrap, "subscribe": topic}, "read")
rows = sum(batch.num_rows for batch in read_range(options, OffsetRange(topic, "", 0, 0, int(end))))
# Not ru_maxrss: that begins with what was resident in the process that forked this one.
status = open("/proc/self/status").read()
print(json.dumps([rows, int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) // 1024]))
"""


def peak_mb(daemon: Daemon, topic: str, end: int) -> int:
    """The most that a process of its own had resident while it read the range."""
    command = [sys.executable, "-P", "-c", TASK, daemon.bootstrap, topic, str(end)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=100)
    rows, peak = json.loads(result.stdout)
    assert rows == end
    return int(peak)


def test_a_range_of_64_mb_takes_no_more_memory_than_one_of_4_mb(daemon: Daemon) -> None:
    pytest.importorskip("pyarrow")
    topic = new_topic(daemon)
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "queue.buffering.max.messages": RECORDS + 1})
    for _ in range(RECORDS):
        producer.produce(topic, VALUE)
    producer.flush()
    small, large = (peak_mb(daemon, topic, end) for end in (RECORDS // 16, RECORDS))
    assert small > 20, "it was measured"
    assert large < small + 40, "collected it would be sixty more; what is fetched ahead depends on who else is at work"
    assert large < 200
