"""The files beside a log, as the broker writes them, read by the construct declarations of Kafka's formats."""

from construct import Array, Construct
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.log.producer_state import ProducerStateManager
from oncelog.broker.storage import transaction_index
from oncelog.broker.storage.local import offset_index, time_index
from oncelog.broker.storage.producer_snapshot import encode_snapshot
from oncelog.protocol.records.batch import encode_batch, read_header
from oncelog.protocol.records.formats import (
    OFFSET_INDEX_ENTRY,
    PRODUCER_SNAPSHOT,
    TIME_INDEX_ENTRY,
    TRANSACTION_INDEX_ENTRY,
)
from oncelog.protocol.records.record import Record

RISING = st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=20).map(sorted)
BASE_OFFSET = st.integers(0, 2**40)


def entries_of(entry: Construct, data: bytes) -> list[dict[str, int]]:
    count, rest = divmod(len(data), entry.sizeof())
    assert rest == 0
    return plain(Array(count, entry).parse(data))


def plain(parsed: object) -> list[dict[str, int]]:
    return [{name: value for name, value in entry.items() if name != "_io"} for entry in parsed]


@given(BASE_OFFSET, RISING, RISING)
def test_offset_index(base_offset: int, offsets: list[int], positions: list[int]) -> None:
    entries = list(zip(offsets, positions, strict=False))
    index = offset_index.OffsetIndex(base_offset)
    for offset, position in entries:
        index.append(base_offset + offset, position)
    assert entries_of(OFFSET_INDEX_ENTRY, index.to_bytes()) == [
        {"relative_offset": offset, "position": position} for offset, position in entries
    ]


@given(BASE_OFFSET, RISING, RISING)
def test_time_index(base_offset: int, timestamps: list[int], offsets: list[int]) -> None:
    entries = list(zip(timestamps, offsets, strict=False))
    index = time_index.TimeIndex(base_offset)
    for timestamp, offset in entries:
        index.maybe_append(timestamp, base_offset + offset)
    assert entries_of(TIME_INDEX_ENTRY, index.to_bytes()) == [
        {"timestamp": timestamp, "relative_offset": offset} for timestamp, offset in entries
    ]


@given(st.lists(st.integers(0, 2**62), unique=True, max_size=20).map(sorted), st.integers(0, 2**62))
def test_transaction_index(markers: list[int], producer_id: int) -> None:
    index = transaction_index.TransactionIndex()
    for marker in markers:
        index.append(transaction_index.AbortedEntry(producer_id, 0, marker, marker + 1))
    assert entries_of(TRANSACTION_INDEX_ENTRY, index.to_bytes()) == [
        {
            "version": 0,
            "producer_id": producer_id,
            "first_offset": 0,
            "last_offset": marker,
            "last_stable_offset": marker + 1,
        }
        for marker in markers
    ]
    assert TRANSACTION_INDEX_ENTRY.sizeof() == transaction_index.ENTRY.size == 34


@given(st.dictionaries(st.integers(0, 2**62), st.tuples(st.integers(0, 32_767), st.integers(0, 2**31 - 1)), max_size=5))
def test_producer_snapshot(producers: dict[int, tuple[int, int]]) -> None:
    manager = ProducerStateManager()
    expected = []
    for base_offset, (producer_id, (epoch, sequence)) in enumerate(producers.items()):
        batch = encode_batch(
            [Record(0, 77, None, b"x"), Record(1, 78, None, b"y")],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        manager.replay_batch(read_header(batch), base_offset * 2, 78, 0)
        expected.append(
            {
                "producer_id": producer_id,
                "producer_epoch": epoch,
                "last_sequence": (sequence + 1) % 2**31,
                "last_offset": base_offset * 2 + 1,
                "offset_delta": 1,
                "timestamp": 78,
                "coordinator_epoch": -1,
                "current_transaction_first_offset": base_offset * 2,
            }
        )
    data = encode_snapshot(manager).rows
    snapshot = PRODUCER_SNAPSHOT.parse(data)
    assert (snapshot.version, snapshot.crc, snapshot.count) == (1, crc32c(data[6:]), len(expected))
    assert sorted(plain(snapshot.entries), key=lambda entry: entry["last_offset"]) == expected
    assert len(data) == 10 + 46 * len(expected)
