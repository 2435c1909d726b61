"""What a sink needs of Spark's checkpoint: the id of the query, and which offsets a batch covers.

Owns: reading these files, on whatever file system pyarrow can read. Does not own: writing any of them.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class CheckpointError(Exception):
    """The checkpoint cannot be read as one of Spark's; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint directory: a path, or a URI such as file:, hdfs:, s3: or gs:."""

    location: str

    def query_id(self) -> str:
        """The id that the query keeps over restarts. Raises CheckpointError."""
        try:
            return str(json.loads(self._read("metadata"))["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self.location}/metadata is not of a streaming query: {error}") from error

    def offsets(self, batch_id: int) -> bytes:
        """What Spark planned for a batch, which it wrote before any of it ran. Raises CheckpointError."""
        return self._read(f"offsets/{batch_id}")

    def fingerprint(self, batch_id: int) -> str:
        """A digest of `offsets`. Raises CheckpointError."""
        return hashlib.sha256(self.offsets(batch_id)).hexdigest()[:16]

    def batches(self, kind: str) -> list[int]:
        """The numbers of the files below `offsets` (planned) or `commits` (done). Raises CheckpointError."""
        try:
            if (path := self._local_path()) is not None:
                names = [each.name for each in (path / kind).iterdir()] if (path / kind).exists() else []
            else:
                from pyarrow.fs import FileSelector

                files, root = self._file_system()
                found = files.get_file_info(FileSelector(f"{root}/{kind}", allow_not_found=True))
                names = [each.base_name for each in found]
        except OSError as error:
            raise CheckpointError(f"cannot list {self.location}/{kind}: {error}") from error
        return sorted(int(name) for name in names if name.isdecimal())

    def modified_ms(self, name: str) -> int | None:
        """When a file of the checkpoint was written; None if it is not there, or the file system does not say."""
        try:
            if (path := self._local_path()) is not None:
                return int((path / name).stat().st_mtime * 1000)
            files, root = self._file_system()
            found = files.get_file_info(f"{root}/{name}").mtime
            return int(found.timestamp() * 1000) if found is not None else None
        except (OSError, CheckpointError):
            return None

    def _read(self, name: str) -> bytes:
        try:
            if (path := self._local_path()) is not None:
                return (path / name).read_bytes()
            files, root = self._file_system()
            with files.open_input_stream(f"{root}/{name}") as stream:
                content: bytes = stream.read()
                return content
        except OSError as error:
            raise CheckpointError(f"cannot read {self.location}/{name}: {error}") from error

    def _local_path(self) -> Path | None:
        """None: on another file system, which takes pyarrow."""
        scheme, colon, rest = self.location.partition(":")
        if not colon or "/" in scheme:
            return Path(self.location)
        return Path("/" + rest.lstrip("/")) if scheme == "file" else None

    def _file_system(self) -> tuple[Any, str]:
        """pyarrow's file system, and the path on it."""
        try:
            from pyarrow.fs import FileSystem

            files, root = FileSystem.from_uri(self.location)
        except (ImportError, ValueError, OSError) as error:
            raise CheckpointError(
                f"{self.location}: pyarrow cannot read this file system ({error}), and the sink needs the offsets of "
                "each batch: use a checkpointLocation on file:, hdfs:, s3:, gs: or abfs:"
            ) from error
        return files, root
