"""Arguments in the shape that other clients take them: named at once, with what to write here.

Owns: the checks of partitions, offsets, durations, counts, topics and settings that a program passes. Does not own:
options (`option_values`), records (`producing.intake`). Invariant: what passes is as its type says, so that no code
behind it meets a value that it cannot use.
"""

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

from oncelog.client.values.errors import ConfigError, check_each, unknown_option
from oncelog.client.values.records import OffsetAndMetadata, Offsets, Record, RecordOptions, TopicPartition, as_offset

if TYPE_CHECKING:
    from datetime import datetime

ConfigValue = str | int | float
"""A setting's value: numbers and bools are written as Kafka reads them."""
_MAX_STRING_BYTES = 2**15 - 1
"""The most bytes of a string, whose length has 16 bits in the protocol."""
_LAST_OFFSET = 2**63 - 1
"""The highest offset or timestamp, which have 64 bits."""
_PLACE = 'TopicPartition("topic", 0)'


def partition_of(value: Any, hint: str = f"{_PLACE}, one after the other") -> TopicPartition:
    """Return a TopicPartition for one, or for a pair that equals one. Raises ConfigError."""
    if isinstance(value, TopicPartition):
        return value
    if isinstance(value, Record):
        hint = "record.topic_partition"
    elif isinstance(value, tuple) and [type(each) for each in value] == [str, int]:
        return TopicPartition(*value)
    raise ConfigError(f"a TopicPartition is due, not a {type(value).__name__}", hint=hint)


def partitions_of(method: str, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Raises ConfigError for one partition instead of several, and for what is none."""
    if isinstance(partitions, tuple | str) and not all(isinstance(each, tuple) for each in partitions):
        kind = type(partitions).__name__
        raise ConfigError(f"{method}() takes a list of partitions, not a {kind}", hint=f"{method}([{_PLACE}])")
    return [partition_of(each, f"{method}([{_PLACE}])") for each in partitions]


def offsets_of(method: str, offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """Raises ConfigError for what is no mapping from partitions to offsets."""
    if isinstance(offsets, Record):
        raise ConfigError(
            f"{method}() takes offsets by partition, not a record",
            hint=f"{method}({{record.topic_partition: record.offset + 1}})",
        )
    if not isinstance(offsets, Mapping):
        text = f"{method}() takes offsets by partition, not a {type(offsets).__name__}"
        raise ConfigError(text, hint=f"{method}({{{_PLACE}: 42}})")
    found = {partition_of(place, f"{{{_PLACE}: 42}}"): as_offset(offset) for place, offset in offsets.items()}
    for (topic, partition), (offset, metadata, _) in found.items():
        check_offset(f"{method}(): the offset of {topic}-{partition}", offset)
        if not isinstance(metadata, str) or len(metadata.encode(errors="replace")) > _MAX_STRING_BYTES:
            raise ConfigError(
                f"{method}(): the metadata of {topic}-{partition} is no str of at most {_MAX_STRING_BYTES} bytes",
                hint="brokers accept 4,096 by default (offset.metadata.max.bytes)",
            )
    return found


def check_offset(name: str, offset: Any, hint: str = "") -> None:
    """Raise ConfigError for what is no offset of a record."""
    if not _is_int(offset) or offset < 0:
        raise ConfigError(f"{name} is {offset!r}, not an int from 0", hint=hint)
    if offset > _LAST_OFFSET:
        raise ConfigError(f"{name} is {offset}, and the largest is {_LAST_OFFSET}", hint=hint)


def milliseconds_of(name: str, when: "datetime | int") -> int:
    """Return milliseconds since the epoch; a datetime needs a time zone. Raises ConfigError."""
    from datetime import datetime  # most commands need none

    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise ConfigError(f"{when} has no time zone", hint="datetime.now(UTC), or milliseconds since the epoch")
        return round(when.timestamp() * 1000)
    if not _is_int(when) or abs(when) > _LAST_OFFSET:
        hint = "int(time.time() * 1000)" if isinstance(when, float) else ""
        raise ConfigError(f"{name}={when!r}: must be a datetime, or an int of milliseconds since the epoch", hint=hint)
    return when


def known_names(option: str, names: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return names, given in any case, as Kafka spells them. Raises ConfigError: brokers find nothing for a name that
    they do not know."""
    if isinstance(names, str):
        raise ConfigError(f"{option}={names!r}: must be a list of str", hint=f"{option}=[{names!r}]")
    spelled = {name.lower(): name for name in known}
    for name in names:
        if not isinstance(name, str) or name.lower() not in spelled:
            raise ConfigError(f"{option}={[*names]!r}: there is no {name!r}", hint=f"there are {', '.join(known)}")
    return [spelled[name.lower()] for name in names]


def config_values(configs: Mapping[str, ConfigValue]) -> dict[str, str]:
    """Return settings as the protocol carries them: numbers and bools become text. Raises ConfigError for anything
    else."""
    for name, value in configs.items():
        if not isinstance(value, str | int | float):
            raise ConfigError(f"{name}={value!r}: must be a str, a number or a bool", hint="reset=[...] removes one")
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in configs.items()}


def check_topics(client: str, topics: Sequence[str]) -> None:
    """Raise ConfigError unless these are names: other clients take a list of them, or addresses first."""
    check_each(client, topics, str)
    for topic in topics:
        if ":" in topic:  # no name has one
            raise ConfigError(
                f"{topic!r} is no topic, and looks like an address: {client}() takes topics",
                hint=f'{client}("topic", bootstrap_servers={topic!r})',
            )


def check_topic(topic: Any) -> None:
    """Raise ConfigError for what is no str."""
    if not isinstance(topic, str):
        hint = "topic.decode()" if isinstance(topic, bytes) else "its name"
        raise ConfigError(f"topic is {type(topic).__name__}, and must be a str", hint=hint)


def check_record_options(method: str, options: Mapping[str, object]) -> None:
    """Raise ConfigError for one that no `send` has."""
    for name in options:
        if name not in RecordOptions.__optional_keys__:
            raise unknown_option(f"{method}()", name, RecordOptions.__optional_keys__)


def check_milliseconds(name: str, value: Any) -> None:
    """Raise ConfigError for what is no duration in milliseconds. Floats are not: many clients take seconds, of which a
    thousandth would be left here."""
    if _is_int(value) and value >= 0:
        return
    hint = f"{name}={round(value * 1000)}, if these are seconds" if isinstance(value, float) and value > 0 else ""
    raise ConfigError(f"{name}={value!r}: must be an int from 0, in milliseconds", hint=hint)


def check_count(name: str, value: Any) -> None:
    """Raise ConfigError for what is no number of records: with 0 a call would wait for ever."""
    if not _is_int(value) or value < 1:
        raise ConfigError(f"{name}={value!r}: must be an int from 1")


def _is_int(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
