"""The sizes and checksums of the files of a partition's completed segments.

Owns: the file `segment-manifest` in the partition's directory, appended at each roll and at a clean stop, and synced
before recovery may rely on it. Invariant: an index file or a producer snapshot is used only if its size and checksum
match its entry; otherwise it is rebuilt from the `.log`, whose own checksum is verified while the broker serves. Kafka
trusts its index files, and serves aborted records when one is lost.
"""

from dataclasses import dataclass
from struct import Struct

from oncelog.broker.storage.local.segment import TRANSACTION_INDEX_SUFFIX, Segment
from oncelog.broker.turns.ports import Disk, File
from oncelog.protocol.checksum import crc32c

NAME = "segment-manifest"
INDEX_SUFFIXES = (".index", ".timeindex", TRANSACTION_INDEX_SUFFIX)
_ENTRY = Struct(">qqqqqqIIIIIIIII")
_ENTRY_BYTES = _ENTRY.size + 4


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    base_offset: int
    next_offset: int
    size_bytes: int
    first_timestamp: int
    max_timestamp: int
    max_timestamp_offset: int
    log_crc: int
    index_files: tuple[tuple[int, int], ...]  # (size, CRC-32C), in the order of INDEX_SUFFIXES
    snapshot: tuple[int, int]
    """(size, CRC-32C) of the producer snapshot of `next_offset`; NO_SNAPSHOT: only its own checksum is checked."""

    def vouches_for(self, slot: int, data: bytes) -> bool:
        return sum_of(data) == self.index_files[slot]


NO_SNAPSHOT = (0, 0)


def sum_of(data: bytes) -> tuple[int, int]:
    return len(data), crc32c(data)


def entry_of(segment: Segment, index_contents: list[bytes], snapshot: tuple[int, int]) -> ManifestEntry:
    return ManifestEntry(
        segment.base_offset,
        segment.next_offset,
        segment.size_bytes,
        segment.first_timestamp,
        segment.max_timestamp,
        segment.max_timestamp_offset,
        segment.crc,
        tuple(map(sum_of, index_contents)),
        snapshot,
    )


def append_entry(disk: Disk, directory: str, entry: ManifestEntry) -> File:
    """Append an entry; returns the file, to be synced."""
    file = disk.open(f"{directory}/{NAME}")
    file.truncate(file.size_bytes - file.size_bytes % _ENTRY_BYTES)
    file.append([_encode(entry)])
    return file


def _encode(entry: ManifestEntry) -> bytes:
    numbers = [number for pair in (*entry.index_files, entry.snapshot) for number in pair]
    data = _ENTRY.pack(
        entry.base_offset,
        entry.next_offset,
        entry.size_bytes,
        entry.first_timestamp,
        entry.max_timestamp,
        entry.max_timestamp_offset,
        entry.log_crc,
        *numbers,
    )
    return data + crc32c(data).to_bytes(4, "big")


def load_manifest(disk: Disk, directory: str) -> dict[int, ManifestEntry]:
    """The latest entry of each segment, by base offset; damaged entries are ignored."""
    path = f"{directory}/{NAME}"
    if not disk.exists(path):
        return {}
    data = disk.read_bytes(path)
    entries: dict[int, ManifestEntry] = {}
    for at in range(0, len(data) - _ENTRY_BYTES + 1, _ENTRY_BYTES):
        content = data[at : at + _ENTRY.size]
        if crc32c(content) == int.from_bytes(data[at + _ENTRY.size : at + _ENTRY_BYTES], "big"):
            base, end, size, first_timestamp, max_timestamp, max_offset, log_crc, *numbers = _ENTRY.unpack(content)
            *indexes, snapshot = zip(numbers[0::2], numbers[1::2], strict=True)
            entries[base] = ManifestEntry(
                base, end, size, first_timestamp, max_timestamp, max_offset, log_crc, tuple(indexes), snapshot
            )
    return entries


def manifest_problem(data: bytes) -> str | None:
    """Return the fault of a manifest of these bytes: damaged entries, or none at all; None if it is whole."""
    if not data:
        return "empty"
    for at in range(0, len(data), _ENTRY_BYTES):
        content = data[at : at + _ENTRY.size]
        if crc32c(content) != int.from_bytes(data[at + _ENTRY.size : at + _ENTRY_BYTES], "big"):
            return f"damaged at position {at}"
    return None


def rewrite_manifest(disk: Disk, directory: str, entries: list[ManifestEntry]) -> None:
    """Replace the manifest by these entries, durably."""
    disk.write_atomically(f"{directory}/{NAME}", b"".join(map(_encode, entries)))
