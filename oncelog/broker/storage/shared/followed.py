"""Which rounds have something of the metadata log, which others follow, and where it ended in each of the newest.

Owns: which of them are remembered. Does not own: up to which round a node has followed (`succession.roster`): those
rounds are committed, while the newest here may not be yet.
"""

from collections import deque

_MOST = 1_000
"""A node is behind by what was appended between two renewals of its row, which are two seconds apart."""
UNKNOWN = -1
"""In the place of an offset."""


class FollowedEnds:
    def __init__(self) -> None:
        self._next_end: int | None = None
        """The end of the metadata log after the round that is being collected; None if that round has none of it."""
        self._ends: deque[tuple[int, int]] = deque(maxlen=_MOST)

    def begin(self, number: int, end_offset: int) -> None:
        """Remember where the metadata log ended at the start, and in which round."""
        self._ends.append((number, end_offset))

    def collect(self, end_offset: int) -> None:
        """Note that the next round has records of the metadata log, which then ends here."""
        self._next_end = end_offset

    def take(self, number: int) -> bool:
        """Give the collected round its number. Returns whether it has records of the metadata log."""
        if self._next_end is None:
            return False
        self._ends.append((number, self._next_end))
        self._next_end = None
        return True

    def at(self, number: int) -> int:
        """Return the end of the metadata log for a node that has followed up to this round; `UNKNOWN` if it is no
        longer remembered."""
        return next((end_offset for each, end_offset in reversed(self._ends) if each <= number), UNKNOWN)
