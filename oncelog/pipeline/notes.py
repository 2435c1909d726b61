"""What Spark's Python interface has no place for: noted where it happens, read in the driver.

Spark takes rows and commit messages from a Python source or sink, and nothing else: no bytes, no skipped records, and
nothing of what the process did that publishes for `format("oncelog")`. So tasks and sinks append lines to files on the
driver's machine, in its directory for temporary files.

    <temporary files>/oncelog-notes-UID/QUERY_ID/{source,sink}.jsonl

A task on another machine does not see that directory. It sends its line to the driver, as one UDP datagram, if the
driver listens (`Receiver`): a line that is lost, or stopped by a firewall, is not known.

Owns: where these files are, their bound, the form of a line: an object as JSON. Does not own: what is noted (`Reading`
in `source.reading`, `Outcome` in `sink.publish`), what it means (`progress`). Invariants
- A note never stops a batch: what cannot be noted is not known, never 0.
- Only who sees the driver's directory writes, as with the spool, and a datagram counts only with the token in it.
"""

import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from hmac import compare_digest
from itertools import takewhile
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from oncelog.pipeline.own_directory import OwnDirectory

if TYPE_CHECKING:
    from oncelog.pipeline.sink.publish import Outcome

Kind = Literal["source", "sink"]
WRITES = "writes"
"""Stands for the query in the notes of batch writes, which have one file together."""
_MOST_DATAGRAM_BYTES = 4096
_MOST_BYTES = 1 << 20
"""The size of a file, some 5,000 lines; then a new one is begun, and the one before it is kept."""


@dataclass(frozen=True, slots=True)
class Notes(OwnDirectory):
    """The driver's directory."""

    receiver: tuple[str, int] | None = None
    """The address at which the driver listens, for tasks on other machines."""

    @classmethod
    def open(cls) -> "Notes | None":
        """Open the notes in the driver; None if no directory can be had."""
        return cls.make(tempfile.gettempdir(), f"oncelog-notes-{os.getuid()}")

    def add(self, query_id: str, kind: Kind, note: Mapping[str, Any]) -> None:
        """Append a line, whole even if others append at the same time; from another machine send it."""
        with suppress(OSError):
            if not self.is_visible:
                self._send(query_id, kind, note)
                return
            path = self._path(query_id, kind)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with path.open("ab", buffering=0) as file:
                file.write(json.dumps(note, separators=(",", ":")).encode() + b"\n")
                is_full = file.tell() > _MOST_BYTES
            if is_full:
                path.replace(_before(path))

    def _send(self, query_id: str, kind: Kind, note: Mapping[str, Any]) -> None:
        if self.receiver is not None:
            family = socket.AF_INET6 if ":" in self.receiver[0] else socket.AF_INET
            with socket.socket(family, socket.SOCK_DGRAM) as sender:
                sender.sendto(json.dumps([self.token, query_id, kind, note]).encode(), self.receiver)

    def read(self, query_id: str, kind: Kind) -> list[dict[str, Any]]:
        """Return the notes from the oldest that is kept to the newest."""
        return [*self._backwards(query_id, kind)][::-1]

    def newest(self, query_id: str, kind: Kind) -> dict[str, Any] | None:
        return next(self._backwards(query_id, kind), None)

    def of_sink(self, query_id: str, sink_id: str) -> dict[str, Any] | None:
        """Return the newest note of the sink with this id."""
        return next((note for note in self._backwards(query_id, "sink") if note.get("sink_id") == sink_id), None)

    def of_batch(self, query_id: str, kind: Kind, batch_id: int) -> list[dict[str, Any]]:
        """Return the notes of one micro-batch, without looking at what is older."""
        newest = takewhile(lambda note: note["batch_id"] >= batch_id, self._backwards(query_id, kind))
        return [note for note in newest if note["batch_id"] == batch_id][::-1]

    def _backwards(self, query_id: str, kind: Kind) -> Iterator[dict[str, Any]]:
        path = self._path(query_id, kind)
        for each in (path, _before(path)):
            yield from _lines_backwards(each)

    def _path(self, query_id: str, kind: Kind) -> Path:
        return Path(self.directory, quote(query_id, safe=""), f"{kind}.jsonl")


class Receiver:
    """Takes the lines of tasks on other machines, in a thread of the driver's process."""

    def __init__(self, notes: Notes, address: str) -> None:
        """`address` is one of this machine's. Raises OSError."""
        self._notes = notes
        self._socket = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((address, 0))
        except OSError:
            self._socket.close()
            raise
        self.notes = replace(notes, receiver=self._socket.getsockname()[:2])
        """The notes that tasks get."""

    @classmethod
    def start(cls, notes: Notes, bootstrap_servers: str) -> "Receiver | None":
        """Listen where a broker would see this machine. None if that cannot be had, or is loopback: every task that
        reaches such a broker runs here, and sees the directory."""
        try:
            address = _address_towards(bootstrap_servers.split(",")[0].strip())
            if address.startswith("127.") or address == "::1":
                return None
            receiver = cls(notes, address)
        except (OSError, ValueError):
            return None
        Thread(target=receiver._run, name="oncelog-notes", daemon=True).start()
        return receiver

    def receive(self) -> None:
        """Wait for a datagram, and keep what is a line. Raises OSError when closed."""
        data = self._socket.recv(_MOST_DATAGRAM_BYTES)
        with suppress(ValueError, TypeError):
            token, query_id, kind, note = json.loads(data)
            if compare_digest(token, self._notes.token) and kind == "source" and isinstance(note, dict):
                self._notes.add(str(query_id), kind, note)

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread; close alone does not
        self._socket.close()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                self.receive()


def _address_towards(host_and_port: str) -> str:
    """Return this machine's address on the way there; nothing is sent. Raises OSError, ValueError."""
    host, _, port = host_and_port.rpartition(":")
    family, kind, _, _, target = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:
        probe.connect(target)
        return str(probe.getsockname()[0])


def note_outcome(query_id: str, outcome: "Outcome", query_name: str | None = None) -> None:
    """Note what the sink did with a batch, in the process that published it, which is on the driver's machine."""
    notes = Notes.open()
    if notes is not None:
        more = {"time_ms": int(time.time() * 1000), "query_name": query_name}
        notes.add(query_id, "sink", {**asdict(outcome), **more})


def noted_marker_offset(query_id: str) -> int:
    """Return where the sink of a query found or wrote its marker the last time; -1 if that was not noted here."""
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
    """Return the query and micro-batch that this task runs for; None outside of a streaming query."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return None
    query_id = context.getLocalProperty("sql.streaming.queryId")
    batch_id = context.getLocalProperty("streaming.sql.batchId")
    return (query_id, int(batch_id)) if query_id and batch_id else None
