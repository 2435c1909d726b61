"""Plans the micro-batches of a stream: where the next one ends, and the ranges of one, also when it is run again.

Owns: when the brokers are asked, which losses are accepted, AvailableNow's target, how long minOffsetsPerTrigger may
wait. Does not own: Spark's classes (`readers`), the arithmetic (`planning`), the form of an offset (`offsets`).
Invariants
- A batch ends at or before the last stable offset (with the default isolation level, read_committed), so that every
  transaction in it is decided: read again after a restart, the same range gives the same rows.
- Nothing between the positions of a checkpoint and the end of a batch is skipped without an error, or, with
  failOnDataLoss=false, without being counted and logged.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from oncelog.client import TopicPartition
from oncelog.pipeline.options import Options
from oncelog.pipeline.source import planning
from oncelog.pipeline.source.edges import starts
from oncelog.pipeline.source.lookup import Brokers
from oncelog.pipeline.source.losses import Logs, after_losses, find_losses, refusal
from oncelog.pipeline.source.offsets import StreamOffset, TopicOffsets, from_json, to_json
from oncelog.pipeline.source.planning import OffsetRange

logger = logging.getLogger("oncelog.spark.source")
JsonOffset = dict[str, Any]


class StreamPlan:
    """Plans the batches of one query, in the driver."""

    def __init__(self, options: Options, lookup: Brokers, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._lookup = lookup
        self._clock = clock
        self._target: Logs | None = None
        """The logs' ends at which AvailableNow stops."""
        self._planned: JsonOffset | None = None
        self.stable_ends: JsonOffset | None = None
        """The stable ends that the newest batch was planned with, as an offset."""
        self._last_batch_s: float | None = None

    def fix_target(self) -> None:
        """Plan nothing that becomes stable from now on."""
        self._target = self._lookup.logs(must_exist=False)

    def next_end(self, start: JsonOffset, most: int | None) -> JsonOffset:
        """Return where the batch ends that begins at `start`, with at most `most` offsets; `start` if there is nothing
        to read. Raises DataLost, OptionError."""
        known = from_json(start)
        logs = self._lookup.logs(must_exist=not known, expected=known)
        if self._target is not None:
            logs = planning.bounded(logs, self._target)
        positions = self._positions(known, logs)
        counts: planning.Positions = planning.left(positions, logs)
        if known and self._waits(sum(counts.values())):
            counts = {}
        if most is not None:
            counts = planning.shared(counts, most)
        if any(counts.values()):
            self._last_batch_s = self._clock()
        self.stable_ends = to_json({name: TopicOffsets(log.topic_id, {}, log.stable) for name, log in logs.items()})
        self._planned = to_json(planning.advanced(positions, counts))
        return self._planned

    def stable_at(self, end: JsonOffset) -> dict[TopicPartition, int]:
        """Return the stable ends when the batch with this end was planned; none for a batch of an earlier run."""
        if end != self._planned or self.stable_ends is None:
            return {}
        return {
            TopicPartition(name, partition): offset
            for name, topic in from_json(self.stable_ends).items()
            for partition, offset in topic.next.items()
        }

    def _positions(self, known: StreamOffset, logs: Logs) -> StreamOffset:
        losses = find_losses(known, logs)
        if losses:
            if self._options["failOnDataLoss"]:
                raise refusal(losses)
            for loss in losses:
                logger.warning("data lost (%s offsets): %s", "?" if loss.count is None else loss.count, loss.sentence)
            known = after_losses(known, losses, logs)
        # Partitions and topics that are added later are read from their beginning, as all that is in them is new.
        beginnings = {name: log.earliest for name, log in logs.items()}
        first = beginnings if known or losses else starts(self._options, logs, self._lookup)
        return planning.with_new(known, first, logs)

    def _waits(self, count: int) -> bool:
        """Whether minOffsetsPerTrigger says to wait for more."""
        least = self._options["minOffsetsPerTrigger"]
        if least is None or count >= least or self._target is not None or self._last_batch_s is None:
            return False
        longest_ms: int = self._options["maxTriggerDelay"]
        return self._clock() - self._last_batch_s < longest_ms / 1000

    def tasks(self, start: JsonOffset, end: JsonOffset) -> list[OffsetRange]:
        """Return the ranges between two offsets, split as the options say. Raises DataLost."""
        found = planning.ranges(from_json(start), from_json(end))
        if found and end != self._planned and self._options["failOnDataLoss"]:
            # A batch of an earlier run, which is run again: much may have happened since it was planned.
            logs = self._lookup.logs(must_exist=False)
            losses = find_losses(planning.edges(found, "start"), logs) or find_losses(
                planning.edges(found, "end"), logs
            )
            if losses:
                raise refusal(losses)
        return planning.split(found, self._options["minPartitions"], self._options["maxRecordsPerPartition"])
