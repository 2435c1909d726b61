"""What a sink needs of Spark's checkpoint: the id of the query, and which offsets a batch covers.

Owns: what these files mean. Does not own: writing any of them, and the file system that they are on (`files`).
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from oncelog.pipeline.sink.files import Files, files_at
from oncelog.pipeline.source.offsets import ForeignOffset, StreamOffset, from_json


class CheckpointError(Exception):
    """Raised if the checkpoint cannot be read as one of Spark's; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint directory: a path, or a URI such as file:, hdfs:, s3a: or gs:."""

    location: str
    spark: Any = field(default=None, compare=False, repr=False)
    """The session of this process, if there is one: it reads on every file system that Spark writes on."""

    def query_id(self) -> str:
        """Return the id that the query keeps over restarts. Raises CheckpointError."""
        try:
            return str(json.loads(self._read("metadata"))["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self.location}/metadata is not of a streaming query: {error}") from error

    def offsets(self, batch_id: int) -> bytes:
        """Return what Spark planned for a batch, which it wrote before any of it ran. Raises CheckpointError."""
        return self._read(f"offsets/{batch_id}")

    def fingerprint(self, batch_id: int) -> str:
        """Return a digest of `offsets`. Raises CheckpointError."""
        return hashlib.sha256(self.offsets(batch_id)).hexdigest()[:16]

    def batches(self, kind: str) -> list[int]:
        """Return the numbers of the files below `offsets` (planned) or `commits` (done). Raises CheckpointError."""
        try:
            names = self._files().names(kind)
        except OSError as error:
            raise CheckpointError(f"cannot list {self.location}/{kind}: {error}") from error
        return sorted(int(name) for name in names if name.isdecimal())

    def modified_ms(self, name: str) -> int | None:
        """Return when a file of the checkpoint was written; None if it is not there, or the file system does not
        say."""
        try:
            return self._files().modified_ms(name)
        except OSError:
            return None

    def _read(self, name: str) -> bytes:
        try:
            return self._files().read(name)
        except OSError as error:
            raise CheckpointError(f"cannot read {self.location}/{name}: {error}") from error

    def _files(self) -> Files:
        return files_at(self.location, self.spark)


def planned(content: bytes) -> tuple[int | None, list[StreamOffset | None]]:
    """Return when a batch was planned, and its end in each source; None for one of another format."""
    values: list[Any] = []
    for line in content.decode(errors="replace").splitlines()[1:]:
        try:
            values.append(json.loads(line))
        except ValueError:
            values.append(None)
    planned_ms = values[0].get("batchTimestampMs") if values and isinstance(values[0], dict) else None
    return planned_ms, [_offset(value) for value in values[1:]]


def _offset(value: Any) -> StreamOffset | None:
    try:
        return from_json(value) if isinstance(value, dict) and value else None
    except ForeignOffset:
        return None
