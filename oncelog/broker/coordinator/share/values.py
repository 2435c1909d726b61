"""The values of the share coordinator: which share-partition, and what is known of it.

Owns: the names and shapes that the share coordinator, share groups and share-partitions use among themselves, as
Kafka's SharePartitionKey, PersisterStateBatch and PartitionAllData are. Does not own any state.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, NamedTuple
from uuid import UUID

UNINITIALIZED_START_OFFSET: Final = -1
"""The start offset of a share-partition that is not read yet: the group's `share.auto.offset.reset` decides."""
UNKNOWN_DELIVERY_COMPLETE_COUNT: Final = -1
NO_LEADER_EPOCH: Final = -1
"""A reader or writer that is not the leader of the partition; no epoch is checked."""
NO_STATE_EPOCH: Final = -1

_TOPIC_ID = re.compile("[A-Za-z0-9_-]{22}(==)?")
_INTEGER = re.compile("[+-]?[0-9]+")
_INT32 = range(-(2**31), 2**31)


class SharePartitionKey(NamedTuple):
    """A partition of a topic as one share group sees it."""

    group_id: str
    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        """Return Kafka's coordinator key, "group:topicId:partition"."""
        return f"{self.group_id}:{topic_id_text(self.topic_id)}:{self.partition}"


class StateBatch(NamedTuple):
    """Offsets of a share-partition with the same delivery state."""

    first_offset: int
    last_offset: int
    delivery_state: int
    """0 available, 2 acknowledged, 4 archived."""
    delivery_count: int


class ShareState(NamedTuple):
    """The state of one share-partition, as the share coordinator stores it."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


def topic_id_text(topic_id: UUID) -> str:
    """Return a topic id as Kafka prints it: base64 for URLs without padding."""
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def parse_share_partition_key(text: str) -> SharePartitionKey:
    """Read Kafka's coordinator key from the right, as group ids may contain colons. Raises ValueError."""
    if not text:
        raise ValueError("Share partition key cannot be empty")
    parts = text.rstrip(":").split(":")  # as Java's split, which drops what is empty at the end
    if len(parts) < 3:
        raise ValueError(f"Invalid key format: expected - groupId:topicId:partition, found - {text}")
    group_id, topic_id, partition = ":".join(parts[:-2]), parts[-2], parts[-1]
    if not group_id.strip():
        raise ValueError("GroupId must not be empty")
    if not _TOPIC_ID.fullmatch(topic_id):
        raise ValueError(f"Invalid topic ID: {topic_id}")
    if not _INTEGER.fullmatch(partition) or int(partition) not in _INT32:
        raise ValueError(f"Invalid partition: {partition}")
    return SharePartitionKey(group_id, UUID(bytes=urlsafe_b64decode(topic_id[:22] + "==")), int(partition))
