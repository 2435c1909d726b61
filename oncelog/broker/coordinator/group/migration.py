"""Converts a group with members from the classic to the consumer protocol, and back (KIP-848).

Owns: when an upgrade is allowed, and the conversions. Does not own: what triggers them, and sessions of members
(`consumer.coordinator`).
Invariant: no member loses a partition by a conversion: its members own the same partitions before and after.
"""

from collections.abc import Collection, Iterable

from oncelog.broker.config.group_settings import ConsumerGroupConfig, GroupSettings
from oncelog.broker.coordinator.group.assignors.subscriber import TopicPartitions
from oncelog.broker.coordinator.group.classic.groups import ClassicGroups
from oncelog.broker.coordinator.group.classic.membership import Group, Member
from oncelog.broker.coordinator.group.classic.states import GroupState
from oncelog.broker.coordinator.group.consumer.group import ConsumerGroup
from oncelog.broker.coordinator.group.consumer.member import (
    ClassicMetadata,
    ConsumerMember,
    CurrentAssignment,
    MemberMetadata,
    with_epoch,
)
from oncelog.broker.coordinator.group.engine.changes import (
    Change,
    CurrentChanged,
    GroupChanged,
    GroupEpoch,
    MemberChanged,
    TargetChanged,
    TargetEpoch,
    TargetEpochChanged,
)
from oncelog.broker.coordinator.group.engine.shard_life import GroupShardLife
from oncelog.broker.coordinator.group.engine.subscription import (
    CONSUMER,
    encode_assignment,
    read_assignment,
    read_subscription,
)
from oncelog.broker.coordinator.group.engine.topics import TopicCatalog, by_name, by_topic_id, metadata_hash
from oncelog.broker.coordinator.group.engine.writer import Follow
from oncelog.broker.coordinator.group.records import group_record
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.errors import ErrorCode, KafkaError


class Migration:
    def __init__(
        self, topics: TopicCatalog, settings: GroupSettings[ConsumerGroupConfig], classic_groups: ClassicGroups
    ) -> None:
        self._topics = topics
        self._settings = settings
        self._classic_groups = classic_groups

    def upgrade(self, life: GroupShardLife, group_id: str) -> Iterable[Change]:
        """Return the changes that turn the classic group into a consumer group. Raises GROUP_ID_NOT_FOUND, in Kafka's
        words, where that may not be."""
        group: Group = life.classic[group_id]
        _check_upgrade(group, self._settings.of(group_id))
        return _upgrade_changes(group, self._topics)

    def downgrade(
        self,
        life: GroupShardLife,
        group: ConsumerGroup,
        leaving: Collection[str],
        wall_ms: WallMs,
        *,
        must_rebalance: bool,
    ) -> tuple[CoordinatorRecord, Follow]:
        """Return the record of the classic group that takes the place of this one, and what starts it then."""
        classic = _to_classic_group(group, leaving, self._topics)
        assignments = {member.member_id: member.assignment for member in classic.members.values()}
        record = group_record(classic.group_id, classic.to_stored(assignments, wall_ms))
        return record, lambda: self._classic_groups.adopt(life, classic, must_rebalance=must_rebalance)


# --- from classic to consumer -----------------------------------------------------------------------------------------


def _check_upgrade(group: Group, config: ConsumerGroupConfig) -> None:
    if not config.migration_policy.allows_upgrade:
        problem = "online upgrade is disabled"
    elif group.protocol_type != CONSUMER:
        problem = "the group does not use the consumer embedded protocol"
    elif len(group.members) > config.max_size:
        problem = "the group size exceeds the consumer group maximum size"
    else:
        return
    raise _upgrade_error(group, problem)


def _upgrade_error(group: Group, problem: str) -> KafkaError:
    text = f"Cannot upgrade classic group {group.group_id[:300]} to consumer group because {problem}."
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)


def _upgrade_changes(group: Group, topics: TopicCatalog) -> Iterable[Change]:
    """Yield the changes that turn a classic group into a consumer group: the same members, each with what it owns; the
    generation becomes the epoch. Raises GROUP_ID_NOT_FOUND."""
    metadata = {member.member_id: _member_metadata(group, member) for member in group.members.values()}
    owned = {member.member_id: _owned_partitions(group, member, topics) for member in group.members.values()}
    epoch = group.generation_id
    names = {name for said in metadata.values() for name in said.topic_names}
    for member_id, said in metadata.items():
        yield MemberChanged(member_id, said)
    yield GroupChanged(GroupEpoch(epoch, metadata_hash(topics, names)))
    for member_id, partitions in owned.items():
        yield TargetChanged(member_id, partitions)
    yield TargetEpochChanged(TargetEpoch(epoch, 0))
    for member_id, partitions in owned.items():
        yield CurrentChanged(member_id, CurrentAssignment(epoch, epoch, assigned=with_epoch(partitions, epoch)))


def _member_metadata(group: Group, member: Member) -> MemberMetadata:
    # Before its first generation is complete a group has no protocol; all of a member's subscriptions are the same.
    metadata = member.metadata_for(group.protocol_name) or next(data for _, data in member.protocols)
    subscription = read_subscription(metadata)
    if subscription is None:
        raise _upgrade_error(group, "the embedded consumer protocol is malformed")
    return MemberMetadata(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMetadata(member.session_timeout_ms, tuple(member.protocols)),
    )


def _owned_partitions(group: Group, member: Member, topics: TopicCatalog) -> TopicPartitions:
    if not member.assignment:
        return {}
    assignment = read_assignment(member.assignment)
    if assignment is None:
        raise _upgrade_error(group, "the embedded consumer protocol is malformed")
    if assignment.user_data:
        # The state of such an assignor cannot be given back to it.
        raise _upgrade_error(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
            "assignor before re-attempting the upgrade",
        )
    return by_topic_id(topics, {entry.topic: entry.partitions for entry in assignment.assigned_partitions})


# --- from consumer to classic -----------------------------------------------------------------------------------------


def _to_classic_group(group: ConsumerGroup, leaving: Collection[str], topics: TopicCatalog) -> Group:
    """Return a stable classic group of the members that stay, each assigned its target."""
    classic = Group(group.group_id, state=GroupState.STABLE, generation_id=group.epoch, protocol_type=CONSUMER)
    for member in group.members.values():
        if member.member_id not in leaving:
            classic.add(_classic_member(member), CONSUMER)
    classic.protocol_name = classic.elect_protocol()
    for stays in classic.members.values():
        named = by_name(topics, group.target_of(stays.member_id))
        stays.assignment = encode_assignment(named, stays.metadata_for(classic.protocol_name))
    return classic


def _classic_member(member: ConsumerMember) -> Member:
    said, classic = member.metadata, member.metadata.classic
    if classic is None:
        raise ValueError(f"{member.member_id} does not speak the classic protocol")
    return Member(
        member.member_id,
        said.instance_id,
        said.client_id,
        said.client_host,
        said.rebalance_timeout_ms,
        classic.session_timeout_ms,
        classic.protocols,
    )
