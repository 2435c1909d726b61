"""The coordinators' own topics, compacted while groups and transactional ids come, work, expire and come again.

What a start reads from the compacted logs is what the broker knew; what has expired stays gone.
"""

from random import Random

import pytest

from oncelog.protocol.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.clients.group_members import commit
from tests.clients.producer import TOPIC, Producer, broker_with_topic
from tests.fakes.broker import VirtualBroker
from tests.simulation import broker_tables
from tests.simulation.broker_tables import WatchedTable

GROUPS = 4
PRODUCERS = 4
STEPS = 120
PARTITIONS = [(topic, 0) for topic in ("__consumer_offsets", "__transaction_state")]
SETTINGS = (
    *broker_tables.SETTINGS,
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "offsets.retention.minutes=1",
    "offsets.retention.check.interval.ms=5000",
    "transactional.id.expiration.ms=60000",
    "transaction.remove.expired.transaction.cleanup.interval.ms=5000",
)


class Life:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._broker = broker_with_topic(*SETTINGS)
        self._tables = [WatchedTable(partition) for partition in PARTITIONS]
        self._producers = [Producer(self._broker, f"producer-{number}") for number in range(PRODUCERS)]
        self.looks = self.forgotten = 0

    def run(self) -> None:
        for _ in range(STEPS):
            step = self._random.choice([self._commit, self._commit, self._transact, self._transact, self._idle])
            step()
            self._pass(self._random.choice([20, 150, 150, 700]))
            if self._random.random() < 0.05:
                self._stop()
        self.looks = sum(table.looks for table in self._tables)

    def _commit(self) -> None:
        group_id = f"group-{self._random.randrange(GROUPS)}"
        assert not commit(self._broker, self._random.randrange(1_000), self._random.randrange(2), group_id=group_id)

    def _transact(self) -> None:
        producer = self._random.choice(self._producers)
        producer.broker = self._broker
        if producer.producer_id < 0 or producer.produce(version=12):
            producer.init(version=5)  # new, or forgotten
            assert not producer.produce(version=12)
        for _ in range(self._random.randrange(3)):
            data = TxnOffsetCommitRequestPartition(
                partition_index=self._random.randrange(2), committed_offset=self._random.randrange(1_000)
            )
            request = TxnOffsetCommitRequest(
                group_id=f"group-{self._random.randrange(GROUPS)}",
                topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[data])],
                **producer.identity,
            )
            assert not self._broker.ask(request, 5).topics[0].partitions[0].error_code
        assert not producer.end(self._random.random() < 0.6, version=5)

    def _idle(self) -> None:
        """Long enough for what is idle to expire, some of the times."""
        for _ in range(self._random.choice([0, 0, 0, 14])):
            self._pass(5_000)

    def _pass(self, delay_ms: int) -> None:
        broker, before = self._broker.broker, known(self._broker)
        self._look()
        self._broker.let_pass(delay_ms)
        self._look()  # at each round by itself
        for part in (broker.logs, broker.transactions, broker.groups):
            part.step()
        self._broker.time.settle()
        self.forgotten += len(before) > len(known(self._broker))
        self._look()

    def _stop(self) -> None:
        before, kind = known(self._broker), self._random.choice(["kill", "crash"])
        cleaner = self._broker.broker.logs.store.cleaner
        stopped = self._broker
        self._broker = stopped.killed() if kind == "kill" else stopped.crashed(self._random.randrange(2**30))
        if cleaner is not None:
            cleaner.stop()
        for table in self._tables:
            table.on_restart()
        assert known(self._broker) == before, "a start knows what the broker knew"
        self._look()

    def _look(self) -> None:
        for table in self._tables:
            table.look(self._broker, self._random)


def known(virtual: VirtualBroker) -> list[str]:
    """Every transactional id and every committed offset."""
    broker = virtual.broker
    ids = (status.metadata for status in broker.transactions.current())
    lines = [f"{each.transactional_id} {each.producer_id} {each.producer_epoch} {each.state.name}" for each in ids]
    for life in broker.groups._runtime.shards():
        for number in range(GROUPS):
            found = life.shard.offsets(f"group-{number}")
            lines += [f"group-{number} {partition} {each.offset}" for partition, each in found.items()]
    return sorted(lines)


@pytest.mark.slow
def test_what_the_coordinators_know_survives_the_compaction_of_their_topics() -> None:
    looks = forgotten = 0
    for seed in range(8):
        life = Life(seed)
        life.run()
        looks, forgotten = looks + life.looks, forgotten + life.forgotten
    # Lives in which nothing is compacted or expires would prove nothing.
    assert looks > 200 and forgotten > 10


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_what_expired_leaves_nothing_in_the_compacted_topic_but_the_end(topic: str) -> None:
    """The tombstones go too, in time: the topic of a broker that came to rest is as good as empty."""
    broker = broker_with_topic(*SETTINGS)
    for number in range(40):
        assert not commit(broker, number, group_id=f"group-{number % GROUPS}")
        producer = Producer(broker, f"producer-{number % PRODUCERS}").init(version=5)
        assert not producer.produce(version=12) and not producer.end(version=5)
        broker.let_pass(200)
    assert len(known(broker)) == GROUPS + PRODUCERS
    for _ in range(60):
        broker.let_pass(5_000)
        for part in (broker.broker.logs, broker.broker.transactions, broker.broker.groups):
            part.step()
        broker.time.settle()
    assert known(broker) == known(broker.killed()) == []
    assert broker.broker.topics.partition(topic, 0).size_bytes < 2_500
