"""The records of a share-partition between its start offset and the last that was handed out.

Owns: the batches, the start offset, the gaps that are still to be read, and what is counted of all this. Does not own:
which change is allowed (`acquiring`, `acknowledging`).
Invariants
- The batches are in order and do not overlap, each ends at or behind the start offset, and what they have before it is
  terminal.
- The start offset moves only over terminal records, and over offsets that the log no longer has.
- An offset between batches is either such a hole in the log, or a gap: what was acquired before this leader began, but
  never acknowledged, is unknown to the share coordinator, and must be read again. `gap_offset` is the first of these.

Kafka: SharePartition's cachedState, GapWindow and deliveryCompleteCount.
"""

from bisect import bisect_right

from oncelog.broker.coordinator.share.values import ShareState
from oncelog.broker.sharing.in_flight_batch import InFlightBatch
from oncelog.broker.sharing.locks import Locks
from oncelog.broker.sharing.values import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE, Run
from oncelog.protocol.errors import ErrorCode, KafkaError

NO_GAP = -1
_PERSISTED = (AVAILABLE, ACKNOWLEDGED, ARCHIVED)


class InFlight:
    __slots__ = (
        "_first_offsets",
        "_last_gap_offset",
        "available",
        "batches",
        "complete",
        "gap_offset",
        "held",
        "locks",
        "start",
    )

    def __init__(self, state: ShareState) -> None:
        """Raises UNKNOWN_SERVER_ERROR for a state that is none, as Kafka."""
        self.start = state.start_offset
        self.batches: list[InFlightBatch] = []
        self._first_offsets: list[int] = []
        self.locks = Locks()
        self.held: dict[str, int] = {}
        """How many records each member has acquired."""
        self.available = 0
        """How many records are available."""
        self.complete = 0
        """How many records from the start offset on are terminal."""
        self._last_gap_offset = state.batches[-1].last_offset if state.batches else NO_GAP
        self.gap_offset = NO_GAP
        next_offset = state.start_offset
        for first_offset, last_offset, delivery_state, delivery_count in state.batches:
            if first_offset < next_offset or last_offset < first_offset or delivery_state not in _PERSISTED:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "Failed to initialize the share partition")
            self.add(InFlightBatch(Run(first_offset, last_offset, delivery_state, delivery_count)))
            next_offset = last_offset + 1
        self.gap_offset = self._gap_from(self.start)
        self.advance()

    @property
    def end(self) -> int:
        """The last offset in flight; if none is, the start offset."""
        return self.batches[-1].last_offset if self.batches else self.start

    @property
    def record_count(self) -> int:
        """How many offsets are in flight, holes included."""
        return self.batches[-1].last_offset - self.start + 1 if self.batches else 0

    @property
    def next_fetch_offset(self) -> int:
        """The first available record or gap; if there is none, what follows the last record in flight."""
        if self.available:
            for batch in self.batches:
                if self.gap_offset != NO_GAP and self.gap_offset < batch.first_offset:
                    return self.gap_offset
                available_offset = batch.first_available()
                if available_offset >= 0:
                    return available_offset
        if self.gap_offset != NO_GAP:
            return self.gap_offset
        return self.batches[-1].last_offset + 1 if self.batches else self.start

    def index_at(self, offset: int) -> int:
        """Return the index of the last batch that begins at or before an offset; −1 if there is none."""
        return bisect_right(self._first_offsets, offset) - 1

    def overlapping(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """Return the batches with any of these offsets."""
        first = self.index_at(first_offset)
        if first < 0 or self.batches[first].last_offset < first_offset:
            first += 1
        return self.batches[first : self.index_at(last_offset) + 1]

    def complete_within(self, first_offset: int, last_offset: int) -> int:
        """Return how many of these records are terminal."""
        return sum(
            [
                run.last_offset - run.first_offset + 1
                for batch in self.overlapping(first_offset, last_offset)
                for run in batch.runs_within(first_offset, last_offset)
                if run.state >= ACKNOWLEDGED
            ]
        )

    def add(self, batch: InFlightBatch) -> None:
        """Add a batch where no other is."""
        index = self.index_at(batch.first_offset) + 1
        self.batches.insert(index, batch)
        self._first_offsets.insert(index, batch.first_offset)
        for run in batch:
            self._count(run, 1)
        self.close_gaps(batch.first_offset, batch.last_offset + 1)

    def put(self, batch: InFlightBatch, run: Run) -> None:
        """Replace offsets of a batch."""
        for before in batch.put(run):
            self._count(before, -1)
        self._count(run, 1)

    def archive(self, first_offset: int, last_offset: int, states: tuple[int, ...]) -> None:
        """Archive those of a range that are in one of these states; their delivery counts remain."""
        for batch in self.overlapping(first_offset, last_offset):
            for run in batch.runs_within(first_offset, last_offset):
                if run.state in states:
                    self.put(batch, Run(run.first_offset, run.last_offset, ARCHIVED, run.delivery_count))

    def close_gaps(self, first_offset: int, end_offset: int) -> None:
        """Note that offsets of [first_offset, end_offset) which are in no batch are not in the log, either."""
        if first_offset <= self.gap_offset < end_offset:
            self.gap_offset = self._gap_from(end_offset)

    def advance(self) -> None:
        """Move the start offset as far as nothing is left to do."""
        position, done = self.start, 0
        for batch in self.batches:
            if batch.first_offset > position:
                if self.gap_offset != NO_GAP and self.gap_offset < batch.first_offset:
                    break
                position = batch.first_offset
            unfinished = batch.first_unfinished(position)
            end = batch.last_offset + 1 if unfinished < 0 else unfinished
            self.complete -= end - position
            position = end
            if unfinished >= 0:
                break
            done += 1
        self.start = position
        del self.batches[:done]
        del self._first_offsets[:done]

    def move_start(self, log_start_offset: int) -> None:
        """Forget all before a later start of the log, locks included; in Kafka these last until they expire, and its
        start offset may move back then."""
        self.complete -= self.complete_within(self.start, log_start_offset - 1)
        self.start = log_start_offset
        # Before the start offset nothing is counted as terminal: archived there is only no longer locked or available.
        self.archive(0, log_start_offset - 1, (AVAILABLE, ACQUIRED))
        if self.gap_offset != NO_GAP:
            self.gap_offset = self._gap_from(max(self.gap_offset, log_start_offset))
        gone = self.index_at(log_start_offset - 1)
        if gone >= 0 and self.batches[gone].last_offset >= log_start_offset:
            gone -= 1
        del self.batches[: gone + 1]
        del self._first_offsets[: gone + 1]
        self.advance()

    def _gap_from(self, offset: int) -> int:
        for batch in self.overlapping(offset, self._last_gap_offset):
            if batch.first_offset > offset:
                break
            offset = batch.last_offset + 1
        return offset if offset <= self._last_gap_offset else NO_GAP

    def _count(self, run: Run, sign: int) -> None:
        count = run.last_offset - run.first_offset + 1
        if run.state == ACQUIRED:
            held = self.held.pop(run.member_id, 0) + sign * count
            if held:
                self.held[run.member_id] = held
            if sign > 0:
                self.locks.add(run.locked_until_ms, count)
            else:
                self.locks.remove(run.locked_until_ms, count)
        elif run.state == AVAILABLE:
            self.available += sign * count
        elif run.first_offset >= self.start:
            self.complete += sign * count
