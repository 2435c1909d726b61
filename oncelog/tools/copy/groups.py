"""Committed offsets of consumer groups, translated from the source's offsets to the target's.

Owns: which groups, which offsets move, what is said about the others. Does not own: where records are (`runs`).

The translated offset is that of the first copied record at or behind the committed one: the same record, or, for an
offset between records (a marker, an aborted or a compacted one), the next. Behind everything it is the end of what was
copied, before everything the first record that was copied. An offset ahead of the copy is left for later.

While the copy follows, offsets on the target only move forward, so that a group that reads there already keeps its own;
at a switch-over they become exactly the source's. A group with members on the target is left alone: its members know
better, and the target refuses.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from oncelog.client.admin.client import Admin
from oncelog.client.values.errors import KafkaError
from oncelog.client.values.records import OffsetAndMetadata, TopicPartition
from oncelog.protocol.errors import ErrorCode
from oncelog.tools.copy.state import PartitionCopy

_HAS_MEMBERS = frozenset(
    (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP, ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH)
)
_SHARE = "share"
"""The type of groups whose members acknowledge records one by one: there is no offset to translate (KIP-932)."""


_IDLE = frozenset(("Empty", "Dead", ""))
"""The states of a group without members; brokers before Kafka 2.6 report none."""


@dataclass(frozen=True, slots=True)
class GroupCopy:
    """The result of one group: how many of its offsets are as on the source, and why others are not."""

    group_id: str
    offset_count: int
    moved_count: int
    """How many of these were changed now."""
    note: str = ""


async def copy_groups(
    source: Admin, target: Admin, partitions: Mapping[TopicPartition, PartitionCopy], *, is_final: bool
) -> list[GroupCopy]:
    """Translate the offsets of all groups that have some of these partitions. Raises KafkaError."""
    found = []
    for group in await source.list_groups():
        if group.type == _SHARE:
            continue
        committed = await source.list_group_offsets(group.group_id, require_stable=is_final)
        chosen = {place: offset for place, offset in committed.items() if place in partitions}
        if chosen:
            copied = await _copy_group(target, group.group_id, chosen, partitions, is_final=is_final)
            if is_final and group.state not in _IDLE and not copied.note:
                copied = replace(copied, note="has members on the source, and may commit more")
            found.append(copied)
    return found


async def _copy_group(
    target: Admin,
    group_id: str,
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    partitions: Mapping[TopicPartition, PartitionCopy],
    *,
    is_final: bool,
) -> GroupCopy:
    translated = {
        place: OffsetAndMetadata(partitions[place].runs.target_of(offset.offset), offset.metadata)
        for place, offset in committed.items()
        if offset.offset <= partitions[place].next_offset
    }
    ahead = len(committed) - len(translated)
    note = f"{ahead} offsets are ahead of what is committed" if ahead else ""
    there = await target.list_group_offsets(group_id, require_stable=False)
    moved = {
        place: to
        for place, to in translated.items()
        if place not in there or _moves(there[place], to, is_final=is_final)
    }
    if moved:
        try:
            await target.alter_group_offsets(group_id, moved)
        except KafkaError as error:
            if error.code not in _HAS_MEMBERS:
                raise
            return GroupCopy(group_id, len(translated) - len(moved), 0, "has members on the target: left alone")
    return GroupCopy(group_id, len(translated), len(moved), note)


def _moves(there: OffsetAndMetadata, to: OffsetAndMetadata, *, is_final: bool) -> bool:
    if is_final:
        return (there.offset, there.metadata) != (to.offset, to.metadata)
    return there.offset < to.offset
