"""What the share coordinator has of a share-partition, in the plainest form: a state for each offset."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from oncelog.broker.coordinator.share.values import ShareState, StateBatch


@dataclass
class Written:
    start: int = 0
    complete: int = 0
    states: dict[int, tuple[int, int]] = field(default_factory=dict)

    def write(self, start: int, complete: int, batches: Iterable[StateBatch]) -> None:
        for first, last, state, count in batches:
            self.states |= dict.fromkeys(range(first, last + 1), (state, count))
        self.start, self.complete = start, complete
        self.states = {offset: state for offset, state in sorted(self.states.items()) if offset >= start}

    def read(self) -> ShareState:
        """Neighbours with the same state are one batch, whatever was written together."""
        batches: list[StateBatch] = []
        for offset, state in self.states.items():
            if batches and batches[-1].last_offset == offset - 1 and batches[-1][2:] == state:
                batches[-1] = batches[-1]._replace(last_offset=offset)
            else:
                batches.append(StateBatch(offset, offset, *state))
        return ShareState(1, 0, self.start, self.complete, tuple(batches))


def contiguous(offsets: list[int]) -> list[list[int]]:
    groups: list[list[int]] = []
    for offset in offsets:
        if groups and groups[-1][-1] == offset - 1:
            groups[-1].append(offset)
        else:
            groups.append([offset])
    return groups
