"""Whole transfers between memory and a file, by calls that take and move only so much at once.

Owns: the limits of one call, and calling again until all of it is done. Does not own: which file, what an error means.
A list of buffers that grows with the number of partitions, records or bytes is written here and nowhere else: the
system refuses more than `MOST_BUFFERS` of them (EINVAL), and silently stops after `MOST_BYTES`.

A write is one call as long as it fits into one; otherwise a stop may leave any part of it, as it may of one call.
"""

import errno
import os
from collections.abc import Callable, Sequence
from typing import TypeVar

from oncelog.broker.turns.ports import Buffer

T = TypeVar("T")
MOST_BUFFERS = 1024
"""IOV_MAX of Linux and macOS."""
MOST_BYTES = 0x7FFFF000
"""MAX_RW_COUNT of Linux, a page less than 2 GiB."""


def write_all(write: Callable[[T, Sequence[Buffer], int], int], file: T, parts: Sequence[Buffer], position: int) -> int:
    """Write all parts from `position` on; return where they end. `write` is `os.pwritev`, or what stands for it. Raises
    OSError, after which any part may be there."""
    if len(parts) <= MOST_BUFFERS:
        end = position + sum(map(len, parts))
        written = write(file, parts, position)
        if position + written < end:
            _write_rest(write, file, memoryview(b"".join(parts))[written:], position + written)
        return end
    for first in range(0, len(parts), MOST_BUFFERS):
        position = write_all(write, file, parts[first : first + MOST_BUFFERS], position)
    return position


def write_one(descriptor: int, data: Buffer, position: int) -> None:
    """Write all of one buffer. Raises OSError, after which any part may be there."""
    written = os.pwrite(descriptor, data, position)
    if written < len(data):
        _write_rest(os.pwritev, descriptor, memoryview(data)[written:], position + written)


def _write_rest(write: Callable[[T, Sequence[Buffer], int], int], file: T, rest: memoryview, position: int) -> None:
    while rest:
        written = write(file, [rest], position)
        if not written:
            raise OSError(errno.EIO, "nothing is written, and no error is reported")
        rest = rest[written:]
        position += written


def read_all(descriptor: int, start: int, end: int) -> bytes:
    """Read the bytes [start, end), fewer at the end of the file. Raises OSError."""
    data = os.pread(descriptor, max(0, end - start), start)
    if len(data) < MOST_BYTES or start + len(data) >= end:
        return data
    pieces = [data]
    while data:
        start += len(data)
        data = os.pread(descriptor, max(0, end - start), start)
        pieces.append(data)
    return b"".join(pieces)
