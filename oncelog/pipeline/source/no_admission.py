"""How Spark 4.1 plans a stream: it asks where the log ends, and does not say where a batch begins.

Owns: what follows from that. Where the query is, is known from what Spark asked before: the first offset of a new query,
the batch that is run again, the one that was planned last. But after a start behind a batch that was done, Spark asks
for the end first. Then the end is all that is stable; partitions that are new since begin at their beginning, and the
positions of the others come with the checkpoint, when Spark asks for the ranges. Losses are looked for there.
"""

from collections.abc import Callable

from oncelog.pipeline.options import OptionError, Options
from oncelog.pipeline.source.readers import RangePartition, StreamReader
from oncelog.pipeline.source.stream import JsonOffset
from oncelog.pipeline.source.waiting import wall_clock_ms

_NEEDS = "needs pyspark 4.2 or later: 4.1 does not tell a source in Python where a batch begins"


class NoAdmissionStreamReader(StreamReader):
    """The stream reader of Spark 4.1."""

    def __init__(self, options: Options, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        super().__init__(options, now_ms)
        for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger"):
            if options[name] is not None:
                raise OptionError(f"{name} {_NEEDS}")
        if not options["failOnDataLoss"]:
            raise OptionError(f"failOnDataLoss=false {_NEEDS}")
        self._at: JsonOffset | None = None
        """Where the query is, if that is known."""

    def initialOffset(self) -> JsonOffset:  # noqa: N802  # Spark's names
        self._at = super().initialOffset()
        return self._at

    def latestOffset(self) -> JsonOffset:  # noqa: N802
        """Raises DataLost, OptionError."""
        if self._at is None:
            return self._plan.end_after_restart()
        self.commit_group(self._at)
        self._at = self._plan.next_end(self._at, None)
        self._watch.look(self._plan.stable_at(self._at))
        return self._at

    def partitions(self, start: JsonOffset, end: JsonOffset) -> list[RangePartition]:
        """Raises DataLost."""
        if end != self._at:
            self._plan.check(start)
        self._at = end
        return super().partitions(start, end)
