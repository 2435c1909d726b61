"""One run of a broker for tests, from its start to its stop or crash: in a thread of this process, or as a process.

Owns: the thread or the process, and what a crash leaves. Does not own: what comes after it (`broker`).
Invariants
- When a life has started it answers clients; when it has ended, its sockets are closed and it writes nothing any more.
- Nothing of the test's process is changed: no signal handler, no limit, no setting of its garbage collector, no log.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from secrets import token_hex
from typing import IO, Any, NoReturn, Protocol, TypeVar

import uvloop

from oncelog.broker.admin.token import Token
from oncelog.broker.config.admin_address import format_host_port, parse_http_address
from oncelog.broker.config.broker_keys import BROKER_KEYS, key_of_listener
from oncelog.broker.config.config_key import ConfigType
from oncelog.broker.config.settings import BrokerConfig, load_config
from oncelog.broker.daemon.app import coroutines_of, open_directory, suited_to_directory
from oncelog.broker.daemon.running import RunningBroker
from oncelog.broker.faults.faults import Faults
from oncelog.broker.observability.logging import to_python_logging
from oncelog.broker.system.clock import SystemClock, SystemEntropy
from oncelog.broker.system.loop import LoopScheduler, error_of
from oncelog.broker.turns.machine import System
from oncelog.broker.turns.ports import Timer
from oncelog.http_port import HttpPort
from oncelog.testing.memory_disk import MemoryDisk
from oncelog.testing.tables import Tables

__tracebackhide__ = True
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 60.0
_READY = "oncelog ready "
_WHERE = "the argument config"
"""The source of a setting, in messages."""
_LOGGER = "oncelog.broker"
_LEFT_BY_A_CRASH = ("data_dir.damaged", "log.recovered")
"""The events of what a crash leaves: torn and missing files, which the start mends. Damage that it cannot mend is
`log.offline`, and an error."""

T = TypeVar("T")


class Life(Protocol):
    """A broker that runs, or has run."""

    addresses: list[str]
    """The HOST:PORT of each listener."""

    def admin_port(self) -> HttpPort:
        """The port of its fault injection, with a token of its own."""

    def stop(self) -> None:
        """Answer what was begun, flush, and end."""

    def kill(self) -> None:
        """End like kill -9: clients lose their connections, nothing is answered or flushed. Does nothing if it has
        ended."""

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, by itself or not."""


class Crashed(BaseException):
    """Raised if a fault rule has ended the broker in the middle of an operation; it cannot be handled."""


class ThreadLife:
    """A broker on an event loop in a thread of its own. `disk` is what it found and, once it has ended, what it
    left."""

    def __init__(
        self, settings: Mapping[str, str], disk: MemoryDisk | Path | Tables, *, after_crash: bool = False
    ) -> None:
        """Raises ConfigError, StartError."""
        self.disk = disk
        if isinstance(disk, Path):
            settings = {**settings, "log.dirs": str(disk)}
        elif isinstance(disk, Tables):
            settings = {**settings, **disk.settings}
        config, warnings = load_config(cli=settings, where=_WHERE)
        self._log = to_python_logging(_LOGGER, _LEFT_BY_A_CRASH if after_crash else (), "expected after the crash")
        self._config = suited_to_directory(config, self._log) if isinstance(disk, Path) else config
        for warning in warnings:
            self._log.warning("config.ignored", message=warning)
        self._started: Future[RunningBroker] = Future()
        self._thread = threading.Thread(target=self._run, name=_LOGGER, daemon=True)
        self._thread.start()
        self._running = self._started.result(START_TIMEOUT_S)
        endpoints = self._running.listeners.endpoints
        self.addresses = [f"{each.advertised_host}:{each.advertised_port}" for each in endpoints]
        self._admin_port: HttpPort | None = None

    def admin_port(self) -> HttpPort:
        if self._admin_port is None:
            token = token_hex()
            bound = self._call(self._running.start_admin(parse_http_address("127.0.0.1:0"), Token(token.encode())))
            self._admin_port = HttpPort(format_host_port(*bound), token)
        return self._admin_port

    def stop(self) -> None:
        self._end_with(self._stop_cleanly)

    def kill(self) -> None:
        self._end_with(self._die_now)

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def _end_with(self, how: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended
            self._loop.call_soon_threadsafe(how)
        self._thread.join(STOP_TIMEOUT_S)
        if not self.has_ended:
            raise TimeoutError(_not_ended(self))

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_TIMEOUT_S)

    # -- in the thread

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._on_loop_error)
        self._ending: asyncio.Future[bool] = self._loop.create_future()
        with _machine(self._config, self.disk, self._on_disk_failure) as system:
            try:
                faults = Faults(system, self._die, self._config.get_int("oncelog.admin.clock.ahead.ms"))
                running = await RunningBroker.start(self._config, faults.system, self._log, faults=faults)
            except BaseException as error:  # raised again where the life was to be started
                self._started.set_exception(error)
                return
            self._started.set_result(running)
            if await self._ending:
                await running.stop()
            else:
                await running.abandon()

    def _stop_cleanly(self) -> None:
        self._end(is_clean=True)

    def _die_now(self) -> None:
        self._end(is_clean=False)

    def _die(self) -> NoReturn:
        self._end(is_clean=False)
        raise Crashed

    def _end(self, *, is_clean: bool) -> None:
        if self._ending.done():
            return
        self._ending.set_result(is_clean)
        if not is_clean and isinstance(self.disk, MemoryDisk):
            # What runs until its sockets are closed writes to another one.
            self.disk = self.disk.kill()

    def _on_disk_failure(self, error: OSError) -> None:
        self._log.critical("disk.failed", error=str(error))
        self._end(is_clean=True)

    def _on_loop_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Crashed):
            self._log.error("loop.error", message=context.get("message"), exc_info=error)


def _is_secret(name: str) -> bool:
    key = key_of_listener(name) or BROKER_KEYS.get(name)
    return key is not None and key.type is ConfigType.PASSWORD


def _escaped(value: str) -> str:
    """Return a value as a file of properties has it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


class ProcessLife:
    """A broker in a process of its own, in a directory or over tables. Others see the arguments of a process, so no
    secret is among them: these come over its standard input."""

    def __init__(self, settings: Mapping[str, str], disk: Path | Tables) -> None:
        """Raises ConfigError, or RuntimeError with what the process said."""
        load_config(cli=settings, where=_WHERE)  # which says in one line what a process would on its way out
        directory = disk.directory if isinstance(disk, Tables) else disk
        if isinstance(disk, Tables):
            settings = {**settings, **disk.settings}
        command = [sys.executable, "-P", "-m", "oncelog.broker", "serve"]
        command += ["--config", "/dev/stdin"]
        token_file = directory.with_name(f"{directory.name}.token")
        self._token = token_hex()
        of_admin = {"oncelog.admin.listen": "127.0.0.1:0", "oncelog.admin.token.file": str(token_file)}
        secrets = []
        for key, value in {**settings, **of_admin, "log.dirs": str(directory)}.items():
            if _is_secret(key):
                secrets.append(f"{key}={_escaped(value)}\n")
            else:
                command += ["--override", f"{key}={value}"]
        token_file.unlink(missing_ok=True)
        token_file.touch(mode=0o600, exist_ok=False)
        token_file.write_text(self._token)
        self._said = directory.with_name(f"{directory.name}.log")
        with self._said.open("a") as stderr:
            self._said_before = stderr.tell()
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=stderr, text=True)
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError), self._process.stdin as stdin:  # its last words say why
                stdin.writelines(secrets)
        line = self._output.readline()
        token_file.unlink()
        if not line.startswith(_READY):
            self._process.wait()
            self._output.close()
            raise RuntimeError(f"the broker did not start:\n{self._said.read_text()[self._said_before :]}")
        self.addresses = line.removeprefix(_READY).split()

    @property
    def _output(self) -> IO[str]:
        if self._process.stdout is None:
            raise RuntimeError("the process has no standard output")
        return self._process.stdout

    def admin_port(self) -> HttpPort:
        for line in self._said.read_text()[self._said_before :].splitlines():
            if '"admin.ready"' in line:
                return HttpPort(json.loads(line)["address"], self._token)
        raise RuntimeError("the broker did not report the address of its fault injection")

    def stop(self) -> None:
        self._process.terminate()
        self._reap()

    def kill(self) -> None:
        self._process.kill()
        self._reap()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def _reap(self) -> None:
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise TimeoutError(_not_ended(self)) from None
        self._output.close()


def _not_ended(life: Life) -> str:
    return f"the broker at {life.addresses[0]} has not ended within {STOP_TIMEOUT_S:.0f} s"


class _OnLoop:
    """A Scheduler without threads: a disk in memory takes no time, and one thread uses it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call_soon(self, function: Callable[[], None]) -> None:
        self._loop.call_soon(function)

    def call_later(self, delay_ms: float, function: Callable[[], None]) -> Timer:
        return self._loop.call_later(max(0.0, delay_ms) / 1000, function)

    def run_in_thread(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self._loop.call_soon(lambda: self._loop.call_soon(done, error_of(function)))

    def run_beside(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self.run_in_thread(function, done)


@contextlib.contextmanager
def _machine(
    config: BrokerConfig, disk: MemoryDisk | Path | Tables, on_disk_failure: Callable[[OSError], None]
) -> Iterator[System]:
    """Raises DataDirectoryLocked, StartError."""
    loop = asyncio.get_running_loop()
    if isinstance(disk, MemoryDisk):
        yield System(SystemClock(), SystemEntropy(), _OnLoop(loop), disk, None, on_disk_failure)
        return
    scheduler = LoopScheduler(loop, "flusher")
    if isinstance(disk, Tables):
        try:
            coroutines = coroutines_of(config)
            yield System(SystemClock(), SystemEntropy(), scheduler, None, None, on_disk_failure, coroutines)
        finally:
            scheduler.close()
        return
    files = open_directory(config)
    try:
        yield System(SystemClock(), SystemEntropy(), scheduler, files, None, on_disk_failure)
    finally:
        scheduler.close()
        files.close()
