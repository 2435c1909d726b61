"""Spark's batch reader: ranges of offsets in, tasks out; and what a task of either reader does.

Owns: what Spark calls, and when. Does not own: where a batch begins and ends (`edges`), reading in a task (`reading`),
the stream reader (`stream_reader`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from oncelog.client import TopicPartition
from oncelog.pipeline.imported import set_imported_aside
from oncelog.pipeline.notes import Notes, batch_of_task
from oncelog.pipeline.options import Options
from oncelog.pipeline.source.edges import check_order, ends, starts
from oncelog.pipeline.source.lookup import Lookup
from oncelog.pipeline.source.offsets import INITIAL, TopicOffsets
from oncelog.pipeline.source.planning import OffsetRange, grouped, ranges, split
from oncelog.pipeline.source.reading import Reading, read_range
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


def groups_of(parts: Sequence[OffsetRange], options: Options) -> list[tuple[OffsetRange, ...]]:
    return grouped(parts, options["minPartitions"], options["maxRecordsPerPartition"])


def read_in_task(options: Options, partition: InputPartition) -> Iterator[Any]:
    if isinstance(partition, RangePartition):
        for each in partition.ranges:
            yield from read_range(options, each, partition.note)
    set_imported_aside("read")


def batch_reader(options: Options) -> "OncelogBatchReader":
    return OncelogBatchReader(options)


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
        return [RangePartition(each) for each in groups_of(parts, options)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Runs in a task. Spark calls it with an empty partition when `partitions` returned none. Raises DataLost."""
        yield from read_in_task(self._options, partition)
