"""One step of a member from its current assignment towards its target.

Owns: the three states of a member on the way, and which partitions it may own in each. Does not own: the target
(`assignors`), who else owns what (`group`), the timeout of a revocation (`sessions`).
Invariants
- A partition is assigned only while no member owns it, so two members never own one together.
- A member's epoch advances to that of the target only once it owns nothing that the target takes from it.

KIP-848, in the order of Kafka's coordinator: revoke (UNREVOKED_PARTITIONS), then take what is free
(UNRELEASED_PARTITIONS while something is not), then STABLE.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from oncelog.broker.coordinator.group.assignors.subscriber import TopicPartitions
from oncelog.broker.coordinator.group.consumer.member import CurrentAssignment, MemberState, PartitionEpochs
from oncelog.protocol.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class Step:
    """The input of one step."""

    target_epoch: int
    target: TopicPartitions
    subscribed: Collection[UUID]
    """Ids of the topics that the member subscribes to and that exist."""
    is_owned: Callable[[UUID, int], bool]
    reported: Mapping[UUID, Collection[int]] | None
    """The partitions that the member reports to own; None if it reports nothing."""
    has_new_subscription: bool = False


def reconcile(current: CurrentAssignment, step: Step) -> CurrentAssignment:
    """Return the member's next assignment; the same value if there is nothing to do. Raises FENCED_MEMBER_EPOCH for an
    unknown state."""
    match current.state:
        case MemberState.STABLE:
            if current.member_epoch != step.target_epoch:
                return _next(current, step, current.member_epoch)
            return _without_unsubscribed(current, step) if step.has_new_subscription else current
        case MemberState.UNREVOKED_PARTITIONS:
            if _still_owns(current.pending_revocation, step):
                return _without_unsubscribed(current, step) if step.has_new_subscription else current
            return _next(current, step, current.member_epoch)
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(current, step, current.member_epoch)
        case MemberState.UNKNOWN:
            if step.reported is None or step.reported:
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The consumer group member is in a unknown state. "
                    "The member must abandon all its partitions and rejoin.",
                )
            return _next(current, step, step.target_epoch)


def _still_owns(partitions: PartitionEpochs, step: Step) -> bool:
    """Whether the member may still own some of these partitions: only what it reports counts, and while it reports
    nothing it may own everything."""
    if step.reported is None:
        return True
    return any(
        partition in partitions.get(topic_id, {})
        for topic_id, reported in step.reported.items()
        for partition in reported
    )


def _without_unsubscribed(current: CurrentAssignment, step: Step) -> CurrentAssignment:
    """Give up at once what a member with a new subscription no longer reads (KIP-848)."""
    gone = {topic_id: epochs for topic_id, epochs in current.assigned.items() if topic_id not in step.subscribed}
    if not gone:
        return current
    kept = {topic_id: epochs for topic_id, epochs in current.assigned.items() if topic_id in step.subscribed}
    pending = dict(current.pending_revocation)
    for topic_id, epochs in gone.items():
        pending[topic_id] = {**pending.get(topic_id, {}), **epochs}
    changed = replace(current, previous_epoch=current.member_epoch, assigned=kept)
    if _still_owns(pending, step):
        return replace(changed, state=MemberState.UNREVOKED_PARTITIONS, pending_revocation=pending)
    return changed


def _next(current: CurrentAssignment, step: Step, member_epoch: int) -> CurrentAssignment:
    kept: dict[UUID, dict[int, int]] = {}
    revoked: dict[UUID, dict[int, int]] = {}
    free: dict[UUID, list[int]] = {}
    is_waiting = False
    for topic_id in dict.fromkeys((*step.target, *current.assigned)):
        owned = current.assigned.get(topic_id, {})
        target = step.target.get(topic_id, frozenset()) if topic_id in step.subscribed else frozenset()
        _put(kept, topic_id, {partition: epoch for partition, epoch in owned.items() if partition in target})
        _put(revoked, topic_id, {partition: epoch for partition, epoch in owned.items() if partition not in target})
        own_before = current.pending_revocation.get(topic_id, {})
        for partition in sorted(target - owned.keys()):
            if partition in own_before or not step.is_owned(topic_id, partition):
                free.setdefault(topic_id, []).append(partition)
            else:
                is_waiting = True
    if revoked and _still_owns(revoked, step):
        # Its epoch stays, as it is the one that the member still uses.
        return CurrentAssignment(member_epoch, current.member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoked)
    for topic_id, partitions in free.items():
        kept.setdefault(topic_id, {}).update(dict.fromkeys(partitions, step.target_epoch))
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    return CurrentAssignment(step.target_epoch, current.member_epoch, state, kept)


def _put(partitions: dict[UUID, dict[int, int]], topic_id: UUID, epochs: dict[int, int]) -> None:
    if epochs:
        partitions[topic_id] = epochs
