"""The values that options take: each function turns the text of one into a value, or raises ValueError with the reason.

Owns: the forms (JSON by topic and partition, durations, patterns), as Spark's Kafka source reads them.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

MARKER_TOPIC = "__spark_sink_markers"
"""The default of the option markerTopic."""
EARLIEST = -2
LATEST = -1
ByPartition = Mapping[str, Mapping[int, int]]
"""A number for each partition of each topic."""
_DURATION = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?")
_UNIT_MS = {"ms": 1, None: 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_JAVA_QUOTE = re.compile(r"\\Q(.*?)\\E", re.DOTALL)
_JAVA_SET = re.compile(r"(?:\\.|[^\\[]|\[(?:\\.|[^\\[\]])*\])*\[(?:\\.|[^\\[\]])*?(?:\[|&&)")
"""A union or an intersection of sets, to which Python gives another meaning."""


def text(value: str) -> str:
    if not value.strip():
        raise ValueError("it is empty")
    return value.strip()


def output_name(value: str) -> str:
    if "/" in value:
        raise ValueError("it has a /, which ends the runId before it in the marker's key")
    return text(value)


def exactly(value: str) -> str:
    """Return the value unchanged: a password may begin with a space."""
    return value


def boolean(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError("true or false is needed")
    return value.lower() == "true"


def positive(value: str) -> int:
    if not value.strip().isdecimal() or int(value) < 1:
        raise ValueError("a whole number above 0 is needed")
    return int(value)


def timestamp_ms(value: str) -> int:
    if not value.strip().isdecimal():
        raise ValueError("milliseconds since 1970 are needed, a whole number")
    return int(value)


def duration_ms(value: str) -> int:
    """Parse `15m`, `30s`, `500ms`; a bare number is milliseconds."""
    match = _DURATION.fullmatch(value.strip().lower())
    if match is None:
        raise ValueError("a duration is needed, such as 15m, 30s or 500ms")
    return int(match[1]) * _UNIT_MS[match[2]]


def one_of(*allowed: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value.strip().lower() not in allowed:
            raise ValueError(f"it must be {' or '.join(allowed)}")
        return value.strip().lower()

    return parse


def topics(value: str) -> tuple[str, ...]:
    """Parse names separated by commas, in order, each once."""
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    if not names:
        raise ValueError("no topic is named")
    return names


def pattern(value: str) -> str:
    """Parse a regular expression; of Java's syntax, what Python has too, and quotes (`\\Q...\\E`)."""
    expression = _JAVA_QUOTE.sub(lambda match: re.escape(match[1]), value.strip())
    if _JAVA_SET.match(expression):
        raise ValueError("a set within a set, or && in one, is Java's alone: write one set")
    try:
        re.compile(expression)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return text(expression)


def assignment(value: str) -> dict[str, tuple[int, ...]]:
    """Parse `{"topic": [0, 1]}`."""
    example = 'JSON of partitions by topic is needed, such as {"topic": [0, 1]}'
    parsed = _json_object(value, example)
    for partitions in parsed.values():
        if not isinstance(partitions, list) or not all(type(each) is int and each >= 0 for each in partitions):
            raise ValueError(example)
    found = {topic: tuple(sorted(set(partitions))) for topic, partitions in parsed.items() if partitions}
    if not found:
        raise ValueError("no partition is named")
    return found


def offsets(value: str) -> "str | ByPartition":
    """Parse `earliest`, `latest`, or `{"topic": {"0": 23}}`, where -2 is earliest and -1 latest."""
    word = value.strip().lower()
    if word in ("earliest", "latest"):
        return word
    return _by_partition(value, 'earliest, latest, or JSON is needed, such as {"topic": {"0": 23, "1": -2}}', EARLIEST)


def timestamps(value: str) -> ByPartition:
    """Parse `{"topic": {"0": 1577836800000}}`."""
    return _by_partition(value, 'JSON of milliseconds is needed, such as {"topic": {"0": 1577836800000}}', 0)


def _by_partition(value: str, example: str, least: int) -> ByPartition:
    found: dict[str, dict[int, int]] = {}
    for topic, numbers in _json_object(value, example).items():
        if not isinstance(numbers, dict):
            raise ValueError(example)
        for partition, number in numbers.items():
            if not partition.isdecimal() or type(number) is not int or number < least:
                raise ValueError(example)
            found.setdefault(topic, {})[int(partition)] = number
    if not found:
        raise ValueError("no partition is named")
    return found


def _json_object(value: str, example: str) -> dict[str, Any]:
    try:
        parsed = json.loads(value)
    except ValueError:
        raise ValueError(example) from None
    if not isinstance(parsed, dict):
        raise ValueError(example)
    return parsed
