"""Both tables of damaged files, with a whole broker in memory: after kill -9 and after a clean stop.

Apache Kafka shows an aborted record after a clean stop when a .txnindex is missing, loses 13 acknowledged records to a
bad .index, appends a duplicate when snapshots are gone, and cuts off what follows a flipped byte. Here nothing that can
be rebuilt makes a difference, and whatever cannot takes the partition offline.
"""

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from tests.fakes.broker import VirtualBroker
from tests.fakes.logs import segments_of
from tests.support.logs.damage import (
    DESTRUCTIVE,
    END_OFFSET,
    HARMLESS,
    TOPIC,
    Filled,
    MemoryFiles,
    fill,
    list_offset,
    produce,
    read_committed,
)

pytestmark = pytest.mark.sampled(3)

STOPS = ("kill -9", "clean stop")


def stopped(how: str, *overrides: str) -> tuple[VirtualBroker, Filled]:
    broker = VirtualBroker(*overrides)
    filled = fill(broker, broker.time.wall_ms())
    assert len(segments_of(broker.broker.topics.partition(TOPIC, 0))) == 4
    broker.broker.logs.step()  # a checkpoint: nothing can be put back from the journal
    broker.time.advance(1_000)
    if how == "clean stop":
        broker.broker.logs.close()
    return broker, filled


@pytest.mark.parametrize("damage", HARMLESS)
@pytest.mark.parametrize("how", STOPS)
def test_what_can_be_rebuilt_makes_no_difference(how: str, damage: str) -> None:
    broker, filled = stopped(how)
    HARMLESS[damage](MemoryFiles(broker.disk))
    for _ in range(2):
        broker = broker.killed()
        for wait_ms in (0, 5_000):
            broker.time.advance(wait_ms)
            assert list_offset(broker, isolation_level=0) == list_offset(broker) == (ErrorCode.NONE, END_OFFSET)
            seen = read_committed(broker)
            assert (seen.missing, seen.is_right, seen.error) == ([], True, ErrorCode.NONE)
            assert len(seen.offsets) == 28, "an aborted record is visible, or one twice"
            assert produce(broker, filled.last_batch) == (ErrorCode.NONE, END_OFFSET - 1), "the retry is a duplicate"
            assert list_offset(broker) == (ErrorCode.NONE, END_OFFSET)


@pytest.mark.parametrize("damage", DESTRUCTIVE)
@pytest.mark.parametrize("how", STOPS)
def test_what_destroys_records_takes_the_partition_offline_and_never_shortens_it(how: str, damage: str) -> None:
    broker, filled = stopped(how)
    change, file = DESTRUCTIVE[damage]
    files = MemoryFiles(broker.disk)
    change(files)
    before = {name: files.read(name) for name in files.names() if name.startswith(TOPIC) and name.endswith(".log")}
    broker = broker.killed()
    seen = read_committed(broker)
    assert seen.is_right, "a reader was given destroyed bytes"
    assert seen.error is ErrorCode.KAFKA_STORAGE_ERROR
    broker.time.advance(5_000)
    assert list_offset(broker)[0] is ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(broker, filled.last_batch)[0] is ErrorCode.KAFKA_STORAGE_ERROR
    offline_error = broker.broker.topics.find_partition(TOPIC, 0).offline_error  # type: ignore[union-attr]
    assert offline_error is not None
    (part,) = broker.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 12).topics[0].partitions
    assert (part.error_code, part.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1), (
        "as Kafka with a log directory away"
    )
    assert (tuple(part.replica_nodes), tuple(part.isr_nodes), tuple(part.offline_replicas)) == ((1,), (), (1,))
    described = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=TOPIC)], response_partition_limit=10)
    (part,) = broker.ask(described, 0).topics[0].partitions
    assert (part.error_code, part.leader_id, list(part.last_known_elr)) == (ErrorCode.NONE, -1, [1])
    assert (list(part.replica_nodes), list(part.isr_nodes), list(part.offline_replicas)) == ([1], [], [1])
    assert file in offline_error
    assert "offset" in offline_error
    files = MemoryFiles(broker.disk)
    after = {name: files.read(name) for name in files.names() if name.startswith(TOPIC) and name.endswith(".log")}
    assert after == before, "what is left must stay for a person to look at"


@pytest.mark.parametrize("damage", [name for name in DESTRUCTIVE if "flipped" in name])
@pytest.mark.parametrize("how", STOPS)
def test_damage_in_records_that_are_not_read_is_found_within_seconds(how: str, damage: str) -> None:
    broker, _ = stopped(how)
    DESTRUCTIVE[damage][0](MemoryFiles(broker.disk))
    broker = broker.killed()
    broker.time.advance(5_000)
    assert list_offset(broker)[0] is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("damage", HARMLESS)
@pytest.mark.parametrize("policy", ["os", "memory"])
def test_under_other_flush_policies_what_was_written_is_there_after_a_kill_as_well(policy: str, damage: str) -> None:
    broker, filled = stopped("kill -9", f"oncelog.flush.policy={policy}")
    HARMLESS[damage](MemoryFiles(broker.disk))
    broker = broker.killed()
    seen = read_committed(broker)
    assert (seen.missing, len(seen.offsets), seen.error) == ([], 28, ErrorCode.NONE)
    assert produce(broker, filled.last_batch) == (ErrorCode.NONE, END_OFFSET - 1)
