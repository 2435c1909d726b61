"""A share-partition with one cell for each offset, as slow and as plain as can be: what the real one is compared with.

Follows Kafka's SharePartition offset by offset. It has no runs, no counters and no index; gaps are a set of offsets.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from oncelog.broker.coordinator.share.values import ShareState
from oncelog.broker.sharing.fetched import Fetched
from oncelog.broker.sharing.values import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    NO_LOCK,
    RECORD_LIMIT,
    RELEASE,
    RENEW,
    AcknowledgementBatch,
    AcquiredRecords,
    Acquisition,
    ShareLimits,
)
from oncelog.protocol.errors import ErrorCode, KafkaError
from tests.support.transactions.share_state import contiguous

TERMINAL = (ACKNOWLEDGED, ARCHIVED)


@dataclass(frozen=True)
class Cell:
    state: int
    count: int
    owner: str = ""
    until_ms: int = NO_LOCK


class Cells:
    def __init__(self, state: ShareState) -> None:
        self.start = state.start_offset
        self.ranges = [(batch.first_offset, batch.last_offset) for batch in state.batches]
        self.cells = {
            offset: Cell(batch.delivery_state, batch.delivery_count)
            for batch in state.batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
        }
        self.unread = set(range(self.start, max(self.cells, default=-1))) - self.cells.keys()
        self._advance()

    @property
    def end(self) -> int:
        return max(self.cells, default=self.start)

    @property
    def in_flight(self) -> int:
        return self.end - self.start + 1 if self.cells else 0

    @property
    def complete(self) -> int:
        return sum(cell.state in TERMINAL for offset, cell in self.cells.items() if offset >= self.start)

    @property
    def next_fetch_offset(self) -> int:
        for offset in range(self.start, self.end + 1):
            if offset in self.unread or self._state(offset) == AVAILABLE:
                return offset
        return self.end + 1 if self.cells else self.start

    @property
    def next_expiry_ms(self) -> int | None:
        return min((cell.until_ms for cell in self.cells.values() if cell.state == ACQUIRED), default=None)

    def acquired_by(self, member: str) -> list[int]:
        return sorted(offset for offset, cell in self.cells.items() if cell.owner == member)

    def acquire(self, member: str, request: Acquisition, fetched: Fetched) -> list[AcquiredRecords]:
        if request.max_records <= 0 or fetched.last_offset < self.start:
            return []
        self._archive(range(fetched.fetch_offset, fetched.first_offset), (AVAILABLE,))
        self.unread -= set(range(fetched.fetch_offset, fetched.first_offset))
        more, last = request.limits.partition_max_record_locks - self.in_flight, fetched.last_offset
        if more <= 0 and fetched.fetch_offset <= self.end:
            more, last = self.end - fetched.fetch_offset + 1, min(last, self.end)
        more = min(more, request.max_records)
        until = request.monotonic_ms + request.limits.record_lock_duration_ms
        given: list[list[int]] = []
        offset = max(fetched.first_offset, self.start)
        while more > 0 and offset <= last:
            if offset in self.cells:
                taken, stops = self._acquire_cached(offset, member, request, fetched, last, more, until, bool(given))
                more, offset = more - len(taken), self._range(offset)[1] + 1
                given += self._grouped(taken)
                if stops:
                    break
            elif self.unread or not self.cells or offset > self.end:
                ranges, taken, offset = self._acquire_new(offset, last, more, member, request, fetched, until)
                self.ranges = sorted(self.ranges + ranges)
                more -= len(taken)
                given += [[o for o in taken if first <= o <= final] for first, final in ranges]
            else:
                offset += 1
        self.unread -= set(range(fetched.fetch_offset, offset)) | self.cells.keys()
        aborted = {
            o for batch in fetched.batches if batch.is_aborted for o in range(batch.base_offset, batch.last_offset + 1)
        }
        counts = {o: self.cells[o].count for group in given for o in group}
        self._archive(aborted, (AVAILABLE, ACQUIRED))
        self._advance()
        return [
            AcquiredRecords(kept[0], kept[-1], counts[kept[0]])
            for group in given
            for kept in contiguous([o for o in group if o not in aborted])
        ]

    def acknowledge(
        self, member: str, batches: Sequence[AcknowledgementBatch], limits: ShareLimits, at_ms: int
    ) -> dict[int, Cell]:
        changed: dict[int, Cell] = {}
        for first, last, types in batches:
            if any(kind not in range(5) for kind in types) or len(types) not in (1, last - first + 1):
                raise KafkaError(ErrorCode.INVALID_REQUEST)
            if last < self.start:
                continue
            self._check_in_flight(first, last)
            for offset in range(max(first, self.start), last + 1):
                cell = self.cells.get(offset)
                if cell is None:
                    continue
                kind = types[0] if len(types) == 1 else types[offset - first]
                if cell.owner != member or (kind == RENEW and not limits.renew_acknowledge_enable):
                    raise KafkaError(ErrorCode.INVALID_RECORD_STATE)
                if kind == RENEW:
                    changed[offset] = replace(cell, until_ms=at_ms + limits.record_lock_duration_ms)
                elif kind == RELEASE:
                    changed[offset] = _released(cell, limits)
                else:
                    changed[offset] = Cell(ACKNOWLEDGED if kind == ACCEPT else ARCHIVED, cell.count)
        return changed

    def _check_in_flight(self, first: int, last: int) -> None:
        ranges = [(low, high) for low, high in self.ranges if low <= max(first, self.start)]
        if not ranges:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE)
        final = max(high for low, high in self.ranges if low <= last)
        if final < last:
            past = "first" if final < first else "last"
            message = f"Batch record not found. The {past} offset in request is past acquired records."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)

    def release(self, member: str, limits: ShareLimits) -> dict[int, Cell]:
        return {offset: _released(cell, limits) for offset, cell in self.cells.items() if cell.owner == member}

    def expire(self, at_ms: int, limits: ShareLimits) -> dict[int, Cell]:
        return {
            offset: _released(cell, limits)
            for offset, cell in self.cells.items()
            if cell.state == ACQUIRED and cell.until_ms <= at_ms
        }

    def to_write(self, changed: dict[int, Cell]) -> tuple[dict[int, tuple[int, int]], int]:
        """The states to write, and how many records are terminal then."""
        states = {o: (cell.state, cell.count) for o, cell in sorted(changed.items()) if cell.state != ACQUIRED}
        return states, self.complete + sum(state in TERMINAL for state, _ in states.values())

    def apply(self, changed: dict[int, Cell]) -> None:
        self.cells |= changed
        self._advance()

    def move_start(self, log_start: int) -> None:
        if log_start > self.start:
            self._archive(range(log_start), (AVAILABLE, ACQUIRED))
            self.unread -= set(range(log_start))
            self.start = log_start
            self._advance()

    def _acquire_cached(
        self,
        offset: int,
        member: str,
        request: Acquisition,
        fetched: Fetched,
        last: int,
        more: int,
        until: int,
        has_some: bool,
    ) -> tuple[list[int], bool]:
        """Kafka's acquireSubsetBatchRecords, and shouldThrottleRecordsDelivery before it."""
        low, high = self._range(offset)
        limit = request.limits.delivery_count_limit
        throttled_from = max(2, -(-limit // 2))
        free = [o for o in range(max(low, fetched.first_offset), min(high, last) + 1) if self._state(o) == AVAILABLE]
        throttles = max((self.cells[o].count for o in free), default=0) >= throttled_from
        if throttles and has_some:
            return [], True
        taken: list[int] = []
        most = -1
        for o in free:
            count = self.cells[o].count
            if limit > 2 and count == limit - 1 and taken:
                break
            if count >= throttled_from and most < 0:
                most = max(1, (high - low + 1) >> (count - throttled_from + 1))
            self.cells[o] = Cell(ACQUIRED, count + 1, member, until)
            taken.append(o)
            if (limit > 2 and count + 1 == limit) or len(taken) == most:
                break
            if request.acquire_mode == RECORD_LIMIT and len(taken) == more:
                break
        return taken, throttles and bool(taken)

    def _acquire_new(
        self, offset: int, last: int, more: int, member: str, request: Acquisition, fetched: Fetched, until: int
    ) -> tuple[list[tuple[int, int]], list[int], int]:
        last = min([last, *(low - 1 for low, _ in self.ranges if low > offset)])
        if more < last - offset + 1:
            within = [batch for batch in fetched.batches if batch.base_offset <= offset + more - 1 <= batch.last_offset]
            last = min(last, within[0].last_offset if within else offset + more - 1)
        taken = list(range(offset, last + 1))
        if request.acquire_mode == RECORD_LIMIT:
            taken = taken[:more]
        for o in range(offset, last + 1):
            self.cells[o] = Cell(ACQUIRED, 1, member, until) if o in taken else Cell(AVAILABLE, 0)
        ranges, first = [], offset
        if request.acquire_mode != RECORD_LIMIT and last - offset + 1 > request.batch_size:
            for batch in fetched.batches:
                if batch.base_offset <= last and batch.base_offset - first >= request.batch_size:
                    ranges.append((first, batch.base_offset - 1))
                    first = batch.base_offset
        return [*ranges, (first, last)], taken, last + 1

    def _grouped(self, offsets: list[int]) -> list[list[int]]:
        groups: list[list[int]] = []
        for o in offsets:
            if groups and groups[-1][-1] == o - 1 and self.cells[groups[-1][-1]].count == self.cells[o].count:
                groups[-1].append(o)
            else:
                groups.append([o])
        return groups

    def _archive(self, offsets: Iterable[int], states: tuple[int, ...]) -> None:
        for offset in offsets:
            if self._state(offset) in states:
                self.cells[offset] = Cell(ARCHIVED, self.cells[offset].count)

    def _advance(self) -> None:
        while self.start <= max(self.cells, default=-1):
            if self.start in self.unread or self._state(self.start) in (AVAILABLE, ACQUIRED):
                break
            self.start += 1
        self.ranges = [(low, high) for low, high in self.ranges if high >= self.start]
        first = min((low for low, _ in self.ranges), default=self.start)
        self.cells = {offset: cell for offset, cell in self.cells.items() if offset >= first}

    def _range(self, offset: int) -> tuple[int, int]:
        return next((low, high) for low, high in self.ranges if low <= offset <= high)

    def _state(self, offset: int) -> int:
        return self.cells[offset].state if offset in self.cells else -1


def _released(cell: Cell, limits: ShareLimits) -> Cell:
    return Cell(AVAILABLE if cell.count < limits.delivery_count_limit else ARCHIVED, cell.count)
