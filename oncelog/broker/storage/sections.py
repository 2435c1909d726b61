"""What one round of commits holds of each log, as bytes: the body of a journal's frame, or of a row in a database.

Owns: the layout, and the checksums of a body that nothing else protects. Does not own: what a section stands for where
it has no batches (each journal's own convention).
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from oncelog.broker.turns.ports import Buffer
from oncelog.protocol.checksum import crc32c

_SECTION = Struct(">16siqqqqI")
"""Topic id, partition, base offset of the segment, position in it, first offset, next offset, bytes that follow."""
_CHECKSUMS = Struct(">II")
"""CRC-32C of the fields of a section, and of its batches."""
SECTION_BYTES = _SECTION.size
"""The size of a section without its batches."""

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


def encode_checked(sections: Iterable[Section]) -> bytes:
    """Encode sections with checksums, for a journal whose medium has none."""
    parts: list[Buffer] = []
    for section in sections:
        encoded = encode_sections([section])
        parts += (_CHECKSUMS.pack(crc32c(encoded[:SECTION_BYTES]), crc32c(section[1].data)), encoded)
    return b"".join(parts)


def decode_checked(body: memoryview) -> Iterator[tuple[LogKey, Span | None]]:
    """Decode sections and their checksums; None stands for batches that differ from those written. Raises
    ValueError if it is unknown whose batches they are."""
    at = 0
    while at < len(body):
        start = at + _CHECKSUMS.size
        end = start + SECTION_BYTES
        if len(body) < end:
            raise ValueError(f"it ends in the middle of what begins at byte {at}")
        of_section, of_data = _CHECKSUMS.unpack_from(body, at)
        at = end + int.from_bytes(body[end - 4 : end], "big")
        if crc32c(body[start:end]) != of_section or len(body) < at:
            raise ValueError(f"the checksum of what begins at byte {start} does not match")
        ((key, span),) = decode_sections(body[start:at])
        yield key, span if crc32c(span.data) == of_data else None
