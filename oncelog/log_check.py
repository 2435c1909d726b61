"""`oncelog log verify` and `oncelog log repair`: what a start would make of a data directory, and what is lost in it.

Owns: the way through a whole directory. Does not own: the judgement of one partition (`broker.log.recovery`, which is
asked over a disk that takes no change, and `broker.log.survey`), the command line.
Invariant: verifying changes nothing, except that it holds the directory's lock meanwhile.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from uuid import UUID

from broker.assembly import METADATA_LOG_CONFIG
from broker.config import load_config
from broker.log.compaction.cleaner import CleanerCheckpoint
from broker.log.flush_journal import FlushedOffsets
from broker.log.flusher import Flusher
from broker.log.log_config import LogConfig
from broker.log.log_manager import LogManager
from broker.log.overlay_disk import OverlayDisk
from broker.log.partition_directory import directory_of
from broker.log.partition_log import PartitionLog
from broker.log.recovery import RecoveryReport
from broker.log.repair import repair_partition
from broker.log.segment_check import find_damage
from broker.log.survey import Survey, survey_partition
from broker.metadata_log import METADATA_TOPIC, METADATA_TOPIC_ID, MetadataLog, Topic
from broker.metadata_snapshot import SnapshotFiles
from broker.ports import Disk
from broker.system.clock import SystemClock
from broker.topic_config import log_config_for


class NoDataDirectory(Exception):
    """There is nothing to check; the message says why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a start would make of one partition."""

    topic: str
    partition: int
    segment_count: int
    log_start_offset: int
    log_end_offset: int
    size_bytes: int
    notes: tuple[str, ...]
    """What recovery would tell, or do, without anything being lost."""
    problem: str | None
    survey: Survey | None
    """What can be kept, if there is a problem."""

    @property
    def name(self) -> str:
        return directory_of(self.topic, self.partition)


@dataclass(slots=True)
class Examination:
    findings: list[Finding] = field(default_factory=list)
    unknown_directories: list[str] = field(default_factory=list)
    """Directories of partitions that the metadata log does not know."""

    @property
    def damaged(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.problem is not None]


def examine(disk: Disk, on_partition: Callable[[str], None] | None = None) -> Examination:
    """Read all of a directory that no broker serves. `on_partition` hears of each before its turn."""
    examiner = _Examiner(OverlayDisk(disk), on_partition)
    examiner.run()
    return examiner.examination


def repair(disk: Disk, damaged: list[Finding]) -> list[str]:
    """Do what `examine` has announced, then let a start rebuild the rest; the files that keep the old bytes."""
    kept: list[str] = []
    for finding in damaged:
        if finding.survey is not None:
            kept += repair_partition(disk, finding.survey)
    directory = _Directory(disk)
    for topic, partition, topic_id, config in directory.partitions():
        directory.logs.open(topic, partition, topic_id, config)
    problem = directory.logs.close()
    if problem is not None:
        raise problem
    return kept


class _Directory:
    """The logs of a data directory, and what the metadata log says of them."""

    def __init__(self, disk: Disk) -> None:
        self.reports: list[RecoveryReport] = []
        self.metadata_lines: tuple[str, ...] = ()
        """What a start would say of the snapshots of the metadata."""
        self._disk = disk
        self._clock = SystemClock()
        # Before the logs are: they will write this file anew, and one that is only read must not.
        self.points = FlushedOffsets(disk)
        flusher = Flusher(_NoLoop(), "fsync", _raise)
        self.logs = LogManager(disk, self._clock, flusher, _NobodyListens(), on_report=self.reports.append)
        self.cleaned = CleanerCheckpoint(disk)
        self._config, _ = load_config()

    def metadata_log(self) -> PartitionLog:
        return self.logs.open(METADATA_TOPIC, 0, METADATA_TOPIC_ID, METADATA_LOG_CONFIG)

    def config_of(self, topic: Topic) -> LogConfig:
        return log_config_for(topic.config, self._config)

    def partitions(self) -> Iterator[tuple[str, int, UUID, LogConfig]]:
        """Every partition that has files and that the metadata log knows, the metadata log itself first."""
        yield METADATA_TOPIC, 0, METADATA_TOPIC_ID, METADATA_LOG_CONFIG
        files = SnapshotFiles(self._disk, directory_of(METADATA_TOPIC, 0))
        metadata = MetadataLog(self.metadata_log(), self._clock, files)
        self.metadata_lines = tuple(metadata.load())
        for name, partition in self.logs.directory.partitions():
            topic = metadata.state.topics.get(name)
            if topic is not None and partition < topic.partition_count:
                yield name, partition, topic.topic_id, self.config_of(topic)


class _Examiner:
    def __init__(self, disk: OverlayDisk, on_partition: Callable[[str], None] | None) -> None:
        self.examination = Examination()
        self._disk = disk
        self._on_partition = on_partition

    def run(self) -> None:
        if not self._disk.exists(directory_of(METADATA_TOPIC, 0)) and not self._disk.exists("flushed-offsets"):
            raise NoDataDirectory("this is no data directory of a broker: it has no metadata log")
        directory = _Directory(self._disk)
        metadata = self._examine(directory, METADATA_TOPIC, 0, METADATA_TOPIC_ID, METADATA_LOG_CONFIG)
        if metadata.survey is not None:
            # Go on with what a repair would make of it: otherwise nobody knows which partitions there are.
            repair_partition(self._disk, metadata.survey)
            directory = _Directory(self._disk)
        known: set[str] = set()
        for topic, partition, topic_id, config in directory.partitions():
            known.add(directory_of(topic, partition))
            if topic != METADATA_TOPIC:
                self._examine(directory, topic, partition, topic_id, config)
        first = self.examination.findings[0]
        self.examination.findings[0] = replace(first, notes=first.notes + directory.metadata_lines)
        found = [directory_of(*place) for place in directory.logs.directory.partitions()]
        self.examination.unknown_directories = [name for name in found if name not in known]

    def _examine(self, directory: _Directory, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> Finding:
        if self._on_partition is not None:
            self._on_partition(directory_of(topic, partition))
        reported = len(directory.reports)
        points = directory.points.get(topic_id, partition)
        log = directory.logs.open(topic, partition, topic_id, config)
        lines = [line for report in directory.reports[reported:] for line in report.lines]
        problem = log.offline_error or self._damage_of(log)
        survey = None
        if problem is not None:
            survey = survey_partition(
                self._disk,
                directory_of(topic, partition),
                points.log_start_offset if points is not None else None,
                points.synced_offset if points is not None else 0,
                has_gaps=config.is_compacted or directory.cleaned.get(topic, partition) > 0,
                can_go_on=topic != METADATA_TOPIC,
            )
        finding = Finding(
            topic,
            partition,
            len(log.segments) if survey is None else sum(file.size_bytes is not None for file in survey.files),
            log.log_start_offset,
            log.log_end_offset if survey is None else survey.end_offset,
            log.size_bytes if survey is None else sum(file.size_bytes or 0 for file in survey.files),
            tuple(line for line in lines if line != problem),
            problem,
            survey,
        )
        self.examination.findings.append(finding)
        return finding

    def _damage_of(self, log: PartitionLog) -> str | None:
        for segment in log.segments:
            problem = find_damage(self._disk, segment)
            if problem is not None:
                return problem
        return None


class _NoLoop:
    """Nothing is appended here, so there is nothing to do later."""

    def call_soon(self, function: Callable[[], None]) -> None:
        return

    def call_later(self, delay_ms: float, function: Callable[[], None]) -> "_NoLoop":
        return self

    def run_in_thread(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        return

    def cancel(self) -> None:
        return


class _NobodyListens:
    def on_high_watermark(self, log: PartitionLog) -> None:
        return

    def on_last_stable_offset(self, log: PartitionLog) -> None:
        return

    def on_log_start_offset(self, log: PartitionLog) -> None:
        return


def _raise(error: OSError) -> None:
    raise error
