"""One line in the log when a database does not answer, and one when it does again.

Owns: the lines. Does not own: when that is (`broker.storage.shared.outage`).
"""

from typing import Any

_WHAT_HAPPENS = (
    "what is to be written waits, and clients with it; after two minutes the broker ends. Look at PostgreSQL, at "
    "the way there, and at who holds locks on its tables"
)


class OutageLog:
    def __init__(self, log: Any, data_dir: str) -> None:
        self._log = log
        self._data_dir = data_dir

    def on_away(self, error: OSError) -> None:
        self._log.warning("database.away", error=str(error), data_dir=self._data_dir, message=_WHAT_HAPPENS)

    def on_back(self, duration_ms: int) -> None:
        self._log.info("database.back", data_dir=self._data_dir, duration_ms=duration_ms)
