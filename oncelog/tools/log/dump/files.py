"""`oncelog log dump`: files of a partition, line by line as Kafka's DumpLogSegments (kafka-dump-log.sh) prints them.

Owns: the kind of each file, and the order of the output. Does not own: the lines of each kind of file, the command
line.
Invariant: nothing is changed or locked; a running broker does not notice.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Protocol

from oncelog.tools.log.dump.batches import LogOptions, dump_log
from oncelog.tools.log.dump.findings import Findings, Problem
from oncelog.tools.log.dump.indexes import IndexOptions, dump_offset_index, dump_time_index
from oncelog.tools.log.dump.producers import dump_producer_batches, dump_producer_snapshot, dump_transaction_index
from oncelog.tools.log.read_only_disk import ReadOnlyFile, SegmentFile

_NAMES = re.compile(
    r"\d{20}\.(log|index|timeindex|txnindex|snapshot|batches)|\d{20}-\d{10}\.checkpoint|bootstrap\.checkpoint"
)


class Line(Protocol):
    """One output line, as text or as an object for programs; None if a program needs nothing of it."""

    @property
    def text(self) -> str: ...

    def fields(self) -> dict[str, Any] | None: ...


@dataclass(frozen=True, slots=True)
class Heading:
    text: str

    def fields(self) -> dict[str, Any] | None:
        return None


@dataclass(frozen=True, slots=True)
class DumpOptions:
    log: LogOptions
    index: IndexOptions


class Files(Protocol):
    """Where the files are."""

    def full_path(self, path: str) -> str:
        """As Kafka's tool prints it in some lines."""

    def exists(self, path: str) -> bool: ...

    def open(self, path: str) -> SegmentFile:
        """Raises OSError."""


class OwnFiles:
    """Those of this machine."""

    def full_path(self, path: str) -> str:
        return os.path.join(os.getcwd(), path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def open(self, path: str) -> SegmentFile:
        return ReadOnlyFile(path, path)


class UnknownFile(Exception):
    """A file that is not part of a log."""


def files_of(path: str) -> list[str]:
    """Return the file itself, or the files of a partition's directory, segment by segment."""
    if not os.path.isdir(path):
        return [path]
    names = sorted(name for name in os.listdir(path) if _NAMES.fullmatch(name))
    return [f"{path.rstrip('/')}/{name}" for name in names]


def dump_files(
    paths: Iterable[str], options: DumpOptions, findings: Findings, files: Files
) -> Iterator[tuple[str, Line]]:
    """Yield every line with its file. Problems go to `findings`, and the next file follows."""
    for path in paths:
        shown_path = re.sub("/+", "/", path)
        yield shown_path, Heading(f"Dumping {shown_path}")
        try:
            for line in _dump_file(shown_path, options, findings, files):
                yield shown_path, line
        except UnknownFile:
            findings.unreadable_files.append(f"Ignoring unknown file {shown_path}")
        except OSError as error:
            findings.unreadable_files.append(f"oncelog: {error.filename or shown_path}: {error.strerror or error}")


def _dump_file(path: str, options: DumpOptions, findings: Findings, files: Files) -> Iterator[Line]:
    directory, name = os.path.split(path)
    stem, dot, suffix = name.rpartition(".")
    if not _NAMES.fullmatch(name):
        raise UnknownFile
    full_path = files.full_path(path)
    beside = os.path.join(directory, stem)
    with ExitStack() as opened:
        file = opened.enter_context(closing(files.open(path)))
        if dot + suffix in (".log", ".checkpoint"):
            yield from dump_log(file, path, full_path, options.log, findings)
            return
        data = bytes(file.read_view(0, file.size_bytes))
        if suffix == "snapshot":
            yield from dump_producer_snapshot(data, path, findings)
        elif suffix == "batches":
            yield from dump_producer_batches(data, path, findings)
        elif suffix == "txnindex":
            yield from dump_transaction_index(data, path, findings)
        elif not files.exists(f"{beside}.log"):
            findings.problems.append(Problem(path, "the .log file of this index is missing"))
        else:
            log = opened.enter_context(closing(files.open(f"{beside}.log")))
            if suffix == "index":
                yield from dump_offset_index(data, log, path, full_path, options.index, findings)
            else:
                places = _read_if_there(files, f"{beside}.index")
                yield from dump_time_index(data, log, places, path, full_path, options.index, findings)


def _read_if_there(files: Files, path: str) -> bytes:
    if not files.exists(path):
        return b""
    with closing(files.open(path)) as file:
        return bytes(file.read_view(0, file.size_bytes))


def as_object(path: str, line: Line) -> dict[str, Any] | None:
    fields = line.fields()
    return None if fields is None else {"file": path} | fields
