"""The broker for tests, for code on an event loop: each blocking method as a coroutine.

    async def test_orders_are_invoiced(oncelog_broker):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(my_service(oncelog_broker.bootstrap_servers))
            await oncelog_broker.aio.wait_for_records("invoices", 3)

Owns: which methods there are. Does not own: what they do (`broker`, `oncelog.faults`), since each is made of the
blocking one, nor the threads that they run in (`waiting`).
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from oncelog.faults import FaultClient
from oncelog.testing.broker import Broker, Clock
from oncelog.testing.secured import ClientStyle
from oncelog.testing.waiting import in_thread

__tracebackhide__ = True
P = ParamSpec("P")
T = TypeVar("T")
BlockingT = TypeVar("BlockingT")


class _Awaited(Generic[BlockingT]):
    def __init__(self, blocking: BlockingT) -> None:
        self._blocking = blocking


def _awaited(
    method: Callable[Concatenate[BlockingT, P], T],
) -> Callable[Concatenate[_Awaited[BlockingT], P], Coroutine[Any, Any, T]]:
    """Return a blocking method as a coroutine, which leaves the event loop to others."""

    @wraps(method)
    async def call(self: _Awaited[BlockingT], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await in_thread(method, self._blocking, *args, **kwargs)

    return call


class AsyncClock(_Awaited[Clock]):
    """`Clock`, awaited."""

    now_ms = _awaited(Clock.now_ms)
    advance = _awaited(Clock.advance)


class AsyncFaults(_Awaited[FaultClient]):
    """`FaultClient`, awaited; `follow` streams, and is there alone."""

    plant = _awaited(FaultClient.plant)
    status = _awaited(FaultClient.status)
    statuses = _awaited(FaultClient.statuses)
    wait_fired = _awaited(FaultClient.wait_fired)
    release = _awaited(FaultClient.release)
    remove = _awaited(FaultClient.remove)
    remove_all = _awaited(FaultClient.remove_all)
    transactions = _awaited(FaultClient.transactions)
    state = _awaited(FaultClient.state)
    partitions = _awaited(FaultClient.partitions)
    events = _awaited(FaultClient.events)
    move_epoch_on = _awaited(FaultClient.move_epoch_on)
    skip_producer_ids_to = _awaited(FaultClient.skip_producer_ids_to)
    now_ms = _awaited(FaultClient.now_ms)
    advance_time = _awaited(FaultClient.advance_time)
    jump_wall_clock = _awaited(FaultClient.jump_wall_clock)
    crash = _awaited(FaultClient.crash)


class AsyncBroker(_Awaited[Broker]):
    """`Broker`, awaited: `async with Broker().aio as broker`, or `oncelog_broker.aio` of the fixture."""

    start = _awaited(Broker.start)
    stop = _awaited(Broker.stop)
    kill = _awaited(Broker.kill)
    power_cut = _awaited(Broker.power_cut)
    crash = _awaited(Broker.crash)
    restart = _awaited(Broker.restart)
    wait_ended = _awaited(Broker.wait_ended)
    close = _awaited(Broker.close)
    topics = _awaited(Broker.topics)
    create_topic = _awaited(Broker.create_topic)
    produce = _awaited(Broker.produce)
    records = _awaited(Broker.records)
    wait_for_records = _awaited(Broker.wait_for_records)
    committed = _awaited(Broker.committed)
    wait_for_committed = _awaited(Broker.wait_for_committed)
    transactions = _awaited(Broker.transactions)
    last_stable_offset = _awaited(Broker.last_stable_offset)
    findings = _awaited(Broker.findings)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def bootstrap_servers(self) -> str:
        """`Broker.bootstrap_servers`."""
        return self._blocking.bootstrap_servers

    @property
    def schema_registry_url(self) -> str:
        """`Broker.schema_registry_url`."""
        return self._blocking.schema_registry_url

    def client_settings(self, style: ClientStyle = "oncelog") -> dict[str, Any]:
        """`Broker.client_settings`."""
        return self._blocking.client_settings(style)

    @property
    def clock(self) -> AsyncClock:
        """`Broker.clock`, awaited."""
        return AsyncClock(self._blocking.clock)

    @property
    def faults(self) -> AsyncFaults:
        """`Broker.faults`, awaited."""
        return AsyncFaults(self._blocking.faults)
