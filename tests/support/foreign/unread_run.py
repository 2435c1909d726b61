"""How much memory a broker holds for connections that ask for 50 MB each and do not read:

    python -m tests.support.foreign.unread_run 1000 4000

Owns: the daemon, the connections, the table. Only resident memory is measured, as the kernel counts it (VmHWM, VmRSS):
no time, so that it may run on a busy machine.
"""

import asyncio
import re
import resource
import socket
import sys
import tempfile
import threading
from pathlib import Path

from oncelog.client import Admin, NewTopic, Producer
from oncelog.protocol.generated import fetch_request
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.headers import encode_request_header
from tests.support.processes.daemon import Daemon

_TOPIC = "unread"
_RECORD_BYTES = 500_000
_RECORD_COUNT = 110
_FETCH_BYTES = 50_000_000
_SETTLED_S = 15
"""Slow connections are closed after two seconds; memory goes back once the last one is gone."""


def _resident_mb(daemon: Daemon) -> tuple[int, int]:
    """Now, and the most since it was last asked."""
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    now, peak = (int(re.findall(rf"{name}:\s+(\d+) kB", status)[0]) // 1024 for name in ("VmRSS", "VmHWM"))
    Path(f"/proc/{daemon.process.pid}/clear_refs").write_text("5")
    return now, peak


def _request() -> bytes:
    asked = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=_FETCH_BYTES,
        topics=[
            FetchTopic(
                topic=_TOPIC,
                partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=_FETCH_BYTES)],
            )
        ],
    )
    version = 11
    header = encode_request_header(fetch_request.API_KEY, version, 1, "unread", False)
    body = b"".join((header, *fetch_request.encode(asked, version)))
    return len(body).to_bytes(4, "big") + body


async def _fill(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin, Producer(bootstrap, max_request_size=2 * _RECORD_BYTES) as producer:
        await admin.create_topics(NewTopic(_TOPIC, 1))
        for _ in range(_RECORD_COUNT):
            await producer.send(_TOPIC, bytes(_RECORD_BYTES))


def measure(daemon: Daemon, count: int) -> str:
    host, _, port = daemon.bootstrap.rpartition(":")
    before_mb, _ = _resident_mb(daemon)
    request = _request()
    opened = []
    for _ in range(count):
        connection = socket.create_connection((host, int(port)))
        connection.sendall(request)
        opened.append(connection)
    threading.Event().wait(_SETTLED_S)
    held_mb, peak_mb = _resident_mb(daemon)
    for connection in opened:
        connection.close()
    threading.Event().wait(_SETTLED_S)
    after_mb, closing_mb = _resident_mb(daemon)
    closed = daemon.log.count("memory for answers is short")
    return f"| {count:,} | {before_mb} | {max(peak_mb, closing_mb)} | {held_mb} | {after_mb} | {closed} lines |"


def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print("| connections | before, MB | most | held | after all are closed | closed for memory |")
    for count in map(int, sys.argv[1:] or ("1000", "4000")):
        with tempfile.TemporaryDirectory() as directory:
            daemon = Daemon(Path(directory) / "data", "max.connections=10000", "message.max.bytes=2000000")
            try:
                asyncio.run(_fill(daemon.bootstrap))
                print(measure(daemon, count), flush=True)
            finally:
                daemon.kill()


if __name__ == "__main__":
    main()
