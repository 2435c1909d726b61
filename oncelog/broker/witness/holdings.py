"""The records of one partition that a member of a share group holds, as the broker's responses say.

Owns: the ranges of records that were handed to the member and that it has not acknowledged since, each with the time at
which its lock runs out. Does not own: which records are locked in truth (`broker.sharing`), what follows (`witness`).
Invariants
- The ranges do not overlap: the last time that a record was handed out counts.
- There are never more than `MOST_RANGES`; the oldest make way. One that is missing hides a mistake, and invents none.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from oncelog.broker.turns.ports import MonotonicMs

MOST_RANGES: Final = 20


class Held(NamedTuple):
    first_offset: int
    last_offset: int
    lock_ms: int
    """How long the lock was from its begin."""
    until_ms: MonotonicMs


class Holdings:
    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: list[Held] = []
        """The oldest first."""

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, new: Held) -> None:
        """Note that records were handed out."""
        self.take(new.first_offset, new.last_offset)
        self._held.append(new)
        del self._held[:-MOST_RANGES]

    def take(self, first_offset: int, last_offset: int) -> list[Held]:
        """Remove and return what is held of an offset range."""
        taken: list[Held] = []
        left: list[Held] = []
        for each in self._held:
            if each.last_offset < first_offset or each.first_offset > last_offset:
                left.append(each)
                continue
            taken.append(
                each._replace(
                    first_offset=max(each.first_offset, first_offset), last_offset=min(each.last_offset, last_offset)
                )
            )
            if each.first_offset < first_offset:
                left.append(each._replace(last_offset=first_offset - 1))
            if each.last_offset > last_offset:
                left.append(each._replace(first_offset=last_offset + 1))
        self._held = left[-MOST_RANGES:]
        return taken

    def renew(self, first_offset: int, last_offset: int, lock_ms: int, until_ms: MonotonicMs) -> None:
        """Begin the locks of an offset range again."""
        for each in self.take(first_offset, last_offset):
            self.hold(Held(each.first_offset, each.last_offset, lock_ms, until_ms))

    def overdue(self, ranges: Iterable[tuple[int, int]], monotonic_ms: MonotonicMs) -> Held | None:
        """Return what of these ranges has been overdue for the longest time; None if nothing is."""
        late = [
            held
            for held in self._held
            for first_offset, last_offset in ranges
            if held.until_ms < monotonic_ms and held.first_offset <= last_offset and held.last_offset >= first_offset
        ]
        return min(late, key=_until, default=None)


def _until(held: Held) -> MonotonicMs:
    return held.until_ms
