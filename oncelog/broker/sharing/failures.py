"""The deliveries that failed, by record: which records of a share group keep coming back, or were rejected.

Owns: the counts since the start of the broker, in tables of bounded length. Does not own: what becomes of a record
(`acknowledging`), who shows this (`shown`). In memory alone, and only for groups whose records fail: Kafka has nothing
like it, and the state of a share-partition knows a record no longer once it is archived.
Invariants
- Never more than `MOST_PARTITIONS` share-partitions, and twice `MOST_RECORDS` of one. The share-partition that has
  failed least recently makes way, and of its records those that have failed least often.
- Of records that fail together the first `MOST_RECORDS` are counted: none of them stands out.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from oncelog.broker.coordinator.share.values import SharePartitionKey
from oncelog.broker.sharing.values import ARCHIVED, AVAILABLE, REJECT, RELEASE, AcknowledgementBatch, Run

MOST_PARTITIONS: Final = 1_000
MOST_RECORDS: Final = 100
_RELEASED: Final = 0
_LOST: Final = 1
_REJECTED: Final = 2
_ARCHIVED: Final = 3


class FailedRecord(NamedTuple):
    offset: int
    released: int
    """How often its member has released it."""
    lost: int
    """How often its lock ran out, or the session of its member ended."""
    rejected: int
    is_archived: bool
    """Whether it was rejected, or delivered as often as it may be: it is not delivered again."""

    @property
    def failure_count(self) -> int:
        return self.released + self.lost + self.rejected


class FailedDeliveries:
    __slots__ = ("_partitions",)

    def __init__(self) -> None:
        self._partitions: dict[SharePartitionKey, dict[int, list[int]]] = {}
        """The counts by offset; the share-partition that has failed least recently is the first."""

    def keys(self, group_id: str) -> list[SharePartitionKey]:
        """Return the share-partitions of a group that have failed records."""
        return [key for key in self._partitions if key.group_id == group_id]

    def worst(self, key: SharePartitionKey, count: int) -> list[FailedRecord]:
        """Return the records that have failed most often, the worst first: those that have failed more than once, or
        are archived. One that has come back once is nothing to look at: members leave."""
        records = self._partitions.get(key, {})
        failed = (_record(offset, records[offset]) for offset in _by_failures(records))
        return [each for each in failed if each.is_archived or each.failure_count > 1][:count]

    def forget(self, key: SharePartitionKey) -> None:
        """Forget a share-partition that starts over: failures of its records are counted from zero."""
        self._partitions.pop(key, None)

    def on_acknowledged(
        self, key: SharePartitionKey, batches: Sequence[AcknowledgementBatch], runs: Iterable[Run]
    ) -> None:
        """Note what an acknowledgement has released or rejected; `runs` are in order, as it has left them."""
        if any(RELEASE in batch.acknowledge_types or REJECT in batch.acknowledge_types for batch in batches):
            for run, acknowledge_type in _typed(runs, batches):
                if acknowledge_type == RELEASE:
                    self._count(key, run, _RELEASED)
                elif acknowledge_type == REJECT:
                    self._count(key, run, _REJECTED)

    def on_lost(self, key: SharePartitionKey, runs: Iterable[Run]) -> None:
        """Note records that their member holds no longer, without a word of its own."""
        for run in runs:
            self._count(key, run, _LOST)

    def _count(self, key: SharePartitionKey, run: Run, what: int) -> None:
        if run.state not in (AVAILABLE, ARCHIVED):
            return
        records = self._partitions.pop(key, {})
        self._partitions[key] = records
        if len(self._partitions) > MOST_PARTITIONS:
            del self._partitions[next(iter(self._partitions))]
        for offset in range(run.first_offset, min(run.last_offset + 1, run.first_offset + MOST_RECORDS)):
            counts = records.setdefault(offset, [0, 0, 0, 0])
            counts[what] += 1
            counts[_ARCHIVED] = int(run.state == ARCHIVED)
        if len(records) > 2 * MOST_RECORDS:
            for offset in _by_failures(records)[MOST_RECORDS:]:
                del records[offset]


def _typed(runs: Iterable[Run], batches: Sequence[AcknowledgementBatch]) -> Iterator[tuple[Run, int]]:
    """Yield each run with its acknowledgement's type: all its offsets are in one batch, and have the same."""
    index = 0
    for run in runs:
        while batches[index].last_offset < run.first_offset:
            index += 1
        batch = batches[index]
        types = batch.acknowledge_types
        yield run, types[0] if len(types) == 1 else types[run.first_offset - batch.first_offset]


def _by_failures(records: dict[int, list[int]]) -> list[int]:
    """Return the offsets, those that have failed most often first."""
    return sorted(records, key=lambda offset: (-sum(records[offset][:_ARCHIVED]), offset))


def _record(offset: int, counts: list[int]) -> FailedRecord:
    released, lost, rejected, archived = counts
    return FailedRecord(offset, released, lost, rejected, archived == 1)
