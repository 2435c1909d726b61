"""The daemon: runs a broker on the real machine, serves until a signal, and stops in reverse order of the start.

Owns: the order of start and stop, signals, the ready line. `broker.assembly.broker` builds the parts.
Invariants
- No socket listens before every log is recovered and every coordinator has replayed its records.
- A clean stop closes the sockets first, then flushes; a failed disk stops the process without touching the files again,
  so that the next start recovers from the actual state of the disk.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import uvloop

from oncelog.broker.assembly.broker import StartError, assemble, check_directory
from oncelog.broker.broker import Broker
from oncelog.broker.completion import Completion, all_of
from oncelog.broker.config.admin_address import parse_admin_address
from oncelog.broker.config.settings import BrokerConfig
from oncelog.broker.machine import System
from oncelog.broker.net.listener import Endpoint, Listeners
from oncelog.broker.observability.logging import loop_errors
from oncelog.broker.system.clock import SystemClock, SystemEntropy
from oncelog.broker.system.disk import DataDirectoryLocked, RealDisk, SyncPool
from oncelog.broker.system.limits import raise_open_files, share_descriptors
from oncelog.broker.system.loop import LoopScheduler, keep_collections_short

if TYPE_CHECKING:
    from oncelog.broker.admin.server import AdminServer
    from oncelog.broker.observability.statsd import StatsdReporter

__all__ = ["EXIT_DISK_FAILED", "StartError", "serve"]

EXIT_DISK_FAILED = 3
_STEP_INTERVAL_MS = 1_000
_FLUSH_TIMEOUT_S = 30


def serve(config: BrokerConfig, warnings: Sequence[str], log: Any) -> int:
    """Run the broker until a signal stops it; returns the exit code. Raises StartError."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_App(config, log).run(warnings))


T = TypeVar("T")


async def _done(completion: Completion[T]) -> T:
    await _ended(completion)
    return completion.result()


async def _ended(completion: Completion[T]) -> None:
    """It has its value or its error."""
    ended = asyncio.Event()
    completion.then(lambda _: ended.set())
    await ended.wait()


class _App:
    def __init__(self, config: BrokerConfig, log: Any) -> None:
        self._config = config
        self._log = log
        self._stop = asyncio.Event()
        self._exit_code = 0
        self._syncs = SyncPool()

    async def run(self, warnings: Sequence[str]) -> int:
        for warning in warnings:
            self._log.warning("config.ignored", message=warning)
        shares = share_descriptors(raise_open_files())
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(loop_errors(self._log))
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signal_number, self._stop.set)
        disk = self._open_disk(shares.files) if self._config.get_str("oncelog.storage") == "local" else None
        scheduler = LoopScheduler(loop, "flusher")
        imports = LoopScheduler(loop, "importer")  # a separate thread: it must not wait for a slow disk
        try:
            system = System(SystemClock(), SystemEntropy(), scheduler, disk, self._syncs.run_all, self._on_disk_failure)
            broker = await _done(assemble(self._config, self._with_faults(system), self._log))
            keep_collections_short()
            listeners = Listeners(broker, shares.connections, imports.run_in_thread)
            await self._listen(listeners)
            admin = await self._start_admin(broker)
            await self._serve(broker, listeners)
            if admin is not None:
                await admin.close()
        finally:
            imports.close()
            scheduler.close()
            self._syncs.close()
            if disk is not None:
                disk.close()
        return self._exit_code

    def _open_disk(self, open_files: int) -> RealDisk:
        path = self._config.data_dir
        try:
            disk = RealDisk(path, open_files)
            check_directory(self._config, disk)  # before locking, which already creates a file
            disk.lock()
        except DataDirectoryLocked as error:
            raise StartError(f"{error}: stop it, or give this one another --data-dir.") from error
        except OSError as error:
            raise StartError(
                f"cannot use the data directory {path}: {error.filename}: {error.strerror or error}; "
                "let this user read and write it, or choose another with --data-dir."
            ) from error
        return disk

    async def _listen(self, listeners: Listeners) -> None:
        for wanted in self._config.listeners:
            endpoint = Endpoint(
                wanted.name,
                wanted.host,
                wanted.port,
                wanted.advertised_host,
                wanted.advertised_port,
                wanted.is_guess,
            )
            try:
                await listeners.open(endpoint)
            except OSError as error:
                raise StartError(
                    f"cannot listen on {wanted.host}:{wanted.port}: {error.strerror or error}; "
                    "choose another address with --listen HOST:PORT."
                ) from error

    async def _serve(self, broker: Broker, listeners: Listeners) -> None:
        statsd = await self._start_statsd(broker, listeners)
        addresses = [f"{endpoint.host or '0.0.0.0'}:{endpoint.port}" for endpoint in listeners.endpoints]
        sys.stdout.write(f"oncelog ready {' '.join(addresses)}\n")
        sys.stdout.flush()
        self._log.info(
            "broker.ready",
            cluster_id=broker.cluster_id,
            node_id=broker.leadership.node_id,
            listeners=[f"{endpoint.name}://{endpoint.host}:{endpoint.port}" for endpoint in listeners.endpoints],
            data_dir=str(self._config.data_dir),
        )
        self._step(broker)
        await self._stop.wait()
        self._log.info("broker.stopping")
        await listeners.close()
        await self._flushed(broker)
        if statsd is not None:
            await statsd.close()
        unclean = broker.logs.close()
        if unclean is not None:
            self._log.warning("broker.stopped_uncleanly", error=str(unclean), message="the next start recovers")
        self._log.info("broker.stopped")

    def _with_faults(self, system: System) -> System:
        """The machine, wrapped in fault injection if that was enabled."""
        rules_file = self._config.get("oncelog.admin.faults")
        if not self._config.get("oncelog.admin.listen"):
            if rules_file:
                raise StartError("oncelog.admin.faults needs oncelog.admin.listen: its rules could not be released")
            return system
        from oncelog.broker.faults.faults import Faults
        from oncelog.broker.faults.rule import RuleError, rules_from_text

        faults = Faults(system, crash=_kill)
        try:
            for rule in rules_from_text(Path(rules_file).read_text(encoding="utf-8")) if rules_file else ():
                faults.plant(rule)
        except (OSError, RuleError) as error:
            raise StartError(f"oncelog.admin.faults {rules_file}: {error}") from error
        return faults.system

    async def _start_admin(self, broker: Broker) -> "AdminServer | None":
        if broker.faults is None:
            return None
        from oncelog.broker.admin.server import AdminServer

        host, port = parse_admin_address(self._config.get_str("oncelog.admin.listen"))
        admin = AdminServer(broker.faults)
        try:
            host, port = await admin.start(host, port)
        except OSError as error:
            raise StartError(f"oncelog.admin.listen {host}:{port}: {error.strerror or error}") from error
        self._log.info("admin.ready", address=f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        return admin

    async def _flushed(self, broker: Broker) -> None:
        """Wait for the round in flight, for later appends, and for a checkpoint; a failed disk never completes."""

        async def flush() -> None:
            logs = broker.logs
            await _ended(all_of([log.when_durable(log.log_end_offset) for log in logs.logs if not log.offline_error]))
            while logs.store.is_busy:
                await _ended(logs.store.when_idle())

        if not broker.rounds.failure.failed:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(flush(), _FLUSH_TIMEOUT_S)

    async def _start_statsd(self, broker: Broker, listeners: Listeners) -> "StatsdReporter | None":
        address = self._config.statsd_address
        if address is None:
            return None
        from oncelog.broker.observability.statsd import StatsdReporter

        def refresh() -> None:
            broker.metrics.flush_rounds = broker.rounds.round_count
            broker.metrics.open_connections = listeners.connection_count
            broker.metrics.fetch_sessions = len(broker.fetch_sessions)
            broker.metrics.open_transactions = broker.transactions.open_count
            broker.metrics.offline_partitions = sum(log.offline_error is not None for log in broker.logs.logs)

        reporter = StatsdReporter(broker.metrics, address, self._config.get_int("oncelog.statsd.interval.ms"), refresh)
        try:
            await reporter.start()
        except OSError as error:
            raise StartError(f"oncelog.statsd.address {address[0]}:{address[1]}: {error}") from error
        return reporter

    def _step(self, broker: Broker) -> None:
        """One background turn a second: retention, expiry of producers, transactional ids and groups."""
        if self._stop.is_set():
            return
        # Scheduled first: whatever fails in this turn, there is a next one.
        broker.scheduler.call_later(_STEP_INTERVAL_MS, lambda: self._step(broker))
        broker.logs.step()
        broker.transactions.step()
        if broker.known_groups is not None:
            broker.known_groups.step()

    def _on_disk_failure(self, error: OSError) -> None:
        self._log.critical("disk.failed", error=str(error), data_dir=str(self._config.data_dir))
        self._exit_code = EXIT_DISK_FAILED
        self._stop.set()


def _kill() -> NoReturn:
    """As kill -9 from outside: nothing is flushed, no handler runs."""
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(EXIT_DISK_FAILED)  # not reached
