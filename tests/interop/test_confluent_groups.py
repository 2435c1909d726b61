"""confluent-kafka in groups, unmodified, against the daemon: every assignor of the classic protocol, and
`group.protocol=consumer` (KIP-848)."""

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from tests.support.foreign.confluent import new_topic
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

PARTITIONS = 6
POLLS = 600
QUICK = (
    "group.min.session.timeout.ms=1000",
    "group.consumer.min.session.timeout.ms=1000",
    "group.consumer.session.timeout.ms=2000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=200",
)
Start = Callable[..., Daemon]
CONSUMER = "consumer"
KINDS = (CONSUMER, "range", "roundrobin", "cooperative-sticky")
"""The new protocol, or an assignor of the classic one."""


def about_protocol(kind: str) -> dict[str, str | int]:
    if kind == CONSUMER:
        return {"group.protocol": CONSUMER}
    quick: dict[str, str | int] = {"session.timeout.ms": 2000, "heartbeat.interval.ms": 200}
    return {"group.protocol": "classic", "partition.assignment.strategy": kind, **quick}


class Group:
    """Members of one group, polled in turn until something holds."""

    def __init__(self, daemon: Daemon, topics: Sequence[str], kind: str = CONSUMER) -> None:
        self._daemon = daemon
        self._kind = kind
        self._topics = list(topics)
        self.group_id = f"group-{uuid.uuid4().hex[:8]}"
        self.members: list[Consumer] = []
        self.values: list[bytes] = []
        self.given_up: list[int] = []
        """The number of partitions that a member gave up at once, each time that one had to."""

    def join(self) -> Consumer:
        member = Consumer(
            {
                "bootstrap.servers": self._daemon.bootstrap,
                "group.id": self.group_id,
                **about_protocol(self._kind),
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "reconnect.backoff.max.ms": 200,
            }
        )
        member.subscribe(self._topics, on_revoke=lambda _, partitions: self.given_up.append(len(partitions)))
        self.members.append(member)
        return member

    def leave(self, member: Consumer) -> None:
        self.members.remove(member)
        member.close()

    def owned(self) -> list[list[int]]:
        return sorted(sorted(part.partition for part in member.assignment()) for member in self.members)

    def poll_until(self, holds: Callable[[], bool]) -> None:
        for _ in range(POLLS):
            if holds():
                return
            for member in self.members:
                message = member.poll(0.05)
                if message is not None and message.error() is None:
                    self.values.append(message.value() or b"")
        raise AssertionError(f"not reached: {self.owned()}, {len(self.values)} records")

    def await_sizes(self, *sizes: int) -> None:
        """Poll until the members own this many partitions, each one owned once."""

        def holds() -> bool:
            owned = self.owned()
            every = sorted(partition for partitions in owned for partition in partitions)
            return sorted(map(len, owned)) == sorted(sizes) and every == list(range(PARTITIONS))

        self.poll_until(holds)

    def close(self) -> None:
        for member in self.members:
            member.close()


def produce(daemon: Daemon, topic: str, count: int, prefix: str) -> set[bytes]:
    producer = Producer({"bootstrap.servers": daemon.bootstrap})
    values = {f"{prefix}-{number}".encode() for number in range(count)}
    for number, value in enumerate(sorted(values)):
        producer.produce(topic, value, partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0
    return values


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS)
def test_members_come_and_go_and_every_partition_is_read(start_daemon: Start, kind: str) -> None:
    daemon = start_daemon(*QUICK)
    topic = new_topic(daemon, partitions=PARTITIONS)
    group = Group(daemon, [topic], kind)
    first = group.join()
    group.await_sizes(6)
    group.join()
    group.await_sizes(3, 3)
    group.join()
    group.await_sizes(2, 2, 2)
    values = produce(daemon, topic, 60, "a")
    group.poll_until(lambda: set(group.values) == values)
    group.leave(first)
    group.await_sizes(3, 3)
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
    listed = admin.list_consumer_groups().result(PATIENCE_S)
    assert [each.group_id for each in listed.valid] == [group.group_id]
    group.close()


@pytest.mark.parametrize(("kind", "most"), [(CONSUMER, 3), ("range", 6), ("cooperative-sticky", 3)])
def test_who_keeps_a_partition_reads_on_unless_the_assignor_is_eager(start_daemon: Start, kind: str, most: int) -> None:
    daemon = start_daemon(*QUICK)
    topic = new_topic(daemon, partitions=PARTITIONS)
    group = Group(daemon, [topic], kind)
    group.join()
    group.await_sizes(6)
    group.join()
    group.await_sizes(3, 3)
    assert group.given_up == [most]
    group.close()


MEMBER = """
import json, sys
from confluent_kafka import Consumer
settings, topic = json.loads(sys.argv[1]), sys.argv[2]
member = Consumer(settings)
member.subscribe([topic])
while True:
    member.poll(0.1)
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_the_partitions_of_a_member_that_dies_go_to_the_others_after_its_session(
    start_daemon: Start, kind: str
) -> None:
    daemon = start_daemon(*QUICK)
    topic = new_topic(daemon, partitions=PARTITIONS)
    group = Group(daemon, [topic], kind)
    group.join()
    group.await_sizes(6)
    settings = {"bootstrap.servers": daemon.bootstrap, "group.id": group.group_id, **about_protocol(kind)}
    other = subprocess.Popen([sys.executable, "-c", MEMBER, json.dumps(settings), topic])
    try:
        group.poll_until(lambda: len(group.owned()[0]) == 3)
    finally:
        other.kill()
        other.wait(10)
    group.await_sizes(6)
    group.close()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_group_continues_after_the_broker_was_killed(start_daemon: Start, kind: str) -> None:
    daemon = start_daemon(*QUICK)
    topic = new_topic(daemon, partitions=PARTITIONS)
    group = Group(daemon, [topic], kind)
    group.join()
    group.join()
    group.await_sizes(3, 3)
    before = produce(daemon, topic, 30, "before")
    group.poll_until(lambda: set(group.values) == before)
    for member in group.members:
        member.commit(asynchronous=False)
    daemon.kill()
    daemon.start()
    after = produce(daemon, topic, 30, "after")
    group.poll_until(lambda: set(group.values) >= before | after)
    group.await_sizes(3, 3)
    assert len(group.values) == len(before | after), "nothing is read twice by those who stayed"
    group.close()


@pytest.mark.parametrize("pattern", ["^re-[0-9a-f]+-[ab]$"])
def test_a_pattern_finds_topics_that_come_later(start_daemon: Start, pattern: str) -> None:
    daemon = start_daemon(*QUICK, "auto.create.topics.enable=true")
    name = f"re-{uuid.uuid4().hex[:8]}"
    group = Group(daemon, [pattern])
    group.join()
    producer = Producer({"bootstrap.servers": daemon.bootstrap})
    for suffix in "ab":
        producer.produce(f"{name}-{suffix}", suffix.encode())
        assert producer.flush(PATIENCE_S) == 0
        group.poll_until(lambda: suffix.encode() in group.values)  # noqa: B023 - used at once
    group.close()
