"""`oncelog spark report`: each micro-batch of a query, from its checkpoint, the broker, and the notes of this machine.

Owns: what belongs to which batch, and the sums. Does not own: reading the broker (`attempts`, `ranges`), the page
(`page`). Invariant: what is not recorded any more is None, never 0 and never a guess. Which source has what:

    checkpoint   the offsets of a batch, when it was planned and done: of the newest 100 batches, by default
    broker       attempts, their records and ends, what became of the source's records: while its retention lasts;
                 what waits behind open transactions, now
    notes        lag when it was planned, seconds by step of publishing: on the driver's machine
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from oncelog.client import SecurityOptions
from oncelog.pipeline.notes import Notes
from oncelog.pipeline.options import NO_SECURITY
from oncelog.pipeline.sink.checkpoint import Checkpoint, CheckpointError, planned
from oncelog.pipeline.source.offsets import INITIAL, StreamOffset
from oncelog.pipeline.source.planning import OffsetRange, ranges
from oncelog.tools.spark.attempts import Attempt, attempts_of
from oncelog.tools.spark.ranges import Counts, count_ranges
from oncelog.tools.spark.state import REPAIRED, State, state_of

_CLOCKS_MS = 3_600_000
"""How far before the first planned batch to look for its records, an hour: clocks differ."""


@dataclass(slots=True)
class Batch:
    """One micro-batch. Times are milliseconds since the epoch; None if they are not recorded."""

    batch_id: int
    planned_ms: int | None = None
    """The time of its planning, by the driver's clock."""
    published: Attempt | None = None
    """The attempt whose transaction is committed."""
    done_ms: int | None = None
    """The time when Spark noted that it was done, by the clock of the checkpoint's file system."""
    ranges: list[OffsetRange] | None = None
    counts: Counts | None = None
    """The counts of the ranges."""
    failed: list[Attempt] = field(default_factory=list)
    """Attempts that ended before they had committed it."""
    skipped: list[Attempt] = field(default_factory=list)
    """Runs that found it applied, and wrote nothing."""
    is_complete: bool = False
    """Whether the broker still has every attempt since the batch before was committed: if not, these may be more."""
    lag: int | None = None
    """How many offsets there were to the last stable one when it was planned."""
    seconds: dict[str, float] | None = None
    """The seconds of publishing, by step."""

    @property
    def records(self) -> int | None:
        """The number of records published to topics, as the marker has it; a repaired one does not know."""
        marker = None if self.published is None else self.published.marker
        return None if marker is None or REPAIRED in marker.outputs else sum(marker.outputs.values())

    @property
    def written_in_vain(self) -> int | None:
        """The number of records of attempts that failed: no reader at read_committed sees them."""
        counts = [each.records for each in self.failed if each.fate != "nothing"]
        return None if None in counts else sum(sum(each.values()) for each in counts if each is not None)

    @property
    def doubled(self) -> int | None:
        """The number of records that a sink without transactions and marker would have left twice, dying where this one
        did: what failed attempts wrote, and the whole batch each time that this one skipped it."""
        if not self.is_complete or self.written_in_vain is None or (self.skipped and self.records is None):
            return None
        return self.written_in_vain + len(self.skipped) * (self.records or 0)


@dataclass(frozen=True, slots=True)
class Report:
    """A query and its sink; batches in order."""

    checkpoint: str
    bootstrap: str
    made_ms: int
    state: State
    batches: list[Batch]
    name: str | None
    """The query's name, if it has one and this machine noted it."""

    def source(self) -> Counts | None:
        """Return the counts of the ranges of all batches; None if one is not known."""
        total = Counts()
        for each in self.batches:
            if each.counts is None:
                return None
            total.add(each.counts)
        return total

    def written(self) -> tuple[int, int, int] | None:
        """Return the numbers of records in the output topics: published, of failed attempts, and those that a sink
        without transactions and marker would have left twice. None if that is not known of every batch that was
        published."""
        published = [each for each in self.batches if not (each.published is None and each.done_ms is None)]
        if any(each.records is None for each in published) or any(each.doubled is None for each in self.batches):
            return None
        return (
            sum(each.records or 0 for each in self.batches),
            sum(each.written_in_vain or 0 for each in self.batches),
            sum(each.doubled or 0 for each in self.batches),
        )

    def as_json(self) -> dict[str, Any]:
        written = self.written()
        names = ("published", "of_failed_attempts", "doubled_without_transactions")
        return {
            **{name: _plain(getattr(self, name)) for name in self.__slots__},
            "batches": [_plain(each) | {name: getattr(each, name) for name in _SUMS} for each in self.batches],
            "source": _plain(self.source()),
            "written": None if written is None else dict(zip(names, written, strict=True)),
        }


_SUMS = ("records", "written_in_vain", "doubled")


def _plain(value: Any) -> Any:
    """Return values as JSON has them."""
    if hasattr(value, "__slots__"):
        return {name: _plain(getattr(value, name)) for name in value.__slots__}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


async def report_of(
    checkpoint: Checkpoint,
    bootstrap: str,
    topic: str,
    sink_id: str | None,
    outputs: Sequence[str] = (),
    notes: Notes | None = None,
    security: SecurityOptions = NO_SECURITY,
) -> Report:
    """Return the report; `outputs` are topics to look into beside those that the coordinator remembers. Raises
    CheckpointError, MarkerMismatch for a newest marker that cannot be read, and KafkaError."""
    state = await state_of(checkpoint, bootstrap, topic, sink_id, security)
    batches = {each.batch_id: each for each in _planned(checkpoint)}
    since_ms = min((each.planned_ms for each in batches.values() if each.planned_ms is not None), default=_CLOCKS_MS)
    attempts = await attempts_of(bootstrap, state.sink_id, topic, outputs, since_ms - _CLOCKS_MS, security)
    _assign(attempts, batches)
    ranges = [part for each in batches.values() for part in each.ranges or ()]
    counted = await count_ranges(bootstrap, ranges, security)
    for each in batches.values():
        each.counts = _sum(each.ranges, counted)
    name = None
    if notes is not None:
        _read_notes(notes, state.query_id, batches)
        name = (notes.newest(state.query_id, "sink") or {}).get("query_name")
    kept = [batches[batch_id] for batch_id in sorted(batches)]
    return Report(checkpoint.location, bootstrap, int(time.time() * 1000), state, kept, name)


def _planned(checkpoint: Checkpoint) -> Iterable[Batch]:
    """Yield the batches that the checkpoint has."""
    done = set(checkpoint.batches("commits"))
    before: tuple[int, list[StreamOffset | None]] = (-1, [])
    for batch_id in checkpoint.batches("offsets"):
        try:
            planned_ms, offsets = planned(checkpoint.offsets(batch_id))
        except CheckpointError:  # a query that runs deletes the oldest
            continue
        previous = before[1] if before[0] == batch_id - 1 and batch_id else []
        done_ms = checkpoint.modified_ms(f"commits/{batch_id}") if batch_id in done else None
        yield Batch(batch_id, planned_ms, None, done_ms, _ranges(batch_id, previous, offsets))
        before = batch_id, offsets


def _ranges(
    batch_id: int, before: Sequence[StreamOffset | None], now: Sequence[StreamOffset | None]
) -> list[OffsetRange] | None:
    """Return the ranges of a batch; None where a source is not ours, or the offsets of the batch before are deleted."""
    starts = [INITIAL] * len(now) if batch_id == 0 else before
    if not now or len(starts) != len(now) or None in now or None in starts:
        return None
    return [each for start, end in zip(starts, now, strict=True) for each in ranges(start or INITIAL, end or INITIAL)]


def _sum(wanted: Sequence[OffsetRange] | None, counted: Mapping[OffsetRange, Counts]) -> Counts | None:
    if wanted is None or any(each not in counted for each in wanted):
        return None
    total = Counts()
    for each in wanted:
        total.add(counted[each])
    return total


def _assign(attempts: Sequence[Attempt], batches: dict[int, Batch]) -> None:
    """Assign each attempt to its batch: the one that its marker names; without a marker, the batch after the last
    committed one, unless it wrote nothing before Spark noted that one as done: then it was a replay, and skipped. Where
    the marker of a committed attempt is compacted away, the attempts up to the next one are not known. Batches that the
    checkpoint has deleted are left out."""
    first = min(batches, default=0)
    is_whole = first == 0 and bool(attempts) and attempts[0].producer_epoch == 0
    last: int | None = -1 if is_whole else None
    has_all = is_whole  # compaction takes the oldest states: where one attempt's first is there, so are all later ones
    for attempt in attempts:
        if attempt.marker is not None:
            batch_id = attempt.marker.batch_id
            if batch_id >= first:
                batches.setdefault(batch_id, Batch(batch_id))
        elif attempt.fate == "committed" or last is None:
            last = None
            continue
        else:
            is_replay = attempt.fate == "nothing" and last in batches and _is_before(attempt, batches[last])
            batch_id = last if is_replay else last + 1
        batch = batches.get(batch_id, Batch(batch_id))
        batch.is_complete = batch.is_complete or (has_all and last in (batch_id - 1, batch_id))
        if attempt.fate == "committed":
            last, has_all = batch_id, attempt.fenced_ms is not None
            batch.published = attempt
        else:
            (batch.skipped if batch_id == last else batch.failed).append(attempt)
    if has_all and last is not None and last + 1 in batches:
        batches[last + 1].is_complete = True  # it is not committed yet


def _is_before(attempt: Attempt, batch: Batch) -> bool:
    """Whether the attempt began before Spark noted the batch as done."""
    return attempt.fenced_ms is not None and (batch.done_ms is None or attempt.fenced_ms <= batch.done_ms)


def _read_notes(notes: Notes, query_id: str, batches: Mapping[int, Batch]) -> None:
    for note in notes.read(query_id, "sink"):
        if note["batch_id"] in batches and note["published"]:
            batches[note["batch_id"]].seconds = note["seconds"]
    stable: dict[int, dict[tuple[str, int], int]] = {}
    for note in notes.read(query_id, "source"):
        if note["batch_id"] in batches and note["stable"] is not None:
            stable.setdefault(note["batch_id"], {})[note["topic"], note["partition"]] = note["stable"]
    for batch_id, ends in stable.items():
        batches[batch_id].lag = _lag(batches[batch_id].ranges or (), ends)


def _lag(parts: Sequence[OffsetRange], stable: Mapping[tuple[str, int], int]) -> int | None:
    """Return the lag of the partitions that the batch reads; None unless each is known."""
    if not parts or any((each.topic, each.partition) not in stable for each in parts):
        return None
    return sum(stable[each.topic, each.partition] - each.end for each in parts)
