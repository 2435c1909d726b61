"""The states of share-partitions are made and deleted step by step, whatever the share coordinator answers."""

import pytest

from oncelog.broker.coordinator.share.values import SharePartitionKey, ShareState
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.delete_groups_request import DeleteGroupsRequest
from oncelog.protocol.generated.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from tests.clients.group_members import GROUP, TOPIC, started
from tests.clients.share_group_members import ASSIGNMENT_INTERVAL_MS, ShareMember, settle, start_offsets
from tests.fakes.broker import VirtualBroker

RETRY_MS = 30_000
UNAVAILABLE = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)


class States:
    """A share coordinator that answers when it is told to."""

    def __init__(self) -> None:
        self.initialized: list[SharePartitionKey] = []
        self.deleted: list[SharePartitionKey] = []
        self.waiting: list[Completion[None]] = []
        self.refused: set[int] = set()
        self.is_slow = False

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> Completion[None]:
        self.initialized.append(key)
        return self._answer(key)

    def delete(self, key: SharePartitionKey) -> Completion[None]:
        self.deleted.append(key)
        return self._answer(key)

    def summary(self, key: SharePartitionKey, leader_epoch: int) -> Completion[ShareState]:
        return Completion.of(ShareState(1, 0, 7, 0, ()))

    def _answer(self, key: SharePartitionKey) -> Completion[None]:
        if key.partition in self.refused:
            return Completion.failed(UNAVAILABLE)
        if not self.is_slow:
            return Completion.of(None)
        self.waiting.append(Completion())
        return self.waiting[-1]

    def answer_all(self) -> None:
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each.complete(None)


def on(broker: VirtualBroker, states: States | None = None) -> States:
    states = states or States()
    broker.broker.groups.shares.lifecycle.states = lambda: states
    return states


def numbers(keys: list[SharePartitionKey]) -> list[int]:
    return [key.partition for key in keys]


def test_a_state_is_made_once_whatever_members_report() -> None:
    broker = started()
    states = on(broker)
    states.is_slow = True
    one, two = ShareMember(broker, "one"), ShareMember(broker, "two")
    one.join()
    two.join()
    broker.let_pass(RETRY_MS - 1)
    one.heartbeat()
    assert (numbers(states.initialized), one.partitions) == ([0, 1, 2, 3], [])
    states.answer_all()
    settle(broker, one, two)
    assert (numbers(states.initialized), sorted(one.partitions + two.partitions)) == ([0, 1, 2, 3], [0, 1, 2, 3])


def test_a_share_coordinator_that_does_not_answer_is_asked_again() -> None:
    broker = started()
    states = on(broker)
    states.is_slow = True
    one = ShareMember(broker)
    one.join()
    broker.let_pass(RETRY_MS)
    one.heartbeat()
    assert numbers(states.initialized) == [0, 1, 2, 3] * 2
    states.answer_all()
    settle(broker, one)
    assert one.partitions == [0, 1, 2, 3]


def test_what_the_share_coordinator_refuses_is_not_assigned_until_it_is_made() -> None:
    broker = started()
    states = on(broker)
    states.refused = {1, 3}
    one = ShareMember(broker)
    one.join()
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    one.heartbeat()
    assert one.partitions == [0, 2]
    states.refused = set()
    one.heartbeat()
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    settle(broker, one)
    assert one.partitions == [0, 1, 2, 3]
    assert numbers(states.initialized).count(0) == 1


def test_a_state_that_was_being_made_at_a_stop_is_made_at_the_next_heartbeat() -> None:
    broker = started()
    on(broker).is_slow = True
    one = ShareMember(broker)
    one.join()
    one.broker = broker = broker.killed()
    states = on(broker)
    one.heartbeat()
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    settle(broker, one)
    assert (numbers(states.initialized), one.partitions) == ([0, 1, 2, 3], [0, 1, 2, 3])


def test_a_group_whose_states_cannot_be_deleted_stays() -> None:
    broker = started()
    states = on(broker)
    one = ShareMember(broker)
    one.join()
    settle(broker, one)
    one.leave()
    states.refused = {2}
    request = DeleteGroupsRequest(groups_names=[GROUP])
    assert broker.ask(request, 2).results[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert start_offsets(broker) == {}
    states.refused = set()
    assert broker.ask(request, 2).results[0].error_code == ErrorCode.NONE
    assert numbers(states.deleted) == [0, 1, 2, 3] * 2
    assert broker.ask(request, 2).results[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_topic_whose_states_cannot_be_deleted_can_be_deleted_again() -> None:
    broker = started()
    states = on(broker)
    one = ShareMember(broker)
    one.join()
    settle(broker, one)
    one.leave()
    states.refused = {2}
    topics = [DeleteShareGroupOffsetsRequestTopic(TOPIC)]
    request = DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=topics)
    (row,) = broker.ask(request, 0).responses
    assert (row.error_code, row.error_message) == (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE.text,
    )
    states.refused = set()
    assert broker.ask(request, 0).responses[0].error_code == ErrorCode.NONE
    assert broker.ask(request, 0).responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("is_slow", [True, False])
def test_a_member_that_joins_during_a_deletion_has_its_states(is_slow: bool) -> None:
    """The states that the member asks for are initialized after the deletion, which does not remove them."""
    broker = started()
    states = on(broker)
    one = ShareMember(broker)
    one.join()
    settle(broker, one)
    one.leave()
    states.is_slow = is_slow
    topics = [DeleteShareGroupOffsetsRequestTopic(TOPIC)]
    deleting = broker.send(DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=topics), 0)
    one.join()
    states.is_slow = False
    states.answer_all()
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    settle(broker, one)
    assert deleting.message.responses[0].error_code == ErrorCode.NONE
    assert one.partitions == [0, 1, 2, 3]
    assert numbers(states.initialized) == [0, 1, 2, 3] * 2
