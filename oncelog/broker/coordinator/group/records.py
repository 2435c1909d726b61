"""Group records in `__consumer_offsets`: committed offsets and the membership of a generation, in Kafka's formats.

Owns: encoding and decoding. Does not own: the resulting state (`engine.shard`). Invariant: what a record carries as
`decoded` is what its bytes say. Values are written in the versions that Kafka 4.3 writes: offsets in version 4, with
the topic id, or 1 for an explicit expiry, groups in version 3. Every version that Kafka ever wrote can be read; other
kinds of keys are ignored here (`engine.kind`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.protocol import state_record_codec
from oncelog.protocol.generated import group_metadata_key, group_metadata_value, offset_commit_key, offset_commit_value
from oncelog.protocol.generated.group_metadata_key import GroupMetadataKey
from oncelog.protocol.generated.group_metadata_value import GroupMetadataValue, MemberMetadata
from oncelog.protocol.generated.offset_commit_key import OffsetCommitKey
from oncelog.protocol.generated.offset_commit_value import OffsetCommitValue
from oncelog.protocol.topics import ZERO_UUID

OFFSET_COMMIT_TYPES = (0, 1)
GROUP_METADATA_TYPE = 2
NO_OFFSET = -1
NO_TIMESTAMP = -1
_GROUP_VERSION = 3
_OFFSET_VERSION = 4
_OFFSET_WITH_EXPIRY_VERSION = 1

TopicPartition = tuple[str, int]


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP
    """When the offset expires; set only if the client requested its own retention (OffsetCommit 2 to 4)."""
    topic_id: UUID = ZERO_UUID
    """The id of its topic; all zero if the record has none."""


NO_COMMITTED_OFFSET = CommittedOffset(NO_OFFSET, -1, "", NO_TIMESTAMP)


@dataclass(frozen=True, slots=True)
class StoredMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A generation as last logged."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: int
    members: Sequence[StoredMember]


class OffsetKey(NamedTuple):
    group_id: str
    partition: TopicPartition


class GenerationChange(NamedTuple):
    """The decoded record of a generation; None is its tombstone."""

    group_id: str
    generation: StoredGroup | None


class OffsetChange(NamedTuple):
    """The decoded record of an offset; None is its tombstone."""

    key: OffsetKey
    committed: CommittedOffset | None


def offset_record(group_id: str, partition: TopicPartition, committed: CommittedOffset | None) -> CoordinatorRecord:
    """Return the record of one committed offset; None makes its tombstone."""
    key = OffsetCommitKey(group=group_id, topic=partition[0], partition=partition[1])
    value, has_expiry = None, False
    if committed is not None:
        has_expiry = committed.expire_timestamp_ms != NO_TIMESTAMP
        value = state_record_codec.encode_value(
            OffsetCommitValue(
                offset=committed.offset,
                leader_epoch=committed.leader_epoch,
                metadata=committed.metadata,
                commit_timestamp=committed.commit_timestamp_ms,
                expire_timestamp=committed.expire_timestamp_ms,
                topic_id=committed.topic_id,
            ),
            _OFFSET_WITH_EXPIRY_VERSION if has_expiry else _OFFSET_VERSION,
        )
    # With an expiry it is of a version that lacks some of the fields.
    change = None if has_expiry else OffsetChange(OffsetKey(group_id, partition), committed)
    return CoordinatorRecord(state_record_codec.encode_key(key), value, change)


def group_record(group_id: str, group: StoredGroup | None) -> CoordinatorRecord:
    """Return the record of a generation; None makes the group's tombstone."""
    value = None
    if group is not None:
        value = state_record_codec.encode_value(
            GroupMetadataValue(
                protocol_type=group.protocol_type,
                generation=group.generation_id,
                protocol=group.protocol_name,
                leader=group.leader_id,
                current_state_timestamp=group.state_timestamp_ms,
                members=[
                    MemberMetadata(
                        member_id=member.member_id,
                        group_instance_id=member.group_instance_id,
                        client_id=member.client_id,
                        client_host=member.client_host,
                        rebalance_timeout=member.rebalance_timeout_ms,
                        session_timeout=member.session_timeout_ms,
                        subscription=member.subscription,
                        assignment=member.assignment,
                    )
                    for member in group.members
                ],
            ),
            _GROUP_VERSION,
        )
    key = state_record_codec.encode_key(GroupMetadataKey(group=group_id))
    return CoordinatorRecord(key, value, GenerationChange(group_id, group))


def decode(record: CoordinatorRecord) -> OffsetChange | GenerationChange | None:
    """Return what a record of an offset or a generation says; None for another kind of record. Raises ProtocolError."""
    kind = state_record_codec.prefix(record.key)
    if kind in OFFSET_COMMIT_TYPES:
        key: OffsetCommitKey = state_record_codec.decode(offset_commit_key, record.key, 0)
        committed = None if record.value is None else decode_offset(record.value)
        return OffsetChange(OffsetKey(key.group, (key.topic, key.partition)), committed)
    if kind == GROUP_METADATA_TYPE:
        group_key: GroupMetadataKey = state_record_codec.decode(group_metadata_key, record.key, 0)
        return GenerationChange(group_key.group, None if record.value is None else decode_group(record.value))
    return None


def decode_offset(value: bytes) -> CommittedOffset:
    decoded: OffsetCommitValue = state_record_codec.decode(offset_commit_value, value)
    return CommittedOffset(
        decoded.offset,
        decoded.leader_epoch,
        decoded.metadata,
        decoded.commit_timestamp,
        decoded.expire_timestamp,
        decoded.topic_id,
    )


def decode_group(value: bytes) -> StoredGroup:
    decoded: GroupMetadataValue = state_record_codec.decode(group_metadata_value, value)
    return StoredGroup(
        decoded.protocol_type,
        decoded.generation,
        decoded.protocol,
        decoded.leader,
        decoded.current_state_timestamp,
        tuple(
            StoredMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout,
                member.session_timeout,
                bytes(member.subscription),
                bytes(member.assignment),
            )
            for member in decoded.members
        ),
    )
