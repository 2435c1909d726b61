"""Duplicates, gaps, fencing and markers on one partition, as Kafka 4.3 decides them."""

import pytest

from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog
from oncelog.broker.log.producer_state import MAX_PRODUCER_EPOCH, ProducerState, ProducerStateManager
from oncelog.broker.log.values import EndMarker
from oncelog.broker.storage.producer_snapshot import encode_snapshot, load_batches, load_snapshot
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import SEQUENCE_MASK
from tests.fakes.logs import Logs, batch, read_records


@pytest.fixture
def logs() -> Logs:
    return Logs()


@pytest.fixture
def log(logs: Logs) -> PartitionLog:
    return logs.open()


def send(
    logs: Logs,
    log: PartitionLog,
    sequence: int,
    *,
    epoch: int = 0,
    count: int = 1,
    producer_id: int = 28,
    transactional: bool = False,
    transaction_version: int = 0,
) -> int:
    data = batch(
        count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
    )
    return log.append(data, wall_ms=logs.clock.wall_ms(), transaction_version=transaction_version).base_offset


def refused(call: object, *arguments: object, **settings: object) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call(*arguments, **settings)  # type: ignore[operator]
    return caught.value.code


def test_one_of_the_last_five_batches_is_answered_with_its_offset(logs: Logs, log: PartitionLog) -> None:
    """Older ones are out of order: they look like a gap."""
    offsets = [send(logs, log, sequence) for sequence in range(8)]
    for sequence in range(3, 8):
        assert send(logs, log, sequence) == offsets[sequence]
    assert log.log_end_offset == 8
    assert refused(send, logs, log, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_retry_must_be_the_same_batch(logs: Logs, log: PartitionLog) -> None:
    send(logs, log, 0, count=3)
    assert refused(send, logs, log, 0, count=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(send, logs, log, 1, count=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_gap_is_out_of_order(logs: Logs, log: PartitionLog) -> None:
    send(logs, log, 0)
    assert refused(send, logs, log, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_new_epoch_begins_with_sequence_0_and_fences_the_old_one(logs: Logs, log: PartitionLog) -> None:
    send(logs, log, 0)
    send(logs, log, 0, epoch=1)
    assert refused(send, logs, log, 1, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(send, logs, log, 0, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(send, logs, log, 3, epoch=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_unknown_producer_may_begin_anywhere_unless_its_epochs_belong_to_transactions(
    logs: Logs, log: PartitionLog
) -> None:
    assert send(logs, log, 5, producer_id=10**12) == 0
    code = refused(send, logs, log, 5, producer_id=9, transactional=True, transaction_version=2)
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequence_wraps_inside_a_batch_and_between_batches(logs: Logs, log: PartitionLog) -> None:
    assert send(logs, log, SEQUENCE_MASK - 1, count=4) == 0  # ..., 2^31-1, 0, 1
    assert send(logs, log, 2) == 4
    assert send(logs, log, SEQUENCE_MASK - 1, count=4) == 0
    assert send(logs, log, SEQUENCE_MASK, producer_id=3) == 5
    assert send(logs, log, 0, producer_id=3) == 6


def test_plain_batch_inside_an_open_transaction_is_refused(logs: Logs, log: PartitionLog) -> None:
    send(logs, log, 0, transactional=True)
    assert refused(send, logs, log, 1) is ErrorCode.INVALID_TXN_STATE
    logs.end_transaction(log, 28, committed=True)
    assert send(logs, log, 1) == 2


def test_marker_of_the_same_epoch_keeps_the_sequences_and_of_a_higher_one_clears_them(
    logs: Logs, log: PartitionLog
) -> None:
    send(logs, log, 0, transactional=True)
    logs.end_transaction(log, 28, committed=True)
    assert send(logs, log, 1, transactional=True) == 2
    logs.end_transaction(log, 28, 1, committed=True)
    assert refused(send, logs, log, 2, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(logs, log, 0, epoch=1) == 4


def test_marker_of_a_lower_epoch_is_fenced(logs: Logs, log: PartitionLog) -> None:
    send(logs, log, 0, epoch=3, transactional=True)
    assert refused(logs.end_transaction, log, 28, 2, committed=True) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.has_open_transaction(28, 3)


def test_marker_of_a_coordinator_that_was_replaced_is_fenced(logs: Logs, log: PartitionLog) -> None:
    send(logs, log, 0, transactional=True)
    logs.end_transaction(log, 28, committed=True, coordinator_epoch=4)
    send(logs, log, 1, transactional=True)
    code = refused(logs.end_transaction, log, 28, committed=False, coordinator_epoch=3)
    assert code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    logs.end_transaction(log, 28, committed=False, coordinator_epoch=4)


def marker_version_2(logs: Logs, log: PartitionLog, epoch: int) -> int:
    return log.append_end_txn_marker(EndMarker(28, epoch, True, 0, 2), logs.clock.wall_ms()).base_offset


def test_late_marker_of_version_2_does_not_end_the_next_transaction(logs: Logs, log: PartitionLog) -> None:
    """KIP-1228: it has the epoch of the open transaction; sent again when nothing is open, it is accepted."""
    send(logs, log, 0, transactional=True, transaction_version=2)
    marker_version_2(logs, log, 1)
    marker_version_2(logs, log, 1)
    send(logs, log, 0, epoch=1, transactional=True, transaction_version=2)
    assert refused(marker_version_2, logs, log, 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(marker_version_2, logs, log, 0) is ErrorCode.INVALID_PRODUCER_EPOCH
    marker_version_2(logs, log, 2)
    assert not log.has_open_transaction(28, 2)


def test_marker_of_version_2_at_the_last_epoch_ends_the_transaction(logs: Logs, log: PartitionLog) -> None:
    send(logs, log, 0, epoch=MAX_PRODUCER_EPOCH, transactional=True)
    marker_version_2(logs, log, MAX_PRODUCER_EPOCH)
    assert not log.has_open_transaction(28, MAX_PRODUCER_EPOCH)


def test_marker_without_a_transaction_is_written_and_fences_but_aborts_nothing(logs: Logs, log: PartitionLog) -> None:
    logs.end_transaction(log, 28, 5, committed=False)
    logs.flush()
    assert log.log_end_offset == 1
    assert read_records(log, 0, 1000, FetchIsolation.TXN_COMMITTED).aborted_transactions == ()
    assert refused(send, logs, log, 0, epoch=4) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_later_batch_may_not_overtake_one_that_was_refused_unverified(logs: Logs, log: PartitionLog) -> None:
    log.producer_state.note_refused(28, 0, 0, 0, 0)
    log.producer_state.note_refused(28, 0, 1, 0, 0)
    assert refused(send, logs, log, 1, transactional=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(logs, log, 0, transactional=True)
    send(logs, log, 1, transactional=True)


def test_silent_producer_is_forgotten_but_not_with_an_open_transaction(logs: Logs, log: PartitionLog) -> None:
    send(logs, log, 0)
    send(logs, log, 0, producer_id=5, transactional=True)
    expiration_ms = log.config.producer_id_expiration_ms
    logs.clock.time_ms += expiration_ms - 1
    assert log.expire_producers() == 0
    logs.clock.time_ms += 1
    assert log.expire_producers() == 1
    assert [state.producer_id for state in log.producer_state.producers()] == [5]


def test_old_record_timestamps_do_not_make_a_producer_expire(logs: Logs, log: PartitionLog) -> None:
    """Kafka forgets a producer of old timestamps at its next check, and appends the retry once more."""
    log.append(batch(producer_id=28, base_sequence=0, timestamp=1), wall_ms=logs.clock.wall_ms())
    logs.clock.time_ms += 60_000
    assert log.expire_producers() == 0


def test_snapshot_and_its_batches_hold_all_five_and_open_transactions(logs: Logs, log: PartitionLog) -> None:
    for sequence in range(7):
        send(logs, log, sequence)
    send(logs, log, 0, producer_id=5, count=3, transactional=True)
    logs.clock.time_ms += 50
    logs.end_transaction(log, 6, 2, committed=True)
    logs.end_transaction(log, 28, 0, committed=True)
    snapshot = encode_snapshot(log.producer_state)
    loaded = load_snapshot(snapshot.rows, 0)
    load_batches(loaded, snapshot.rows, snapshot.batches)
    assert encode_snapshot(loaded) == snapshot
    for state in log.producer_state.producers():
        copy = loaded.producer(state.producer_id)
        assert copy is not None
        assert copy.batches == state.batches
        assert copy.last_timestamp == state.last_timestamp
    assert loaded.ongoing_transactions() == [(7, 5)]


def test_every_changed_byte_of_a_snapshot_is_found(logs: Logs, log: PartitionLog) -> None:
    send(logs, log, 0)
    send(logs, log, 1)
    snapshot = encode_snapshot(log.producer_state)
    manager = load_snapshot(snapshot.rows, 0)
    for data, load in (
        (snapshot.rows, lambda data: load_snapshot(data, 0)),
        (snapshot.batches, lambda data: load_batches(manager, snapshot.rows, data)),
    ):
        for at in range(len(data)):
            with pytest.raises(ValueError):
                load(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        for size in range(len(data)):
            with pytest.raises(ValueError):
                load(data[:size])
    assert encode_snapshot(manager).rows == snapshot.rows


def test_batches_belong_to_one_snapshot(logs: Logs, log: PartitionLog) -> None:
    """Missing ones count as damaged, but for a snapshot without producers."""
    nobody = encode_snapshot(log.producer_state)
    assert nobody.batches == b""
    load_batches(load_snapshot(nobody.rows, 0), nobody.rows, None)
    snapshots = []
    for sequence in range(2):
        send(logs, log, sequence)
        snapshots.append(encode_snapshot(log.producer_state))
    manager = load_snapshot(snapshots[1].rows, 0)
    for batches in (snapshots[0].batches, None):
        with pytest.raises(ValueError):
            load_batches(manager, snapshots[1].rows, batches)
    producer = manager.producer(28)
    assert producer is not None
    assert len(producer.batches) == 1


def test_an_epoch_is_over_once_a_batch_or_a_marker_of_a_later_one_is_written(logs: Logs, log: PartitionLog) -> None:
    assert not log.is_over(28, 3)
    send(logs, log, 0, epoch=3, transactional=True)
    assert [log.is_over(28, epoch) for epoch in (2, 3, 4)] == [True, False, False]
    marker_version_2(logs, log, 4)
    assert [log.is_over(28, epoch) for epoch in (3, 4, 5)] == [True, False, False]


def test_what_is_adopted_from_another_state_changes_on_its_own() -> None:
    """Recovery adopts the producers of one snapshot twice, and replays other batches after each."""
    snapshot, first, second = (ProducerStateManager() for _ in range(3))
    snapshot.restore(ProducerState(7, 1))
    first.adopt_missing(snapshot)
    second.adopt_missing(snapshot)
    adopted = second.producer(7)
    assert adopted is not None
    adopted.current_transaction_first_offset = 94
    untouched = [manager.producer(7) for manager in (snapshot, first)]
    assert [state is not None and state.current_transaction_first_offset for state in untouched] == [-1, -1]
