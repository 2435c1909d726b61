"""The two reading doors of `format("oncelog")`: a batch over a range of offsets, and a stream of micro-batches.

Owns: what Spark calls, and when. Does not own: what it calls to plan a stream, which depends on its version
(`admission`, `no_admission`), the plan itself (`stream`), where a batch begins and ends (`edges`), reading in a task
(`reading`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from oncelog.client import TopicPartition
from oncelog.pipeline.group_offsets import group_offsets
from oncelog.pipeline.imported import set_imported_aside
from oncelog.pipeline.notes import Notes, Receiver, batch_of_task
from oncelog.pipeline.options import Options
from oncelog.pipeline.source.edges import check_order, ends, starts
from oncelog.pipeline.source.lookup import Lookup
from oncelog.pipeline.source.offsets import INITIAL, TopicOffsets, from_json, to_json
from oncelog.pipeline.source.planning import OffsetRange, grouped, ranges, split
from oncelog.pipeline.source.reading import Reading, read_range
from oncelog.pipeline.source.stream import JsonOffset, StreamPlan
from oncelog.pipeline.source.waiting import Watch, wall_clock_ms


class RangePartition(InputPartition):
    """The ranges that one task reads, where it notes that, and the stable ends that the batch was planned with, if it
    was now."""

    def __init__(
        self, ranges: Sequence[OffsetRange], notes: Notes | None = None, stable: Mapping[TopicPartition, int] = {}
    ) -> None:
        super().__init__(ranges)
        self.ranges = ranges
        self.notes = notes
        self.stable = stable

    def note(self, reading: Reading) -> None:
        batch = batch_of_task() if self.notes is not None else None
        if self.notes is not None and batch is not None:
            stable = self.stable.get(TopicPartition(reading.topic, reading.partition))
            self.notes.add(batch[0], "source", {"batch_id": batch[1], **asdict(reading), "stable": stable})


def _groups(parts: Sequence[OffsetRange], options: Options) -> list[tuple[OffsetRange, ...]]:
    return grouped(parts, options["minPartitions"], options["maxRecordsPerPartition"])


def _read(options: Options, partition: InputPartition) -> Iterator[Any]:
    if isinstance(partition, RangePartition):
        for each in partition.ranges:
            yield from read_range(options, each, partition.note)
    set_imported_aside("read")


def batch_reader(options: Options) -> "OncelogBatchReader":
    return OncelogBatchReader(options)


def stream_reader(options: Options) -> "StreamReader":
    """Raises OptionError for what this version of Spark has no call for."""
    if find_spec("pyspark.sql.streaming.datasource") is not None:
        from oncelog.pipeline.source.admission import OncelogStreamReader

        return OncelogStreamReader(options)
    from oncelog.pipeline.source.no_admission import NoAdmissionStreamReader

    return NoAdmissionStreamReader(options)


class OncelogBatchReader(DataSourceReader):
    def __init__(self, options: Options, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._options = options
        self._now_ms = now_ms

    def partitions(self) -> list[RangePartition]:
        """Raises OptionError."""
        options = self._options
        lookup = Lookup(options)
        try:
            logs = lookup.logs(must_exist=True)
            first, after = starts(options, logs, lookup), ends(options, logs, lookup)
            check_order(first, after)
            if options["endingOffsets"] == "latest":
                places = [TopicPartition(name, index) for name, log in logs.items() for index in log.stable]
                Watch(lookup, self._now_ms).look(places, at_once=True)
        finally:
            lookup.close()
        end = {name: TopicOffsets(logs[name].topic_id, first[name], after[name]) for name in logs}
        parts = split(ranges(INITIAL, end), options["minPartitions"], options["maxRecordsPerPartition"])
        return [RangePartition(each) for each in _groups(parts, options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Runs in a task. Spark calls it with an empty partition when `partitions` returned none. Raises DataLost."""
        yield from _read(self._options, partition)


class StreamReader(DataSourceStreamReader):
    """What every version of Spark calls of a stream; one object lives in the driver as long as the query; each task has
    a copy of its own."""

    def __init__(self, options: Options, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._options = options
        self._lookup = Lookup(options)
        self._plan = StreamPlan(options, self._lookup)
        self._watch = Watch(self._lookup, now_ms)
        self._notes = Notes.open()
        self._has_planned = False
        self._receiver: Receiver | None = None
        self._group_at: JsonOffset = to_json(INITIAL)
        """The offset at which the group of `commitGroup` is."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a task's copy, which neither listens nor watches."""
        return {**self.__dict__, "_receiver": None, "_watch": None}

    def initialOffset(self) -> JsonOffset:  # noqa: N802  # Spark's names
        return to_json(INITIAL)

    def partitions(self, start: JsonOffset, end: JsonOffset) -> list[RangePartition]:
        """Raises DataLost."""
        groups = _groups(self._plan.tasks(start, end), self._options)
        if not self._has_planned and self._notes is not None:
            self._receiver = Receiver.start(self._notes, self._options.bootstrap_servers)
        self._has_planned = True
        notes = self._notes if self._receiver is None else self._receiver.notes
        return [RangePartition(each, notes, self._plan.stable_at(end)) for each in groups]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Runs in a task. Raises DataLost."""
        yield from _read(self._options, partition)

    def commit(self, end: JsonOffset) -> None:
        """Do nothing: Spark's checkpoint holds the progress, and `latestOffset` commits for lag tools."""

    def commit_group(self, start: JsonOffset) -> None:
        """Commit where the next batch begins as offsets of a group. Spark asks for the end of a batch when all before
        it is done, and once more after the last one. `commit` comes later, when the next one is planned, or never."""
        group_id = self._options["commitGroup"]
        if group_id is None or start == self._group_at:
            return
        if self._lookup.commit_group(group_offsets(group_id, [from_json(start)])):
            self._group_at = start

    def stop(self) -> None:
        self._lookup.close()
        if self._receiver is not None:
            self._receiver.close()
