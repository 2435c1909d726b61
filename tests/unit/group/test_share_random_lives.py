"""Share groups through random lives: members come, lag, lose responses, leave, die; topics grow; the broker restarts.

Whatever happens, no epoch goes back; once it is quiet, every partition is read, and members have even parts.
"""

from collections.abc import Callable
from random import Random

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from tests.clients.group_members import TOPIC, started
from tests.clients.share_group_members import (
    ASSIGNMENT_INTERVAL_MS,
    SHARE_SESSION_TIMEOUT_MS,
    ShareMember,
    described,
    settle,
)

STEP_COUNT = 60
MOST_MEMBERS = 8


class Lives:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.broker = started(partition_count=3)
        self.partition_count = 3
        self.members: list[ShareMember] = []
        self.made_count = 0
        self.group_epoch = 0

    def come(self) -> None:
        if len(self.members) < MOST_MEMBERS:
            self.made_count += 1
            member = ShareMember(self.broker, f"m{self.made_count}")
            assert member.join() is ErrorCode.NONE
            self.members.append(member)

    def report(self) -> None:
        for member in self._some():
            self._report(member)

    def report_in_vain(self) -> None:
        """The response does not arrive."""
        for member in self._some():
            member.send()

    def leave(self) -> None:
        for member in self._some()[:1]:
            member.leave()
            self.members.remove(member)

    def die(self) -> None:
        for member in self._some()[:1]:
            self.members.remove(member)

    def lag(self) -> None:
        self.broker.let_pass(self.random.choice((100, ASSIGNMENT_INTERVAL_MS, SHARE_SESSION_TIMEOUT_MS // 3)))

    def grow(self) -> None:
        if self.partition_count < 9:
            self.partition_count += 2
            topic = CreatePartitionsTopic(name=TOPIC, count=self.partition_count, assignments=None)
            self.broker.ask(CreatePartitionsRequest(topics=[topic], timeout_ms=1_000), 3)

    def restart(self) -> None:
        crashes = self.random.random() < 0.5
        self.broker = self.broker.crashed(self.random.randrange(100)) if crashes else self.broker.killed()
        for member in self.members:
            member.broker = self.broker

    def _some(self) -> list[ShareMember]:
        return self.random.sample(self.members, self.random.randint(0, len(self.members)))

    def _report(self, member: ShareMember) -> None:
        error = member.heartbeat()
        if error is not ErrorCode.NONE:
            assert error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
            assert member.join() is ErrorCode.NONE

    def check(self) -> None:
        group = described(self.broker)
        if not group.error_code:
            assert group.assignment_epoch <= group.group_epoch
            assert group.group_epoch >= self.group_epoch
            self.group_epoch = group.group_epoch

    def calm_down(self) -> None:
        if not self.members:
            self.come()
        for _ in range(6):  # those that died are out after a session
            self.broker.let_pass(SHARE_SESSION_TIMEOUT_MS // 3)
            for member in self.members:
                self._report(member)
        settle(self.broker, *self.members)
        for member in self.members:
            member.join()  # a response that was lost had an assignment
        settle(self.broker, *self.members)
        sizes = [len(member.partitions) for member in self.members]
        assert max(sizes) - min(sizes) <= 1
        read = {number for member in self.members for number in member.partitions}
        assert read == set(range(self.partition_count))


@pytest.mark.parametrize("seed", range(6))
def test_every_partition_is_read_in_the_end(seed: int) -> None:
    lives = Lives(seed)
    steps: list[tuple[Callable[[], None], int]] = [
        (lives.come, 4),
        (lives.report, 8),
        (lives.report_in_vain, 2),
        (lives.leave, 1),
        (lives.die, 1),
        (lives.lag, 6),
        (lives.grow, 1),
        (lives.restart, 1),
    ]
    for _ in range(STEP_COUNT):
        (step,) = lives.random.choices([each for each, _ in steps], [weight for _, weight in steps])
        step()
        lives.check()
    lives.calm_down()
