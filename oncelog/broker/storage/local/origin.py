"""Whose the journal and `flushed-offsets` are that a start finds: of this directory, or of another copy of it.

Owns: that judgement. Does not own: what becomes of a file that is of another copy (`left_journal`).

A copy of a directory that runs on counts its starts, files and frames as the original does, so numbers prove nothing
once single files of one come into the other: a restore by hand, a snapshot of a volume that mixes. Each run therefore
has a random number, its life, which the frames of its journal bear. Three others name it: the note in shared memory,
which no copy can find; the file `boot`, by the name of that note, after a clean stop too; the head of
`flushed-offsets`. Where none of them decides, the segments do: they have what their own journal has. Without a journal,
as with another flush policy, `boot` alone knows better than `flushed-offsets`.

In files of an earlier version lives are unknown. Then only what the segments contradict is known to be foreign.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from oncelog.broker.storage.local.boot_mark import UNKNOWN, BootMark, is_random
from oncelog.broker.storage.local.flushed_offsets import FlushedOffsets
from oncelog.broker.storage.local.journal import JournalContents
from oncelog.broker.storage.local.partition_directory import partition_of, read_topic_id
from oncelog.broker.storage.local.segment import LOG_SUFFIX, file_name
from oncelog.broker.storage.sections import LogKey, Span
from oncelog.broker.turns.ports import Disk

_NOWHERE = -1
"""In the place of a life that nothing names."""


class Origin(NamedTuple):
    lives: frozenset[int] | None
    """The lives that a journal of this directory may have; None: any."""
    are_offsets_foreign: bool = False
    is_proven: bool = True
    """No copy of this directory has the same lives."""
    left: frozenset[int] | None = None
    """The lives that a file which this life has not written yet may have; None: any."""


def find_origin(
    disk: Disk, found: JournalContents, flushed: FlushedOffsets, mark: BootMark, *, was_clean: bool
) -> Origin:
    """Raises OSError."""
    noted = mark.left.life if mark.left is not None else UNKNOWN
    recorded = {flushed.life, flushed.left_life} - {UNKNOWN}
    witnessed = noted or mark.named_life or _NOWHERE
    if flushed.life == UNKNOWN:
        if noted or witnessed in found.lives:
            return Origin(frozenset({witnessed}), is_proven=is_random(witnessed))
        return Origin(None, is_proven=False)
    # A run notes that it begins here, then in `boot`, then in its journal: until the last of them the number here is
    # that of the journal which it has found, if any.
    is_begun = found.number != flushed.journal_number or (found.generation > 0 and found.life != flushed.left_life)
    # The run of that life has begun with a file of its own; the other one may be left of the life before.
    left = frozenset(recorded) if is_begun else None
    is_another = witnessed != _NOWHERE and witnessed not in (recorded if not is_begun else {flushed.life})
    if noted or (is_another and is_begun):
        return Origin(frozenset({witnessed}), is_another, left=None if is_another else left)
    ours = frozenset({flushed.life} if is_begun else recorded)
    if found.life == UNKNOWN or found.life in ours or flushed.life == witnessed or flushed.life in found.lives:
        return Origin(ours, left=left)
    # One of the two is of another copy. A journal without batches is of no use, and offsets may do harm.
    are_offsets_foreign = not any(tail.spans for tail in found.tails.values()) or _are_found(disk, found)
    if are_offsets_foreign and not was_clean:
        return Origin(frozenset({found.life}), are_offsets_foreign)
    # It may as well be older, and hold what a power cut has taken since. After a clean stop no journal is needed.
    return Origin(ours, are_offsets_foreign, left=left)


def _are_found(disk: Disk, found: JournalContents) -> bool:
    """Whether the segments have batches of this journal, and nothing else in the place of any. Compaction may have put
    something else there, but not into the last segment."""
    spans = {key: tail.spans for key, tail in found.tails.items()}
    last = list(_plans(disk, spans, only_last=True))
    is_matched = any(is_matched for is_matched, _ in (*last, *_plans(disk, spans)))
    return is_matched and not any(contradiction for _, contradiction in last)


def is_contradicted(disk: Disk, found: JournalContents, flushed: FlushedOffsets) -> bool:
    """Whether a segment has another batch than this journal. Raises OSError."""
    spans = {key: tail.above(flushed.get(*key)) for key, tail in found.tails.items()}
    return any(contradiction for _, contradiction in _plans(disk, spans))


def _plans(
    disk: Disk, spans: Mapping[LogKey, Sequence[Span]], *, only_last: bool = False
) -> Iterable[tuple[bool, str | None]]:
    """`only_last`: of the last segment of each log."""
    from oncelog.broker.storage.local.redo import is_segment, plan  # needed only after a kill

    directories = directories_of(disk) if any(spans.values()) else {}
    for key, of_log in spans.items():
        if key in directories:
            with suppress(OSError):  # its recovery reports it
                last_name = max(filter(is_segment, disk.list_dir(directories[key])), default="") if only_last else ""
                of_last = [span for span in of_log if file_name(span.segment_base, LOG_SUFFIX) >= last_name]
                planned = plan(disk, directories[key], of_last, 0, only_extend=False)
                yield planned.is_matched, planned.contradiction


def directories_of(disk: Disk) -> dict[LogKey, str]:
    """The directories of partitions by their own account."""
    found: dict[LogKey, str] = {}
    for name in disk.list_dir(""):
        place = partition_of(name)
        if place is not None:
            with suppress(OSError):
                topic_id = read_topic_id(disk, name)
                if topic_id is not None:
                    found[topic_id, place[1]] = name
    return found
