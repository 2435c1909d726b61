"""What the program says of delivered records, as it is sent: by partition, accepted or refused as one (KIP-932).

Owns: the numbers of the types, the ranges of a request, the outcome. Does not own: which records may be acknowledged
(`in_flight`), requests and retries (`exchange`). Invariant: the outcome is set once.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from oncelog.client.values.errors import KafkaError
from oncelog.client.values.records import AcknowledgeType, TopicPartition
from oncelog.client.values.waiting import Deadline, resolve

GAP: Final = 0
"""An acquired offset without a record: compacted, or a marker of a transaction."""
ACCEPT: Final = 1
RELEASE: Final = 2
REJECT: Final = 3
RENEW: Final = 4
TYPES: Mapping[AcknowledgeType, int] = {"accept": ACCEPT, "release": RELEASE, "reject": REJECT, "renew": RENEW}


class Origin(NamedTuple):
    """Where records come from: a partition, and the node that has locked them as its leader."""

    node_id: int
    topic_id: UUID
    topic_partition: TopicPartition


class Acknowledgements:
    """The types by offset of one partition's records."""

    __slots__ = ("deadline", "origin", "outcome", "types")

    def __init__(self, origin: Origin, types: Mapping[int, int], deadline: Deadline) -> None:
        self.origin = origin
        self.types = types
        self.deadline = deadline
        """The time until which they are sent again after a transient error."""
        self.outcome: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()

    @property
    def is_done(self) -> bool:
        return self.outcome.done()

    @property
    def offsets(self) -> list[int]:
        """The offsets of records; the program does not know of gaps."""
        return sorted(offset for offset, each in self.types.items() if each != GAP)

    def complete(self, error: KafkaError | None) -> None:
        resolve(self.outcome, error)


class Range(NamedTuple):
    """Offsets without holes, and their types: one for all, or one for each."""

    first_offset: int
    last_offset: int
    types: list[int]


def ranges_of(types: Mapping[int, int]) -> list[Range]:
    """Return the types by offset as ranges in ascending order, as few as possible."""
    ranges: list[Range] = []
    run: list[int] = []
    first = -1
    for offset in sorted(types):
        if run and offset != first + len(run):
            ranges.append(_range(first, run))
            run = []
        if not run:
            first = offset
        run.append(types[offset])
    if run:
        ranges.append(_range(first, run))
    return ranges


def _range(first: int, types: list[int]) -> Range:
    is_one = all(each == types[0] for each in types)
    return Range(first, first + len(types) - 1, types[:1] if is_one else types)
