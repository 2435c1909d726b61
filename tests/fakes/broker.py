"""A whole broker on a machine in memory: virtual time, a disk that can be killed, requests without sockets.

Requests go through the dispatcher as bytes, in any version, and answers come back decoded: what a test sees is what a
client of that version would.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from logging import INFO
from pathlib import Path
from random import Random
from typing import Any, NoReturn
from uuid import UUID

import structlog

from oncelog.broker.assembly.broker import assemble
from oncelog.broker.config.settings import load_config
from oncelog.broker.faults.faults import Faults
from oncelog.broker.faults.rule import Rule
from oncelog.broker.log.store import LogStore
from oncelog.broker.requests.context import Peer
from oncelog.broker.requests.dispatch import Dispatcher, Exchange
from oncelog.broker.requests.parts import Broker
from oncelog.broker.turns.machine import System
from oncelog.protocol.headers import decode_response_header, encode_request_header
from oncelog.protocol.message import Message
from oncelog.testing.memory_disk import MemoryDisk, PowerCut
from tests.fakes.virtual_time import VirtualTime

HOST, PORT = "broker.example", 9092


class SeededEntropy:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)

    def random(self) -> float:
        return self._random.random()


def quiet_log(processor: Callable[[object, str, Any], Any]) -> Any:
    """A log that is seen by this processor alone."""
    at_info = structlog.make_filtering_bound_logger(INFO)
    return structlog.wrap_logger(structlog.PrintLogger(), processors=[processor], wrapper_class=at_info).bind()


class Reply:
    """The answer to a request, once it is there."""

    def __init__(self, exchange: Exchange, response: Any, version: int) -> None:
        self._exchange = exchange
        self._response = response
        self._version = version

    @property
    def is_there(self) -> bool:
        return self._exchange.done

    @property
    def is_closed(self) -> bool:
        """The connection is closed instead of an answer."""
        return self._exchange.closes is not None

    @property
    def reason(self) -> str:
        """The reason why the connection is closed."""
        return str(self._exchange.closes)

    @property
    def message(self) -> Any:
        """The response as a client decodes it. Raises if there is none, or if the connection would be closed."""
        if not self._exchange.done:
            raise AssertionError("there is no answer yet")
        if self._exchange.closes is not None or self._exchange.parts is None:
            raise AssertionError(f"the connection was closed: {self._exchange.closes}")
        view = memoryview(b"".join(self._exchange.parts))
        flexible_from = self._response.FLEXIBLE_FROM
        flexible = flexible_from is not None and self._version >= flexible_from and self._response.API_KEY != 18
        _, position = decode_response_header(view, flexible)
        message, end = self._response.decode(view, self._version, position)
        if end != len(view):
            raise AssertionError(f"{len(view) - end} bytes follow the response")
        return message


class AnsweringBroker:
    """A broker that is asked without sockets."""

    time: VirtualTime
    broker: Broker
    dispatcher: Dispatcher
    advertised: tuple[str, int] = (HOST, PORT)

    def send(self, request: Message, version: int, *, client_id: str = "client", host: str = "10.0.0.1") -> Reply:
        """Start a request and let the broker run until it has nothing left to do at this moment."""
        reply = self.start(request, version, client_id=client_id, host=host)
        self.time.settle()
        return reply

    def start(self, request: Message, version: int, *, client_id: str = "client", host: str = "10.0.0.1") -> Reply:
        """Start a request, and no more than that: what it logs is not durable yet."""
        return self.take(self.frame(request, version, client_id=client_id), request, version, host=host)

    @staticmethod
    def frame(request: Message, version: int, *, client_id: str = "client") -> memoryview:
        """The request as it comes on a connection, without its length."""
        module = import_module(type(request).__module__)
        flexible = module.FLEXIBLE_FROM is not None and version >= module.FLEXIBLE_FROM
        header = encode_request_header(module.API_KEY, version, 1, client_id, flexible)
        return memoryview(b"".join((header, *module.encode(request, version))))

    def take(
        self, frame: memoryview, request: Message, version: int, *, host: str = "10.0.0.1", peer: Peer | None = None
    ) -> Reply:
        """A frame has arrived, on a connection of its own unless `peer` is the one."""
        response = import_module(type(request).__module__.removesuffix("request") + "response")
        exchange = self.dispatcher.dispatch(frame, peer or Peer(host, 40_000, "PLAINTEXT", self.advertised))
        return Reply(exchange, response, version)

    def ask(self, request: Message, version: int) -> Any:
        """The answer to a request that needs no time."""
        return self.send(request, version).message


class VirtualBroker(AnsweringBroker):
    """A running broker; `killed` and `crashed` give the next one on what the stop has left of the disk, perhaps
    with other settings."""

    def __init__(
        self,
        *overrides: str,
        disk: MemoryDisk | None = None,
        time: VirtualTime | None = None,
        seed: int = 0,
        rules: Sequence[Rule] = (),
        with_faults: bool = True,
        store: LogStore | None = None,
        file: Path | None = None,
    ) -> None:
        """`store` takes the place of the disk, `file` has more settings. `rules` are at work before the start, which
        finishes what the last stop has left. Without faults no observer is installed, as in a broker that was not asked
        for any, and the broker's pace is its own.
        """
        self.time = time or VirtualTime()
        self.disk = disk or MemoryDisk()
        self.disk_failures: list[OSError] = []
        self._overrides = overrides
        self._seed = seed
        self.warnings: list[dict[str, Any]] = []
        """Log lines at warning or above."""
        self.news: list[dict[str, Any]] = []
        """Log lines at info or above."""
        quiet = quiet_log(self._log)
        config, _ = load_config(file=file, overrides=overrides)
        disk_or_none = self.disk if store is None and config.get_str("oncelog.storage") == "local" else None
        system = System(self.time, SeededEntropy(seed), self.time, disk_or_none, _one_by_one, self.disk_failures.append)
        self.faults = Faults(system, crash=_cut_power)
        for rule in rules:
            self.faults.plant(rule)
        assembled = (
            assemble(config, self.faults.system, quiet, self.faults, store)
            if with_faults
            else assemble(config, system, quiet, None, store)
        )
        self.time.settle()
        while not assembled.done:
            self.time.advance(1)
        self.broker = assembled.result()
        self.dispatcher = Dispatcher(self.broker)
        self.time.settle()

    def _log(self, _: object, level: str, event: Any) -> Any:
        self.news.append(dict(event))
        if level not in ("debug", "info"):
            self.warnings.append(dict(event))
        raise structlog.DropEvent

    @property
    def lines(self) -> list[str]:
        """The messages of `warnings`."""
        return [str(event.get("message", event)) for event in self.warnings]

    def let_pass(self, delay_ms: int) -> None:
        self.time.advance(delay_ms)

    @property
    def operations_left(self) -> int | None:
        """How many operations of its disk until its machine loses power; negative: it has."""
        return self.disk.operations_left

    @operations_left.setter
    def operations_left(self, count: int | None) -> None:
        self.disk.operations_left = count

    @property
    def has_ended(self) -> bool:
        """It was cut short by that."""
        return self.disk.operations_left is not None and self.disk.operations_left < 0

    def killed(self, *overrides: str, rules: Sequence[Rule] = ()) -> "VirtualBroker":
        return self._next(self.disk.kill(), overrides, rules)

    def crashed(self, seed: int) -> "VirtualBroker":
        return self._next(self.disk.crash(Random(seed)), ())

    def on(self, disk: MemoryDisk) -> "VirtualBroker":
        """The next one on another state of the disk."""
        return self._next(disk, ())

    def _next(self, disk: MemoryDisk, overrides: Sequence[str], rules: Sequence[Rule] = ()) -> "VirtualBroker":
        time = VirtualTime(self.faults.time.wall_ms())
        return VirtualBroker(*self._overrides, *overrides, disk=disk, time=time, seed=self._seed + 1, rules=rules)


def _one_by_one(functions: Sequence[Any]) -> None:
    for function in functions:
        function()


def _cut_power() -> NoReturn:
    raise PowerCut("a fault rule")
