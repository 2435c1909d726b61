"""Builds the store of records, and loads the metadata log from it.

Owns: which store it is, and what operators read about its files.
"""

from base64 import urlsafe_b64encode
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from oncelog.broker.apis.compatibility import COMPATIBILITIES, Compatibility
from oncelog.broker.cluster.features import first_levels
from oncelog.broker.cluster.metadata_log import (
    MetadataLog,
    SnapshotSettings,
    cluster_id_records,
)
from oncelog.broker.cluster.metadata_snapshot import SnapshotFiles
from oncelog.broker.config.config_key import INT64_MAX
from oncelog.broker.config.settings import BrokerConfig, StartError
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.store import LogStore
from oncelog.broker.observability.metrics import Metrics
from oncelog.broker.observability.troubles import FILES, TroubleLog
from oncelog.broker.storage.compaction.cleaner import CompactionSettings
from oncelog.broker.storage.local.file_sync import SyncSettings
from oncelog.broker.storage.local.log_store import LocalLogStore
from oncelog.broker.storage.local.partition_directory import directory_of
from oncelog.broker.turns.machine import System
from oncelog.broker.turns.ports import Scheduler, Stopwatch
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.printable import printable_names
from oncelog.protocol.topics import INTERNAL_TOPICS, METADATA_TOPIC, METADATA_TOPIC_ID

if TYPE_CHECKING:
    from oncelog.broker.storage.local.recovered_log import RecoveryReport
    from oncelog.broker.storage.local.recovery_progress import RecoveryProgress
    from oncelog.broker.storage.local.segment_check import CheckSummary
    from oncelog.broker.succession.process import Succession

WHAT_TO_DO = (
    "stop the broker; `oncelog log verify DIR` shows what is lost, `oncelog log repair DIR` makes it usable again"
)
METADATA_LOG_CONFIG = LogConfig(retention_ms=-1, retention_bytes=-1, flush_messages=1)
"""Synced under `oncelog.flush.policy=os`, too, as Kafka's is: the records of an unknown topic are lost."""


def compatibility_of(config: BrokerConfig) -> Compatibility:
    """Where this broker differs from Apache Kafka on purpose, as `oncelog.compat` wants it."""
    return COMPATIBILITIES[config.get_str("oncelog.compat")]


def make_store(
    config: BrokerConfig,
    system: System,
    log: Any,
    reports: "FileReports",
    stopwatch: Stopwatch | None,
    succession: "Succession | None" = None,
) -> Sliced[LogStore]:
    """The store of records, no log open yet; problems of files are logged, and syncs measured. With `succession` it is
    that of a node that has the lease already."""
    compaction = _compaction(config, system.scheduler, log)
    if config.get_str("oncelog.storage") == "postgres":
        from oncelog.broker.assembly.postgres import open_postgres

        return (yield from open_postgres(config, system, log, compaction, stopwatch, succession))
    if system.disk is None:
        from oncelog.broker.storage.memory.store import MemoryLogStore  # a start from files needs none of it

        return MemoryLogStore(system.clock, compaction)
    store = LocalLogStore(
        system.disk,
        system.clock,
        system.scheduler,
        system.on_disk_failure,
        syncing=SyncSettings(
            policy=config.get_str("oncelog.flush.policy"),
            appends_on_loop=config.get_int("oncelog.flush.loop.appends"),
            flush_look_ms=_flush_look_ms(config),
            run_all=system.run_all,
            stopwatch=stopwatch,
        ),
        journal_file_bytes=config.get_int("oncelog.journal.file.bytes"),
        on_report=reports.on_recovery,
        on_checked=lambda summary: _log_check(log, summary),
        progress=_progress(system, log),
        compatibility=compatibility_of(config),
        compaction=compaction,
        space_listener=TroubleLog(log, str(config.data_dir), FILES),
    )
    if store.durability.may_be_older:
        log.warning(
            "directory.restored",
            data_dir=str(config.data_dir),
            message="it was restored from a backup: what came after that is lost. Leader epochs and producer ids "
            "continue far above those of before, so that clients notice",
        )
    for line in store.problems:
        reports.on_problem("data_dir.damaged", line)
    return store


def load_metadata(config: BrokerConfig, system: System, logs: LogManager, log: Any) -> Sliced[MetadataLog]:
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
        on_error=logs.store.on_background_error,
    )
    files = SnapshotFiles(logs.store.blobs, directory_of(METADATA_TOPIC, 0))
    metadata = MetadataLog(metadata_log, system.clock, files, snapshots)
    try:
        for line in (yield from metadata.load()):
            log.warning("metadata.snapshot", message=line)
    except KafkaError as error:
        raise StartError(f"the metadata log cannot be replayed: {error}; {WHAT_TO_DO}.") from error
    wanted, place = config.get_str("cluster.id"), config.place
    known = metadata.state.cluster_id
    if known is None:
        others = [directory_of(*place) for place in logs.store.topics.partitions() if place != (METADATA_TOPIC, 0)]
        if others and not metadata_log.log_end_offset:  # otherwise a repair has left it empty
            raise StartError(
                f"{place.name} holds partitions ({printable_names(others)}), but its metadata log is gone: put "
                f"{directory_of(METADATA_TOPIC, 0)} back from a copy, or start with another {place.option}."
            )
        cluster_id = wanted or urlsafe_b64encode(system.entropy.uuid().bytes).decode().rstrip("=")
        written = metadata.write(cluster_id_records(cluster_id, first_levels(config.get_int)))
        if written.error is not None:
            raise StartError(f"cannot write into {place.name}: {written.error}.")
    elif wanted and wanted != known:
        raise StartError(
            f"{place.name} belongs to the cluster {known}, not to {wanted}: "
            f"drop cluster.id, or use another {place.option}."
        )
    return metadata


def _flush_look_ms(config: BrokerConfig) -> int:
    """Kafka looks only where the interval is set. A topic's `flush.ms` alone is enough here."""
    interval_ms = config.get_int("log.flush.scheduler.interval.ms")
    return 0 if interval_ms == INT64_MAX else interval_ms


def _compaction(config: BrokerConfig, scheduler: Scheduler, log: Any) -> CompactionSettings | None:
    if not config.get_bool("log.cleaner.enable"):
        return None
    return CompactionSettings(
        scheduler,
        config.get_int("log.cleaner.dedupe.buffer.size"),
        config.get_int("log.cleaner.backoff.ms"),
        lambda problem: log.warning("log.compaction", message=problem),
        INTERNAL_TOPICS,
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
    """Return the reporter of a recovery's progress; None at a first start, which recovers nothing."""
    if system.disk is None or not system.disk.exists(directory_of(METADATA_TOPIC, 0)):
        return None
    from oncelog.broker.storage.local.recovery_progress import RecoveryProgress

    def report(scanned_bytes: int, partition_count: int, name: str) -> None:
        log.info("log.recovering", partitions_done=partition_count, bytes_read=scanned_bytes, reading=name)

    return RecoveryProgress(system.clock, report)


class FileReports:
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
