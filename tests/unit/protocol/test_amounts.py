"""Durations and sizes as people write them: exactly what is stored, or refused with what is allowed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.protocol.amounts import duration_ms, duration_text, setting_text, setting_value, size_text
from tests.support.tables import rows

STORED = {
    ("retention.ms", "7d"): "604800000",
    ("retention.ms", "1.5h"): "5400000",
    ("retention.ms", "90 s"): "90000",
    ("retention.ms", "250ms"): "250",
    ("log.retention.hours", "7d"): "168",
    ("offsets.retention.minutes", "2h"): "120",
    ("sasl.oauthbearer.clock.skew.seconds", "1m"): "60",
    ("segment.bytes", "1GiB"): "1073741824",
    ("max.message.bytes", "1.5MiB"): "1572864",
    ("log.cleaner.dedupe.buffer.size", "128MiB"): "134217728",
    ("producer_byte_rate", "512KiB"): "524288",
}


@rows("given, stored", list(STORED.items()))
def test_a_setting_is_stored_in_the_unit_of_its_name(given: tuple[str, str], stored: str) -> None:
    """A person's text becomes the number that Kafka has for it."""
    assert setting_value(*given) == stored


@rows(
    "name, text",
    [
        ("retention.ms", "604800000"),
        ("retention.ms", "-1"),
        ("retention.ms", "soon"),
        ("retention.ms", ""),
        ("cleanup.policy", "compact"),
        ("min.insync.replicas", "2x"),
        ("transaction.version", "7d"),
        ("consumer_byte_rate", "1.5"),
        ("group.max.size", "1GiB"),
    ],
)
def test_what_is_no_such_amount_is_left_to_the_broker(name: str, text: str) -> None:
    """A plain number, a word, and a setting that counts something else pass unchanged."""
    assert setting_value(name, text) == text


@rows(
    "name, text, sentence",
    [
        (
            "retention.ms",
            "7x",
            "retention.ms: '7x' is not a duration: write a number of milliseconds, or one with ms, s, m, h or d behind "
            "it, such as 7d",
        ),
        (
            "segment.bytes",
            "1GB",
            "segment.bytes: '1GB' is not a size: write a number of bytes, or one with KiB, MiB, GiB or TiB behind it, "
            "such as 1GiB",
        ),
        ("log.retention.hours", "90m", "log.retention.hours: '90m' is not a whole number of hours"),
        ("retention.ms", "0.1ms", "retention.ms: '0.1ms' is not a whole number of milliseconds"),
        ("retention.ms", "1GiB", "retention.ms: '1GiB' is not a duration: "),
    ],
)
def test_another_unit_is_refused_with_what_is_allowed(name: str, text: str, sentence: str) -> None:
    """1GB has two meanings, and half a unit cannot be stored: both are named."""
    with pytest.raises(ValueError) as raised:
        setting_value(name, text)
    assert str(raised.value).startswith(sentence)


def test_a_duration_alone_has_a_unit() -> None:
    """A setting's unit is in its name; without a setting no unit is known."""
    assert duration_ms("1.5h") == 5_400_000
    with pytest.raises(ValueError, match="write a number with ms, s, m, h or d behind it"):
        duration_ms("30")


@given(
    st.sampled_from([name for name, _ in STORED] + ["cleanup.policy", "num.partitions"]),
    st.one_of(st.integers(-1, 2**63 - 1), st.integers(0, 400).map(lambda days: days * 86_400_000)).map(str),
)
def test_what_is_shown_of_a_setting_can_be_typed_again(name: str, value: str) -> None:
    """The text of a value means that value, whatever its unit."""
    assert setting_value(name, setting_text(name, value)) == value


def test_a_setting_is_shown_in_the_largest_unit_that_has_it_exactly() -> None:
    """Nothing is rounded, and a number that has no larger unit stays as it is."""
    shown = {("retention.ms", "604800000"): "7d", ("max.message.bytes", "1048588"): "1048588"}
    shown |= {("log.retention.hours", "36"): "36", ("segment.bytes", "1073741824"): "1GiB", ("x.ms", "1500"): "1500"}
    assert {each: setting_text(*each) for each in shown} == shown


def test_numbers_are_read_in_one_or_two_units() -> None:
    """A person reads how long and how large, and no long number."""
    assert [duration_text(each) for each in (0, 12_449, 200_000, 190_000_000)] == [
        "0 ms",
        "12.4 s",
        "3 min 20 s",
        "2 d 4 h",
    ]
    assert [size_text(each) for each in (0, 1023, 1536, 3 << 40, 3 << 50)] == [
        "0 bytes",
        "1023 bytes",
        "1.5 KiB",
        "3.0 TiB",
        "3072.0 TiB",
    ]
