"""One line in the log when the disk is full, and one when there is space again.

Owns: the lines, and what an operator can do. Does not own: when that is (`broker.log.disk_space`).
"""

from typing import Any

FILES = (
    "writes are refused, and clients retry them; make space on the volume, or shorten a topic: `oncelog record delete "
    "TOPIC --before OFFSET`, `oncelog config alter --topic TOPIC --set retention.ms=MS`; delete no file by hand"
)
TABLES = (
    "writes are refused, and clients retry them; give PostgreSQL what it lacks: what was refused is sent again each "
    "second. Shortening a topic needs space, too; delete no row by hand"
)
"""What to do where records are in files, and where they are in tables."""


class SpaceLog:
    def __init__(self, log: Any, data_dir: str, what_to_do: str) -> None:
        self._log = log
        self._data_dir = data_dir
        self._what_to_do = what_to_do

    def on_full(self, error: OSError) -> None:
        self._log.warning("disk.full", error=str(error), data_dir=self._data_dir, message=self._what_to_do)

    def on_space(self, refused_count: int, duration_ms: int) -> None:
        self._log.info("disk.has_space", data_dir=self._data_dir, refused_writes=refused_count, duration_ms=duration_ms)
