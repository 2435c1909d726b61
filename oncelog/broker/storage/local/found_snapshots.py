"""The producer snapshots that a start finds beside the segments of a log.

Owns: which of them can be believed, and their deletion. Does not own: what a snapshot contains
(`storage.producer_snapshot`), the replay of the batches after one (`recovery`).
Invariant: a snapshot that cannot be read, or that the manifest contradicts, is deleted and reported, never used.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Sequence

from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.storage.local.segment import file_name
from oncelog.broker.storage.local.segment_manifest import NO_SNAPSHOT, sum_of
from oncelog.broker.storage.local.segments import open_snapshot, write_snapshot
from oncelog.broker.storage.producer_snapshot import (
    BATCHES_SUFFIX,
    SUFFIX,
    SUFFIXES,
    encode_snapshot,
    load_batches,
    load_snapshot,
)
from oncelog.broker.turns.ports import Disk, MonotonicMs


class FoundSnapshots:
    def __init__(self, disk: Disk, directory: str, monotonic_ms: MonotonicMs, report: Callable[[str], None]) -> None:
        """`report` gets a line for each snapshot that is not used."""
        self._disk = disk
        self._directory = directory
        self._monotonic_ms = monotonic_ms
        self._report = report
        self.offsets: list[int] = []
        self.sums: dict[int, tuple[int, int]] = {}
        """The checksums of the snapshots in the manifest, by offset."""
        self.without_batches: dict[int, ProducerStateManager] = {}
        """The state of snapshots with a bad batches file: one batch per producer."""
        self.remembers_batches = True
        """Unless that, a snapshot has one batch per producer, as in Apache Kafka."""

    def has(self, offset: int) -> bool:
        # By bisection: called for each of ten thousand segments.
        slot = bisect_left(self.offsets, offset)
        return slot < len(self.offsets) and self.offsets[slot] == offset

    def sum_at(self, offset: int) -> tuple[int, int]:
        return self.sums.get(offset, NO_SNAPSHOT) if self.has(offset) else NO_SNAPSHOT

    def newest(self, newer_than: int, offset: int) -> tuple[int, ProducerStateManager] | None:
        """The newest valid one above `newer_than`, up to `offset`: its offset and state."""
        for candidate in reversed(
            self.offsets[bisect_right(self.offsets, newer_than) : bisect_right(self.offsets, offset)]
        ):
            state = self.load(candidate)
            if state is not None:
                return candidate, state
        return None

    def load(self, offset: int) -> ProducerStateManager | None:
        path, batches_path = self._paths(offset)
        try:
            data = self._disk.read_bytes(path)
            if self.sums.get(offset, sum_of(data)) != sum_of(data):
                raise ValueError("it does not match the manifest")
            state = load_snapshot(data, self._monotonic_ms)
        except ValueError as error:
            self._report(f"{path} is not used: {error}")
            self.drop(offset)
            return None
        if not self.remembers_batches:
            return state
        try:
            batches = self._disk.read_bytes(batches_path) if self._disk.exists(batches_path) else None
            load_batches(state, data, batches)
        except ValueError as error:
            self._report(f"{batches_path} is not used: {error}; the last batches of producers come from the log")
            self.without_batches[offset] = state
            self.drop(offset)
            return None
        return state

    def write(self, offset: int, state: ProducerStateManager) -> tuple[int, int]:
        """Write a new one, not synced yet; returns its sum."""
        snapshot = encode_snapshot(state)
        for file in write_snapshot(self._disk, self._directory, offset, snapshot):
            file.close()
        insort(self.offsets, offset)
        self.sums[offset] = sum_of(snapshot.rows)
        return self.sums[offset]

    def sync(self, offset: int) -> None:
        for file in open_snapshot(self._disk, self._directory, offset):
            file.sync()
            file.close()
        self._disk.sync_dir(self._directory)

    def drop(self, offset: int) -> None:
        self.offsets.remove(offset)
        for path in self._paths(offset):
            self._disk.delete(path)

    def drop_above(self, log_end_offset: int) -> None:
        for offset in [known for known in self.offsets if known > log_end_offset]:
            self._report(f"the producer snapshot of offset {offset} is deleted: the log ends at {log_end_offset}")
            self.drop(offset)

    def drop_old(self, base_offsets: Collection[int], batches_offsets: Sequence[int]) -> None:
        """Only the last clean stop's snapshot is needed; those of rolls are deleted with their segments, which begin at
        `base_offsets`. `batches_offsets` are those of the batches files."""
        for offset in self.offsets[:-1]:
            if offset not in base_offsets:
                self.drop(offset)
        for offset in batches_offsets:
            if not self.has(offset):
                self._disk.delete(f"{self._directory}/{file_name(offset, BATCHES_SUFFIX)}")

    def path(self, offset: int) -> str:
        return f"{self._directory}/{file_name(offset, SUFFIX)}"

    def _paths(self, offset: int) -> list[str]:
        return [f"{self._directory}/{file_name(offset, suffix)}" for suffix in SUFFIXES]
