"""Records of consumer groups (KIP-848): read as they were written, also those of older Kafkas."""

from uuid import UUID

import pytest

from oncelog.broker.coordinator.group.consumer.member import (
    ClassicMetadata,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
    ResolvedRegex,
)
from oncelog.broker.coordinator.group.consumer.records import (
    Change,
    CurrentChanged,
    GroupChanged,
    GroupEpoch,
    MemberChanged,
    RegexChanged,
    TargetChanged,
    TargetEpoch,
    TargetEpochChanged,
    decode,
    encode,
)
from oncelog.broker.coordinator.group.shard import GroupShard
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.protocol.generated.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from oncelog.protocol.state_record_codec import encode_value


def test_a_tombstone_makes_no_consumer_group() -> None:
    shard = GroupShard(0)
    for change in (GroupChanged(None), TargetEpochChanged(None), MemberChanged("m", None), CurrentChanged("m", None)):
        shard.replay(encode("g", change), offset=0, producer_id=-1)
    assert shard.group_ids() == []


_PARTITIONS = {UUID(int=7): {0: 3, 5: 4}, UUID(int=8): {1: 4}}


@pytest.mark.parametrize(
    "change",
    [
        GroupChanged(GroupEpoch(5, -(2**63))),
        TargetEpochChanged(TargetEpoch(5, 1_700_000_000_000)),
        MemberChanged("m", MemberMetadata(client_id="c", client_host="/h", topic_names=("a", "b"))),
        MemberChanged(
            "m", MemberMetadata("i", "r", "c", "/h", (), "a.*", 5, "range", ClassicMetadata(9, (("p", b"x"),)))
        ),
        TargetChanged("m", {UUID(int=7): frozenset({0, 5}), UUID(int=8): frozenset({1})}),
        TargetChanged("m", {}),
        CurrentChanged(
            "m", CurrentAssignment(4, 3, MemberState.UNREVOKED_PARTITIONS, _PARTITIONS, {UUID(int=9): {2: 3}})
        ),
        RegexChanged("a.*", ResolvedRegex(frozenset({"a1", "a2"}), 0, 12)),
    ],
    ids=lambda change: type(change).__name__,  # a set's repr is another one in each process
)
def test_each_change_of_a_consumer_group_is_read_as_it_was_written(change: Change) -> None:
    assert decode(encode("g", change)) == ("g", change)


def test_partitions_written_before_they_had_epochs_have_the_members() -> None:
    change = CurrentChanged("m", CurrentAssignment(4, 3))
    key = encode("g", change).key
    owned = [TopicPartitions(UUID(int=7), [1, 2], None)]
    value = encode_value(ConsumerGroupCurrentMemberAssignmentValue(4, 3, 0, owned, ()), 0)
    _, read = decode(CoordinatorRecord(key, value))
    assert read == CurrentChanged("m", CurrentAssignment(4, 3, assigned={UUID(int=7): {1: 4, 2: 4}}))


def test_a_state_that_is_not_known_is_kept_as_unknown() -> None:
    key = encode("g", CurrentChanged("m", None)).key
    value = encode_value(ConsumerGroupCurrentMemberAssignmentValue(4, 3, 55, (), ()), 0)
    _, read = decode(CoordinatorRecord(key, value))
    assert read == CurrentChanged("m", CurrentAssignment(4, 3, MemberState.UNKNOWN))
