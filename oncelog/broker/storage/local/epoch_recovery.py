"""Recovers the leader epochs of a log from `leader-epoch-checkpoint` and, where it may be stale, from the batches.

Owns: which of the two is trusted. Invariants
- The file is written in the round that syncs the first batch of an epoch: it must be right for synced batches. Above
  them epochs may be missing or, where the batch was lost, surplus: those come from the batches, which were read.
- A file that is missing, or that a batch contradicts, is reported and rewritten from all batches.
"""

from collections.abc import Callable

from oncelog.broker.log.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs
from oncelog.broker.storage.local.checkpoints import LEADER_EPOCHS, encode_leader_epochs, parse_leader_epochs
from oncelog.broker.storage.local.reader import iterate_batches
from oncelog.broker.storage.local.segments import Segments
from oncelog.protocol.records.batch import BatchHeader


class EpochRuns:
    """The leader epochs of batches in order, run-length encoded: the first and last batch of each."""

    def __init__(self) -> None:
        self._runs: list[tuple[int, int, int]] = []

    def add(self, header: BatchHeader) -> None:
        epoch, offset = header.partition_leader_epoch, header.base_offset
        if self._runs and self._runs[-1][0] == epoch:
            self._runs[-1] = (epoch, self._runs[-1][1], offset)
        elif epoch > UNDEFINED_EPOCH:  # a repair fills gaps with batches without an epoch
            self._runs.append((epoch, offset, offset))

    def agree_with(self, epochs: LeaderEpochs, start_offset: int, end_offset: int) -> bool:
        """Whether a history agrees on all batches that begin between these offsets."""
        return all(
            epochs.epoch_of(max(first, start_offset)) == epochs.epoch_of(min(last, end_offset - 1)) == epoch
            for epoch, first, last in self._runs
            if first < end_offset and last >= start_offset
        )

    def add_to(self, epochs: LeaderEpochs) -> None:
        for epoch, first, _ in self._runs:
            if epoch > epochs.latest:
                epochs.assign(epoch, first)


def recover_epochs(
    segments: Segments,
    runs: EpochRuns,
    synced_offset: int,
    log_start_offset: int,
    log_end_offset: int,
    report: Callable[[str], None],
) -> LeaderEpochs:
    """`runs` are those of all batches that had to be read, which includes all above `synced_offset`. Raises OSError,
    and KafkaError if a batch is damaged."""
    disk, path = segments.disk, f"{segments.directory}/{LEADER_EPOCHS}"
    data = disk.read_bytes(path) if disk.exists(path) else None
    written = (parse_leader_epochs(data) if data is not None else None) or ()
    epochs = LeaderEpochs(written)
    epochs.truncate_end(min(synced_offset, log_end_offset))
    knows_start = synced_offset <= log_start_offset or epochs.epoch_of(log_start_offset) > UNDEFINED_EPOCH
    is_wrong = not knows_start or not runs.agree_with(epochs, log_start_offset, synced_offset)
    if is_wrong:
        epochs, runs = LeaderEpochs(), EpochRuns()
        for header, _ in iterate_batches(segments, log_start_offset, log_end_offset):
            runs.add(header)
    runs.add_to(epochs)
    known = LeaderEpochs(written)
    for history in (epochs, known):
        history.truncate_start(log_start_offset)
    if known.entries != epochs.entries:
        if is_wrong:  # not for the filler batches of a repair, which have no epoch
            report(f"{path} is {'missing' if data is None else 'wrong'}, it is rewritten")
        disk.write_atomically(path, encode_leader_epochs(epochs.entries))
    elif epochs.entries and log_end_offset > synced_offset:
        # The broker may have stopped before its first sync, and everything found counts as synced from now on.
        file = disk.open(path)
        file.sync()
        file.close()
    return epochs
