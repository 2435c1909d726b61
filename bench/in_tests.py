"""What a broker costs a test: its start, a record there and back, its end. Written to
docs/start/from-testcontainers.md.

Owns: the ways to have a broker, and what is timed. Apache Kafka runs as a process here; in a container comes what the
container's runtime takes. Does not own: how Kafka is fetched and started (`bench.peers`).
"""

import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from confluent_kafka import Consumer, Producer

from bench.page import ROOT, aligned, write_block
from bench.peers.broker import Broker as PeerBroker
from bench.peers.contestants import CONTESTANTS
from oncelog.testing import Broker
from tools.interop import Unavailable

PAGE = ROOT / "docs" / "start" / "from-testcontainers.md"
COMMAND = "make bench WHAT=testing"
_ROUNDS = 5
_KAFKA = next(each for each in CONTESTANTS if each.key == "kafka")
_TOPIC = "orders"

Start = Callable[[Path], Iterator[str]]
"""Yields the bootstrap address of a broker that answers."""


def _in_thread(_: Path) -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


def _on_disk(place: Path) -> Iterator[str]:
    with Broker(storage=place / "data") as broker:
        yield broker.bootstrap_servers


def _as_process(place: Path) -> Iterator[str]:
    with Broker(storage=place / "data", process=True) as broker:
        yield broker.bootstrap_servers


def _kafka(place: Path) -> Iterator[str]:
    broker = PeerBroker(_KAFKA, place / "kafka")
    try:
        yield broker.bootstrap
    finally:
        broker.stop()


_WAYS: tuple[tuple[str, Start], ...] = (
    ("`oncelog_broker`, in memory", _in_thread),
    ('`oncelog_broker`, storage="disk"', _on_disk),
    ("`oncelog_broker`, process=True", _as_process),
    ("Apache Kafka, a process without a container", _kafka),
)


def main() -> int:
    try:
        version = _KAFKA.prepare()
    except Unavailable as missing:
        print(f"Apache Kafka is left out: {missing}", file=sys.stderr)
        version = ""
    ways = [(name, start) for name, start in _WAYS if version or start is not _kafka]
    times: dict[str, list[tuple[float, float, float]]] = {name: [] for name, _ in ways}
    for number in range(_ROUNDS + 1):
        for name, start in ways:
            measured = _measure(start)
            if number:  # the first one imports, and warms the page cache
                times[name].append(measured)
            print(f"{name}: {', '.join(f'{value:.1f}' for value in measured)}", file=sys.stderr)
    rows = [["a broker for one test", "start, ms", "one record written and read, ms", "end, ms"]]
    rows += [[name, *map(_shown, zip(*times[name], strict=True))] for name, _ in ways]
    text = (
        f"Median (lowest–highest) of {_ROUNDS} brokers one after the other, each new; {os.cpu_count()} cores, Python "
        f"{platform.python_version()}{f', Apache Kafka {version}' if version else ''}, librdkafka as the client. "
        "The first test that asks for a broker also waits for its import. Kafka's start includes the formatting of its "
        "directory; a container's own start comes on top. "
        f"Written by `{COMMAND}`.\n\n{aligned(rows)}\n"
    )
    write_block(COMMAND, text, PAGE)
    print(text)
    return 0


def _measure(start: Start) -> tuple[float, float, float]:
    """Milliseconds of the start, of a record that goes there and back, and of the end."""
    with tempfile.TemporaryDirectory() as place:
        started = time.perf_counter()
        with contextmanager(start)(Path(place)) as bootstrap:
            answered = time.perf_counter()
            _there_and_back(bootstrap)
            ending = time.perf_counter()
        ended = time.perf_counter()
    return (answered - started) * 1000, (ending - answered) * 1000, (ended - ending) * 1000


def _there_and_back(bootstrap: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "log_level": 0}
    producer = Producer(settings)
    producer.produce(_TOPIC, b"42")
    if producer.flush(30):
        raise TimeoutError("the record was not written")
    consumer = Consumer({**settings, "group.id": "test", "auto.offset.reset": "earliest"})
    consumer.subscribe([_TOPIC])
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                return
        raise TimeoutError("the record was not read")
    finally:
        consumer.close()


def _shown(values: tuple[float, ...]) -> str:
    digits = 0 if median(values) >= 100 else 1
    return f"{median(values):,.{digits}f} ({min(values):,.{digits}f}–{max(values):,.{digits}f})"


if __name__ == "__main__":
    sys.exit(main())
