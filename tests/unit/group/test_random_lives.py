"""Consumer groups through random lives: members come, lag, lose answers, leave, die; topics grow; the broker restarts.

Whatever happens, no partition has two owners and no epoch goes back; once it is quiet, everything is owned and even.
"""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from tests.clients.consumer_group_members import (
    ASSIGNMENT_INTERVAL_MS,
    CONSUMER_SESSION_TIMEOUT_MS,
    Consumer,
    described,
    settle,
)
from tests.clients.group_members import TOPIC, started

STEP_COUNT = 80
MOST_MEMBERS = 6


class Lives:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.broker = started(partition_count=6)
        self.partition_count = 6
        self.members: list[Consumer] = []
        self.made_count = 0
        self.group_epoch = 0
        self.epochs: dict[str, int] = {}

    # --- what may happen ----------------------------------------------------------------------------------------------

    def come(self) -> None:
        if len(self.members) < MOST_MEMBERS:
            self.made_count += 1
            instance_id = f"i{self.made_count}" if self.random.random() < 0.3 else None
            member = Consumer(self.broker, f"m{self.made_count}", instance_id=instance_id)
            member.assignor = self.random.choice((None, "range", "uniform"))
            member.join()
            self.members.append(member)

    def report(self) -> None:
        for member in self._some():
            self._report(member)

    def report_in_vain(self) -> None:
        """The answer does not arrive."""
        for member in self._some():
            if member.epoch:
                member.send()
                member.must_say_all = True

    def leave(self) -> None:
        for member in self._some()[:1]:
            member.leave()
            self.members.remove(member)

    def die(self) -> None:
        """It is not heard of again, and the others live on for a session."""
        for member in self._some()[:1]:
            self.members.remove(member)

    def return_under_another_id(self) -> None:
        for member in [member for member in self._some() if member.instance_id is not None][:1]:
            if member.leave(-2) is ErrorCode.NONE:
                self.made_count += 1
                self.members.remove(member)
                back = Consumer(self.broker, f"m{self.made_count}", instance_id=member.instance_id)
                back.join()
                self.members.append(back)

    def lag(self) -> None:
        self.broker.let_pass(self.random.choice((100, ASSIGNMENT_INTERVAL_MS, CONSUMER_SESSION_TIMEOUT_MS // 3)))

    def grow(self) -> None:
        if self.partition_count < 12:
            self.partition_count += 2
            topic = CreatePartitionsTopic(name=TOPIC, count=self.partition_count, assignments=None)
            answer = self.broker.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=1_000), 3)
            assert answer.results[0].error_code == ErrorCode.NONE

    def restart(self) -> None:
        crashes = self.random.random() < 0.5
        self.broker = self.broker.crashed(self.random.randrange(100)) if crashes else self.broker.killed()
        for member in self.members:
            member.broker = self.broker

    # --- what holds ---------------------------------------------------------------------------------------------------

    def _some(self) -> list[Consumer]:
        return self.random.sample(self.members, self.random.randint(0, len(self.members)))

    def _report(self, member: Consumer) -> None:
        error = member.heartbeat() if member.epoch else member.join()
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND):
            self.epochs.pop(member.member_id, None)
            member.join()
        else:
            # Its own old self may still hold its instance id, until the session is over.
            assert error in (ErrorCode.NONE, ErrorCode.UNRELEASED_INSTANCE_ID)

    def check(self) -> None:
        group = described(self.broker)
        if group.error_code:
            return
        assert group.group_epoch >= self.group_epoch
        assert group.assignment_epoch <= group.group_epoch
        self.group_epoch = group.group_epoch
        given = Counter(
            number
            for member in group.members
            for entry in member.assignment.topic_partitions
            for number in entry.partitions
        )
        assert not given or max(given.values()) == 1
        known = {member.member_id: member.member_epoch for member in group.members}
        believed = Counter(
            number for member in self.members if known.get(member.member_id) for number in member.partitions
        )
        assert not believed or max(believed.values()) == 1
        for member_id, epoch in known.items():
            assert epoch >= self.epochs.get(member_id, 0) or epoch == -2
            self.epochs[member_id] = epoch

    def end(self) -> None:
        """The dead are out, and the rest settles."""
        for _ in range(4):
            for member in self.members:
                self._report(member)
            self.broker.let_pass(CONSUMER_SESSION_TIMEOUT_MS // 3)
        if not self.members:
            return
        settle(self.broker, *self.members)
        owned = [member.partitions for member in self.members]
        assert sorted(number for numbers in owned for number in numbers) == list(range(self.partition_count))
        assert max(map(len, owned)) - min(map(len, owned)) <= 1
        group = described(self.broker)
        assert {member.member_id for member in group.members} == {member.member_id for member in self.members}
        assert all(member.assignment == member.target_assignment for member in group.members)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(15))
def test_no_life_gives_a_partition_to_two_or_loses_one(seed: int) -> None:
    lives = Lives(seed)
    steps: list[Callable[[], None]] = [
        lives.come, lives.report, lives.report, lives.report, lives.report_in_vain, lives.leave, lives.die,
        lives.return_under_another_id, lives.lag, lives.lag, lives.grow, lives.restart,
    ]  # fmt: skip
    for _ in range(STEP_COUNT):
        lives.random.choice(steps)()
        lives.check()
    lives.end()
