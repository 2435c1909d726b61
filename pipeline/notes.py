"""What Spark's Python interface has no place for: noted where it happens, read in the driver.

Spark takes rows and commit messages from a Python source or sink, and nothing else: no bytes, no skipped records, and
nothing of what the process did that publishes for `format("oncelog")`. So tasks and sinks append lines to files on the
driver's machine, in its directory for temporary files.

    <temporary files>/oncelog-notes-UID/QUERY_ID/{source,sink}.jsonl

Owns: where these files are, their bound, the form of a line: an object as JSON. Does not own: what is noted (`Reading`
in `source.reading`, `Outcome` in `sink.publish`), what it means (`progress`). Invariants
- A note never stops a batch: what cannot be noted is not known.
- Only who sees the driver's directory writes, as with the spool: what a task on another machine did is not known,
  never 0.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote
from uuid import uuid4

if TYPE_CHECKING:
    from oncelog.pipeline.sink.publish import Outcome

Kind = Literal["source", "sink"]
_TOKEN = "token"
_MOST_BYTES = 1 << 20
"""Of a file, some 5,000 lines; then a new one is begun, and the one before it is kept."""


@dataclass(frozen=True, slots=True)
class Notes:
    """The directory, and the token by which a task knows that it is the driver's."""

    directory: str
    token: str

    @classmethod
    def open(cls) -> "Notes | None":
        """In the driver. None if no directory can be had."""
        root = Path(tempfile.gettempdir(), f"oncelog-notes-{os.getuid()}")
        try:
            root.mkdir(mode=0o700, exist_ok=True)
            if root.lstat().st_uid != os.getuid():  # also not where another user's link leads
                return None
            token = root / _TOKEN
            if not token.exists():
                written = root / f"{_TOKEN}.{uuid4().hex}"
                written.write_text(uuid4().hex)
                written.replace(token)
            return cls(str(root), token.read_text())
        except OSError:
            return None

    def add(self, query_id: str, kind: Kind, note: Mapping[str, Any]) -> None:
        """Append a line, whole even if others append at the same time."""
        with suppress(OSError):
            if Path(self.directory, _TOKEN).read_text() != self.token:
                return
            path = self._path(query_id, kind)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with path.open("ab", buffering=0) as file:
                file.write(json.dumps(note, separators=(",", ":")).encode() + b"\n")
                is_full = file.tell() > _MOST_BYTES
            if is_full:
                path.replace(_before(path))

    def read(self, query_id: str, kind: Kind) -> list[dict[str, Any]]:
        """From the oldest that is kept to the newest."""
        return [*self._backwards(query_id, kind)][::-1]

    def newest(self, query_id: str, kind: Kind) -> dict[str, Any] | None:
        return next(self._backwards(query_id, kind), None)

    def of_batch(self, query_id: str, kind: Kind, batch_id: int) -> list[dict[str, Any]]:
        """Those of one micro-batch, without looking at what is older."""
        newest = takewhile(lambda note: note["batch_id"] >= batch_id, self._backwards(query_id, kind))
        return [note for note in newest if note["batch_id"] == batch_id][::-1]

    def _backwards(self, query_id: str, kind: Kind) -> Iterator[dict[str, Any]]:
        path = self._path(query_id, kind)
        for each in (path, _before(path)):
            yield from _lines_backwards(each)

    def _path(self, query_id: str, kind: Kind) -> Path:
        return Path(self.directory, quote(query_id, safe=""), f"{kind}.jsonl")


def note_outcome(query_id: str, outcome: "Outcome") -> None:
    """What the sink did with a batch, in the process that published it, which is on the driver's machine."""
    notes = Notes.open()
    if notes is not None:
        notes.add(query_id, "sink", {**asdict(outcome), "time_ms": int(time.time() * 1000)})


def noted_marker_offset(query_id: str) -> int:
    """Where the sink of a query found or wrote its marker the last time; -1: that was not noted here."""
    notes = Notes.open()
    newest = None if notes is None else notes.newest(query_id, "sink")
    offset = -1 if newest is None else newest.get("marker_offset")
    return offset if isinstance(offset, int) else -1


def _before(path: Path) -> Path:
    return path.with_suffix(".before.jsonl")


def _lines_backwards(path: Path) -> Iterator[dict[str, Any]]:
    with suppress(OSError):
        for line in reversed(path.read_text(encoding="utf-8").splitlines()):
            with suppress(ValueError):
                note = json.loads(line)
                if isinstance(note, dict) and "batch_id" in note:
                    yield note


def batch_of_task() -> tuple[str, int] | None:
    """The query and micro-batch that this task runs for; None outside of a streaming query."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return None
    query_id = context.getLocalProperty("sql.streaming.queryId")
    batch_id = context.getLocalProperty("streaming.sql.batchId")
    return (query_id, int(batch_id)) if query_id and batch_id else None
