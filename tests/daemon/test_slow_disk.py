"""A disk that takes 50 ms for each read: the event loop answers others meanwhile."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
import structlog

from oncelog.broker.assembly.broker import assemble
from oncelog.broker.config.settings import load_config
from oncelog.broker.net.listener import Endpoint, Listeners
from oncelog.broker.system.clock import SystemClock, SystemEntropy
from oncelog.broker.system.disk import RealDisk, RealFile
from oncelog.broker.system.loop import LoopScheduler
from oncelog.broker.turns.machine import System
from oncelog.protocol.generated import api_versions_request, fetch_request, fetch_response, list_offsets_request
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.protocol.headers import encode_request_header
from oncelog.protocol.message import Message
from tests.fakes.logs import batch

READ_MS = 50
_NEVER = threading.Event()
PARTITIONS = 4
reads_on_the_loop: list[str] = []


class SlowFile(RealFile):
    """Misses the page cache on every read. A read on the event loop is noted, and takes the disk's time."""

    __slots__ = ()

    def read_view(self, start: int, end: int) -> memoryview:
        if self.path.endswith(".log"):
            reads_on_the_loop.append(self.path)
            _NEVER.wait(READ_MS / 1000)
        return super().read_view(start, end)

    def cached_view(self, start: int, end: int) -> memoryview | None:
        return None


class SlowDisk(RealDisk):
    def open(self, path: str) -> RealFile:
        file = super().open(path)
        file.__class__ = SlowFile
        return file

    def read_range(self, path: str, start: int, end: int) -> bytes:
        _NEVER.wait(READ_MS / 1000)
        return super().read_range(path, start, end)


class Machine:
    """A broker in this process, on a disk of this kind."""

    def __init__(self, directory: Path, disk: RealDisk) -> None:
        def fail(error: OSError) -> None:
            raise error

        self._disk = disk
        self.scheduler = LoopScheduler(asyncio.get_running_loop(), "syncs")
        config, _ = load_config(overrides=[f"log.dirs={directory}"])
        log: Any = structlog.wrap_logger(structlog.PrintLogger(), processors=[_drop])
        system = System(SystemClock(), SystemEntropy(), self.scheduler, disk, None, fail)
        self.broker = assemble(config, system, log).result()
        self.listeners = Listeners(self.broker)
        self.port = 0

    async def listen(self) -> None:
        endpoint = await self.listeners.open(Endpoint("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0))
        self.port = endpoint.port

    async def close(self) -> None:
        await self.listeners.close()
        self.broker.logs.close()
        self.scheduler.close()
        self._disk.close()


def _drop(_: object, __: str, ___: Any) -> Any:
    raise structlog.DropEvent


async def fill(directory: Path) -> None:
    machine = Machine(directory, RealDisk(directory))
    await until(machine.broker.topics.create("topic", PARTITIONS))
    for index in range(PARTITIONS):
        log = machine.broker.topics.partition("topic", index)
        appended = log.append(batch(3, compression="gzip"), wall_ms=machine.broker.clock.wall_ms())
        await until(log.when_durable(appended.last_offset + 1))
    await machine.close()


async def until(completion: Any) -> None:
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    completion.then(lambda _: ended.set_result(None))
    await ended


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, module: Any, request: Message, version: int) -> None:
        flexible = module.FLEXIBLE_FROM is not None and version >= module.FLEXIBLE_FROM
        header = encode_request_header(module.API_KEY, version, 1, "test", flexible)
        body = b"".join([header, *module.encode(request, version)])
        self._writer.write(len(body).to_bytes(4, "big") + body)

    async def response(self) -> memoryview:
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        return memoryview(await self._reader.readexactly(size))

    def close(self) -> None:
        self._writer.close()


async def connect(machine: Machine) -> Connection:
    return Connection(*await asyncio.open_connection("127.0.0.1", machine.port))


async def answers_until(other: Connection, done: "asyncio.Task[memoryview]") -> int:
    """How many requests of another connection are answered until `done`."""
    count = 0
    while not done.done():
        other.send(api_versions_request, api_versions_request.ApiVersionsRequest(), 2)
        await other.response()
        count += 1
    return count


FETCH = FetchRequest(
    replica_id=-1,
    max_wait_ms=0,
    min_bytes=1,
    max_bytes=2**20,
    topics=[
        FetchTopic(
            topic="topic",
            partitions=[
                FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=2**20)
                for index in range(PARTITIONS)
            ],
        )
    ],
)
SEARCH = ListOffsetsRequest(
    replica_id=-1,
    topics=[
        ListOffsetsTopic(
            name="topic",
            partitions=[ListOffsetsPartition(partition_index=index, timestamp=1) for index in range(PARTITIONS)],
        )
    ],
)


@pytest.mark.parametrize(
    ("module", "request_", "version"),
    [(fetch_request, FETCH, 11), (list_offsets_request, SEARCH, 5)],
    ids=["Fetch", "ListOffsets by time"],
)
async def test_a_request_that_needs_the_disk_holds_up_no_other_connection(
    module: Any, request_: Message, version: int, tmp_path: Path
) -> None:
    await fill(tmp_path)
    machine = Machine(tmp_path, SlowDisk(tmp_path))
    await machine.listen()
    reading, other = await connect(machine), await connect(machine)
    reads_on_the_loop.clear()
    reading.send(module, request_, version)
    response = asyncio.ensure_future(reading.response())
    assert await answers_until(other, response) > 3
    assert not reads_on_the_loop
    if module is fetch_request:
        answer, _ = fetch_response.decode(await response, version, 4)
        assert all(partition.records for partition in answer.responses[0].partitions)
    reading.close()
    other.close()
    await machine.close()
