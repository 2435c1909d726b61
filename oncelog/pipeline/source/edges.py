"""Where reading begins and ends: `startingOffsets`, `endingOffsets` and what they have by time, as offsets.

Owns: which of the options counts (time before offsets, one time before many, as in Spark's Kafka source), and the
sentences about edges that are not in the log. Does not own: positions after the first batch.
"""

from collections.abc import Mapping

from oncelog.client import TopicPartition
from oncelog.pipeline.option_values import EARLIEST, LATEST
from oncelog.pipeline.options import OptionError, Options
from oncelog.pipeline.source.lookup import Brokers, by_topic
from oncelog.pipeline.source.losses import Logs
from oncelog.pipeline.source.offsets import ByPartition

Edges = dict[str, ByPartition]


def starts(options: Options, logs: Logs, lookup: Brokers) -> Edges:
    """Return the first offset of each partition. Raises OptionError."""
    times = _times(options, "startingTimestamp", "startingOffsetsByTimestamp", logs)
    if times is None:
        spec = options["startingOffsets"] or ("earliest" if options.door == "read" else "latest")
        return _at(spec, "startingOffsets", logs, may_be_lost=not options["failOnDataLoss"])
    found = lookup.offsets_by_time(times)
    for each, offset in found.items():
        if offset < 0:
            if options["startingOffsetsByTimestampStrategy"] == "error":
                raise OptionError(
                    f"no record of {each.topic}-{each.partition} has time {times[each]} ms or later: choose an earlier "
                    "time, or startingOffsetsByTimestampStrategy=latest to read only what is written from now on"
                )
            found[each] = logs[each.topic].stable[each.partition]
    return by_topic(found)


def ends(options: Options, logs: Logs, lookup: Brokers) -> Edges:
    """Return the offset after the last of each partition, for a batch. Raises OptionError."""
    times = _times(options, "endingTimestamp", "endingOffsetsByTimestamp", logs)
    if times is None:
        # A range must be decided to its end: no transaction may be open in it.
        return _at(options["endingOffsets"], "endingOffsets", logs, may_be_lost=False)
    found = lookup.offsets_by_time(times)
    stable = {each: logs[each.topic].stable[each.partition] for each in found}
    return by_topic({each: stable[each] if offset < 0 else offset for each, offset in found.items()})


def check_order(first: Edges, after: Edges) -> None:
    """Raises OptionError for a partition that ends before it begins."""
    for topic, offsets in after.items():
        for index, offset in offsets.items():
            if offset < first[topic][index]:
                raise OptionError(f"{topic}-{index} would begin at offset {first[topic][index]} and end at {offset}")


def _times(options: Options, one: str, many: str, logs: Logs) -> Mapping[TopicPartition, int] | None:
    partitions = [TopicPartition(name, index) for name, log in logs.items() for index in log.stable]
    if options[one] is not None:
        return dict.fromkeys(partitions, options[one])
    if options[many] is None:
        return None
    given = _all_of(options[many], many, logs)
    return {each: given[each.topic][each.partition] for each in partitions}


def _at(spec: str | Mapping[str, ByPartition], name: str, logs: Logs, *, may_be_lost: bool) -> Edges:
    if spec == "earliest":
        return {topic: log.earliest for topic, log in logs.items()}
    if isinstance(spec, str):
        return {topic: log.stable for topic, log in logs.items()}
    given = _all_of(spec, name, logs)
    found: dict[str, dict[int, int]] = {}
    for topic, log in logs.items():
        for index, first in log.earliest.items():
            offset = {EARLIEST: first, LATEST: log.stable[index]}.get(given[topic][index], given[topic][index])
            last = log.end[index] if name == "startingOffsets" else log.stable[index]
            if not first <= offset <= last:
                if not may_be_lost:
                    raise OptionError(f"{name}: {topic}-{index} has offsets {first} to {last}, not {offset}")
                offset = min(max(offset, first), last)
            found.setdefault(topic, {})[index] = offset
    return {**found}


def _all_of(given: Mapping[str, ByPartition], name: str, logs: Logs) -> Mapping[str, ByPartition]:
    """Raises OptionError unless exactly the partitions that are read are named."""
    wanted = {(topic, index) for topic, log in logs.items() for index in log.stable}
    named = {(topic, index) for topic, numbers in given.items() for index in numbers}
    if wanted != named:
        lacking = ", ".join(f"{topic}-{index}" for topic, index in sorted(wanted - named))
        other = ", ".join(f"{topic}-{index}" for topic, index in sorted(named - wanted))
        raise OptionError(
            f"{name} must name every partition that is read"
            + (f"; it lacks {lacking}" if lacking else "")
            + (f"; {other} is not read" if other else "")
        )
    return given
