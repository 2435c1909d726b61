"""What consumer, share and streams groups have in common (KIPs 848, 932, 1071), as members of each type see it.

What only one type has is in `test_consumer_groups`, `test_share_groups` and `test_streams_groups`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from oncelog.protocol.errors import ErrorCode
from tests.clients import consumer_group_members, share_group_members, streams_group_members
from tests.clients.asking import request
from tests.clients.consumer_group_members import ASSIGNMENT_INTERVAL_MS, CONSUMER_SESSION_TIMEOUT_MS, Consumer
from tests.clients.group_members import GROUP, REBALANCE_TIMEOUT_MS, TOPIC, started
from tests.clients.share_group_members import SHARE_SESSION_TIMEOUT_MS, ShareMember
from tests.clients.streams_group_members import STREAMS_SESSION_TIMEOUT_MS, Streams
from tests.fakes.broker import VirtualBroker


class Kind(NamedTuple):
    """A type of group."""

    name: str
    feature: str
    session_timeout_ms: int
    member: Callable[..., Any]
    described: Callable[[VirtualBroker], Any]
    settle: Callable[..., None]
    settings: tuple[str, ...] = ()

    def started(self) -> VirtualBroker:
        return started(*self.settings)

    def two(self, broker: VirtualBroker, **fields: Any) -> tuple[Any, Any]:
        """Two members that have just joined; the first has everything. It has the fields."""
        one, two = self.member(broker, "one", **fields), self.member(broker, "two")
        one.join()
        two.join()
        return one, two

    def pair(self, broker: VirtualBroker) -> tuple[Any, Any]:
        """Two members that share four partitions."""
        one, two = self.two(broker)
        self.settle(broker, one, two)
        return one, two


CONSUMER = Kind(
    "consumer",
    "group.version",
    CONSUMER_SESSION_TIMEOUT_MS,
    Consumer,
    consumer_group_members.described,
    consumer_group_members.settle,
)
SHARE = Kind(
    "share",
    "share.version",
    SHARE_SESSION_TIMEOUT_MS,
    ShareMember,
    share_group_members.described,
    share_group_members.settle,
)
STREAMS = Kind(
    "streams",
    "streams.version",
    STREAMS_SESSION_TIMEOUT_MS,
    Streams,
    streams_group_members.described,
    streams_group_members.settle,
    ("group.streams.initial.rebalance.delay.ms=0",),
)


def _each(*kinds: Kind) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", kinds, ids=[kind.name for kind in kinds])


EVERY = _each(CONSUMER, SHARE, STREAMS)
REVOKING = _each(CONSUMER, STREAMS)
"""Types in which a partition has one owner, which must give it up before another gets it."""
SUBSCRIBED = _each(CONSUMER, SHARE)
"""Types whose members name topics."""


@REVOKING
def test_a_partition_is_given_only_once_its_owner_has_given_it_up(kind: Kind) -> None:
    broker = kind.started()
    one, two = kind.two(broker)
    assert two.partitions == []
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    two.heartbeat()
    assert (two.epoch, two.partitions) == (3, [])
    one.heartbeat()
    assert (one.epoch, one.partitions) == (2, [0, 1])
    two.heartbeat()
    assert two.partitions == []
    one.heartbeat()
    assert one.epoch == 3
    two.heartbeat()
    assert two.partitions == [2, 3]
    assert kind.described(broker).group_state == "Stable"


@REVOKING
def test_a_member_that_does_not_give_up_in_time_is_out(kind: Kind) -> None:
    broker = kind.started()
    one, two = kind.two(broker)
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    two.heartbeat()
    one.heartbeat()
    for _ in range(REBALANCE_TIMEOUT_MS // 10_000):
        assert one.send().error_code == two.send().error_code == ErrorCode.NONE
        broker.let_pass(10_000)
    assert one.send().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    kind.settle(broker, two)
    assert two.partitions == [0, 1, 2, 3]


@EVERY
def test_a_silent_member_is_out_after_its_session(kind: Kind) -> None:
    broker = kind.started()
    one, two = kind.pair(broker)
    broker.let_pass(kind.session_timeout_ms - 1)
    assert two.heartbeat() is ErrorCode.NONE
    broker.let_pass(1)
    assert one.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    kind.settle(broker, two)
    assert two.partitions == [0, 1, 2, 3]


@EVERY
def test_a_member_that_leaves_frees_what_it_had(kind: Kind) -> None:
    broker = kind.started()
    one, two = kind.pair(broker)
    assert one.leave() is ErrorCode.NONE
    assert one.last.member_epoch == -1
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    kind.settle(broker, two)
    assert two.partitions == [0, 1, 2, 3]


@REVOKING
def test_an_answer_that_was_lost_costs_nothing(kind: Kind) -> None:
    broker = kind.started()
    one, two = kind.two(broker)
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    two.heartbeat()
    one.heartbeat()
    before = one.epoch
    one.send(**one.reported())  # the response with epoch 3 is lost
    assert one.last.member_epoch == before + 1
    assert one.heartbeat(**one.reported()) is ErrorCode.NONE
    assert one.epoch == before + 1


@pytest.mark.parametrize("epoch", [1, 9])
@REVOKING
def test_another_epoch_than_the_own_is_fenced(kind: Kind, epoch: int) -> None:
    one, _ = kind.pair(kind.started())
    assert ErrorCode(one.send(member_epoch=epoch).error_code) is ErrorCode.FENCED_MEMBER_EPOCH
    assert one.join() is ErrorCode.NONE
    assert len(one.partitions) == 2


# --- topics -----------------------------------------------------------------------------------------------------------


@EVERY
def test_new_partitions_are_given_out(kind: Kind) -> None:
    broker = kind.started()
    one, two = kind.pair(broker)
    broker.ask(request("CreatePartitions", topics=[(TOPIC, 6, None)], timeout_ms=1_000), 3)
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    kind.settle(broker, one, two)
    assert sorted(one.partitions + two.partitions) == list(range(6))
    assert len(one.partitions) == len(two.partitions) == 3


@SUBSCRIBED
def test_a_topic_that_does_not_exist_yet_is_read_once_it_does(kind: Kind) -> None:
    broker = kind.started()
    one = kind.member(broker, topics=("later",))
    one.join()
    assert (one.epoch, one.partitions) == (2, [])
    broker.ask(request("CreateTopics", topics=[("later", 3, 1)], timeout_ms=1_000), 5)
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    kind.settle(broker, one)
    assert one.partitions == [0, 1, 2]


# --- restarts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", ["killed", "crashed"])
@EVERY
def test_a_restart_leaves_members_epochs_and_partitions_as_they_were(kind: Kind, stop: str) -> None:
    broker = kind.started()
    one, two = kind.pair(broker)
    before = repr(kind.described(broker))
    broker = one.broker = two.broker = broker.killed() if stop == "killed" else broker.crashed(7)
    assert repr(kind.described(broker)) == before
    assert one.heartbeat() is two.heartbeat() is ErrorCode.NONE
    assert repr(kind.described(broker)) == before


@EVERY
def test_a_member_that_did_not_survive_the_restart_is_out_after_a_session(kind: Kind) -> None:
    broker = kind.started()
    one, two = kind.pair(broker)
    one.broker = two.broker = broker = broker.killed()
    broker.let_pass(kind.session_timeout_ms // 2)
    two.heartbeat()
    broker.let_pass(kind.session_timeout_ms // 2)
    kind.settle(broker, two)
    assert two.partitions == [0, 1, 2, 3]
    assert [member.member_id for member in kind.described(broker).members] == ["two"]


@REVOKING
def test_a_revocation_that_was_under_way_has_its_time_again_after_a_restart(kind: Kind) -> None:
    broker = kind.started()
    one, two = kind.two(broker, rebalance_timeout_ms=10_000)
    broker.let_pass(ASSIGNMENT_INTERVAL_MS)
    two.heartbeat()
    one.heartbeat()
    one.broker = two.broker = broker = broker.killed()
    broker.let_pass(9_999)
    assert one.send().error_code == ErrorCode.NONE
    broker.let_pass(1)
    assert one.send().error_code == ErrorCode.UNKNOWN_MEMBER_ID


# --- beside other types -----------------------------------------------------------------------------------------------


@EVERY
def test_a_group_is_listed_with_its_type(kind: Kind) -> None:
    broker = kind.started()
    kind.member(broker).join()
    for types in ([kind.name], [kind.name.capitalize()], []):
        (group,) = broker.ask(request("ListGroups", types_filter=types, states_filter=["stable"]), 5).groups
        assert (group.group_id, group.group_type, group.protocol_type) == (GROUP, kind.name, kind.name)
        assert group.group_state == "Stable"
    assert list(broker.ask(request("ListGroups", types_filter=["classic"]), 5).groups) == []


@EVERY
def test_without_its_feature_a_data_directory_has_no_groups_of_a_type(kind: Kind) -> None:
    broker = kind.started()
    broker.broker.metadata.set_features({kind.feature: 0})
    assert kind.member(broker).join() is ErrorCode.UNSUPPORTED_VERSION
    assert kind.described(broker).error_code == ErrorCode.UNSUPPORTED_VERSION
