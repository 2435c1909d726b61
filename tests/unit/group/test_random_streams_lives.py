"""Streams groups through random lives: members come, lag, lose answers, leave, die; the broker restarts.

Whatever happens, no task is active twice, no process has a task twice, and no epoch goes back; once it is quiet, every
task is somewhere, and members have what they are to have. A broker that was killed knows what it knew.
"""

from collections import Counter
from random import Random
from typing import Any

import pytest

from oncelog.protocol.errors import ErrorCode
from tests.clients.group_members import GROUP, started
from tests.clients.streams_group_members import (
    ASSIGNMENT_INTERVAL_MS,
    COUNTING,
    STREAMS_SESSION_TIMEOUT_MS,
    Streams,
    described,
    ids,
    settle,
)
from tests.fakes.broker import VirtualBroker

STEP_COUNT = 80
MOST_MEMBERS = 6
PARTITION_COUNT = 5


class Lives:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        replicas = self.random.randrange(3)
        delay_ms = self.random.choice((0, 3_000))
        self.replicas = replicas
        self.broker = started(
            f"group.streams.num.standby.replicas={replicas}",
            f"group.streams.initial.rebalance.delay.ms={delay_ms}",
            partition_count=PARTITION_COUNT,
        )
        self.members: list[Streams] = []
        self.made_count = 0
        self.group_epoch = 0
        self.epochs: dict[str, int] = {}

    # --- what may happen ----------------------------------------------------------------------------------------------

    def come(self) -> None:
        if len(self.members) < MOST_MEMBERS:
            self.made_count += 1
            member = Streams(self.broker, f"m{self.made_count}", topology=COUNTING)
            member.process_id = self.random.choice(("p", "q", "r"))
            member.join()
            self.members.append(member)

    def report(self) -> None:
        for member in self._some():
            self._report(member)

    def report_in_vain(self) -> None:
        """The answer does not arrive: the member begins again."""
        for member in self._some():
            if member.epoch:
                member.send()
                member.epoch, member.active, member.standby = 0, {}, {}

    def leave(self) -> None:
        for member in self._some()[:1]:
            member.leave()
            self.members.remove(member)

    def die(self) -> None:
        """It is not heard of again, and the others live on for a session."""
        for member in self._some()[:1]:
            self.members.remove(member)

    def lag(self) -> None:
        self.broker.let_pass(self.random.choice((100, ASSIGNMENT_INTERVAL_MS, STREAMS_SESSION_TIMEOUT_MS // 3)))

    def restart(self) -> None:
        before = _state(self.broker)
        crashes = self.random.random() < 0.5
        self.broker = self.broker.crashed(self.random.randrange(100)) if crashes else self.broker.killed()
        assert _state(self.broker) == before
        for member in self.members:
            member.broker = self.broker

    # --- what holds ---------------------------------------------------------------------------------------------------

    def _some(self) -> list[Streams]:
        return self.random.sample(self.members, self.random.randint(0, len(self.members)))

    def _report(self, member: Streams) -> None:
        error = member.heartbeat()
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND):
            self.epochs.pop(member.member_id, None)
            member.join()
        else:
            assert error is ErrorCode.NONE

    def check(self) -> None:
        group = described(self.broker)
        if group.error_code:
            return
        assert group.group_epoch >= self.group_epoch
        assert group.assignment_epoch <= group.group_epoch
        self.group_epoch = group.group_epoch
        active: Counter[tuple[str, int]] = Counter()
        inside: Counter[tuple[str, str, int]] = Counter()
        for member in group.members:
            given = member.assignment
            for name, partitions in ids(given.active_tasks).items():
                active.update((name, number) for number in partitions)
            for tasks in (given.active_tasks, given.standby_tasks):
                for name, partitions in ids(tasks).items():
                    inside.update((member.process_id, name, number) for number in partitions)
        assert not active or max(active.values()) == 1
        assert not inside or max(inside.values()) == 1
        known = {member.member_id: member.member_epoch for member in group.members}
        believed = Counter(
            (name, number)
            for member in self.members
            if member.epoch and known.get(member.member_id)
            for name, partitions in member.active.items()
            for number in partitions
        )
        assert not believed or max(believed.values()) == 1
        for member_id, epoch in known.items():
            assert epoch >= self.epochs.get(member_id, 0)
            self.epochs[member_id] = epoch

    def end(self) -> None:
        """The dead are out, and the rest settles."""
        for _ in range(4):
            for member in self.members:
                self._report(member)
            self.broker.let_pass(STREAMS_SESSION_TIMEOUT_MS // 3)
        if not self.members:
            return
        settle(self.broker, *self.members)
        group = described(self.broker)
        assert {member.member_id for member in group.members} == {member.member_id for member in self.members}
        assert all(member.assignment == member.target_assignment for member in group.members)
        for name in ("0", "1"):
            given = sorted(number for member in self.members for number in member.active.get(name, ()))
            assert given == list(range(PARTITION_COUNT))
        fitting = min(self.replicas, len({member.process_id for member in self.members}) - 1)
        kept = Counter(number for member in self.members for number in member.standby.get("1", ()))
        assert kept == Counter(dict.fromkeys(range(PARTITION_COUNT), fitting) if fitting else {})


def _state(broker: VirtualBroker) -> dict[str, Any] | None:
    """Everything that the group is."""
    read = broker.broker.groups.streams.describe(GROUP)
    broker.time.settle()
    return None if read.error is not None else vars(read.result().group)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(15))
def test_no_life_gives_a_task_to_two_or_loses_one(seed: int) -> None:
    lives = Lives(seed)
    actions = [lives.come, *[lives.report] * 4, lives.report_in_vain, lives.leave, lives.die, *[lives.lag] * 2]
    actions.append(lives.restart)
    lives.come()
    for _ in range(STEP_COUNT):
        lives.random.choice(actions)()
        lives.check()
    lives.end()
