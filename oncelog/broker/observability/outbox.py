"""Lines in the log about rows of SQL transactions that cannot be looked at.

Owns: the lines, and what an operator can do. Does not own: when that is (`broker.outbox.feeder`).
"""

from typing import Any

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


class OutboxLog:
    def __init__(self, log: Any, data_dir: str) -> None:
        self._log = log
        self._data_dir = data_dir
        self._said = ""

    def on_failed(self, error: str) -> None:
        """A look has failed: one line for each error, however often it comes."""
        if error != self._said:
            self._said = error
            self._log.warning("outbox.look_failed", error=error, data_dir=self._data_dir, message=_FAILED)

    def on_passed(self) -> None:
        if self._said:
            self._said = ""
            self._log.info("outbox.look_passed", data_dir=self._data_dir)

    def on_unreadable(self, row_id: int, error: str) -> None:
        """A row was found that makes each look fail."""
        self._log.warning("outbox.row_refused", row=row_id, error=error, data_dir=self._data_dir, message=_UNREADABLE)

    def on_left(self, row_id: int, error: str) -> None:
        """A row was found that can be neither taken nor moved aside."""
        self._log.warning("outbox.row_left", row=row_id, error=error, data_dir=self._data_dir, message=_LEFT)
