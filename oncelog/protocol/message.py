"""Runtime support of the generated codecs: the base of messages, and readers and writers of variable-length types.

Owns: equality and text of messages, bounds checks for strings, bytes and counts. Does not own: any message's layout.
Invariants: a reader takes (view, position) and returns (value, next position); malformed bytes raise ProtocolError,
IndexError, struct.error or UnicodeDecodeError, which `decode` turns into ProtocolError.

Messages are read-only by type: their attributes are Final, which costs nothing at run time.
"""

import struct
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from struct import Struct, unpack_from
from typing import Any, ClassVar, Protocol, TypeVar

from oncelog.protocol import mypyc_attr
from oncelog.protocol.errors import ProtocolError

Data = bytes | memoryview

_INT16 = Struct(">h")
_INT32 = Struct(">i")
LONGEST_TEXT_BYTES = 0x7FFF
NULL_STRING = b"\xff\xff"
NULL_LENGTH = b"\xff\xff\xff\xff"
_NUMBERS_A_STEP = 1_024
_SECRETS = frozenset(("auth_bytes", "hmac", "salted_password", "server_key", "stored_key"))
"""The fields that no text of a message shows: it may be logged, or be in an error."""
_SMALL = tuple(bytes((value,)) for value in range(128))


@mypyc_attr(allow_interpreted_subclasses=True)
class Message:
    """Base of all messages and their parts."""

    FIELDS: ClassVar[tuple[str, ...]] = ()
    __slots__ = FIELDS

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_same(getattr(self, name), getattr(other, name)) for name in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = {name: getattr(self, name) for name in self.FIELDS}
        fields = ", ".join(
            f"{name}=…" if value and name in _SECRETS else f"{name}={value!r}" for name, value in values.items()
        )
        return f"{type(self).__name__}({fields})"


MessageT = TypeVar("MessageT")
ReadT = TypeVar("ReadT", covariant=True)
WrittenT = TypeVar("WrittenT", contravariant=True)
Reader = Callable[[memoryview, int], tuple[MessageT, int]]
Writer = Callable[[list[Data], MessageT], None]
SlicedReader = Callable[[memoryview, int], Generator[int, None, tuple[MessageT, int]]]
SlicedWriter = Callable[[list[Data], MessageT], Iterator[int]]
FunctionT = TypeVar("FunctionT")


class Decode(Protocol[ReadT]):
    def __call__(self, view: memoryview, version: int, position: int = 0) -> tuple[ReadT, int]:
        """Return the message that starts at `position`, and the position after it; raises ProtocolError."""


class Encode(Protocol[WrittenT]):
    def __call__(self, message: WrittenT, version: int) -> list[Data]:
        """Return the parts of the encoded message, to be joined; record data is among them unchanged."""


class DecodeInSlices(Protocol[ReadT]):
    def __call__(self, view: memoryview, version: int, position: int = 0) -> Generator[int, None, tuple[ReadT, int]]:
        """Decode in slices; each step yields the number of further elements read."""


class EncodeInSlices(Protocol[WrittenT]):
    def __call__(self, out: list[Data], message: WrittenT, version: int) -> Iterator[int]:
        """Encode in slices; each step yields the number of further elements, whose parts are in `out` and may be
        removed."""


def codec(
    name: str, versions: range, readers: Mapping[int, Reader[MessageT]], writers: Mapping[int, Writer[MessageT]]
) -> tuple[Decode[MessageT], Encode[MessageT]]:
    """Return `decode` and `encode` of a message; readers and writers are passed for each version that changes the
    layout."""
    read_by_version, write_by_version = _by_version(versions, readers), _by_version(versions, writers)

    def decode(view: memoryview, version: int, position: int = 0) -> tuple[MessageT, int]:
        if version not in read_by_version:
            raise ProtocolError(f"{name} has no version {version}")
        try:
            return read_by_version[version](view, position)
        except (IndexError, struct.error, UnicodeDecodeError) as error:
            raise ProtocolError(f"{name} version {version} is malformed: {error}") from error

    def encode(message: MessageT, version: int) -> list[Data]:
        if version not in write_by_version:
            raise ProtocolError(f"{name} has no version {version}")
        out: list[Data] = []
        write_by_version[version](out, message)
        return out

    return decode, encode


def sliced_decode(
    name: str, versions: range, readers: Mapping[int, SlicedReader[MessageT] | None], decode: Decode[MessageT]
) -> DecodeInSlices[MessageT]:
    """Return `decode_in_slices`. A reader of None says that versions from this one on contain nothing long."""
    read_by_version = _by_version(versions, readers)

    def decode_in_slices(
        view: memoryview, version: int, position: int = 0
    ) -> Generator[int, None, tuple[MessageT, int]]:
        read = read_by_version.get(version)
        if read is None:
            return decode(view, version, position)
        try:
            return (yield from read(view, position))
        except (IndexError, struct.error, UnicodeDecodeError) as error:
            raise ProtocolError(f"{name} version {version} is malformed: {error}") from error

    return decode_in_slices


def sliced_encode(
    versions: range, writers: Mapping[int, SlicedWriter[MessageT] | None], encode: Encode[MessageT]
) -> EncodeInSlices[MessageT]:
    """Return `encode_in_slices`. A writer of None says that versions from this one on contain nothing long."""
    write_by_version = _by_version(versions, writers)

    def encode_in_slices(out: list[Data], message: MessageT, version: int) -> Iterator[int]:
        write = write_by_version.get(version)
        if write is None:
            out += encode(message, version)
        else:
            yield from write(out, message)

    return encode_in_slices


def _by_version(versions: range, changes: Mapping[int, FunctionT]) -> dict[int, FunctionT]:
    every: dict[int, FunctionT] = {}
    for version in versions:
        every[version] = changes[version] if version in changes else every[version - 1]
    return every


def _same(one: object, other: object) -> bool:
    # An array is a list when decoded, and any sequence when built.
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


# --- reading ----------------------------------------------------------------------------------------------------------


def read_varint(view: memoryview, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most five bytes (KIP-482)."""
    byte = view[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    byte = view[position + 1]
    if byte < 0x80:
        return value | byte << 7, position + 2
    value |= (byte & 0x7F) << 7
    position += 1
    for shift in (14, 21, 28):
        position += 1
        byte = view[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
    raise ProtocolError(f"the varint that ends at byte {position} has more than five bytes")


def _refuse(length: int, view: memoryview, position: int) -> ProtocolError:
    return ProtocolError(f"length {length} is announced at byte {position}, {len(view) - position} bytes are left")


# As in Kafka, any negative length is null where null is allowed. The readers below spell out the varint of one byte,
# and their bounds: a call each would double their cost.


def read_string(view: memoryview, position: int) -> tuple[str, int]:
    length: int = _INT16.unpack_from(view, position)[0]
    position += 2
    end = position + length
    if length < 0 or end > len(view):
        raise _refuse(length, view, position)
    return str(view[position:end], "utf-8"), end


def read_nullable_string(view: memoryview, position: int) -> tuple[str | None, int]:
    length: int = _INT16.unpack_from(view, position)[0]
    position += 2
    if length < 0:
        return None, position
    end = position + length
    if end > len(view):
        raise _refuse(length, view, position)
    return str(view[position:end], "utf-8"), end


def _read_long_text_length(view: memoryview, position: int) -> tuple[int, int]:
    """Read the length of a long compact string, which is no longer than a plain one: what one client sends may be
    returned to another in any version."""
    length, position = read_varint(view, position)
    if length > LONGEST_TEXT_BYTES + 1:
        raise ProtocolError(f"a text of {length - 1} bytes is announced, {LONGEST_TEXT_BYTES} is the maximum")
    return length, position


def read_compact_string(view: memoryview, position: int) -> tuple[str, int]:
    length = view[position]
    end = position + length
    if 0 < length <= 0x7F and end <= len(view):
        return str(view[position + 1 : end], "utf-8"), end
    length, position = _read_long_text_length(view, position)
    end = position + length - 1
    if length == 0 or end > len(view):
        raise _refuse(length - 1, view, position)
    return str(view[position:end], "utf-8"), end


def read_nullable_compact_string(view: memoryview, position: int) -> tuple[str | None, int]:
    if view[position] == 0:
        return None, position + 1
    return read_compact_string(view, position)


def read_records(view: memoryview, position: int) -> tuple[memoryview, int]:
    """Record data is not copied: a slice of the view."""
    length: int = _INT32.unpack_from(view, position)[0]
    position += 4
    end = position + length
    if length < 0 or end > len(view):
        raise _refuse(length, view, position)
    return view[position:end], end


def read_nullable_records(view: memoryview, position: int) -> tuple[memoryview | None, int]:
    if _INT32.unpack_from(view, position)[0] < 0:
        return None, position + 4
    return read_records(view, position)


def read_compact_records(view: memoryview, position: int) -> tuple[memoryview, int]:
    data, position = read_nullable_compact_records(view, position)
    if data is None:
        raise _refuse(-1, view, position)
    return data, position


def read_nullable_compact_records(view: memoryview, position: int) -> tuple[memoryview | None, int]:
    length, position = read_varint(view, position)
    if length == 0:
        return None, position
    end = position + length - 1
    if end > len(view):
        raise _refuse(length - 1, view, position)
    return view[position:end], end


def read_bytes(view: memoryview, position: int) -> tuple[bytes, int]:
    data, position = read_records(view, position)
    return bytes(data), position


def read_nullable_bytes(view: memoryview, position: int) -> tuple[bytes | None, int]:
    data, position = read_nullable_records(view, position)
    return None if data is None else bytes(data), position


def read_compact_bytes(view: memoryview, position: int) -> tuple[bytes, int]:
    data, position = read_compact_records(view, position)
    return bytes(data), position


def read_nullable_compact_bytes(view: memoryview, position: int) -> tuple[bytes | None, int]:
    data, position = read_nullable_compact_records(view, position)
    return None if data is None else bytes(data), position


def read_count(view: memoryview, position: int) -> tuple[int, int]:
    """Read an array's count; every element takes at least one byte, so a count above the bytes left is malformed."""
    count: int = _INT32.unpack_from(view, position)[0]
    position += 4
    if not 0 <= count <= len(view) - position:
        raise _refuse(count, view, position)
    return count, position


def read_nullable_count(view: memoryview, position: int) -> tuple[int, int]:
    """Read an array's count, -1 for null."""
    if _INT32.unpack_from(view, position)[0] < 0:
        return -1, position + 4
    return read_count(view, position)


def read_compact_count(view: memoryview, position: int) -> tuple[int, int]:
    count = view[position]
    if 0 < count <= 0x7F and position + count <= len(view):
        return count - 1, position + 1
    count, position = read_varint(view, position)
    if count == 0 or position + count - 1 > len(view):
        raise _refuse(count - 1, view, position)
    return count - 1, position


def read_nullable_compact_count(view: memoryview, position: int) -> tuple[int, int]:
    count, position = read_varint(view, position)
    if position + count - 1 > len(view):
        raise _refuse(count - 1, view, position)
    return count - 1, position


def read_tag(view: memoryview, position: int) -> tuple[int, int, int]:
    """Return a tag, and start and end of its data."""
    tag, position = read_varint(view, position)
    size, position = read_varint(view, position)
    end = position + size
    if end > len(view):
        raise _refuse(size, view, position)
    return tag, position, end


def refuse_tag(tag: int, position: int, end: int) -> None:
    raise ProtocolError(f"the data of tag {tag} ends at byte {position} instead of {end}")


def skip_tags(view: memoryview, position: int) -> int:
    """Skip a whole section of tagged fields, none of which is known."""
    if view[position] == 0:
        return position + 1
    count, position = read_varint(view, position)
    for _ in range(count):
        _, _, position = read_tag(view, position)
    return position


def read_numbers_in_slices(
    view: memoryview, position: int, number_count: int, letter: str
) -> Generator[int, None, list[Any]]:
    """Read the elements of an array of numbers, whose count is at most the bytes left; each step reads some of them."""
    struct = Struct(f">{_NUMBERS_A_STEP}{letter}")
    numbers: list[Any] = []
    while number_count - len(numbers) >= _NUMBERS_A_STEP:
        numbers += struct.unpack_from(view, position)
        position += struct.size
        yield _NUMBERS_A_STEP // 4
    numbers += unpack_from(f">{number_count - len(numbers)}{letter}", view, position)
    return numbers


# --- writing ----------------------------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    if value < 0x80:
        return _SMALL[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def nullable_string(text: str | None) -> bytes:
    return NULL_STRING if text is None else string(text)


def compact_string(text: str) -> bytes:
    data = text.encode()
    return (_SMALL[len(data) + 1] if len(data) < 0x7F else varint(len(data) + 1)) + data


def nullable_compact_string(text: str | None) -> bytes:
    return b"\x00" if text is None else compact_string(text)


def count(array: Sequence[object]) -> bytes:
    return _INT32.pack(len(array))


def nullable_count(array: Sequence[object] | None) -> bytes:
    return NULL_LENGTH if array is None else _INT32.pack(len(array))


def compact_count(array: Sequence[object]) -> bytes:
    return _SMALL[len(array) + 1] if len(array) < 0x7F else varint(len(array) + 1)


def nullable_compact_count(array: Sequence[object] | None) -> bytes:
    return b"\x00" if array is None else compact_count(array)


def write_data(out: list[Data], data: Data | None, compact: bool) -> None:
    """Write length and bytes as two parts, so that record data is never copied; None must be allowed by the caller."""
    if data is None:
        out.append(b"\x00" if compact else NULL_LENGTH)
    else:
        out.append(varint(len(data) + 1) if compact else _INT32.pack(len(data)))
        if data:
            out.append(data)


def write_tags(out: list[Data], tags: Sequence[tuple[int, list[Data]]]) -> None:
    """Write a section of tagged fields, given as (tag, parts) in ascending order."""
    out.append(varint(len(tags)))
    for tag, parts in tags:
        out.append(varint(tag) + varint(sum(map(len, parts))))
        out += parts
