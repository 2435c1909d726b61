"""Rows as Kafka's record batches, in a task: columns of Arrow in, batches without a producer out.

Owns: the bytes, which partition a row goes to, where a batch ends. Does not own: producer id, epoch and sequence, which
the driver sets when it publishes; where the bytes are kept until then (`spool`).

No step of Python per row: columns of varints, lengths and contents are joined by Arrow, and the bytes of the joined
column are the records of a batch. Some batches are joined at once, as many as a processor's cache holds: memory that is
new to the process costs more than to fill it. Only `digest_of`, for writes with a `runId`, looks at each row.
Invariants
- Rows of one key keep their order within a task, and go where Java's producer puts them.
- A batch has at most `batch_size` bytes, unless a single row is larger. As in Kafka's producer that is after
  compression: where the last batch became small, the next one takes more rows.
- What does not become smaller is not compressed: each batch says by itself whether it is.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from oncelog.protocol.partitioning import murmur2
from oncelog.protocol.records.batch import assemble_head
from oncelog.protocol.records.compression import CODECS, compress
from oncelog.protocol.records.record import zigzag

_MOST_BYTES_OF_HEAD = 12
"""The most bytes of length, attributes and both deltas."""
_JOINED_BYTES = 2 << 20
"""How many bytes of rows are joined at once: two batches of 1 MB. Measured: 7 % less than one by one, and 4 MB are no
better."""
_WORTH = 0.9
"""The most that a compressed batch may have left of its size. Measured with lz4: random hexadecimal digits keep 0.93,
and to encode them takes 2.7 times as long as without compression."""
_SAMPLE_BYTES = 16 << 10
"""How much is compressed of a batch as a sample, after one that was not worth it."""
_FULL = 0.8
"""How full the next batch is to be, if it becomes as small as the last one: what then does not fit is divided."""
_LARGEST = 4
"""How many times its size a batch may have before compression, at the most. Measured with rows that are alike: a third
of the requests, and 0.04 s less to publish 500 MB."""
_FEW = 8
_UINT32 = pa.uint32()
_M = pa.scalar(0x5BD1E995, _UINT32)
_EMPTY = pa.scalar(b"", pa.binary())
_INT32 = pa.int32()
_MOST_IN_TABLE = 1 << 15
"""The longest length that has its varint in a table; longer ones are rarer, and cost less beside their contents."""


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A whole record batch without a producer id, for one partition."""

    partition: int
    record_count: int
    parts: tuple[bytes, bytes | memoryview]
    """The header and the body."""


def encode_rows(
    keys: Any,
    values: Any,
    headers: Any,
    wanted_partitions: Any,
    *,
    partition_count: int,
    first_sticky: int,
    batch_size: int,
    packer: "Packer",
    timestamp_ms: int,
) -> Iterator[EncodedBatch]:
    """The batches of some rows of one topic, by partition.

    `keys` and `values` are binary arrays, `headers` one of encoded headers (`encode_headers`) or `NO_HEADERS`,
    `wanted_partitions` an array of int32; null means none. A row goes to its wanted partition, else to its key's, else
    to a sticky one, the first of which is `first_sticky`. Raises ValueError for a partition that does not exist.
    """
    if not len(keys):
        return
    contents = _Contents.of(keys, values, headers)
    sizes = pc.add(contents.sizes, _MOST_BYTES_OF_HEAD)
    partitions = _partitions(keys, wanted_partitions, sizes, partition_count, first_sticky, batch_size)
    order = pc.array_sort_indices(partitions)  # a stable sort
    partitions, sizes = partitions.take(order), sizes.take(order)
    for each, codec, body in _packed(contents, order, partitions, sizes, batch_size, packer):
        head = assemble_head(body, attributes=codec, record_count=each.count, timestamp_ms=timestamp_ms)
        yield EncodedBatch(each.partition, each.count, (head, body))


def _packed(
    contents: "_Contents", rows: Any, partitions: Any, sizes: Any, batch_size: int, packer: "Packer"
) -> Iterator[tuple["_Bounds", int, bytes | memoryview]]:
    """Yield the codec and the body of each batch of these rows, which are sorted by partition."""
    for group in _groups(_bounds(partitions, sizes, int(batch_size * packer.larger))):
        first = group[0].start
        records = contents.records(rows.slice(first, group[-1].end - first), [each.count for each in group])
        _, offsets_buffer, data_buffer = records.buffers()
        offsets = memoryview(offsets_buffer).cast("i")[records.offset :]
        data = memoryview(data_buffer)
        for each in group:
            codec, body = packer.pack(data[offsets[each.start - first] : offsets[each.end - first]])
            if len(body) > batch_size and each.count > 1:  # it became less small than the one before
                own_rows, own_partitions, own_sizes = (
                    column.slice(each.start, each.count) for column in (rows, partitions, sizes)
                )
                yield from _packed(contents, own_rows, own_partitions, own_sizes, batch_size, packer)
            else:
                yield each, codec, body


class Packer:
    """Compresses the bodies of a task's batches, as long as that is worth its time."""

    def __init__(self, compression: str) -> None:
        self._codec = CODECS[compression]
        self._was_worth = True
        self.larger = 1.0
        """How many times its size the next batch may have before compression."""

    def pack(self, body: memoryview) -> tuple[int, bytes | memoryview]:
        """Compress a body; return the codec that was used, and the bytes."""
        if self._codec and (self._was_worth or self._is_worth(body[:_SAMPLE_BYTES])):
            packed = compress(self._codec, body)
            self._was_worth = len(packed) <= _WORTH * len(body)
            self.larger = min(max(1.0, _FULL * len(body) / len(packed)), _LARGEST)
            if self._was_worth:
                return self._codec, packed
        self.larger = 1.0
        return 0, body

    def _is_worth(self, body: memoryview) -> bool:
        return len(compress(self._codec, body)) <= _WORTH * len(body)


def encode_headers(headers: Any) -> Any:
    """Encode a column of array<struct<key, value>> as each record's header bytes; null is no header."""
    if headers is None:
        raise TypeError("headers is a column")
    encoded = []
    for row in headers.to_pylist():
        parts = [zigzag(len(row or ()))]
        for header in row or ():
            name, content = header["key"].encode(), header["value"]
            parts += (zigzag(len(name)), name, zigzag(-1 if content is None else len(content)), content or b"")
        encoded.append(b"".join(parts))
    return pa.array(encoded, pa.binary())


NO_HEADERS = pa.scalar(b"\x00", pa.binary())
"""The headers of every row where there is no column."""


def digest_of(topic: str, keys: Any, values: Any, headers: Any, wanted_partitions: Any) -> int:
    """Return the sum of a digest of each row: the same in whatever order and number of tasks rows come. The columns are
    those of `encode_rows`."""
    from xxhash import xxh3_128_intdigest  # a tenth of what hashlib's digests cost, all of it in a loop of Python

    if not len(keys):
        return 0
    before = pa.scalar(f"{topic}:".encode(), pa.binary())
    wanted = pc.cast(pc.cast(wanted_partitions, pa.string()), pa.binary())
    rows = pc.binary_join_element_wise(
        before,
        wanted,
        pa.scalar(b":", pa.binary()),
        *_Contents.of(keys, values, headers).parts,
        _EMPTY,
        null_handling="replace",
        null_replacement=b"",
    )
    _, offsets_buffer, data_buffer = rows.buffers()
    offsets = memoryview(offsets_buffer).cast("i")[rows.offset : rows.offset + len(rows) + 1]
    data = memoryview(data_buffer)
    return sum(xxh3_128_intdigest(data[start:end]) for start, end in pairwise(offsets))


# --- partitions -------------------------------------------------------------------------------------------------------


def _partitions(keys: Any, wanted: Any, sizes: Any, partition_count: int, first_sticky: int, batch_size: int) -> Any:
    bad = pc.or_(pc.less(wanted, 0), pc.greater_equal(wanted, partition_count))
    if pc.any(bad).as_py():
        first = wanted.filter(bad)[0].as_py()
        raise ValueError(f"a row is for partition {first}; the topic has {partition_count}")
    return pc.coalesce(
        wanted, _key_partitions(keys, partition_count), _sticky(keys, sizes, partition_count, first_sticky, batch_size)
    )


def _sticky(keys: Any, sizes: Any, partition_count: int, first: int, batch_size: int) -> Any:
    """Return the partitions of rows without a key: they stay in one until its batch is full, so that batches fill
    (KIP-480)."""
    loose = pc.if_else(pc.is_null(keys), sizes, 0)
    loose = pc.cast(loose, pa.int64())
    full = pc.divide(pc.subtract(pc.cumulative_sum(loose), loose), batch_size)
    shifted = pc.add(full, first)
    return pc.cast(pc.subtract(shifted, pc.multiply(pc.divide(shifted, partition_count), partition_count)), pa.int32())


def _key_partitions(keys: Any, partition_count: int) -> Any:
    positive = pc.bit_wise_and(murmur2_of(keys), pa.scalar(0x7FFFFFFF, _UINT32))
    count = pa.scalar(partition_count, _UINT32)
    return pc.cast(pc.subtract(positive, pc.multiply(pc.divide(positive, count), count)), pa.int32())


def murmur2_of(keys: Any) -> Any:
    """Return Kafka's murmur2 of each key, null for null: uint32, one column operation per step for keys of one
    length."""
    lengths = pc.binary_length(keys)
    indices, hashes = [], []
    for length in pc.unique(lengths.drop_null()).to_pylist():
        where = pc.indices_nonzero(pc.equal(lengths, length))
        indices.append(where)
        group = keys.take(where)
        if len(group) < _FEW:
            hashes.append(pa.array([murmur2(key) for key in group.to_pylist()], _UINT32))
        else:
            hashes.append(_murmur2_of_length(group, length))
    missing = pc.indices_nonzero(pc.is_null(keys))
    indices.append(missing)
    hashes.append(pa.nulls(len(missing), _UINT32))
    return pa.concat_arrays(hashes).take(pc.array_sort_indices(pa.concat_arrays(indices)))


def _murmur2_of_length(keys: Any, length: int) -> Any:
    value = pa.repeat(pa.scalar(0x9747B28C ^ length, _UINT32), len(keys))
    whole = length & ~3
    for position in range(0, whole, 4):
        part = pc.multiply(_words(pc.binary_slice(keys, position, position + 4)), _M)
        part = pc.multiply(_mixed(part, 24), _M)
        value = pc.bit_wise_xor(pc.multiply(value, _M), part)
    if whole < length:
        padding = pa.scalar(bytes(4 - (length - whole)), pa.binary())
        last = pc.binary_join_element_wise(pc.binary_slice(keys, whole, length), padding, _EMPTY)
        value = pc.multiply(pc.bit_wise_xor(value, _words(last)), _M)
    return _mixed(pc.multiply(_mixed(value, 13), _M), 15)


def _words(four_bytes_each: Any) -> Any:
    """Return the array as little-endian numbers: the contents of a binary array lie one behind the other."""
    start = memoryview(four_bytes_each.buffers()[1]).cast("i")[four_bytes_each.offset]
    data = four_bytes_each.buffers()[2].slice(start)
    return pa.Array.from_buffers(_UINT32, len(four_bytes_each), [None, data])


def _mixed(value: Any, bits: int) -> Any:
    return pc.bit_wise_xor(value, pc.shift_right(value, pa.scalar(bits, _UINT32)))


# --- records ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The rows of one batch, from `start` to before `end`, where rows are sorted by partition."""

    partition: int
    start: int
    end: int
    size_bytes: int
    """The most bytes of the batch."""

    @property
    def count(self) -> int:
        return self.end - self.start


def _bounds(partitions: Any, sizes: Any, batch_size: int) -> Iterator[_Bounds]:
    counts = pc.value_counts(partitions)
    ends = memoryview(pc.cumulative_sum(pc.cast(sizes, pa.int64())).buffers()[1]).cast("q")
    runs = counts.field("counts").to_pylist()
    for partition, run_end, run in zip(counts.field("values").to_pylist(), accumulate(runs), runs, strict=True):
        start = run_end - run
        while start < run_end:
            before = ends[start - 1] if start else 0
            end = max(start + 1, bisect_right(ends, before + batch_size, start, run_end))
            yield _Bounds(partition, start, end, ends[end - 1] - before)
            start = end


def _groups(bounds: Iterator[_Bounds]) -> Iterator[list[_Bounds]]:
    """Yield the batches that are joined at once: one that is larger, or several that are together smaller."""
    group: list[_Bounds] = []
    left = _JOINED_BYTES
    for each in bounds:
        if group and each.size_bytes > left:
            yield group
            group, left = [], _JOINED_BYTES
        group.append(each)
        left -= each.size_bytes
    if group:
        yield group


@dataclass(frozen=True, slots=True)
class _Contents:
    """The parts of rows behind the head of a record."""

    parts: Sequence[Any]
    """The parts as columns, or scalars where all rows have the same."""
    sizes: Any
    """The bytes of all parts together: int32."""

    @classmethod
    def of(cls, keys: Any, values: Any, headers: Any) -> "_Contents":
        parts: list[Any] = []
        for each in (keys, values):
            lengths = pc.binary_length(each)
            parts += (_varints(pc.fill_null(lengths, -1)), each)
        parts.append(headers)
        sizes = pa.repeat(pa.scalar(0, _INT32), len(keys))
        for part in parts:
            sizes = pc.add(sizes, pc.fill_null(pc.binary_length(part), 0))
        return cls(parts, sizes)

    def records(self, rows: Any, counts: Sequence[int]) -> Any:
        """Return a binary column of whole records, of batches that have so many of these rows each."""
        heads = pa.concat_arrays([_heads(count) for count in counts]) if len(counts) > 1 else _heads(counts[0])
        lengths = _varints(pc.add(self.sizes.take(rows), pc.binary_length(heads)))
        parts = [part if isinstance(part, pa.Scalar) else part.take(rows) for part in self.parts]
        return pc.binary_join_element_wise(
            lengths, heads, *parts, _EMPTY, null_handling="replace", null_replacement=b""
        )


def _heads(count: int) -> Any:
    """Return the heads of the first records of a batch: attributes, the distance to the batch's timestamp, and that to
    its offset."""
    return _table(b"\x00\x00", 1 << max(10, count.bit_length())).slice(1, count)


def _varints(numbers: Any) -> Any:
    """Return the zigzag varint of each number from -1 on: one for all where they are equal."""
    extremes = pc.min_max(numbers)
    lowest, highest = extremes["min"].as_py(), extremes["max"].as_py()
    if lowest == highest:
        return pa.scalar(zigzag(lowest), pa.binary())
    if highest < _MOST_IN_TABLE:
        return _table(b"", _MOST_IN_TABLE).take(pc.add(numbers, 1))
    encoded = numbers.dictionary_encode()
    return pa.array(map(zigzag, encoded.dictionary.to_pylist()), pa.binary()).take(encoded.indices)


@cache
def _table(before: bytes, end: int) -> Any:
    """Return the varints of -1 to before `end`, each behind the same bytes."""
    return pa.array([before + zigzag(number) for number in range(-1, end)], pa.binary())
