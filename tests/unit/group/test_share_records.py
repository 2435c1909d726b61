"""Records of share groups (KIP-932): in Kafka's formats, read as they were written, and replayed to the same group."""

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.coordinator.group.consumer.records import GroupChanged as ConsumerGroupChanged
from oncelog.broker.coordinator.group.consumer.records import GroupEpoch as ConsumerGroupEpoch
from oncelog.broker.coordinator.group.consumer.records import encode as encode_consumer
from oncelog.broker.coordinator.group.shard import GroupShard
from oncelog.broker.coordinator.group.share.group import ShareGroup
from oncelog.broker.coordinator.group.share.member import CurrentAssignment, MemberMetadata, ShareMember, reconcile
from oncelog.broker.coordinator.group.share.records import (
    Change,
    CurrentChanged,
    GroupChanged,
    GroupEpoch,
    MemberChanged,
    StatesChanged,
    TargetChanged,
    TargetEpoch,
    TargetEpochChanged,
    decode,
    encode,
)
from oncelog.broker.coordinator.group.share.states import NO_STATES, KnownStates, TopicStates
from oncelog.broker.coordinator.group.share.update import tombstones

T, U = UUID(int=7), UUID(int=8)
STATES = KnownStates({T: TopicStates("t", frozenset({2}))}, {T: TopicStates("t", frozenset({0, 1}))}, {U: "u"})
CHANGES: tuple[Change, ...] = (
    GroupChanged(GroupEpoch(5, -(2**63))),
    TargetEpochChanged(TargetEpoch(5, 1_700_000_000_000)),
    MemberChanged("m", MemberMetadata("r", "c", "/h", ("a", "b"))),
    MemberChanged("n", MemberMetadata(None, "c", "/h", ())),
    TargetChanged("m", {T: frozenset({0, 5}), U: frozenset({1})}),
    TargetChanged("m", {}),
    CurrentChanged("m", CurrentAssignment(4, 3, {T: frozenset({0, 5})})),
    StatesChanged(STATES),
    StatesChanged(KnownStates({}, {}, {})),
)
ENDS: tuple[Change, ...] = (
    GroupChanged(None),
    TargetEpochChanged(None),
    MemberChanged("m", None),
    TargetChanged("m", None),
    CurrentChanged("m", None),
    StatesChanged(None),
)


@pytest.mark.parametrize("change", (*CHANGES, *ENDS), ids=lambda change: type(change).__name__)
def test_each_change_of_a_share_group_is_read_as_it_was_written(change: Change) -> None:
    assert decode(encode("g", change)) == ("g", change)


def test_the_bytes_are_those_of_kafka() -> None:
    topic = f"{T.int:032x}"
    cases = (
        (GroupChanged(GroupEpoch(5, 6)), "000b 0001 67", "0000 00000005 0000000000000006 00"),
        (
            MemberChanged("m", MemberMetadata(None, "c", "/h", ("a",))),
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
            CurrentChanged("m", CurrentAssignment(4, 3, {T: frozenset({1})})),
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
        record = encode("g", change)
        assert (record.key.hex(), (record.value or b"").hex()) == (key.replace(" ", ""), value.replace(" ", ""))


def test_a_tombstone_makes_no_share_group() -> None:
    shard = GroupShard(0)
    for change in ENDS:
        shard.replay(encode("g", change), offset=0, producer_id=-1)
    assert shard.group_ids() == []


def test_a_group_ends_with_its_tombstones_and_one_of_another_type_may_follow() -> None:
    shard = GroupShard(0)
    for change in CHANGES:
        shard.replay(encode("g", change), offset=0, producer_id=-1)
    group = shard.modern_group("g")
    assert isinstance(group, ShareGroup)
    for record in tombstones(group):
        shard.replay(record, offset=0, producer_id=-1)
    assert shard.group_ids() == []
    shard.replay(encode_consumer("g", ConsumerGroupChanged(ConsumerGroupEpoch(3, 0))), offset=0, producer_id=-1)
    for change in ENDS:  # compaction may leave them behind
        shard.replay(encode("g", change), offset=0, producer_id=-1)
    assert shard.consumer_group("g") is not None


@given(st.lists(st.sampled_from((*CHANGES, *ENDS)), max_size=30))
def test_a_copy_to_which_the_same_changes_are_applied_is_the_same_group(changes: list[Change]) -> None:
    one = ShareGroup("g")
    other = one.copy()
    for change in changes:
        one.apply(change)
        copied = other.copy()
        copied.apply(change)
        other = copied
    assert vars_of(one) == vars_of(other)
    assert (one.topics, one.state) == (other.topics, other.state)


def vars_of(group: ShareGroup) -> tuple[object, ...]:
    return (
        *(group.epoch, group.metadata_hash, group.assignment_epoch, group.assignment_timestamp_ms),
        *(group.members, group.targets, group.states),
    )


# --- one step of a member ---------------------------------------------------------------------------------------------


def test_a_member_has_at_once_what_its_target_says_of_its_topics() -> None:
    target = {T: frozenset({1}), U: frozenset({2})}
    now = CurrentAssignment(3, 2, {T: frozenset({0})})
    assert reconcile(now, 3, target, (T,), is_forced=False) is now
    assert reconcile(now, 3, target, (T,), is_forced=True) == replace(now, assigned={T: frozenset({1})})
    assert reconcile(now, 4, target, (T,), is_forced=False) == CurrentAssignment(4, 3, {T: frozenset({1})})


def test_a_member_that_was_seen_without_its_description_is_one() -> None:
    group = ShareGroup("g")
    group.apply(CurrentChanged("m", CurrentAssignment(4, 3)))
    assert group.members == {"m": ShareMember("m", current=CurrentAssignment(4, 3))}


# --- which states there are -------------------------------------------------------------------------------------------


def test_states_are_begun_made_and_deleted() -> None:
    begun = NO_STATES.begun({T: TopicStates("t", frozenset({0, 1}))})
    assert begun == KnownStates({T: TopicStates("t", frozenset({0, 1}))}, {}, {})
    made = begun.made({T: {0}})
    assert made == KnownStates({T: TopicStates("t", frozenset({1}))}, {T: TopicStates("t", frozenset({0}))}, {})
    assert made.made({T: {1}}).initialized == {T: TopicStates("t", frozenset({0, 1}))}
    assert made.given_up({T: {1}}) == KnownStates({}, {T: TopicStates("t", frozenset({0}))}, {})
    deleting = made.deleting_topics([T])
    assert deleting == KnownStates(made.initializing, {}, {T: "t"})
    assert deleting.deleted([T]) == KnownStates(made.initializing, {}, {})
    assert deleting.begun({T: TopicStates("t", frozenset({0}))}).deleting == {}
    assert made.deleting_all() == KnownStates({}, {}, {T: "t"})
    assert STATES.without([T, U]) == NO_STATES


def test_what_was_deleted_meanwhile_is_not_made() -> None:
    assert NO_STATES.made({T: {0}}) == NO_STATES
    begun = NO_STATES.begun({T: TopicStates("t", frozenset({0}))})
    assert begun.deleting_all().made({T: {0}}) == KnownStates({}, {}, {T: "t"})
