"""Says whether compaction took no more from a log than Apache Kafka lets it take, and no less than it should.

Owns: the rules, by name, and what they need to know of earlier looks: the delete horizons that were seen, the readers
that are on their way. All of it is stated over the batches that were appended (`LogModel`) and what readers get now;
nothing asks the compaction how it decided. KIP-58, KIP-98, KIP-534.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog
from oncelog.broker.storage.local.checkpoints import CLEANER_OFFSET, read_checkpoint
from oncelog.protocol.records.batch import BatchHeader
from oncelog.protocol.records.record import Record, decode_records
from oncelog.testing.memory_disk import MemoryDisk
from tests.fakes.logs import all_batches
from tests.simulation.log_auditor import AuditError, read_all, read_some, require
from tests.simulation.log_model import LogModel, Written

State = dict[bytes | None, bytes]
_READERS = 2


def latest(records: Iterable[Record], state: State | None = None) -> State:
    """Apply the records to a table in order: the newest value of each key, without the keys that were deleted."""
    state = {} if state is None else state
    for record in records:
        state.pop(record.key, None)
        if record.value is not None:
            state[record.key] = record.value
    return state


@dataclass
class TableReader:
    """A read_committed reader that keeps a table, a few records at a time; Kafka promises it every delete if it is
    through within delete.retention.ms."""

    offset: int
    began_ms: int
    table: State = field(default_factory=dict)


class CompactionAuditor:
    """Watches one compacted partition over all of its restarts."""

    def __init__(self, model: LogModel, config: LogConfig) -> None:
        self._model = model
        self._retention_ms = config.delete_retention_ms
        self._horizons: dict[int, int] = {}
        """The earliest removal of a batch's tombstones, or of a marker, by base offset."""
        self._readers: list[TableReader] = []
        self._was_clock_set = False
        self.tables = 0
        """Readers that came to the end in time."""

    def audit(self, log: PartitionLog, wall_ms: int, clean_offset: int) -> None:
        """After each round, and whenever; `wall_ms` is the latest that the clock has shown, `clean_offset` is how far
        the checkpoint says that the log is clean."""
        committed = [record for record in self._model.committed() if record.offset < log.last_stable_offset]
        above_start = [record for record in committed if record.offset >= log.log_start_offset]
        uncommitted = read_all(log, FetchIsolation.HIGH_WATERMARK)
        seen = read_all(log, FetchIsolation.TXN_COMMITTED)
        self._batches(log, wall_ms, uncommitted)
        self._nothing_changed(uncommitted, seen, above_start)
        require(latest(seen) == latest(above_start), "a read_committed reader gets the newest value of each key")
        self._nothing_else_gone(log, committed, {record.offset for record in uncommitted}, wall_ms)
        self._clean_part(log, committed, uncommitted, clean_offset)

    def on_clock_set(self) -> None:
        """Drop the readers of this moment: nothing is promised to them when the clock is set."""
        self._was_clock_set = True
        self._readers.clear()

    def _nothing_changed(self, uncommitted: list[Record], seen: list[Record], committed: list[Record]) -> None:
        originals = {record.offset: record for _, record in self._model.records()}
        for records in (uncommitted, seen):
            offsets = [record.offset for record in records]
            require(offsets == sorted(set(offsets)), "offsets rise")
            require(all(originals.get(record.offset) == record for record in records), "a record is as it was written")
        allowed = {record.offset for record in committed}
        require(all(record.offset in allowed for record in seen), "a read_committed reader gets what was committed")

    def _nothing_else_gone(self, log: PartitionLog, committed: list[Record], there: set[int], wall_ms: int) -> None:
        newest = {record.key: record.offset for record in committed}
        is_committed = {record.offset for record in committed}
        for header, record in self._model.records():
            if not log.log_start_offset <= record.offset < log.high_watermark or record.offset in there:
                continue
            require(record.offset < log.last_stable_offset, "what is not stable stays", record.offset)
            if record.offset not in is_committed or record.offset < newest[record.key]:
                continue
            require(record.value is None, "the newest committed value of a key stays", record.offset, record.key)
            horizon_ms = self._horizons.get(header.base_offset)
            require(
                horizon_ms is not None and horizon_ms <= wall_ms, "a tombstone stays until its horizon", record.offset
            )

    def _clean_part(
        self, log: PartitionLog, committed: list[Record], uncommitted: list[Record], clean_offset: int
    ) -> None:
        """Require that the part that the checkpoint calls clean holds only the newest record of each key. A tombstone
        in it may be gone, since nothing is left for it to delete.
        """
        clean = [record for record in uncommitted if record.offset < min(clean_offset, log.last_stable_offset)]
        require(len({record.key for record in clean}) == len(clean), "what is clean has one record of each key")
        allowed = {record.offset for record in committed}
        require(all(record.offset in allowed for record in clean), "what is clean has no aborted record")

    # --- batches ------------------------------------------------------------------------------------------------------

    def _batches(self, log: PartitionLog, wall_ms: int, uncommitted: list[Record]) -> None:
        oldest: dict[bytes | None, int] = {}
        for record in uncommitted:
            oldest.setdefault(record.key, record.offset)
        originals = {written.base_offset: written for written in self._model.batches}
        markers: dict[int, bool] = {}
        data: dict[int, list[int]] = {}
        for header, batch in all_batches(log):
            written = originals.get(header.base_offset)
            if written is None:
                raise AuditError(f"no batch appears: {header.base_offset}")
            require(_identity(header) == _identity(written.header), "a batch keeps its offsets and its producer")
            self._horizon(header, batch, written, wall_ms, oldest)
            if header.is_control:
                markers[header.base_offset] = header.record_count == 1
            elif header.is_transactional:
                data.setdefault(header.producer_id, []).append(header.base_offset)
        self._markers(log, markers, data, wall_ms)

    def _horizon(
        self,
        header: BatchHeader,
        batch: memoryview,
        written: Written,
        wall_ms: int,
        oldest: dict[bytes | None, int],
    ) -> None:
        known_ms = self._horizons.get(header.base_offset)
        if not header.has_delete_horizon:
            require(known_ms is None or header.record_count == 0, "a horizon stays", header.base_offset)
            return
        horizon_ms = header.base_timestamp
        self._horizons.setdefault(header.base_offset, horizon_ms)
        require(known_ms in (None, horizon_ms), "a horizon stays where it is", header.base_offset, known_ms, horizon_ms)
        earliest_ms = written.header.max_timestamp + self._retention_ms
        require(
            (earliest_ms <= horizon_ms or self._was_clock_set) and horizon_ms <= wall_ms + self._retention_ms,
            "a horizon is delete.retention.ms after a round",
            horizon_ms,
        )
        if header.is_control:
            return
        require(any(record.value is None for record in written.records), "only tombstones and markers have a horizon")
        deletes = [record for record in decode_records(batch) if record.value is None]
        # Stricter than Kafka: else a reader that begins just before the value goes does not see it deleted.
        require(
            all(oldest.get(record.key, record.offset) >= record.offset for record in deletes),
            "the time of a delete begins when what it deletes is gone",
            header.base_offset,
        )

    def _markers(self, log: PartitionLog, markers: dict[int, bool], data: dict[int, list[int]], wall_ms: int) -> None:
        previous: dict[int, int] = {}
        for written in self._model.batches:
            header = written.header
            if not header.is_control:
                continue
            first, offset = previous.get(header.producer_id, 0), written.base_offset
            previous[header.producer_id] = offset
            if offset < log.log_start_offset or markers.get(offset):
                continue
            require(
                not any(first <= base_offset < offset for base_offset in data.get(header.producer_id, ())),
                "a marker stays as long as a batch of its transaction",
                offset,
            )
            horizon_ms = self._horizons.get(offset)
            require(horizon_ms is not None and horizon_ms <= wall_ms, "a marker stays until its horizon", offset)

    # --- readers that are on their way --------------------------------------------------------------------------------

    def step_readers(self, log: PartitionLog, now_ms: int, *, may_begin: bool) -> None:
        """Each reads a little; `now_ms` is by a clock that is never set. `may_begin`: no round is running, of which one
        half might lie before a reader's start and the other behind it.
        """
        if may_begin and len(self._readers) < _READERS:
            self._readers.append(TableReader(log.log_start_offset, now_ms))
        self._readers = [reader for reader in self._readers if not self._is_done(reader, log, now_ms)]

    def _is_done(self, reader: TableReader, log: PartitionLog, now_ms: int) -> bool:
        if now_ms - reader.began_ms >= self._retention_ms or reader.offset < log.log_start_offset:
            return True
        if reader.offset < log.last_stable_offset:
            records, reader.offset = read_some(log, reader.offset, FetchIsolation.TXN_COMMITTED)
            latest(records, reader.table)
        if reader.offset < log.last_stable_offset:
            return False
        committed = [record for record in self._model.committed() if record.offset < log.last_stable_offset]
        # A key's newest record may have left with the log's start: the reader had it, who begins now has not.
        expected = latest(committed)
        wrong = {key: value for key, value in reader.table.items() if expected.get(key) != value}
        require(not wrong, "a reader that is in time sees every delete", wrong, reader.began_ms)
        missing = latest(record for record in committed if record.offset >= log.log_start_offset).keys()
        require(missing <= reader.table.keys(), "a reader that is in time sees every key")
        self.tables += 1
        return True


def _identity(header: BatchHeader) -> tuple[int, ...]:
    return (
        header.last_offset,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.is_control,
        header.is_transactional,
    )


def clean_offset_of(disk: MemoryDisk, log: PartitionLog) -> int:
    """Return the clean offset that the next start would read from the checkpoint."""
    found = [offset for *key, offset in read_checkpoint(disk, CLEANER_OFFSET) if key == [log.topic, log.partition]]
    return min(*found, log.log_end_offset) if found else 0
