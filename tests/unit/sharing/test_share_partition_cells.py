"""A share-partition does what one cell for each offset does, in any history of fetches, acknowledgements and locks."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.broker.sharing.fetched import Fetched, FetchedBatch, Reach
from oncelog.broker.sharing.partition import SharePartition
from oncelog.broker.sharing.values import (
    ACCEPT,
    ACQUIRED,
    BATCH_OPTIMIZED,
    RECORD_LIMIT,
    AcknowledgementBatch,
    Acquisition,
    ShareLimits,
    StateChange,
)
from oncelog.broker.turns.ports import MonotonicMs
from oncelog.protocol.errors import KafkaError
from tests.support.samples import examples
from tests.support.transactions.share_state import Written, contiguous
from tests.unit.sharing.cells import Cell, Cells

MEMBERS = ("a", "b", "c")
LOCK_MS = 100
LIMITS = [
    ShareLimits(LOCK_MS, 2, 12, True),
    ShareLimits(LOCK_MS, 3, 30, False),
    ShareLimits(LOCK_MS, 5, 30, True),
    ShareLimits(LOCK_MS, 10, 200, True),
]

kinds = st.integers(0, 4)
small = st.integers(0, 11)
acknowledgements = st.lists(st.tuples(small, small, st.lists(st.integers(-1, 4), min_size=1, max_size=6)), max_size=4)
members = st.sampled_from(MEMBERS)
fetches = st.tuples(st.just("fetch"), members, st.sampled_from([1, 3, 10, 50]), st.sampled_from([1, 4, 20]), small)
steps = st.one_of(
    st.tuples(st.just("append"), st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=4)),
    fetches,
    fetches,
    st.tuples(st.just("acknowledge_any"), members, acknowledgements, st.booleans()),
    st.tuples(st.just("acknowledge_any"), members, acknowledgements, st.booleans()),
    st.tuples(st.just("acknowledge_own"), members, st.lists(kinds, min_size=1, max_size=4), st.integers(0, 5)),
    st.tuples(st.just("acknowledge_own"), members, st.lists(kinds, min_size=1, max_size=4), st.integers(0, 5)),
    st.tuples(st.just("release"), members),
    st.tuples(st.just("fetch_and_release"), members, st.integers(1, 6), fetches),
    st.tuples(st.just("fetch_and_release"), members, st.integers(1, 6), fetches),
    st.tuples(st.just("wait"), st.sampled_from([1, LOCK_MS // 2, LOCK_MS])),
    st.tuples(st.just("compact"), small),
    st.tuples(st.just("delete_records"), small),
    st.tuples(st.just("restart")),
    st.tuples(st.just("accept_and_restart"), members, st.integers(2, 9), st.integers(0, 3)),
    st.tuples(st.just("accept_and_restart"), members, st.integers(2, 9), st.integers(0, 3)),
)


def within(reach: Reach, batches: list[FetchedBatch]) -> list[FetchedBatch]:
    """The batches that are looked at: as `read_fetched`, with offsets alone."""
    until_offset = max(reach.known_until, batches[0].base_offset - 1) + reach.new_count
    return [batches[0], *(after for before, after in pairwise(batches) if before.last_offset < until_offset)]


@dataclass
class World:
    """A log, what the share coordinator has, and one share-partition in two forms."""

    limits: ShareLimits
    written: Written = field(default_factory=Written)
    log: list[FetchedBatch] = field(default_factory=list)
    log_start: int = 0
    log_end: int = 0
    now: int = 1000

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.real = SharePartition(self.written.read())
        self.cells = Cells(self.written.read())
        assert ACQUIRED not in {run.state for run in self.real.runs()}

    def append(self, batches: list[tuple[int, bool]]) -> None:
        for count, is_aborted in batches:
            self.log.append(FetchedBatch(self.log_end, self.log_end + count - 1, 1, is_aborted))
            self.log_end += count

    def compact(self, number: int) -> None:
        """The last batch of a log always remains."""
        if len(self.log) > 1:
            del self.log[number % (len(self.log) - 1)]

    def delete_records(self, count: int) -> None:
        self.log_start = min(self.log_start + count, self.log_end)
        self.log = [batch for batch in self.log if batch.last_offset >= self.log_start]

    def fetch(self, member: str, max_records: int, batch_size: int, number: int) -> int:
        """One ShareFetch; returns how many records it acquires."""
        offset = self.real.next_fetch_offset
        if offset < self.log_start:
            self.written_and_applied(self.real.move_start(self.log_start), None)
            self.cells.move_start(self.log_start)
            return 0
        batches = [batch for batch in self.log if batch.last_offset >= offset][: number // 2 + 1]
        if not batches or not self.real.can_acquire(self.limits):
            return 0
        mode = RECORD_LIMIT if number % 2 else BATCH_OPTIMIZED
        request = Acquisition(max_records, batch_size, mode, self.limits, MonotonicMs(self.now))
        before = dict(self.cells.cells)
        reach = self.real.reach(max_records, self.limits)
        acquired = self.real.acquire(member, request, Fetched(offset, within(reach, batches)))
        assert acquired == self.cells.acquire(member, request, Fetched(offset, batches))
        assert all(one.last_offset < other.first_offset for one, other in pairwise(acquired))
        offsets = [o for one in acquired for o in range(one.first_offset, one.last_offset + 1)]
        assert all(before[o].state == 0 for o in offsets if o in before), "what was not available is handed out"
        aborted = {o for batch in batches if batch.is_aborted for o in range(batch.base_offset, batch.last_offset + 1)}
        assert not aborted.intersection(offsets)
        return len(offsets)

    def acknowledge(self, member: str, batches: list[AcknowledgementBatch], *, refused: bool = False) -> None:
        at = MonotonicMs(self.now)
        try:
            changed = self.cells.acknowledge(member, batches, self.limits, self.now)
        except KafkaError as expected:
            try:
                self.real.acknowledge(member, batches, self.limits, at)
            except KafkaError as error:
                assert error.code is expected.code
                assert error.message.startswith(expected.message)
                return
            raise
        change = self.real.acknowledge(member, batches, self.limits, at)
        if not refused:
            self.written_and_applied(change, changed)

    def acknowledge_any(self, member: str, parts: list[tuple[int, int, list[int]]], refused: bool) -> None:
        """Most of it is about offsets in flight, some is not."""
        batches = []
        first = max(0, self.cells.start - 3)
        for skipped, length, types in parts:
            first += skipped
            last = first + (max(length, 1) if len(types) == 1 else len(types)) - 1
            batches.append(AcknowledgementBatch(first, last, tuple(types)))
            first = last + 1
        self.acknowledge(member, batches, refused=refused)

    def acknowledge_own(self, member: str, types: list[int], skipped: int) -> None:
        batches = [
            AcknowledgementBatch(part[0], part[-1], tuple(types[offset % len(types)] for offset in part))
            for part in contiguous(self.cells.acquired_by(member)[skipped:])
        ]
        self.acknowledge(member, batches)

    def accept_and_restart(self, member: str, every: int, kept: int) -> None:
        """Accept some records and restart; acquired records before them are unknown afterwards."""
        owned = [offset for offset in self.cells.acquired_by(member) if offset % every > kept]
        self.acknowledge(member, [AcknowledgementBatch(offset, offset, (ACCEPT,)) for offset in owned])
        self.restart()

    def fetch_and_release(self, member: str, times: int, fetch: tuple[str, str, int, int, int]) -> None:
        for _ in range(times):
            self.fetch(*fetch[1:])
            self.release(member)

    def release(self, member: str) -> None:
        self.written_and_applied(self.real.release(member, self.limits), self.cells.release(member, self.limits))

    def wait(self, time_ms: int) -> None:
        self.now += time_ms
        expiry = self.real.next_expiry_ms()
        if expiry is not None and expiry <= self.now:
            change = self.real.expire(MonotonicMs(self.now), self.limits)
            assert change.batches
            self.written_and_applied(change, self.cells.expire(self.now, self.limits))

    def written_and_applied(self, change: StateChange, changed: dict[int, Cell] | None) -> None:
        if changed is not None:
            states, complete = self.cells.to_write(changed)
            assert _spread(change) == states
            assert all(
                one[2:] != other[2:] or one.last_offset + 1 < other.first_offset
                for one, other in pairwise(change.batches)
            ), "two batches could be one"
            assert (change.start_offset, change.delivery_complete_count) == (self.cells.start, complete)
        if change.batches:
            self.written.write(change.start_offset, change.delivery_complete_count, change.batches)
        self.real.apply(change)
        if changed is not None:
            self.cells.apply(changed)

    def check(self) -> None:
        real, cells = self.real, self.cells
        spread = {
            offset: Cell(*run[2:]) for run in real.runs() for offset in range(run.first_offset, run.last_offset + 1)
        }
        assert spread == cells.cells
        assert real.start_offset == cells.start
        assert real.end_offset == cells.end
        assert real.in_flight_count == cells.in_flight
        assert real.delivery_complete_count == cells.complete
        assert real.next_fetch_offset == cells.next_fetch_offset
        assert real.next_expiry_ms() == cells.next_expiry_ms
        holding = {run.member_id for run in real.runs() if run.state == ACQUIRED}
        assert {member for member in MEMBERS if real.holds(member)} == holding
        assert real.in_flight_batch_count == len(cells.ranges)
        first_to_do = next((offset for offset, cell in sorted(spread.items()) if cell.state <= ACQUIRED), None)
        assert first_to_do is None or real.start_offset <= first_to_do

    def acknowledge_all(self) -> None:
        """All members accept all they have."""
        for member in MEMBERS:
            owned = self.cells.acquired_by(member)
            self.acknowledge(member, [AcknowledgementBatch(offset, offset, (ACCEPT,)) for offset in owned])

    def drain(self) -> None:
        """Read and accept until the end of the log."""
        self.append([(1, False)])
        for _ in range(2 * self.log_end + 50):
            self.acknowledge_all()
            if self.real.next_fetch_offset >= self.log_end and not self.real.in_flight_count:
                return
            self.fetch("a", 7, 5, 8)
            self.check()
        raise AssertionError(f"stuck at {self.real.next_fetch_offset}: {self.real.runs()}")


def _spread(change: StateChange) -> dict[int, tuple[int, int]]:
    return {offset: (state, count) for first, last, state, count in change.batches for offset in range(first, last + 1)}


@settings(max_examples=examples(600))
@given(st.sampled_from(LIMITS), st.lists(steps, min_size=8, max_size=40))
def test_a_share_partition_is_one_cell_for_each_offset(limits: ShareLimits, history: list[tuple[Any, ...]]) -> None:
    """Acquired ranges, errors, written states, offsets, counts and expiries are those of the plain model; no record is
    handed out while it is not available, and what is read to its end has no record left to do."""
    world = World(limits)
    world.append([(5, False), (3, False), (1, False), (8, False), (4, False)])
    for name, *arguments in history:
        getattr(world, name)(*arguments)
        world.check()
    world.drain()
