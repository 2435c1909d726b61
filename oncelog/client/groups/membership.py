"""What a consumer needs of its group, whichever protocol the group speaks.

Owns: the port `Membership`, settings of members, and the request that commits a member's offsets. Does not own: a
protocol (`classic` has the classic one, `consumer_group` that of KIP-848), or what is done with an assignment
(`consuming.reading`).

An assignment flows one way: the membership learns it in the background, `follow` returns it as a `Rebalance` inside a
poll, the consumer applies it, and `on_revoked` and `on_assigned` report what the consumer has then. The membership owns
an assignment until then: `follow` returns it again if it was not applied, for example since a hook raised.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from oncelog.client.groups.polling import Polling
from oncelog.client.values.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.cluster import PROPAGATION_MS, Cluster, CoordinatorKind
from oncelog.client.wire.group_apis import OFFSET_COMMIT
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.generated.offset_commit_response import OffsetCommitResponse


@dataclass(frozen=True, slots=True)
class GroupSettings:
    group_id: str
    group_instance_id: str | None
    assignors: Sequence[str]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    metadata_max_age_ms: int
    remote_assignor: str | None
    api_timeout_ms: float
    pattern: str | None = None
    """The pattern that chooses the topics. In a classic group the member matches them at each join, and a change is a
    reason to join again; in one of KIP-848 the coordinator does."""
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Rebalance:
    """The next step of the consumer: give up the partitions that are not in `target`, then read those that are."""

    target: Sequence[TopicPartition]
    is_lost: bool = False
    """True if the partitions given up may have another owner already: nothing of them can be committed."""
    is_assignment: bool = True
    """False if the assignment is still to come, and this only gives up what must not be kept until then."""


class Membership(Protocol):
    """A membership in a group. It is made with an `on_change`, which it calls when `follow` may return something else
    than before."""

    subscribes: bool
    """True if the group assigns the partitions."""
    polling: Polling

    @property
    def is_member(self) -> bool: ...

    def metadata(self) -> ConsumerGroupMetadata: ...

    def follow(self, owned: Sequence[TopicPartition]) -> Rebalance | None:
        """Return what the consumer, which has `owned`, must do now; starts in the background what the group must do.
        Raises the error that ended it, once."""
        ...

    def on_revoked(self, owned: Sequence[TopicPartition]) -> None:
        """Note that the consumer has given up what the last `Rebalance` left out, and still has `owned`."""
        ...

    def on_assigned(self, owned: Sequence[TopicPartition]) -> None:
        """Note that the consumer has applied the last assignment, and has `owned`."""
        ...

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: Deadline) -> None:
        """Commit as this member. Raises CommitFailed if this membership is no longer current."""
        ...

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: Deadline, *, require_stable: bool
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's offsets. Raises CommitFailed as `commit` does, where the protocol carries the member."""
        ...

    async def check_membership(self, deadline: Deadline) -> None:
        """Raises CommitFailed if the coordinator does not know this member any more."""
        ...

    async def leave(self, deadline: Deadline) -> None: ...

    async def close(self) -> None: ...


async def send_commit(
    cluster: Cluster,
    member: ConsumerGroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    deadline: Deadline,
) -> int:
    """Commit as this member; returns the first error code of a partition, 0 for none. Raises UnknownTopic, and
    ConfigError for a partition that its topic does not have."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        part = OffsetCommitRequestPartition(partition, offset.offset, offset.leader_epoch, offset.metadata)
        topics.setdefault(topic, []).append(part)
    request = OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation_id,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        topics=[OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
    )
    give_up: Deadline | None = None
    while True:
        response = await cluster.call_coordinator(
            CoordinatorKind.GROUP, member.group_id, OFFSET_COMMIT, request, deadline, _commit_error
        )
        code = _commit_error(response)
        if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return code
        give_up = give_up or deadline.capped(PROPAGATION_MS)
        error = await cluster.still_unknown(_place_of(response, code), give_up)
        if error is not None:
            raise error


def _place_of(response: OffsetCommitResponse, code: int) -> TopicPartition:
    places = ((topic.name, each) for topic in response.topics for each in topic.partitions)
    return next(TopicPartition(name, each.partition_index) for name, each in places if each.error_code == code)


def _commit_error(response: OffsetCommitResponse) -> int:
    codes = [each.error_code for topic in response.topics for each in topic.partitions]
    return next((code for code in codes if code), 0)
