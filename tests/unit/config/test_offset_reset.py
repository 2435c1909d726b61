"""`share.auto.offset.reset` is read as Kafka's ShareGroupAutoOffsetResetStrategy does."""

import pytest

from oncelog.broker.config.offset_reset import OffsetReset, parse_offset_reset


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("latest", OffsetReset("latest")),
        ("earliest", OffsetReset("earliest")),
        ("by_duration:P1D", OffsetReset("by_duration", 86_400_000)),
        ("by_duration:PT1H30M", OffsetReset("by_duration", 5_400_000)),
        ("by_duration:p2dt3h4m5.678s", OffsetReset("by_duration", ((2 * 24 + 3) * 60 + 4) * 60_000 + 5_678)),
        ("by_duration:PT0S", OffsetReset("by_duration", 0)),
        ("by_duration:PT1M-30.5S", OffsetReset("by_duration", 29_500)),
        ("by_duration:-PT-1S", OffsetReset("by_duration", 1_000)),
        ("by_duration:PT1.S", OffsetReset("by_duration", 1_000)),
        ("by_duration:PT0,000000001S", OffsetReset("by_duration", 0)),
    ],
)
def test_what_java_reads_is_read(text: str, read: OffsetReset) -> None:
    assert parse_offset_reset(text) == read


@pytest.mark.parametrize(
    "text",
    [
        *("", "LATEST", "none", "by_duration", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:P1DT"),
        *("by_duration:PT-1S", "by_duration:-PT1S", "by_duration:1H", "by_duration:P1H", "by_duration:P1Y"),
        *("by_duration:PT1.1234567890S", "by_duration:PT.5S", "by_duration:P99999999999999999D", "earliest:P1D"),
    ],
)
def test_what_java_refuses_is_refused_in_kafkas_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Invalid value `") as refused:
        parse_offset_reset(text)
    assert str(refused.value).endswith("or of the format 'by_duration:<PnDTnHnMn.nS>'.")
