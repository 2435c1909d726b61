"""Group commit over real connections: many appends share a flush round, and no answer leaves before its round."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from oncelog.broker.assembly.broker import assemble
from oncelog.broker.config.settings import load_config
from oncelog.broker.net.listener import Endpoint, Listeners
from oncelog.broker.requests.parts import Broker
from oncelog.broker.system.clock import SystemClock, SystemEntropy
from oncelog.broker.system.disk import RealDisk
from oncelog.broker.turns.machine import System
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated import produce_request, produce_response
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.headers import encode_request_header
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record

CONNECTIONS = 16
APPENDS_EACH = 50
VERSION = 8


class HeldScheduler:
    """The running loop, with a flusher's thread that works only when the test lets it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.held: list[tuple[Callable[[], None], Callable[[Exception | None], None]]] = []
        self.is_holding = False

    def call_soon(self, function: Callable[[], None]) -> None:
        self._loop.call_soon(function)

    def call_later(self, delay_ms: float, function: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_ms / 1000, function)

    def run_beside(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self.run_in_thread(function, done)

    def run_in_thread(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self.held.append((function, done))
        if not self.is_holding:
            self._loop.call_soon(self.release)

    def release(self) -> None:
        held, self.held = self.held, []
        for function, done in held:
            function()
            done(None)


async def start(directory: Path) -> tuple[Broker, Listeners, HeldScheduler, int]:
    def fail(error: OSError) -> None:
        raise error

    config, _ = load_config(overrides=[f"log.dirs={directory}", "oncelog.flush.loop.appends=1"])
    scheduler = HeldScheduler(asyncio.get_running_loop())
    log: Any = structlog.get_logger()
    disk = RealDisk(directory)
    system = System(SystemClock(), SystemEntropy(), scheduler, disk, None, fail)
    broker = assemble(config, system, log).result()
    listeners = Listeners(broker)
    endpoint = await listeners.open(Endpoint("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0))
    created: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    broker.topics.create("topic", 1).then(lambda _: created.set_result(None))
    await created
    return broker, listeners, scheduler, endpoint.port


def produce_frame(correlation_id: int) -> bytes:
    batch = encode_batch([Record(0, 1_700_000_000_000, None, b"value")])
    request = ProduceRequest(
        acks=-1,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(name="topic", partition_data=[PartitionProduceData(index=0, records=memoryview(batch))])
        ],
    )
    header = encode_request_header(ApiKey.PRODUCE, VERSION, correlation_id, "test", flexible=False)
    body = b"".join([header, *produce_request.encode(request, VERSION)])
    return len(body).to_bytes(4, "big") + body


async def base_offset(reader: asyncio.StreamReader) -> int:
    frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    answer, _ = produce_response.decode(memoryview(frame), VERSION, 4)
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == ErrorCode.NONE
    return partition.base_offset


async def test_sixteen_connections_share_flush_rounds(tmp_path: Path) -> None:
    broker, listeners, _, port = await start(tmp_path)
    before = (broker.rounds.round_count, broker.rounds.append_count)
    offsets: list[int] = []

    async def produce() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(APPENDS_EACH):
            writer.write(produce_frame(number))
            offsets.append(await base_offset(reader))
        writer.close()

    await asyncio.gather(*(produce() for _ in range(CONNECTIONS)))
    rounds = broker.rounds.round_count - before[0]
    appends = broker.rounds.append_count - before[1]
    assert appends == CONNECTIONS * APPENDS_EACH
    assert sorted(offsets) == list(range(appends))
    assert rounds * 2 < appends
    await listeners.close()


async def test_no_answer_leaves_before_the_round_that_makes_it_durable(tmp_path: Path) -> None:
    broker, listeners, scheduler, port = await start(tmp_path)
    scheduler.is_holding = True
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS)]
    for _, writer in streams:
        writer.write(produce_frame(1))
    log = broker.topics.partition("topic", 0)
    answers = [asyncio.ensure_future(base_offset(reader)) for reader, _ in streams]
    while log.log_end_offset < CONNECTIONS:
        await asyncio.sleep(0)
    # One append alone is flushed on the loop at once; those that came together wait for the thread, held here.
    durable = log.high_watermark
    for _ in range(100):
        await asyncio.sleep(0)
    assert log.high_watermark == durable < CONNECTIONS
    assert sum(answer.done() for answer in answers) <= durable
    scheduler.is_holding = False
    scheduler.release()
    assert sorted(await asyncio.gather(*answers)) == list(range(CONNECTIONS))
    for _, writer in streams:
        writer.close()
    await listeners.close()
