"""An append-only list of numbers that quickly finds the next one below a bound.

Owns: the numbers, the minimum of every 32 of them, of every 32 of those, and so on. To change a number, rebuild the
tree. Invariant: an entry of a level is the minimum of its 32 on the level below, so that a search or an append looks at
some dozens of numbers among millions.
"""

from array import array
from collections.abc import Iterable

_SHIFT = 5
_WIDTH = 1 << _SHIFT
NONE = -1
NOTHING_LOWER = 2**63 - 1


class MinimumTree:
    __slots__ = ("_levels",)

    def __init__(self, values: Iterable[int] = ()) -> None:
        self._levels = [array("q", values)]
        self._add_levels()

    def __len__(self) -> int:
        return len(self._levels[0])

    @property
    def values(self) -> "array[int]":
        return self._levels[0]

    def append(self, value: int) -> None:
        slot = len(self._levels[0])
        for level in self._levels:
            if slot == len(level):
                level.append(value)
            elif value < level[slot]:
                level[slot] = value
            else:
                return
            slot >>= _SHIFT
        self._add_levels()

    def _add_levels(self) -> None:
        while len(top := self._levels[-1]) > _WIDTH:
            self._levels.append(array("q", [min(top[at : at + _WIDTH]) for at in range(0, len(top), _WIDTH)]))

    def find_below(self, start: int, bound: int) -> int:
        """The first slot from `start` whose number is below `bound`; NONE if there is none."""
        slot = start
        for height, level in enumerate(self._levels):
            for found in range(slot, min(len(level), (slot | (_WIDTH - 1)) + 1)):
                if level[found] < bound:
                    return self._descend(height, found, bound)
            slot = (slot >> _SHIFT) + 1  # the rest of these 32 was searched
        return NONE

    def _descend(self, height: int, slot: int, bound: int) -> int:
        while height > 0:
            height -= 1
            level = self._levels[height]
            slot <<= _SHIFT
            while level[slot] >= bound:
                slot += 1
        return slot

    def lowest(self, start: int) -> int:
        """The minimum from `start`; NOTHING_LOWER if there is none."""
        lowest, slot = NOTHING_LOWER, start
        for level in self._levels:
            lowest = min(lowest, *level[slot : (slot | (_WIDTH - 1)) + 1], NOTHING_LOWER)
            slot = (slot >> _SHIFT) + 1
        return lowest
