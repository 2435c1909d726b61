"""Compression of record batches. Brokers store what producers sent; clients and checking tools use this.

Owns: the four codecs and their framing (snappy in the xerial block format that Java clients write). Libraries are
imported on first use, one per codec: Python's own for gzip and, from 3.14 on, zstd (before that its backport), lz4 for
lz4 (cramjam's takes ten times longer), cramjam for snappy. Does not own: what the data must hold (`batch`, which
counts). Invariants
- Decompression stops at `max_bytes`, over all frames together, so that a decompression bomb costs no more than that.
- The time grows with the size of the data, however many frames it has.

Data ends where Kafka's readers take it to end, for a batch that Kafka has accepted must be readable. gzip (RFC 1952)
and zstd (RFC 8878) may be several members or frames, one after another, and xerial's snappy may begin again; of lz4,
Kafka reads the first frame only. Bytes behind the last one are ignored by the readers of gzip, lz4 and, if they are
less than the length of a block, snappy. They are refused by that of zstd, which however ignores a frame that is cut off
behind a whole one.
"""

import sys
import zlib
from collections.abc import Iterator
from itertools import islice
from struct import Struct, error
from typing import Any

from oncelog.protocol.errors import DecompressedSizeError, ProtocolError

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
DEFAULT_MAX_BYTES = 256 * 1024 * 1024

_GZIP, _SNAPPY, _LZ4, _ZSTD = 1, 2, 3, 4
_GZIP_WINDOW = 31
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES = 32 * 1024
_STEP_BYTES = 256 * 1024
_INPUT_BYTES = 64 * 1024
_FIRST_INPUT_BYTES = 512
"""The first step into a further gzip member. What is behind a member's end is copied: steps that grow with the member
keep that below its size."""
_SHORTEST_MEMBER = 19
"""How many bytes Java wants behind a gzip member to look for another one: a member has at least 18."""
_MEMBER_MAGIC = b"\x1f\x8b\x08"
_MAX_FRAMES = 50_000
"""Far more than a producer writes. Measured: to open a frame of zstd takes 20 µs, so this many take a second."""
_BEGINNING_PARTS = 16
_BLOCK_LENGTH = Struct(">i")
_SNAPPY_RATIO = 64
"""The best ratio of snappy: three bytes copy at most 64. The announced size of a block is allocated before it is
read."""


def compress(codec: int, body: bytes | memoryview, level: int | None = None) -> bytes:
    """Compress data. `level` is the library's default if it is None; snappy has none. Raises ValueError for an unknown
    codec."""
    if codec == _GZIP:
        compressor = zlib.compressobj(_GZIP_LEVEL if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
        return compressor.compress(body) + compressor.flush()
    if codec == _SNAPPY:
        from cramjam import snappy

        out = [_XERIAL_HEADER]
        for start in range(0, len(body), _XERIAL_BLOCK_BYTES):
            block = bytes(snappy.compress_raw(body[start : start + _XERIAL_BLOCK_BYTES]))
            out += (_BLOCK_LENGTH.pack(len(block)), block)
        return b"".join(out)
    if codec == _LZ4:
        import lz4.frame

        # Java's reader rejects frames with linked blocks.
        return bytes(lz4.frame.compress(body, compression_level=level or 0, block_linked=False))
    if codec == _ZSTD:
        return bytes(_zstd().compress(body, _ZSTD_LEVEL if level is None else level))
    raise ValueError(f"unknown compression codec {codec}")


def decompress(
    codec: int, body: bytes | memoryview, max_bytes: int | None = None, max_parts: int | None = None
) -> bytes:
    """Raises ProtocolError for an unknown codec, for malformed data, and above `max_bytes`. Above `max_parts`, of which
    each frame is at least one, raises DecompressedSizeError as well: an empty frame takes time, too."""
    parts = _parts(codec, body, max_bytes)
    if max_parts is None:
        return b"".join(parts)
    found = list(islice(parts, max_parts + 1))
    if len(found) > max_parts:
        raise DecompressedSizeError(f"the batch has more than {max_parts} compressed parts")
    return b"".join(found)


def decompress_in_steps(codec: int, body: bytes | memoryview, max_bytes: int) -> bytearray:
    """Decompress in a thread beside others: to join all parts at once would keep them from running."""
    whole = bytearray()
    for part in _parts(codec, body, max_bytes):
        whole += part
    return whole


def beginning(codec: int, body: bytes | memoryview) -> bytes:
    """Return what the data begins with: at most 256 KiB, from at most 16 frames, in half a millisecond. Raises
    ProtocolError."""
    found = bytearray()
    try:
        for part in islice(_parts(codec, body, _STEP_BYTES), _BEGINNING_PARTS):
            found += part
    except DecompressedSizeError:
        pass  # there is more
    return bytes(found)


def _parts(codec: int, body: bytes | memoryview, max_bytes: int | None) -> Iterator[bytes]:
    limit = DEFAULT_MAX_BYTES if max_bytes is None else max_bytes
    try:
        if codec == _GZIP:
            yield from _gunzip(body, limit)
            return
        if codec == _SNAPPY:
            yield from _unsnappy(bytes(body), limit)
            return
        if codec == _LZ4:
            yield from _unlz4(body, limit)
            return
        if codec == _ZSTD:
            yield from _unzstd(body, limit)
            return
    except ProtocolError:
        raise
    except (zlib.error, error, RuntimeError, ValueError, EOFError) as problem:
        raise ProtocolError(f"the batch cannot be decompressed: {problem}") from problem
    raise ProtocolError(f"unknown compression codec {codec}")


def _too_large(limit: int) -> DecompressedSizeError:
    return DecompressedSizeError(f"the batch decompresses to more than {limit} bytes")


def _too_many() -> ProtocolError:
    return ProtocolError(f"the batch has more than {_MAX_FRAMES} compressed frames")


def _gunzip(body: bytes | memoryview, limit: int) -> Iterator[bytes]:
    left, position, end = limit, 0, len(body)
    step = _INPUT_BYTES
    for _ in range(_MAX_FRAMES):
        decompressor = zlib.decompressobj(_GZIP_WINDOW)
        while not decompressor.eof:
            if position >= end:
                raise ProtocolError("the gzip data ends early")
            data: bytes | memoryview = body[position : position + step]  # its rest is copied with each part
            position += len(data)
            step = min(2 * step, _INPUT_BYTES)
            is_full = True
            while is_full and not decompressor.eof:
                most = min(_STEP_BYTES, left + 1)
                part = decompressor.decompress(data, most)
                left -= len(part)
                if left < 0:
                    raise _too_large(limit)
                yield part
                data = decompressor.unconsumed_tail
                is_full = len(part) == most
        position -= len(decompressor.unused_data)
        if end - position < _SHORTEST_MEMBER or body[position : position + len(_MEMBER_MAGIC)] != _MEMBER_MAGIC:
            return
        step = _FIRST_INPUT_BYTES
    raise _too_many()


def _unsnappy(body: bytes, limit: int) -> Iterator[bytes]:
    from cramjam import DecompressionError, snappy

    size = 0
    try:
        for block in _snappy_blocks(body):
            announced = snappy.decompress_raw_len(block)
            if announced > _SNAPPY_RATIO * len(block):
                raise ProtocolError(f"a snappy block of {len(block)} bytes claims to become {announced}")
            size += announced
            if size > limit:
                raise _too_large(limit)
            yield bytes(snappy.decompress_raw(block))
    except DecompressionError as problem:
        raise ProtocolError(f"the snappy data is damaged: {problem}") from problem


def _snappy_blocks(body: bytes) -> Iterator[bytes]:
    """Yield the only block of data without framing, or the blocks of xerial's format, whose header may come again."""
    if not body.startswith(_XERIAL_MAGIC):
        yield body
        return
    position, end = 0, len(body)
    while end - position >= _BLOCK_LENGTH.size:
        if body.startswith(_XERIAL_MAGIC, position):
            position += len(_XERIAL_HEADER)
            if position > end:
                raise ProtocolError(f"a snappy header is cut off at byte {end}")
            continue
        (length,) = _BLOCK_LENGTH.unpack_from(body, position)
        position += _BLOCK_LENGTH.size
        if not 0 <= length <= end - position:
            raise ProtocolError(f"a snappy block of {length} bytes at byte {position} of {end}")
        yield body[position : position + length]
        position += length


def _unlz4(body: bytes | memoryview, limit: int) -> Iterator[bytes]:
    import lz4.frame

    decompressor = lz4.frame.LZ4FrameDecompressor()
    left = limit
    # In steps: decompress() allocates as much as it is allowed to return.
    part = decompressor.decompress(body, _STEP_BYTES)
    while part:
        left -= len(part)
        if left < 0:
            raise _too_large(limit)
        yield part
        part = b"" if decompressor.eof else decompressor.decompress(b"", _STEP_BYTES)
    if not decompressor.eof:
        raise ProtocolError("the lz4 frame ends early")


def _zstd() -> Any:
    """Return `compression.zstd`, part of Python from 3.14 on, or its backport."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _unzstd(body: bytes | memoryview, limit: int) -> Iterator[bytes]:
    zstd = _zstd()
    view = memoryview(body)
    left, position, end = limit, 0, len(view)
    try:
        for _ in range(_MAX_FRAMES):
            stop = position + _zstd_frame_bytes(zstd, view[position:])
            decompressor = zstd.ZstdDecompressor()
            data: bytes | memoryview = view[position:stop]
            while not decompressor.eof:
                part = decompressor.decompress(data, min(_STEP_BYTES, left + 1))
                if not part and decompressor.needs_input:
                    if position:
                        return
                    raise ProtocolError("the zstd frame ends early")
                left -= len(part)
                if left < 0:
                    raise _too_large(limit)
                yield part
                data = b""
            position = stop
            if position >= end:
                return
    except zstd.ZstdError as problem:
        raise ProtocolError(f"the zstd data is damaged: {problem}") from problem
    raise _too_many()


def _zstd_frame_bytes(zstd: Any, data: memoryview) -> int:
    """Return the size of the first frame, so that what is behind it is never copied; the size of all data if no frame
    ends in it."""
    try:
        size: int = zstd.get_frame_size(data)
    except zstd.ZstdError:
        return len(data)
    return size
