"""The compacted logs of a simulated broker, the coordinators' own among them, watched by the auditor of compaction.

Owns: what was appended to each, noted turn by turn. Nothing is compacted that was not noted: `MIN_LAG_MS` is longer
than a turn.
"""

from random import Random
from uuid import UUID

from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog
from oncelog.broker.storage.local.segment import Segment
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.records.batch import iter_batches
from tests.fakes.broker import VirtualBroker
from tests.fakes.logs import segments_of
from tests.history.events import Partition
from tests.simulation.compaction_auditor import CompactionAuditor, clean_offset_of
from tests.simulation.log_auditor import read_undamaged
from tests.simulation.log_model import LogModel

MIN_LAG_MS = 100
SETTINGS = (
    "log.cleaner.backoff.ms=200",
    "log.cleaner.delete.retention.ms=1500",
    "log.cleaner.min.cleanable.ratio=0.01",
    f"log.cleaner.min.compaction.lag.ms={MIN_LAG_MS}",
    "log.cleaner.max.compaction.lag.ms=500",
    "log.retention.ms=-1",  # values of clients have no time
    "offsets.topic.segment.bytes=2000",
    "transaction.state.log.segment.bytes=2000",
)


class WatchedTable:
    def __init__(self, partition: Partition) -> None:
        self.looks = 0
        self.partition = partition
        self._model = LogModel(is_compacted=True)
        self._auditor: CompactionAuditor | None = None
        self._audited: list[Segment] = []
        self._high_watermark = 0
        self._latest_ms = 0
        self._clock_offset_ms: int | None = None
        self._topic_id: UUID | None = None
        self._before: list[bytes] = []
        """Written to topics of this name that were deleted."""

    def _is_new(self, virtual: VirtualBroker, log: PartitionLog) -> bool:
        """Whether compaction has done something since the last look."""
        is_new = any(segment.has_gaps and segment not in self._audited for segment in segments_of(log))
        if is_new:
            self._audited = list(segments_of(log))
        return is_new

    def _clean_offset(self, virtual: VirtualBroker, log: PartitionLog) -> int:
        return clean_offset_of(virtual.disk, log)

    def written(self) -> list[bytes]:
        """All that was ever appended: the log itself has lost what compaction took."""
        return self._before + [batch.data for batch in self._model.batches if not batch.header.is_control]

    def _begin_again(self, topic_id: UUID) -> None:
        """Forget the log of the deleted topic: the topic was created again, and its log begins at the first offset."""
        if self._topic_id is not None:
            self._before = self.written()
            self._model, self._auditor = LogModel(is_compacted=True), None
            self._audited, self._high_watermark = [], 0
        self._topic_id = topic_id

    def on_restart(self) -> None:
        """Forget what was not durable: it may be gone, and other records may take its offsets."""
        self._model.cut(self._high_watermark)

    def note(self, virtual: VirtualBroker) -> PartitionLog | None:
        """Add the batches that were appended since the last call to the model; return the log, if there is one yet."""
        try:
            log = virtual.broker.topics.partition(*self.partition)
        except KafkaError:
            return None
        if log.topic_id != self._topic_id:
            self._begin_again(log.topic_id)
        offset = self._model.log_end
        while offset < log.log_end_offset:
            for header, batch in iter_batches(read_undamaged(log, offset, 2**30, FetchIsolation.LOG_END).records):
                offset = header.next_offset
                self._model.add(header.base_offset, offset, bytes(batch))
        self._high_watermark = log.high_watermark
        return log

    def look(self, virtual: VirtualBroker, random: Random) -> None:
        """Raises AuditError."""
        log = self.note(virtual)
        if log is None:
            return
        if self._auditor is None:
            self._auditor = CompactionAuditor(self._model, log.config)
        wall_ms, monotonic_ms = virtual.time.wall_ms(), int(virtual.time.monotonic_ms())
        if self._clock_offset_ms not in (None, wall_ms - monotonic_ms):
            self._auditor.on_clock_set()
        self._clock_offset_ms = wall_ms - monotonic_ms
        self._latest_ms = max(self._latest_ms, wall_ms)
        if self._is_new(virtual, log):
            self.looks += 1
            self._auditor.audit(log, self._latest_ms, self._clean_offset(virtual, log))
        cleaner = virtual.broker.logs.store.cleaner
        if cleaner is not None and random.random() < 0.03:
            self._auditor.step_readers(log, monotonic_ms, may_begin=not cleaner.is_busy)
