"""What a transaction writes is answered once a kill cannot undo it, and is durable with its end; what a power cut may
have torn is aborted, and its producer fenced."""

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from random import Random

import pytest

from oncelog.broker.coordinator.transaction.shard_life import SETTLE_MS
from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.testing.memory_disk import PowerCut
from tests.clients.copier import CopierRequests
from tests.clients.fetch_session import append, fetch_in_tiny_slices
from tests.clients.producer import TOPIC, Producer, broker_with_topic, log_of
from tests.fakes.broker import VirtualBroker
from tests.support.logs.damage import list_offset
from tests.unit.transaction.harness import P0, Coordinator
from tests.unit.transaction.test_one_round import state_of
from tests.unit.transaction.two_phase import TWO_PHASE, initialize

E = ErrorCode


def begun(*overrides: str) -> tuple[VirtualBroker, Producer]:
    """A record in an open transaction, answered, and not synced."""
    broker = broker_with_topic(*overrides)
    producer = Producer(broker).init()
    assert producer.add(0) == [E.NONE]
    syncs = broker.disk.sync_count
    assert producer.produce(0) is E.NONE
    assert (broker.disk.sync_count, log_of(broker).high_watermark) == (syncs, 0)
    return broker, producer


def test_its_end_makes_all_of_it_durable_with_one_sync() -> None:
    broker, producer = begun()
    assert producer.produce(0, sequence=1) is E.NONE
    syncs = broker.disk.sync_count
    assert producer.end() is E.NONE
    assert broker.disk.sync_count == syncs + 1
    assert log_of(broker).last_stable_offset == 3


def test_a_kill_leaves_it_and_the_transaction_continues() -> None:
    broker, producer = begun()
    producer.broker = broker.killed()
    assert state_of(producer.broker) is TransactionState.ONGOING
    assert producer.produce(0, sequence=1) is E.NONE
    assert producer.end() is E.NONE
    assert log_of(producer.broker).last_stable_offset == 3


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("end", [1, 3, 5])
def test_after_a_power_cut_the_transaction_is_aborted_and_its_producer_fenced(end: int, seed: int) -> None:
    broker, producer = begun()
    producer.broker = left = broker.crashed(seed)
    assert state_of(left) is TransactionState.COMPLETE_ABORT
    assert any(line["event"] == "transactions.aborted" and line["transactions"] == 1 for line in left.warnings)
    fenced = E.INVALID_PRODUCER_EPOCH if end == 1 else E.PRODUCER_FENCED
    assert producer.end(True, end) is fenced
    assert producer.add(0) == [E.PRODUCER_FENCED]
    assert producer.produce(0, sequence=1) is E.INVALID_PRODUCER_EPOCH
    assert log_of(left).last_stable_offset == log_of(left).log_end_offset
    again = Producer(left).init()
    assert again.add(0) == [E.NONE]
    assert again.produce(0) is E.NONE
    assert again.end() is E.NONE


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("setting", ["oncelog.flush.policy=fsync", "oncelog.flush.policy=os"])
def test_a_file_system_that_is_mounted_again_aborts_what_it_has_lost(setting: str, seed: int) -> None:
    """The machine has run all the time, as after `docker start` on another copy of the volume."""
    broker, producer = begun(setting) if "fsync" in setting else begun_at_once(setting)
    lost = broker.disk.remounted(Random(seed))
    producer.broker = left = broker.on(lost)
    if log_of(left).log_end_offset == 1 and state_of(left) is TransactionState.ONGOING:
        assert producer.end() is E.NONE, "all of it was on the disk"
        assert log_of(left).last_stable_offset == 2
        return
    assert state_of(left) is TransactionState.COMPLETE_ABORT
    assert producer.end() is E.PRODUCER_FENCED
    assert log_of(left).last_stable_offset == log_of(left).log_end_offset


def begun_at_once(setting: str) -> tuple[VirtualBroker, Producer]:
    """Begin a transaction where nothing is synced; all before its batch is made durable."""
    broker = broker_with_topic(setting)
    producer = Producer(broker).init()
    assert producer.add(0) == [E.NONE]
    broker.disk.make_durable()
    assert producer.produce(0) is E.NONE
    return broker, producer


@pytest.mark.parametrize("seed", range(6))
def test_a_part_of_a_transaction_that_was_synced_is_not_committed_without_the_rest(seed: int) -> None:
    broker, producer = begun()
    broker.time.advance(10)
    assert log_of(broker).high_watermark == 1, "synced by now"
    assert producer.add(1) == [E.NONE]
    assert producer.produce(1) is E.NONE
    producer.broker = left = broker.on(broker.disk.remounted(Random(seed)))
    if state_of(left) is TransactionState.ONGOING:
        assert log_of(left, 1).log_end_offset == 1
        return
    assert producer.end() is E.PRODUCER_FENCED
    assert any("has lost what was written and not synced" in line for line in left.lines)


def test_a_disk_that_fails_and_is_mounted_again_is_remembered_though_it_took_no_note_of_it() -> None:
    broker, producer = begun()
    broker.disk.sync_error = OSError(5, "Input/output error")
    broker.send(EndTxnRequest(committed=True, **producer.identity), 3)
    assert broker.disk_failures
    producer.broker = broker.on(broker.disk.remounted(Random(2)))
    assert producer.end() is E.PRODUCER_FENCED


def test_a_copy_that_was_taken_while_the_original_ran_on_commits_nothing_that_it_lacks() -> None:
    broker, producer = begun()
    copy = broker.disk.kill()
    assert producer.produce(0, sequence=1) is E.NONE
    copy.notes = broker.disk.notes.copy()
    producer.broker = broker.on(copy)
    assert state_of(producer.broker) is TransactionState.COMPLETE_ABORT
    assert producer.end() is E.PRODUCER_FENCED


def test_a_producer_without_an_open_transaction_continues_after_a_power_cut() -> None:
    broker, producer = begun()
    assert producer.end() is E.NONE
    producer.broker = broker.crashed(1)
    assert producer.end() is E.NONE, "the answer may have been lost"
    assert producer.add(0) == [E.NONE]
    assert producer.produce(0, sequence=1) is E.NONE
    assert producer.end() is E.NONE
    assert not [line for line in producer.broker.warnings if line["event"] == "transactions.aborted"]


def test_a_power_cut_between_the_abort_and_its_sync_does_not_save_the_transaction() -> None:
    broker, producer = begun()
    found = broker.disk.crash(Random(3))
    for operations in count():
        disk = found.kill()
        disk.operations_left = operations
        with suppress(PowerCut):
            VirtualBroker(disk=disk)
        is_cut = disk.operations_left < 0
        disk.operations_left = None
        producer.broker = VirtualBroker(disk=disk.crash(Random(operations)) if operations % 2 else disk.kill())
        assert producer.end() is E.PRODUCER_FENCED
        if not is_cut:
            return


@pytest.mark.parametrize("stop", [VirtualBroker.killed, lambda broker: broker.crashed(2)], ids=["kill", "power cut"])
def test_a_transaction_that_was_open_for_a_while_is_whole_after_any_stop(
    stop: Callable[[VirtualBroker], VirtualBroker],
) -> None:
    """Its producer may be gone, and the process that commits it relies on what was answered, as Flink's committer
    does.
    """
    broker, producer = begun()
    broker.time.advance(2 * SETTLE_MS)
    syncs = broker.disk.sync_count
    assert producer.produce(0, sequence=1) is E.NONE
    assert broker.disk.sync_count == syncs + 1, "answered once durable, from then on"
    producer.broker = stop(broker)
    assert state_of(producer.broker) is TransactionState.ONGOING
    assert producer.end() is E.NONE
    assert log_of(producer.broker).last_stable_offset == 3


def test_a_two_phase_commit_is_answered_once_durable() -> None:
    broker = broker_with_topic(TWO_PHASE)
    producer = Producer(broker)
    producer.producer_id, producer.producer_epoch = initialize(broker, enables=True).pair
    assert producer.add(0) == [E.NONE]
    assert producer.produce(0) is E.NONE
    assert log_of(broker).high_watermark == 1
    assert state_of(broker.crashed(1)) is TransactionState.ONGOING


def test_before_its_partition_is_durably_added_a_batch_waits() -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    syncs = broker.disk.sync_count
    assert producer.produce(0, version=12) is E.NONE
    assert (broker.disk.sync_count, log_of(broker).high_watermark) == (syncs + 1, 1)


def test_a_request_for_the_log_end_waits_until_what_was_answered_is_durable() -> None:
    broker, _ = begun()
    assert list_offset(broker, TOPIC, isolation_level=0) == (E.NONE, 1)
    assert list_offset(broker, TOPIC, isolation_level=1) == (E.NONE, 0)


def test_a_read_uncommitted_reader_sees_it_at_once_and_others_start_no_round() -> None:
    broker, _ = begun()
    syncs = broker.disk.sync_count
    for isolation_level, found in ((1, 0), (0, 1)):
        topic = FetchTopic(topic=TOPIC, partitions=[FetchPartition(partition=0, partition_max_bytes=1_000)])
        request = FetchRequest(
            max_wait_ms=2, min_bytes=1, isolation_level=isolation_level, session_epoch=-1, topics=[topic]
        )
        reply = broker.start(request, 11)
        broker.time.settle()
        assert broker.disk.sync_count == syncs + found
        broker.time.advance(2)
        ((data,),) = (topic.partitions for topic in reply.message.responses)
        assert bool(data.records) is bool(found)


@pytest.mark.parametrize("partition_count", [1, 150])
def test_a_reader_that_would_not_wait_waits_for_what_was_answered(partition_count: int) -> None:
    broker, _ = begun()
    indexes = [0, *range(1000, 999 + partition_count)]  # with many it is read in slices
    partitions = [FetchPartition(partition=index, partition_max_bytes=1_000) for index in indexes]
    topic = FetchTopic(topic=TOPIC, partitions=partitions)
    request = FetchRequest(max_wait_ms=0, min_bytes=1, isolation_level=0, session_epoch=-1, topics=[topic])
    (topic_data,) = broker.send(request, 11).message.responses
    assert topic_data.partitions[0].records
    assert topic_data.partitions[0].high_watermark == 1


@pytest.mark.parametrize("min_bytes", [70, 140])  # which either of two batches has, or both together
def test_a_reader_in_slices_does_not_wait_for_a_sync_that_ends_between_two_of_them(
    min_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch_in_tiny_slices(monkeypatch)
    broker = broker_with_topic()
    append(broker, TOPIC, 1)
    producer = Producer(broker).init()
    producer.add(0)
    assert producer.produce(0) is E.NONE
    indexes = [0, *range(1000, 1020), 1]
    partitions = [FetchPartition(partition=index, partition_max_bytes=1_000) for index in indexes]
    topic = FetchTopic(topic=TOPIC, partitions=partitions)
    request = FetchRequest(max_wait_ms=500, min_bytes=min_bytes, isolation_level=0, session_epoch=-1, topics=[topic])
    reply = broker.send(request, 11)
    assert reply.is_there
    (topic_data,) = reply.message.responses
    assert topic_data.partitions[0].high_watermark == 1
    assert topic_data.partitions[-1].records


def test_records_that_were_answered_can_be_deleted() -> None:
    broker, _ = begun()
    wanted = DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
    answer = broker.ask(DeleteRecordsRequest(topics=[wanted], timeout_ms=1_000), 2)
    (deleted,) = answer.topics[0].partitions
    assert (deleted.error_code, deleted.low_watermark) == (E.NONE, 1)


def test_after_some_milliseconds_it_is_durable_without_a_waiter() -> None:
    broker, _ = begun()
    broker.time.advance(10)
    assert log_of(broker).high_watermark == 1


def test_a_retry_of_what_was_answered_is_answered_once_that_is_durable() -> None:
    broker, producer = begun()
    syncs = broker.disk.sync_count
    assert producer.produce(0) is E.NONE
    assert (broker.disk.sync_count, log_of(broker).high_watermark) == (syncs + 1, 1)


def test_offsets_of_a_transaction_wait_for_no_sync_but_that_of_its_end() -> None:
    broker = VirtualBroker()
    copier = CopierRequests(broker)
    copier.add_offsets()
    syncs = broker.disk.sync_count
    copier.commit_offset()
    assert broker.disk.sync_count == syncs
    copier.end()
    assert broker.disk.sync_count == syncs + 1
    copier.broker = broker.crashed(1)
    copier.end()


@pytest.mark.parametrize(
    "setting", ["oncelog.flush.policy=os", "oncelog.flush.policy=memory", "oncelog.storage=memory"]
)
def test_without_syncs_a_plain_batch_is_answered_and_readable_in_its_turn(setting: str) -> None:
    broker = broker_with_topic(setting)
    producer = Producer(broker).init()
    assert producer.add(0) == [E.NONE]
    reply = producer.start_produce(0)
    assert reply.is_there
    assert log_of(broker).high_watermark == 0
    assert list_offset(broker, TOPIC, isolation_level=0) == (E.NONE, 1)


def test_a_read_uncommitted_reader_gets_all_that_was_answered_in_one_response() -> None:
    broker, producer = begun()
    broker.time.advance(10)
    assert producer.produce(0, sequence=1) is E.NONE
    assert log_of(broker).high_watermark == 1
    topic = FetchTopic(topic=TOPIC, partitions=[FetchPartition(partition=0, partition_max_bytes=1_000)])
    request = FetchRequest(max_wait_ms=1_000, min_bytes=1, isolation_level=0, session_epoch=-1, topics=[topic])
    ((data,),) = (topic.partitions for topic in broker.send(request, 11).message.responses)
    assert data.high_watermark == 2


def test_what_could_not_be_aborted_after_a_power_cut_is_never_taken_for_whole() -> None:
    coordinator = Coordinator()
    pair = coordinator.begun(P0)
    again = Coordinator(topic=coordinator.topic, time=coordinator.time, ids=coordinator.ids)
    again.has_lost_ahead = True
    again.log.refuses = KafkaError(E.KAFKA_STORAGE_ERROR)
    again.start()
    assert again.end(pair, True).error is E.CONCURRENT_TRANSACTIONS
    again.time.advance(2 * SETTLE_MS)
    assert again.known.state is TransactionState.COMPLETE_ABORT
