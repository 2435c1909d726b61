"""One share-partition: what a share group has of a partition, and what becomes of its records.

Owns: its interface. Acquiring changes it at once; every other change is decided first, and applied once it is written.
Does not own: writing, time, settings, sessions, the log. Kafka: SharePartition.
Invariants
- A change applies only to the state on which it was decided.
- A state read back from the share coordinator is this one without its acquisitions: their records are available, or not
  known to have been handed out.
"""

from collections.abc import Sequence

from oncelog.broker.coordinator.share.values import ShareState
from oncelog.broker.sharing.acknowledging import acknowledged, expired, released, to_write
from oncelog.broker.sharing.acquiring import Acquiring
from oncelog.broker.sharing.fetched import Fetched, Reach
from oncelog.broker.sharing.in_flight import InFlight
from oncelog.broker.sharing.values import (
    ACKNOWLEDGED,
    AcknowledgementBatch,
    AcquiredRecords,
    Acquisition,
    Run,
    ShareLimits,
    StateChange,
)
from oncelog.broker.turns.ports import MonotonicMs


class SharePartition:
    __slots__ = ("_in_flight", "_revision", "state_epoch")

    def __init__(self, state: ShareState) -> None:
        """`state` is what the share coordinator has, with the start offset that is used if it has none. Raises
        UNKNOWN_SERVER_ERROR for a state that cannot be."""
        self.state_epoch = state.state_epoch
        self._in_flight = InFlight(state)
        self._revision = 0

    @property
    def start_offset(self) -> int:
        """All before it is done, or no longer in the log."""
        return self._in_flight.start

    @property
    def end_offset(self) -> int:
        """The last offset that was handed out; if none is in flight, the start offset."""
        return self._in_flight.end

    @property
    def next_fetch_offset(self) -> int:
        """Where to read for the next acquisition."""
        return self._in_flight.next_fetch_offset

    @property
    def in_flight_count(self) -> int:
        """How many offsets are in flight, done and missing ones among them included."""
        return self._in_flight.record_count

    @property
    def in_flight_batch_count(self) -> int:
        return len(self._in_flight.batches)

    @property
    def delivery_complete_count(self) -> int:
        """How many records from the start offset on are acknowledged or archived."""
        return self._in_flight.complete

    def can_acquire(self, limits: ShareLimits) -> bool:
        """Whether reading is of use: something is available again, or new records may be locked."""
        in_flight = self._in_flight
        return (
            in_flight.record_count < limits.partition_max_record_locks or in_flight.next_fetch_offset <= in_flight.end
        )

    def holds(self, member_id: str) -> bool:
        """Return whether a member has acquired any record."""
        return member_id in self._in_flight.held

    def reach(self, max_records: int, limits: ShareLimits) -> Reach:
        """Return how far an acquisition of that many records reaches in what is read for it."""
        in_flight = self._in_flight
        free = max(0, limits.partition_max_record_locks - in_flight.record_count)
        return Reach(in_flight.end, min(max_records, free))

    def next_expiry_ms(self) -> MonotonicMs | None:
        """Return when `expire` has something to do; None if nothing is locked."""
        return self._in_flight.locks.next_expiry_ms()

    def runs(self) -> list[Run]:
        """Return the state of everything in flight, in order."""
        return [run for batch in self._in_flight.batches for run in batch]

    def acquire(self, member_id: str, request: Acquisition, fetched: Fetched) -> list[AcquiredRecords]:
        """Acquire of what was fetched for a member. This is in memory alone: the next change that is written has the
        delivery counts. Nothing may be acquired although records are archived: then there is more to fetch."""
        self._revision += 1
        return Acquiring(self._in_flight, member_id, request, fetched).acquire()

    def acknowledge(
        self,
        member_id: str,
        batches: Sequence[AcknowledgementBatch],
        limits: ShareLimits,
        monotonic_ms: MonotonicMs,
    ) -> StateChange:
        """Decide an acknowledgement: all of it, or none. Raises INVALID_RECORD_STATE, INVALID_REQUEST."""
        return self._change(acknowledged(self._in_flight, member_id, batches, limits, monotonic_ms))

    def release(self, member_id: str, limits: ShareLimits) -> StateChange:
        """Decide to release all that a member has acquired: its session has ended."""
        return self._change(released(self._in_flight, member_id, limits))

    def expire(self, monotonic_ms: MonotonicMs, limits: ShareLimits) -> StateChange:
        """Decide to release what has been locked for too long."""
        return self._change(expired(self._in_flight, monotonic_ms, limits))

    def move_start(self, log_start_offset: int) -> StateChange:
        """Decide what a later start of the log takes: all before it, and the locks there. As in Kafka that is not
        written, the next change has the new start offset."""
        in_flight = self._in_flight
        if log_start_offset <= in_flight.start:
            return StateChange((), in_flight.start, in_flight.complete, (), self._revision)
        complete = in_flight.complete - in_flight.complete_within(in_flight.start, log_start_offset - 1)
        return StateChange((), log_start_offset, complete, (), self._revision, log_start_offset)

    def apply(self, change: StateChange) -> None:
        """Make a decision true: what it writes was accepted. Raises ValueError if anything has changed since."""
        if change.revision != self._revision:
            raise ValueError("the share-partition has changed since this was decided")
        self._revision += 1
        in_flight = self._in_flight
        if change.log_start_offset >= 0:
            in_flight.move_start(change.log_start_offset)
            return
        for run in change.runs:
            in_flight.put(in_flight.batches[in_flight.index_at(run.first_offset)], run)
        in_flight.advance()

    def _change(self, runs: Sequence[Run]) -> StateChange:
        complete = self._in_flight.complete
        for run in runs:
            if run.state >= ACKNOWLEDGED:
                complete += run.last_offset - run.first_offset + 1
        return StateChange(to_write(runs), self._in_flight.start, complete, tuple(runs), self._revision)
