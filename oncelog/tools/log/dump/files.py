"""`oncelog log dump`: the entries of a partition's files, as rows.

Owns: the kind of each file, and the order of the output. Does not own: the rows of each kind of file, the command line.
Invariant: nothing is changed or locked; a running broker does not notice.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from oncelog.tools.log.dump.batches import LogOptions, dump_log
from oncelog.tools.log.dump.findings import Findings
from oncelog.tools.log.dump.indexes import IndexOptions, dump_offset_index, dump_time_index
from oncelog.tools.log.dump.producers import dump_producer_batches, dump_producer_snapshot, dump_transaction_index
from oncelog.tools.log.read_only_disk import ReadOnlyFile, SegmentFile
from oncelog.tools.terminal import Row

_NAMES = re.compile(
    r"\d{20}\.(log|index|timeindex|txnindex|snapshot|batches)|\d{20}-\d{10}\.checkpoint|bootstrap\.checkpoint"
)


@dataclass(frozen=True, slots=True)
class DumpOptions:
    log: LogOptions
    index: IndexOptions


class Files(Protocol):
    """The place where the files are."""

    def exists(self, path: str) -> bool: ...

    def open(self, path: str) -> SegmentFile:
        """Raises OSError."""


class OwnFiles:
    """The files of this machine."""

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def open(self, path: str) -> SegmentFile:
        return ReadOnlyFile(path, path)


def files_of(path: str) -> list[str]:
    """Return the file itself, or the files of a partition's directory, segment by segment."""
    if not os.path.isdir(path):
        return [path]
    names = sorted(name for name in os.listdir(path) if _NAMES.fullmatch(name))
    return [f"{path.rstrip('/')}/{name}" for name in names]


def dump_files(
    paths: Iterable[str], options: DumpOptions, findings: Findings, files: Files
) -> Iterator[tuple[str, Iterator[Row]]]:
    """Yield every file with its rows. Problems go to `findings`, and the next file follows."""
    for path in paths:
        shown_path = re.sub("/+", "/", path)
        yield shown_path, _rows_of(shown_path, options, findings, files)


def _rows_of(path: str, options: DumpOptions, findings: Findings, files: Files) -> Iterator[Row]:
    if not _NAMES.fullmatch(os.path.basename(path)):
        findings.unreadable_files.append(f"oncelog: {path}: this is no file of a partition")
        return
    try:
        with closing(files.open(path)) as file:
            yield from _dump_file(path, file, options, findings, files)
    except OSError as error:
        findings.unreadable_files.append(f"oncelog: {error.filename or path}: {error.strerror or error}")


def _dump_file(path: str, file: SegmentFile, options: DumpOptions, findings: Findings, files: Files) -> Iterator[Row]:
    beside, _, suffix = path.rpartition(".")
    if suffix in ("log", "checkpoint"):
        yield from dump_log(file, path, options.log, findings)
        return
    data = bytes(file.read_view(0, file.size_bytes))
    if suffix == "snapshot":
        yield from dump_producer_snapshot(data, path, findings)
    elif suffix == "batches":
        yield from dump_producer_batches(data, path, findings)
    elif suffix == "txnindex":
        yield from dump_transaction_index(data, path, findings)
    elif not files.exists(f"{beside}.log"):
        findings.add_problem(path, "the .log file of this index is missing")
    else:
        with closing(files.open(f"{beside}.log")) as log:
            if suffix == "index":
                yield from dump_offset_index(data, log, path, options.index, findings)
            else:
                places = _read_if_there(files, f"{beside}.index")
                yield from dump_time_index(data, log, places, path, options.index, findings)


def _read_if_there(files: Files, path: str) -> bytes:
    if not files.exists(path):
        return b""
    with closing(files.open(path)) as file:
        return bytes(file.read_view(0, file.size_bytes))
