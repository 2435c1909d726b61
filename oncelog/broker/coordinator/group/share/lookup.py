"""How a share group is found in a shard, and Kafka's errors where there is none.

Owns: these rules alone. An id belongs to one group of one type; a group that has only offsets is a classic one.
"""

from oncelog.broker.coordinator.group.shard_life import GroupShardLife
from oncelog.broker.coordinator.group.share.group import ShareGroup
from oncelog.protocol.errors import ErrorCode, KafkaError


def share_group(life: GroupShardLife, group_id: str) -> ShareGroup | None:
    """Return the group, to be read only; None also for a group of another type."""
    group = life.shard.modern_group(group_id)
    return group if isinstance(group, ShareGroup) else None


def is_of_another_type(life: GroupShardLife, group_id: str) -> bool:
    is_there = group_id in life.classic or life.shard.knows(group_id)
    return is_there and share_group(life, group_id) is None


def existing(life: GroupShardLife, group_id: str) -> ShareGroup:
    """Raises GROUP_ID_NOT_FOUND."""
    group = share_group(life, group_id)
    if group is not None:
        return group
    what = "is not a share group" if is_of_another_type(life, group_id) else "not found"
    raise not_found(f"Group {group_id} {what}.")


def existing_or_new(life: GroupShardLife, group_id: str) -> ShareGroup:
    """Return the group, or an empty one if the id is free. Raises GROUP_ID_NOT_FOUND: no group of another type becomes
    a share group, not even an empty one."""
    if is_of_another_type(life, group_id):
        raise not_found(f"Group {group_id} is not a share group.")
    return share_group(life, group_id) or ShareGroup(group_id)


def not_found(message: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)
