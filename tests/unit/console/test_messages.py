"""Records as rows: text, fates, markers, and what coordinators' records mean; and pending offsets in a group's log."""

from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata
from oncelog.broker.coordinator.transaction.records import to_record
from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.client.values.records import TopicPartition
from oncelog.console.messages import MOST_BATCH_BYTES, MOST_CHARACTERS, SHOWN_CHARACTERS, messages_of, shown
from oncelog.console.pending import PendingOffset, pending_offsets
from oncelog.protocol import state_record_codec
from oncelog.protocol.generated.offset_commit_key import OffsetCommitKey
from oncelog.protocol.generated.offset_commit_value import OffsetCommitValue
from oncelog.protocol.records.control import ControlRecordType
from oncelog.protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tests.unit.console.batches import Log


@given(st.binary(max_size=300))
def test_bytes_are_shown_as_the_text_that_they_are_and_as_digits_otherwise(data: bytes) -> None:
    found = shown(data)
    assert found.size_bytes == len(data) and not found.is_cut
    assert (found.text.encode() if found.kind == "text" else bytes.fromhex(found.text)) == data


@given(st.integers(0, 4), st.booleans())
def test_a_large_value_is_cut_and_stays_text_where_a_character_is_split(offset: int, is_text: bool) -> None:
    data = (b"" if is_text else b"\xff") + b"x" * offset + "🧾".encode() * MOST_CHARACTERS
    found = shown(data)
    assert found.is_cut and found.is_long and found.size_bytes == len(data)
    assert len(found.text) <= 2 * MOST_CHARACTERS and len(found.brief) == SHOWN_CHARACTERS + 1
    assert found.kind == ("text" if is_text else "hex")


def test_null_and_empty_values_are_distinguished() -> None:
    assert (shown(None).kind, shown(b"").kind) == ("null", "text")


def test_each_record_has_the_letter_of_its_transaction_and_markers_are_rows() -> None:
    log = Log()
    log.write((b"k", b"plain"))
    log.write((None, b"one"), (None, b"two"), producer_id=1, open_=True)
    log.write((None, b"open"), producer_id=2, open_=True)
    log.end_transaction(1, ControlRecordType.ABORT)
    rows = messages_of(log.batches(), 0, 100)
    assert [(each.offset, each.cell.letter, each.value.text) for each in rows] == [
        (0, ".", "plain"),
        (1, "A", "one"),
        (2, "A", "two"),
        (3, "O", "open"),
        (4, "a", "ABORT, coordinator epoch 3"),
    ]
    assert [each.offset for each in messages_of(log.batches(), 2, 2)] == [2, 3]


def test_a_record_of_the_transaction_log_is_decoded_and_a_damaged_one_is_bytes() -> None:
    metadata = TransactionMetadata("till", 7, 3, 60_000, TransactionState.EMPTY, frozenset(), -1, 1_000)
    record = to_record(metadata, 2)
    log = Log(TopicPartition(TRANSACTION_STATE, 4))
    log.write((record.key, record.value), (None, b"no key"))
    good, bad = messages_of(log.batches(), 0, 10)
    assert '"transactionalId": "till"' in good.key.text and '"producerId": 7' in good.value.text
    assert (bad.key.kind, bad.value.text) == ("null", "no key")


def test_a_batch_that_is_small_only_until_it_is_decompressed_is_not_opened() -> None:
    log = Log()
    log.write((None, bytes(MOST_BATCH_BYTES)), compression="zstd")
    log.write((None, b"after it"))
    refused, after = messages_of(log.batches(), 0, 10)
    assert "1 records that cannot be shown" in refused.value.text and len(refused.value.text) < SHOWN_CHARACTERS
    assert (after.offset, after.value.text) == (1, "after it")


def test_pending_is_what_open_transactions_sent_to_this_group_last() -> None:
    log = Log(TopicPartition(CONSUMER_OFFSETS, 9))

    def commit(group: str, offset: int, producer_id: int) -> None:
        key = state_record_codec.encode_key(OffsetCommitKey(group=group, topic="orders", partition=2))
        value = state_record_codec.encode_value(OffsetCommitValue(offset=offset), 3)
        log.write((key, value), producer_id=producer_id, open_=producer_id >= 0)

    commit("billing", 3, -1)
    commit("billing", 8, 1)
    commit("billing", 9, 2)
    log.end_transaction(2, ControlRecordType.COMMIT)  # above the last stable offset, and ended
    commit("another", 77, 4)
    log.write((b"\x00\x02of a member", b""), producer_id=4, open_=True)
    assert pending_offsets("billing", log.batches()) == {TopicPartition("orders", 2): PendingOffset(8, 1, 0)}
    commit("billing", 10, 1)
    assert pending_offsets("billing", log.batches())[TopicPartition("orders", 2)].offset == 10
