"""How far each log was cleaned, as one small value in the tables.

Owns: when it is written. Invariant: what it says was so before; what it does not say yet is cleaned again. Logs are
named by the ids of their topics: a topic of the same name inherits nothing.
"""

from collections.abc import Callable, Mapping
from uuid import UUID

from oncelog.broker.log.store import PartitionKey
from oncelog.broker.storage.sections import LogKey
from oncelog.broker.storage.shared.log import SharedLog
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock
from oncelog.broker.turns.schedule import Schedule

PATH = "cleaned"
_WRITE_MS = 10_000


class CleanedOffsets:
    """A Checkpoint of the cleaner."""

    def __init__(
        self,
        written: bytes,
        logs: Mapping[PartitionKey, SharedLog],
        write: Callable[[bytes], Completion[None]],
        clock: Clock,
    ) -> None:
        self._offsets = decode_cleaned(written)
        self._logs = logs
        self._write = write
        self._schedule = Schedule(clock)
        self._is_changed = False

    def get(self, topic: str, partition: int) -> int:
        return self._offsets.get(self._logs[topic, partition].key, 0)

    def set(self, topic: str, partition: int, offset: int) -> None:
        self._offsets[self._logs[topic, partition].key] = offset
        self._is_changed = True

    def step(self) -> None:
        """Write what has changed, now and then: a log that has many small rounds is not written after each."""
        if self._is_changed and self._schedule.take(_WRITE_MS):
            self._is_changed = False
            known = {log.key for log in self._logs.values()}
            self._offsets = {key: offset for key, offset in self._offsets.items() if key in known}
            self._write(encode_cleaned(self._offsets))


def encode_cleaned(offsets: Mapping[LogKey, int]) -> bytes:
    return "".join(f"{topic_id} {partition} {offset}\n" for (topic_id, partition), offset in offsets.items()).encode()


def decode_cleaned(written: bytes) -> dict[LogKey, int]:
    offsets: dict[LogKey, int] = {}
    try:
        for line in written.decode().splitlines():
            topic_id, partition, offset = line.split()
            offsets[UUID(topic_id), int(partition)] = int(offset)
    except ValueError:
        return {}  # it is damaged, and everything is cleaned again
    return offsets
