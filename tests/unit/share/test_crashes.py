"""The machine stops at every operation of its disk in the life of a share-partition: what was answered holds."""

from itertools import count

import pytest

from oncelog.broker.coordinator.share.values import SharePartitionKey, ShareState, StateBatch
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.testing.memory_disk import PowerCut
from tests.fakes.broker import VirtualBroker
from tests.fakes.tables_broker import TablesBroker

SETTINGS = (
    "share.coordinator.state.topic.num.partitions=1",
    "share.coordinator.state.topic.segment.bytes=400",
    "share.coordinator.snapshot.update.records.per.snapshot=2",
    "share.coordinator.cold.partition.snapshot.interval.ms=10",
    "share.coordinator.state.topic.prune.interval.ms=10",
)
WRITES = 6
CHANCES = 2
PARTS = 4


def batches_after(writes: int) -> tuple[StateBatch, ...]:
    return (StateBatch(writes - 1, writes + 4, 2, 1),) if writes else ()


def wait_for(broker: VirtualBroker, asked: list[Completion[None]]) -> None:
    broker.time.settle()
    while not all(each.done for each in asked):
        assert not broker.has_ended
        broker.time.advance(1)
    assert all(each.error is None for each in asked)


class Consumer:
    """Moves the start of two share-partitions on, one write after the other, and notes what was answered."""

    def __init__(self) -> None:
        self.keys: list[SharePartitionKey] = []
        self.answered = -1
        """The number of writes that were answered; −1 before the share-partitions have begun."""

    def run(self, broker: VirtualBroker) -> None:
        topics = [CreatableTopic(name="topic", num_partitions=2, replication_factor=1)]
        topic_id = broker.ask(CreateTopicsRequest(topics=topics), 7).topics[0].topic_id
        self.keys = [SharePartitionKey("group", topic_id, partition) for partition in (0, 1)]
        coordinator = broker.broker.share_coordinator
        wait_for(broker, [coordinator.initialize(key, 1, 0) for key in self.keys])
        self.answered = 0
        for number in range(WRITES):
            batch = StateBatch(number, number + 5, 2, 1)
            broker.time.advance(10)
            written = [coordinator.write(key, 1, 0, number, 0, [batch]) for key in self.keys]
            coordinator.step()  # prunes in the turn in which what makes records redundant is logged
            wait_for(broker, written)
            self.answered = number + 1


def check(broker: VirtualBroker, consumer: Consumer) -> None:
    """Require that all answered writes are there; of an unanswered one all or nothing is."""
    broker.time.advance(100)
    coordinator = broker.broker.share_coordinator
    found = {key: share.state for shard in coordinator.shards() for key, share in shard.all()}
    for key in consumer.keys if consumer.answered >= 0 else ():
        possible = {consumer.answered, min(consumer.answered + 1, WRITES)}
        starts = [max(0, number - 1) for number in possible]
        assert found[key] in [
            ShareState(1, 0, start, 0, batches_after(number)) for number, start in zip(possible, starts, strict=True)
        ]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("how", ["power", "kill", "tables"])
def test_what_the_share_coordinator_has_answered_outlives_every_stop(how: str, part: int) -> None:
    for operation in count(part, PARTS):
        broker = (TablesBroker if how == "tables" else VirtualBroker)(*SETTINGS, seed=operation)
        broker.operations_left = operation
        consumer = Consumer()
        try:
            consumer.run(broker)
        except (PowerCut, AssertionError):
            if not broker.has_ended:
                raise
        is_cut = broker.has_ended
        broker.operations_left = None
        draws = [broker.killed()] if how == "kill" else [broker.crashed(operation * 10 + n) for n in range(CHANCES)]
        for survivor in draws:
            check(survivor, consumer)
        check(draws[0].killed(), consumer)
        if not is_cut:
            log = broker.broker.topics.partition("__share_group_state", 0)
            assert consumer.answered == WRITES
            assert log.log_start_offset > 0, "nothing was pruned"
            assert operation > WRITES
            return
