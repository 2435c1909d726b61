"""Converts a group with members from the classic to the consumer protocol, and back (KIP-848).

Owns: when that is allowed, and the conversion. Does not own: what triggers it, the timers and waiting requests that go
with it (`coordinator`).
Invariant: no member loses a partition by a conversion: its members own the same partitions before and after.
"""

from collections.abc import Collection, Iterable, Mapping

from oncelog.broker.coordinator.group.assignors.subscriber import TopicPartitions
from oncelog.broker.coordinator.group.consumer.group import ConsumerGroup
from oncelog.broker.coordinator.group.consumer.member import (
    ClassicMetadata,
    ConsumerMember,
    CurrentAssignment,
    MemberMetadata,
    with_epoch,
)
from oncelog.broker.coordinator.group.consumer.ports import (
    ConsumerGroupSettings,
    TopicCatalog,
    by_topic_id,
    metadata_hash,
)
from oncelog.broker.coordinator.group.consumer.records import (
    Change,
    CurrentChanged,
    GroupChanged,
    GroupEpoch,
    MemberChanged,
    TargetChanged,
    TargetEpoch,
    TargetEpochChanged,
)
from oncelog.broker.coordinator.group.membership import Group, Member
from oncelog.broker.coordinator.group.states import GroupState
from oncelog.broker.coordinator.group.subscription import (
    CONSUMER,
    encode_assignment,
    read_assignment,
    read_subscription,
)
from oncelog.protocol.errors import ErrorCode, KafkaError

# --- from classic to consumer -----------------------------------------------------------------------------------------


def check_upgrade(group: Group, settings: ConsumerGroupSettings) -> None:
    """Raises GROUP_ID_NOT_FOUND, in Kafka's words, when this group may not become a consumer group."""
    if not settings.migration_policy.allows_upgrade:
        problem = "online upgrade is disabled"
    elif group.protocol_type != CONSUMER:
        problem = "the group does not use the consumer embedded protocol"
    elif len(group.members) > settings.max_size:
        problem = "the group size exceeds the consumer group maximum size"
    else:
        return
    raise _upgrade_error(group, problem)


def _upgrade_error(group: Group, problem: str) -> KafkaError:
    text = f"Cannot upgrade classic group {group.group_id[:300]} to consumer group because {problem}."
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)


def upgrade_changes(group: Group, topics: TopicCatalog) -> Iterable[Change]:
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


def may_downgrade(
    group: ConsumerGroup, leaving: Collection[str], joining: str | None, settings: ConsumerGroupSettings
) -> bool:
    """Whether only members of the classic protocol are left, without those that leave or are replaced by `joining`."""
    rest = [member for member in group.members.values() if member.member_id not in leaving]
    size = len(rest) + (joining is not None)
    return (
        all(member.is_classic for member in rest)
        and size > 0
        and settings.migration_policy.allows_downgrade
        and size <= settings.classic_max_size
    )


def to_classic_group(
    group: ConsumerGroup, leaving: Collection[str], topics: TopicCatalog
) -> tuple[Group, Mapping[str, bytes]]:
    """Return a stable classic group of the members that stay, each assigned its target."""
    classic = Group(group.group_id, state=GroupState.STABLE, generation_id=group.epoch, protocol_type=CONSUMER)
    for member in group.members.values():
        if member.member_id not in leaving:
            classic.add(_classic_member(member), CONSUMER)
    classic.protocol_name = classic.elect_protocol()
    for stays in classic.members.values():
        named = _by_name(group.target_of(stays.member_id), topics)
        stays.assignment = encode_assignment(named, stays.metadata_for(classic.protocol_name))
    return classic, {stays.member_id: stays.assignment for stays in classic.members.values()}


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


def _by_name(partitions: TopicPartitions, topics: TopicCatalog) -> Mapping[str, list[int]]:
    found = [(topics.by_id(topic_id), sorted(numbers)) for topic_id, numbers in partitions.items()]
    return {topic.name: numbers for topic, numbers in found if topic is not None}


def classic_assignment(member: ConsumerMember, topics: TopicCatalog) -> bytes:
    """Return what a member of the classic protocol owns, in the encoding of that protocol."""
    classic = member.metadata.classic
    partitions = {topic_id: frozenset(epochs) for topic_id, epochs in member.current.assigned.items()}
    metadata = classic.protocols[0][1] if classic is not None else b"\x00\x00"
    return encode_assignment(_by_name(partitions, topics), metadata)
