"""What a search finds in a log, and that it finds it step by step within its limits."""

import json
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata
from oncelog.broker.coordinator.transaction.records import to_record
from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.client.values.records import TopicPartition
from oncelog.console.messages import MOST_BATCH_BYTES
from oncelog.console.query import BadQuery
from oncelog.console.searching import Look, Wanted, look_through, path_of
from oncelog.protocol.records.control import ControlRecordType
from oncelog.protocol.topics import TRANSACTION_STATE
from oncelog.tools.log.map.partition import State
from tests.unit.console.batches import PLACE, Log

ORDER = b'{"order": 17, "customer": {"city": "Zug", "a.b": null}, "lines": [{"sku": "x"}, {"sku": "y"}], "paid": true}'


def looked(log: Log, wanted: Wanted, start: int = 0, most: int = 100) -> Look:
    return look_through(log.place, log.batches(), start, wanted, most)


def offsets(log: Log, **criteria: object) -> list[int]:
    return [each.offset for each in looked(log, Wanted(**criteria)).found]  # type: ignore[arg-type]


def test_text_is_found_in_keys_values_and_whatever_its_capitals() -> None:
    """A search reads as people do, and leaves out what has the text nowhere."""
    log = Log()
    log.write((b"Apple", b"1"), (b"k", b"an apple a day"), (b"k", b"pear"), (None, None))
    log.write((None, b"\xff\xfeapple\x00"), (None, "ÄPFEL".encode()))
    assert (offsets(log, text="APPLE"), offsets(log, text="äpfel")) == ([0, 1, 4], [5])


@pytest.mark.parametrize(
    ("path", "equals", "is_found"),
    [
        ("order", "", True),
        ("$.order", "17", True),
        ("order", "17.0", True),
        ("order", "1", False),
        ("customer.city", "Zug", True),
        ("customer.city", "zug", False),
        ('customer["a.b"]', "null", True),
        ("customer[*]", "Zug", True),
        ("lines[0].sku", "x", True),
        ("lines[1].sku", "x", False),
        ("lines[2].sku", "", False),
        ("lines[*].sku", "y", True),
        ("lines.*.sku", "z", False),
        ("lines[0]", '{"sku": "x"}', True),
        ("paid", "true", True),
        ("paid", "1", False),
        ("order.city", "", False),
    ],
)
def test_a_path_leads_to_what_the_value_has_there(path: str, equals: str, is_found: bool) -> None:
    """Names, places in lists, any of them; and what is there is compared as text or as JSON, true being no 1."""
    log = Log()
    log.write((None, ORDER), (None, b"no JSON"), (None, b"[" * 100_000), (None, None))
    assert offsets(log, path=path_of(path), value=equals) == ([0] if is_found else [])


@pytest.mark.parametrize("text", ["a..b", "a[", "a[x]", 'a["b', ".", "a.", "[-1]"])
def test_a_path_that_is_none_is_refused(text: str) -> None:
    """Rather than that it finds nothing."""
    with pytest.raises(BadQuery, match="is not a path such as"):
        path_of(text)


def test_messages_are_found_by_what_became_of_their_transaction() -> None:
    """Each state finds its own, markers among them, and criteria hold together."""
    log = Log()
    log.write((None, b"plain"))
    log.write((None, b"one"), (None, b"two"), producer_id=1, open_=True)
    log.write((None, b"one"), producer_id=2, open_=True)
    log.end_transaction(1, ControlRecordType.ABORT)
    log.write((None, b"one"), producer_id=3, open_=True)
    log.end_transaction(2, ControlRecordType.COMMIT)
    found = {each.name: offsets(log, state=each) for each in State}
    assert {name: each for name, each in found.items() if each} == {
        "PLAIN": [0],
        "ABORTED": [1, 2],
        "COMMITTED": [3],
        "ABORT_MARKER": [4],
        "OPEN": [5],
        "COMMIT_MARKER": [6],
    }
    assert offsets(log, state=State.ABORTED, text="one") == [1]


def test_records_of_coordinators_are_searched_as_they_are_shown() -> None:
    """Their bytes are no text."""
    record = to_record(TransactionMetadata("till", 7, 3, 60_000, TransactionState.EMPTY, frozenset(), -1, 1_000), 2)
    log = Log(TopicPartition(TRANSACTION_STATE, 4))
    log.write((record.key, record.value))
    assert (
        offsets(log, text='"transactionalId": "till"') == offsets(log, path=path_of("*.producerId"), value="7") == [0]
    )


def test_a_batch_that_cannot_be_opened_is_counted_and_passed() -> None:
    """A few kilobytes that would be gigabytes end no search."""
    log = Log()
    log.write((None, bytes(MOST_BATCH_BYTES)), compression="zstd")
    log.write((None, b"after it"))
    look = looked(log, Wanted(text="after"))
    assert (look.unread_count, look.record_count, look.next_offset, len(look.found)) == (1, 1, 2, 1)


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=5), max_size=12), st.integers(1, 4))
def test_looks_one_after_the_other_find_everything_once(batches: list[list[bool]], most: int) -> None:
    """Wherever a limit ends a look, also in the middle of a batch, the next one continues there."""
    log = Log()
    for batch in batches:
        log.write(*((None, b"wanted" if is_wanted else b"other") for is_wanted in batch))
    found, start, wanted = [], 0, Wanted(text="wanted")
    while start < log.end:
        look = looked(log, wanted, start, most)
        assert look.next_offset > start and len(look.found) <= most
        found += [each.offset for each in look.found]
        start = look.next_offset
    assert found == [offset for offset, is_wanted in enumerate(chain(*batches)) if is_wanted]


def test_a_look_ends_after_the_batch_with_which_it_has_opened_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little was found."""
    monkeypatch.setattr("oncelog.console.searching.MOST_OPENED_BYTES", 2_000)
    log = Log()
    for _ in range(5):
        log.write((None, bytes(900)))
    look = looked(log, Wanted(text="nowhere"))
    assert (look.next_offset, look.record_count) == (3, 3)


def test_what_was_searched_is_what_is_shown() -> None:
    """A found message is a row as on the page of messages."""
    log = Log()
    log.write((b"17", ORDER))
    (message,) = looked(log, Wanted(path=path_of("order"))).found
    assert json.loads("".join(message.value.lines)) == json.loads(ORDER) and message.key.text == "17"
    assert looked(log, Wanted()).place == PLACE
