"""What is wrong with the dumped files.

Owns: the problems and their text: Kafka's own, in its words, and ours, with file, position and offset. Does not own:
finding them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    """Bytes that are not what they should be."""

    file: str
    problem: str
    position: int | None = None
    offset: int | None = None

    @property
    def text(self) -> str:
        known = (("position", self.position), ("offset", self.offset))
        where = "".join(f" {name} {value}," for name, value in known if value is not None).rstrip(",")
        return f"oncelog: {self.file}{' at' if where else ''}{where}: {self.problem}"

    def fields(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "kind": "problem",
            "position": self.position,
            "offset": self.offset,
            "problem": self.problem,
        }


Pairs = dict[str, list[tuple[int, int]]]


@dataclass(slots=True)
class Findings:
    """The problems by absolute path, as Kafka's tool prints them at its end."""

    problems: list[Problem] = field(default_factory=list)
    index_mismatches: Pairs = field(default_factory=dict)
    """Pairs of the entry's offset and the last offset of the batch at its position."""
    timestamp_mismatches: Pairs = field(default_factory=dict)
    """Pairs of the entry's timestamp and the greatest timestamp of the batch."""
    timestamps_out_of_order: Pairs = field(default_factory=dict)
    """Pairs of the entry's timestamp and that of the one before it."""
    offsets_not_found: Pairs = field(default_factory=dict)
    """Pairs of the entry's offset and the last offset of the batch that has it, or -1."""
    offset_gaps: Pairs = field(default_factory=dict)
    """Pairs of a record's offset and that of the next one. They are no damage: compaction leaves gaps, and a segment
    need not begin at 0."""
    unreadable_files: list[str] = field(default_factory=list)

    @property
    def is_damaged(self) -> bool:
        return bool(
            self.problems
            or self.index_mismatches
            or self.timestamp_mismatches
            or self.timestamps_out_of_order
            or self.offsets_not_found
        )

    def lines(self) -> Iterator[str]:
        """Yield Kafka's lines first, then ours."""
        descending = {file: sorted(pairs, reverse=True) for file, pairs in self.index_mismatches.items()}
        ascending = {file: sorted(pairs) for file, pairs in self.offset_gaps.items()}
        index_timestamp = "  Index timestamp: {}, "
        for title, line, found in (
            ("Mismatches in :", "  Index offset: {}, log offset: {}", descending),
            ("Found timestamp mismatch in :", index_timestamp + "log timestamp: {}", self.timestamp_mismatches),
            (
                "Found out of order timestamp in :",
                index_timestamp + "Previously indexed timestamp: {}",
                self.timestamps_out_of_order,
            ),
            (
                "The following indexed offsets are not found in :",
                "Indexed offset: {}, found log offset: {}",
                self.offsets_not_found,
            ),
            ("Non-consecutive offsets in ", "  {} is followed by {}", ascending),
        ):
            for file, pairs in found.items():
                yield title + file
                for first, second in pairs:
                    yield line.format(first, second)
        yield from (problem.text for problem in self.problems)

    def objects(self) -> Iterator[dict[str, Any]]:
        """Yield the findings as objects, one each."""
        named = (
            ("index_mismatch", self.index_mismatches, ("index_offset", "log_offset")),
            ("timestamp_mismatch", self.timestamp_mismatches, ("index_timestamp", "log_timestamp")),
            ("timestamp_out_of_order", self.timestamps_out_of_order, ("index_timestamp", "previous_timestamp")),
            ("offset_not_found", self.offsets_not_found, ("index_offset", "log_offset")),
            ("offset_gap", self.offset_gaps, ("offset", "next_offset")),
        )
        for kind, found, (first_name, second_name) in named:
            for file, pairs in found.items():
                for first, second in pairs:
                    yield {"file": file, "kind": kind, first_name: first, second_name: second}
        for problem in self.problems:
            yield problem.fields()
