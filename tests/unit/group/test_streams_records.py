"""Records of streams groups (KIP-1071): read as they were written, also those of older Kafkas."""

import pytest

from oncelog.broker.coordinator.group.shard import GroupShard
from oncelog.broker.coordinator.group.streams.member import CurrentAssignment, Endpoint, MemberMetadata, MemberState
from oncelog.broker.coordinator.group.streams.records import (
    Change,
    CurrentChanged,
    GroupChanged,
    GroupEpoch,
    MemberChanged,
    TargetChanged,
    TargetEpoch,
    TargetEpochChanged,
    TopologyChanged,
    decode,
    encode,
)
from oncelog.broker.coordinator.group.streams.tasks import NO_TASKS, OwnedTasks, Tasks
from oncelog.broker.coordinator.group.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.protocol.generated.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
    TaskIds,
)
from oncelog.protocol.state_record_codec import encode_value

OWNED = OwnedTasks({"0": {0: 3, 5: 4}, "1": {1: 4}}, {"1": frozenset({2})}, {"1": frozenset({3})})
TOPOLOGY = Topology(
    4,
    (
        Subtopology(
            "0",
            ("a", "b"),
            (),
            (TopicInfo("c", 0, 3, (("cleanup.policy", "compact"),)),),
            ("r",),
            (TopicInfo("s", 2),),
            (CopartitionGroup((0, 1), (), (0,)),),
        ),
        Subtopology("1", ("r",)),
    ),
)


@pytest.mark.parametrize(
    "change",
    [
        GroupChanged(GroupEpoch(5, -(2**63), 4, {"num.standby.replicas": "1"})),
        GroupChanged(GroupEpoch(5, 0)),
        TopologyChanged(TOPOLOGY),
        TargetEpochChanged(TargetEpoch(5, 1_700_000_000_000)),
        MemberChanged("m", MemberMetadata(client_id="c", client_host="/h", process_id="p")),
        MemberChanged("m", MemberMetadata(None, "r", "c", "/h", 5, 4, "p", Endpoint("e", 65_535), (("k", "v"),))),
        TargetChanged("m", Tasks({"0": frozenset({0, 5})}, {"1": frozenset({1})}, {"2": frozenset({2})})),
        TargetChanged("m", NO_TASKS),
        CurrentChanged("m", CurrentAssignment(4, 3, MemberState.UNREVOKED_TASKS, OWNED, OWNED)),
    ],
    ids=lambda change: type(change).__name__,  # a set's repr is another one in each process
)
def test_each_change_of_a_streams_group_is_read_as_it_was_written(change: Change) -> None:
    assert decode(encode("g", change)) == ("g", change)


def test_a_tombstone_makes_no_streams_group() -> None:
    shard = GroupShard(0)
    changes = (GroupChanged(None), TopologyChanged(None), TargetEpochChanged(None), MemberChanged("m", None))
    for change in (*changes, CurrentChanged("m", None), TargetChanged("m", None)):
        shard.replay(encode("g", change), offset=0, producer_id=-1)
    assert shard.group_ids() == []


def test_tasks_written_before_they_had_epochs_have_the_members() -> None:
    key = encode("g", CurrentChanged("m", None)).key
    value = encode_value(StreamsGroupCurrentMemberAssignmentValue(4, 3, 1, [TaskIds("0", [1, 2], None)]), 0)
    _, read = decode(CoordinatorRecord(key, value))
    assert read == CurrentChanged("m", CurrentAssignment(4, 3, assigned=OwnedTasks({"0": {1: 4, 2: 4}})))


def test_a_state_that_is_not_known_is_kept_as_unknown() -> None:
    key = encode("g", CurrentChanged("m", None)).key
    value = encode_value(StreamsGroupCurrentMemberAssignmentValue(4, 3, 55), 0)
    _, read = decode(CoordinatorRecord(key, value))
    assert read == CurrentChanged("m", CurrentAssignment(4, 3, MemberState.UNKNOWN))
