"""The composition root: builds every part, starts them in order, stops them in the opposite order.

Owns: the order of start and stop, signals, the ready line. Knows all parts; no part knows it.
Invariants
- Nothing listens before every log is recovered and every coordinator has replayed its records.
- A clean stop closes the sockets first, then flushes; a failed disk stops the process without touching the files
  again, so that the next start recovers from what is really there.
"""

import asyncio
import signal
import sys
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import uvloop

from broker.broker import Broker
from broker.completion import Completion
from broker.config import BrokerConfig
from broker.coordinator.group.coordinator import GroupCoordinator, GroupLimits
from broker.coordinator.group.shard import GroupShard
from broker.coordinator.runtime import CoordinatorRuntime
from broker.coordinator.transaction.coordinator import TransactionCoordinator, TransactionLimits
from broker.coordinator.transaction.markers import LocalMarkerChannel
from broker.coordinator.transaction.producer_ids import ProducerIdManager
from broker.coordinator.transaction.shard import TransactionShard
from broker.log.flusher import Flusher
from broker.log.log_config import LogConfig
from broker.log.log_manager import LogManager
from broker.log.recovery import RecoveryReport
from broker.metadata_log import METADATA_TOPIC, METADATA_TOPIC_ID, MetadataLog, cluster_id_records
from broker.net.listener import Endpoint, Listeners
from broker.observability.metrics import Metrics
from broker.observability.transitions import TransitionLog
from broker.partition_markers import PartitionMarkers
from broker.purgatory import FetchPurgatory
from broker.system.clock import SystemClock, SystemEntropy
from broker.system.disk import DataDirectoryLocked, RealDisk, SyncPool
from broker.system.loop import LoopScheduler
from broker.topic_config import CONSUMER_OFFSETS, TRANSACTION_STATE, internal_topic_config, log_config_for
from broker.topics import InternalTopicSource, Topics

if TYPE_CHECKING:
    from broker.observability.statsd import StatsdReporter

FEATURES = {"transaction.version": 1}
"""Finalized when a data directory is made."""
METADATA_LOG_CONFIG = LogConfig(retention_ms=-1, retention_bytes=-1)
EXIT_DISK_FAILED = 3
_STEP_INTERVAL_MS = 1_000


class StartError(Exception):
    """The broker cannot start; the message says why and what to do."""


def serve(config: BrokerConfig, warnings: Sequence[str], log: Any) -> int:
    """Run the broker until a signal stops it; returns the exit code. Raises StartError."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_App(config, log).run(warnings))


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
        loop = asyncio.get_running_loop()
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signal_number, self._stop.set)
        disk = self._open_disk()
        scheduler = LoopScheduler(loop)
        try:
            broker = await self._build(disk, scheduler)
            listeners = Listeners(broker)
            await self._listen(listeners)
            await self._serve(broker, listeners)
        finally:
            scheduler.close()
            self._syncs.close()
            disk.unlock()
        return self._exit_code

    def _open_disk(self) -> RealDisk:
        path = self._config.data_dir
        try:
            disk = RealDisk(path)
            disk.lock()
        except DataDirectoryLocked as error:
            raise StartError(f"{error}: stop it, or give this one another --data-dir.") from error
        except OSError as error:
            raise StartError(f"cannot use the data directory {path}: {error.strerror or error}") from error
        return disk

    async def _build(self, disk: RealDisk, scheduler: LoopScheduler) -> Broker:
        config, clock, entropy = self._config, SystemClock(), SystemEntropy()
        node_id = config.get_int("node.id")
        policy = config.get_str("oncelog.flush.policy")
        self._flusher = Flusher(scheduler, policy, self._on_disk_failure, clock, self._syncs.run_all)
        purgatory = FetchPurgatory(scheduler)
        logs = LogManager(
            disk,
            clock,
            self._flusher,
            purgatory,
            on_report=self._on_recovery,
            retention_check_interval_ms=config.get_int("log.retention.check.interval.ms"),
        )
        metadata_log = logs.open(METADATA_TOPIC, 0, METADATA_TOPIC_ID, METADATA_LOG_CONFIG)
        if metadata_log.offline_error is not None:
            raise StartError(f"the metadata log is damaged: {metadata_log.offline_error}")
        metadata = MetadataLog(metadata_log, clock)
        metadata.load()
        cluster_id = await self._cluster_id(metadata, entropy)
        topics = Topics(
            metadata,
            logs,
            entropy,
            node_id,
            lambda topic: log_config_for(topic.config, config),
            {name: internal_topic_config(name, config) for name in (CONSUMER_OFFSETS, TRANSACTION_STATE)},
        )
        topics.load()
        metrics = Metrics()
        group_runtime: CoordinatorRuntime[GroupShard] = CoordinatorRuntime(
            CONSUMER_OFFSETS, InternalTopicSource(topics, CONSUMER_OFFSETS), GroupShard, clock
        )
        markers = PartitionMarkers(topics, group_runtime, clock)
        transaction_runtime: CoordinatorRuntime[TransactionShard] = CoordinatorRuntime(
            TRANSACTION_STATE, InternalTopicSource(topics, TRANSACTION_STATE), TransactionShard, clock
        )
        transactions = TransactionCoordinator(
            transaction_runtime,
            ProducerIdManager(metadata, node_id),
            LocalMarkerChannel(node_id, markers),
            topics.leader_of,
            clock,
            scheduler,
            TransactionLimits(
                max_timeout_ms=config.get_int("transaction.max.timeout.ms"),
                id_expiration_ms=config.get_int("transactional.id.expiration.ms"),
            ),
            TransitionLog(self._log, metrics),
        )
        groups = GroupCoordinator(group_runtime, clock, scheduler, entropy, _group_limits(config))
        group_runtime.load_all()
        transaction_runtime.load_all()
        groups.load()
        transactions.load()
        return Broker(
            config=config,
            clock=clock,
            entropy=entropy,
            scheduler=scheduler,
            node_id=node_id,
            cluster_id=cluster_id,
            metadata=metadata,
            topics=topics,
            logs=logs,
            purgatory=purgatory,
            markers=markers,
            transactions=transactions,
            groups=groups,
            metrics=metrics,
            log=self._log,
            fetch_max_bytes=config.get_int("fetch.max.bytes"),
        )

    async def _cluster_id(self, metadata: MetadataLog, entropy: SystemEntropy) -> str:
        """The id in the metadata log; a first start writes it, with the features of this release."""
        wanted = self._config.get_str("cluster.id")
        known = metadata.state.cluster_id
        if known is None:
            known = wanted or urlsafe_b64encode(entropy.uuid().bytes).decode().rstrip("=")
            await _durable(metadata.write(cluster_id_records(known, FEATURES)))
        elif wanted and wanted != known:
            raise StartError(
                f"the data directory {self._config.data_dir} belongs to the cluster {known}, not to {wanted}: "
                "drop cluster.id, or use another --data-dir."
            )
        return known

    async def _listen(self, listeners: Listeners) -> None:
        for wanted in self._config.listeners:
            endpoint = Endpoint(wanted.name, wanted.host, wanted.port, wanted.advertised_host, wanted.advertised_port)
            try:
                await listeners.open(endpoint)
            except OSError as error:
                raise StartError(
                    f"cannot listen on {wanted.host}:{wanted.port}: {error.strerror or error}; "
                    "choose another address with --listen HOST:PORT."
                ) from error

    async def _serve(self, broker: Broker, listeners: Listeners) -> None:
        statsd = await self._start_statsd(broker, listeners)
        first = listeners.endpoints[0]
        sys.stdout.write(f"oncelog ready {first.host or '0.0.0.0'}:{first.port}\n")
        sys.stdout.flush()
        self._log.info(
            "broker.ready",
            cluster_id=broker.cluster_id,
            node_id=broker.node_id,
            listeners=[f"{endpoint.name}://{endpoint.host}:{endpoint.port}" for endpoint in listeners.endpoints],
            data_dir=str(self._config.data_dir),
        )
        self._step(broker)
        await self._stop.wait()
        self._log.info("broker.stopping")
        await listeners.close()
        await self._flusher_idle()
        if statsd is not None:
            await statsd.close()
        broker.logs.close()
        self._log.info("broker.stopped")

    async def _start_statsd(self, broker: Broker, listeners: Listeners) -> "StatsdReporter | None":
        address = self._config.statsd_address
        if address is None:
            return None
        from broker.observability.statsd import StatsdReporter

        def refresh() -> None:
            broker.metrics.flush_rounds = self._flusher.round_count
            broker.metrics.open_connections = listeners.connection_count
            broker.metrics.open_transactions = broker.transactions.open_count

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
        now_ms = broker.clock.now_ms()
        broker.logs.step(now_ms)
        broker.transactions.step(now_ms)
        broker.groups.step(now_ms)
        broker.scheduler.call_later(_STEP_INTERVAL_MS, lambda: self._step(broker))

    async def _flusher_idle(self) -> None:
        while self._flusher.is_busy and not self._flusher.failed:
            await asyncio.sleep(0.001)

    def _on_disk_failure(self, error: OSError) -> None:
        self._log.critical("disk.failed", error=str(error), data_dir=str(self._config.data_dir))
        self._exit_code = EXIT_DISK_FAILED
        self._stop.set()

    def _on_recovery(self, report: RecoveryReport) -> None:
        event = "log.offline" if report.offline_error else "log.recovered"
        for line in report.lines:
            self._log.warning(event, topic=report.topic, partition=report.partition, message=line)


def _group_limits(config: BrokerConfig) -> GroupLimits:
    return GroupLimits(
        min_session_timeout_ms=config.get_int("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.get_int("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=config.get_int("group.initial.rebalance.delay.ms"),
        max_size=config.get_int("group.max.size"),
        offset_metadata_max_bytes=config.get_int("offset.metadata.max.bytes"),
        offsets_retention_ms=config.get_int("offsets.retention.minutes") * 60_000,
    )


async def _durable(write: Completion[None]) -> None:
    """Wait for a completion where a coroutine may: at the start."""
    ended = asyncio.Event()
    write.then(lambda _: ended.set())
    await ended.wait()
    write.result()
