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
        """Of the round that is collected, if it has something of it."""
        self._ends: deque[tuple[int, int]] = deque(maxlen=_MOST)

    def begin(self, number: int, end_offset: int) -> None:
        """What was found ends here, and this is the newest round of it."""
        self._ends.append((number, end_offset))

    def collect(self, end_offset: int) -> None:
        """The next round has something of it, and it ends here."""
        self._next_end = end_offset

    def take(self, number: int) -> bool:
        """That round has this number. Returns whether it has something of the metadata log."""
        if self._next_end is None:
            return False
        self._ends.append((number, self._next_end))
        self._next_end = None
        return True

    def at(self, number: int) -> int:
        """The end of the metadata log for a node that knows the rounds up to this one; `UNKNOWN` if that is not
        remembered."""
        return next((end_offset for each, end_offset in reversed(self._ends) if each <= number), UNKNOWN)
