"""Which partition a key or an id belongs to, exactly as the Java clients and brokers compute it."""

from collections.abc import Sequence
from operator import mul
from struct import unpack

_MASK = 0xFFFFFFFF
_M = 0x5BD1E995
_HASHED_AT_ONCE = 64
_POWERS = tuple(31**power & _MASK for power in range(_HASHED_AT_ONCE, -1, -1))
"""The powers of the multiplier of String.hashCode: the hash of a short text is one sum of products, without a loop in
Python."""


def murmur2(data: bytes) -> int:
    """Return Kafka's murmur2 (seed 0x9747b28c) as an unsigned 32-bit number."""
    length = len(data)
    value = 0x9747B28C ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        part = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        part = (part ^ part >> 24) * _M & _MASK
        value = value * _M & _MASK ^ part
    if whole < length:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the Java producer's default partition for a record with a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def java_string_hash(text: str) -> int:
    """Return Java's String.hashCode: over UTF-16 units, wrapping as a signed 32-bit number."""
    units: Sequence[int] = text.encode() if text.isascii() else _utf_16_units(text)
    first = units[:_HASHED_AT_ONCE]
    value: int = sum(map(mul, first, _POWERS[-len(first) :])) & _MASK
    for start in range(_HASHED_AT_ONCE, len(units), _HASHED_AT_ONCE):
        part = units[start : start + _HASHED_AT_ONCE]
        value = (value * _POWERS[-len(part) - 1] + sum(map(mul, part, _POWERS[-len(part) :]))) & _MASK
    return value - (1 << 32) if value >= 1 << 31 else value


def _utf_16_units(text: str) -> tuple[int, ...]:
    encoded = text.encode("utf-16-be", "surrogatepass")
    return unpack(f">{len(encoded) // 2}H", encoded)


def coordinator_partition(identifier: str, partition_count: int) -> int:
    """Return the partition of `__consumer_offsets` or `__transaction_state` for a group or transactional id
    (Utils.abs)."""
    value = java_string_hash(identifier)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
