"""Builds a broker out of its parts, on the machine that it is given.

Owns: which part gets which other part, and the order in which their state is replayed. Does not own: the machine
(`System`: real in `broker.daemon.app`, virtual in tests and simulation), sockets, signals.
Invariant: when `assemble` returns, every log is recovered, and every coordinator has replayed its records or responds
that it is still loading (`broker.coordinator.loading`).
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from oncelog.broker.apis.compatibility import COMPATIBILITIES
from oncelog.broker.assembly.directory import StartError, check_directory
from oncelog.broker.cluster.features import first_levels
from oncelog.broker.cluster.leadership import Leadership
from oncelog.broker.cluster.metadata_log import (
    MetadataLog,
    ResourceType,
    SnapshotSettings,
    cluster_id_records,
)
from oncelog.broker.cluster.metadata_snapshot import SnapshotFiles
from oncelog.broker.cluster.topics import InternalTopicSource, Topics
from oncelog.broker.config.dynamic_keys import is_security
from oncelog.broker.config.listeners import SecurityProtocol
from oncelog.broker.config.live import LiveConfig
from oncelog.broker.config.settings import METRIC_REPORTERS, BrokerConfig
from oncelog.broker.config.topic_config import (
    internal_topic_config,
    log_config_for,
)
from oncelog.broker.coordinator.loading import CoordinatorLoading
from oncelog.broker.coordinator.partition_markers import PartitionMarkers
from oncelog.broker.coordinator.runtime import CoordinatorRuntime, ShardT
from oncelog.broker.coordinator.transaction.coordinator import TransactionCoordinator
from oncelog.broker.coordinator.transaction.dependencies import (
    TransactionDependencies,
    TransactionLimits,
    TransitionListener,
)
from oncelog.broker.coordinator.transaction.markers import LocalMarkerChannel, MarkerSender
from oncelog.broker.coordinator.transaction.producer_ids import ProducerIdManager
from oncelog.broker.fetching.purgatory import FetchPurgatory
from oncelog.broker.fetching.session_cache import FetchSessionCache
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.rounds import Rounds
from oncelog.broker.log.store import AnswersAhead, Failure, LogStore
from oncelog.broker.observability.metrics import Metrics, stopwatch
from oncelog.broker.observability.requests import RequestObserver
from oncelog.broker.observability.space import SpaceLog
from oncelog.broker.observability.transitions import TransitionLog
from oncelog.broker.requests.parts import Broker, GroupsWhenNeeded
from oncelog.broker.storage.compaction.cleaner import CompactionSettings
from oncelog.broker.storage.disk_errors import trouble
from oncelog.broker.storage.local.log_store import LocalLogStore
from oncelog.broker.storage.local.partition_directory import directory_of
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.machine import System
from oncelog.broker.turns.ports import Scheduler, Stopwatch
from oncelog.broker.turns.slices import Sliced, Slices
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.printable import printable_names
from oncelog.protocol.topics import CONSUMER_OFFSETS, METADATA_TOPIC, METADATA_TOPIC_ID, TRANSACTION_STATE

__all__ = ["StartError", "assemble", "check_directory"]

if TYPE_CHECKING:
    from oncelog.broker.coordinator.group.coordinator import GroupCoordinator
    from oncelog.broker.coordinator.group.shard_life import GroupShardLife
    from oncelog.broker.coordinator.transaction.shard_life import TransactionShardLife
    from oncelog.broker.faults.faults import Faults
    from oncelog.broker.security.authorizer import Authorizer
    from oncelog.broker.security.delegation_tokens import DelegationTokens
    from oncelog.broker.storage.local.recovered_log import RecoveryReport
    from oncelog.broker.storage.local.recovery_progress import RecoveryProgress
    from oncelog.broker.storage.local.segment_check import CheckSummary
    from oncelog.broker.witness.findings import Finding
    from oncelog.broker.witness.witness import Witness

WHAT_TO_DO = (
    "stop the broker; `oncelog log verify DIR` shows what is lost, `oncelog log repair DIR` makes it usable again"
)
METADATA_LOG_CONFIG = LogConfig(retention_ms=-1, retention_bytes=-1)


def assemble(config: BrokerConfig, system: System, log: Any, faults: "Faults | None" = None) -> Completion[Broker]:
    """A broker that is recovered and ready to listen; completes once its store has opened every log. `faults` is what
    `system` is wrapped in, if it is. Raises StartError, or fails with it."""
    slices = Slices(system.scheduler)
    return slices.run_own(_explain_errors(config, _assemble(config, system, log, faults, slices)))


def _explain_errors(config: BrokerConfig, assembling: Sliced[Broker]) -> Sliced[Broker]:
    try:
        return (yield from assembling)
    except OSError as error:
        raise StartError(f"cannot start from the data directory {config.data_dir}: {trouble(error)}.") from error


def _assemble(
    config: BrokerConfig, system: System, log: Any, faults: "Faults | None", slices: Slices
) -> Sliced[Broker]:
    system = _machine(config, system)
    metrics = Metrics()
    is_reported = any(config.get(key) for key in METRIC_REPORTERS)
    failure = Failure(system.on_disk_failure)
    purgatory = FetchPurgatory(system.scheduler)
    reports = _FileReports(log, metrics)
    store = _store(config, system, log, failure, reports, stopwatch(metrics.sync_seconds) if is_reported else None)
    rounds = Rounds(system.scheduler, store, failure, stopwatch(metrics.round_seconds) if is_reported else None)
    retention_ms = config.get_int("log.retention.check.interval.ms")
    logs = LogManager(
        store, rounds, purgatory, system.clock, on_damage=reports.on_damage, retention_check_interval_ms=retention_ms
    )
    metadata = yield from _load_metadata(config, system, logs, failure, log)
    leadership = Leadership(config.get_int("node.id"), metadata, system.scheduler)
    leadership.begin(system.entropy.uuid())
    rounds.run_now()  # no client may see a cluster id or leader epochs before they are durable
    live_config = LiveConfig(config, metadata, leadership.node_id)
    _warn_of_security(log, metadata, live_config)
    topics = _topics(config, live_config, system, metadata, leadership, logs, slices)
    for line in (yield from topics.load()):
        log.warning("data_dir.entry", message=line)
    coordinators = _coordinators(
        config, system, faults, rounds, topics, live_config, metadata, leadership, log, TransitionLog(log, metrics)
    )
    witness = _witness(config, system, log)
    broker = Broker(
        live_config=live_config,
        compatibility=COMPATIBILITIES[config.get_str("oncelog.compat")],
        clock=system.clock,
        entropy=system.entropy,
        scheduler=system.scheduler,
        slices=slices,
        leadership=leadership,
        cluster_id=metadata.state.cluster_id or "",
        metadata=metadata,
        topics=topics,
        logs=logs,
        rounds=rounds,
        purgatory=purgatory,
        fetch_sessions=_fetch_sessions(config, system, metrics),
        markers=coordinators.markers,
        transactions=coordinators.transactions,
        groups_when_needed=coordinators.groups,
        metrics=metrics,
        request_observer=RequestObserver(log, metrics, measures=is_reported),
        log=log,
        fetch_max_bytes=config.get_int("fetch.max.bytes"),
        login_secret=partial(_login_secret, store, system),
        authorizer=_authorizer(config, metadata, log),
        tokens=_tokens(config, metadata, system),
        witness=witness,
    )
    _put_around_handlers(broker, faults, witness)
    _load_coordinators(config, coordinators, rounds.ahead, reports, log)
    return broker


def _machine(config: BrokerConfig, system: System) -> System:
    """The machine, its directory checked, and never written by a read-only broker. Raises StartError, OSError."""
    if system.disk is not None:
        check_directory(config, system.disk)
    if not config.get_bool("oncelog.read.only"):
        return system
    from oncelog.broker.assembly.read_only import over_disk

    return over_disk(system)


def _put_around_handlers(broker: Broker, faults: "Faults | None", witness: "Witness | None") -> None:
    """From the inside out; each part is imported only where it is wanted."""
    if broker.config.get_bool("oncelog.read.only"):
        from oncelog.broker.handlers import read_only

        broker.put_around_handlers(read_only.around_handler)
    if faults is not None:
        faults.broker = broker
        broker.put_around_handlers(faults.around_handler)
    if broker.authorizer is not None:  # around the faults: what is not allowed does not reach them
        from oncelog.broker.handlers.rights.guard import guard

        broker.put_around_handlers(guard)
    if witness is not None:  # around the faults: it sees what clients are told
        from oncelog.broker.witness import requests

        broker.put_around_handlers(partial(requests.around_handler, witness))
    if broker.metadata.state.has_quotas:
        from oncelog.broker.requests.throttling import quotas_of

        quotas_of(broker)


def _authorizer(config: BrokerConfig, metadata: MetadataLog, log: Any) -> "Authorizer | None":
    if not config.get_str("authorizer.class.name"):
        return None
    from oncelog.broker.observability.audit import AuditLog
    from oncelog.broker.security.access_rules import AccessRules
    from oncelog.broker.security.authorizer import Authorizer, parse_super_users

    try:
        super_users = parse_super_users(config.get_str("super.users"))
    except ValueError as error:
        raise StartError(f"super.users: {error}; several are separated by semicolons.") from error
    return Authorizer(
        AccessRules(metadata.state.security),
        super_users,
        allows_unruled=config.get_bool("allow.everyone.if.no.acl.found"),
        audit=AuditLog(log).on_decision,
    )


def _login_secret(store: LogStore, system: System) -> bytes:
    from oncelog.broker.security.login_secret import login_secret

    return login_secret(store.blobs, system.entropy)


def _tokens(config: BrokerConfig, metadata: MetadataLog, system: System) -> "DelegationTokens | None":
    if not config.get_str("delegation.token.secret.key"):
        return None
    from oncelog.broker.security.delegation_tokens import DelegationTokens

    return DelegationTokens(
        metadata.state.security, config, system.clock, system.entropy, system.scheduler, metadata.write
    )


def _witness(config: BrokerConfig, system: System, log: Any) -> "Witness | None":
    if not config.get_bool("oncelog.witness.enable"):
        return None
    from oncelog.broker.witness.witness import Witness

    def on_found(finding: "Finding") -> None:
        log.info("witness.found", **asdict(finding))

    return Witness(system.clock, on_found=on_found)


def _warn_of_security(log: Any, metadata: MetadataLog, live_config: LiveConfig) -> None:
    """Warn about settings of TLS and SASL where nothing reads them: they are stored as in Kafka, and operators may rely
    on them."""
    if any(listener.protocol is not SecurityProtocol.PLAINTEXT for listener in live_config.current.listeners):
        return

    def warn(resource_type: int, name: str) -> None:
        if resource_type == ResourceType.BROKER:
            names = sorted(filter(is_security, metadata.state.config(resource_type, name)))
            if names:
                log.warning("config.no_security", settings=names, message="without effect: every listener is PLAINTEXT")

    live_config.watch(warn)
    warn(ResourceType.BROKER, "")
    warn(ResourceType.BROKER, str(live_config.node_id))


def _topics(
    config: BrokerConfig,
    live_config: LiveConfig,
    system: System,
    metadata: MetadataLog,
    leadership: Leadership,
    logs: LogManager,
    slices: Slices,
) -> Topics:
    """The topics; their logs and the cleaner follow settings that change at run time."""
    topics = Topics(
        metadata,
        logs,
        system.entropy,
        leadership,
        lambda topic: log_config_for(topic.config, live_config.current),
        {name: internal_topic_config(name, config) for name in (CONSUMER_OFFSETS, TRANSACTION_STATE)},
        slices,
    )

    def set_up_cleaner(*_: object) -> None:
        current = live_config.current
        logs.store.set_up_compaction(
            current.get_int("log.cleaner.dedupe.buffer.size"), current.get_int("log.cleaner.backoff.ms")
        )

    live_config.watch(topics.on_config_change)
    live_config.watch(set_up_cleaner)
    set_up_cleaner()
    return topics


@dataclass(frozen=True, slots=True)
class _Coordinators:
    markers: PartitionMarkers
    transactions: TransactionCoordinator
    groups: GroupsWhenNeeded
    transaction_runtime: "CoordinatorRuntime[TransactionShardLife]"
    group_runtime: "CoordinatorRuntime[GroupShardLife]"
    loading: CoordinatorLoading
    failures: "_ReplayFailures"


class _ReplayFailures:
    """Decides what follows if a coordinator's log cannot be replayed.

    At a start, and while the logs found there are replayed, the broker stops: an operator must decide about the
    directory. A partition that is gained later only fails itself."""

    def __init__(self, system: System, loading: CoordinatorLoading, log: Any) -> None:
        self._system = system
        self._loading = loading
        self._log = log
        self._is_starting = True
        self._errors: list[KafkaError] = []

    def on_failed(self, error: KafkaError) -> None:
        if self._is_starting:
            self._errors.append(error)
        elif not self._loading.caught_up.done:
            self._system.on_disk_failure(OSError(_not_replayed(error)))
        else:
            self._log.error("coordinator.failed", message=_not_replayed(error))

    def check(self) -> None:
        """At the end of the start. Raises StartError."""
        self._is_starting = False
        for error in self._errors:
            raise StartError(_not_replayed(error)) from error


def _coordinators(
    config: BrokerConfig,
    system: System,
    faults: "Faults | None",
    rounds: Rounds,
    topics: Topics,
    live_config: LiveConfig,
    metadata: MetadataLog,
    leadership: Leadership,
    log: Any,
    transitions: TransitionListener,
) -> _Coordinators:
    """Both coordinators, not replayed yet; markers for offsets go through the group runtime."""
    loading = CoordinatorLoading(system.scheduler)
    failures = _ReplayFailures(system, loading, log)
    system, channel_to = _time_and_channel(config, system)

    def runtime_of(topic: str, make_shard: Callable[[int, int], ShardT]) -> CoordinatorRuntime[ShardT]:
        source, epoch_of = InternalTopicSource(topics, topic), leadership.epoch_of
        runtime = CoordinatorRuntime(topic, source, make_shard, system.clock, loading, epoch_of, failures.on_failed)
        topics.watch(runtime.on_topic_changed)
        return runtime

    def make_groups() -> "GroupCoordinator":
        from oncelog.broker.assembly.groups import assemble_groups

        return assemble_groups(config, system, group_runtime, topics, live_config, metadata)

    groups = GroupsWhenNeeded(make_groups)

    group_runtime = runtime_of(CONSUMER_OFFSETS, lambda partition, epoch: groups.get().make_shard(partition, epoch))

    def transaction_shard(partition: int, epoch: int) -> "TransactionShardLife":
        return transactions.make_shard(partition, epoch)

    transaction_runtime = runtime_of(TRANSACTION_STATE, transaction_shard)
    markers = PartitionMarkers(topics, group_runtime, system.clock)
    channel = channel_to(leadership.node_id, markers)
    if faults is not None:
        channel = faults.around_markers(channel)
        transitions = faults.around_listener(transitions)
    transactions = TransactionCoordinator(
        transaction_runtime,
        ProducerIdManager(metadata, lambda: leadership.registration),
        TransactionDependencies(
            channel,
            leadership.node_of,
            system.clock,
            system.scheduler,
            _transaction_limits(config),
            transitions,
            lambda: metadata.state.features.get("transaction.version", 0),
            lambda: rounds.are_whole,
            rounds.answer_ahead,
            lambda: rounds.ahead.may_be_lost and not config.get_bool("oncelog.read.only"),
        ),
    )
    if faults is not None:
        faults.watch(transactions)
    return _Coordinators(markers, transactions, groups, transaction_runtime, group_runtime, loading, failures)


def _time_and_channel(
    config: BrokerConfig, system: System
) -> tuple[System, Callable[[int, PartitionMarkers], MarkerSender]]:
    """The machine of the coordinators, and what makes the channel of their markers: in a read-only broker nothing
    ends."""
    if not config.get_bool("oncelog.read.only"):
        return system, LocalMarkerChannel
    from oncelog.broker.assembly.read_only import HeldMarkers, without_timers

    return without_timers(system), lambda *_: HeldMarkers()


def _load_coordinators(
    config: BrokerConfig, coordinators: _Coordinators, ahead: AnswersAhead, reports: "_FileReports", log: Any
) -> None:
    """Offsets first: markers of transactions that are completed also end offset commits."""
    coordinators.group_runtime.gain_all()
    coordinators.transaction_runtime.gain_all()
    coordinators.loading.begin()
    coordinators.failures.check()
    if config.get_bool("oncelog.read.only"):
        return

    def on_aborted(aborted: Completion[int]) -> None:
        if aborted.error is not None:
            return
        try:
            ahead.settle()
        except OSError as error:
            line = f"{trouble(error)}; until then a start after a kill aborts what is open"
            reports.on_problem("data_dir.entry", line)
        if aborted.result():
            message = "the machine stopped before the broker did: they may lack records. Their producers are fenced"
            log.warning("transactions.aborted", transactions=aborted.result(), message=message)

    coordinators.loading.caught_up.then(lambda _: coordinators.transactions.when_aborted().then(on_aborted))


def _not_replayed(error: KafkaError) -> str:
    return f"{error}; {WHAT_TO_DO}."


def _store(
    config: BrokerConfig,
    system: System,
    log: Any,
    failure: Failure,
    reports: "_FileReports",
    stopwatch: Stopwatch | None,
) -> LogStore:
    """The store of records, no log open yet; problems of files are logged, and syncs measured."""
    failure.space.watch(SpaceLog(log, str(config.data_dir)), system.clock)
    compaction = _compaction(config, system.scheduler, log)
    if system.disk is None:
        from oncelog.broker.storage.memory.store import MemoryLogStore  # a start from files needs none of it

        return MemoryLogStore(system.clock, failure, compaction)
    store = LocalLogStore(
        system.disk,
        system.clock,
        system.scheduler,
        failure,
        policy=config.get_str("oncelog.flush.policy"),
        journal_file_bytes=config.get_int("oncelog.journal.file.bytes"),
        appends_on_loop=config.get_int("oncelog.flush.loop.appends"),
        run_all=system.run_all,
        on_report=reports.on_recovery,
        on_checked=lambda summary: _log_check(log, summary),
        progress=_progress(system, log),
        compatibility=COMPATIBILITIES[config.get_str("oncelog.compat")],
        compaction=compaction,
        stopwatch=stopwatch,
    )
    for line in store.problems:
        reports.on_problem("data_dir.damaged", line)
    return store


def _load_metadata(
    config: BrokerConfig, system: System, logs: LogManager, failure: Failure, log: Any
) -> Sliced[MetadataLog]:
    """The replayed metadata log; a first start writes the cluster id and the features of this release."""
    max_new_bytes = config.get_int("metadata.log.max.record.bytes.between.snapshots")
    # A segment is deleted as a whole, so it should contain no more than lies between two snapshots.
    log_config = replace(METADATA_LOG_CONFIG, segment_bytes=min(METADATA_LOG_CONFIG.segment_bytes, max_new_bytes))
    metadata_log = yield from logs.open(METADATA_TOPIC, 0, METADATA_TOPIC_ID, log_config)
    if metadata_log.offline_error is not None:
        raise StartError(f"the metadata log is damaged: {metadata_log.offline_error}; {WHAT_TO_DO}.")
    snapshots = SnapshotSettings(
        scheduler=system.scheduler,
        max_new_bytes=max_new_bytes,
        max_interval_ms=config.get_int("metadata.log.max.snapshot.interval.ms"),
        delete_log_below=logs.delete_records,
        failure=failure,
    )
    files = SnapshotFiles(logs.store.blobs, directory_of(METADATA_TOPIC, 0))
    metadata = MetadataLog(metadata_log, system.clock, files, snapshots)
    try:
        for line in (yield from metadata.load()):
            log.warning("metadata.snapshot", message=line)
    except KafkaError as error:
        raise StartError(f"the metadata log cannot be replayed: {error}; {WHAT_TO_DO}.") from error
    wanted = config.get_str("cluster.id")
    known = metadata.state.cluster_id
    if known is None:
        others = [directory_of(*place) for place in logs.store.partitions() if place != (METADATA_TOPIC, 0)]
        if others and not metadata_log.log_end_offset:  # otherwise a repair has left it empty
            raise StartError(
                f"{config.data_dir} holds partitions ({printable_names(others)}), but its metadata log is gone: put "
                f"{directory_of(METADATA_TOPIC, 0)} back from a copy, or start with another --data-dir."
            )
        cluster_id = wanted or urlsafe_b64encode(system.entropy.uuid().bytes).decode().rstrip("=")
        written = metadata.write(cluster_id_records(cluster_id, first_levels(config.get_int)))
        if written.error is not None:
            raise StartError(f"cannot write into the data directory {config.data_dir}: {written.error}.")
    elif wanted and wanted != known:
        raise StartError(
            f"the data directory {config.data_dir} belongs to the cluster {known}, not to {wanted}: "
            "drop cluster.id, or use another --data-dir."
        )
    return metadata


def _fetch_sessions(config: BrokerConfig, system: System, metrics: Metrics) -> FetchSessionCache:
    slot_count = config.get_int("max.incremental.fetch.session.cache.slots")
    return FetchSessionCache(slot_count, system.clock, system.entropy, metrics)


def _compaction(config: BrokerConfig, scheduler: Scheduler, log: Any) -> CompactionSettings | None:
    if not config.get_bool("log.cleaner.enable"):
        return None
    return CompactionSettings(
        scheduler,
        config.get_int("log.cleaner.dedupe.buffer.size"),
        config.get_int("log.cleaner.backoff.ms"),
        lambda problem: log.warning("log.compaction", message=problem),
    )


def _log_check(log: Any, summary: "CheckSummary") -> None:
    log.info(
        "log.checked",
        segments=summary.segment_count,
        bytes=summary.checked_bytes,
        duration_ms=summary.duration_ms,
        damaged=summary.damaged_count,
    )


def _progress(system: System, log: Any) -> "RecoveryProgress | None":
    """None at a first start, which recovers nothing."""
    if system.disk is None or not system.disk.exists(directory_of(METADATA_TOPIC, 0)):
        return None
    from oncelog.broker.storage.local.recovery_progress import RecoveryProgress

    def report(scanned_bytes: int, partition_count: int, name: str) -> None:
        log.info("log.recovering", partitions_done=partition_count, bytes_read=scanned_bytes, reading=name)

    return RecoveryProgress(system.clock, report)


class _FileReports:
    """Logs and counts what is reported about files."""

    def __init__(self, log: Any, metrics: Metrics) -> None:
        self._log = log
        self._metrics = metrics

    def on_problem(self, event: str, line: str, **where: Any) -> None:
        self._metrics.file_problems += 1
        report = self._log.error if event == "log.offline" else self._log.warning
        report(event, **where, message=line)

    def on_recovery(self, report: "RecoveryReport") -> None:
        event = "log.offline" if report.offline_error else "log.recovered"
        for line in report.lines:
            text = f"{line}; {WHAT_TO_DO}" if line == report.offline_error else line
            self.on_problem(event, text, topic=report.topic, partition=report.partition)

    def on_damage(self, damaged: PartitionLog, line: str) -> None:
        self.on_problem("log.offline", f"{line}; {WHAT_TO_DO}", topic=damaged.topic, partition=damaged.partition)


def _transaction_limits(config: BrokerConfig) -> TransactionLimits:
    compatibility = COMPATIBILITIES[config.get_str("oncelog.compat")]
    return TransactionLimits(
        max_timeout_ms=config.get_int("transaction.max.timeout.ms"),
        id_expiration_ms=config.get_int("transactional.id.expiration.ms"),
        expiry_interval_ms=config.get_int("transaction.remove.expired.transaction.cleanup.interval.ms"),
        timeout_check_interval_ms=0
        if compatibility.aborts_in_time
        else config.get_int("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        two_phase_commit=config.get_bool("transaction.two.phase.commit.enable"),
        compatibility=compatibility,
    )
