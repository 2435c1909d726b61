"""Where a share-partition begins that was never read: `share.auto.offset.reset` (KIP-932, KIP-1106 for durations).

Owns: Kafka's syntax, of which Java's `Duration.parse` is part. Does not own: the offset that follows.
"""

import re
from typing import Final, NamedTuple

LATEST: Final = "latest"
EARLIEST: Final = "earliest"
BY_DURATION: Final = "by_duration"
_WHOLE = "([+-]?[0-9]{1,20})"
_SECONDS = "(?:([+-]?)([0-9]{1,20})(?:[.,]([0-9]{0,9}))?S)?"
_DURATION = re.compile(
    f"([+-]?)P(?:{_WHOLE}D)?(T(?:{_WHOLE}H)?(?:{_WHOLE}M)?{_SECONDS})?",
    re.ASCII | re.IGNORECASE,
)
_DAY_MS, _HOUR_MS, _MINUTE_MS, _SECOND_MS = 86_400_000, 3_600_000, 60_000, 1_000
_LONGEST_MS = (2**63 - 1) * _SECOND_MS


class OffsetReset(NamedTuple):
    kind: str
    """LATEST, EARLIEST or BY_DURATION."""
    duration_ms: int = 0
    """With BY_DURATION: how far back, from now."""


def parse_offset_reset(text: str) -> OffsetReset:
    """Raises ValueError with Kafka's message."""
    if text in (LATEST, EARLIEST):
        return OffsetReset(text)
    kind, _, duration = text.partition(":")
    duration_ms = _duration_ms(duration) if kind == BY_DURATION else None
    if duration_ms is None or not 0 <= duration_ms <= _LONGEST_MS:
        raise ValueError(
            f"Invalid value `{text}` for configuration share.auto.offset.reset. The value must be either 'earliest', "
            "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        )
    return OffsetReset(BY_DURATION, duration_ms)


def _duration_ms(text: str) -> int | None:
    """Return what Java's Duration.parse reads, cut to milliseconds; None for another text."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    sign, days, time, hours, minutes, second_sign, seconds, fraction = match.groups()
    if (time or "").upper() == "T" or not (days or hours or minutes or seconds):
        return None
    second_ns = int(seconds or 0) * 1_000_000_000 + int((fraction or "").ljust(9, "0"))
    if second_sign == "-":
        second_ns = -second_ns
    whole_ms = int(days or 0) * _DAY_MS + int(hours or 0) * _HOUR_MS + int(minutes or 0) * _MINUTE_MS
    total_ns = whole_ms * 1_000_000 + second_ns
    return (-total_ns if sign == "-" else total_ns) // 1_000_000
