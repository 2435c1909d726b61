"""The leader epochs of one log, each with its start offset: they give the epoch of every record (KIP-101).

Owns: the history, as Kafka's LeaderEpochFileCache keeps it. Does not own: the current epoch
(`broker.cluster.leadership`), where the history is stored (the store of the log).
Invariants
- Epochs and start offsets strictly increase: an epoch without records loses its entry once a later one has begun.
- The history depends only on the batches and the current epoch, so that it can always be rebuilt from the log.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import itemgetter

FIRST_EPOCH = 0
UNDEFINED_EPOCH = -1
UNDEFINED_END_OFFSET = -1
EpochStart = tuple[int, int]
"""A leader epoch, and the offset at which it began."""

_epoch, _start_offset = itemgetter(0), itemgetter(1)


class LeaderEpochs:
    __slots__ = ("entries",)

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        self.entries: tuple[EpochStart, ...] = tuple(entries)

    @property
    def latest(self) -> int:
        """−1 if there is none."""
        return self.entries[-1][0] if self.entries else UNDEFINED_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """Records from `start_offset`, the end of the log, have `epoch`. Entries that contradict it are removed: they
        are of a log that was longer, or of an epoch without records."""
        if epoch != self.latest:
            kept = (entry for entry in self.entries if entry[0] < epoch and entry[1] < start_offset)
            self.entries = (*kept, (epoch, start_offset))

    def end_of(self, epoch: int, log_end_offset: int) -> EpochStart:
        """The largest epoch up to `epoch` that has records, and its end offset; −1 and −1 if unknown. As in Kafka an
        epoch below the first known one ends where that begins."""
        if epoch == UNDEFINED_EPOCH or epoch > self.latest:
            return UNDEFINED_EPOCH, UNDEFINED_END_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        later = bisect_right(self.entries, epoch, key=_epoch)
        return self.entries[later - 1][0] if later else epoch, self.entries[later][1]

    def epoch_of(self, offset: int) -> int:
        """The epoch of the record at `offset`, present or future; −1 before the first known epoch."""
        later = bisect_right(self.entries, offset, key=_start_offset)
        return self.entries[later - 1][0] if later else UNDEFINED_EPOCH

    def truncate_start(self, log_start_offset: int) -> None:
        """The log start has advanced to `log_start_offset`."""
        first = bisect_right(self.entries, log_start_offset, key=_start_offset) - 1
        if first > 0 or (first == 0 and self.entries[0][1] < log_start_offset):
            self.entries = ((self.entries[first][0], log_start_offset), *self.entries[first + 1 :])

    def truncate_end(self, log_end_offset: int) -> None:
        """The log was truncated to `log_end_offset`: epochs that began there or later have no records."""
        self.entries = self.entries[: bisect_left(self.entries, log_end_offset, key=_start_offset)]
