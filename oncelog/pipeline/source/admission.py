"""How Spark from 4.2 on plans a stream: it says where a batch begins and how much it may be (admission control).

Owns: what Spark calls for that. Does not own: what it calls in every version (`readers`), the plan (`stream`).
"""

from collections.abc import Callable

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from oncelog.pipeline.options import Options
from oncelog.pipeline.source.readers import StreamReader
from oncelog.pipeline.source.stream import JsonOffset
from oncelog.pipeline.source.waiting import to_json as waiting_to_json
from oncelog.pipeline.source.waiting import wall_clock_ms


class OncelogStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """The stream reader of Spark 4.2 and later."""

    def __init__(self, options: Options, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        super().__init__(options, now_ms)
        self._is_available_now = False

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's names
        most = self._options["maxOffsetsPerTrigger"]
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._plan.fix_target()
        self._is_available_now = True

    def latestOffset(self, start: JsonOffset, limit: ReadLimit) -> JsonOffset:  # noqa: N802
        """Raises DataLost, OptionError."""
        self.commit_group(start)
        end = self._plan.next_end(start, limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        # A run of AvailableNow ends before it can see what stands still.
        self._watch.look(self._plan.stable_at(end), at_once=self._is_available_now)
        return end

    def reportLatestOffset(self) -> JsonOffset | None:  # noqa: N802
        """Return the last stable offsets, and what waits behind them: `query.lastProgress` shows them beside where the
        batch ends."""
        stable, waiting = self._plan.stable_ends, self._watch.waiting
        return {**stable, "waiting": waiting_to_json(waiting)} if stable is not None and waiting else stable
