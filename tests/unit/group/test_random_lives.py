"""Groups through random lives: members come, lag, lose responses, leave, die; topics grow; the broker restarts.

Whatever happens, no epoch goes back, and nothing has two owners where it may have one; a broker that restarts knows
what it knew; once it is quiet, everything is owned, and members have what they are to have.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, ClassVar

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from tests.clients import consumer_group_members as consumer
from tests.clients import share_group_members as share
from tests.clients import streams_group_members as streams
from tests.clients.group_members import GROUP, TOPIC, started
from tests.fakes.broker import VirtualBroker

FENCED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)


class Consumers:
    """Consumer groups: a partition has one owner at most, and parts are even."""

    members: ClassVar[Any] = consumer
    session_timeout_ms = consumer.CONSUMER_SESSION_TIMEOUT_MS
    first_partitions, most_partitions = 6, 12
    step_count, most_members = 80, 6
    steps: ClassVar[Sequence[tuple[str, int]]] = (
        *(("come", 1), ("report", 3), ("report_in_vain", 1), ("leave", 1), ("die", 1)),
        *(("return_under_another_id", 1), ("lag", 2), ("grow", 1), ("restart", 1)),
    )

    def __init__(self, random: Random) -> None:
        self.settings: tuple[str, ...] = ()

    def member(self, random: Random, broker: VirtualBroker, member_id: str) -> Any:
        instance_id = f"i{member_id}" if random.random() < 0.3 else None
        member = consumer.Consumer(broker, member_id, instance_id=instance_id)
        member.assignor = random.choice((None, "range", "uniform"))
        return member

    def lose(self, member: Any) -> None:
        if member.epoch:
            member.send()
            member.must_say_all = True

    def coordinator(self, broker: VirtualBroker) -> Any:
        return broker.broker.groups.consumers

    def check(self, members: Sequence[Any], group: Any) -> None:
        entries = [(member, entry) for member in group.members for entry in member.assignment.topic_partitions]
        _check_once(number for _, entry in entries for number in entry.partitions)
        known = {member.member_id: member.member_epoch for member in group.members}
        _check_once(number for member in members if known.get(member.member_id) for number in member.partitions)

    def check_end(self, members: Sequence[Any], partition_count: int) -> None:
        owned = [member.partitions for member in members]
        assert sorted(number for numbers in owned for number in numbers) == list(range(partition_count))
        assert max(map(len, owned)) - min(map(len, owned)) <= 1


class Shares:
    """Share groups: every partition is read, and parts are even."""

    members: ClassVar[Any] = share
    session_timeout_ms = share.SHARE_SESSION_TIMEOUT_MS
    first_partitions, most_partitions = 3, 9
    step_count, most_members = 60, 8
    steps: ClassVar[Sequence[tuple[str, int]]] = (
        *(("come", 4), ("report", 8), ("report_in_vain", 2), ("leave", 1), ("die", 1)),
        *(("lag", 6), ("grow", 1), ("restart", 1)),
    )

    def __init__(self, random: Random) -> None:
        self.settings: tuple[str, ...] = ()

    def member(self, random: Random, broker: VirtualBroker, member_id: str) -> Any:
        return share.ShareMember(broker, member_id)

    def lose(self, member: Any) -> None:
        member.send()

    def coordinator(self, broker: VirtualBroker) -> Any:
        return broker.broker.groups.shares

    def check(self, members: Sequence[Any], group: Any) -> None:
        pass

    def check_end(self, members: Sequence[Any], partition_count: int) -> None:
        for member in members:
            member.join()  # a response that was lost had an assignment
        share.settle(members[0].broker, *members)
        sizes = [len(member.partitions) for member in members]
        assert max(sizes) - min(sizes) <= 1
        assert {number for member in members for number in member.partitions} == set(range(partition_count))


class Tasks:
    """Streams groups: no task is active twice, no process has a task twice, standby tasks are where they fit."""

    members: ClassVar[Any] = streams
    session_timeout_ms = streams.STREAMS_SESSION_TIMEOUT_MS
    first_partitions = most_partitions = 5
    step_count, most_members = 80, 6
    steps: ClassVar[Sequence[tuple[str, int]]] = (
        *(("come", 1), ("report", 4), ("report_in_vain", 1), ("leave", 1), ("die", 1)),
        *(("lag", 2), ("restart", 1)),
    )

    def __init__(self, random: Random) -> None:
        self.replicas = random.randrange(3)
        self.settings = (
            f"group.streams.num.standby.replicas={self.replicas}",
            f"group.streams.initial.rebalance.delay.ms={random.choice((0, 3_000))}",
        )

    def member(self, random: Random, broker: VirtualBroker, member_id: str) -> Any:
        member = streams.Streams(broker, member_id, topology=streams.COUNTING)
        member.process_id = random.choice(("p", "q", "r"))
        return member

    def lose(self, member: Any) -> None:
        """The member begins again."""
        if member.epoch:
            member.send()
            member.epoch, member.active, member.standby = 0, {}, {}

    def coordinator(self, broker: VirtualBroker) -> Any:
        return broker.broker.groups.streams

    def check(self, members: Sequence[Any], group: Any) -> None:
        active: list[tuple[str, int]] = []
        inside: list[tuple[str, str, int]] = []
        for member in group.members:
            given = member.assignment
            active += _each(streams.ids(given.active_tasks))
            for tasks in (given.active_tasks, given.standby_tasks):
                inside += [(member.process_id, *task) for task in _each(streams.ids(tasks))]
        _check_once(active)
        _check_once(inside)
        known = {member.member_id: member.member_epoch for member in group.members}
        believers = [member for member in members if member.epoch and known.get(member.member_id)]
        _check_once(task for member in believers for task in _each(member.active))

    def check_end(self, members: Sequence[Any], partition_count: int) -> None:
        for name in ("0", "1"):
            given = sorted(number for member in members for number in member.active.get(name, ()))
            assert given == list(range(partition_count))
        fitting = min(self.replicas, len({member.process_id for member in members}) - 1)
        kept = Counter(number for member in members for number in member.standby.get("1", ()))
        assert kept == Counter(dict.fromkeys(range(partition_count), fitting) if fitting else {})


class Lives:
    def __init__(self, seed: int, make_type: Callable[[Random], Any]) -> None:
        self.random = Random(seed)
        self.type = make_type(self.random)
        self.partition_count = self.type.first_partitions
        self.broker = started(*self.type.settings, partition_count=self.partition_count)
        self.members: list[Any] = []
        self.made_count = 0
        self.group_epoch = 0
        self.epochs: dict[str, int] = {}

    # --- what may happen ----------------------------------------------------------------------------------------------

    def come(self) -> None:
        if len(self.members) < self.type.most_members:
            self.made_count += 1
            member = self.type.member(self.random, self.broker, f"m{self.made_count}")
            member.join()
            self.members.append(member)

    def report(self) -> None:
        for member in self._some():
            self._report(member)

    def report_in_vain(self) -> None:
        """The response does not arrive."""
        for member in self._some():
            self.type.lose(member)

    def leave(self) -> None:
        for member in self._some()[:1]:
            member.leave()
            self.members.remove(member)

    def die(self) -> None:
        """It is silent from here, and the others live on for a session."""
        for member in self._some()[:1]:
            self.members.remove(member)

    def return_under_another_id(self) -> None:
        for member in [member for member in self._some() if member.instance_id is not None][:1]:
            if member.leave(-2) is ErrorCode.NONE:
                self.made_count += 1
                self.members.remove(member)
                back = consumer.Consumer(self.broker, f"m{self.made_count}", instance_id=member.instance_id)
                back.join()
                self.members.append(back)

    def lag(self) -> None:
        interval_ms, session_ms = self.type.members.ASSIGNMENT_INTERVAL_MS, self.type.session_timeout_ms
        self.broker.let_pass(self.random.choice((100, interval_ms, session_ms // 3)))

    def grow(self) -> None:
        if self.partition_count < self.type.most_partitions:
            self.partition_count += 2
            topic = CreatePartitionsTopic(name=TOPIC, count=self.partition_count, assignments=None)
            response = self.broker.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=1_000), 3)
            assert response.results[0].error_code == ErrorCode.NONE

    def restart(self) -> None:
        before = self._state()
        crashes = self.random.random() < 0.5
        self.broker = self.broker.crashed(self.random.randrange(100)) if crashes else self.broker.killed()
        assert self._state() == before
        for member in self.members:
            member.broker = self.broker

    # --- what holds ---------------------------------------------------------------------------------------------------

    def _some(self) -> list[Any]:
        return self.random.sample(self.members, self.random.randint(0, len(self.members)))

    def _state(self) -> dict[str, Any] | None:
        """Everything that the group is: a live one has it from its changes, one that was replayed from their bytes."""
        read = self.type.coordinator(self.broker).describe(GROUP)
        self.broker.time.settle()
        if read.error is not None:
            return None
        group = read.result()
        return vars(getattr(group, "group", group))

    def _report(self, member: Any) -> None:
        error = member.heartbeat() if member.epoch or self.type.members is not consumer else member.join()
        if error in FENCED:
            self.epochs.pop(member.member_id, None)
            member.join()
        else:
            # Its own old self may still hold its instance id, until the session is over.
            assert error in (ErrorCode.NONE, ErrorCode.UNRELEASED_INSTANCE_ID)

    def check(self) -> None:
        group = self.type.members.described(self.broker)
        if group.error_code:
            return
        assert group.group_epoch >= self.group_epoch
        assert group.assignment_epoch <= group.group_epoch
        self.group_epoch = group.group_epoch
        self.type.check(self.members, group)
        for member in group.members:
            assert member.member_epoch >= self.epochs.get(member.member_id, 0) or member.member_epoch == -2
            self.epochs[member.member_id] = member.member_epoch

    def end(self) -> None:
        """The dead are out, and the rest settles."""
        for _ in range(4):
            for member in self.members:
                self._report(member)
            self.broker.let_pass(self.type.session_timeout_ms // 3)
        if not self.members:
            return
        self.type.members.settle(self.broker, *self.members)
        self.type.check_end(self.members, self.partition_count)
        group = self.type.members.described(self.broker)
        assert {member.member_id for member in group.members} == {member.member_id for member in self.members}
        if self.type.members is not share:  # whose description has no target
            assert all(member.assignment == member.target_assignment for member in group.members)


def _each(tasks: Any) -> list[tuple[str, int]]:
    return [(name, number) for name, partitions in tasks.items() for number in partitions]


def _check_once(owned: Any) -> None:
    counts = Counter(owned)
    assert not counts or max(counts.values()) == 1


@pytest.mark.sampled(4)
@pytest.mark.parametrize("make_type", [Consumers, Shares, Tasks], ids=["consumer", "share", "streams"])
@pytest.mark.parametrize("seed", range(15))
def test_no_life_gives_a_part_to_two_or_loses_one(seed: int, make_type: Callable[[Random], Any]) -> None:
    lives = Lives(seed, make_type)
    names, weights = zip(*lives.type.steps, strict=True)
    lives.come()
    for _ in range(lives.type.step_count):
        getattr(lives, *lives.random.choices(names, weights))()
        lives.check()
    lives.end()
