"""A broker that serves: recovered, listening, with its turn in the background once a second.

Owns: the order of start and stop. Does not own: the parts (`broker.assembly.broker` builds them), the machine, the
process around it: `broker.daemon.app` has its signals and limits, `oncelog.testing` a thread of a test.
Invariants
- No socket listens before every log is recovered and every coordinator has replayed its records.
- A clean stop closes the sockets first, then flushes; after a failed disk no file is touched again, so that the next
  start recovers from the actual state of the disk.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self, TypeVar

from oncelog.broker.assembly.broker import StartError, assemble
from oncelog.broker.config.admin_address import HttpAddress, format_host_port, parse_http_address
from oncelog.broker.config.settings import METRIC_REPORTERS, BrokerConfig, ConfigError
from oncelog.broker.net.busy_poll import BusyPoll
from oncelog.broker.net.listener import Endpoint, Listeners
from oncelog.broker.observability.logging import level_of
from oncelog.broker.observability.transitions import TransactionSummary
from oncelog.broker.requests.dispatch import RunInThread
from oncelog.broker.requests.parts import Broker
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.machine import System
from oncelog.broker.turns.slices import ELEMENTS_HELD

if TYPE_CHECKING:
    from oncelog.broker.admin.collection import Bound, Collection
    from oncelog.broker.admin.http import HttpServer
    from oncelog.broker.admin.kept_port import KeptPort
    from oncelog.broker.admin.token import Token
    from oncelog.broker.faults.faults import Faults
    from oncelog.broker.security.file_changes import CertificateWatch

_STEP_INTERVAL_MS = 1_000
_FLUSH_TIMEOUT_S = 30

T = TypeVar("T")


class RunningBroker:
    """A broker that serves until `stop` or `abandon`."""

    def __init__(
        self,
        config: BrokerConfig,
        broker: Broker,
        listeners: Listeners,
        log: Any,
        faults: "Faults | None",
        kept_metrics: "KeptPort | None",
    ) -> None:
        self.broker = broker
        self._kept_metrics = kept_metrics
        self._faults = faults
        self.listeners = listeners
        self._config = config
        self._log = log
        self._beside = contextlib.AsyncExitStack()
        """Closes the reporters and ports beside the listeners."""
        self._is_stopping = False
        self._certificates: "CertificateWatch | None" = None
        self._summary = TransactionSummary(log, broker.metrics, broker.clock)

    @classmethod
    async def start(
        cls,
        config: BrokerConfig,
        system: System,
        log: Any,
        *,
        faults: "Faults | None" = None,
        connection_count: int | None = None,
        run_in_thread: RunInThread | None = None,
        busy_poll: BusyPoll | None = None,
    ) -> Self:
        """Start a broker on the running loop. `faults` is as in `assemble`, the others are as in `Listeners`. Raises
        StartError."""
        broker = await done(assemble(config, system, log, faults))
        listeners = Listeners(broker, connection_count, run_in_thread, busy_poll)
        return await cls.serve(config, broker, listeners, log, faults)

    @classmethod
    async def serve(
        cls,
        config: BrokerConfig,
        broker: Broker,
        listeners: Listeners,
        log: Any,
        faults: "Faults | None" = None,
        kept_metrics: "KeptPort | None" = None,
    ) -> Self:
        """Listen with a broker that is assembled; if the listeners are open already, take over their clients.
        `kept_metrics`, if given, serves its metrics. Raises StartError."""
        running = cls(config, broker, listeners, log, faults, kept_metrics)
        async with contextlib.AsyncExitStack() as unless_started:
            unless_started.push_async_callback(running.abandon)
            if listeners.endpoints:
                listeners.change_broker(broker)
            else:
                await running._listen()
            address = config.get("oncelog.admin.listen")
            if address and broker.leadership.is_ours:
                await running.start_admin(parse_http_address(address))
            await running._start_reports()
            unless_started.pop_all()
        running._step()
        return running

    async def stop(self, *, is_handover: bool = False) -> None:
        """Answer what was begun, flush, and write what saves the next start a scan. In a handover another node waits
        for that."""
        self._end_turns()
        await self.listeners.close()
        await self._flush(is_handover=is_handover)
        unclean = self.broker.logs.close()
        if unclean is not None:
            self._log.warning("broker.stopped_uncleanly", error=str(unclean), message="the next start recovers")
        await self._beside.aclose()
        self._summary.report()
        self._report_repeats(is_last=True)

    def reload(self) -> None:
        """Read the files that settings name again, for new connections."""
        from oncelog.broker.security.file_changes import reload_files  # a start without files does not pay for it

        reload_files(self.broker.live_config.file_readers, self._log)

    async def make_way(self) -> Listeners:
        """Leave the clients to the next broker of this process, which is assembled, and free the ports of reports."""
        self._end_turns()
        await self._beside.aclose()
        return self.listeners

    async def abandon(self) -> None:
        """Close every socket as the system does for a process that is killed: nothing is answered or flushed."""
        self._end_turns()
        await self.listeners.abort()
        await self._beside.aclose()

    def _end_turns(self) -> None:
        """Nothing begins any more that no client has asked for."""
        self._is_stopping = True
        if self.broker.outbox is not None:
            self.broker.outbox.stop()

    async def start_admin(self, address: HttpAddress, token: "Token | None" = None) -> tuple[str, int]:
        """Serve fault injection over HTTP to clients that have `token`, or the token of the settings; return the
        address. Raises StartError."""
        from oncelog.broker.admin.ports import admin_port

        faults = self._faults
        if faults is None:
            raise StartError("this broker was assembled without fault injection")
        return await self._serve("admin", address, lambda: admin_port(self.broker, faults, address, token))

    async def _serve(
        self, name: str, address: HttpAddress, port: Callable[[], "HttpServer"], kept: "KeptPort | None" = None
    ) -> tuple[str, int]:
        """Start a port and return its address. `name` is that of the setting, and of the line in the log."""
        try:
            server = port()
            if kept is None:
                bound, close = await server.start(address.bound_host, address.port), server.close
            else:
                bound, close = await kept.start(server, address.bound_host, address.port), kept.release
        except ConfigError as error:
            raise StartError(str(error)) from error
        except OSError as error:
            raise StartError(f"oncelog.{name}.listen {address}: {error.strerror or error}") from error
        self._beside.push_async_callback(close)
        self._log.info(f"{name}.ready", address=format_host_port(*bound))
        return bound

    async def _listen(self) -> None:
        for wanted in self._config.listeners:
            endpoint = Endpoint(
                wanted.name,
                wanted.host,
                wanted.port,
                wanted.advertised_host,
                wanted.advertised_port,
                wanted.is_guess,
                wanted.protocol,
            )
            try:
                await self.listeners.open(endpoint)
            except ConfigError as error:
                raise StartError(str(error)) from error
            except OSError as error:
                raise StartError(
                    f"cannot listen on {format_host_port(wanted.host, wanted.port)}: {error.strerror or error}; "
                    "choose another address with --listen HOST:PORT."
                ) from error

    async def _flush(self, *, is_handover: bool) -> None:
        """Settle the logs until no turn appends anything more, as it may append markers once a decision is durable: a
        store with a round in flight cannot give its lease back."""
        broker = self.broker
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_TIMEOUT_S):
                while not broker.rounds.is_over:
                    await ended(broker.slices.run_own(broker.logs.settle(is_handover=is_handover)))
                    if broker.logs.is_settled:
                        break

    async def _start_reports(self) -> None:
        """Start the reporters that the settings name; the others are not imported either."""
        config = self._config
        if not any(config.get(key) for key in METRIC_REPORTERS):
            return
        from oncelog.broker.admin.collection import Collection

        collection = Collection(
            self.broker,
            config.get_int("oncelog.metrics.max.series"),
            self._refresh,
            self._bounds,
        )
        await self._start_prometheus(collection)
        await self._start_statsd(collection)
        self._start_otlp(collection)

    async def _start_prometheus(self, collection: "Collection") -> None:
        text = self._config.get("oncelog.metrics.listen")
        if not text:
            return
        from oncelog.broker.admin.ports import metrics_port

        address = parse_http_address(text)
        await self._serve(
            "metrics", address, lambda: metrics_port(self.broker, collection, address), self._kept_metrics
        )

    async def _start_statsd(self, collection: "Collection") -> None:
        address = self._config.statsd_address
        if address is None:
            return
        from oncelog.broker.observability.statsd import StatsdReporter

        reporter = StatsdReporter(collection.collect, address, self._config.get_int("oncelog.statsd.interval.ms"))
        try:
            await reporter.start()
        except OSError as error:
            raise StartError(f"oncelog.statsd.address {address[0]}:{address[1]}: {error}") from error
        self._beside.push_async_callback(reporter.close)

    def _start_otlp(self, collection: "Collection") -> None:
        endpoint = self._config.get("oncelog.otlp.endpoint")
        if not endpoint:
            return
        try:
            from oncelog.broker.observability.otlp import OtlpReporter
        except ImportError as error:
            from oncelog.installing import how_to_install

            raise StartError(
                f"oncelog.otlp.endpoint needs OpenTelemetry's exporter: {how_to_install('otel')} ({error})"
            ) from error
        resource = {
            "service.name": "oncelog",
            "service.instance.id": f"{self.broker.cluster_id}/{self.broker.leadership.node_id}",
        }
        reporter = OtlpReporter(
            collection.collect, endpoint, self._config.get_int("oncelog.otlp.interval.ms"), resource, self._log
        )
        reporter.start()
        self._beside.push_async_callback(reporter.close)

    def _refresh(self) -> None:
        """Update the gauges before they are reported."""
        broker = self.broker
        broker.metrics.flush_rounds = broker.rounds.round_count
        broker.metrics.open_connections = self.listeners.connection_count
        broker.metrics.waiting_fetches = broker.purgatory.waiting_count
        broker.metrics.fetch_sessions = len(broker.fetch_sessions)
        broker.metrics.offline_partitions = broker.logs.offline_count
        broker.metrics.disk_full = int(broker.logs.store.trouble is not None)

    def _bounds(self) -> "Iterator[Bound]":
        """Yield how much of each limit is in use; one that is named like a setting has the setting's value as its
        limit."""
        from oncelog.broker.admin.collection import Bound

        broker, listeners = self.broker, self.listeners
        used = {
            "max.connections": listeners.connection_count,
            "queued.max.request.bytes": listeners.request_bytes,
            "oncelog.unread.answers.max.bytes": listeners.answer_bytes,
            "max.incremental.fetch.session.cache.slots": len(broker.fetch_sessions),
        }
        for key, count in used.items():
            yield Bound(key, count, broker.config.get_int(key))
        yield Bound("elements of unfinished requests", broker.slices.elements_held, ELEMENTS_HELD)

    def _step(self) -> None:
        """Run one background turn a second: retention, expiry of producers, transactional ids, groups and tokens,
        snapshots of share groups, and what the log has not said yet."""
        if self._is_stopping:
            return
        broker = self.broker
        # Scheduled first: whatever fails in this turn, there is a next one.
        broker.scheduler.call_later(_STEP_INTERVAL_MS, self._step)
        if broker.leadership.is_ours and not self._config.get_bool("oncelog.read.only"):
            broker.logs.step()
            broker.transactions.step()
            if broker.known_groups is not None:
                broker.known_groups.step()
            if broker.shares_when_needed.known is not None:
                broker.shares_when_needed.known.step()
            if broker.tokens is not None:
                broker.tokens.step()
        self._watch_certificates()
        self._summary.step()
        self._report_repeats()

    def _watch_certificates(self) -> None:
        broker = self.broker
        if not broker.live_config.file_readers:
            return
        if self._certificates is None:
            from oncelog.broker.security.file_changes import CertificateWatch  # a start without files does without

            self._certificates = CertificateWatch(self._log)
        self._certificates.step(broker.live_config.file_readers, broker.clock.wall_ms())

    def _report_repeats(self, *, is_last: bool = False) -> None:
        level = level_of(self._log)
        if level is not None:
            level.repeats.report(self._log, is_last=is_last)


async def done(completion: Completion[T]) -> T:
    await ended(completion)
    return completion.result()


async def ended(completion: Completion[T]) -> None:
    """Wait until the completion has its value or its error."""
    ended = asyncio.Event()
    completion.then(lambda _: ended.set())
    await ended.wait()
