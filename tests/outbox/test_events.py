"""The bytes of an event in the log: what `oncelog.produce` writes is read, and nothing else is taken for it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.outbox.rows import headers_of
from oncelog.tools.outbox.events import encoded, event_of_message

TEXT = st.text(st.characters(exclude_categories=("Cs",)))
SOME = st.none() | st.binary()


@given(
    TEXT.filter(bool),
    SOME,
    SOME,
    st.none() | st.lists(st.tuples(TEXT, st.none() | TEXT)),
    st.none() | st.integers(0, 2**31 - 1),
)
def test_a_message_comes_back(
    topic: str,
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, str | None]] | None,
    partition: int | None,
) -> None:
    data = encoded(topic, key, value, None if headers is None else json.dumps(headers), partition)
    event = event_of_message(7, 3, data, 99)
    pairs = [(name, None if text is None else text.encode()) for name, text in headers or ()]
    found = event.topic, event.key, event.value, event.partition, [*event.headers]
    assert found == (topic, key, value, partition, pairs)
    assert (event.transaction, event.ordinal, event.timestamp_ms, event.problem) == (7, 3, 99, "")


CUT = st.builds(lambda cut: encoded("topic", b"key", b"value", "[]")[:cut], st.integers(0, 30))


@given(st.binary() | CUT)
def test_other_bytes_are_an_event_with_a_problem(data: bytes) -> None:
    event = event_of_message(7, 3, data, 99)
    assert event.problem.startswith("a message with the prefix of the outbox that oncelog.produce did not write: ")
    assert (event.topic, event.value) == ("", data)


@pytest.mark.parametrize(
    "text",
    ["5", "null", "[1]", "[[1, 2, 3]]", '[[1, "x"]]', '[["x", 1]]', "{", "[" * 100_000, '{"a": "1"}', "1" * 5_000],
)
def test_other_headers_are_refused(text: str) -> None:
    with pytest.raises(ValueError):  # JSON's own, or ours
        headers_of(text)
