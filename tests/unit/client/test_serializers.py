"""Serializers: what is sent is read again, and what is not is named with its record."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog import INT64, JSON, STRING, DeserializationError, ProducerRecord, Record, Serde, SerializationError
from oncelog.client.options.serializers import deserializing, serializing
from oncelog.client.values.records import Header

OBJECTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(), each, max_size=3),
    max_leaves=10,
)
SAMPLES: dict[str, tuple[Serde[Any], st.SearchStrategy[Any]]] = {
    "json": (JSON, OBJECTS),
    "string": (STRING, st.text()),
    "int64": (INT64, st.integers(-(2**63), 2**63 - 1)),
}


@pytest.mark.parametrize("name", SAMPLES)
@given(data=st.data())
def test_what_is_written_by_each_of_ours_is_read_again(name: str, data: st.DataObject) -> None:
    serde, objects = SAMPLES[name]
    value = data.draw(objects)
    assert serde.deserialize("t", (), serde.serialize("t", [], value)) == value


def test_an_int64_has_the_bytes_of_java() -> None:
    assert INT64.to_bytes(-2) == b"\xff\xff\xff\xff\xff\xff\xff\xfe"


def test_without_serializers_nothing_is_called() -> None:
    assert serializing(None, None) is None
    assert deserializing(None, None) is None


def test_a_tombstone_passes_by_the_serializers_on_both_sides() -> None:
    serialized = serializing(STRING, STRING)
    deserialized = deserializing(STRING, STRING)
    assert serialized is not None and deserialized is not None
    assert serialized(ProducerRecord("t", None, "k"))[1:3] == (None, b"k")
    assert deserialized(Record("t", 0, 7, 1, b"k", None))[4:6] == ("k", None)


class Marked:
    """Puts the topic into a header, and reads it from there."""

    def serialize(self, topic: str, headers: list[Header], data: str, /) -> bytes:
        headers.append(("of", topic.encode()))
        return data.encode()

    def deserialize(self, topic: str, headers: Any, data: bytes, /) -> tuple[str, str]:
        return data.decode(), dict(headers)["of"].decode()


def test_a_serializer_of_topics_adds_headers_and_reads_them() -> None:
    serialized = serializing(None, Marked())
    deserialized = deserializing(None, Marked())
    assert serialized is not None and deserialized is not None
    given_headers = (("a", b"1"),)
    sent = serialized(ProducerRecord("t", "v", b"k", headers=given_headers))
    assert list(sent.headers) == [("a", b"1"), ("of", b"t")]
    assert (sent.value, sent.key, given_headers) == (b"v", b"k", (("a", b"1"),))
    assert deserialized(Record("t", 0, 7, 1, b"k", sent.value, sent.headers)).value == ("v", "t")


def test_what_a_serializer_raises_names_the_topic_and_the_part() -> None:
    serialized = serializing(INT64, None)
    assert serialized is not None
    with pytest.raises(SerializationError, match="the key of a record for 'orders'") as raised:
        serialized(ProducerRecord("orders", b"v", 2**63))
    assert raised.value.__cause__ is not None


def test_what_a_deserializer_raises_names_the_place_and_how_to_get_past_it() -> None:
    deserialized = deserializing(None, JSON)
    assert deserialized is not None
    record = Record("orders", 3, 41, 1, b"k", b"{")
    with pytest.raises(DeserializationError, match=r"orders-3 at offset 41: the value.*seek\(.*, 42\)") as raised:
        deserialized(record)
    assert (raised.value.topic_partition, raised.value.offset, raised.value.record) == (("orders", 3), 41, record)
    assert raised.value.abortable
