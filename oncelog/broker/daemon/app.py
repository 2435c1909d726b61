"""The daemon: a process that runs one broker on the real machine until a signal.

Owns: the process: signals, limits, threads, opening the data directory, the ready line, the exit code. Does not own:
how a broker starts and stops (`broker.daemon.running`).
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import uvloop

from oncelog.broker.assembly.directory import open_directory, suited_to_directory
from oncelog.broker.config.admin_address import format_host_port
from oncelog.broker.config.settings import BrokerConfig, SettingsError, StartError
from oncelog.broker.daemon.running import RunningBroker
from oncelog.broker.daemon.signals import handle_signals
from oncelog.broker.net.busy_poll import BusyPoll
from oncelog.broker.observability.logging import loop_errors
from oncelog.broker.requests.dispatch import RunInThread
from oncelog.broker.system.clock import SystemClock, SystemEntropy
from oncelog.broker.system.disk import DataDirectoryLocked, RealDisk, SyncPool
from oncelog.broker.system.limits import processor_count, raise_open_files, share_descriptors
from oncelog.broker.system.loop import LoopScheduler, keep_collections_short
from oncelog.broker.turns.machine import System

if TYPE_CHECKING:
    from oncelog.broker.faults.faults import Faults
    from oncelog.broker.turns.ports import Coroutines

__all__ = [
    "EXIT_DISK_FAILED",
    "SettingsError",
    "StartError",
    "coroutines_of",
    "open_directory",
    "serve",
    "suited_to_directory",
]

EXIT_DISK_FAILED = 3
_CLOCK_AHEAD = "oncelog.admin.clock.ahead.ms"


def serve(config: BrokerConfig, warnings: Sequence[str], log: Any) -> int:
    """Run the broker until a signal stops it; returns the exit code. Raises StartError."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_App(config, log).run(warnings))


class _OfProcess(NamedTuple):
    """The parts of the process that `RunningBroker.start` gets."""

    faults: "Faults | None"
    connection_count: int | None
    run_in_thread: RunInThread
    busy_poll: BusyPoll | None


class _App:
    def __init__(self, config: BrokerConfig, log: Any) -> None:
        self._config = suited_to_directory(config, log)
        self._log = log
        self._stop = asyncio.Event()
        self._exit_code = 0
        self._syncs = SyncPool()
        self._running: RunningBroker | None = None
        """The broker; None until it is ready."""

    async def run(self, warnings: Sequence[str]) -> int:
        for warning in warnings:
            self._log.warning("config.ignored", message=warning)
        shares = share_descriptors(raise_open_files())
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(loop_errors(self._log))
        handle_signals(loop, self._log, self._stop.set, self._reload)
        disk = self._open_disk(shares.files) if self._config.get_str("oncelog.storage") == "local" else None
        scheduler = LoopScheduler(loop, "flusher")
        imports = LoopScheduler(loop, "importer")  # a separate thread: it must not wait for a slow disk
        try:
            system = System(
                SystemClock(),
                SystemEntropy(),
                scheduler,
                disk,
                self._syncs.run_all,
                self._on_disk_failure,
                coroutines_of(self._config),
            )
            faults = self._faults(system)
            of_process = _OfProcess(faults, shares.connections, imports.run_in_thread, _busy_poll(loop))
            machine = system if faults is None else faults.system
            if self._config.get_str("oncelog.storage") == "postgres":
                await self._run_node(machine, of_process)
            else:
                await self._run_alone(machine, of_process)
        finally:
            imports.close()
            scheduler.close()
            self._syncs.close()
            if disk is not None:
                disk.close()
        return self._exit_code

    async def _run_alone(self, system: System, of_process: "_OfProcess") -> None:
        running = await RunningBroker.start(self._config, system, self._log, **of_process._asdict())
        keep_collections_short()
        self._announce(running)
        await self._stop.wait()
        self._log.info("broker.stopping")
        _tell("STOPPING=1")
        await running.stop()
        self._log.info("broker.stopped")

    async def _run_node(self, system: System, of_process: "_OfProcess") -> None:
        from oncelog.broker.daemon.succession import NodeProcess  # who has files needs none of it

        is_first = True

        def on_ready(running: RunningBroker) -> None:
            nonlocal is_first
            keep_collections_short()
            self._announce(running, is_first=is_first)
            is_first = False

        await NodeProcess(self._config, system, self._log, self._stop, on_ready, **of_process._asdict()).run()

    def _open_disk(self, open_files: int) -> RealDisk:
        path = self._config.data_dir
        try:
            return open_directory(self._config, open_files)
        except DataDirectoryLocked as error:
            raise StartError(f"{error}: stop it, or give this one another --data-dir.") from error
        except OSError as error:
            raise StartError(
                f"cannot use the data directory {path}: {error.filename}: {error.strerror or error}; "
                "let this user read and write it, or choose another with --data-dir."
            ) from error

    def _announce(self, running: RunningBroker, *, is_first: bool = True) -> None:
        self._running = running
        broker, endpoints = running.broker, running.listeners.endpoints
        if is_first:
            addresses = [format_host_port(endpoint.host or "0.0.0.0", endpoint.port) for endpoint in endpoints]
            with contextlib.suppress(OSError):  # its reader has gone; the log has the line below
                sys.stdout.write(f"oncelog ready {' '.join(addresses)}\n")
                sys.stdout.flush()
            _tell("READY=1")
        self._log.info(
            "broker.ready" if broker.leadership.is_ours else "broker.standing_by",
            cluster_id=broker.cluster_id,
            node_id=broker.leadership.node_id,
            listeners=[f"{endpoint.name}://{format_host_port(endpoint.host, endpoint.port)}" for endpoint in endpoints],
            data_dir=self._config.place.path,
            **({} if broker.standing is None else broker.standing.log_fields),
        )

    def _reload(self) -> None:
        """Read the files of the settings again."""
        if self._running is None:
            self._log.info("broker.reloaded", message="it starts, and reads its files for the first time")
        else:
            self._running.reload()

    def _faults(self, system: System) -> "Faults | None":
        """Return fault injection around the machine, if it is enabled."""
        rules_file, ahead_ms = self._config.get("oncelog.admin.faults"), self._config.get_int(_CLOCK_AHEAD)
        if not self._config.get("oncelog.admin.listen"):
            if rules_file:
                raise StartError("oncelog.admin.faults needs oncelog.admin.listen: its rules could not be released")
            if ahead_ms:
                raise StartError(f"{_CLOCK_AHEAD} needs oncelog.admin.listen: only a test moves its broker's clock")
            return None
        from oncelog.broker.faults.faults import Faults
        from oncelog.broker.faults.rule import RuleError, rules_from_text

        faults = Faults(system, _kill, ahead_ms)
        try:
            for rule in rules_from_text(Path(rules_file).read_text(encoding="utf-8")) if rules_file else ():
                faults.plant(rule)
        except (OSError, RuleError) as error:
            raise StartError(f"oncelog.admin.faults {rules_file}: {error}") from error
        return faults

    def _on_disk_failure(self, error: OSError) -> None:
        place = self._config.place
        event = "database.failed" if place.storage == "postgres" else "disk.failed"
        self._log.critical(event, error=str(error), data_dir=place.path)
        self._exit_code = EXIT_DISK_FAILED
        self._stop.set()


def coroutines_of(config: BrokerConfig) -> "Coroutines | None":
    """Return where the driver of a database runs, if there is one."""
    if config.get_str("oncelog.storage") != "postgres":
        return None
    from oncelog.broker.system.coroutines import LoopCoroutines

    return LoopCoroutines()


def _busy_poll(loop: asyncio.AbstractEventLoop) -> BusyPoll | None:
    """Return the busy poll; None on a single processor, where staying awake would keep the processor from the
    clients."""
    return BusyPoll(loop.call_soon, time.perf_counter) if processor_count() > 1 else None


def _tell(state: str) -> None:
    if "NOTIFY_SOCKET" in os.environ:
        from oncelog.broker.system.service_manager import tell_service_manager  # others start without one

        tell_service_manager(state)


def _kill() -> NoReturn:
    """End the process like kill -9 from outside: nothing is flushed, no handler runs."""
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(EXIT_DISK_FAILED)  # not reached
