"""Which partition a key or an id belongs to: the Java clients' answers, to the bit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.partitioning import coordinator_partition, java_string_hash, murmur2, partition_for_key


# From Kafka's own UtilsTest.
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_javas(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected % 2**32


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("polygenelubricants", -(2**31)),
        ("漢字", 28_450 * 31 + 23_383),
        # Two UTF-16 units, as in Java.
        ("🙂", 0xD83D * 31 + 0xDE42),
    ],
)
def test_string_hashes_are_javas(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


@given(st.text(max_size=40), st.integers(0, 200))
def test_a_text_of_any_length_is_hashed_unit_by_unit(text: str, repeated: int) -> None:
    text += "x" * repeated + text
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) % 2**32
    assert java_string_hash(text) % 2**32 == value


def test_the_one_hash_without_an_absolute_value_belongs_to_partition_0() -> None:
    assert coordinator_partition("polygenelubricants", 50) == 0


@given(st.binary(max_size=64), st.text(max_size=64), st.integers(1, 1000))
def test_a_partition_is_one_that_exists(key: bytes, identifier: str, count: int) -> None:
    assert 0 <= partition_for_key(key, count) < count
    assert 0 <= coordinator_partition(identifier, count) < count
