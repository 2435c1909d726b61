"""The entries of a file as a table: a line each, in columns.

Owns: which fields of a row people see, and how. Does not own: the rows, which `--json` prints whole.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from oncelog.protocol.printable import json_text
from oncelog.tools.terminal import Row, Styled, say, say_table

_ROWS_AT_ONCE = 200
"""The rows below one heading: all are padded as far as the longest key among them."""
_NOTES = {"empty": "no entries", "sane": "passed the sanity check"}
_BATCH = {
    "base_offset": "base_offset",
    "last_offset": "last_offset",
    "record_count": "records",
    "position": "position",
    "size_bytes": "size",
    "max_timestamp": "max_timestamp",
    "producer_id": "producer_id",
    "producer_epoch": "producer_epoch",
    "base_sequence": "base_sequence",
    "partition_leader_epoch": "leader_epoch",
    "is_transactional": "transactional",
    "is_control": "control",
    "compression": "compression",
    "is_valid": "valid",
}
_RECORD = {
    "offset": "offset",
    "timestamp": "timestamp",
    "sequence": "sequence",
    "control_type": "control",
    "coordinator_epoch": "coordinator_epoch",
    "key_bytes": "key_size",
    "value_bytes": "value_size",
    "header_keys": "headers",
    "key": "key",
    "value": "value",
}
_HEADINGS = {"batch": _BATCH, "record": _RECORD}
"""The fields that are columns, and their headings, where they are not all of a kind."""


def say_rows(path: str, rows: Iterable[Row], *, only_records: bool) -> None:
    """Print one file: its path, and a table. `only_records` leaves out the rows of batches."""
    say(Styled(path, is_bold=sys.stdout.isatty()))
    shown = iter(row for row in rows if not (only_records and row["kind"] == "batch"))
    while chunk := list(islice(shown, _ROWS_AT_ONCE)):
        kind = chunk[0]["kind"]
        if kind in _NOTES:
            say(_NOTES[kind])
        else:
            say_table(_cells(_HEADINGS.get(kind), chunk))


def _cells(headings: Mapping[str, str] | None, rows: Sequence[Row]) -> list[Row]:
    there = dict.fromkeys(name for row in rows for name in row if name != "kind")
    columns = {name: heading for name, heading in (headings or {name: name for name in there}).items() if name in there}
    return [{heading: _cell(name, row.get(name)) for name, heading in columns.items()} for row in rows]


def _cell(name: str, value: Any) -> Any:
    if isinstance(value, dict):
        return json_text(value, is_ascii=False, separators=(",", ":"))
    return _moment_text(value) if name.endswith("timestamp") and value is not None else value


def _moment_text(time_ms: int) -> str:
    """Return a moment to the millisecond; -1, and what no calendar has, as the number."""
    try:
        moment = datetime.fromtimestamp(time_ms / 1_000, UTC)
    except (OverflowError, OSError, ValueError):
        return str(time_ms)
    return str(time_ms) if time_ms < 0 else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
