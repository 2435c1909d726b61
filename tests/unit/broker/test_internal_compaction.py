"""The coordinators' own topics stay small, and a restart reads from them what it read before they were compacted."""

from tests.clients.group_members import GROUP, commit, fetch
from tests.clients.producer import TRANSACTIONAL_ID, Producer, broker_with_topic, log_of
from tests.fakes.broker import VirtualBroker

SETTINGS = (
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=1",
    "offsets.topic.segment.bytes=2000",
    "transaction.state.log.segment.bytes=2000",
)


def compact(broker: VirtualBroker) -> int:
    cleaner = broker.broker.logs.store.cleaner
    assert cleaner is not None
    before = cleaner.round_count
    for _ in range(10):
        broker.broker.logs.step()
        broker.time.advance(20_000)
    assert not cleaner.is_busy
    return cleaner.round_count - before


def size_of(broker: VirtualBroker, topic: str) -> int:
    return broker.broker.topics.partition(topic, 0).size_bytes


def test_offsets_and_transactional_ids_survive_the_compaction_of_their_topics() -> None:
    broker = broker_with_topic(*SETTINGS)
    producers = [Producer(broker, f"{TRANSACTIONAL_ID}-{number}").init() for number in range(3)]
    for number in range(60):
        assert commit(broker, number, number % 2) == 0
        producer = producers[number % 3]
        producer.produce(version=12)
        producer.end(number % 2 == 0, version=5)
    sizes = [size_of(broker, topic) for topic in ("__consumer_offsets", "__transaction_state")]
    expected = [fetch(broker, partition) for partition in range(2)]
    assert [offset for offset, *_ in expected] == [58, 59]
    assert compact(broker) >= 2
    for size, topic in zip(sizes, ("__consumer_offsets", "__transaction_state"), strict=True):
        assert size_of(broker, topic) < size / 2
    for after in (broker.killed(), broker.crashed(3), broker):
        assert [fetch(after, partition) for partition in range(2)] == expected
        assert GROUP in [group.group_id for group in after.broker.groups.administration.all()]
        for producer in producers:
            producer.broker = after
            pair = producer.pair
            assert producer.produce(version=12) == 0
            assert producer.end(True, version=5) == 0
            producer.producer_id, producer.producer_epoch = pair  # the next broker has not seen this one
        assert log_of(after).last_stable_offset == log_of(after).log_end_offset
