"""Which partition a key or an id belongs to, exactly as the Java clients and brokers compute it."""

_MASK = 0xFFFFFFFF
_M = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """Kafka's murmur2 (seed 0x9747b28c) as an unsigned 32-bit number."""
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
    """The Java producer's default partitioner for a record with a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def java_string_hash(text: str) -> int:
    """String.hashCode: over UTF-16 units, wrapping as a signed 32-bit number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & _MASK
    return value - (1 << 32) if value >= 1 << 31 else value


def coordinator_partition(identifier: str, partition_count: int) -> int:
    """The partition of `__consumer_offsets` or `__transaction_state` for a group or transactional id (Utils.abs)."""
    value = java_string_hash(identifier)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
