"""Records of groups of every type but the classic: in Kafka's formats, read as they were written, replayed to the same
group, also those of older Kafkas."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.coordinator.group.consumer import member as consumer
from oncelog.broker.coordinator.group.consumer.kind import CONSUMER_GROUPS
from oncelog.broker.coordinator.group.consumer.records import RegexChanged
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
from oncelog.broker.coordinator.group.engine.kind import GroupKind
from oncelog.broker.coordinator.group.engine.shard import GroupShard
from oncelog.broker.coordinator.group.kinds import kind_of_record
from oncelog.broker.coordinator.group.share import member as share
from oncelog.broker.coordinator.group.share.kind import SHARE_GROUPS
from oncelog.broker.coordinator.group.share.records import StatesChanged
from oncelog.broker.coordinator.group.share.states import KnownStates, TopicStates
from oncelog.broker.coordinator.group.streams import member as streams
from oncelog.broker.coordinator.group.streams.kind import STREAMS_GROUPS
from oncelog.broker.coordinator.group.streams.records import TopologyChanged
from oncelog.broker.coordinator.group.streams.tasks import NO_TASKS, OwnedTasks, Tasks
from oncelog.broker.coordinator.group.streams.topology import CopartitionGroup, Subtopology, TopicInfo, Topology
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.protocol.generated import consumer_group_current_member_assignment_value as consumer_value
from oncelog.protocol.generated import streams_group_current_member_assignment_value as streams_value
from oncelog.protocol.message import Message
from oncelog.protocol.state_record_codec import encode_value

T, U = UUID(int=7), UUID(int=8)
STATES = KnownStates({T: TopicStates("t", frozenset({2}))}, {T: TopicStates("t", frozenset({0, 1}))}, {U: "u"})
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

EPOCHS: tuple[Change, ...] = (
    GroupChanged(GroupEpoch(5, -(2**63))),
    TargetEpochChanged(TargetEpoch(5, 1_700_000_000_000)),
)
PARTITIONS: tuple[Change, ...] = (
    TargetChanged("m", {T: frozenset({0, 5}), U: frozenset({1})}),
    TargetChanged("m", {}),
)
CHANGES: Mapping[GroupKind, Sequence[Change]] = {
    CONSUMER_GROUPS: (
        *EPOCHS,
        MemberChanged("m", consumer.MemberMetadata(client_id="c", client_host="/h", topic_names=("a", "b"))),
        MemberChanged(
            "m",
            consumer.MemberMetadata(
                "i", "r", "c", "/h", (), "a.*", 5, "range", consumer.ClassicMetadata(9, (("p", b"x"),))
            ),
        ),
        *PARTITIONS,
        CurrentChanged(
            "m",
            consumer.CurrentAssignment(
                4, 3, consumer.MemberState.UNREVOKED_PARTITIONS, {T: {0: 3, 5: 4}, U: {1: 4}}, {UUID(int=9): {2: 3}}
            ),
        ),
        RegexChanged("a.*", consumer.ResolvedRegex(frozenset({"a1", "a2"}), 0, 12)),
    ),
    SHARE_GROUPS: (
        *EPOCHS,
        MemberChanged("m", share.MemberMetadata("r", "c", "/h", ("a", "b"))),
        MemberChanged("n", share.MemberMetadata(None, "c", "/h", ())),
        *PARTITIONS,
        CurrentChanged("m", share.CurrentAssignment(4, 3, {T: frozenset({0, 5})})),
        StatesChanged(STATES),
        StatesChanged(KnownStates({}, {}, {})),
    ),
    STREAMS_GROUPS: (
        *EPOCHS,
        GroupChanged(GroupEpoch(5, 1, 4, {"num.standby.replicas": "1"})),
        TopologyChanged(TOPOLOGY),
        MemberChanged("m", streams.MemberMetadata(client_id="c", client_host="/h", process_id="p")),
        MemberChanged(
            "m",
            streams.MemberMetadata(None, "r", "c", "/h", 5, 4, "p", streams.Endpoint("e", 65_535), (("k", "v"),)),
        ),
        TargetChanged("m", Tasks({"0": frozenset({0, 5})}, {"1": frozenset({1})}, {"2": frozenset({2})})),
        TargetChanged("m", NO_TASKS),
        CurrentChanged("m", streams.CurrentAssignment(4, 3, streams.MemberState.UNREVOKED_TASKS, OWNED, OWNED)),
    ),
}
ENDS: Mapping[GroupKind, Sequence[Change]] = {
    kind: list({type(change): type(change)(*change[:-1], None) for change in changes}.values())
    for kind, changes in CHANGES.items()
}
EVERY_TYPE = pytest.mark.parametrize("kind", CHANGES, ids=lambda kind: kind.group_type)


def _shard(kind: GroupKind, changes: Sequence[Change]) -> GroupShard:
    shard = GroupShard(0, kind_of_record)
    _replay(shard, kind, changes)
    return shard


def _replay(shard: GroupShard, kind: GroupKind, changes: Sequence[Change]) -> None:
    for change in changes:
        shard.replay(kind.encode("g", change), offset=0, producer_id=-1)


def _read(kind: GroupKind, record: CoordinatorRecord) -> tuple[type[Change], Change]:
    read = kind.decode(CoordinatorRecord(record.key, record.value))
    assert read.group_id == "g"
    return type(read.change), read.change


@EVERY_TYPE
def test_each_change_is_read_as_it_was_written(kind: GroupKind) -> None:
    for change in (*CHANGES[kind], *ENDS[kind]):
        record = kind.encode("g", change)
        assert _read(kind, record) == (type(change), change)
        assert record.decoded == (kind, "g", change)


def test_the_bytes_of_a_share_group_are_those_of_kafka() -> None:
    topic = f"{T.int:032x}"
    cases = (
        (GroupChanged(GroupEpoch(5, 6)), "000b 0001 67", "0000 00000005 0000000000000006 00"),
        (
            MemberChanged("m", share.MemberMetadata(None, "c", "/h", ("a",))),
            "000a 0001 67 0001 6d",
            "0000 00 02 63 03 2f68 02 02 61 00",
        ),
        (TargetEpochChanged(TargetEpoch(5, 0)), "000c 0001 67", "0000 00000005 00"),
        (
            TargetChanged("m", {T: frozenset({1})}),
            "000d 0001 67 0001 6d",
            f"0000 02 {topic} 02 00000001 00 00",
        ),
        (
            CurrentChanged("m", share.CurrentAssignment(4, 3, {T: frozenset({1})})),
            "000e 0001 67 0001 6d",
            f"0000 00000004 00000003 00 02 {topic} 02 00000001 00 00",
        ),
        (
            StatesChanged(STATES),
            "000f 0001 67",
            f"0000 02 {topic} 02 74 02 00000002 00 02 {topic} 02 74 03 00000000 00000001 00 "
            f"02 {U.int:032x} 02 75 00 00",
        ),
    )
    for change, key, value in cases:
        record = SHARE_GROUPS.encode("g", change)
        assert (record.key.hex(), (record.value or b"").hex()) == (key.replace(" ", ""), value.replace(" ", ""))


@EVERY_TYPE
def test_a_tombstone_makes_no_group(kind: GroupKind) -> None:
    assert _shard(kind, ENDS[kind]).group_ids() == []


@EVERY_TYPE
def test_a_group_ends_with_its_tombstones_and_one_of_another_type_may_follow(kind: GroupKind) -> None:
    shard = _shard(kind, CHANGES[kind])
    for record in kind.tombstones(shard.modern_group("g")):
        shard.replay(record, offset=0, producer_id=-1)
    assert shard.group_ids() == []
    other = next(each for each in CHANGES if each is not kind)
    _replay(shard, other, EPOCHS)
    _replay(shard, kind, ENDS[kind])  # compaction may leave them behind
    group = shard.modern_group("g")
    assert group is not None
    assert group.group_type == other.group_type


@EVERY_TYPE
@given(st.data())
def test_a_copy_to_which_the_same_changes_are_applied_is_the_same_group(kind: GroupKind, data: st.DataObject) -> None:
    changes = data.draw(st.lists(st.sampled_from((*CHANGES[kind], *ENDS[kind])), max_size=30))
    one: Any = kind.create("g")
    other = one.copy()
    for change in changes:
        one.apply(change)
        copied = other.copy()
        copied.apply(change)
        other = copied
    assert (one.topics, one.state) == (other.topics, other.state)
    assert vars(one) == vars(other)


@EVERY_TYPE
def test_a_member_that_was_seen_without_its_description_is_one(kind: GroupKind) -> None:
    (seen,) = (change for change in CHANGES[kind] if isinstance(change, CurrentChanged))
    group: Any = kind.create("g")
    group.apply(seen)
    assert {member_id: member.current for member_id, member in group.members.items()} == {"m": seen.current}


@pytest.mark.parametrize(
    ("kind", "value", "current"),
    [
        (
            CONSUMER_GROUPS,
            consumer_value.ConsumerGroupCurrentMemberAssignmentValue(
                4, 3, 0, [consumer_value.TopicPartitions(T, [1, 2], None)], ()
            ),
            consumer.CurrentAssignment(4, 3, assigned={T: {1: 4, 2: 4}}),
        ),
        (
            STREAMS_GROUPS,
            streams_value.StreamsGroupCurrentMemberAssignmentValue(4, 3, 1, [streams_value.TaskIds("0", [1, 2], None)]),
            streams.CurrentAssignment(4, 3, assigned=OwnedTasks({"0": {1: 4, 2: 4}})),
        ),
        (
            CONSUMER_GROUPS,
            consumer_value.ConsumerGroupCurrentMemberAssignmentValue(4, 3, 55, (), ()),
            consumer.CurrentAssignment(4, 3, consumer.MemberState.UNKNOWN),
        ),
        (
            STREAMS_GROUPS,
            streams_value.StreamsGroupCurrentMemberAssignmentValue(4, 3, 55),
            streams.CurrentAssignment(4, 3, streams.MemberState.UNKNOWN),
        ),
    ],
    ids=["consumer without epochs", "streams without epochs", "consumer state", "streams state"],
)
def test_what_lacks_epochs_has_the_members_and_a_state_that_is_not_known_is_kept_as_unknown(
    kind: GroupKind, value: Message, current: object
) -> None:
    key = kind.encode("g", CurrentChanged("m", None)).key
    read = kind.decode(CoordinatorRecord(key, encode_value(value, 0)))
    assert read.change == CurrentChanged("m", current)
