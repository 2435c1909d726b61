"""What one round of commits holds of each log, as bytes: the body of a journal's frame, or of a row in a database.

Owns: the layout. Does not own: what a section stands for where it has no batches (each journal's own convention).
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from oncelog.broker.turns.ports import Buffer

_SECTION = Struct(">16siqqqqI")
"""Topic id, partition, base offset of the segment, position in it, first offset, next offset, bytes that follow."""
SECTION_BYTES = _SECTION.size
"""Of a section beside its batches."""

LogKey = tuple[UUID, int]
"""Topic id and partition number: unlike a name, never used again."""


class Span(NamedTuple):
    """Batches that were appended one after the other to one segment, or what stands for them."""

    segment_base: int
    position: int
    first_offset: int
    next_offset: int
    data: Buffer


Section = tuple[LogKey, Span]
"""A log's part of a round."""


def encode_sections(sections: Iterable[Section]) -> bytes:
    parts: list[Buffer] = []
    for (topic_id, partition), (segment_base, position, first_offset, next_offset, data) in sections:
        parts.append(
            _SECTION.pack(topic_id.bytes, partition, segment_base, position, first_offset, next_offset, len(data))
        )
        parts.append(data)
    return b"".join(parts)


def decode_sections(body: memoryview) -> Iterator[Section]:
    """The spans are views of `body`."""
    at = 0
    while at < len(body):
        topic_id, partition, segment_base, position, first_offset, next_offset, size = _SECTION.unpack_from(body, at)
        at += _SECTION.size
        span = Span(segment_base, position, first_offset, next_offset, body[at : at + size])
        at += size
        yield (UUID(bytes=topic_id), partition), span
