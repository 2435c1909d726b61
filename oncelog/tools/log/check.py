"""`oncelog log verify` and `oncelog log repair`: what a start would do with a data directory, and what is lost in it.

Owns: going through a whole directory. Does not own: the verdict on one partition (`broker.storage.local.recovery`,
which runs over a disk that ignores changes, and `broker.storage.local.survey`), the command line.
Invariants
- Verifying changes nothing, except that it holds the directory's lock meanwhile.
- Only blocks that the disk cannot read count as lost (`salvage_disk`); a file without permission, or one in another's
  place, is left to the operator.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from uuid import UUID

from oncelog.broker.assembly.broker import METADATA_LOG_CONFIG
from oncelog.broker.cluster.metadata_log import MetadataLog, Topic
from oncelog.broker.cluster.metadata_snapshot import SnapshotFiles
from oncelog.broker.config.settings import load_config
from oncelog.broker.config.topic_config import log_config_for
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.rounds import Rounds
from oncelog.broker.log.store import Failure
from oncelog.broker.ports import Disk
from oncelog.broker.slices import at_once
from oncelog.broker.storage.local.checkpoints import CLEANER_OFFSET, LEADER_EPOCHS, CleanerCheckpoint
from oncelog.broker.storage.local.flushed_offsets import NAME as FLUSHED_OFFSETS
from oncelog.broker.storage.local.journal import NAMES as JOURNALS
from oncelog.broker.storage.local.log_store import LocalLogStore
from oncelog.broker.storage.local.overlay_disk import OverlayDisk
from oncelog.broker.storage.local.partition_directory import PARTITION_METADATA, directory_of, read_topic_id
from oncelog.broker.storage.local.recovery import RecoveryReport
from oncelog.broker.storage.local.repair import repair_partition
from oncelog.broker.storage.local.segment import LOG_SUFFIX
from oncelog.broker.storage.local.segment_check import find_damage
from oncelog.broker.storage.local.segment_manifest import NAME as MANIFEST
from oncelog.broker.storage.local.segments import Segments
from oncelog.broker.storage.local.survey import Survey, survey_partition
from oncelog.broker.system.clock import SystemClock
from oncelog.protocol.topics import METADATA_TOPIC, METADATA_TOPIC_ID
from oncelog.tools.log.salvage_disk import SalvageDisk

_READ_AT_A_START = (FLUSHED_OFFSETS, *JOURNALS, CLEANER_OFFSET)


class NoDataDirectory(Exception):
    """There is nothing to check; the message says why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a start would do with one partition."""

    topic: str
    partition: int
    segment_count: int
    log_start_offset: int
    log_end_offset: int
    size_bytes: int
    notes: tuple[str, ...]
    """What recovery would report, or do, without losing anything."""
    problem: str | None
    survey: Survey | None
    """What can be kept, if there is a problem; None if no repair may touch these files."""

    @property
    def name(self) -> str:
        return directory_of(self.topic, self.partition)


@dataclass(slots=True)
class Examination:
    findings: list[Finding] = field(default_factory=list)
    unknown_directories: list[str] = field(default_factory=list)
    """Directories of partitions that are unknown to the metadata log."""
    problems: list[str] = field(default_factory=list)
    """Problems with files of the whole directory."""

    @property
    def is_damaged(self) -> bool:
        return bool(self.problems or self.damaged)

    @property
    def damaged(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.problem is not None]


def examine(disk: Disk, on_partition: Callable[[str], None] | None = None) -> Examination:
    """Read all of a directory that no broker serves. `on_partition` is called before each partition.

    Raises NoDataDirectory, KafkaError when the metadata log is inconsistent, OSError when access to a file of the whole
    directory is denied."""
    examiner = _Examiner(SalvageDisk(disk), on_partition)
    examiner.run()
    return examiner.examination


def repair(disk: Disk, damaged: list[Finding]) -> list[str]:
    """Do what `examine` has announced, then rebuild the rest as a start would; returns the files with the old bytes."""
    kept: list[str] = []
    salvage = SalvageDisk(disk)
    for name in _READ_AT_A_START:
        if salvage.exists(name):
            data = salvage.read_bytes(name)
            if name in salvage.bad_files:
                salvage.write_atomically(name, data)
    _Directory(disk).settle_journal(damaged)
    for finding in damaged:
        if finding.survey is not None:
            kept += repair_partition(salvage, finding.survey)
            _drop_unreadable(salvage, finding.name)
    directory = _Directory(disk)
    for topic, partition, topic_id, config in directory.partitions():
        at_once(directory.logs.open(topic, partition, topic_id, config))
    directory.logs.complete_recovery()
    directory.store.begin_serving()
    problem = directory.logs.close()
    if problem is not None:
        raise problem
    return kept


def _drop_unreadable(salvage: SalvageDisk, directory: str) -> None:
    """All but the `.log` can be rebuilt, and an unreadable file would prevent that."""
    for name in salvage.list_dir(directory):
        path = f"{directory}/{name}"
        if _is_of_a_log(name) and LOG_SUFFIX not in name:
            salvage.read_bytes(path)
            if path in salvage.bad_files:
                salvage.delete(path)


def _is_of_a_log(name: str) -> bool:
    return name[:20].isdecimal() or name in (MANIFEST, LEADER_EPOCHS, PARTITION_METADATA)


class _Directory:
    """The logs of a data directory, and what the metadata log says about them."""

    def __init__(self, disk: Disk) -> None:
        self.reports: list[RecoveryReport] = []
        self.metadata_lines: tuple[str, ...] = ()
        """What a start would report about the metadata snapshots."""
        self._disk = disk
        self._clock = SystemClock()
        loop, failure = _NoLoop(), Failure(_raise)
        self.store = LocalLogStore(
            disk, self._clock, loop, failure, on_report=self.reports.append, measures_syncs=False
        )
        self.logs = LogManager(self.store, Rounds(loop, self.store, failure), _NoListener(), self._clock)
        self.cleaned = CleanerCheckpoint(disk)
        self._config, _ = load_config()

    def is_its_own(self, topic: str, partition: int, topic_id: UUID) -> bool:
        """Whether the files in a partition's place are this topic's, and all of them are accessible."""
        directory = directory_of(topic, partition)
        try:
            for name in filter(_is_of_a_log, self._disk.list_dir(directory)):
                self._disk.read_range(f"{directory}/{name}", 0, 1)
            return self.store.directory.claim(topic, partition, topic_id, []) is None
        except OSError:
            return False

    def settle_journal(self, damaged: Sequence["Finding"]) -> None:
        """Before segments are repaired. A damaged metadata log names no partitions: those with directories have ids."""
        directories = {}
        for topic, partition in self.store.partitions():
            with suppress(OSError):
                topic_id = read_topic_id(self._disk, directory_of(topic, partition))
                if topic_id is not None:
                    directories[topic_id, partition] = directory_of(topic, partition)
        if not any(finding.topic == METADATA_TOPIC for finding in damaged):
            for topic, partition, topic_id, _ in self.partitions():
                directories.setdefault((topic_id, partition), directory_of(topic, partition))
        self.store.settle_journal(directories)

    def metadata_log(self) -> PartitionLog:
        return at_once(self.logs.open(METADATA_TOPIC, 0, METADATA_TOPIC_ID, METADATA_LOG_CONFIG))

    def config_of(self, topic: Topic) -> LogConfig:
        return log_config_for(topic.config, self._config)

    def partitions(self) -> Iterator[tuple[str, int, UUID, LogConfig]]:
        """Every partition that the metadata log knows and that has or had files, the metadata log itself first."""
        yield METADATA_TOPIC, 0, METADATA_TOPIC_ID, METADATA_LOG_CONFIG
        files = SnapshotFiles(self._disk, directory_of(METADATA_TOPIC, 0))
        metadata = MetadataLog(self.metadata_log(), self._clock, files)
        self.metadata_lines = tuple(at_once(metadata.load()))
        found = [
            (directory_of(topic.name, index), index, topic)
            for topic in metadata.state.topics.values()
            for index in range(topic.partition_count)
            if self.store.holds(topic.name, index, topic.topic_id)
        ]
        for _, index, topic in sorted(found, key=lambda place: place[0]):
            yield topic.name, index, topic.topic_id, self.config_of(topic)


class _Examiner:
    def __init__(self, salvage: SalvageDisk, on_partition: Callable[[str], None] | None) -> None:
        self.examination = Examination()
        self._salvage = salvage
        self._disk = OverlayDisk(salvage)
        self._on_partition = on_partition

    def run(self) -> None:
        if not self._disk.exists(directory_of(METADATA_TOPIC, 0)) and not self._disk.exists("flushed-offsets"):
            raise NoDataDirectory("this is not a data directory of a broker: it has no metadata log")
        directory = _Directory(self._disk)
        self.examination.problems = [
            *directory.store.problems,
            *(f"{name} cannot be read" for name in sorted(self._salvage.bad_files)),
        ]
        metadata = self._examine(directory, METADATA_TOPIC, 0, METADATA_TOPIC_ID, METADATA_LOG_CONFIG)
        if metadata.problem is not None and metadata.survey is None:
            raise NoDataDirectory(f"nothing can be checked without the metadata log: {metadata.problem}")
        if metadata.survey is not None:
            # Continue with what a repair would leave: otherwise the partitions are unknown.
            repair_partition(self._disk, metadata.survey)
            directory = _Directory(self._disk)
        known: set[str] = set()
        for topic, partition, topic_id, config in directory.partitions():
            known.add(directory_of(topic, partition))
            if topic != METADATA_TOPIC:
                self._examine(directory, topic, partition, topic_id, config)
        first = self.examination.findings[0]
        self.examination.findings[0] = replace(first, notes=first.notes + directory.metadata_lines)
        found = [directory_of(*place) for place in directory.store.directory.partitions()]
        self.examination.unknown_directories = [name for name in found if name not in known]

    def _examine(self, directory: _Directory, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> Finding:
        if self._on_partition is not None:
            self._on_partition(directory_of(topic, partition))
        reported = len(directory.reports)
        points = directory.store.points(topic_id, partition)
        log = at_once(directory.logs.open(topic, partition, topic_id, config))
        lines = [line for report in directory.reports[reported:] for line in report.lines]
        segments = directory.store.get(topic, partition).segments
        problem = log.offline_error or self._damage_of(segments) or self._bad_file(directory_of(topic, partition))
        survey = None
        if problem is not None and directory.is_its_own(topic, partition, topic_id):
            with suppress(OSError):
                survey = survey_partition(
                    self._disk,
                    directory_of(topic, partition),
                    points.log_start_offset if points is not None else None,
                    points.synced_offset if points is not None else 0,
                    has_gaps=config.is_compacted or directory.cleaned.get(topic, partition) > 0,
                    can_skip_damage=topic != METADATA_TOPIC,
                )
        finding = Finding(
            topic,
            partition,
            len(segments) if survey is None else sum(file.size_bytes is not None for file in survey.files),
            log.log_start_offset,
            log.log_end_offset if survey is None else survey.end_offset,
            log.size_bytes if survey is None else sum(file.size_bytes or 0 for file in survey.files),
            tuple(line for line in lines if line != problem),
            problem,
            survey,
        )
        self.examination.findings.append(finding)
        return finding

    def _bad_file(self, directory: str) -> str | None:
        bad = [path for path in sorted(self._salvage.bad_files) if path.startswith(f"{directory}/")]
        return f"{bad[0]} cannot be read" if bad else None

    def _damage_of(self, segments: Segments) -> str | None:
        for segment in segments:
            problem = find_damage(self._disk, segment)
            if problem is not None:
                return problem
        return None


class _NoLoop:
    """Nothing is appended here, so nothing is scheduled."""

    def call_soon(self, function: Callable[[], None]) -> None:
        return

    def call_later(self, delay_ms: float, function: Callable[[], None]) -> "_NoLoop":
        return self

    def run_beside(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self.run_in_thread(function, done)

    def run_in_thread(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        return

    def cancel(self) -> None:
        return


class _NoListener:
    def on_high_watermark(self, log: PartitionLog) -> None:
        return

    def on_last_stable_offset(self, log: PartitionLog) -> None:
        return

    def on_log_start_offset(self, log: PartitionLog) -> None:
        return


def _raise(error: OSError) -> None:
    raise error
