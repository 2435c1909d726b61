"""One adoption, from what was planned to a directory that was recovered and closed cleanly.

Owns: what is asked for, the order of the steps, what is written besides the files of partitions. Does not own: what
goes along (`plan`), the options and what is printed (`cli`).

1. an empty directory beside the one to be, with the points up to which recovery must find each log whole;
2. our metadata log;
3. the files of partitions: closed segments linked, what grows copied, producer snapshots in our form; the mark by
   which a broker serves the directory read-only;
4. our recovery, which reads every byte, rebuilds the indexes and closes the directory cleanly;
5. the directory gets its name.

Kafka notes down only now and then up to where a log was flushed. All segments but the last were complete, so whatever
is wrong in one of them is damage and never a torn write: recovery truncates nothing that is shared, and accepts the
gaps that compaction has left.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from oncelog.broker.cluster.metadata_log import topic_records
from oncelog.broker.cluster.metadata_records import Leader, NewPartitions, count_of, encode_metadata_batch
from oncelog.broker.cluster.metadata_snapshot import in_chunks
from oncelog.broker.config.settings import BrokerConfig
from oncelog.broker.storage.disk_errors import trouble
from oncelog.broker.storage.local.checkpoints import CLEANER_OFFSET, write_checkpoint
from oncelog.broker.storage.local.data_directory import ADOPTED
from oncelog.broker.storage.local.flushed_offsets import FlushedOffsets, LogPoints
from oncelog.broker.storage.local.partition_directory import PARTITION_METADATA, encode_partition_metadata
from oncelog.broker.storage.local.segment import LOG_SUFFIX, file_name
from oncelog.broker.storage.producer_snapshot import BATCHES_SUFFIX, encode_snapshot, load_snapshot
from oncelog.broker.storage.producer_snapshot import SUFFIX as SNAPSHOT_SUFFIX
from oncelog.broker.system.clock import SystemClock
from oncelog.broker.system.disk import RealDisk
from oncelog.broker.turns.ports import MonotonicMs
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.topics import METADATA_TOPIC_ID
from oncelog.tools.adopt.plan import FoundPartition, Plan, make_plan
from oncelog.tools.file_copies import NO_LINKS, copy, sync_directory, write
from oncelog.tools.held_directory import HeldDirectory, check_files
from oncelog.tools.kafka_directory import NotPossible
from oncelog.tools.kafka_directory.directories import KafkaDir, opened
from oncelog.tools.kafka_directory.metadata import METADATA_DIRECTORY, KafkaMetadata, read_metadata
from oncelog.tools.kafka_directory.taking import check_room, recover, summed
from oncelog.tools.new_directory import NotNew, check_new, made_whole

_UNFINISHED_SUFFIX = ".adopting"


@dataclass(frozen=True, slots=True)
class Wish:
    """The arguments of an adoption."""

    kafka_dirs: Sequence[Path]
    data_dir: Path
    config: BrokerConfig
    """The settings of the broker to come: they bound those that are adopted."""
    copies: bool = False
    """Whether closed segments are to be copied although they could be linked."""


@dataclass(frozen=True, slots=True)
class Report:
    plan: Plan
    links: bool
    """Whether closed segments are linked, and not copied."""
    closed_bytes: int
    growing_bytes: int

    @property
    def copied_bytes(self) -> int:
        return self.growing_bytes + (0 if self.links else self.closed_bytes)


@dataclass(slots=True)
class Watcher:
    """Callbacks for the progress of an adoption."""

    on_plan: Callable[[Report], None] = field(default=lambda _: None)
    """Called before anything is written; an exception ends the adoption there."""
    on_copied: Callable[[int, int], None] = field(default=lambda *_: None)
    """Called with the bytes that are copied so far, and those to copy."""
    on_partition: Callable[[int, int], None] = field(default=lambda *_: None)
    """Called with the number of partitions that are read, and of all."""


def adopt(wish: Wish, watcher: Watcher) -> Report:
    """Raises NotPossible, after which nothing is left."""
    with _planned(wish) as report:
        watcher.on_plan(report)
        check_room(wish.data_dir, report.copied_bytes)
        with made_whole(wish.data_dir, _UNFINISHED_SUFFIX) as unfinished:
            _Making(unfinished, report, watcher).run(wish.kafka_dirs)
        return report


def preview(wish: Wish) -> Report:
    """Return what `adopt` would do, as far as the metadata and the names of files say. Raises NotPossible."""
    with _planned(wish) as report:
        return report


@contextmanager
def _planned(wish: Wish) -> Iterator[Report]:
    try:
        _check_target(wish)
        with opened(wish.kafka_dirs) as dirs:
            for each in dirs:
                check_files(each.path)
            plan = make_plan(dirs, _metadata_of(dirs), wish.config)
            sizes = [found.sizes() for found in plan.partitions]
            parent = wish.data_dir.absolute().parent
            same_device = all(each.path.stat().st_dev == parent.stat().st_dev for each in dirs)
            yield Report(
                plan,
                same_device and not wish.copies,
                sum(closed for closed, _ in sizes),
                sum(rest for _, rest in sizes),
            )
    except OSError as error:
        raise NotPossible(f"{trouble(error)}; nothing was adopted") from error


def _metadata_of(dirs: Sequence[KafkaDir]) -> KafkaMetadata:
    """Return the metadata; a directory without the quorum's log may have what the log was to begin with."""
    with_log = [each for each in dirs if each.disk.exists(METADATA_DIRECTORY)]
    return read_metadata((with_log or [each for each in dirs if each.has_metadata])[0].disk)


def _check_target(wish: Wish) -> None:
    data_dir = wish.data_dir
    for kafka_dir in wish.kafka_dirs:
        if data_dir.resolve().is_relative_to(kafka_dir.resolve()):
            raise NotPossible(
                f"{data_dir} is within {kafka_dir}, where nothing may be written: choose another directory"
            )
    try:
        check_new(data_dir)
    except NotNew as error:
        raise NotPossible(str(error)) from error


# --- the new directory ------------------------------------------------------------------------------------------------


class _Making:
    def __init__(self, root: Path, report: Report, watcher: Watcher) -> None:
        self._root = root
        self._report = report
        self._plan = report.plan
        self._watcher = watcher
        self._on_copied = summed(watcher.on_copied, report.copied_bytes)

    def run(self, kafka_dirs: Sequence[Path]) -> None:
        disk = RealDisk(self._root)
        try:
            disk.lock()
            self._write_points(disk)
            self._write_metadata(disk)
            for found in self._plan.partitions:
                self._take(found)
            write(self._root / ADOPTED, b"".join(os.fsencode(each.absolute()) + b"\n" for each in kafka_dirs))
            for directory, _, _ in os.walk(self._root):
                sync_directory(Path(directory))
            self._recover(disk)
        finally:
            disk.close()

    def _write_points(self, disk: RealDisk) -> None:
        # In a directory without partitions: otherwise a missing file of points would be taken for a lost one.
        points = FlushedOffsets(disk)
        points.record_all(
            ((found.topic.topic_id, found.partition), _points_of(found)) for found in self._plan.partitions
        )
        points.close()
        cleaned = [
            (found.topic.name, found.partition, offset)
            for found in self._plan.partitions
            if (offset := found.kafka_dir.cleaned.get((found.topic.name, found.partition))) is not None
        ]
        write_checkpoint(disk, CLEANER_OFFSET, cleaned)

    def _write_metadata(self, disk: RealDisk) -> None:
        disk.make_dir(METADATA_DIRECTORY)
        write(self._root / METADATA_DIRECTORY / file_name(0, LOG_SUFFIX), b"".join(_metadata_batches(self._plan)))
        write(self._root / METADATA_DIRECTORY / PARTITION_METADATA, encode_partition_metadata(METADATA_TOPIC_ID))

    def _take(self, found: FoundPartition) -> None:
        *closed, last = (file_name(base_offset, LOG_SUFFIX) for base_offset in found.segments)
        with (
            HeldDirectory(found.kafka_dir.path) as kafka_dir,
            kafka_dir.within(found.directory) as source,
            HeldDirectory(self._root) as root,
            root.make(found.directory) as target,
        ):
            for name in closed:
                if self._report.links:
                    _link(source, target, name)
                else:
                    copy(source, target, name, self._on_copied)
            for name in (last, *found.copied):
                copy(source, target, name, self._on_copied)
            for offset in found.snapshots:
                _take_snapshot(source, target, offset)

    def _recover(self, disk: RealDisk) -> None:
        count = 0

        def on_partition() -> None:
            nonlocal count
            count += 1
            self._watcher.on_partition(count, len(self._plan.partitions))

        advice = (
            ", and nothing was adopted; take another replica's copy, or let Apache Kafka recover it: start Kafka "
            "on it, stop it cleanly, and try again"
        )
        try:
            recover(disk, advice, on_partition)
        except KafkaError as error:
            raise NotPossible(f"the adopted metadata cannot be replayed: {error}") from error


def _link(source: HeldDirectory, target: HeldDirectory, name: str) -> None:
    try:
        source.link(name, target)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        raise NotPossible(
            f"{source.path / name} cannot have a hard link ({error.strerror}): --copy reads and writes every byte "
            "instead"
        ) from error


def _take_snapshot(source: HeldDirectory, target: HeldDirectory, offset: int) -> None:
    """Write a snapshot with the one batch per producer that Kafka remembers; a damaged one is left out, as by Kafka's
    own recovery."""
    try:
        state = load_snapshot(source.read(file_name(offset, SNAPSHOT_SUFFIX)), MonotonicMs(0))
    except ValueError:
        return
    snapshot = encode_snapshot(state)
    target.write(file_name(offset, SNAPSHOT_SUFFIX), snapshot.rows)
    if snapshot.batches:
        target.write(file_name(offset, BATCHES_SUFFIX), snapshot.batches)


def _points_of(found: FoundPartition) -> LogPoints:
    place, kafka_dir = (found.topic.name, found.partition), found.kafka_dir
    # Of what Kafka has deleted, its checkpoint may not know yet.
    log_start_offset = max(kafka_dir.log_starts.get(place, 0), found.segments[0])
    return LogPoints(
        max(kafka_dir.recovery_points.get(place, 0), found.segments[-1], log_start_offset), log_start_offset
    )


def _metadata_batches(plan: Plan) -> Iterator[bytes]:
    """Our own metadata log from its beginning."""
    now_ms, base_offset = SystemClock().wall_ms(), 0
    for records in in_chunks(_metadata_records(plan)):
        yield encode_metadata_batch(records, now_ms, base_offset, epoch=0)
        base_offset += sum(map(count_of, records))


def _metadata_records(plan: Plan) -> Iterator[Any]:
    yield from plan.state.records()
    for topic, leader_epochs in plan.topics:
        spans, first = [], 0
        for epoch, span in groupby(leader_epochs):
            indexes = range(first, first + len(list(span)))
            spans.append(NewPartitions(topic.topic_id, indexes, Leader(plan.node_id, epoch)))
            first = indexes.stop
        yield from topic_records(topic, *spans)
