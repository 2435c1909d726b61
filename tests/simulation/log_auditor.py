"""Checks a log: what was promised, what is visible, and what a restart may change.

Owns: the rules, by name; those of compaction are CompactionAuditor's. Invariant: every rule can fail (`log_faults`
plants a fault for each).
"""

from random import Random

from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog
from oncelog.broker.log.store import StoreDamagedError
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.records.control import ControlRecordType, decode_end_txn_marker
from oncelog.protocol.records.record import Record, decode_records
from tests.fakes.logs import FetchResult, read_records
from tests.simulation.log_model import LogModel, batches_in, known


class AuditError(Exception):
    """A rule is broken; the message names it."""


def require(holds: bool, rule: str, *facts: object) -> None:
    if not holds:
        raise AuditError(": ".join([rule, *(repr(fact)[:300] for fact in facts)]))


class LogAuditor:
    """Watches one partition over all of its restarts."""

    def __init__(self, model: LogModel) -> None:
        self.model = model
        self._high_watermark = 0
        self._last_stable_offset = 0
        self.seen: dict[int, Record] = {}
        """The records that a read_committed reader has seen, by offset."""

    def after_step(self, log: PartitionLog) -> None:
        require(log.high_watermark >= self._high_watermark, "the high watermark never goes back", log.high_watermark)
        require(log.last_stable_offset >= self._last_stable_offset, "the last stable offset never goes back")
        self._high_watermark, self._last_stable_offset = log.high_watermark, log.last_stable_offset
        self.model.durable_end = max(self.model.durable_end, log.high_watermark)
        stable = min(self.model.first_open(), log.high_watermark)
        require(
            log.last_stable_offset <= max(stable, log.log_start_offset),
            "nothing of an open transaction is stable",
            log.last_stable_offset,
            stable,
        )

    def after_restart(self, log: PartitionLog, *, is_clean: bool, kept_all: bool) -> None:
        """`kept_all`: the process was stopped, the machine was not."""
        model = self.model
        require(log.offline_error is None, "a partition without damage is online", log.offline_error)
        require(
            log.log_end_offset >= model.durable_end,
            "what was acknowledged is there",
            log.log_end_offset,
            model.durable_end,
        )
        if kept_all:
            require(log.log_end_offset >= model.answered_end, "no kill undoes what was answered", log.log_end_offset)
        model.answered_end = 0
        require(log.log_end_offset <= model.log_end, "nothing appears", log.log_end_offset, model.log_end)
        if is_clean:
            require(log.log_end_offset == model.log_end, "a clean stop loses nothing")
        require(
            model.durable_start <= log.log_start_offset <= max(model.log_start, model.durable_start),
            "the log start is where it was put",
            log.log_start_offset,
        )
        model.cut(log.log_end_offset)
        model.log_start = model.durable_start = log.log_start_offset
        require(
            log.last_stable_offset >= min(self._last_stable_offset, log.log_end_offset),
            "the last stable offset never goes back over a restart",
        )
        self._high_watermark, self._last_stable_offset = log.high_watermark, log.last_stable_offset
        model.durable_end = max(model.durable_end, log.high_watermark)

    def all_due(self, log: PartitionLog, wall_ms: int) -> bool:
        """Everything is durable, and deleted or older than retention.ms: whatever segments it is in, none may stay."""
        config, left = log.config, [each for each in self.model.batches if each.next_offset > log.log_start_offset]
        is_old = all(each.header.max_timestamp < wall_ms - config.retention_ms for each in left)
        is_due = not left or (is_old and "delete" in config.cleanup_policy)
        return is_due and log.high_watermark == log.log_end_offset

    def is_gone(self, log: PartitionLog) -> None:
        require(
            log.log_start_offset == log.log_end_offset, "what is due goes", log.log_start_offset, log.log_end_offset
        )
        require(log.size_bytes == 0, "what is due takes no space", log.size_bytes)

    def whole_log(self, log: PartitionLog) -> None:
        """Everything at once: bytes, what is visible, aborted transactions, producers."""
        model = self.model
        require(known(log.producer_state) == known(model.producer_state()), "live state equals the state of a replay")
        visible = read_all(log, FetchIsolation.TXN_COMMITTED)
        if not model.is_compacted:
            self._bytes(log)
            committed = [
                record for record in model.committed() if log.log_start_offset <= record.offset < log.last_stable_offset
            ]
            require(
                visible == committed, "a read_committed reader sees what was committed", len(visible), len(committed)
            )
        self._view(visible, log)

    def _bytes(self, log: PartitionLog) -> None:
        for written in self.model.batches:
            if written.base_offset >= log.log_start_offset:
                result = read_undamaged(log, written.base_offset, 1, FetchIsolation.LOG_END)
                require(
                    bytes(result.records) == written.data, "a batch is where it was, as it was", written.base_offset
                )

    def _view(self, visible: list[Record], log: PartitionLog) -> None:
        """Require that all that was shown once is shown again, unless it was deleted, and that nothing appears in
        between.
        """
        now = {record.offset: record for record in visible}
        end = max(self.seen, default=-1)
        for offset, record in self.seen.items():
            if offset >= log.log_start_offset and not self.model.is_compacted:
                require(now.get(offset) == record, "a reader's view does not change", offset)
        for offset in now:
            require(offset > end or offset in self.seen, "nothing appears behind a reader", offset)
        self.seen.update(now)

    def aborted_lists(self, log: PartitionLog, random: Random) -> None:
        """A fetch lists exactly the aborted transactions that reach into it."""
        if self.model.is_compacted or log.last_stable_offset <= log.log_start_offset:
            return
        offset = random.randrange(log.log_start_offset, log.last_stable_offset)
        result = read_undamaged(log, offset, random.choice([1, 400, 10_000]), FetchIsolation.TXN_COMMITTED)
        batches = batches_in(result.records)
        if not batches:
            return
        end = batches[-1][0].next_offset
        listed = [(entry.producer_id, entry.first_offset) for entry in result.aborted_transactions or ()]
        needed = [
            (producer_id, first)
            for producer_id, first, marker in self.model.aborted()
            if marker >= offset and first < end
        ]
        allowed = [(producer_id, first) for producer_id, first, marker in self.model.aborted() if marker >= offset]
        require(
            set(needed) <= set(listed) <= set(allowed) and len(listed) == len(set(listed)),
            "the aborted transactions of a fetch are exact",
            listed,
            needed,
        )

    def damaged(self, log: PartitionLog) -> None:
        """A byte on disk has changed: no reader may get anything else than what was written."""
        if log.offline_error is not None:
            require("topic-" in log.offline_error, "damage is told with its file", log.offline_error)
            return
        originals = {written.base_offset: written.data for written in self.model.batches}
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            try:
                result = read_records(log, offset, 1, FetchIsolation.LOG_END)
            except KafkaError:
                require(log.offline_error is not None, "damage takes the partition offline", offset)
                return
            before = offset
            for header, batch in batches_in(result.records):
                if not self.model.is_compacted:
                    original = originals.get(header.base_offset, b"")
                    require(_covered(original) == _covered(batch), "no reader gets damaged bytes", offset)
                offset = header.next_offset
            if offset == before:
                require(self.model.is_compacted, "no reader gets an empty answer for damage", offset)
                return


def read_undamaged(log: PartitionLog, offset: int, max_bytes: int, isolation: FetchIsolation) -> FetchResult:
    try:
        return read_records(log, offset, max_bytes, isolation)
    except (KafkaError, StoreDamagedError) as error:
        raise AuditError(f"a log without damage can be read: {error}") from error


def read_all(log: PartitionLog, isolation: FetchIsolation) -> list[Record]:
    """Read the log to its end as a consumer does; it must get there, however much was compacted away."""
    seen: list[Record] = []
    offset = log.log_start_offset
    while offset < log.upper_bound(isolation):
        records, offset = read_some(log, offset, isolation)
        seen += records
    return seen


def read_some(log: PartitionLog, offset: int, isolation: FetchIsolation) -> tuple[list[Record], int]:
    """One fetch, aborted data filtered out by the list that comes with it; where the next one begins."""
    result = read_undamaged(log, offset, 700, isolation)
    waiting = sorted((entry.first_offset, entry.producer_id) for entry in result.aborted_transactions or ())
    aborted: set[int] = set()
    seen: list[Record] = []
    next_offset = offset
    for header, batch in batches_in(result.records):
        while waiting and waiting[0][0] <= header.last_offset:
            aborted.add(waiting.pop(0)[1])
        if header.is_control:
            if header.record_count and decode_end_txn_marker(batch)[0] is ControlRecordType.ABORT:
                aborted.discard(header.producer_id)
        elif header.next_offset > offset and not (header.is_transactional and header.producer_id in aborted):
            seen += [record for record in decode_records(batch) if record.offset >= offset]
        next_offset = max(next_offset, header.next_offset)
    require(next_offset > offset, "a reader gets on", offset)
    return seen, next_offset


def _covered(batch: bytes | memoryview) -> bytes:
    """The batch without the leader epoch, which no checksum of Kafka's format covers; nor need it be right for a record
    to be.
    """
    return bytes(batch[:12]) + bytes(batch[16:])
