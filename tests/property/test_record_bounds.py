"""The bounds of keys and values say what decoding says, of every batch, and refuse what decoding refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.bounds import Bounds
from oncelog.protocol.records.record import Record, decode_body, encode_records

BYTES = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)
RECORDS = st.lists(st.builds(Record, st.just(0), st.integers(-(1 << 40), 1 << 40), BYTES, BYTES, HEADERS), max_size=80)


def values_of(bounds: Bounds, data: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    cuts = bounds.cuts
    found = []
    for index, timestamp in enumerate(bounds.timestamps):
        key_start, key_end, start, end = cuts[4 * index + 1 : 4 * index + 5]
        key = None if index in bounds.null_keys else data[key_start:key_end]
        found.append((timestamp, key, None if index in bounds.null_values else data[start:end]))
    return found


@given(RECORDS, RECORDS)
def test_bounds_are_where_decoding_finds_keys_and_values(one: list[Record], other: list[Record]) -> None:
    bodies = [encode_records(records, 7) for records in (one, other)]
    data, bounds = b"".join(bodies), Bounds()
    bounds.add(data, 0, len(bodies[0]), len(one), 7)
    bounds.add(data, len(bodies[0]), len(data), len(other), 7)
    assert bounds.cuts == sorted(bounds.cuts), "they are the offsets of one array"
    assert values_of(bounds, data) == [(each.timestamp, each.key, each.value) for each in (*one, *other)]


@given(RECORDS, st.data())
def test_damaged_bytes_are_refused_or_lead_nowhere_outside(records: list[Record], choice: st.DataObject) -> None:
    """All that decoding accepts, the bounds accept: they skip headers and attributes."""
    body = bytearray(encode_records(records, 0))
    for _ in range(choice.draw(st.integers(1, 3)) if body else 0):
        body[choice.draw(st.integers(0, len(body) - 1))] = choice.draw(st.integers(0, 255))
    damaged, bounds = bytes(body[: choice.draw(st.integers(0, len(body)))]), Bounds()
    try:
        decoded = decode_body(damaged, len(records), 0, 0, None)
    except ProtocolError:
        try:
            bounds.add(damaged, 0, len(damaged), len(records), 0)
        except ProtocolError:
            return
        assert bounds.cuts == sorted(bounds.cuts)
        assert bounds.cuts[-1] <= len(damaged)
    else:
        bounds.add(damaged, 0, len(damaged), len(records), 0)
        assert values_of(bounds, damaged) == [(each.timestamp, each.key, each.value) for each in decoded]


@pytest.mark.parametrize("count", [-1, 2, 1 << 30])
def test_a_count_that_lies_is_refused(count: int) -> None:
    body = encode_records([Record(0, 0, b"key", b"value")], 0)
    with pytest.raises(ProtocolError):
        Bounds().add(body, 0, len(body), count, 0)
