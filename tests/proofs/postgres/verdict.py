"""What became of one client's transactions: its ledger beside what its topics hold at read_committed in the end."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import NamedTuple

from tests.proofs.clients.client import Ledger
from tests.proofs.clients.lines import ABORTED, COMMITTED, PARTITIONS, UNKNOWN

_SOME = 5

Records = Mapping[int, Sequence[tuple[int, str]]]
"""Offsets and values of each partition."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The last six must be 0. Where the database has lost what it had acknowledged, `gone` and `unseen` count that."""

    acknowledged: int = 0
    """Transactions whose commit was acknowledged."""
    aborted: int = 0
    """Transactions that were aborted, on purpose or after an error."""
    unknown: int = 0
    copied: int = 0
    """Records, in transactions with the group's offsets."""
    read: int = 0
    """Records that the follower got."""
    gone: int = 0
    """Acknowledged transactions that the database has lost, whole."""
    unseen: int = 0
    """Records that the follower had got and that the database has lost."""
    lost: int = 0
    """Acknowledged transactions that are not there, and records that were not copied."""
    doubled: int = 0
    """Records that are there more than once, copies too."""
    torn: int = 0
    """Transactions that are there in part."""
    aborted_seen: int = 0
    """Transactions that were aborted, and are there."""
    ghosts: int = 0
    """Records that no transaction wrote, and records that the follower got and that are not in the log."""
    disordered: int = 0
    """Records behind a later one of the same producer, and records that the follower left out."""

    @property
    def wrong(self) -> int:
        return self.lost + self.doubled + self.torn + self.aborted_seen + self.ghosts + self.disordered

    def __add__(self, other: "Counted") -> "Counted":
        return Counted(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))


class Verdict(NamedTuple):
    counted: Counted
    wrong: Mapping[str, Sequence[str]]
    """The names of all that is wrong, of each kind."""

    @property
    def strange(self) -> list[str]:
        """Some of what is wrong, by name."""
        return [f"{what}: {', '.join(names[:_SOME])}" for what, names in self.wrong.items() if names]


def judge(ledger: Ledger, log: Records, copies: Records, losable: Collection[str] = ()) -> Verdict:
    """`losable`: transactions that had ended before the database lost what came last."""
    places: dict[str, Counter[int]] = defaultdict(Counter)
    for partition, records in log.items():
        for _, name in records:
            places[name][partition] += 1
    outcomes = ledger.outcomes
    copied = Counter(value for records in copies.values() for _, value in records)
    source = {f"{name} {partition}" for name, found in places.items() for partition in found}
    missing = [name for name, outcome in outcomes.items() if outcome == COMMITTED and name not in places]
    unseen, unwritten, left_out = _followed(ledger, log, losable)
    several = [name for name, found in places.items() if found.total() > len(found)]
    wrong = {
        "lost": [name for name in missing if name not in losable] + sorted(source - copied.keys()),
        "doubled": several + [value for value, count in copied.items() if count > 1],
        "torn": [name for name, found in places.items() if len(found) < PARTITIONS],
        "aborted_seen": [name for name in places if outcomes.get(name) == ABORTED],
        "ghosts": unwritten + [name for name in places if name not in outcomes] + sorted(copied.keys() - source),
        "disordered": left_out + [late for records in log.values() for late in _late(records)],
    }
    counted = Counted(
        acknowledged=sum(outcome == COMMITTED for outcome in outcomes.values()),
        aborted=sum(outcome == ABORTED for outcome in outcomes.values()),
        unknown=sum(outcome == UNKNOWN for outcome in outcomes.values()),
        copied=copied.total(),
        read=sum(len(records) for reading in ledger.read for records in reading.values()),
        gone=sum(name in losable for name in missing),
        unseen=len(unseen),
        **{what: len(names) for what, names in wrong.items()},
    )
    return Verdict(counted, wrong)


def _late(records: Iterable[tuple[int, str]]) -> Iterator[str]:
    """Yields the names of records that follow a later transaction of their producer."""
    last: dict[str, tuple[int, ...]] = {}
    for _, name in records:
        producer, *numbers = name.split(".")
        number = tuple(map(int, numbers))
        if number < last.get(producer, ()):
            yield name
        last[producer] = number


def _followed(ledger: Ledger, log: Records, losable: Collection[str]) -> tuple[list[str], list[str], list[str]]:
    """Returns the names that were read and that the database has lost, that were read and never written, and that were
    left out."""
    unseen, unwritten, left_out = [], [], []
    for reading in ledger.read:
        for partition, got in reading.items():
            there, seen = dict(log.get(partition, ())), dict(got)
            strange = [name for offset, name in got if there.get(offset) != name]
            unseen += [name for name in strange if name in losable]
            unwritten += [name for name in strange if name not in losable]
            kept = [offset for offset, name in got if there.get(offset) == name]
            between = [offset for offset in there if kept and kept[0] <= offset <= kept[-1]]
            left_out += [there[offset] for offset in between if seen.get(offset) != there[offset]]
            left_out += [seen[late] for earlier, late in pairwise(kept) if late <= earlier]
    return unseen, unwritten, left_out
