"""Values of share groups: one step of a member, and which states of share-partitions there are (KIP-932)."""

from dataclasses import replace
from uuid import UUID

from oncelog.broker.coordinator.group.share.member import CurrentAssignment, reconcile
from oncelog.broker.coordinator.group.share.states import NO_STATES, KnownStates, TopicStates

T, U = UUID(int=7), UUID(int=8)
STATES = KnownStates({T: TopicStates("t", frozenset({2}))}, {T: TopicStates("t", frozenset({0, 1}))}, {U: "u"})

# --- one step of a member ---------------------------------------------------------------------------------------------


def test_a_member_has_at_once_what_its_target_says_of_its_topics() -> None:
    target = {T: frozenset({1}), U: frozenset({2})}
    now = CurrentAssignment(3, 2, {T: frozenset({0})})
    assert reconcile(now, 3, target, (T,), is_forced=False) is now
    assert reconcile(now, 3, target, (T,), is_forced=True) == replace(now, assigned={T: frozenset({1})})
    assert reconcile(now, 4, target, (T,), is_forced=False) == CurrentAssignment(4, 3, {T: frozenset({1})})


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
