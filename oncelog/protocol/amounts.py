"""Durations and sizes as people write and read them: `7d`, `1GiB`.

Owns: the units, what a text of them means, the text for a number. Does not own: where they are typed (commands) and
shown (`oncelog.tools.terminal`).
Invariant: what is typed is stored to the millisecond and byte, or refused; what a setting counts is in its name, as
all of Kafka's have it.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

_NUMBER = re.compile(r"(\d+)(?:\.(\d+))?\s*([A-Za-z]+)")


class _Measure(NamedTuple):
    name: str
    units: Mapping[str, int]
    words: str


_DURATION = _Measure(
    "duration",
    {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000},
    "ms, s, m, h or d behind it, such as 7d",
)
_SIZE = _Measure(
    "size",
    {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40},
    "KiB, MiB, GiB or TiB behind it, such as 1GiB",
)
_SETTINGS = (
    ((".ms",), _DURATION, "milliseconds", 1),
    ((".seconds",), _DURATION, "seconds", 1_000),
    ((".minutes",), _DURATION, "minutes", 60_000),
    ((".hours",), _DURATION, "hours", 3_600_000),
    ((".bytes", ".buffer.size", ".receive.size", "_byte_rate"), _SIZE, "bytes", 1),
)
"""The measure of a setting and the unit in which it is stored, by the end of its name."""

_STEPS_MS = ((86_400_000, "d", 3_600_000, "h"), (3_600_000, "h", 60_000, "min"), (60_000, "min", 1_000, "s"))


def duration_ms(text: str) -> int:
    """Parse `30s`, `500ms`, `2m`, `1.5h`, `7d`. Raises ValueError with a sentence."""
    return _amount(text, _DURATION, "milliseconds", 1, "a number with")


def setting_value(name: str, text: str) -> str:
    """Return the number that is stored for a duration or a size; another text as it is. Raises ValueError."""
    found = _setting(name)
    if found is None or not (text[:1].isdecimal() and text[-1:].isalpha()):
        return text
    measure, unit, factor = found
    try:
        return str(_amount(text, measure, unit, factor, f"a number of {unit}, or one with"))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def setting_text(name: str, value: str) -> str:
    """Return the value of a setting in the largest unit that has it exactly: `7d` for 604800000."""
    found = _setting(name)
    if found is None or not value.isdecimal() or not int(value):
        return value
    measure, _, factor = found
    amount = int(value) * factor
    fitting = [(size, unit) for unit, size in measure.units.items() if size > factor and amount % size == 0]
    if not fitting:
        return value
    size, unit = max(fitting)
    return f"{amount // size}{unit}"


def _setting(name: str) -> tuple[_Measure, str, int] | None:
    for ends, measure, unit, factor in _SETTINGS:
        if name.endswith(ends):
            return measure, unit, factor
    return None


def _amount(text: str, measure: _Measure, unit: str, factor: int, allowed: str) -> int:
    match = _NUMBER.fullmatch(text)
    if match is None or match[3] not in measure.units:
        raise ValueError(f"{text!r} is not a {measure.name}: write {allowed} {measure.words}")
    digits = match[2] or ""
    amount, rest = divmod(int(match[1] + digits) * measure.units[match[3]], factor * int(f"1{'0' * len(digits)}"))
    if rest:
        raise ValueError(f"{text!r} is not a whole number of {unit}")
    return amount


# --- for reading ------------------------------------------------------------------------------------------------------


def duration_text(milliseconds: float) -> str:
    """Return a duration as `850 ms`, `12.4 s`, `3 min 20 s`, `2 d 5 h`."""
    whole_ms = int(milliseconds)
    for unit_ms, unit, part_ms, part in _STEPS_MS:
        if whole_ms >= unit_ms:
            return f"{whole_ms // unit_ms} {unit} {whole_ms % unit_ms // part_ms} {part}"
    return f"{whole_ms} ms" if whole_ms < 1_000 else f"{milliseconds / 1_000:.1f} s"


def size_text(size_bytes: int) -> str:
    """Return a size as `512 bytes`, `1.5 KiB`, `20.0 GiB`."""
    if size_bytes < 1024:
        return f"{size_bytes} bytes"
    *_, (unit, factor) = [(unit, factor) for unit, factor in _SIZE.units.items() if size_bytes >= factor]
    return f"{size_bytes / factor:.1f} {unit}"
