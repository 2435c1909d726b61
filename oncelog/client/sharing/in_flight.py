"""The records that the program has, and what it says of them until that is sent.

Owns: which records may be acknowledged, their types until they are taken, renewals. Does not own: sending (`exchange`),
records that the program does not have yet (`handing_out`). Invariants: a record is acknowledged by what was said of it
last before it was taken, and by nothing after; one whose lock is being renewed is the program's again only if the
leader has renewed it.

As Kafka's ShareInFlightBatch.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

from oncelog.client.sharing.acknowledgements import (
    ACCEPT,
    RELEASE,
    RENEW,
    TYPES,
    Acknowledgements,
    Origin,
)
from oncelog.client.values.errors import InvalidState, KafkaError
from oncelog.client.values.records import AcknowledgeType, Record, ShareRecord, TopicPartition
from oncelog.client.values.waiting import Deadline


class _Part:
    """The records of one partition under one leader, by offset."""

    __slots__ = ("failed", "origin", "records", "renewing", "types")

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.records: dict[int, ShareRecord[Any, Any]] = {}
        self.failed: set[int] = set()
        """The offsets of records that no object could be made of: the program may say what becomes of them."""
        self.types: dict[int, int] = {}
        self.renewing: dict[int, ShareRecord[Any, Any]] = {}

    @property
    def is_empty(self) -> bool:
        return not (self.records or self.types or self.renewing)


class InFlight:
    def __init__(self) -> None:
        self._places: dict[TopicPartition, list[_Part]] = {}
        """Usually one for each: two after the leader has moved, or the topic was created again."""
        self._renewed: deque[tuple[Origin, ShareRecord[Any, Any]]] = deque()

    # --- delivery -----------------------------------------------------------------------------------------------------

    def add(self, origin: Origin, record: ShareRecord[Any, Any]) -> None:
        """Note that the program gets this record."""
        self._part(origin).records[record.offset] = record

    def add_types(self, origin: Origin, types: dict[int, int]) -> None:
        """Acknowledge what the program does not get."""
        if types:
            self._part(origin).types |= types

    def add_failed(self, origin: Origin, offset: int) -> None:
        """Release a record that no object could be made of, unless the program says otherwise."""
        part = self._part(origin)
        part.types[offset] = RELEASE
        part.failed.add(offset)

    # --- acknowledgement ----------------------------------------------------------------------------------------------

    def acknowledge(self, record: ShareRecord[Any, Any] | Record[Any, Any], kind: AcknowledgeType) -> None:
        """Raise InvalidState for a record that the program does not have, or whose acknowledgement is sent."""
        number = TYPES[kind]
        # Of two, the newer one has the record if both do: it was delivered again.
        for part in reversed(self._places.get(TopicPartition(record.topic, record.partition), ())):
            if record.offset in part.records or (record.offset in part.failed and number != RENEW):
                part.types[record.offset] = number
                return
        text = f"the record at offset {record.offset} of {record.topic}-{record.partition} cannot be acknowledged"
        raise InvalidState(text, hint="this consumer did not return it, or has sent its acknowledgement")

    def accept_all(self) -> None:
        """Accept whatever the program has."""
        for part in self._parts():
            part.types |= dict.fromkeys(part.records, ACCEPT)

    @property
    def unacknowledged_count(self) -> int:
        """How many records the program has said nothing of."""
        return sum(offset not in part.types for part in self._parts() for offset in part.records)

    def take(self, deadline: Deadline) -> list[Acknowledgements]:
        """Take what is to be sent. The program has these records no longer, nor can it change what it said."""
        taken: list[Acknowledgements] = []
        for part in list(self._parts()):
            if part.types:
                types, part.types = part.types, {}
                part.failed.clear()
                for offset, number in types.items():
                    record = part.records.pop(offset, None)
                    if record is not None and number == RENEW:
                        part.renewing[offset] = record
                taken.append(Acknowledgements(part.origin, types, deadline))
            self._forget_if_empty(part)
        return taken

    # --- renewals -----------------------------------------------------------------------------------------------------

    def on_outcome(self, acknowledgements: Acknowledgements, error: KafkaError | None) -> None:
        """Take in the leader's response: renewed records are the program's again, and others never come back here."""
        for part in list(self._places.get(acknowledgements.origin.topic_partition, ())):
            if part.origin == acknowledgements.origin:
                for offset, number in sorted(acknowledgements.types.items()):
                    record = part.renewing.pop(offset, None) if number == RENEW else None
                    if record is not None and error is None:
                        self._renewed.append((part.origin, record))
                self._forget_if_empty(part)

    @property
    def has_renewals(self) -> bool:
        """Whether records are being renewed, or are renewed and not returned yet."""
        return bool(self._renewed) or any(part.renewing for part in self._parts())

    @property
    def has_renewed(self) -> bool:
        return bool(self._renewed)

    def take_renewed(self, limit: int) -> list[ShareRecord[Any, Any]]:
        """Return renewed records; the program has them again."""
        returned: list[ShareRecord[Any, Any]] = []
        while self._renewed and len(returned) < limit:
            origin, record = self._renewed.popleft()
            self.add(origin, record)
            returned.append(record)
        return returned

    # ------------------------------------------------------------------------------------------------------------------

    def _parts(self) -> Iterator[_Part]:
        for parts in self._places.values():
            yield from parts

    def _part(self, origin: Origin) -> _Part:
        parts = self._places.setdefault(origin.topic_partition, [])
        for part in parts:
            if part.origin == origin:
                return part
        parts.append(_Part(origin))
        return parts[-1]

    def _forget_if_empty(self, part: _Part) -> None:
        if part.is_empty:
            parts = self._places[part.origin.topic_partition]
            parts.remove(part)
            if not parts:
                del self._places[part.origin.topic_partition]
