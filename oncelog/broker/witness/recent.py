"""A table of bounded length that forgets what was used least recently.

Owns: the bound, and how many entries were forgotten. Invariant: never more than `limit` entries.
"""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: dict[K, V] = {}
        """The values, the least recently used first."""
        self.forgotten_count = 0

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[V]:
        return iter(self._values.values())

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def get(self, key: K) -> V | None:
        """Return the value of a key, which is now the most recently used."""
        values = self._values
        if key not in values:
            return None
        value = values[key] = values.pop(key)
        return value

    def use(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key, made if the key is new; it is now the most recently used."""
        values = self._values
        value = values.pop(key) if key in values else make()
        values[key] = value
        if len(values) > self._limit:
            del values[next(iter(values))]
            self.forgotten_count += 1
        return value

    def put(self, key: K, value: V) -> None:
        """Set the value of a key, in place of any before."""
        self._values.pop(key, None)
        self.use(key, lambda: value)

    def take(self, key: K) -> V | None:
        """Remove and return the value of a key."""
        return self._values.pop(key, None)

    def take_all(self) -> list[V]:
        values = list(self._values.values())
        self._values.clear()
        return values
