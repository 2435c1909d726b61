"""What Admin returns about share groups (KIP-932) as plain values.

Owns: the classes. Does not own: the requests (`share_groups`). An offset or a count that the broker does not know is
None.
"""

from dataclasses import dataclass

from oncelog.client.values.records import TopicPartition


@dataclass(frozen=True, slots=True)
class ShareMemberDescription:
    """One member of a share group, the topics that it subscribes to, and the partitions that it is assigned now. Other
    members may have the same partitions."""

    member_id: str
    rack_id: str | None
    client_id: str
    host: str
    epoch: int
    topics: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ShareGroupDescription:
    """One share group. `assignment_epoch` is below `epoch` until the assignor has seen the last change of members or
    topics."""

    group_id: str
    state: str
    assignor: str
    epoch: int
    assignment_epoch: int
    coordinator_id: int
    members: tuple[ShareMemberDescription, ...]


@dataclass(frozen=True, slots=True)
class SharePartitionOffset:
    """Where a share group is in one partition: every record below `start_offset` is acknowledged, rejected or given up.

    `start_offset` is None until the group has read the partition: `share.auto.offset.reset` decides then. `lag` counts
    the offsets from there to the end that are still to be delivered or acknowledged (KIP-1226).
    """

    start_offset: int | None
    leader_epoch: int | None
    lag: int | None
