"""A consumer of partitions in memory, as far as `oncelog.sql_offsets` uses one: nothing waits, and a partition may be
assigned to several consumers at once."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oncelog.client.options.hooks import on_partitions
from oncelog.client.options.settings import ConsumerSettings
from oncelog.client.values.errors import NoOffsetForPartition
from oncelog.client.values.records import ConsumerRecords, OffsetAndMetadata, Record, TopicPartition


class NothingToRead(Exception):
    """A consumer would wait here for records."""


class Partition:
    """A log: values that readers see, and None for a marker or an aborted record."""

    def __init__(self, *values: bytes | None) -> None:
        self.first = 0
        self.values: list[bytes | None] = list(values)

    @property
    def end(self) -> int:
        return self.first + len(self.values)

    def delete_before(self, offset: int) -> None:
        del self.values[: offset - self.first]
        self.first = offset

    def visible(self) -> list[tuple[int, bytes]]:
        return [(offset, value) for offset, value in enumerate(self.values, self.first) if value is not None]


class PartitionsToRead:
    """A consumer without a group: the test assigns its partitions."""

    def __init__(
        self,
        logs: Mapping[TopicPartition, Partition],
        options: Mapping[str, Any],
        committed: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self._settings = ConsumerSettings(**options)
        self._logs = logs
        self._committed = committed or {}
        self._positions: dict[TopicPartition, int] = {}
        self._added: list[TopicPartition] = []

    def assign(self, places: Iterable[TopicPartition], *, calls_hook: bool = True) -> None:
        """Change the assignment; as in a group, the hook is called inside the next read."""
        chosen = sorted(places)
        new = [each for each in chosen if each not in self._positions] if calls_hook else []
        self._added = sorted({*new, *self._added} & set(chosen))
        self._positions = {each: self._positions.get(each, -1) for each in chosen}

    def assignment(self) -> list[TopicPartition]:
        return [each for each in sorted(self._positions) if each not in self._added]

    def seek(self, place: TopicPartition, offset: int) -> None:
        assert place in self._positions
        self._positions[place] = offset

    async def beginning_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: self._logs[each].first for each in places}

    async def end_offsets(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {each: self._logs[each].end for each in places}

    async def committed(self, *places: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata]:
        return {each: OffsetAndMetadata(self._committed[each]) for each in places if each in self._committed}

    async def next_batch(self, *, max_records: int | None = None, max_wait_ms: int = 0) -> ConsumerRecords:
        if self._added:
            added, self._added = self._added, []
            if self._settings.on_assign is not None:
                await on_partitions(self._settings.on_assign, added)
        records: list[Record] = []
        for place in self._positions:
            if self._positions[place] < 0:
                self._positions[place] = self._committed.get(place, -1)
            records += self._take(place, (max_records or 500) - len(records))
        if not records:
            raise NothingToRead
        ends = {each: OffsetAndMetadata(position) for each, position in self._positions.items()}
        return ConsumerRecords(records, ends)

    def _take(self, place: TopicPartition, limit: int) -> Sequence[Record]:
        """Return the next records; the position moves past what readers do not see, before and after them."""
        log, found = self._logs[place], list[Record]()
        if not log.first <= self._positions[place] <= log.end:
            raise NoOffsetForPartition(f"no valid offset for {place.topic}-{place.partition}")
        while self._positions[place] < log.end:
            value = log.values[self._positions[place] - log.first]
            if value is not None and len(found) == limit:
                break
            if value is not None:
                found.append(Record(*place, self._positions[place], 0, None, value))
            self._positions[place] += 1
        return found
