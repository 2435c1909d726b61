"""What is wrong with the dumped files.

Owns: the problems, as rows for programs and as sentences with file, position and offset. Does not own: finding them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from oncelog.tools.terminal import Row

_GAP = "offset_gap"
_PAIRS = {
    "index_mismatch": ("index_offset", "log_offset", "offset {} is indexed, the batch at its position ends with {}"),
    "timestamp_mismatch": (
        "index_timestamp",
        "log_timestamp",
        "timestamp {} is indexed, its batch has {}",
    ),
    "timestamp_out_of_order": ("index_timestamp", "previous_timestamp", "timestamp {} is indexed after {}"),
    "offset_not_found": ("index_offset", "log_offset", "offset {} is indexed, the batch that has it ends with {}"),
    _GAP: ("offset", "next_offset", "offset {} is followed by {}"),
}
"""Pairs of numbers that should agree, by kind: their names, and the sentence."""


@dataclass(frozen=True, slots=True)
class Findings:
    rows: list[Row] = field(default_factory=list)
    unreadable_files: list[str] = field(default_factory=list)

    @property
    def is_damaged(self) -> bool:
        return any(_is_damage(row) for row in self.rows)

    def add_problem(self, path: str, problem: str, position: int | None = None, offset: int | None = None) -> None:
        named = {"position": position, "offset": offset, "problem": problem}
        self.rows.append({"file": path, "kind": "problem", **named})

    def add_pair(self, kind: str, path: str, first: int, second: int) -> None:
        first_name, second_name, _ = _PAIRS[kind]
        self.rows.append({"file": path, "kind": kind, first_name: first, second_name: second})

    def last_position(self, path: str) -> int | None:
        """Return the position of the last problem, if it is one of this file."""
        last = self.rows[-1] if self.rows else {}
        return last.get("position") if last.get("file") == path else None

    def lines(self) -> Iterator[str]:
        """Yield a sentence for each damage."""
        for row in filter(_is_damage, self.rows):
            path, kind, *values = row.values()
            if kind in _PAIRS:
                yield f"oncelog: {path}: {_PAIRS[kind][2].format(*values)}"
                continue
            *_, problem = values
            known = [f"{name} {row[name]}" for name in ("position", "offset") if row[name] is not None]
            yield f"oncelog: {path}{' at ' if known else ''}{', '.join(known)}: {problem}"


def _is_damage(row: Row) -> bool:
    """Compaction leaves gaps, and a segment need not begin at 0."""
    return bool(row["kind"] != _GAP)
