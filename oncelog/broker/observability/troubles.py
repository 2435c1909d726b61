"""Lines in the log about what records are kept in: one when a disk is full, a database does not answer, or rows of SQL
transactions cannot be taken, and one when that is over.

Owns: the lines, and what an operator can do. Does not own: when that is (`broker.log.disk_space`,
`broker.storage.shared.outage`, `broker.outbox.feeder`).
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
"""The advice for a lack of space where records are in files, and where they are in tables."""
_AWAY = (
    "what is to be written waits, and clients with it; after two minutes the broker ends. Look at PostgreSQL, at "
    "the way there, and at who holds locks on its tables"
)
_FAILED = (
    "no row of oncelog_outbox is taken until a look passes; it is tried again each second. `oncelog outbox status` "
    "shows how long the oldest one waits"
)
_UNREADABLE = (
    "the row was moved to oncelog_outbox_refused as it is: oncelog.produce did not write it, or one of an older release"
)
_LEFT = (
    "the row stays in oncelog_outbox, and others are taken past it: mend what keeps it from oncelog_outbox_refused, or "
    "delete the row; it is tried again every ten minutes"
)


class TroubleLog:
    """`data_dir`: where the records are, a directory or a database."""

    def __init__(self, log: Any, data_dir: str, what_to_do: str = TABLES) -> None:
        self._log = log
        self._data_dir = data_dir
        self._what_to_do = what_to_do
        self._said = ""

    def on_full(self, error: OSError) -> None:
        """A write was refused for want of space."""
        self._warn("disk.full", self._what_to_do, error=str(error))

    def on_space(self, refused_count: int, duration_ms: int) -> None:
        """There is space again."""
        self._log.info("disk.has_space", data_dir=self._data_dir, refused_writes=refused_count, duration_ms=duration_ms)

    def on_away(self, error: OSError) -> None:
        """The database does not answer."""
        self._warn("database.away", _AWAY, error=str(error))

    def on_back(self, duration_ms: int) -> None:
        """The database answers again."""
        self._log.info("database.back", data_dir=self._data_dir, duration_ms=duration_ms)

    def on_failed(self, error: str) -> None:
        """A look for rows has failed: one line for each error, however often it comes."""
        if error != self._said:
            self._said = error
            self._warn("outbox.look_failed", _FAILED, error=error)

    def on_passed(self) -> None:
        """A look has passed."""
        if self._said:
            self._said = ""
            self._log.info("outbox.look_passed", data_dir=self._data_dir)

    def on_unreadable(self, row_id: int, error: str) -> None:
        """A row was found that makes each look fail."""
        self._warn("outbox.row_refused", _UNREADABLE, row=row_id, error=error)

    def on_left(self, row_id: int, error: str) -> None:
        """A row was found that can be neither taken nor moved aside."""
        self._warn("outbox.row_left", _LEFT, row=row_id, error=error)

    def _warn(self, event: str, message: str, **facts: Any) -> None:
        self._log.warning(event, **facts, data_dir=self._data_dir, message=message)
