"""`oncelog log verify` and `oncelog log repair`: what a start would do with a data directory, and what is lost in it.

Owns: going through a whole directory. Does not own: the verdict on one partition (`broker.storage.local.recovery`,
which runs over a disk that ignores changes, and `broker.storage.local.survey`), the command line.
Invariants
- Verifying changes nothing, except that it holds the directory's lock meanwhile.
- Only blocks that the disk cannot read count as lost (`salvage_disk`); a file without permission, or one in another's
  place, is left to the operator.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from uuid import UUID

from oncelog.broker.assembly.storage import METADATA_LOG_CONFIG
from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.storage.local.checkpoints import CLEANER_OFFSET
from oncelog.broker.storage.local.flushed_offsets import NAME as FLUSHED_OFFSETS
from oncelog.broker.storage.local.journal import NAMES as JOURNALS
from oncelog.broker.storage.local.overlay_disk import OverlayDisk
from oncelog.broker.storage.local.partition_directory import directory_of
from oncelog.broker.storage.local.repair import repair_partition
from oncelog.broker.storage.local.segment import LOG_SUFFIX
from oncelog.broker.storage.local.segment_check import find_damage
from oncelog.broker.storage.local.segments import Segments
from oncelog.broker.storage.local.survey import LostRange, Survey, survey_partition
from oncelog.broker.turns.ports import Disk
from oncelog.broker.turns.slices import at_once
from oncelog.protocol.topics import METADATA_TOPIC, METADATA_TOPIC_ID
from oncelog.tools.log.records import incomplete_batches
from oncelog.tools.log.salvage_disk import SalvageDisk
from oncelog.tools.log.stopped_directory import StoppedDirectory, is_of_a_log

_READ_AT_A_START = (FLUSHED_OFFSETS, *JOURNALS, CLEANER_OFFSET)


class NoDataDirectory(Exception):
    """Raised if there is nothing to check; the message says why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The state of one partition as a start would find it, and what that would do with it."""

    topic: str
    partition: int
    segment_count: int
    log_start_offset: int
    log_end_offset: int
    size_bytes: int
    notes: tuple[str, ...]
    """The lines that recovery would report or fix without losing anything."""
    problem: str | None
    survey: Survey | None
    """The part that can be kept, if there is a problem; None if no repair may touch these files."""
    incomplete: tuple[LostRange, ...] = ()
    """Batches that are as they were written, without the records that they announce; only if they were opened."""

    @property
    def name(self) -> str:
        return directory_of(self.topic, self.partition)

    def with_notes(self, lines: Sequence[str]) -> "Finding":
        return replace(self, notes=(*self.notes, *lines))


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
    def incomplete_count(self) -> int:
        """How many batches lack records."""
        return sum(len(finding.incomplete) for finding in self.findings)

    @property
    def damaged(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.problem is not None]


def examine(
    disk: Disk, on_partition: Callable[[str], None] | None = None, *, opens_batches: bool = False
) -> Examination:
    """Read all of a directory that no broker serves. `on_partition` is called before each partition. With
    `opens_batches` the records of each batch are counted as well.

    Raises NoDataDirectory, KafkaError when the metadata log is inconsistent, OSError when access to a file of the whole
    directory is denied."""
    examiner = _Examiner(SalvageDisk(disk), on_partition, opens_batches=opens_batches)
    examiner.run()
    return examiner.examination


def repair(disk: Disk, damaged: list[Finding]) -> list[str]:
    """Do what `examine` has announced, then rebuild the rest as a start would; return the files with the old bytes."""
    kept: list[str] = []
    salvage = SalvageDisk(disk)
    for name in _READ_AT_A_START:
        if salvage.exists(name):
            data = salvage.read_bytes(name)
            if name in salvage.bad_files:
                salvage.write_atomically(name, data)
    StoppedDirectory(disk).settle_journal([finding.topic for finding in damaged])
    for finding in damaged:
        if finding.survey is not None:
            kept += repair_partition(salvage, finding.survey)
            _drop_unreadable(salvage, finding.name)
    directory = StoppedDirectory(disk)
    for topic, partition, topic_id, config in directory.partitions():
        at_once(directory.logs.open(topic, partition, topic_id, config))
    directory.complete()
    directory.close()
    return kept


def _drop_unreadable(salvage: SalvageDisk, directory: str) -> None:
    """Drop what cannot be read except the `.log`: it can be rebuilt, and an unreadable file would prevent that."""
    for name in salvage.list_dir(directory):
        path = f"{directory}/{name}"
        if is_of_a_log(name) and LOG_SUFFIX not in name:
            salvage.read_bytes(path)
            if path in salvage.bad_files:
                salvage.delete(path)


class _Examiner:
    def __init__(
        self, salvage: SalvageDisk, on_partition: Callable[[str], None] | None, *, opens_batches: bool
    ) -> None:
        self.examination = Examination()
        self._salvage = salvage
        self._disk = OverlayDisk(salvage)
        self._on_partition = on_partition
        self._opens_batches = opens_batches

    def run(self) -> None:
        if not self._disk.exists(directory_of(METADATA_TOPIC, 0)) and not self._disk.exists("flushed-offsets"):
            raise NoDataDirectory("this is not a data directory of a broker: it has no metadata log")
        directory = StoppedDirectory(self._disk)
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
            directory = StoppedDirectory(self._disk)
        known: set[str] = set()
        for topic, partition, topic_id, config in directory.partitions():
            known.add(directory_of(topic, partition))
            if topic != METADATA_TOPIC:
                self._examine(directory, topic, partition, topic_id, config)
        self.examination.findings[0] = self.examination.findings[0].with_notes(directory.metadata_lines)
        found = [directory_of(*place) for place in directory.store.directory.partitions()]
        self.examination.unknown_directories = [name for name in found if name not in known]

    def _examine(
        self, directory: StoppedDirectory, topic: str, partition: int, topic_id: UUID, config: LogConfig
    ) -> Finding:
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
            tuple(incomplete_batches(self._disk, segments)) if self._opens_batches and problem is None else (),
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
