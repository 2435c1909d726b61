"""Spark's stream reader: what it calls to plan the micro-batches of a query and to read them.

Owns: the methods that Spark calls, and their order. Does not own: the plan (`stream`), a task's work (`readers`). From
4.2 on Spark passes a source in Python the begin of a batch, and its limits (admission control): without that no loss
behind a checkpoint could be found before the batch is planned.
"""

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from oncelog.pipeline.group_offsets import group_offsets
from oncelog.pipeline.notes import Notes, Receiver
from oncelog.pipeline.options import Options
from oncelog.pipeline.source.lookup import Lookup
from oncelog.pipeline.source.offsets import INITIAL, from_json, to_json
from oncelog.pipeline.source.readers import RangePartition, groups_of, read_in_task
from oncelog.pipeline.source.stream import JsonOffset, StreamPlan
from oncelog.pipeline.source.waiting import Watch, wall_clock_ms
from oncelog.pipeline.source.waiting import to_json as waiting_to_json


class OncelogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream reader: one object lives in the driver as long as the query; each task has a copy of its own."""

    def __init__(self, options: Options, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._options = options
        self._lookup = Lookup(options)
        self._plan = StreamPlan(options, self._lookup)
        self._watch = Watch(self._lookup, now_ms)
        self._is_available_now = False
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

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options["maxOffsetsPerTrigger"]
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._plan.fix_target()
        self._is_available_now = True

    def latestOffset(self, start: JsonOffset, limit: ReadLimit) -> JsonOffset:  # noqa: N802
        """Raises DataLost, OptionError."""
        self._commit_group(start)
        end = self._plan.next_end(start, limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        # A run of AvailableNow ends before it can see what stands still.
        self._watch.look(self._plan.stable_at(end), at_once=self._is_available_now)
        return end

    def reportLatestOffset(self) -> JsonOffset | None:  # noqa: N802
        """Return the last stable offsets, and what waits behind them: `query.lastProgress` shows them beside where the
        batch ends."""
        stable, waiting = self._plan.stable_ends, self._watch.waiting
        return {**stable, "waiting": waiting_to_json(waiting)} if stable is not None and waiting else stable

    def partitions(self, start: JsonOffset, end: JsonOffset) -> list[RangePartition]:
        """Raises DataLost."""
        groups = groups_of(self._plan.tasks(start, end), self._options)
        if not self._has_planned and self._notes is not None:
            self._receiver = Receiver.start(self._notes, self._options.bootstrap_servers)
        self._has_planned = True
        notes = self._notes if self._receiver is None else self._receiver.notes
        return [RangePartition(each, notes, self._plan.stable_at(end)) for each in groups]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Runs in a task. Raises DataLost."""
        yield from read_in_task(self._options, partition)

    def commit(self, end: JsonOffset) -> None:
        """Do nothing: Spark's checkpoint holds the progress, and `latestOffset` commits for lag tools."""

    def _commit_group(self, start: JsonOffset) -> None:
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
