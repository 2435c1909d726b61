"""Steps from one metadata to the next, and its form in `__transaction_state`."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.apis.compatibility import KAFKA, OURS, Compatibility
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata, check_step
from oncelog.broker.coordinator.transaction.records import from_record, to_record, to_tombstone
from oncelog.broker.coordinator.transaction.shard import TransactionShard
from oncelog.broker.coordinator.transaction.states import IllegalTransition, TransactionState
from oncelog.broker.log.values import EndMarker
from oncelog.protocol import state_record_codec
from oncelog.protocol.errors import ErrorCode, KafkaError
from tests.support.transactions.samples import LOGGED, NOW_MS, metadata

S = TransactionState
INT16, INT64 = 2**15 - 1, 2**63 - 1

timestamps = st.integers(-1, INT64)
known = st.builds(
    TransactionMetadata,
    transactional_id=st.text(max_size=20),
    producer_id=st.integers(0, INT64),
    producer_epoch=st.integers(0, INT16),
    timeout_ms=st.integers(1, 2**31 - 1),
    state=st.sampled_from([state for state in LOGGED if state is not S.EMPTY]),
    partitions=st.frozensets(st.tuples(st.text(min_size=1, max_size=8), st.integers(0, 2**31 - 1)), max_size=6),
    start_timestamp_ms=timestamps,
    last_update_timestamp_ms=timestamps,
    previous_producer_id=st.integers(-1, INT64),
    next_producer_id=st.integers(-1, INT64),
    client_transaction_version=st.integers(0, 2),
    last_producer_epoch=st.integers(-1, INT16),
    next_producer_epoch=st.integers(-1, INT16),
)


@given(known)
def test_metadata_survives_its_record(value: TransactionMetadata) -> None:
    assert from_record(to_record(value, 2)) == (value.transactional_id, value)


@given(known, st.integers(0, 2), st.sampled_from([OURS, KAFKA]))
def test_what_a_record_carries_decoded_is_what_its_bytes_say(
    value: TransactionMetadata, version: int, compatibility: Compatibility
) -> None:
    record = to_record(value, version, compatibility=compatibility)
    assert from_record(record) == (value.transactional_id, record.decoded)


@given(known)
def test_at_level_0_a_record_holds_what_a_release_without_tags_can_read(value: TransactionMetadata) -> None:
    value = value._replace(next_producer_id=-1, next_producer_epoch=-1)
    record = to_record(value, 0)
    assert record.value is not None and state_record_codec.prefix(record.value) == 0
    plain = value._replace(
        previous_producer_id=-1, client_transaction_version=0, last_producer_epoch=-1, is_settled=False
    )
    assert from_record(record) == (value.transactional_id, plain)


@given(known.filter(lambda value: value.next_producer_id >= 0))
def test_a_producer_id_that_was_promised_is_not_forgotten_at_level_0(value: TransactionMetadata) -> None:
    assert from_record(to_record(value, 0)) == (value.transactional_id, value)


@given(known)
def test_in_kafkas_way_a_record_holds_nothing_that_kafkas_does_not(value: TransactionMetadata) -> None:
    record = to_record(value, 2, compatibility=KAFKA)
    assert from_record(record) == (value.transactional_id, value._replace(last_producer_epoch=-1, is_settled=False))


@given(known, st.data())
def test_a_damaged_record_is_refused_or_read_and_nothing_else(value: TransactionMetadata, data: st.DataObject) -> None:
    record = to_record(value, 2)
    assert record.value is not None
    cut = data.draw(st.integers(0, len(record.value) - 1))
    with pytest.raises(KafkaError) as refused:
        from_record(CoordinatorRecord(record.key, record.value[:cut]))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("status", [6, 7, 8, -1])
def test_a_state_that_is_never_logged_is_refused(status: int) -> None:
    record = to_record(metadata(), 2)
    assert record.value is not None
    # Version, producer id, epoch and timeout come before the status.
    at = 2 + 8 + 2 + 4
    damaged = record.value[:at] + status.to_bytes(1, "big", signed=True) + record.value[at + 1 :]
    with pytest.raises(KafkaError):
        from_record(CoordinatorRecord(record.key, damaged))


def test_a_tombstone_forgets_the_id_and_a_key_of_another_kind_is_refused() -> None:
    shard = TransactionShard(0)
    shard.replay(to_record(metadata(), 2), offset=0, producer_id=-1)
    assert shard.get("id") == metadata()
    shard.replay(to_tombstone("id"), offset=1, producer_id=-1)
    assert shard.get("id") is None
    with pytest.raises(KafkaError):
        shard.replay(CoordinatorRecord(b"\x00\x02" + to_tombstone("id").key[2:], None), offset=2, producer_id=-1)


def test_a_compacted_log_replays_to_the_same_shard_though_steps_are_missing() -> None:
    opened = metadata(client_transaction_version=2)
    prepared = opened.with_state(S.PREPARE_COMMIT, NOW_MS)._replace(producer_epoch=4)
    shard = TransactionShard(0)
    for offset, value in ((3, opened), (5, prepared.to_completed(NOW_MS))):
        shard.replay(to_record(value, 2), offset=offset, producer_id=-1)
    assert shard.get("id") == prepared.to_completed(NOW_MS)


def test_an_epoch_that_goes_back_is_refused_as_no_coordinator_wrote_it() -> None:
    shard = TransactionShard(0)
    shard.replay(to_record(metadata(), 2), offset=0, producer_id=-1)
    with pytest.raises(KafkaError) as refused:
        shard.replay(to_record(metadata(producer_epoch=2), 2), offset=1, producer_id=-1)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert shard.get("id") == metadata()


def test_a_marker_in_the_coordinators_own_log_says_nothing() -> None:
    """An operator can send one there with WriteTxnMarkers; the next start must not fail over it."""
    shard = TransactionShard(0)
    shard.replay(to_record(metadata(), 2), offset=0, producer_id=-1)
    shard.replay_end_transaction_marker(EndMarker(7, 3, True, 0), 1)
    assert shard.get("id") == metadata()


ONGOING, PREPARED, COMPLETED = metadata(), metadata(S.PREPARE_COMMIT), metadata(S.COMPLETE_COMMIT)


@pytest.mark.parametrize(
    ("previous", "state", "changes"),
    [
        (None, S.ONGOING, {}),
        (None, S.EMPTY, {"producer_epoch": 1}),
        (ONGOING, S.ONGOING, {"producer_epoch": 4}),
        (ONGOING, S.ONGOING, {"producer_id": 8}),
        (ONGOING, S.ONGOING, {"timeout_ms": 1}),
        (ONGOING, S.ONGOING, {"partitions": frozenset()}),
        (ONGOING, S.ONGOING, {"last_update_timestamp_ms": 1_999}),
        (ONGOING, S.PREPARE_COMMIT, {"partitions": frozenset({("topic", 1)})}),
        (ONGOING, S.PREPARE_COMMIT, {"producer_epoch": 5}),
        (ONGOING, S.PREPARE_COMMIT, {"producer_epoch": 2}),
        (ONGOING, S.COMPLETE_COMMIT, {}),
        (ONGOING, S.EMPTY, {}),
        (PREPARED, S.COMPLETE_ABORT, {}),
        (PREPARED, S.PREPARE_ABORT, {}),
        (PREPARED, S.COMPLETE_COMMIT, {"partitions": frozenset({("topic", 0)})}),
        (PREPARED, S.COMPLETE_COMMIT, {"producer_epoch": 4}),
        (PREPARED, S.COMPLETE_COMMIT, {"producer_id": 9, "producer_epoch": 0, "previous_producer_id": 7}),
        (PREPARED, S.COMPLETE_COMMIT, {"start_timestamp_ms": -1}),
        (COMPLETED, S.EMPTY, {"start_timestamp_ms": 1_000}),
        (COMPLETED, S.EMPTY, {"producer_epoch": 5}),
        (COMPLETED, S.EMPTY, {"producer_id": 9}),
        (COMPLETED, S.PREPARE_COMMIT, {"partitions": frozenset()}),
    ],
)
def test_a_step_that_breaks_an_invariant_is_never_logged(
    previous: TransactionMetadata | None, state: TransactionState, changes: dict[str, Any]
) -> None:
    with pytest.raises(IllegalTransition):
        check_step(previous, metadata(state, **changes))


@pytest.mark.parametrize(
    ("previous", "state", "changes"),
    [
        (None, S.EMPTY, {"producer_epoch": 0}),
        (ONGOING, S.ONGOING, {"partitions": frozenset({("topic", 0), ("topic", 1)})}),
        (ONGOING, S.PREPARE_COMMIT, {}),
        (ONGOING, S.PREPARE_ABORT, {"producer_epoch": 4}),
        (PREPARED, S.COMPLETE_COMMIT, {}),
        (COMPLETED, S.EMPTY, {"producer_epoch": 4}),
        (COMPLETED, S.EMPTY, {"producer_id": 9, "producer_epoch": 0, "previous_producer_id": 7}),
        (COMPLETED, S.PREPARE_ABORT, {"partitions": frozenset(), "producer_epoch": 4}),
    ],
)
def test_each_invariant_lets_the_steps_of_a_transaction_pass(
    previous: TransactionMetadata | None, state: TransactionState, changes: dict[str, Any]
) -> None:
    check_step(previous, metadata(state, **changes))
